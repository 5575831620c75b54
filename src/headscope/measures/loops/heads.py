"""The loop over the heads of a layer and the windows of a batch."""

from __future__ import annotations

from typing import Any

import numpy as np

from headscope.measures.loops import focal, levels, order
from headscope.measures.loops.arithmetic import WIDE, correlation_of_few, extremes
from headscope.measures.loops.groups import Buffers, Chosen, PairRows, PairsIn, PairSums, Rules
from headscope.measures.numba_options import compiled

_read_pairs, _moments_of, _correlation = order.read_pairs, order.moments_of, order.correlation
_order_bins, _count_order, _matched_counts = order.order_bins, order.count_order, order.matched_counts
_wins_over_unrelated, _wins_inside = order.wins_over_unrelated, order.wins_inside
_degrees_of_top, _null_order, _focal_of_top = order.degrees_of_top, focal.null_order, focal.focal_of_top
_degrees_at_thresholds, _focal_at_thresholds = focal.degrees_at_thresholds, focal.focal_at_thresholds
_focal_at_tau, _level_bins, _bins_of_ranks, _masks = (
    focal.focal_at_tau, levels.level_bins, levels.bins_of_ranks, levels.masks
)  # fmt: skip
ORDER_BINS = order.BINS


@compiled
def _buffers(index: Any, rules: Rules, values: int) -> Buffers:
    tokens, most_pairs, steps = index.kind.shape[1], index.cells.shape[1], len(rules.edges) - 1
    width, kinds = (tokens + 31) // 32 * 32, index.base.shape[1]
    relations = len(rules.in_sentence)
    return Buffers(
        np.empty((values, most_pairs), np.float32), np.empty(most_pairs, np.int8), np.empty(most_pairs, np.int8),
        np.empty(most_pairs, np.int16), np.zeros((tokens, width), np.int8), np.zeros((steps, width), np.int16),
        np.zeros(width, np.int32), np.empty(tokens, np.int64), np.empty((tokens, steps + 2), np.int64),
        np.empty(tokens, np.int64), np.empty(tokens, np.uint64), np.empty(kinds * ORDER_BINS, np.int32),
        np.empty(kinds // relations * 3 * ORDER_BINS, np.int32), np.empty(kinds, np.int32), np.empty(WIDE),
        np.empty(width), np.empty((values, 4)),
    )  # fmt: skip


@compiled
def _by_order(
    read: PairsIn, index: Any, b: int, h: int, rules: Rules, buffers: Buffers, sums: PairSums, chosen: Chosen,
    rows: PairRows,
) -> None:  # fmt: skip
    """What needs no threshold: contrasts by each reading and map, top pairs of each reading, correlations."""
    n, readings, relations = index.sizes[b], len(rules.source), len(rules.in_sentence)
    size = n * (n - 1) // 2
    values, bins, histogram, kinds, moments = (
        buffers.values, buffers.order, buffers.histogram, buffers.kinds, buffers.moments
    )  # fmt: skip
    classes, weights, last = index.classes[b], index.matched[b], sums.contrast_weight.shape[1] - 1
    maps = len(values) - readings
    masked = False
    if maps > 0:
        masked = _regions(read.high[b, h], index, b, buffers.region)
    for c in range(last):
        sums.contrast_weight[h, c] += index.contrast_weight[b, c]
    for v in range(len(values)):
        _order_bins(values[v], size, read.edges[b, h, v], bins)
        _count_order(bins, classes, size, histogram)
        if v >= readings:
            _wins_over_unrelated(histogram, relations, rules, sums.attention_wins[v - readings, h])
            continue
        if v == 0:
            rows.wins[b, h] = 0.0
            _wins_over_unrelated(histogram, relations, rules, rows.wins[b, h])
            for c in range(last):
                sums.wins[0, h, c] += rows.wins[b, h, c]
                rows.weight[b, h, c] = index.contrast_weight[b, c]
        else:
            _wins_over_unrelated(histogram, relations, rules, sums.wins[v, h])
        if masked:
            _inside(v, b, h, size, buffers, sums, rows, last)
        count = 0
        for k in range(len(kinds)):
            kinds[k] = histogram[k * ORDER_BINS + ORDER_BINS - 1]
            count += kinds[k]
        if size < rules.fewest_for_top or count * rules.least_top < size:
            sums.top_few[v, h] += 1
        else:
            for k in range(len(kinds)):
                sums.top_pairs[v, h, k] += kinds[k]
            _matched_counts(kinds, weights, sums.top_matched[v, h])
            _degrees_of_top(bins, n, buffers.degrees)
            chosen.top[v, b, h], chosen.top_null[v, b, h] = _focal_of_top(index, b, buffers)
            lengths = read.lengths[b, h, index.begins[b] :]
            sums.norm_correlation[v, h] += correlation_of_few(lengths, buffers.degrees, n)
        for m in range(maps):
            alike = _correlation(values, moments, v, readings + m, size, buffers.lanes)
            sums.attention_correlation[v, m, h] += alike
            if v == 0:
                rows.likeness[b, h] = alike if m == 0 else max(alike, rows.likeness[b, h])


@compiled
def _regions(high: Any, index: Any, b: int, region: Any) -> bool:
    """Write down each pair's place in the table of regions; False where no pair is inside or none outside the mask."""
    n, begin, bands = index.sizes[b], index.begins[b], index.bands[b]
    number = 0
    for i in range(n):
        number += high[begin + i]
    if number < 2 or n - number < 2 or begin < 0:
        return False
    p = 0
    for i in range(n - 1):
        own = np.int16(high[begin + i])
        for j in range(n - 1 - i):
            place = np.int16(bands[p + j]) * np.int16(3) + own + np.int16(high[begin + i + 1 + j])
            region[p + j] = place * np.int16(ORDER_BINS)
        p += n - 1 - i
    return True


@compiled
def _inside(v: int, b: int, h: int, size: int, buffers: Buffers, sums: PairSums, rows: PairRows, last: int) -> None:
    """The contrast of pairs inside the mask with those outside it, by one reading."""
    wins, weight = np.zeros(last + 1), np.zeros(last + 1)
    _count_order(buffers.order, buffers.region, size, buffers.regions)
    _wins_inside(buffers.regions, wins, weight, last)
    sums.wins[v, h, last] += wins[last]
    if v == 0:
        sums.contrast_weight[h, last] += weight[last]
        rows.wins[b, h, last] = wins[last]
        rows.weight[b, h, last] = weight[last]


@compiled
def _at_tau(
    index: Any, b: int, h: int, rules: Rules, buffers: Buffers, sums: PairSums, rows: PairRows
) -> None:
    """What the high pairs at the run's τ are."""
    n, bins, kinds, lowest = index.sizes[b], buffers.bins, buffers.kinds, rules.lowest
    distances, classes, relations = index.distance[b], index.classes[b], len(rules.in_sentence)
    size = n * (n - 1) // 2
    kinds[:] = 0
    for p in range(size):
        kinds[classes[p] // ORDER_BINS] += bins[p] >= lowest
    distance = 0
    for p in range(size):
        distance += np.int32(bins[p] >= lowest) * distances[p]
    within = repeated = 0
    for k in range(len(kinds)):
        within += kinds[k] * rules.in_sentence[k % relations]
        repeated += kinds[k] * rules.repeated[k % relations]
    number = rows.high_pairs[b, h]
    rows.distance[b, h] = distance / number
    rows.sentence_share[b, h] = within / number
    rows.repetition_share[b, h] = repeated / number
    matched = rows.matched[b, h]
    _matched_counts(kinds, index.matched[b], matched)
    for c in range(matched.shape[0]):
        sums.matched[h, c, 0] += matched[c, 0]
        sums.matched[h, c, 1] += matched[c, 1]


@compiled
def _count_levels(index: Any, b: int, h: int, size: int, relations: int, bins: Any, sums: PairSums) -> None:
    """Count pairs by level, distance or band, and relation."""
    cells, pairs, custom, custom_pairs = index.cells[b], sums.pairs[h], index.custom, sums.custom_pairs
    for p in range(size):
        pairs[bins[p], cells[p]] += 1
    for r in range(len(custom)):
        for p in range(size):
            if custom[r, b, p]:
                custom_pairs[r, h, bins[p], cells[p]] += 1
    if sums.distance_sum.size > 0:
        distance_sum, distances = sums.distance_sum[h], index.distance[b]
        for p in range(size):
            distance_sum[bins[p], cells[p] % relations] += distances[p]


@compiled
def _add_matrix(values: Any, begin: int, n: int, matrix: Any) -> None:
    """Add S of each pair to the sum of all windows."""
    if begin >= 0:
        p = 0
        for i in range(n - 1):
            line = matrix[begin + i]
            for j in range(n - 1 - i):
                line[begin + i + 1 + j] += np.float64(values[p + j])
            p += n - 1 - i


@compiled
def _attention_masks(
    read: PairsIn, index: Any, b: int, h: int, rules: Rules, whole: float, scale: float, buffers: Buffers,
    sums: PairSums,
) -> None:  # fmt: skip
    """Levels inside and outside the mask of high attention, at every threshold."""
    n, begin, passed, columns = index.sizes[b], index.begins[b], read.passed[b, h], buffers.columns
    mask_sum, mask_pairs, values = sums.mask_sum[h], sums.mask_pairs[h], buffers.values
    if read.levels.size > 0:  # ranks
        size = n * (n - 1) // 2
        _masks(read.levels[b, h], begin, n, passed, (size + 1) / 2.0, 1.0, columns, mask_sum, mask_pairs)
    elif not rules.scaled[0]:
        _masks(read.products[rules.source[0], b, h], begin, n, passed, whole, scale, columns, mask_sum, mask_pairs)
    else:
        matrix = np.zeros((n, n), np.float32)
        p = 0
        for i in range(n):
            for j in range(i + 1, n):
                matrix[i, j] = matrix[j, i] = values[0, p]
                p += 1
        _masks(matrix, 0, n, passed[begin:], whole, scale, columns, mask_sum, mask_pairs)


@compiled
def pairs_of_heads(
    read: PairsIn,
    index: Any,  # a BatchIndex
    rules: Rules,
    sums: PairSums,
    chosen: Chosen,
    rows: PairRows,
    layer: int,
    first: int,
    last: int,
) -> bool:
    """What the heads `first` to `last` - 1 find similar. False where a value is not a finite number."""
    readings, relations = len(rules.source), len(rules.in_sentence)
    maps = int(read.weights.size > 0) + int(read.rows.size > 0)
    buffers = _buffers(index, rules, readings + maps)
    values, bins, moments, lanes = buffers.values, buffers.bins, buffers.moments, buffers.lanes
    levels_, sizes, begins, edges, lowest = read.levels, index.sizes, index.begins, rules.edges, rules.lowest
    summed, numbers, firsts, by_count = sums.similarity_sum.size > 0, index.number, index.firsts, index.by_count
    finite = True
    for h in range(first, last):
        for b in range(len(sizes)):
            n, begin = sizes[b], begins[b]
            if n < 2 or begin < 0:  # the second never: it tells the compiler that indices are not negative
                continue
            size = n * (n - 1) // 2
            _read_pairs(read, rules, b, h, begin, n, values)
            if not _moments_of(values, size, lanes, moments):
                finite = False
                continue
            if summed:
                _add_matrix(values[0], begin, n, sums.similarity_sum[h])
            _null_order(
                numbers[b], layer, h, firsts[b], by_count[b], index.class_ends[b], index.kinds[b], buffers.keys,
                buffers.null,
            )  # fmt: skip
            _by_order(read, index, b, h, rules, buffers, sums, chosen, rows)
            most = extremes(values[0], size)[1]
            if most <= 0:  # flat
                sums.flat[h] += 1
                for p in range(size):
                    bins[p] = 0
                _count_levels(index, b, h, size, relations, bins, sums)
                continue
            scale = np.float64(most)
            norms = 0.0
            source = rules.source[0]
            for i in range(begin, begin + n):
                own = read.products[source, b, h, i, i]
                if rules.scaled[0]:
                    over = read.norms[source, b, h, i] * read.norms[source, b, h, i]
                    own = own / over if over > 0 else np.float32(0.0)
                norms += np.float64(own)
            sums.diagonal[h] += norms / n / scale
            if maps > 0:
                _attention_masks(read, index, b, h, rules, moments[0, 3], scale, buffers, sums)
            if levels_.size > 0:
                _bins_of_ranks(levels_[b, h], begin, n, edges, bins)
            else:
                _level_bins(values[0], size, scale, edges, bins)
            _count_levels(index, b, h, size, relations, bins, sums)
            _degrees_at_thresholds(bins, n, buffers.full, buffers.counts)
            _focal_at_thresholds(index, b, h, rules, buffers, chosen, sums, rows)
            best = chosen.focal[b, h, lowest - 2]
            if best >= 0:
                _focal_at_tau(index, b, h, best, read.lengths[b, h], rules, buffers, sums)
                _at_tau(index, b, h, rules, buffers, sums, rows)
    return finite
