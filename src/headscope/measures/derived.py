"""Derived numbers: the formulas of docs/method.md, from sums to the number of one head.

Every formula keeps the leading dimensions of its sums (resamples, layers, heads) and uses up the last ones that it
names. NaN means that there is nothing to compare.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from headscope.choices import first_high_bin

Array = NDArray[np.float64]
FEWEST = 5  # a + b of a matched ratio: with less, a head has no number


def ratio(above: Array, below: Array) -> Array:
    """above / below, NaN where there is nothing below.

    >>> ratio(np.array([1.0, 1.0]), np.array([2.0, 0.0]))
    array([0.5, nan])
    """
    result: Array = np.full(np.broadcast(above, below).shape, np.nan)
    np.divide(above, below, out=result, where=below > 0)
    return result


def logarithm(values: Array) -> Array:
    """The natural logarithm; of 0 it is minus infinity, without a warning.

    >>> logarithm(np.array([1.0, 0.0]))
    array([  0., -inf])
    """
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(values))


# ---------------------------------------------------------------------- preferences


def matched_counts(k1: Array, n1: Array, k0: Array, n0: Array) -> tuple[Array, Array]:
    """a and b after Mantel and Haenszel: of n1 and n0 pairs in each stratum (the last dimension) k1 and k0 are high.

    >>> n = np.array
    >>> [float(side) for side in matched_counts(n([2.0, 1.0]), n([4.0, 4.0]), n([1.0, 0.0]), n([4.0, 0.0]))]
    [1.0, 0.5]
    """
    every = np.maximum(n1 + n0, 1)  # an empty stratum adds nothing
    return (k1 * n0 / every).sum(-1), (k0 * n1 / every).sum(-1)


def matched_ratio(*sums: Array) -> Array:
    """How much likelier a pair of class 1 is to be high than one of class 0 of the same stratum: (a + ½) / (b + ½).

    From the matched counts a and b, or from k1, n1, k0 and n0 by stratum, where those were not matched within windows.

    >>> matched_ratio(np.array([5.5, 1.0]), np.array([2.5, 1.0]))
    array([ 2., nan])
    """
    a, b = sums if len(sums) == 2 else matched_counts(*sums)
    return np.where(a + b >= FEWEST, (a + 0.5) / (b + 0.5), np.nan)


def label_preference(labelled: NDArray[Any], pairs: NDArray[Any], tau: float = 0.5) -> Array:
    """How much likelier two tokens with the same label are to be similar, in the same band and relation.

    Takes counts by level, band and relation (…, level, band, relation); `labelled` is a part of `pairs`.
    """

    def strata(counts: NDArray[Any]) -> Array:
        return np.asarray(counts.sum(-3), dtype=np.float64).reshape(*counts.shape[:-3], -1)  # (…, band × relation)

    def high(counts: NDArray[Any]) -> NDArray[Any]:
        return counts[..., first_high_bin(tau) :, :, :]

    rest = pairs - labelled
    return matched_ratio(strata(high(labelled)), strata(labelled), strata(high(rest)), strata(rest))


# ---------------------------------------------------------------------- distances


def distance_over_base(*sums: Array) -> Array:
    """Mean distance of a head's pairs over the mean distance of all pairs: below 1, a head looks near.

    From Σ distance and number of the high pairs, then of all pairs. Or from the number of top pairs in each band, then
    number and Σ distance of all pairs in it: the last dimension of each; a band stands for its mean distance.

    >>> n = np.array
    >>> distance_over_base(n(30.0), n(10.0), n(80.0), n(20.0))
    array(0.75)
    >>> distance_over_base(n([3.0, 1.0]), n([10.0, 10.0]), n([10.0, 30.0]))
    array(0.75)
    """
    if len(sums) == 4:
        high_total, high_number, total, number = sums
        return ratio(ratio(high_total, high_number), ratio(total, number))
    top, number, total = sums
    in_band = np.nan_to_num(ratio(total, number))
    far = np.einsum("...b,...b->...", top, in_band)
    return ratio(ratio(far, top.sum(-1)), ratio(total.sum(-1), number.sum(-1)))


def distribution(pairs: Array) -> Array:
    """The share of a head's pairs in each band, the dimension before layer and head: (…, band, layer, head)."""
    return ratio(pairs, pairs.sum(-3, keepdims=True))


# ---------------------------------------------------------------------- order and likeness


def auc_beyond_maps(wins: Array, weight: Array, wins_of_maps: Array) -> Array:
    """The AUC of a contrast by S, less that by the better of the attention maps (the last dimension of the last sums).

    >>> auc_beyond_maps(np.array(3.0), np.array(4.0), np.array([1.0, 2.0]))
    0.25
    """
    by_map = ratio(wins_of_maps, weight[..., None]).max(-1)
    difference: Array = ratio(wins, weight) - by_map
    return difference


def larger_mean(totals: Array, number: Array) -> Array:
    """The larger of the means over the last dimension of `totals`, each a sum of `number` values."""
    return np.asarray(ratio(totals, number[..., None]).max(-1))


def mean_of_counts(windows: Array) -> Array:
    """The mean of 0, 1, 2, …, from the number of windows with each: (…, unique) to (…).

    >>> mean_of_counts(np.array([0.0, 1.0, 3.0]))
    array(1.75)
    """
    return ratio(windows @ np.arange(windows.shape[-1], dtype=np.float64), windows.sum(-1))
