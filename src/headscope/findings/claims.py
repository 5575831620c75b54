"""The claims of the paper as code: for each the statistic, what no effect would be, and the smallest that matters."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from headscope.errors import HeadscopeError
from headscope.findings.resampling import Estimate, Resampling
from headscope.measures import derived
from headscope.measures.block_sums import BlockSums, View, pooled
from headscope.measures.derived import Array, ratio
from headscope.measures.quantities import QUANTITIES
from headscope.windows import CATEGORIES


class CannotTell(Exception):  # noqa: N818 - not an error but an answer
    """This result has nothing to say about a claim; the message says why."""


@dataclass(frozen=True, slots=True)
class Claim:
    """One claim. It holds where the whole interval of its statistic lies beyond `bound`."""

    key: str
    paper: str  # the claim in a few words
    says: str  # what the paper says
    statistic: str
    none: float  # the statistic where there is no effect
    bound: float  # the smallest effect that matters
    measure: Callable[[BlockSums, Resampling, float, float | None], Estimate]
    thresholds: str = ""  # "tau" or "theta" where the statistic depends on one
    of_pairs: bool = True  # whether it is about pairs of tokens
    digits: int = 2

    @property
    def twice(self) -> float:
        """An effect twice the smallest that matters."""
        return 2 * self.bound - self.none


def _third(sums: BlockSums, name: str) -> list[int]:
    places = sums.third(name)
    if not places:
        raise CannotTell(f"no layer of the {name} third was read")
    return places


def _focus(category: str) -> Callable[[BlockSums, Resampling, float, float | None], Estimate]:
    """Attention of the final layers to a category, over an even spread."""

    def measure(sums: BlockSums, resample: Resampling, tau: float, theta: float | None) -> Estimate:
        places, k = _third(sums, "final"), CATEGORIES.index(category)
        given = pooled(sums.stored["attention"][..., k].sum(2), places)
        even = pooled(sums.stored["attention_even"][..., k], places) * sums.heads
        if not even.sum() > 0:
            what = "closing special token" if category == "end" else "sentence stop"
            raise CannotTell(f"there is no {what} that could be read")
        if theta is not None:
            return _among_the_attended(sums, resample, places, k, theta)
        return resample(ratio, given, even)

    return measure


def _among_the_attended(
    sums: BlockSums, resample: Resampling, places: list[int], category: int, theta: float
) -> Estimate:
    """The same claim read off the tokens with high attention: their share of the category, over that of all tokens."""
    attended = pooled(sums.stored["attended"][:, :, :, round(theta * 20) - 1].sum(2), places)  # (S, category)
    tokens = sums.stored["tokens"]

    def share(high: Array, every: Array) -> Array:
        return ratio(
            ratio(high[..., category], high.sum(-1)),
            ratio(every[..., category], every.sum(-1)),
        )

    return resample(share, attended, tokens)


def _preference(
    function: Callable[[Array, Array], Array], lack: str
) -> Callable[[BlockSums, Resampling, float, float | None], Estimate]:
    """A matched ratio of the final layers' pairs."""

    def measure(sums: BlockSums, resample: Resampling, tau: float, theta: float | None) -> Estimate:
        places = _third(sums, "final")
        high = pooled(sums.high(tau), places)
        estimate = resample(function, high, sums.base * sums.heads * len(places))
        if np.isnan(estimate.value):
            raise CannotTell(lack)
        return estimate

    return measure


def specialisation(sums: BlockSums, resample: Resampling, tau: float, theta: float | None = None) -> Estimate:
    """The share of variance between heads, of log repetition preference and of mean distance, mean over layers."""
    if sums.heads < 2:
        raise CannotTell("there is one head")
    if sums.blocks < 2:
        raise CannotTell("the texts are in one block: nothing tells heads from chance")
    if tau not in sums.scores:
        sums.scores.update(scores_of_blocks(sums, [tau]))
    values = sums.scores[tau]  # (S, L, 2, H)
    known = np.isfinite(values)
    filled = np.where(known, values, 0)

    def rest(total: Array, squares: Array, number: Array) -> Array:
        """The logarithm of the share that is not between heads: nearly normal, however near the share is to 1."""
        each = derived.between_share(total, squares, number)  # (…, L, 2)
        return np.log(np.maximum(1 - _mean(_mean(each)), 1e-9))

    # By the jackknife: a bootstrap repeats blocks, and what is repeated does not vary.
    estimate = resample.jackknife(rest, filled, filled**2, known.astype(np.float64))
    if np.isnan(estimate.value):
        raise CannotTell("too few blocks of texts have similar pairs in every head")
    value, low, high = (np.clip(1 - np.exp(each), 0, 1) for each in (estimate.value, estimate.high, estimate.low))
    return Estimate(value, low, high, (1 - value) * estimate.error)


def scores_of_blocks(sums: BlockSums, taus: Sequence[float]) -> dict[float, Array]:
    """Log repetition preference and distance of every head in every block: (S, L, 2, H), for several τ in one pass."""
    every = sums.base[:, None]
    scores: dict[float, list[Array]] = {tau: [] for tau in taus}
    for k in range(len(sums.layers)):
        for tau, high in zip(taus, sums.layer_at(k, taus), strict=True):  # (S, H, distance, relation)
            above, below = derived.matched_counts(*derived.repetition_classes(high, every))
            # A half on either side: a block without a single similar repetition has no logarithm.
            repetition = np.where(above + below > 0, np.log((above + 0.5) / (below + 0.5)), np.nan)
            scores[tau].append(np.stack([repetition, derived.distance_over_base(high, every)], axis=1))
    return {tau: np.stack(parts, axis=1) for tau, parts in scores.items()}


def _mean(values: Array) -> Array:
    """The mean over the last dimension of what is there; NaN where nothing is."""
    known = np.isfinite(values)
    return ratio(np.where(known, values, 0).sum(-1), known.sum(-1).astype(np.float64))


def _shortening(sums: BlockSums, resample: Resampling, tau: float, theta: float | None) -> Estimate:
    """Mean distance of similar pairs over base, early minus middle layers."""
    thirds = [_third(sums, name) for name in ("early", "middle")]
    high = sums.high(tau)
    pairs = [pooled(high, places) for places in thirds]

    def difference(early: Array, middle: Array, every: Array) -> Array:
        return derived.distance_over_base(early, every) - derived.distance_over_base(middle, every)

    estimate = resample(difference, *pairs, sums.base)
    if np.isnan(estimate.value):
        raise CannotTell("there are no similar pairs in the early or in the middle layers")
    return estimate


def _focal(sums: BlockSums, resample: Resampling, tau: float, theta: float | None) -> Estimate:
    """Different focal tokens minus the number expected, mean over layers."""
    if sums.heads < 2:
        raise CannotTell("there is one head")

    def excess(number: Array, expected: Array, windows: Array) -> Array:
        return _mean(ratio(number - expected, windows))

    estimate = resample(excess, *View(sums, "layer", tau).focal())
    if np.isnan(estimate.value):
        raise CannotTell("no window has pairs")
    return estimate


def _mask(sums: BlockSums, resample: Resampling, tau: float, theta: float | None) -> Estimate:
    """Mean level inside minus outside the mask of high attention, mean over layers."""
    if "region_sum" not in sums.stored:
        raise CannotTell("cross-attention has no mask on the pairs")
    if theta is not None and "mask_sum" not in sums.stored:
        raise CannotTell("the run kept the mask at its own θ only")
    regions = View(sums, "layer", tau, theta).regions()
    estimate = resample(lambda *each: _mean(QUANTITIES["mask_contrast"].formula(*each)), *regions)
    if np.isnan(estimate.value):
        raise CannotTell("no layer has pairs both inside and outside the mask")
    return estimate


def _unlikeness(sums: BlockSums, resample: Resampling, tau: float, theta: float | None) -> Estimate:
    """1 minus the correlation of similarity with attention, mean over layers."""
    if "attention_correlation" not in sums.stored:
        raise CannotTell("in cross-attention maps and pairs are of different tokens")
    correlations = View(sums, "layer", tau).windows("attention_correlation")
    estimate = resample(lambda total, number: 1 - _mean(ratio(total, number)), *correlations)
    if np.isnan(estimate.value):
        raise CannotTell("all matrices are flat")
    return estimate


CLAIMS = (
    Claim(
        key="1a",
        paper="Final layers focus on sentence stops",
        says="The attention of the last layers turns to the marks that part sentences.",
        statistic="attention to stops over an even spread, final layers",
        none=1.0,
        bound=1.1,
        measure=_focus("stop"),
        thresholds="theta",
        of_pairs=False,
    ),
    Claim(
        key="1b",
        paper="Final layers focus on closing special tokens",
        says="… and to the special tokens that close a text.",
        statistic="attention to closing special tokens over an even spread, final layers",
        none=1.0,
        bound=1.1,
        measure=_focus("end"),
        thresholds="theta",
        of_pairs=False,
    ),
    Claim(
        key="2",
        paper="Heads specialise",
        says="Heads have roles of their own: some find repetitions, others gather round one common token.",
        statistic="share of variance between heads, of log repetition preference and of distance, mean over layers",
        none=0.0,
        bound=0.5,
        measure=specialisation,
        thresholds="tau",
    ),
    Claim(
        key="3",
        paper="Long range becomes short range",
        says="Similarity reaches far in early layers and draws near in later ones.",
        statistic="mean distance of similar pairs over that of all pairs, early minus middle layers",
        none=0.0,
        bound=0.05,
        measure=_shortening,
        thresholds="tau",
        digits=3,
    ),
    Claim(
        key="4",
        paper="Final layers keep within the sentence",
        says="In the last layers similarity stays within the sentence.",
        statistic="sentence preference, final layers",
        none=1.0,
        bound=1.1,
        measure=_preference(derived.sentence_preference, "no pair across sentences is similar, or there is none"),
        thresholds="tau",
    ),
    Claim(
        key="5",
        paper="Heads pick different focal tokens",
        says="Each head picks a focal token of its own: 9 to 10 different ones among 12 heads.",
        statistic="different focal tokens minus those expected by chance, mean over layers",
        none=0.0,
        bound=0.25,
        measure=_focal,
        thresholds="tau",
    ),
    Claim(
        key="6",
        paper="Similarity is higher where attention is",
        says="Similarity is high among the tokens that attention singles out.",
        statistic="mean level inside minus outside the attention mask, mean over layers",
        none=0.0,
        bound=0.02,
        measure=_mask,
        thresholds="theta",
        digits=3,
    ),
    Claim(
        key="7",
        paper="Similarity is not attention over again",
        says="The similarity of outputs shows what attention maps alone do not.",
        statistic="1 minus the correlation of similarity with attention, mean over layers",
        none=0.0,
        bound=0.5,
        measure=_unlikeness,
    ),
    Claim(
        key="8",
        paper="Separators are centres of similarity",
        says="High similarity gathers round the separators.",
        statistic="separator similarity, final layers",
        none=1.0,
        bound=1.1,
        measure=_preference(derived.separator_similarity, "no two words are similar, or there is no stop"),
        thresholds="tau",
    ),
)


def claim(key: str) -> Claim:
    """A claim by its key.

    >>> claim("5").bound
    0.25
    """
    for each in CLAIMS:
        if each.key == key:
            return each
    raise HeadscopeError(f"there is no claim {key!r}", f"use one of {', '.join(each.key for each in CLAIMS)}")
