"""Signs of trouble: what makes the numbers of a result mean less than they seem to."""

from __future__ import annotations

import numpy as np

from headscope.errors import counted, numbered
from headscope.findings.checks import UNIFORM
from headscope.findings.claims import claim
from headscope.findings.numbers import Numbers
from headscope.findings.resampling import Resampling
from headscope.measures import heads_first
from headscope.measures.block_sums import BlockSums
from headscope.measures.derived import ratio
from headscope.measures.quantities import named
from headscope.measures.view import View
from headscope.windows.window import END

NOISY = 0.02  # so near to ½ is the separation of related from unrelated pairs in noise
ALIKE = 0.2  # of the smallest spread of heads that matters
DOMINATES = 2.0  # times the largest similarity
LEAST_PREFERENCE = 1.1  # for pairs of one sentence, in one layer at least
LONG = 0.5  # correlation of similar pairs with vector length
RARE = 0.01  # of the windows
MOST = 0.5  # of a head's windows
SHORT = 32  # tokens
FULL = 0.9  # of the longest window, on average


def signs_of_trouble(sums: BlockSums, tau: float | None = None) -> list[str]:
    """Sentences, each on one sign of trouble; none where there is nothing to warn of."""
    texts, pairless = sums.texts.sum(), sums.stored["pairless"].sum()
    warnings = _windows(sums, texts, pairless)
    if texts == pairless:
        return warnings
    view = View(sums, tau)
    return warnings + _matrices(view) + _heads(view) + _alike(view)


def _windows(sums: BlockSums, texts: float, pairless: float) -> list[str]:
    warnings = []
    if pairless > RARE * texts:
        warnings.append(f"{pairless:,.0f} of {texts:,.0f} windows have no pair of tokens to compare")
    length = float(sums.stored["tokens"].sum() / max(texts, 1))
    if length < SHORT:
        warnings.append(
            f"the texts are short, {length:.0f} tokens per window: distances and sentences have little room to differ"
        )
    longest = sums.stored["base_pairs"].shape[1] + 1  # tokens: pairs have distances up to one less
    if length > FULL * longest and sums.stored["tokens"].sum(0)[END]:
        warnings.append(
            f"most windows are full, {length:.0f} of {longest} tokens, so that their closing token stands at one "
            f"position: claim 1b may be about this position; compare with --window {longest - 1}"
        )
    unsplit = sums.stored["unsplit"].sum()
    if unsplit > 0.5 * texts:
        warnings.append(
            f"{unsplit:,.0f} of {texts:,.0f} windows are of texts with one sentence: claims about sentences rest on "
            "the others"
        )
    return warnings


def _matrices(view: View) -> list[str]:
    warnings, sums = [], view.sums
    share = ratio(view.number().sum(0), sums.stored["base_pairs"].sum())  # (L, H)
    uniform = [layer for layer, part in zip(sums.layers, heads_first.median(share), strict=True) if part > UNIFORM]
    if uniform:
        warnings.append(
            f"the matrices are nearly uniform in {numbered('layer', uniform)}: for the typical head more than "
            f"{UNIFORM:.0%} of all pairs reach τ = {view.at:g}"
        )
    apart = named("separation_related").value(view)  # (L,)
    if np.isfinite(apart).any() and np.nanmax(np.abs(apart - 0.5)) < NOISY:
        warnings.append(
            "the matrices look like noise: related pairs are no more similar than unrelated ones in any layer"
        )
    diagonal = heads_first.median(ratio(sums.stored["diagonal"].sum(0), view.not_flat().sum(0)))  # (L,)
    strong = [layer for layer, size in zip(sums.layers, diagonal, strict=True) if size > DOMINATES]
    if 2 * len(strong) > len(sums.layers):
        warnings.append(
            f"the diagonal dominates in {numbered('layer', strong)}: a token's product with itself is more than "
            f"{DOMINATES:g} times the largest with any other, so tokens have little to do with each other"
        )
    preference = named("sentence_preference").value(view)
    if np.isfinite(preference).any() and np.nanmax(preference) < LEAST_PREFERENCE:
        warnings.append("no layer prefers pairs of one sentence: there is no clustering by sentence anywhere")
    long = float(named("norm_correlation").value(view, "model"))
    if long > LONG and sums.readings[0] == "dot":
        warnings.append(
            f"pairs are similar because vectors are long: in the typical head the number of top pairs of a token "
            f"correlates with the length of its output by {long:.2f}; look at what the cosine shows"
        )
    return warnings


def _heads(view: View) -> list[str]:
    warnings, sums = [], view.sums
    windows = max(float(sums.windows.sum()), 1)
    flat = sums.stored["flat"].sum(0) / windows  # (L, H)
    if (flat > RARE).any():
        layer, head = divmod(int(flat.argmax()), sums.heads)
        warnings.append(
            f"in {counted(int((flat > RARE).sum()), 'head')} more than {RARE:.0%} of the matrices are flat, without a "
            f"positive similarity (layer {sums.layers[layer]}, head {head}: {flat[layer, head]:.0%}); they count as "
            "having no similar pairs"
        )
    few = sums.stored["focal_few"][..., round(view.at * 20) - 1].sum(0) / windows  # (L, H)
    if (few > MOST).any():
        warnings.append(
            f"{int((few > MOST).sum())} of {few.size} heads have fewer than ten similar pairs in most windows: one "
            "outlier may set their scale; compare with levels by rank (--scale rank)"
        )
    topless = (sums.stored["top_few"].sum(0) / windows).max(0)  # (L, H), of the reading that has fewest
    if (topless > MOST).any():
        warnings.append(
            f"{int((topless > MOST).sum())} of {topless.size} heads have no top pairs in most windows, which are too "
            "short or full of ties: controls that rest on top pairs say little about these heads"
        )
    return warnings


def _alike(view: View) -> list[str]:
    sums = view.sums
    if sums.heads < 2 or sums.blocks < 2:
        return []
    numbers = Numbers(sums, Resampling(sums.windows, draws=0), view.tau)
    for test in claim("2").statistics:
        if not numbers.spread(named(test.number.quantity)).value < ALIKE * test.bound:
            return []
    return ["the heads of a layer are all alike: they differ no more than by chance"]
