"""Which heads are stable specialists and which are noise, with control for looking at all of them at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from headscope.errors import HeadscopeError, counted
from headscope.findings.numbers import Numbers
from headscope.findings.resampling import VERDICT_FROM, Resampling, deviation
from headscope.findings.stability import scores_of
from headscope.measures import heads_first
from headscope.measures.block_sums import BlockSums
from headscope.measures.derived import Array
from headscope.measures.quantity import Quantity
from headscope.measures.view import View

if TYPE_CHECKING:
    from headscope.result.result import Result

LEAST = 0.01  # a ratio below this is taken for it: none at all has no logarithm
RATE = 0.05  # of the heads called specialists may be so by chance
SPECIALIST, ORDINARY, NOISE = "specialist", "ordinary", "noise"


def specialists(result: Result, *, tau: float | None = None, controls: Sequence[Result] = ()) -> pd.DataFrame:
    """A row per score and head: how far it stands out, and what to make of it.

    `out` is its distance from the median head of its own layer, `out_of_model` from that of the model; of ratios, of
    their logarithms. *specialist*: it stands out from its layer by more than the smallest difference that matters, on
    all texts alike; the share of false ones among those called so is held at 5 % over all heads (Benjamini and
    Hochberg). *ordinary*: it certainly stands out by less. *noise*: the texts disagree too much to tell. `agree` is the
    share of groups in which the head stands out in the same direction. Where there are control runs, a column named
    after each kind ("permuted") has the farthest that any of their heads stands out by this score.
    """
    from headscope.findings.controls import check_controls

    beside = check_controls(result, controls)
    kinds = {"permuted": beside.permuted, "untrained": beside.untrained, "rotated": beside.rotated}
    return of_sums(result.blocks, tau, {kind: [each.blocks for each in own] for kind, own in kinds.items() if own})


def of_sums(sums: BlockSums, tau: float | None, controls: Mapping[str, Sequence[BlockSums]]) -> pd.DataFrame:
    """The same from sums of blocks."""
    resample = Resampling(sums.windows)
    if not resample.enough_blocks:
        raise HeadscopeError(
            f"the texts are in {counted(sums.blocks, 'block')}, too few to tell heads from noise",
            f"analyse more texts, or use smaller shards: at least {VERDICT_FROM} blocks are needed",
        )
    layer, head = np.meshgrid(sums.layers, np.arange(sums.heads), indexing="ij")
    numbers, frames = Numbers(sums, resample, tau), []
    for score in scores_of(sums, tau):
        drawn = numbers.heads(score)
        standing = drawn.then(lambda values, score=score: _out(score, values))  # type: ignore[misc]
        out, error = standing.value, resample.widening * deviation(standing.draws)
        error = np.where(np.isfinite(standing.draws).mean(0) < 1 - RATE, np.inf, error)
        p = adjusted(_p_values(np.abs(out), error, score.smallest, sums.blocks).reshape(-1)).reshape(out.shape)
        columns = {
            "layer": layer,
            "head": head,
            "value": drawn.value,
            "out": out,
            "out_of_model": _compared(score, drawn.value) - _middle(score, drawn.value),
            "error": error,
            "p": p,
            "what": _labels(out, error, p, score.smallest, sums.blocks),
            "agree": _agreement(score, View(sums, tau), out),
        }
        frame = pd.DataFrame({"score": score.name} | {name: values.reshape(-1) for name, values in columns.items()})
        for kind, runs in controls.items():
            views = [View(run, tau) for run in runs]
            outs = [np.abs(_out(score, score.of_heads(view))) for view in views if not score.lacking(view)]
            frame[kind] = max((float(each[np.isfinite(each)].max(initial=0)) for each in outs), default=np.nan)
        frames.append(frame)
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


def _compared(score: Quantity, values: Array) -> Array:
    """Numbers as heads are compared by them: ratios by their logarithm."""
    return np.log(np.maximum(values, LEAST)) if score.logarithmic else values


def _out(score: Quantity, values: Array) -> Array:
    """Each head's distance from the median head of its layer, (…, L, H); none where it is the only one."""
    compared = _compared(score, values)
    alone = np.isfinite(compared).sum(-1, keepdims=True) < 2
    return np.where(alone, np.nan, compared - heads_first.median(compared)[..., None])


def _middle(score: Quantity, values: Array) -> Array:
    """The median head of the model."""
    return heads_first.median(heads_first.together(_compared(score, values)))


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


def _agreement(score: Quantity, view: View, out: Array) -> Array:
    names = list(dict.fromkeys(view.sums.groups))
    if len(names) < 2:
        return np.full_like(out, np.nan)
    members = [np.array([group == one for group in view.sums.groups]) for one in names]
    sums = score.sums(view)
    each = np.stack([_out(score, score.formula(*(one[own].sum(0) for one in sums))) for own in members])
    return np.asarray((np.sign(each) == np.sign(out)).mean(0))
