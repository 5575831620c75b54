"""What needs levels, of the main reading: counts by level, masks, focal tokens, the high pairs at the run's τ."""

from __future__ import annotations

from typing import Any

import numpy as np

from headscope.measures.loops.arithmetic import WIDE, largest_of, total
from headscope.measures.loops.focal import (
    degrees_at_thresholds,
    focal_at_thresholds,
    focal_pairs,
    longest,
    pairs_with_itself,
)
from headscope.measures.loops.groups import Chosen, LevelRows, LevelSums, PairsIn, Rules
from headscope.measures.loops.levels import bins_of_ranks, level_bins, masks
from headscope.measures.loops.order import matched_counts, read_reading
from headscope.measures.numba_options import compiled, inner


@inner
def _count_levels(bins: Any, cells: Any, size: int, pairs: Any) -> None:
    """Count pairs by level, distance or band, and relation."""
    flat, width = pairs.reshape(-1), np.uint32(pairs.shape[1])
    for p in range(size):
        flat[np.uint32(bins[p]) * width + np.uint32(cells[p])] += 1


@inner
def _count_custom(bins: Any, cells: Any, custom: Any, b: int, h: int, size: int, custom_pairs: Any) -> None:
    for r in range(len(custom)):
        for p in range(size):
            if custom[r, b, p]:
                custom_pairs[r, h, bins[p], cells[p]] += 1


@inner
def _add_distances(bins: Any, cells: Any, distances: Any, size: int, distance_sum: Any) -> None:
    relations = distance_sum.shape[1]
    for p in range(size):
        distance_sum[bins[p], cells[p] % relations] += distances[p]


@inner
def _mean_diagonal(matrix: Any, norms: Any, scaled: bool, begin: int, n: int) -> float:
    """The mean of what would stand on the diagonal of S."""
    sum_ = 0.0
    for i in range(begin, begin + n):
        own = matrix[i, i]
        if scaled:
            size = norms[i] * norms[i]
            own = own / size if size > 0 else np.float32(0.0)
        sum_ += np.float64(own)
    return sum_ / n


@inner
def _square(values: Any, n: int, matrix: Any) -> None:
    """Pairs as a symmetric matrix, its diagonal zero: (P,) to (N, N)."""
    p = 0
    for i in range(n):
        matrix[i, i] = np.float32(0.0)
        for j in range(i + 1, n):
            matrix[i, j] = matrix[j, i] = values[p]
            p += 1


@inner
def _high_pairs(bins: Any, classes: Any, distances: Any, lowest: int, size: int, pairs_of: Any) -> int:
    """Count the high pairs by kind; Σ of their distances."""
    pairs_of[:] = 0
    for p in range(size):
        pairs_of[np.uint32(classes[p] >> 4)] += bins[p] >= lowest  # classes come times sixteen
    distance = 0
    for p in range(size):
        distance += np.int32(bins[p] >= lowest) * distances[p]
    return distance


@compiled
def pairs_by_level(
    read: PairsIn,
    index: Any,  # a BatchIndex
    rules: Rules,
    sums: LevelSums,
    chosen: Chosen,
    rows: LevelRows,
    first: int,
    last: int,
) -> None:
    """The heads `first` to `last` - 1 of a layer, of which every product is known to be finite."""
    # Arrays are taken out of their groups before the loops: every access to a group counts a reference.
    source, scaled, edges, lowest, few = rules.source[0], rules.scaled[0], rules.edges, rules.lowest, rules.few
    products, norms, levels, passed = read.products[source], read.norms[source], read.levels, read.passed
    lengths, maps = read.lengths, read.weights.size > 0
    (pairs, distance_sum, custom_pairs, matched_sum, flat, diagonal, mask_sum, mask_pairs, focal_share, focal_few,
     focal_frequency, focal_distance, focal_longest) = sums  # fmt: skip
    focal, focal_null, null = chosen.focal, chosen.focal_null, chosen.null
    sizes, begins, cells, classes, distances, custom = (
        index.sizes, index.begins, index.cells, index.classes, index.distance, index.custom
    )  # fmt: skip
    id_number, distinct_of, repeats, by_count, matched = (
        index.id_number, index.distinct, index.repeats, index.by_count, index.matched
    )  # fmt: skip
    positions, in_sentence, repeated, kinds_of_pairs = (
        index.positions, rules.in_sentence, rules.repeated, index.base.shape[1]
    )  # fmt: skip
    tokens, most_pairs, steps = id_number.shape[1], cells.shape[1], len(edges) - 1
    width, relations, at_tau = (tokens + 31) // 32 * 32, len(in_sentence), lowest - 2
    values, bins = np.empty(most_pairs, np.float32), np.empty(most_pairs, np.int8)
    by_bin, own_bins = np.empty((steps + 2, width), np.int32), np.empty((4, steps + 2), np.int32)
    counts = np.empty((steps, width), np.int32)
    times, both = np.empty(tokens, np.int64), np.empty((tokens, steps + 2), np.int64)
    lanes, columns, pairs_of = np.empty(WIDE), np.empty(width), np.empty(kinds_of_pairs, np.int32)
    share_of, number_of = np.empty(steps), np.empty(steps, np.int64)
    square = np.empty((tokens, tokens), np.float32) if scaled else np.empty((0, 0), np.float32)
    for h in range(first, last):
        for b in range(len(sizes)):
            n, begin, distinct = sizes[b], begins[b], distinct_of[b]
            if n < 2:
                continue
            size = n * (n - 1) // 2
            read_reading(products[b, h], norms[b, h], scaled, begin, n, values)
            scale = np.float64(largest_of(values, size))
            if scale <= 0:
                flat[h] += 1
                bins[:size] = 0
            elif levels.size > 0:
                bins_of_ranks(levels[b, h], begin, n, edges, bins)
            else:
                level_bins(values, size, scale, edges, bins)
            _count_levels(bins, cells[b], size, pairs[h])
            _count_custom(bins, cells[b], custom, b, h, size, custom_pairs)
            if distance_sum.size > 0:
                _add_distances(bins, cells[b], distances[b], size, distance_sum[h])
            if scale <= 0:
                continue
            diagonal[h] += _mean_diagonal(products[b, h], norms[b, h], scaled, begin, n) / scale
            if maps and levels.size > 0:
                masks(levels[b, h], begin, n, passed[b, h], (size + 1) / 2.0, 1.0, columns, mask_sum[h], mask_pairs[h])
            elif maps:
                whole = total(values, size, lanes)
                if scaled:
                    _square(values, n, square)
                    masks(square, 0, n, passed[b, h, begin:], whole, scale, columns, mask_sum[h], mask_pairs[h])
                else:
                    own = products[b, h]
                    masks(own, begin, n, passed[b, h], whole, scale, columns, mask_sum[h], mask_pairs[h])
            degrees_at_thresholds(bins, n, by_bin, own_bins, counts)
            pairs_with_itself(repeats[b], bins, distinct, both)
            focal_at_thresholds(
                id_number[b], distinct, n, counts, by_count[b], null[b, h], both, few, times, focal[b, h],
                focal_null[b, h], focal_share[h], focal_few[h], share_of, number_of,
            )  # fmt: skip
            best, number = focal[b, h, at_tau], number_of[at_tau]
            if number == 0:
                continue
            occurs, reach = focal_pairs(id_number[b], positions[b], n, best, bins, lowest)
            focal_frequency[h] += occurs / n
            focal_distance[h] += reach
            focal_longest[h] += id_number[b, longest(lengths[b, h], begin, n)] == best
            distance = _high_pairs(bins, classes[b], distances[b], lowest, size, pairs_of)
            within = again = 0
            for k in range(kinds_of_pairs):
                within += pairs_of[k] * in_sentence[k % relations]
                again += pairs_of[k] * repeated[k % relations]
            rows.high_pairs[b, h] = number
            rows.mean_distance[b, h] = distance / number
            rows.sentence_share[b, h] = within / number
            rows.repetition_share[b, h] = again / number
            rows.focal_share[b, h] = share_of[at_tau]
            own_matched = rows.matched[b, h]
            matched_counts(pairs_of, matched[b], own_matched)
            for c in range(own_matched.shape[0]):
                matched_sum[h, c, 0] += own_matched[c, 0]
                matched_sum[h, c, 1] += own_matched[c, 1]
