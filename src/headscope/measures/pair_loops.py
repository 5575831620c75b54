"""The method's sums over the pairs of each head of a batch, as compiled loops.

What `measures` says in formulas for one window (`similarity`, `focal`, `attention.correlation`) is done here for every
head of a layer in two visits to each pair, without tables of pairs in between: the statistics cost a small share of
the forward pass. Each head is worked on by one thread, windows in their order, sums in float64, so the numbers do not
depend on how many threads there are.

Whatever other files decide (edges of bins, thresholds, numbers of relations) comes as an argument, and all that
`pairs_of_heads` calls stands in this file, which is why it is long: numba keeps compiled code on disk and does not
notice when another file changes.

Shapes: B windows, H heads, T tokens with padding, N tokens that count in a window, P its pairs, K its distinct ids.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from headscope.measures.numba_options import compiled

LANES = 16  # numbers that are compared side by side, so that the loop can be vectorised
WIDE = 64  # numbers that are added side by side


class Thresholds(NamedTuple):
    """What decides between high and low."""

    edges: Any  # (20,): lower edges of the bins 1 to 20; between them lie the thresholds
    lowest: int  # the first bin that is high at the run's τ
    few: int  # with fewer high pairs a focal token says little


class PairsIn(NamedTuple):
    """One layer of a batch."""

    products: Any  # (B, H, T, T) float32: O·Oᵀ, the diagonal still in it
    levels: Any  # (B, H, T, T) float64 where levels are ranks; empty where they are shares of the largest
    weights: Any  # (B, H, T, T) float32: attention; empty in cross-attention
    high: Any  # (B, H, T) bool: high-attention tokens among those that count
    passed: Any  # (B, H, T) int8: how many thresholds of attention each of them passes


class PairSums(NamedTuple):
    """What is added to, under the names of the variables: one layer of each."""

    similarity_sum: Any  # (H, T, T); empty for long windows
    pairs: Any  # (H, bins, distances · relations)
    custom_pairs: Any  # (R, H, bins, distances · relations)
    flat: Any  # (H,)
    diagonal: Any  # (H,)
    attention_correlation: Any  # (H,)
    region_sum: Any  # (H, 3): inside, at the edge, outside the mask of high attention
    region_pairs: Any  # (H, 3)
    mask_sum: Any  # (H, thresholds, 3)
    mask_pairs: Any  # (H, thresholds, 3)
    focal_share: Any  # (H, thresholds)
    focal_few: Any  # (H, thresholds)
    focal_frequency: Any  # (H,)
    focal_distance: Any  # (H,)


class PairRows(NamedTuple):
    """What each head did with each window at the run's τ, (B, H) each: columns of the rows per text."""

    high_pairs: Any
    distance: Any
    sentence_share: Any
    repetition_share: Any
    focal_share: Any
    stop_share: Any
    stop_expected: Any
    likeness: Any
    mask_contrast: Any


class Buffers(NamedTuple):
    """Memory to work in, for one head and window at a time."""

    value: Any  # (P,): S of each pair
    bins: Any  # (P,)
    full: Any  # (N, N and a little): the bins as a matrix
    counts: Any  # (thresholds, N and a little): with how many others each token is similar
    times: Any  # (K,): how often each id is in a high pair
    both: Any  # (K, bins): how often on both sides
    lanes: Any  # (64,): sums side by side
    columns: Any  # (3, N and a little): sums of columns


@compiled
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


@compiled
def _extremes(values: Any, size: int) -> tuple[float, float]:
    """The smallest and the largest of the first numbers, none of them NaN; side by side, which can be vectorised."""
    low, high = np.full(LANES, values[0]), np.full(LANES, values[0])
    whole = size // LANES * LANES
    for k in range(0, whole, LANES):
        for lane in range(LANES):
            value = values[k + lane]
            low[lane], high[lane] = min(low[lane], value), max(high[lane], value)
    least, most = values[0], values[0]
    for lane in range(LANES):
        least, most = min(least, low[lane]), max(most, high[lane])
    for k in range(whole, size):
        least, most = min(least, values[k]), max(most, values[k])
    return least, most


@compiled
def _total(values: Any, size: int, lanes: Any) -> float:
    """Σ x, in 64 sums side by side: vectorised, and yet always in the same order."""
    for lane in range(WIDE):
        lanes[lane] = 0.0
    whole = size // WIDE * WIDE
    for k in range(0, whole, WIDE):
        for lane in range(WIDE):
            lanes[lane] += np.float64(values[k + lane])
    total = 0.0
    for lane in range(WIDE):
        total += lanes[lane]
    for k in range(whole, size):
        total += np.float64(values[k])
    return total


@compiled
def _squares_about_mean(values: Any, size: int, mean: float, lanes: Any) -> float:
    """Σ (x - mean)²."""
    for lane in range(WIDE):
        lanes[lane] = 0.0
    whole = size // WIDE * WIDE
    for k in range(0, whole, WIDE):
        for lane in range(WIDE):
            rest = np.float64(values[k + lane]) - mean
            lanes[lane] += rest * rest
    total = 0.0
    for lane in range(WIDE):
        total += lanes[lane]
    for k in range(whole, size):
        rest = np.float64(values[k]) - mean
        total += rest * rest
    return total


@compiled
def _careful_correlation(
    s: Any, a: Any, b: int, h: int, begin: int, n: int, mean: float, squares: float, y_mean: float
) -> float:
    xy, yy = 0.0, 0.0
    first = np.float64(a[b, h, begin, begin + 1]) + np.float64(a[b, h, begin + 1, begin])
    constant = True
    for i in range(begin, begin + n):
        for j in range(i + 1, begin + n):
            read = np.float64(a[b, h, i, j]) + np.float64(a[b, h, j, i])
            constant &= read == first
            xy += (np.float64(s[b, h, i, j]) - mean) * (read - y_mean)
            yy += (read - y_mean) * (read - y_mean)
    return 0.0 if constant else xy / np.sqrt(squares * yy)


@compiled
def _with_map(
    s: Any, a: Any, b: int, h: int, begin: int, n: int, mean: float, columns: Any
) -> tuple[float, float, float]:
    """Σ (S - mean)·A, Σ A and Σ A² over the matrix, column by column."""
    for j in range(n):
        columns[0, j] = columns[1, j] = columns[2, j] = 0.0
    if begin >= 0:
        for i in range(n):
            for j in range(n):
                read = np.float64(a[b, h, begin + i, begin + j])
                columns[0, j] += (np.float64(s[b, h, begin + i, begin + j]) - mean) * read
                columns[1, j] += read
                columns[2, j] += read * read
    xy = y = yy = 0.0
    for j in range(n):
        xy += columns[0, j]
        y += columns[1, j]
        yy += columns[2, j]
    return xy, y, yy


@compiled
def _with_mirror(a: Any, b: int, h: int, begin: int, n: int) -> float:
    """Σ A_ij·A_ji over the pairs."""
    one = two = 0.0
    if begin >= 0:
        for i in range(n):
            row = a[b, h, begin + i]
            for j in range(0, i - 1, 2):
                one += np.float64(row[begin + j]) * np.float64(a[b, h, begin + j, begin + i])
                two += np.float64(row[begin + j + 1]) * np.float64(a[b, h, begin + j + 1, begin + i])
            if i % 2:
                one += np.float64(row[begin + i - 1]) * np.float64(a[b, h, begin + i - 1, begin + i])
    return one + two


@compiled
def _correlation(
    s: Any, a: Any, b: int, h: int, begin: int, n: int, mean: float, squares: float, columns: Any
) -> float:
    """Pearson's correlation of x = S_ij with y = A_ij + A_ji over the pairs, given Σ (x - mean)².

    Σ x·y over pairs is Σ x·A over the matrix without its diagonal, and only Σ A_ij·A_ji needs both halves at once.
    """
    size = n * (n - 1) // 2
    xy, y, yy = _with_map(s, a, b, h, begin, n, mean, columns)
    for i in range(begin, begin + n):
        diagonal = np.float64(a[b, h, i, i])
        xy -= (np.float64(s[b, h, i, i]) - mean) * diagonal
        y -= diagonal
        yy -= diagonal * diagonal
    yy += 2.0 * _with_mirror(a, b, h, begin, n)
    spread = yy - y * y / size
    if spread <= 1e-8 * yy:  # hardly any: what is left of it may be rounding
        correlation: float = _careful_correlation(s, a, b, h, begin, n, mean, squares, y / size)
        return correlation
    return float(xy / np.sqrt(squares * spread))


@compiled
def _bins(values: Any, size: int, most: float, edges: Any, bins: Any) -> None:
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


@compiled
def _copy_pairs(products: Any, b: int, h: int, begin: int, n: int, value: Any) -> None:
    """Write S of each pair into a row."""
    if begin >= 0:
        p = 0
        for i in range(n - 1):
            for j in range(n - 1 - i):
                value[p + j] = products[b, h, begin + i, begin + i + 1 + j]
            p += n - 1 - i


@compiled
def _copy_pairs_and_sum(products: Any, b: int, h: int, begin: int, n: int, value: Any, sums: Any) -> None:
    """The same, and add it to the sum of all windows."""
    if begin >= 0:
        p = 0
        for i in range(n - 1):
            for j in range(n - 1 - i):
                product = products[b, h, begin + i, begin + i + 1 + j]
                value[p + j] = product
                sums[h, begin + i, begin + i + 1 + j] += np.float64(product)
            p += n - 1 - i


@compiled
def _count_custom(custom: Any, b: int, bins: Any, cells: Any, size: int, custom_pairs: Any, h: int) -> None:
    for r in range(len(custom)):
        for p in range(size):
            if custom[r, b, p]:
                custom_pairs[r, h, bins[p], cells[b, p]] += 1


@compiled
def _add_row(row: Any, begin: int, n: int, columns: Any) -> None:
    """Add a token's row to the sums of columns."""
    if begin >= 0:
        for j in range(n):
            columns[j] += np.float64(row[begin + j])


@compiled
def _sum(values: Any, n: int) -> float:
    """Σ x of a few numbers, in four sums side by side."""
    a = b = c = d = 0.0
    whole = n // 4 * 4
    for k in range(0, whole, 4):
        a += values[k]
        b += values[k + 1]
        c += values[k + 2]
        d += values[k + 3]
    for k in range(whole, n):
        a += values[k]
    return (a + b) + (c + d)


@compiled
def _regions(s: Any, begin: int, n: int, high: Any, total: float, columns: Any) -> tuple[float, float, float, int]:
    """Σ over the pairs inside, at the edge, outside, and how many tokens are high, from the rows of those alone."""
    columns[:n] = 0.0
    high_tokens, diagonal = 0, 0.0
    for i in range(n):
        if high[begin + i]:
            high_tokens += 1
            diagonal += np.float64(s[begin + i, begin + i])
            _add_row(s[begin + i], begin, n, columns)
    touched, inside = _sum(columns, n) - diagonal, -diagonal
    for j in range(n):
        if high[begin + j]:
            inside += columns[j]
    inside /= 2.0  # every such pair was met from both sides
    edge = touched - 2.0 * inside
    return inside, edge, total - inside - edge, high_tokens


@compiled
def _masks(
    s: Any, begin: int, n: int, passed: Any, total: float, scale: float, columns: Any, sums: Any, pairs: Any
) -> None:
    """The same at every threshold: tokens join in the order of the thresholds that they pass, the highest first.

    `sums` and `pairs` (thresholds, 3): level and number of pairs inside, at the edge, outside.
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
            _add_row(s[begin + i], begin, n, columns)
        edge = _sum(columns, n) - diagonal - 2.0 * inside
        sums[k, 0] += inside / scale
        sums[k, 1] += edge / scale
        sums[k, 2] += (total - inside - edge) / scale
        pairs[k, 0] += joined * (joined - 1) // 2
        pairs[k, 1] += joined * (n - joined)
        pairs[k, 2] += (n - joined) * (n - joined - 1) // 2


@compiled
def _similar_tokens(bins: Any, n: int, full: Any, counts: Any) -> None:
    """With how many others each token is similar, at every threshold: bins to a matrix (N, N) to counts."""
    steps, width = counts.shape
    p = 0
    for i in range(n):
        full[i, i] = 0
        full[i, n:] = 0
        for j in range(i + 1, n):
            full[i, j] = bins[p]
            full[j, i] = bins[p]
            p += 1
    for k in range(steps):
        for i in range(width):
            counts[k, i] = 0
    for j in range(n):
        for k in range(steps):
            lowest = np.int8(k + 2)
            for i in range(width):
                counts[k, i] += np.int16(full[j, i] >= lowest)


@compiled
def _focal_tokens(
    index: Any, b: int, h: int, limits: Thresholds, buffers: Buffers, chosen: Any, sums: PairSums, rows: PairRows
) -> None:
    """The focal token of one head in one window at each threshold, from the highest down."""
    kind, kinds, repeats, n = index.kind[b], index.kinds[b], index.repeats[b], index.sizes[b]
    times, both, counts, bins = buffers.times, buffers.both, buffers.counts, buffers.bins
    focal_share, focal_few, few, lowest = sums.focal_share, sums.focal_few, limits.few, limits.lowest
    steps = len(counts)
    both[:kinds] = 0
    for r in range(len(repeats)):
        p = repeats[r, 0]
        if p < 0:
            break
        both[repeats[r, 1], bins[p]] += 1
    for k in range(steps - 1, -1, -1):
        times[:kinds] = 0
        count = 0
        for i in range(n):
            times[kind[i]] += counts[k, i]
            count += counts[k, i]
        best = 0
        for t in range(kinds):
            both[t, k + 2] += both[t, k + 3] if k + 3 < both.shape[1] else 0
            if times[t] > times[best]:
                best = t
        if count == 0:
            continue
        number = count // 2  # every pair was counted for both of its tokens
        share = (times[best] - both[best, k + 2]) / number
        chosen[k] = best
        focal_share[h, k] += share
        focal_few[h, k] += number < few
        if k + 2 == lowest:
            rows.high_pairs[b, h] = number
            rows.focal_share[b, h] = share


@compiled
def _at_tau(
    index: Any, b: int, h: int, best: int, limits: Thresholds, buffers: Buffers, sums: PairSums, rows: PairRows
) -> None:
    """At the run's τ: how far the focal token's pairs reach, and what else the high pairs are."""
    kind, n, bins, full, lowest = index.kind[b], index.sizes[b], buffers.bins, buffers.full, limits.lowest
    distances, in_sentence, again = index.distance[b], index.within[b], index.repeated[b]
    with_stop, stop_chance = index.with_stop[b], index.stop_chance[b]
    occurs = distance_focal = focal = 0
    for i in range(n):
        if kind[i] != best:
            continue
        occurs += 1
        for j in range(n):
            if full[i, j] >= lowest and (j > i or kind[j] != best):
                distance_focal += abs(j - i)
                focal += 1
    size = n * (n - 1) // 2
    distance = within = repeated = stops = 0
    for p in range(size):
        similar = np.int32(bins[p] >= lowest)
        distance += similar * distances[p]
        within += similar * in_sentence[p]
        repeated += similar * again[p]
        stops += similar * with_stop[p]
    stops_by_chance = 0.0
    for p in range(size):
        if bins[p] >= lowest:
            stops_by_chance += stop_chance[p]
    number = rows.high_pairs[b, h]
    sums.focal_frequency[h] += occurs / n
    sums.focal_distance[h] += distance_focal / focal
    rows.distance[b, h] = distance / number
    rows.sentence_share[b, h] = within / number
    rows.repetition_share[b, h] = repeated / number
    rows.stop_share[b, h] = stops / number
    rows.stop_expected[b, h] = stops_by_chance / number


@compiled
def _likeness(
    s: Any, a: Any, b: int, h: int, begin: int, n: int, value: Any, total: float, lanes: Any, columns: Any
) -> float:
    """The correlation of S with attention over the pairs, given Σ S."""
    size = n * (n - 1) // 2
    mean = total / size
    squares = _squares_about_mean(value, size, mean, lanes)
    correlation: float = _correlation(s, a, b, h, begin, n, mean, squares, columns)
    return correlation


@compiled
def likeness_of_heads(products: Any, weights: Any, begin: int, n: int, likeness: Any) -> None:
    """The correlation of S with attention alone, for windows so long that only this is wanted: (1, H, T, T) to (H,)."""
    size = n * (n - 1) // 2
    value, lanes, columns = np.empty(max(size, 1), np.float32), np.empty(WIDE), np.empty((3, max(n, 1)))
    for h in range(len(likeness)):
        likeness[h] = 0.0
        if size < 1:
            continue
        _copy_pairs(products, 0, h, begin, n, value)
        least, most = _extremes(value, size)
        if least < most:  # S varies
            total = _total(value, size, lanes)
            likeness[h] = _likeness(products, weights, 0, h, begin, n, value, total, lanes, columns)


@compiled
def _attended_regions(
    read: PairsIn,
    index: Any,
    b: int,
    h: int,
    total: float,
    scale: float,
    buffers: Buffers,
    sums: PairSums,
    rows: PairRows,
) -> None:
    """Levels inside and outside the mask of high attention, at the run's θ and at every threshold."""
    n, begin, high, passed = index.sizes[b], index.begins[b], read.high[b, h], read.passed[b, h]
    mask_sum, mask_pairs, columns = sums.mask_sum[h], sums.mask_pairs[h], buffers.columns[0]
    if read.levels.size > 0:  # ranks
        size = n * (n - 1) // 2
        every = size * (size + 1) / 2 / size
        inside, edge, outside, high_tokens = _regions(read.levels[b, h], begin, n, high, every, columns)
        _masks(read.levels[b, h], begin, n, passed, every, 1.0, columns, mask_sum, mask_pairs)
    else:
        inside, edge, outside, high_tokens = _regions(read.products[b, h], begin, n, high, total, columns)
        inside, edge, outside = inside / scale, edge / scale, outside / scale
        _masks(read.products[b, h], begin, n, passed, total, scale, columns, mask_sum, mask_pairs)
    pairs_inside = high_tokens * (high_tokens - 1) // 2
    pairs_outside = (n - high_tokens) * (n - high_tokens - 1) // 2
    sums.region_sum[h, 0] += inside
    sums.region_sum[h, 1] += edge
    sums.region_sum[h, 2] += outside
    sums.region_pairs[h, 0] += pairs_inside
    sums.region_pairs[h, 1] += high_tokens * (n - high_tokens)
    sums.region_pairs[h, 2] += pairs_outside
    if pairs_inside and pairs_outside:
        rows.mask_contrast[b, h] = inside / pairs_inside - outside / pairs_outside


@compiled
def pairs_of_heads(
    read: PairsIn,
    index: Any,  # a BatchIndex
    limits: Thresholds,
    sums: PairSums,
    chosen: Any,  # out (B, H, thresholds): number of the focal token among the window's ids; -1 without high pairs
    rows: PairRows,
    first: int,
    last: int,
) -> bool:
    """What the heads `first` to `last` - 1 find similar. False where a product is not a finite number."""
    tokens, most_pairs, steps = index.kind.shape[1], index.cells.shape[1], len(limits.edges) - 1
    width = (tokens + 31) // 32 * 32
    buffers = Buffers(
        np.empty(most_pairs, np.float32), np.empty(most_pairs, np.int8), np.zeros((tokens, width), np.int8),
        np.zeros((steps, width), np.int16), np.empty(tokens, np.int64), np.empty((tokens, steps + 2), np.int64),
        np.empty(WIDE), np.empty((3, width)),
    )  # fmt: skip
    # Arrays are taken out of their groups before the loops: every access to a group counts a reference.
    value, bins, lanes, columns = buffers.value, buffers.bins, buffers.lanes, buffers.columns
    products, levels, weights = read.products, read.levels, read.weights
    pairs, custom_pairs, similarity_sum, cells, custom = (
        sums.pairs, sums.custom_pairs, sums.similarity_sum, index.cells, index.custom
    )  # fmt: skip
    sizes, begins, edges, lowest = index.sizes, index.begins, limits.edges, limits.lowest
    ranked, maps, summed = levels.size > 0, weights.size > 0, similarity_sum.size > 0
    finite = True
    for h in range(first, last):
        for b in range(len(sizes)):
            n, begin = sizes[b], begins[b]
            if n < 2 or begin < 0:  # the second never: it tells the compiler that indices are not negative
                continue
            size = n * (n - 1) // 2
            if summed:
                _copy_pairs_and_sum(products, b, h, begin, n, value, similarity_sum)
            else:
                _copy_pairs(products, b, h, begin, n, value)
            total = _total(value, size, lanes)
            if not np.isfinite(total):
                finite = False
                continue
            least, most = _extremes(value, size)
            if most <= 0:  # flat
                sums.flat[h] += 1
                for p in range(size):
                    pairs[h, 0, cells[b, p]] += 1
                    bins[p] = 0
                _count_custom(custom, b, bins, cells, size, custom_pairs, h)
                continue
            scale = np.float64(most)
            norms = 0.0
            for i in range(begin, begin + n):
                norms += np.float64(products[b, h, i, i])
            sums.diagonal[h] += norms / n / scale
            rows.likeness[b, h] = rows.mask_contrast[b, h] = np.nan
            if maps:
                alike = 0.0
                if least < most:  # S varies
                    alike = _likeness(products, weights, b, h, begin, n, value, total, lanes, columns)
                rows.likeness[b, h] = alike
                sums.attention_correlation[h] += alike
                _attended_regions(read, index, b, h, total, scale, buffers, sums, rows)
            if ranked:
                p = 0
                for i in range(begin, begin + n - 1):
                    for j in range(i + 1, begin + n):
                        bins[p] = bin_of(levels[b, h, i, j], edges)
                        p += 1
            else:
                _bins(value, size, scale, edges, bins)
            for p in range(size):
                pairs[h, bins[p], cells[b, p]] += 1
            _count_custom(custom, b, bins, cells, size, custom_pairs, h)
            _similar_tokens(bins, n, buffers.full, buffers.counts)
            _focal_tokens(index, b, h, limits, buffers, chosen[b, h], sums, rows)
            best = chosen[b, h, lowest - 2]
            if best >= 0:
                _at_tau(index, b, h, best, limits, buffers, sums, rows)
    return finite
