"""Pairs by their order in the window: edges from a sample, bins, contrasts between classes, matched counts."""

from __future__ import annotations

from typing import Any

import numpy as np

from headscope.measures.loops.arithmetic import products_about_means, total, varies
from headscope.measures.loops.groups import PairsIn, Rules
from headscope.measures.numba_options import compiled, inner

BINS = 16
ROWS = 16  # of attention that are read together


@inner
def read_reading(matrix: Any, norms: Any, scaled: bool, begin: int, n: int, row: Any) -> None:
    """S of each pair in one reading, out of the products of the vectors: (T, T) and (T,) to (P,)."""
    if begin < 0:  # never: it tells the compiler that indices are not negative
        return
    p = 0
    for i in range(n - 1):
        rest, after = n - 1 - i, begin + i + 1
        line, out = matrix[begin + i, after : after + rest], row[p : p + rest]
        if scaled:
            own, others = norms[begin + i], norms[after : after + rest]
            for j in range(rest):
                size = own * others[j]
                s = line[j] / (size if size > 0 else np.float32(1.0))
                out[j] = s if size > 0 else np.float32(0.0)
        else:
            for j in range(rest):
                out[j] = line[j]
        p += rest


@inner
def read_direct(matrix: Any, readable: Any, directions: Any, begin: int, n: int, row: Any) -> None:
    """How much the two tokens of each pair read each other: (T, T) to (P,).

    Some rows at a time, so that what is read along columns is still at hand for the next row.
    """
    if begin < 0:
        return
    for block in range(0, n, ROWS):
        for j in range(block + 1, n):
            read_by_other = matrix[begin + j]
            p = block * (2 * n - block - 1) // 2 + j - block - 1
            for i in range(block, min(block + ROWS, j)):
                row[p] = read_by_other[begin + i]
                p += n - 2 - i
    p = 0
    for i in range(n - 1):
        rest, after = n - 1 - i, begin + i + 1
        own, line, others = readable[begin + i], matrix[begin + i, after : after + rest], readable[after : after + rest]
        out, ways = row[p : p + rest], directions[p : p + rest]
        for j in range(rest):
            out[j] = (line[j] * own + out[j] * others[j]) * ways[j]
        p += rest


@compiled
def sample_heads(
    read: PairsIn, rules: Rules, begins: Any, sampled: Any, places: Any, samples: Any, first: int, last: int
) -> None:
    """The values of the sampled pairs, as `read_reading` and `read_direct` have them, infinite where there are fewer.

    `samples` (B, heads of this part, V, 512) float32; `places` (B, 512, 3).
    """
    source, scaled, readings, shown = rules.source, rules.scaled, len(rules.source), samples.shape[2]
    products, norms, weights, rows = read.products, read.norms, read.weights, read.rows
    readable, directions = read.readable, read.directions
    for b in range(len(sampled)):
        begin, number = begins[b], sampled[b]
        first_tokens, second_tokens, pairs = places[b, :, 0], places[b, :, 1], places[b, :, 2]
        for h in range(first, last):
            for v in range(shown):
                row = samples[b, h - first, v]
                if v < readings:
                    matrix, own = products[source[v], b, h], norms[source[v], b, h]
                    for k in range(number):
                        i, j = begin + first_tokens[k], begin + second_tokens[k]
                        s = matrix[i, j]
                        if scaled[v]:
                            size = own[i] * own[j]
                            s = s / size if size > 0 else np.float32(0.0)
                        row[k] = s
                elif v == readings:
                    matrix = weights[b, h]
                    for k in range(number):
                        i, j = begin + first_tokens[k], begin + second_tokens[k]
                        there, back = matrix[i, j] * readable[b, i], matrix[j, i] * readable[b, j]
                        row[k] = (there + back) * directions[b, pairs[k]]
                else:
                    matrix = rows[b, h]
                    for k in range(number):
                        row[k] = matrix[begin + first_tokens[k], begin + second_tokens[k]]
                for k in range(number, samples.shape[3]):
                    row[k] = np.float32(np.inf)


@inner
def moments_of(values: Any, size: int, lanes: Any, out: Any) -> bool:
    """Mean and Σ (x - mean)² of each row, whether it varies, and Σ x: (V, P) to (V, 4). False where not finite."""
    for v in range(len(values)):
        sum_ = total(values[v], size, lanes)
        if not np.isfinite(sum_):
            return False
        mean = sum_ / size
        out[v, 0], out[v, 3] = mean, sum_
        out[v, 1] = products_about_means(values[v], values[v], size, mean, mean, lanes)
        out[v, 2] = 1.0 if varies(values[v], size) else 0.0
    return True


@inner
def correlation(values: Any, moments: Any, x: int, y: int, size: int, lanes: Any) -> Any:
    """Pearson's correlation of two rows over the pairs; 0 where either is constant."""
    if moments[x, 2] == 0.0 or moments[y, 2] == 0.0:
        return 0.0
    both = products_about_means(values[x], values[y], size, moments[x, 0], moments[y, 0], lanes)
    return both / np.sqrt(moments[x, 1] * moments[y, 1])


@inner
def order_bins(values: Any, size: int, edges: Any, bins: Any) -> None:
    """The number of edges below each value, as int32: fifteen comparisons without a branch beat a search."""
    e0, e1, e2, e3, e4 = edges[0], edges[1], edges[2], edges[3], edges[4]
    e5, e6, e7, e8, e9 = edges[5], edges[6], edges[7], edges[8], edges[9]
    e10, e11, e12, e13, e14 = edges[10], edges[11], edges[12], edges[13], edges[14]
    for p in range(size):
        x = values[p]
        bins[p] = (
            np.int32(x > e0) + np.int32(x > e1) + np.int32(x > e2) + np.int32(x > e3) + np.int32(x > e4)
            + np.int32(x > e5) + np.int32(x > e6) + np.int32(x > e7) + np.int32(x > e8) + np.int32(x > e9)
            + np.int32(x > e10) + np.int32(x > e11) + np.int32(x > e12) + np.int32(x > e13) + np.int32(x > e14)
        )  # fmt: skip


@inner
def count_order(bins: Any, cells: Any, size: int, histogram: Any) -> None:
    """Count pairs by cell and order bin; cells come times sixteen."""
    histogram[:] = 0
    for p in range(size):
        histogram[np.uint32(cells[p] + bins[p])] += 1


@inner
def wins_over_unrelated(histogram: Any, contrasted: Any, unrelated: int, wins: Any) -> None:
    """Wins of the contrasts of relations, from pairs by band, relation and order bin; adds to (contrasts,)."""
    contrasts, relations = contrasted.shape
    twice_below = np.empty(BINS, np.int32)  # twice the unrelated pairs below a bin, and those in it, which are ties
    for start in range(0, len(histogram), relations * BINS):
        zeros = start + unrelated * BINS
        n0 = np.int32(0)
        for k in range(BINS):
            own = histogram[zeros + k]
            twice_below[k] = 2 * n0 + own
            n0 += own
        if n0 == 0:
            continue
        for c in range(contrasts):
            n1, won = 0, 0
            for r in range(relations):
                if contrasted[c, r]:
                    ones = start + r * BINS
                    for k in range(BINS):
                        n1 += histogram[ones + k]
                        won += np.int64(histogram[ones + k]) * twice_below[k]
            wins[c] += 0.5 * won / (n1 + n0)  # share won / (n1·n0), times weight n1·n0 / (n1 + n0)


@inner
def wins_inside(regions: Any, wins: Any, weight: Any, last: int) -> None:
    """Wins of pairs inside the mask over those outside it, and their weight, from pairs by band, region and bin."""
    for band in range(len(regions) // (3 * BINS)):
        zeros, ones = band * 3 * BINS, band * 3 * BINS + 2 * BINS
        n0 = n1 = 0
        won, below = 0.0, 0.0
        for k in range(BINS):
            own, one = regions[zeros + k], regions[ones + k]
            won += one * (below + 0.5 * own)
            below += own
            n0 += own
            n1 += one
        if n0 > 0 and n1 > 0:
            wins[last] += won / (n1 + n0)
            weight[last] += n1 * n0 / (n1 + n0)


@inner
def matched_counts(kinds: Any, weights: Any, out: Any) -> None:
    """a and b of each comparison: high pairs of each kind, weighed; (kinds,), (comparisons, 2, kinds) to (…, 2)."""
    comparisons, _, size = weights.shape
    for c in range(comparisons):
        for side in range(2):
            sum_ = 0.0
            for k in range(size):
                sum_ += kinds[k] * weights[c, side, k]
            out[c, side] += sum_


@inner
def degrees_of_top(bins: Any, n: int, degrees: Any) -> None:
    """In how many top pairs each token is."""
    degrees[:n] = 0
    p = 0
    for i in range(n - 1):
        own, rest = np.int32(0), n - 1 - i
        of_pairs, others = bins[p : p + rest], degrees[i + 1 : n]
        for j in range(rest):
            top = np.int32(of_pairs[j] == BINS - 1)
            others[j] += top
            own += top
        degrees[i] += own
        p += rest
