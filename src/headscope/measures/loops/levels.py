"""Levels of pairs: their bins, and what they are inside and outside the mask of high attention."""

from __future__ import annotations

from typing import Any

import numpy as np

from headscope.measures.loops.arithmetic import add_row, sum_of_few
from headscope.measures.numba_options import compiled, inner


@inner
def bin_of(level: float, edges: Any) -> int:
    """The bin of a level, as `similarity.bins` has it: the edges decide, whatever 20·level rounds to."""
    if level < 0.0:
        return 0
    last = len(edges) - 1
    k = min(int(level * len(edges)), last)
    if level < edges[k]:
        k -= 1
    elif k < last and level >= edges[k + 1]:
        k += 1
    return k + 1


@compiled
def rank_levels(ordered: Any, levels: Any) -> None:
    """Mid-ranks over their number, from values sorted as (value, place) packed into 64 bits: (H, P) to (H, P)."""
    heads, size = ordered.shape
    for h in range(heads):
        begin = 0
        while begin < size:
            value = ordered[h, begin] >> np.uint64(32)
            end = begin + 1
            while end < size and ordered[h, end] >> np.uint64(32) == value:
                end += 1
            for k in range(begin, end):
                levels[h, ordered[h, k] & np.uint64(0xFFFFFFFF)] = (begin + end + 1) / 2.0 / size
            begin = end


@inner
def level_bins(values: Any, size: int, most: float, edges: Any, bins: Any) -> None:
    """The bins of S / its largest. Multiplied, not divided; where that may round across an edge, divided after all."""
    factor, last = len(edges) / most, np.float64(len(edges) - 1)
    for k in range(size):
        bins[k] = np.int8(min(max(np.floor(np.float64(values[k]) * factor), -1.0), last)) + 1
    doubtful = 0
    for k in range(size):
        place = np.float64(values[k]) * factor
        rest = abs(place - np.rint(place))
        doubtful += (rest < 1e-9) & (place > -0.5) & (place < last + 0.5)
    if doubtful:
        for k in range(size):
            bins[k] = bin_of(np.float64(values[k]) / most, edges)


@inner
def bins_of_ranks(levels: Any, begin: int, n: int, edges: Any, bins: Any) -> None:
    """The bins of levels that are ranks: (T, T) to (P,)."""
    p = 0
    for i in range(begin, begin + n - 1):
        for j in range(i + 1, begin + n):
            bins[p] = bin_of(levels[i, j], edges)
            p += 1


@inner
def masks(
    s: Any, begin: int, n: int, passed: Any, whole: float, scale: float, columns: Any, sums: Any, pairs: Any
) -> None:
    """Levels inside, at the edge and outside the mask of high attention, at every threshold.

    Tokens join in the order of the thresholds that they pass, the highest first. `sums` and `pairs` (thresholds, 3).
    """
    columns[:n] = 0.0
    inside, diagonal, joined = 0.0, 0.0, 0
    for k in range(len(sums) - 1, -1, -1):
        for i in range(n):
            if passed[begin + i] != k + 1:
                continue
            inside += columns[i]  # with those that joined before
            diagonal += np.float64(s[begin + i, begin + i])
            joined += 1
            add_row(s[begin + i], begin, n, columns)
        edge = sum_of_few(columns, n) - diagonal - 2.0 * inside
        sums[k, 0] += inside / scale
        sums[k, 1] += edge / scale
        sums[k, 2] += (whole - inside - edge) / scale
        pairs[k, 0] += joined * (joined - 1) // 2
        pairs[k, 1] += joined * (n - joined)
        pairs[k, 2] += (n - joined) * (n - joined - 1) // 2
