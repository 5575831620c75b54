"""Focal tokens, and the null in which ids that occur equally often exchange their sums of degrees."""

from __future__ import annotations

from typing import Any

import numpy as np

from headscope.measures.numba_options import compiled, inner


@inner
def mix(x: np.uint64) -> np.uint64:
    """The finaliser of SplitMix64, as `order.mix` has it."""
    x ^= x >> np.uint64(30)
    x *= np.uint64(0xBF58476D1CE4E5B9)
    x ^= x >> np.uint64(27)
    x *= np.uint64(0x94D049BB133111EB)
    x ^= x >> np.uint64(31)
    return x


@inner
def null_order(
    window: np.uint64, layer: int, head: int, firsts: Any, by_count: Any, class_ends: Any, distinct: int, keys: Any,
    null: Any,
) -> None:  # fmt: skip
    """`by_count` with the ids of each class sorted by their keys: null[r] takes the sum of by_count[r].

    `by_count` holds the ids by how often they occur, then by first position; `class_ends` where the class of each
    place ends.
    """
    seed = mix(window ^ ((np.uint64(layer) << np.uint64(32)) + np.uint64(head)))
    start = 0
    while start < distinct:
        end = class_ends[start]
        for r in range(start, end):
            token = by_count[r]
            key = mix(seed + np.uint64(firsts[token]))
            place = r
            while place > start and keys[place - 1] > key:  # equal keys stay in the order of positions
                keys[place], null[place] = keys[place - 1], null[place - 1]
                place -= 1
            keys[place], null[place] = key, token
        start = end


@inner
def largest(times: Any, distinct: int) -> int:
    """The id with the largest sum; the earliest of equals."""
    best = 0
    for t in range(distinct):
        if times[t] > times[best]:
            best = t
    return best


@inner
def largest_of_null(times: Any, by_count: Any, null: Any, distinct: int) -> Any:
    """The same where id null[r] has the sum of id by_count[r]."""
    best, most = null[0], times[by_count[0]]
    for r in range(1, distinct):
        sum_, token = times[by_count[r]], null[r]
        if sum_ > most or (sum_ == most and token < best):
            best, most = token, sum_
    return best


@inner
def degrees_at_thresholds(bins: Any, n: int, by_bin: Any, own: Any, counts: Any) -> None:
    """In how many high pairs each token is, at every threshold: (P,) to `counts` (thresholds, N).

    Pairs are counted by bin for both of their tokens: into `by_bin` (bins, N) for the second one, and into `own`
    (4, bins) for the first, four side by side, so that an addition need not wait for the one before it.
    """
    number, width = len(by_bin), np.uint32(by_bin.shape[1])
    flat, first, second, third, fourth = by_bin.reshape(-1), own[0], own[1], own[2], own[3]
    by_bin[:, :n] = 0
    p = 0
    for i in range(n):
        own[:] = 0
        rest = n - 1 - i
        others, of_pairs = flat[i + 1 :], bins[p : p + rest]
        for quarter in range(rest // 4):
            j = np.uint32(4 * quarter)
            a, b = np.uint32(of_pairs[j]), np.uint32(of_pairs[j + np.uint32(1)])
            c, d = np.uint32(of_pairs[j + np.uint32(2)]), np.uint32(of_pairs[j + np.uint32(3)])
            others[a * width + j] += 1
            others[b * width + j + np.uint32(1)] += 1
            others[c * width + j + np.uint32(2)] += 1
            others[d * width + j + np.uint32(3)] += 1
            first[a] += 1
            second[b] += 1
            third[c] += 1
            fourth[d] += 1
        for place in range(rest // 4 * 4, rest):
            a = np.uint32(of_pairs[place])
            others[a * width + np.uint32(place)] += 1
            first[a] += 1
        for k in range(number):
            by_bin[k, i] += own[0, k] + own[1, k] + own[2, k] + own[3, k]
        p += rest
    for k in range(number - 2, 1, -1):
        for i in range(n):
            by_bin[k, i] += by_bin[k + 1, i]
    for k in range(len(counts)):
        for i in range(n):
            counts[k, i] = by_bin[k + 2, i]


@inner
def focal_at_thresholds(
    id_number: Any, distinct: int, n: int, counts: Any, by_count: Any, null: Any, both: Any, few: int, times: Any,
    focal: Any, focal_null: Any, focal_share: Any, focal_few: Any, share_of: Any, number_of: Any,
) -> None:  # fmt: skip
    """The focal token of one head in one window at each threshold, from the highest down.

    `both` (K, bins) holds the pairs of each id with itself by level; `share_of` and `number_of` (thresholds,) take the
    focal token's share and the number of high pairs.
    """
    for k in range(len(counts) - 1, -1, -1):
        times[:distinct] = 0
        count = 0
        for i in range(n):
            times[id_number[i]] += counts[k, i]
            count += counts[k, i]
        for t in range(distinct):
            both[t, k + 2] += both[t, k + 3] if k + 3 < both.shape[1] else 0
        number_of[k] = count // 2  # every pair was counted for both of its tokens
        if count == 0:
            continue
        best = largest(times, distinct)
        share_of[k] = (times[best] - both[best, k + 2]) / number_of[k]
        focal[k] = best
        focal_null[k] = largest_of_null(times, by_count, null, distinct)
        focal_share[k] += share_of[k]
        focal_few[k] += number_of[k] < few


@inner
def pairs_with_itself(repeats: Any, bins: Any, distinct: int, both: Any) -> None:
    """Count the pairs of each id with itself by level."""
    both[:distinct] = 0
    for r in range(len(repeats)):
        p = repeats[r, 0]
        if p < 0:
            break
        both[repeats[r, 1], bins[p]] += 1


@inner
def focal_pairs(id_number: Any, positions: Any, n: int, best: int, bins: Any, lowest: int) -> tuple[int, float]:
    """How often the focal token occurs, and the mean distance of the high pairs that contain it."""
    occurs = distance = pairs = 0
    for i in range(n):
        if id_number[i] != best:
            continue
        occurs += 1
        for j in range(n):
            if j == i or (j < i and id_number[j] == best):  # the second was met from its other side
                continue
            low, high = min(i, j), max(i, j)
            if bins[low * (2 * n - low - 1) // 2 + high - low - 1] >= lowest:
                distance += positions[high] - positions[low]
                pairs += 1
    return occurs, distance / pairs


@inner
def longest(lengths: Any, begin: int, n: int) -> int:
    """The token with the longest output; the first of equals."""
    place = 0
    for i in range(n):
        if lengths[begin + i] > lengths[begin + place]:
            place = i
    return place


@compiled
def count_unique(chosen: Any, sizes: Any, out: Any) -> None:
    """How many different focal tokens the heads of a layer have: (B, H, …flat) to counts (…flat, H + 1)."""
    heads = chosen.shape[1]
    for b in range(len(sizes)):
        if sizes[b] < 2:
            continue
        for k in range(chosen.shape[2]):
            unique = 0
            for h in range(heads):
                token = chosen[b, h, k]
                if token < 0:
                    continue
                new = 1
                for other in range(h):
                    if chosen[b, other, k] == token:
                        new = 0
                        break
                unique += new
            out[k, unique] += 1
