"""What the loops over pairs take and fill, in named groups.

Arrays are taken out of their groups before a loop: every access to a group counts a reference.
"""

from __future__ import annotations

from typing import Any, NamedTuple


class Rules(NamedTuple):
    """What other files decide, as arrays and numbers."""

    edges: Any  # (20,): lower edges of the level bins 1 to 20; between them lie the thresholds
    lowest: int  # the first level bin that is high at the run's τ
    few: int  # with fewer high pairs a focal token says little
    fewest_for_top: int  # pairs of a window that has top pairs
    least_top: int  # no top pairs where fewer than one pair in so many is in the last bin
    contrasted: Any  # (3, relations) bool: class 1 of the contrasts of relations
    unrelated: int  # the relation that is class 0
    in_sentence: Any  # (relations,) bool
    repeated: Any  # (relations,) bool
    source: Any  # (R,): which product each reading is of
    scaled: Any  # (R,) bool: whether it is over the two lengths


class PairsIn(NamedTuple):
    """One layer of a batch."""

    products: Any  # (sources, B, H, T, T) float32: vectors times vectors, the diagonal still in it
    norms: Any  # (sources, B, H, T) float32: lengths of the vectors
    lengths: Any  # (B, H, T) float32: |O_i|
    levels: Any  # (B, H, T, T) float64 where levels are ranks; empty where they are shares of the largest
    weights: Any  # (B, H, T, T) float32: attention; empty in cross-attention
    readable: Any  # (B, T) float32: how many tokens each may read
    directions: Any  # (B, P) float32: 1 over the directions in which a pair may be read, 0 where there is none
    rows: Any  # (B, H, T, T) float32: rows of attention compared with rows; empty without that map
    high: Any  # (B, H, T) int8: 1 for high-attention tokens among those that count
    passed: Any  # (B, H, T) int8: how many thresholds of attention each of them passes
    edges: Any  # (B, H, V, 15) float32: edges of the order bins of each reading and map


class PairSums(NamedTuple):
    """What is added to, under the names of the variables: one layer of each."""

    attention_wins: Any  # (M, H, contrasts)
    contrast_weight: Any  # (H, contrasts)
    wins: Any  # (R, H, contrasts)
    top_pairs: Any  # (R, H, bands · relations)
    top_few: Any  # (R, H)
    top_matched: Any  # (R, H, comparisons, 2)
    attention_correlation: Any  # (R, M, H)
    norm_correlation: Any  # (R, H)
    similarity_sum: Any  # (H, T, T); empty for long windows
    pairs: Any  # (H, bins, distances or bands · relations)
    distance_sum: Any  # (H, bins, relations); empty where it follows from the pairs
    custom_pairs: Any  # (own relations, H, bins, distances or bands · relations)
    matched: Any  # (H, comparisons, 2)
    flat: Any  # (H,)
    diagonal: Any  # (H,)
    mask_sum: Any  # (H, thresholds, 3): inside, at the edge, outside the mask of high attention
    mask_pairs: Any  # (H, thresholds, 3)
    focal_share: Any  # (H, thresholds)
    focal_few: Any  # (H, thresholds)
    focal_frequency: Any  # (H,)
    focal_distance: Any  # (H,)
    focal_longest: Any  # (H,)


class Chosen(NamedTuple):
    """Focal tokens, by their number among the window's ids, -1 for none; and those of the null."""

    focal: Any  # (B, H, thresholds)
    focal_null: Any  # (B, H, thresholds)
    top: Any  # (R, B, H)
    top_null: Any  # (R, B, H)


class PairRows(NamedTuple):
    """What each head did with each window in the main reading, (B, H) each: columns of the rows per text."""

    high_pairs: Any
    distance: Any
    sentence_share: Any
    repetition_share: Any
    focal_share: Any
    likeness: Any
    matched: Any  # (B, H, comparisons, 2)
    wins: Any  # (B, H, contrasts)
    weight: Any  # (B, H, contrasts)


class Buffers(NamedTuple):
    """Memory to work in, for one head and window at a time."""

    values: Any  # (V, P) float32: each reading and map of each pair
    bins: Any  # (P,) int8: level bins
    order: Any  # (P,) int8: order bins
    region: Any  # (P,) int16: (band · 3 + high tokens of the pair) · 16
    full: Any  # (N, N and a little) int8: the level bins as a matrix
    counts: Any  # (thresholds, N and a little) int16: degrees of the tokens
    degrees: Any  # (N and a little,) int32: in how many top pairs each token is
    times: Any  # (K,) int64: sums of degrees
    both: Any  # (K, bins) int64: pairs of an id with itself
    null: Any  # (K,) int64: the ids in the order in which the null gives them their sums
    keys: Any  # (K,) uint64
    histogram: Any  # (bands · relations · 16,) int32
    regions: Any  # (bands · 3 · 16,) int32
    kinds: Any  # (bands · relations,) int32: high or top pairs of each kind
    lanes: Any  # (64,): sums side by side
    columns: Any  # (N and a little,): sums of columns
    moments: Any  # (V, 4): mean, Σ (x - mean)², 1 where the values vary, Σ x
