"""Signs of trouble: what makes the numbers of a result mean less than they seem to."""

from __future__ import annotations

import numpy as np

from headscope.findings.claims import CannotTell, specialisation
from headscope.findings.resampling import Resampling
from headscope.findings.sentences import listed
from headscope.measures import derived
from headscope.measures.block_sums import BlockSums
from headscope.measures.derived import Array, ratio

UNIFORM = 0.8  # of all pairs are high: the matrix has one colour
NOISY = 0.02  # so near to 0.5 is the separation of related from unrelated pairs in noise
ALIKE = 0.1  # share of variance between heads
DOMINATES = 2.0  # times the largest similarity
LEAST_PREFERENCE = 1.1  # for pairs of one sentence, in one layer at least
RARE = 0.01  # of the windows
FEW = 0.5  # of a head's windows with fewer than ten high pairs
SHORT = 32  # tokens
THIN, THIN_SHARE = 100, 0.05  # pairs within a sentence for each across, at one distance; of all that is compared


def signs_of_trouble(sums: BlockSums, tau: float) -> list[str]:
    """Sentences, each on one sign of trouble; none where there is nothing to warn of."""
    stored = sums.stored
    texts, pairless = stored["texts"].sum(), stored["pairless"].sum()
    warnings = _windows(sums, texts, pairless)
    if texts == pairless:
        return warnings
    pairs = sums.pairs.sum(0).astype(np.float64)  # (L, level, distance, relation)
    high, every = derived.high_and_all(pairs, tau)
    warnings += _matrices(sums, pairs, high, every, tau)
    flat = stored["flat"].sum(0) / (texts - pairless)  # (L, H)
    if (flat > RARE).any():
        place = np.unravel_index(int(flat.argmax()), flat.shape)
        warnings.append(
            f"{int((flat > RARE).sum())} heads have flat matrices, without a positive similarity, in more than "
            f"{RARE:.0%} of the windows (layer {sums.layers[place[0]]}, head {place[1]} in {flat[place]:.0%}): they "
            "count as having no similar pairs"
        )
    with np.errstate(invalid="ignore"):
        few = stored["focal_few"][..., round(tau * 20) - 1].sum(0) / (texts - pairless)  # (L, H)
    if (few > FEW).any():
        warnings.append(
            f"{int((few > FEW).sum())} of {few.size} heads have fewer than ten similar pairs in most windows: one "
            "outlier may set their scale; compare with levels by rank (--scale rank)"
        )
    return warnings + _alike(sums, tau)


def _alike(sums: BlockSums, tau: float) -> list[str]:
    try:
        share = float(specialisation(sums, Resampling(sums.windows, draws=0), tau).value)
    except CannotTell:  # one head, or one block of texts: nothing to be alike
        return []
    return [f"the heads are all alike: only {share:.0%} of the variance lies between them"] if share < ALIKE else []


def _windows(sums: BlockSums, texts: float, pairless: float) -> list[str]:
    warnings = []
    if pairless > RARE * texts:
        warnings.append(f"{pairless:,.0f} of {texts:,.0f} windows have no pair of tokens to compare")
    length = float(sums.stored["tokens"].sum() / max(texts, 1))
    if length < SHORT:
        warnings.append(
            f"the texts are short, {length:.0f} tokens to a window: distances and sentences have little room to differ"
        )
    unsplit = sums.stored["unsplit"].sum()
    if unsplit > 0.5 * texts:
        warnings.append(
            f"{unsplit:,.0f} of {texts:,.0f} windows are of texts with one sentence: claims about sentences rest on "
            "the others"
        )
    return warnings


def _matrices(sums: BlockSums, pairs: Array, high: Array, every: Array, tau: float) -> list[str]:
    warnings = []
    share = ratio(high.sum((-2, -1)), every.sum((-2, -1)))  # (L,)
    uniform = [layer for layer, part in zip(sums.layers, share, strict=True) if part > UNIFORM]
    if uniform:
        warnings.append(
            f"the matrices are nearly uniform in layers {listed(uniform)}: more than {UNIFORM:.0%} of all pairs reach "
            f"τ = {tau:g}"
        )
    apart = derived.separation(pairs)  # (L,)
    if np.isfinite(apart).any() and np.nanmax(np.abs(apart - 0.5)) < NOISY:
        warnings.append(
            "the matrices look like noise: related pairs are no more similar than unrelated ones in any layer"
        )
    number = (sums.windows[:, None, None] - sums.stored["flat"]).sum(0)
    diagonal = ratio(sums.stored["diagonal"].sum(0).sum(-1), number.sum(-1))  # (L,)
    strong = [layer for layer, size in zip(sums.layers, diagonal, strict=True) if size > DOMINATES]
    if 2 * len(strong) > len(sums.layers):
        warnings.append(
            f"the diagonal dominates in layers {listed(strong)}: a token's product with itself is more than "
            f"{DOMINATES:g} times the largest with any other, so tokens have little to do with each other"
        )
    thin, without = _thin(sums, high, every)
    if thin > THIN_SHARE:
        warnings.append(
            f"{thin:.0%} of what the final layers' sentence preference is compared with rests on distances at which "
            f"hardly any pair of words crosses a sentence boundary, so a few texts can move it; without those "
            + ("distances nothing is left" if np.isnan(without) else f"distances it is {without:.2f}")
        )
    preference = derived.sentence_preference(high, every)
    if np.isfinite(preference).any() and np.nanmax(preference) < LEAST_PREFERENCE:
        warnings.append("no layer prefers pairs of one sentence: there is no clustering by sentence anywhere")
    return warnings


def _thin(sums: BlockSums, high: Array, every: Array) -> tuple[float, float]:
    """Of the pairs expected at the rate of pairs across sentences, the share that thin strata decide; and the ratio
    that is left without those.
    """
    places = sums.third("final")
    k1, n1, k0, n0 = derived.sentence_classes(high[places].sum(0), every[places].sum(0))
    expected = np.where(n0 > 0, n1 * k0 / np.maximum(n0, 1), 0)
    few = n0 * THIN < n1
    share = ratio(expected[few].sum(), expected.sum())
    return float(share), float(derived.matched_ratio(k1, n1, k0, np.where(few, 0, n0))[0])
