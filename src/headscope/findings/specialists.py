"""Which heads are stable specialists and which are noise, with control for looking at all of them at once."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from headscope.errors import HeadscopeError
from headscope.findings.resampling import VERDICT_FROM, Resampling
from headscope.findings.stability import head_sums, scores_of
from headscope.measures import derived
from headscope.measures.derived import Array
from headscope.measures.quantities import QUANTITIES, Quantity

if TYPE_CHECKING:
    from headscope.result.result import Result

LEAST = 0.01  # attention below this is taken for it: none at all has no logarithm
EXPECTED = 10  # pairs, at the least, before a head's preference is told from noise
RATE = 0.05  # of the heads called specialists may be so by chance
SPECIALIST, ORDINARY, NOISE = "specialist", "ordinary", "noise"


def specialists(result: Result, *, tau: float | None = None) -> pd.DataFrame:
    """A row per score and head: how far it stands out from the typical head (the median), and what to make of it.

    *specialist*: it stands out by more than the smallest difference that matters, on all texts alike; the share of
    false ones among those called so is held at 5 % over all heads (Benjamini and Hochberg). *ordinary*: it certainly
    stands out by less. *noise*: the texts disagree too much to tell. `agree` is the share of groups in which the head
    stands out in the same direction.
    """
    sums, at = result.blocks, result.tau(tau)
    if sums.blocks < VERDICT_FROM:
        raise HeadscopeError(
            f"there are {sums.blocks} blocks of texts, too few to tell heads from noise",
            f"analyse more texts, or use smaller shards: it takes {VERDICT_FROM}",
        )
    layer, head = np.meshgrid(sums.layers, np.arange(sums.heads), indexing="ij")
    resample, frames = Resampling(sums.windows), []
    for name in scores_of(sums):
        score_sums = head_sums(sums, name, at)
        quantity = QUANTITIES[name]
        value = quantity.formula(*(each.sum(0) for each in score_sums)).reshape(-1)
        distance = resample.jackknife(partial(_distance, quantity), *score_sums)
        out, error = distance.value, distance.error
        agree = _agreement(quantity, score_sums, sums.groups, out)
        if quantity.matched is not None:
            expected = derived.matched_counts(*quantity.matched(*(each.sum(0) for each in score_sums)))[1].reshape(-1)
            error = np.where(expected < EXPECTED, np.inf, error)
        p = _p_values(np.abs(out), error, quantity.smallest, sums.blocks)
        frames.append(
            pd.DataFrame(
                {
                    "score": name,
                    "layer": layer.reshape(-1),
                    "head": head.reshape(-1),
                    "value": value,
                    "out": out,
                    "error": error,
                    "p": adjusted(p),
                    "what": _labels(out, error, adjusted(p), quantity.smallest, sums.blocks),
                    "agree": agree,
                }
            )
        )
    return pd.concat(frames, ignore_index=True)


def farthest(own: pd.DataFrame, number: int, *, above: bool = True) -> str:
    """The specialists of one score that lie farthest above (or below) the typical head, as layers and heads."""
    special = own[(own["what"] == SPECIALIST) & ((own["out"] > 0) == above)]
    first = special.sort_values("out", ascending=not above).head(number)
    return ", ".join(f"L{row.layer}H{row.head}" for row in first.itertuples())


def adjusted(p: Array) -> Array:
    """Benjamini and Hochberg's adjusted p-values; NaN stays NaN and does not count.

    >>> adjusted(np.array([0.01, 0.04, 0.03, np.nan])).round(3).tolist()
    [0.03, 0.04, 0.04, nan]
    """
    adjusted_p = np.full_like(p, np.nan)
    known = np.flatnonzero(np.isfinite(p))
    if not known.size:
        return adjusted_p
    order = known[np.argsort(p[known])]
    scaled = p[order] * known.size / np.arange(1, known.size + 1)
    adjusted_p[order] = np.minimum(np.minimum.accumulate(scaled[::-1])[::-1], 1)
    return adjusted_p


def _distance(quantity: Quantity, *sums: Array) -> Array:
    """Each head's distance from the median head, of sums with any number of lines: (lines, …) to (lines, heads)."""
    if quantity.matched is not None:
        above, below = derived.matched_counts(*quantity.matched(*sums))
        values = np.log((above + 0.5) / (below + 0.5))  # a half: a head without a single such pair has no logarithm
    else:
        values = quantity.formula(*sums)
        values = np.log(np.maximum(values, LEAST)) if quantity.logarithmic else values
    values = values.reshape(len(values), -1)
    known = np.isfinite(values)
    if not known.any():
        return np.full_like(values, np.nan)
    return values - np.nanmedian(np.where(known.any(1, keepdims=True), values, 0), axis=1, keepdims=True)


def _p_values(size: Array, error: Array, least: float, blocks: int) -> Array:
    """How likely so large a distance would be if the true one were just the smallest that matters; both directions."""
    from scipy.stats import t

    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.minimum(2 * t.sf((size - least) / error, blocks - 1), 1))


def _labels(out: Array, error: Array, p: Array, least: float, blocks: int) -> Array:
    from scipy.stats import t

    certain = np.abs(out) + t.ppf(0.975, blocks - 1) * error < least
    labels = np.where(p < RATE, SPECIALIST, np.where(certain, ORDINARY, NOISE)).astype(object)
    labels[~np.isfinite(out)] = None
    return labels


def _agreement(quantity: Quantity, sums: list[Array], groups: tuple[str, ...], out: Array) -> Array:
    names = list(dict.fromkeys(groups))
    if len(names) < 2:
        return np.full_like(out, np.nan)
    members = [np.array([group == one for group in groups]) for one in names]
    each = np.stack([_distance(quantity, *(s[own].sum(0)[None] for s in sums))[0] for own in members])
    return np.asarray((np.sign(each) == np.sign(out)).mean(0))
