"""Derived numbers: what the counts of pairs say about a head, held against what was there to be found.

Every function takes `pairs`, counts with the dimensions (…, level, distance, relation) of docs/method.md, and keeps the
leading ones: one head, one layer's heads, a whole model. NaN means that there is nothing to compare.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from headscope.measures.relations import BOTH, REPEATED, SENTENCE, UNRELATED
from headscope.measures.similarity import first_high_bin

Array = NDArray[np.float64]


def high_and_all(pairs: Array, tau: float) -> tuple[Array, Array]:
    """The pairs that are high at τ, and all of them: (…, level, distance, relation) to (…, distance, relation)."""
    return pairs[..., first_high_bin(tau) :, :, :].sum(-3), pairs.sum(-3)


def ratio(above: Array, below: Array) -> Array:
    """above / below, NaN where there is nothing below."""
    result: Array = np.full(np.broadcast(above, below).shape, np.nan)
    np.divide(above, below, out=result, where=below > 0)
    return result


def matched_ratio(k1: Array, n1: Array, k0: Array, n0: Array) -> tuple[Array, Array]:
    """How much likelier a pair of class 1 is to be high than one of class 0 of the same stratum (the last dimension).

    n pairs, k high ones among them. Also the share of class 1 that had no counterpart and was left out.

    >>> a = np.array
    >>> matched_ratio(a([2.0, 1.0]), a([4.0, 4.0]), a([1.0, 0.0]), a([4.0, 0.0]))
    (array(2.), array(0.5))
    """
    usable = (n1 > 0) & (n0 > 0)
    expected = np.where(usable, n1 * k0 / np.maximum(n0, 1), 0).sum(-1)
    left_out = ratio(np.where(usable, 0, n1).sum(-1), n1.sum(-1))
    return ratio(np.where(usable, k1, 0).sum(-1), expected), left_out


def _preference(pairs: Array, tau: float, ones: Sequence[int], zeros: Sequence[int]) -> Array:
    """Matched ratio of the relations `ones` to the relations `zeros`, strata: distance × position in the lists."""
    high, every = high_and_all(pairs, tau)

    def strata(counts: Array, kinds: Sequence[int]) -> Array:
        return np.concatenate([counts[..., kind] for kind in kinds], axis=-1)  # (…, kinds · distance)

    return matched_ratio(strata(high, ones), strata(every, ones), strata(high, zeros), strata(every, zeros))[0]


def sentence_preference(pairs: Array, tau: float = 0.5) -> Array:
    """How much likelier two words of one sentence are to be similar, at equal distance and repetition."""
    return _preference(pairs, tau, ones=(SENTENCE, BOTH), zeros=(UNRELATED, REPEATED))


def repetition_preference(pairs: Array, tau: float = 0.5) -> Array:
    """How much likelier a repeated token is to be similar to itself, at equal distance and sentence."""
    return _preference(pairs, tau, ones=(REPEATED, BOTH), zeros=(UNRELATED, SENTENCE))


def own_preference(own: Array, pairs: Array, tau: float = 0.5) -> Array:
    """How much likelier two tokens with the same label are to be similar, at equal distance and relation.

    `own` counts the pairs with the same label and is a part of `pairs`.
    """
    rest = pairs - own

    def strata(counts: Array) -> Array:
        return counts.reshape(*counts.shape[:-2], -1)  # (…, distance · relation)

    (k1, n1), (k0, n0) = (high_and_all(counts, tau) for counts in (own, rest))
    return matched_ratio(strata(k1), strata(n1), strata(k0), strata(n0))[0]


def distance_over_base(pairs: Array, tau: float = 0.5) -> Array:
    """Mean distance of the high pairs over the mean distance of all pairs: below 1, a head looks near."""
    high, every = (counts.sum(-1) for counts in high_and_all(pairs, tau))  # (…, distance)
    distance = np.arange(1, pairs.shape[-2] + 1)
    return ratio(ratio(high @ distance, high.sum(-1)), ratio(every @ distance, every.sum(-1)))
