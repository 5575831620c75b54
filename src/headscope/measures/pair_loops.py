"""The method's sums over the pairs of each head of a batch, as compiled loops.

What `measures` says in formulas for one window (`similarity`, `focal`, `attention.correlation`) is done here for every
head of a layer in two visits to each pair, without tables of pairs in between: the statistics cost a small share of
the forward pass. Each head is worked on by one thread, windows in their order, sums in float64, so the numbers do not
depend on how many threads there are.

All that `pairs_of_heads` calls stands in this file: numba's cache does not notice a change in another one.

Shapes: B windows, H heads, T tokens with padding, N tokens that count in a window, K its distinct token ids.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from headscope.measures.compiled import EDGES, STEPS, compiled, compiled_sums
from headscope.measures.focal import FEW
from headscope.measures.similarity import BINS

LANES = 16
# The columns of two arrays that the loops fill: sums of each head, and what it did with one window at the run's τ.
HEAD_SUMS = ("flat", "diagonal", "attention_correlation", "focal_frequency", "focal_distance")
ROWS = (
    "high_pairs", "distance", "sentence_share", "repetition_share", "focal_share", "sentence_expected", "stop_share",
    "stop_expected", "likeness", "mask_contrast",
)  # fmt: skip


@compiled
def bin_of(level: float) -> int:
    """The bin of a level, as `similarity.bins` has it: the edges k/20 decide, whatever 20·level rounds to."""
    if level < 0.0:
        return 0
    k = min(int(level * 20.0), 19)
    if level < EDGES[k]:
        k -= 1
    elif k < 19 and level >= EDGES[k + 1]:
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
    """The smallest and the largest of the first numbers, none of them NaN; in lanes, which can be vectorised."""
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


@compiled_sums
def _total(values: Any, size: int) -> float:
    total = 0.0
    for k in range(size):
        total += np.float64(values[k])
    return total


@compiled_sums
def _about_mean(values: Any, size: int, mean: float) -> float:
    """Σ (x - mean)²."""
    total = 0.0
    for k in range(size):
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


@compiled_sums
def _with_map(s: Any, a: Any, b: int, h: int, begin: int, n: int, mean: float) -> tuple[float, float, float]:
    """Σ (S - mean)·A, Σ A and Σ A² over the matrix."""
    xy, y, yy = 0.0, 0.0, 0.0
    if begin >= 0:
        for i in range(n):
            for j in range(n):
                read = np.float64(a[b, h, begin + i, begin + j])
                xy += (np.float64(s[b, h, begin + i, begin + j]) - mean) * read
                y += read
                yy += read * read
    return xy, y, yy


@compiled_sums
def _with_mirror(a: Any, b: int, h: int, begin: int, n: int) -> float:
    """Σ A_ij·A_ji over the pairs."""
    total = 0.0
    if begin >= 0:
        for i in range(n):
            for j in range(i):
                total += np.float64(a[b, h, begin + i, begin + j]) * np.float64(a[b, h, begin + j, begin + i])
    return total


@compiled
def _correlation(s: Any, a: Any, b: int, h: int, begin: int, n: int, mean: float, squares: float) -> float:
    """Pearson's correlation of x = S_ij with y = A_ij + A_ji over the pairs, given Σ (x - mean)².

    Σ x·y over pairs is Σ x·A over the matrix without its diagonal, and only Σ A_ij·A_ji needs both halves at once.
    """
    size = n * (n - 1) // 2
    xy, y, yy = _with_map(s, a, b, h, begin, n, mean)
    for i in range(begin, begin + n):
        own = np.float64(a[b, h, i, i])
        xy -= (np.float64(s[b, h, i, i]) - mean) * own
        y -= own
        yy -= own * own
    yy += 2.0 * _with_mirror(a, b, h, begin, n)
    spread = yy - y * y / size
    if spread <= 1e-8 * yy:  # hardly any: what is left of it may be rounding
        found: float = _careful_correlation(s, a, b, h, begin, n, mean, squares, y / size)
        return found
    return float(xy / np.sqrt(squares * spread))


@compiled
def _bins(values: Any, size: int, most: float, bins: Any) -> None:
    """The bins of S / its largest. Multiplied, not divided; where that may round across an edge, divided after all."""
    factor = 20.0 / most
    for k in range(size):
        bins[k] = np.int8(min(max(np.floor(np.float64(values[k]) * factor), -1.0), 19.0)) + 1
    doubtful = 0
    for k in range(size):
        place = np.float64(values[k]) * factor
        rest = abs(place - np.rint(place))
        doubtful += (rest < 1e-9) & (place > -0.5) & (place < 19.5)
    if doubtful:
        for k in range(size):
            bins[k] = bin_of(np.float64(values[k]) / most)


@compiled
def _take(products: Any, b: int, h: int, begin: int, n: int, value: Any) -> None:
    """Write S of each pair into a row."""
    if begin >= 0:
        p = 0
        for i in range(n - 1):
            for j in range(n - 1 - i):
                value[p + j] = products[b, h, begin + i, begin + i + 1 + j]
            p += n - 1 - i


@compiled
def _take_and_sum(products: Any, b: int, h: int, begin: int, n: int, value: Any, sums: Any) -> None:
    """The same, and add it to the sum of all windows."""
    if begin >= 0:
        p = 0
        for i in range(n - 1):
            for j in range(n - 1 - i):
                found = products[b, h, begin + i, begin + i + 1 + j]
                value[p + j] = found
                sums[h, begin + i, begin + i + 1 + j] += np.float64(found)
            p += n - 1 - i


@compiled
def _count_own(own: Any, b: int, bins: Any, cells: Any, size: int, own_pairs: Any, h: int) -> None:
    for r in range(len(own)):
        for p in range(size):
            if own[r, b, p]:
                own_pairs[r, h, bins[p], cells[b, p]] += 1


@compiled_sums
def _regions(s: Any, begin: int, n: int, high: Any, total: float) -> tuple[float, float, float, int]:
    """Σ over the pairs inside, at the edge, outside, and how many tokens are high, from the rows of those alone."""
    if begin < 0:
        return 0.0, 0.0, 0.0, 0
    inside, touched, looking = 0.0, 0.0, 0
    for i in range(n):
        if high[begin + i]:
            looking += 1
            for j in range(n):
                value = np.float64(s[begin + i, begin + j])
                touched += value
                inside += value * high[begin + j]
            touched -= np.float64(s[begin + i, begin + i])
            inside -= np.float64(s[begin + i, begin + i])
    inside /= 2.0  # every such pair was met from both sides
    edge = touched - 2.0 * inside
    return inside, edge, total - inside - edge, looking


@compiled
def _masks(s: Any, begin: int, n: int, passed: Any, total: float, scale: float, order: Any, sums: Any) -> None:
    """The same at every threshold: tokens join in the order of the thresholds that they pass, the highest first.

    `sums` (STEPS, 3, 2): level and number of pairs inside, at the edge, outside.
    """
    place = 0
    inside, touched = 0.0, 0.0
    for k in range(STEPS - 1, -1, -1):
        for i in range(n):
            if passed[begin + i] != k + 1:
                continue
            row = s[begin + i]
            touched += _total(row[begin : begin + n], n) - np.float64(row[begin + i])
            for m in range(place):
                inside += np.float64(row[begin + order[m]])
            order[place] = i
            place += 1
        edge = touched - 2.0 * inside
        sums[k, 0, 0] += inside / scale
        sums[k, 1, 0] += edge / scale
        sums[k, 2, 0] += (total - inside - edge) / scale
        sums[k, 0, 1] += place * (place - 1) // 2
        sums[k, 1, 1] += place * (n - place)
        sums[k, 2, 1] += (n - place) * (n - place - 1) // 2


@compiled
def _similar_tokens(bins: Any, n: int, width: int, full: Any, counts: Any) -> None:
    """With how many others each token is similar, at every threshold: bins to a matrix (N, N) to counts (STEPS, N)."""
    p = 0
    for i in range(n):
        full[i, i] = 0
        full[i, n:] = 0
        for j in range(i + 1, n):
            full[i, j] = bins[p]
            full[j, i] = bins[p]
            p += 1
    for k in range(STEPS):
        for i in range(width):
            counts[k, i] = 0
    for j in range(n):
        for k in range(STEPS):
            for i in range(width):
                counts[k, i] += full[j, i] >= k + 2


@compiled
def _focal_tokens(
    counts: Any,  # (STEPS, N): with how many others each token is similar
    n: int,
    bins: Any,  # (P,)
    repeats: Any,  # (Q, 2)
    kind: Any,  # (N,)
    kinds: int,
    lowest: int,
    times: Any,  # (K,): how often each id is in a high pair; room to work in, like the next
    both: Any,  # (K, BINS): how often on both sides
    chosen: Any,  # out (STEPS,)
    focal_share: Any,  # sums (STEPS,)
    focal_few: Any,  # sums (STEPS,)
    row: Any,  # out (10,): see ROWS
) -> None:
    """The focal token of one head in one window at each threshold, from the highest down."""
    both[:kinds] = 0
    for r in range(len(repeats)):
        p = repeats[r, 0]
        if p < 0:
            break
        both[repeats[r, 1], bins[p]] += 1
    for k in range(STEPS - 1, -1, -1):
        times[:kinds] = 0
        count = 0
        for i in range(n):
            times[kind[i]] += counts[k, i]
            count += counts[k, i]
        best = 0
        for t in range(kinds):
            both[t, k + 2] += both[t, k + 3] if k + 3 < BINS else 0
            if times[t] > times[best]:
                best = t
        if count == 0:
            continue
        number = count // 2  # every pair was counted for both of its tokens
        share = (times[best] - both[best, k + 2]) / number
        chosen[k] = best
        focal_share[k] += share
        focal_few[k] += number < FEW
        if k + 2 == lowest:
            row[0] = number
            row[4] = share


@compiled
def _at_tau(
    full: Any,  # (N, N): the bins as a matrix
    n: int,
    bins: Any,  # (P,)
    size: int,
    traits: Any,  # (4, B, P): whole, for a part of it would not lie in a row
    chances: Any,  # (2, B, P)
    b: int,
    kind: Any,  # (N,)
    best: int,  # the focal token
    lowest: int,
    head_sums: Any,  # sums (5,)
    row: Any,  # out (10,): see ROWS
) -> None:
    """At the run's τ: how far the focal token's pairs reach, and what else the high pairs are."""
    occurs = distance_focal = focal = 0
    for i in range(n):
        if kind[i] != best:
            continue
        occurs += 1
        for j in range(n):
            if full[i, j] >= lowest and (j > i or kind[j] != best):
                distance_focal += abs(j - i)
                focal += 1
    distance = within = repeated = stops = 0
    for p in range(size):
        similar = np.int32(bins[p] >= lowest)
        distance += similar * traits[0, b, p]
        within += similar * traits[1, b, p]
        repeated += similar * traits[2, b, p]
        stops += similar * traits[3, b, p]
    within_by_chance = stops_by_chance = 0.0
    for p in range(size):
        if bins[p] >= lowest:
            within_by_chance += chances[0, b, p]
            stops_by_chance += chances[1, b, p]
    number = row[0]
    head_sums[3] += occurs / n
    head_sums[4] += distance_focal / focal
    row[1] = distance / number
    row[2] = within / number
    row[3] = repeated / number
    row[5] = within_by_chance / number
    row[6] = stops / number
    row[7] = stops_by_chance / number


@compiled
def _likeness(
    s: Any, a: Any, b: int, h: int, begin: int, n: int, value: Any, size: int, total: float, varies: bool
) -> float:
    """The correlation of S with attention over the pairs; 0 where S does not vary."""
    if not varies:
        return 0.0
    mean = total / size
    found: float = _correlation(s, a, b, h, begin, n, mean, _about_mean(value, size, mean))
    return found


@compiled
def likeness_of_heads(products: Any, weights: Any, begin: int, n: int, found: Any) -> None:
    """The correlation of S with attention alone, for windows so long that only this is wanted: (1, H, T, T) to (H,)."""
    size = n * (n - 1) // 2
    value = np.empty(max(size, 1), np.float32)
    for h in range(len(found)):
        if size < 1:
            found[h] = 0.0
            continue
        _take(products, 0, h, begin, n, value)
        least, most = _extremes(value, size)
        total = _total(value, size)
        found[h] = _likeness(products, weights, 0, h, begin, n, value, size, total, least < most)


@compiled
def pairs_of_heads(
    products: Any,  # (B, H, T, T) float32: O·Oᵀ, the diagonal still in it
    levels: Any,  # (B, H, T, T) float64 where levels are ranks; empty where they are shares of the largest
    weights: Any,  # (B, H, T, T) float32; empty in cross-attention
    high: Any,  # (B, H, T) bool: high-attention tokens among those that count
    passed: Any,  # (B, H, T) int8: how many thresholds of attention each of them passes
    begins: Any,  # (B,): the first token that counts; they stand in a row
    sizes: Any,  # (B,): how many do
    cells: Any,  # (B, P) int32: distance and relation of each pair, as a place in a head's table of pairs
    traits: Any,  # (4, B, P) int32: distance of each pair, whether in one sentence, repeated, with a stop
    chances: Any,  # (2, B, P) float32: how likely a pair at its distance is of one sentence, to have a stop
    own: Any,  # (R, B, P) bool: which pairs have the caller's own relations
    kind: Any,  # (B, N) int32: the token ids of those that count, numbered by first occurrence
    kinds: Any,  # (B,): how many there are
    repeats: Any,  # (B, Q, 2) int32: the pairs of one id with itself, and its number; -1 after the last
    lowest: int,  # the first bin that is high at τ
    first: int,
    last: int,
    similarity_sum: Any,  # sums (H, T, T); empty for long windows
    pairs: Any,  # sums (H, BINS, distances · relations)
    own_pairs: Any,  # sums (R, H, BINS, distances · relations)
    head_sums: Any,  # sums (H, 5): see HEAD_SUMS
    regions: Any,  # sums (H, 3, 2): level and number of pairs inside, at the edge, outside
    masks: Any,  # sums (H, STEPS, 3, 2): the same at every threshold
    focal_share: Any,  # sums (H, STEPS)
    focal_few: Any,  # sums (H, STEPS)
    chosen: Any,  # out (B, H, STEPS): number of the focal token among the window's ids; -1 without high pairs
    rows: Any,  # out (B, H, 10): see ROWS
) -> bool:
    """What the heads find similar. False where a product is no finite number."""
    tokens, most_pairs = kind.shape[1], cells.shape[1]
    width = (tokens + 31) // 32 * 32
    value = np.empty(most_pairs, np.float32)  # S of each pair
    bins = np.empty(most_pairs, np.int8)
    full = np.zeros((tokens, width), np.int8)  # the bins as a matrix
    counts = np.zeros((STEPS, width), np.int16)
    times = np.empty(tokens, np.int64)
    both = np.empty((tokens, BINS), np.int64)
    order = np.empty(tokens, np.int64)
    ranked, maps, summed = levels.size > 0, weights.size > 0, similarity_sum.size > 0
    fine = True
    for h in range(first, last):
        for b in range(len(sizes)):
            n, begin = sizes[b], begins[b]
            if n < 2 or begin < 0:  # the second never: it tells the compiler that indices are not negative
                continue
            size = n * (n - 1) // 2
            if summed:
                _take_and_sum(products, b, h, begin, n, value, similarity_sum)
            else:
                _take(products, b, h, begin, n, value)
            total = _total(value, size)
            if not np.isfinite(total):
                fine = False
                continue
            least, most = _extremes(value, size)
            if most <= 0:  # flat
                head_sums[h, 0] += 1.0
                for p in range(size):
                    pairs[h, 0, cells[b, p]] += 1
                    bins[p] = 0
                _count_own(own, b, bins, cells, size, own_pairs, h)
                continue
            scale = np.float64(most)
            norms = 0.0
            for i in range(begin, begin + n):
                norms += np.float64(products[b, h, i, i])
            head_sums[h, 1] += norms / n / scale
            rows[b, h, 8] = rows[b, h, 9] = np.nan
            if maps:
                rows[b, h, 8] = _likeness(products, weights, b, h, begin, n, value, size, total, least < most)
                head_sums[h, 2] += rows[b, h, 8]
                if ranked:
                    every = size * (size + 1) / 2 / size
                    inside, edge, outside, looking = _regions(levels[b, h], begin, n, high[b, h], every)
                    _masks(levels[b, h], begin, n, passed[b, h], every, 1.0, order, masks[h])
                else:
                    inside, edge, outside, looking = _regions(products[b, h], begin, n, high[b, h], total)
                    inside, edge, outside = inside / scale, edge / scale, outside / scale
                    _masks(products[b, h], begin, n, passed[b, h], total, scale, order, masks[h])
                pairs_inside = looking * (looking - 1) // 2
                pairs_outside = (n - looking) * (n - looking - 1) // 2
                regions[h, 0, 0] += inside
                regions[h, 1, 0] += edge
                regions[h, 2, 0] += outside
                regions[h, 0, 1] += pairs_inside
                regions[h, 1, 1] += looking * (n - looking)
                regions[h, 2, 1] += pairs_outside
                if pairs_inside and pairs_outside:
                    rows[b, h, 9] = inside / pairs_inside - outside / pairs_outside
            if ranked:
                p = 0
                for i in range(begin, begin + n - 1):
                    for j in range(i + 1, begin + n):
                        bins[p] = bin_of(levels[b, h, i, j])
                        p += 1
            else:
                _bins(value, size, scale, bins)
            for p in range(size):
                pairs[h, bins[p], cells[b, p]] += 1
            _count_own(own, b, bins, cells, size, own_pairs, h)
            _similar_tokens(bins, n, width, full, counts)
            _focal_tokens(
                counts, n, bins, repeats[b], kind[b], kinds[b], lowest, times, both,
                chosen[b, h], focal_share[h], focal_few[h], rows[b, h],
            )  # fmt: skip
            best = chosen[b, h, lowest - 2]
            if best >= 0:
                _at_tau(full, n, bins, size, traits, chances, b, kind[b], best, lowest, head_sums[h], rows[b, h])
    return fine
