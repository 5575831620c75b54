"""What needs no threshold: contrasts by each reading and map, top pairs of each reading, correlations."""

from __future__ import annotations

from typing import Any

import numpy as np

from headscope.measures.loops.arithmetic import WIDE, correlation_of_few
from headscope.measures.loops.focal import largest, largest_of_null, null_order
from headscope.measures.loops.groups import Chosen, OrderRows, OrderSums, PairsIn, Rules
from headscope.measures.loops.order import (
    BINS,
    correlation,
    count_order,
    degrees_of_top,
    matched_counts,
    moments_of,
    order_bins,
    read_direct,
    read_reading,
    wins_inside,
    wins_over_unrelated,
)
from headscope.measures.numba_options import compiled, inner


@inner
def _regions(high: Any, bands: Any, begin: int, n: int, region: Any) -> bool:
    """Write down each pair's place in the table of regions; False where no pair is inside or none outside the mask."""
    number = 0
    for i in range(n):
        number += high[begin + i]
    if number < 2 or n - number < 2 or begin < 0:
        return False
    p = 0
    for i in range(n - 1):
        own = np.int16(high[begin + i])
        others, of_pairs, out = high[begin + i + 1 :], bands[p:], region[p:]
        for j in range(n - 1 - i):
            out[j] = (np.int16(of_pairs[j]) * np.int16(3) + own + np.int16(others[j])) * np.int16(BINS)
        p += n - 1 - i
    return True


@inner
def _add_matrix(values: Any, positions: Any, begin: int, n: int, scattered: bool, matrix: Any) -> None:
    """Add S of each pair to the sum of all windows."""
    p = 0
    for i in range(n - 1):
        line, rest = matrix[positions[i]], n - 1 - i
        if scattered:
            for j in range(rest):
                line[positions[i + 1 + j]] += np.float64(values[p + j])
        elif begin >= 0:
            sums, own = line[begin + i + 1 : begin + n], values[p : p + rest]
            for j in range(rest):
                sums[j] += np.float64(own[j])
        p += rest


@compiled
def pairs_by_order(
    read: PairsIn,
    index: Any,  # a BatchIndex
    rules: Rules,
    sums: OrderSums,
    chosen: Chosen,
    rows: OrderRows,
    layer: int,
    first: int,
    last: int,
) -> bool:
    """The heads `first` to `last` - 1 of a layer. False where a value is not a finite number."""
    # Arrays are taken out of their groups before the loops: every access to a group counts a reference.
    products, norms, weights, row_maps, edges = read.products, read.norms, read.weights, read.rows, read.edges
    readable, directions, high, lengths = read.readable, read.directions, read.high, read.lengths
    source, scaled, contrasted, unrelated = rules.source, rules.scaled, rules.contrasted, rules.unrelated
    attention_wins, contrast_weight, wins, top_pairs, top_few, top_matched, correlations, with_norms, matrices = sums
    top, top_null, null = chosen.top, chosen.top_null, chosen.null
    likeness, row_wins, row_weight = rows
    sizes, begins, id_number, distinct_of, classes, bands = (
        index.sizes, index.begins, index.id_number, index.distinct, index.classes, index.bands
    )  # fmt: skip
    numbers, firsts, by_count, class_ends = index.number, index.firsts, index.by_count, index.class_ends
    positions, scattered = index.positions, index.scattered
    weight_of, matched, kinds_of_pairs = index.contrast_weight, index.matched, index.base.shape[1]
    readings, inside = len(source), wins.shape[2] - 1
    maps = int(weights.size > 0) + int(row_maps.size > 0)
    tokens, most_pairs = id_number.shape[1], classes.shape[1]
    values, moments = np.empty((readings + maps, most_pairs), np.float32), np.empty((readings + maps, 4))
    bins, region = np.empty(most_pairs, np.int32), np.empty(most_pairs, np.int16)
    degrees, times, keys = np.empty(tokens, np.int32), np.empty(tokens, np.int64), np.empty(tokens, np.uint64)
    histogram, pairs_of = np.empty(kinds_of_pairs * BINS, np.int32), np.empty(kinds_of_pairs, np.int32)
    regions = np.empty(kinds_of_pairs // contrasted.shape[1] * 3 * BINS, np.int32)
    lanes, own_wins, own_weight = np.empty(WIDE), np.empty(inside + 1), np.empty(inside + 1)
    for h in range(first, last):
        for b in range(len(sizes)):
            n, begin, distinct = sizes[b], begins[b], distinct_of[b]
            if n < 2:
                continue
            size = n * (n - 1) // 2
            for v in range(readings):
                read_reading(products[source[v], b, h], norms[source[v], b, h], scaled[v], begin, n, values[v])
            if maps > 0:
                read_direct(weights[b, h], readable[b], directions[b], begin, n, values[readings])
            if maps > 1:
                read_reading(row_maps[b, h], readable[b], False, begin, n, values[readings + 1])
            if not moments_of(values, size, lanes, moments):
                return False
            if matrices.size > 0:
                _add_matrix(values[0], positions[b], begin, n, scattered[b], matrices[h])
            null_order(numbers[b], layer, h, firsts[b], by_count[b], class_ends[b], distinct, keys, null[b, h])
            masked = maps > 0 and _regions(high[b, h], bands[b], begin, n, region)
            for c in range(inside):
                contrast_weight[h, c] += weight_of[b, c]
                row_weight[b, h, c] = weight_of[b, c]
            for v in range(readings + maps):
                order_bins(values[v], size, edges[b, h, v], bins)
                count_order(bins, classes[b], size, histogram)
                own_wins[:] = 0.0
                wins_over_unrelated(histogram, contrasted, unrelated, own_wins)
                if v >= readings:
                    for c in range(inside):
                        attention_wins[v - readings, h, c] += own_wins[c]
                    continue
                if masked:
                    own_weight[inside] = 0.0
                    count_order(bins, region, size, regions)
                    wins_inside(regions, own_wins, own_weight, inside)
                    if v == 0:
                        contrast_weight[h, inside] += own_weight[inside]
                        row_weight[b, h, inside] = own_weight[inside]
                for c in range(inside + 1):
                    wins[v, h, c] += own_wins[c]
                    if v == 0:
                        row_wins[b, h, c] = own_wins[c]
                count = 0
                for k in range(kinds_of_pairs):
                    pairs_of[k] = histogram[k * BINS + BINS - 1]
                    count += pairs_of[k]
                if size < rules.fewest_for_top or count * rules.least_top < size:
                    top_few[v, h] += 1
                else:
                    for k in range(kinds_of_pairs):
                        top_pairs[v, h, k] += pairs_of[k]
                    matched_counts(pairs_of, matched[b], top_matched[v, h])
                    degrees_of_top(bins, n, degrees)
                    times[:distinct] = 0
                    for i in range(n):
                        times[id_number[b, i]] += degrees[i]
                    top[v, b, h] = largest(times, distinct)
                    top_null[v, b, h] = largest_of_null(times, by_count[b], null[b, h], distinct)
                    with_norms[v, h] += correlation_of_few(lengths[b, h, begin:], degrees, n)
                for m in range(maps):
                    alike = correlation(values, moments, v, readings + m, size, lanes)
                    correlations[v, m, h] += alike
                    if v == 0:
                        likeness[b, h] = alike if m == 0 else max(alike, likeness[b, h])
    return True
