"""Derived numbers: what the counts of pairs say about a head, compared with what the texts offer.

Most functions take the pairs that are high at some τ and all pairs, both as counts with the dimensions (…, distance,
relation) of docs/method.md, and keep the leading ones: one head, one layer's heads, a whole model, a thousand
resamples of it. NaN means that there is nothing to compare.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from headscope.choices import first_high_bin
from headscope.measures.relations import BOTH, REPEATED, SAME_SENTENCE, STOP_PAIR, UNRELATED

Array = NDArray[np.float64]
WORDS = (BOTH, SAME_SENTENCE, REPEATED, UNRELATED)  # the relations of two words
WITHIN, ACROSS = (SAME_SENTENCE, BOTH), (UNRELATED, REPEATED)
SIGNALS = {"sentence": (SAME_SENTENCE,), "repeated": (REPEATED,), "all": (SAME_SENTENCE, REPEATED, BOTH)}


def high_and_all(pairs: Array, tau: float) -> tuple[Array, Array]:
    """The pairs that are high at τ, and all of them: (…, level, distance, relation) to (…, distance, relation)."""
    return pairs[..., first_high_bin(tau) :, :, :].sum(-3), pairs.sum(-3)


def ratio(above: Array, below: Array) -> Array:
    """above / below, NaN where there is nothing below."""
    result: Array = np.full(np.broadcast(above, below).shape, np.nan)
    np.divide(above, below, out=result, where=below > 0)
    return result


# ---------------------------------------------------------------------- preferences


def matched_ratio(k1: Array, n1: Array, k0: Array, n0: Array) -> tuple[Array, Array]:
    """How much likelier a pair of class 1 is to be high than one of class 0 of the same stratum (the last dimension).

    n pairs, k high ones among them. Also the share of class 1 that had no counterpart and was left out.

    >>> a = np.array
    >>> matched_ratio(a([2.0, 1.0]), a([4.0, 4.0]), a([1.0, 0.0]), a([4.0, 0.0]))
    (array(2.), array(0.5))
    """
    observed, expected = matched_counts(k1, n1, k0, n0)
    left_out = ratio(np.where((n1 > 0) & (n0 > 0), 0, n1).sum(-1), n1.sum(-1))
    return ratio(observed, expected), left_out


def matched_counts(k1: Array, n1: Array, k0: Array, n0: Array) -> tuple[Array, Array]:
    """The high pairs of class 1 that have a counterpart, and how many there would be at the rate of class 0."""
    usable = (n1 > 0) & (n0 > 0)
    expected = np.where(usable, n1 * k0 / np.maximum(n0, 1), 0).sum(-1)
    return np.where(usable, k1, 0).sum(-1), expected


def _classes(high: Array, every: Array, ones: Sequence[int], zeros: Sequence[int]) -> tuple[Array, Array, Array, Array]:
    """k1, n1, k0, n0 of the relations `ones` and `zeros`, strata: distance × position in the lists."""

    def strata(counts: Array, kinds: Sequence[int]) -> Array:
        return np.concatenate([counts[..., kind] for kind in kinds], axis=-1)  # (…, kinds · distance)

    return strata(high, ones), strata(every, ones), strata(high, zeros), strata(every, zeros)


def sentence_classes(high: Array, every: Array) -> tuple[Array, Array, Array, Array]:
    """Pairs of words of one sentence against pairs across, at equal distance and repetition."""
    return _classes(high, every, ones=WITHIN, zeros=ACROSS)


def repetition_classes(high: Array, every: Array) -> tuple[Array, Array, Array, Array]:
    """Repeated pairs against others, at equal distance and sentence."""
    return _classes(high, every, ones=(REPEATED, BOTH), zeros=(UNRELATED, SAME_SENTENCE))


def separator_classes(high: Array, every: Array) -> tuple[Array, Array, Array, Array]:
    """Pairs with a sentence stop against unrepeated pairs of words, at equal distance."""
    plain = [UNRELATED, SAME_SENTENCE]
    return high[..., STOP_PAIR], every[..., STOP_PAIR], high[..., plain].sum(-1), every[..., plain].sum(-1)


def sentence_preference(high: Array, every: Array) -> Array:
    """How much likelier two words of one sentence are to be similar, at equal distance and repetition."""
    return matched_ratio(*sentence_classes(high, every))[0]


def repetition_preference(high: Array, every: Array) -> Array:
    """How much likelier a repeated token is to be similar to itself, at equal distance and sentence."""
    return matched_ratio(*repetition_classes(high, every))[0]


def separator_similarity(high: Array, every: Array) -> Array:
    """How much likelier a sentence stop and another token are to be similar than two words, at equal distance."""
    return matched_ratio(*separator_classes(high, every))[0]


def label_preference(labelled: Array, pairs: Array, tau: float = 0.5) -> Array:
    """How much likelier two tokens with the same label are to be similar, at equal distance and relation.

    `labelled` counts the pairs with the same label by level, distance and relation, and is a part of `pairs`.
    """
    rest = pairs - labelled

    def strata(counts: Array) -> Array:
        return counts.reshape(*counts.shape[:-2], -1)  # (…, distance · relation)

    (k1, n1), (k0, n0) = (high_and_all(counts, tau) for counts in (labelled, rest))
    return matched_ratio(strata(k1), strata(n1), strata(k0), strata(n0))[0]


# ---------------------------------------------------------------------- reach


def mean_distance(counts: Array) -> Array:
    """The mean distance of pairs counted by distance, the last dimension.

    >>> mean_distance(np.array([3.0, 0.0, 1.0]))
    array(1.5)
    """
    return ratio(counts @ np.arange(1.0, counts.shape[-1] + 1), counts.sum(-1))


def distance_over_base(high: Array, every: Array) -> Array:
    """Mean distance of the high pairs over the mean distance of all pairs: below 1, a head looks near."""
    return ratio(mean_distance(high.sum(-1)), mean_distance(every.sum(-1)))


def reach_within(high: Array, every: Array) -> Array:
    """Mean distance of the high pairs of one sentence over that of all pairs of one sentence."""
    return ratio(*(mean_distance(counts[..., list(WITHIN)].sum(-1)) for counts in (high, every)))


def across_rate(high: Array, every: Array) -> Array:
    """High pairs across sentences, over their number if the high pairs of words fell evenly on pairs of words."""
    return _share_over_base(high, every, ACROSS)


def noise_rate(high: Array, every: Array) -> Array:
    """Share of unrelated pairs among the high pairs of words, over their share among all pairs of words."""
    return _share_over_base(high, every, (UNRELATED,))


def _share_over_base(high: Array, every: Array, kinds: Sequence[int]) -> Array:
    def share(counts: Array) -> Array:
        by_relation = counts.sum(-2)  # (…, relation)
        return ratio(by_relation[..., list(kinds)].sum(-1), by_relation[..., list(WORDS)].sum(-1))

    return ratio(share(high), share(every))


def distance_distribution(counts: Array) -> Array:
    """The share of the pairs at each distance: (…, distance, relation) to (…, distance)."""
    by_distance = counts.sum(-1)
    return ratio(by_distance, by_distance.sum(-1, keepdims=True))


# ---------------------------------------------------------------------- signal and noise


def separation(pairs: Array, signal: str = "all") -> Array:
    """Probability that a signal pair has a higher level than an unrelated pair of the same distance; ties half.

    Takes all levels: (…, level, distance, relation). 0.5 is no separation. Distances count by their signal pairs.

    >>> pairs = np.zeros((21, 1, 7))
    >>> pairs[5, 0, SAME_SENTENCE], pairs[4, 0, UNRELATED], pairs[5, 0, UNRELATED] = 4, 1, 1
    >>> separation(pairs, "sentence")
    array(0.75)
    """
    signals = pairs[..., list(SIGNALS[signal])].sum(-1)  # (…, level, distance)
    noise = pairs[..., UNRELATED]
    below = np.cumsum(noise, axis=-2) - noise / 2
    won = (signals * below).sum(-2)  # (…, distance): pairs of pairs
    total = noise.sum(-2)
    usable = total > 0
    wins = np.where(usable, won / np.maximum(total, 1), 0).sum(-1)
    return ratio(wins, np.where(usable, signals.sum(-2), 0).sum(-1))


def between_share(total: Array, squares: Array, number: Array) -> Array:
    """The share of variance that lies between heads, from each head's Σx, Σx² and number of values: (…, head) to (…).

    Variance components of a one-way analysis, so that heads which differ only by chance have a share of 0, not of one
    over the number of values; by chance it may come out below 0. NaN with fewer than two heads or two values.

    >>> x = np.array([[1.0, 1.2], [3.0, 3.2]])  # two heads, two shards
    >>> round(float(between_share(x.sum(1), (x**2).sum(1), np.array([2.0, 2.0]))), 3)
    0.99
    """
    used = number > 0
    heads, values = used.sum(-1), number.sum(-1)
    mean = ratio(total, number)
    whole = ratio(total.sum(-1), values)
    inside = np.maximum(np.where(used, squares - total * np.nan_to_num(mean), 0).sum(-1), 0)
    between = np.where(used, number * (np.nan_to_num(mean) - whole[..., None]) ** 2, 0).sum(-1)
    enough = (heads > 1) & (values > heads)
    within = ratio(inside, np.where(enough, values - heads, 0))
    size = ratio(values - ratio((number**2).sum(-1), values), np.where(enough, heads - 1, 0))  # values to a head
    part = (ratio(between, np.where(enough, heads - 1, 0)) - within) / size
    return ratio(part, part + within)
