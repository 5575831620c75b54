"""Pairs by their order in the window: edges from a sample, bins, contrasts between classes, matched counts."""

from __future__ import annotations

from typing import Any

import numpy as np

from headscope.measures.loops.arithmetic import extremes, products_about_means, total
from headscope.measures.loops.groups import PairsIn, Rules
from headscope.measures.numba_options import compiled

BINS = 16


@compiled
def _value(read: PairsIn, rules: Rules, v: int, b: int, h: int, i: int, j: int, p: int) -> float:
    """Reading or map number v of the pair of the tokens i and j, which is pair number p."""
    readings = len(rules.source)
    if v < readings:
        k = rules.source[v]
        s = read.products[k, b, h, i, j]
        if not rules.scaled[v]:
            return s
        size = read.norms[k, b, h, i] * read.norms[k, b, h, j]
        return s / size if size > 0 else np.float32(0.0)
    if v == readings:
        there = read.weights[b, h, i, j] * read.readable[b, i]
        back = read.weights[b, h, j, i] * read.readable[b, j]
        return (there + back) * read.directions[b, p]
    return read.rows[b, h, i, j]


@compiled
def sample_heads(read: PairsIn, rules: Rules, index: Any, samples: Any, first: int, last: int) -> None:
    """The values of the sampled pairs: (B, heads of this part, V, 512) float32; infinite where there are fewer."""
    sampled, places = index.sampled, index.samples
    for h in range(first, last):
        for b in range(len(sampled)):
            begin, n = index.begins[b], index.sizes[b]
            for v in range(samples.shape[2]):
                row = samples[b, h - first, v]
                for k in range(sampled[b]):
                    p = places[b, k, 2]
                    row[k] = _value(read, rules, v, b, h, begin + places[b, k, 0], begin + places[b, k, 1], p)
                for k in range(sampled[b], samples.shape[3]):
                    row[k] = np.float32(np.inf)


@compiled
def read_pairs(
    read: PairsIn, rules: Rules, b: int, h: int, begin: int, n: int, values: Any
) -> None:
    """Write every reading and map of each pair into rows: (V, P)."""
    readings, source, scaled = len(rules.source), rules.source, rules.scaled
    if begin < 0:  # never: it tells the compiler that indices are not negative
        return
    for v in range(readings):
        matrix, norms, row = read.products[source[v], b, h], read.norms[source[v], b, h], values[v]
        p = 0
        for i in range(n - 1):
            line = matrix[begin + i]
            if scaled[v]:
                own = norms[begin + i]
                for j in range(n - 1 - i):
                    size = own * norms[begin + i + 1 + j]
                    s = line[begin + i + 1 + j] / (size if size > 0 else np.float32(1.0))
                    row[p + j] = s if size > 0 else np.float32(0.0)
            else:
                for j in range(n - 1 - i):
                    row[p + j] = line[begin + i + 1 + j]
            p += n - 1 - i
    if read.weights.size > 0:
        matrix, readable, directions, row = read.weights[b, h], read.readable[b], read.directions[b], values[readings]
        p = 0
        for i in range(n - 1):
            own, line = readable[begin + i], matrix[begin + i]
            for j in range(n - 1 - i):
                other = begin + i + 1 + j
                row[p + j] = (line[other] * own + matrix[other, begin + i] * readable[other]) * directions[p + j]
            p += n - 1 - i
    if read.rows.size > 0:
        matrix, row = read.rows[b, h], values[readings + 1]
        p = 0
        for i in range(n - 1):
            line = matrix[begin + i]
            for j in range(n - 1 - i):
                row[p + j] = line[begin + i + 1 + j]
            p += n - 1 - i


@compiled
def moments_of(values: Any, size: int, lanes: Any, out: Any) -> bool:
    """Mean and Σ (x - mean)² of each row, whether it varies, and Σ x: (V, P) to (V, 4). False where one is not finite."""
    for v in range(len(values)):
        sum_ = total(values[v], size, lanes)
        if not np.isfinite(sum_):
            return False
        mean = sum_ / size
        least, most = extremes(values[v], size)
        out[v, 0], out[v, 3] = mean, sum_
        out[v, 1] = products_about_means(values[v], values[v], size, mean, mean, lanes)
        out[v, 2] = 1.0 if least < most else 0.0
    return True


@compiled
def correlation(values: Any, moments: Any, x: int, y: int, size: int, lanes: Any) -> float:
    """Pearson's correlation of two rows over the pairs; 0 where either is constant."""
    if moments[x, 2] == 0.0 or moments[y, 2] == 0.0:
        return 0.0
    both = products_about_means(values[x], values[y], size, moments[x, 0], moments[y, 0], lanes)
    return both / np.sqrt(moments[x, 1] * moments[y, 1])


@compiled
def order_bins(values: Any, size: int, edges: Any, bins: Any) -> None:
    """The number of edges below each value: fifteen comparisons without a branch beat a search."""
    e0, e1, e2, e3, e4 = edges[0], edges[1], edges[2], edges[3], edges[4]
    e5, e6, e7, e8, e9 = edges[5], edges[6], edges[7], edges[8], edges[9]
    e10, e11, e12, e13, e14 = edges[10], edges[11], edges[12], edges[13], edges[14]
    for p in range(size):
        x = values[p]
        bins[p] = (
            np.int8(x > e0) + np.int8(x > e1) + np.int8(x > e2) + np.int8(x > e3) + np.int8(x > e4)
            + np.int8(x > e5) + np.int8(x > e6) + np.int8(x > e7) + np.int8(x > e8) + np.int8(x > e9)
            + np.int8(x > e10) + np.int8(x > e11) + np.int8(x > e12) + np.int8(x > e13) + np.int8(x > e14)
        )  # fmt: skip


@compiled
def count_order(bins: Any, cells: Any, size: int, histogram: Any) -> None:
    """Count pairs by cell and order bin; cells come times sixteen."""
    histogram[:] = 0
    for p in range(size):
        histogram[cells[p] + bins[p]] += 1


@compiled
def wins_over_unrelated(histogram: Any, relations: int, rules: Rules, wins: Any) -> None:
    """Wins of the contrasts of relations, from pairs by band, relation and order bin; adds to (contrasts,)."""
    contrasted, unrelated = rules.contrasted, rules.unrelated
    bands = len(histogram) // (relations * BINS)
    for band in range(bands):
        start = band * relations * BINS
        zeros = start + unrelated * BINS
        n0 = 0
        for k in range(BINS):
            n0 += histogram[zeros + k]
        if n0 == 0:
            continue
        for c in range(len(contrasted)):
            n1, won, below = 0, 0.0, 0.0
            for k in range(BINS):
                ones = 0
                for r in range(relations):
                    if contrasted[c, r]:
                        ones += histogram[start + r * BINS + k]
                own = histogram[zeros + k]
                won += ones * (below + 0.5 * own)
                below += own
                n1 += ones
            wins[c] += won / (n1 + n0)  # share won / (n1·n0), times weight n1·n0 / (n1 + n0)


@compiled
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


@compiled
def matched_counts(kinds: Any, weights: Any, out: Any) -> None:
    """a and b of each comparison: high pairs of each kind, weighed; (kinds,), (comparisons, 2, kinds) to (…, 2)."""
    comparisons, _, size = weights.shape
    for c in range(comparisons):
        for side in range(2):
            sum_ = 0.0
            for k in range(size):
                sum_ += kinds[k] * weights[c, side, k]
            out[c, side] += sum_


@compiled
def degrees_of_top(bins: Any, n: int, degrees: Any) -> None:
    """In how many top pairs each token is."""
    degrees[:n] = 0
    p = 0
    for i in range(n - 1):
        own = 0
        for j in range(n - 1 - i):
            top = np.int32(bins[p + j] == BINS - 1)
            degrees[i + 1 + j] += top
            own += top
        degrees[i] += own
        p += n - 1 - i
