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


class OrderSums(NamedTuple):
    """What needs no threshold, under the names of the variables: one layer of each."""

    attention_wins: Any  # (M, H, contrasts)
    contrast_weight: Any  # (H, contrasts)
    wins: Any  # (R, H, contrasts)
    top_pairs: Any  # (R, H, bands · relations)
    top_few: Any  # (R, H)
    top_matched: Any  # (R, H, comparisons, 2)
    attention_correlation: Any  # (R, M, H)
    norm_correlation: Any  # (R, H)
    similarity_sum: Any  # (H, T, T), of the main reading; empty for long windows


class LevelSums(NamedTuple):
    """What needs levels, of the main reading: one layer of each."""

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
    null: Any  # (B, H, K): the ids in the order in which the null gives them the sums of `by_count`


class OrderRows(NamedTuple):
    """The main reading of each window without a threshold, (B, H) each: for the rows per text."""

    likeness: Any
    wins: Any  # (B, H, contrasts)
    weight: Any  # (B, H, contrasts)


class LevelRows(NamedTuple):
    """The main reading of each window at the run's τ, (B, H) each: for the rows per text."""

    high_pairs: Any
    mean_distance: Any
    sentence_share: Any
    repetition_share: Any
    focal_share: Any
    matched: Any  # (B, H, comparisons, 2)
