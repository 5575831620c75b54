"""Signs of trouble: what makes the numbers of a result mean less than they seem to."""

from __future__ import annotations

import numpy as np

from headscope.findings.claims import NotHere, specialisation
from headscope.findings.resampling import Resampling
from headscope.findings.sentences import listed
from headscope.measures import derived
from headscope.measures.block_sums import BlockSums
from headscope.measures.derived import Array, ratio

UNIFORM = 0.8  # of all pairs are high: the matrix has one colour
NOISY = 0.02  # so near to 0.5 is the separation of related from unrelated pairs in noise
ALIKE = 0.1  # share of variance between heads
DOMINATES = 2.0  # times the largest similarity
SENTENCE = 1.1
RARE = 0.01  # of the windows
FEW = 0.5  # of a head's windows with fewer than ten high pairs
SHORT = 32  # tokens
THIN, THIN_SHARE = 100, 0.05  # pairs within a sentence for each across, at one distance; of all that is compared


def signs_of_trouble(counts: BlockSums, tau: float) -> list[str]:
    """Sentences, each on one sign of trouble; none where there is nothing to be said."""
    stored = counts.stored
    texts, pairless = stored["texts"].sum(), stored["pairless"].sum()
    found = _windows(counts, texts, pairless)
    if texts == pairless:
        return found
    pairs = counts.pairs.sum(0).astype(np.float64)  # (L, level, distance, relation)
    high, every = derived.high_and_all(pairs, tau)
    found += _matrices(counts, pairs, high, every, tau)
    flat = stored["flat"].sum(0) / (texts - pairless)  # (L, H)
    if (flat > RARE).any():
        place = np.unravel_index(int(flat.argmax()), flat.shape)
        found.append(
            f"{int((flat > RARE).sum())} heads have flat matrices, without a positive similarity, in more than "
            f"{RARE:.0%} of the windows (layer {counts.layers[place[0]]}, head {place[1]} in {flat[place]:.0%}): they "
            "count as having no similar pairs"
        )
    with np.errstate(invalid="ignore"):
        few = stored["focal_few"][..., round(tau * 20) - 1].sum(0) / (texts - pairless)  # (L, H)
    if (few > FEW).any():
        found.append(
            f"{int((few > FEW).sum())} of {few.size} heads have fewer than ten similar pairs in most windows: one "
            "outlier may set their scale; compare with levels by rank (--scale rank)"
        )
    return found + _alike(counts, tau)


def _alike(counts: BlockSums, tau: float) -> list[str]:
    try:
        share = float(specialisation(counts, Resampling(counts.windows, draws=0), tau).value)
    except NotHere:  # one head, or one block of texts: nothing to be alike
        return []
    return [f"the heads are all alike: only {share:.0%} of the variance lies between them"] if share < ALIKE else []


def _windows(counts: BlockSums, texts: float, pairless: float) -> list[str]:
    found = []
    if pairless > RARE * texts:
        found.append(f"{pairless:,.0f} of {texts:,.0f} windows have no pair of tokens to compare")
    length = float(counts.stored["tokens"].sum() / max(texts, 1))
    if length < SHORT:
        found.append(
            f"the texts are short, {length:.0f} tokens to a window: distances and sentences have little room to differ"
        )
    unsplit = counts.stored["unsplit"].sum()
    if unsplit > 0.5 * texts:
        found.append(
            f"{unsplit:,.0f} of {texts:,.0f} windows are of texts with one sentence: claims about sentences rest on "
            "the others"
        )
    return found


def _matrices(counts: BlockSums, pairs: Array, high: Array, every: Array, tau: float) -> list[str]:
    found = []
    share = ratio(high.sum((-2, -1)), every.sum((-2, -1)))  # (L,)
    uniform = [layer for layer, part in zip(counts.layers, share, strict=True) if part > UNIFORM]
    if uniform:
        found.append(
            f"the matrices are nearly uniform in layers {listed(uniform)}: more than {UNIFORM:.0%} of all pairs reach "
            f"τ = {tau:g}"
        )
    apart = derived.separation(pairs)  # (L,)
    if np.isfinite(apart).any() and np.nanmax(np.abs(apart - 0.5)) < NOISY:
        found.append("the matrices look like noise: related pairs are no more similar than unrelated ones in any layer")
    number = (counts.windows[:, None, None] - counts.stored["flat"]).sum(0)
    diagonal = ratio(counts.stored["diagonal"].sum(0).sum(-1), number.sum(-1))  # (L,)
    strong = [layer for layer, size in zip(counts.layers, diagonal, strict=True) if size > DOMINATES]
    if 2 * len(strong) > len(counts.layers):
        found.append(
            f"the diagonal dominates in layers {listed(strong)}: a token's product with itself is more than "
            f"{DOMINATES:g} times the largest with any other, so tokens have little to do with each other"
        )
    thin, without = _thin(counts, high, every)
    if thin > THIN_SHARE:
        found.append(
            f"{thin:.0%} of what the final layers' sentence preference is compared with rests on distances at which "
            f"hardly any pair of words crosses a sentence boundary, so a few texts can move it; without those "
            + ("distances nothing is left" if np.isnan(without) else f"distances it is {without:.2f}")
        )
    preference = derived.sentence_preference(high, every)
    if np.isfinite(preference).any() and np.nanmax(preference) < SENTENCE:
        found.append("no layer prefers pairs of one sentence: there is no clustering by sentence anywhere")
    return found


def _thin(counts: BlockSums, high: Array, every: Array) -> tuple[float, float]:
    """Of the pairs expected at the rate of pairs across sentences, the share that thin strata decide; and the ratio
    that is left without those.
    """
    places = counts.third("final")
    k1, n1, k0, n0 = derived.sentence_classes(high[places].sum(0), every[places].sum(0))
    expected = np.where(n0 > 0, n1 * k0 / np.maximum(n0, 1), 0)
    few = n0 * THIN < n1
    share = ratio(expected[few].sum(), expected.sum())
    return float(share), float(derived.matched_ratio(k1, n1, k0, np.where(few, 0, n0))[0])
