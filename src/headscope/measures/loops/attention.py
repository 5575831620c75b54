"""Where heads look: what tokens receive, how evenly they read, which are high."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from headscope.measures.numba_options import compiled, inner


class AttentionIn(NamedTuple):
    """One layer's attention, for B windows of Tq queries and Tk keys."""

    weights: Any  # (B, H, Tq, Tk) float32
    bits: Any  # the same memory as int32
    even: Any  # (B, Tk): what each key would receive if everybody read evenly
    readable: Any  # (B, Tq) float32: how many keys each query may read
    value_norms: Any  # (B, Hkv, Tk): lengths of the value vectors; NaN where they are not known
    queries: Any  # (B,): how many tokens read
    keys: Any  # (B,): how many there are to be read
    category: Any  # (B, Tk): of the keys
    counting: Any  # (B, Tk) bool: the keys that count


class AttentionSums(NamedTuple):
    """What `attention_of_heads` adds to, under the names of the variables: one layer of each."""

    attended: Any  # (H, thresholds, categories)
    attended_text: Any  # the same among the tokens that count
    attention_weighted: Any  # (H, categories); NaN where value vectors are not known
    attention_entropy: Any  # (H,)


class AttentionOut(NamedTuple):
    """What `attention_of_heads` leaves of the batch."""

    given: Any  # (B, H, categories): the mean weight a token that reads gives to each category
    high: Any  # (B, H, Tk) int8: 1 for high-attention tokens among those that count, at θ
    passed: Any  # (B, H, Tk) int8: how many thresholds a token that counts passes
    roots: Any  # (B, H, Tq, Tk) float32: square roots of the weights, 0 in padding; empty where they are not wanted


@inner
def _entropy(weights: Any, bits: Any, size: int, factor: float, log: Any, mantissa: Any, parts: Any, out: Any) -> None:
    """Add -a·ln a of one row, times a factor, to each column.

    The logarithm is that of the exponent, and a polynomial for the mantissa which is good to 1e-7.
    """
    whole, one = np.int32(0x7FFFFF), np.int32(0x3F800000)
    for j in range(size):
        mantissa[j] = (bits[j] & whole) | one
    ln2 = np.float32(0.6931471805599453)
    for j in range(size):
        t = parts[j] - np.float32(1.5)
        value = log[0]
        for k in range(1, 9):
            value = value * t + log[k]
        value += np.float32((bits[j] >> np.int32(23)) - np.int32(127)) * ln2
        out[j] -= np.float64(weights[j] * value) * factor


@inner
def _read_rows(read: AttentionIn, roots: Any, b: int, h: int, log: Any, buffers: Any, column: Any, spread: Any) -> None:
    """Column sums of one map, what each column adds to the entropy, and square roots."""
    weights, bits, readable = read.weights, read.bits, read.readable
    mantissa, parts = buffers
    size, wide = read.keys[b], weights.shape[3]
    for i in range(read.queries[b]):
        if readable[b, i] < 1:  # it reads nothing
            if roots.size > 0:
                roots[b, h, i] = np.float32(0.0)
            continue
        row, row_bits = weights[b, h, i], bits[b, h, i]
        for j in range(size):
            column[j] += np.float64(row[j])
        if readable[b, i] >= 2:
            factor = 1.0 / np.log(np.float64(readable[b, i]))
            _entropy(row, row_bits, size, factor, log, mantissa, parts, spread)
        if roots.size > 0:
            for j in range(size):
                roots[b, h, i, j] = np.sqrt(row[j])
            for j in range(size, wide):
                roots[b, h, i, j] = np.float32(0.0)


@compiled
def attention_of_heads(
    read: AttentionIn,
    sums: AttentionSums,
    out: AttentionOut,
    thresholds: Any,
    theta: float,
    log: Any,  # (9,) float32: the polynomial of the logarithm, highest power first
    first: int,
    last: int,
) -> bool:
    """Where the heads `first` to `last` - 1 look. False where a weight is not a finite number."""
    weights, even, category, counting = read.weights, read.even, read.category, read.counting
    readable, value_norms, queries, keys = read.readable, read.value_norms, read.queries, read.keys
    given, high, passed, roots = out.given, out.high, out.passed, out.roots
    attended, attended_text = sums.attended, sums.attended_text
    weighted, entropy = sums.attention_weighted, sums.attention_entropy
    wide, heads, categories = weights.shape[3], weights.shape[1], given.shape[2]
    column, spread, shares = np.empty(wide), np.empty(wide), np.empty(categories)
    mantissa = np.empty(wide, np.int32)
    buffers = (mantissa, mantissa.view(np.float32))
    finite = True
    for h in range(first, last):
        for b in range(len(queries)):
            size = keys[b]
            column[:size] = 0.0
            spread[:size] = 0.0
            _read_rows(read, roots, b, h, log, buffers, column, spread)
            reading = several = 0
            for i in range(queries[b]):
                reading += readable[b, i] >= 1
                several += readable[b, i] >= 2
            even_spread = 0.0
            for j in range(size):
                even_spread += spread[j]
            if several > 0:
                entropy[h] += even_spread / several
            group = h * value_norms.shape[1] // heads
            shares[:] = 0.0
            carried = 0.0
            for j in range(size):
                part = column[j] * value_norms[b, group, j]
                shares[category[b, j]] += part
                carried += part
            if carried != 0:
                for k in range(categories):
                    weighted[h, k] += shares[k] / carried
            most = most_text = 0.0
            for j in range(size):
                finite &= np.isfinite(column[j])
                given[b, h, category[b, j]] += column[j] / max(reading, 1)
                column[j] = column[j] / even[b, j] if even[b, j] > 0 else 0.0  # nobody may read it: it receives nothing
                most = max(most, column[j])
                if counting[b, j]:
                    most_text = max(most_text, column[j])
            for j in range(size):
                received = column[j] / most if most > 0 else 0.0
                for k in range(len(thresholds)):
                    if not received > thresholds[k]:
                        break
                    attended[h, k, category[b, j]] += 1
                if not counting[b, j] or most_text <= 0:
                    continue
                received = received / (most_text / most)
                high[b, h, j] = received > theta
                for k in range(len(thresholds)):
                    if not received > thresholds[k]:
                        break
                    attended_text[h, k, category[b, j]] += 1
                    passed[b, h, j] = k + 1
    return finite
