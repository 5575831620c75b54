"""Thresholds: how many pairs and tokens pass at each, and which findings depend on the choice."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import matplotlib
import numpy as np

from headscope.choices import THRESHOLDS
from headscope.figures.colours import BASE, STATE_INKS, VERDICT_INKS, WAYS
from headscope.figures.parts import run_caption
from headscope.figures.style import Picture, by_logarithms, caption, picture, plain_axes, spread_widely, wrapped
from headscope.findings.estimates import AT_TAU
from headscope.measures import heads_first
from headscope.measures.derived import ratio

if TYPE_CHECKING:
    from headscope.result.result import Result

# A state has the marker of the verdict that it speaks for.
MARKED_AS = {"passes": "holds", "fails": "does not hold", "cannot tell": "open"}
COLUMNS = 4
DRAWS = 400


def threshold_choice(result: Result) -> Picture:
    """What is left at each threshold: similar pairs over τ, high-attention tokens over θ, a line for each layer."""
    sums = result.blocks
    figure = picture(9.6, 4.1, "The choice of thresholds")
    left, right = figure.subplots(1, 2)
    levels = sums.by_level.sum((0, -1))  # (L, H, level)
    reached = ratio(np.cumsum(levels[..., ::-1], axis=-1)[..., ::-1], levels.sum(-1, keepdims=True))
    similar = heads_first.median(np.moveaxis(reached, 1, -1))  # (L, level): the median over heads
    tokens = max(float(sums.stored["tokens"].sum()), 1)
    attended = heads_first.median(np.moveaxis(sums.stored["attended"].sum((0, -1)), 1, -1)) / tokens  # (L, θ)
    shades = matplotlib.colormaps["viridis"](np.linspace(0, 0.9, len(sums.layers)))
    for place, layer in enumerate(sums.layers):
        named = f"layer {layer}" if place in (0, len(sums.layers) // 2, len(sums.layers) - 1) else None
        style = {"color": shades[place], "linewidth": 1.2, "linestyle": ("-", "--", "-.")[place % 3], "label": named}
        left.plot(THRESHOLDS, _drawn(similar[place, 2:]), **style)
        right.plot(THRESHOLDS, _drawn(attended[place]), **style)
    for axes, label, own, what in (
        (left, "τ", result.settings["tau"], "share of pairs with a level of at least τ"),
        (right, "θ", result.settings["theta"], "share of tokens that receive more than θ"),
    ):
        axes.axvline(own, color=BASE, linestyle=(0, (4, 2)), linewidth=1)
        axes.set(xlabel=label, ylabel=what, yscale="log")
        by_logarithms(axes.yaxis)
        plain_axes(axes)
    left.legend(fontsize=8, frameon=False)
    caption(
        figure,
        run_caption(result),
        "A line for each layer: the median over its heads. Dashed: the run's own choice. Lines end where the typical "
        "head has none left.",
    )
    return figure


def _drawn(shares: Any) -> Any:
    """Shares for an axis by logarithms, which has no zero."""
    return np.where(shares > 0, shares, np.nan)


def sensitivity_figure(result: Result) -> Picture:
    """Every statistic over the threshold that it depends on, with its interval and whether it passes."""
    swept = result.sensitivity(draws=DRAWS)
    rows_of = [row for row in (swept.isel(claim=k) for k in range(swept.sizes["claim"])) if str(row["over"].values)]
    rows = -(-len(rows_of) // COLUMNS)
    figure = picture(11.4, 2.5 * rows + 1.1, "The claims' numbers at other thresholds")
    grid: Any = figure.subplots(rows, COLUMNS, squeeze=False)
    for axes in grid.flat[len(rows_of) :]:
        axes.set_visible(False)
    for axes, row in zip(grid.flat, rows_of, strict=False):
        _swept(axes, row, float(swept.attrs[str(row["over"].values)]))
    caption(
        figure,
        run_caption(result),
        "Filled dot: passes, the whole interval beyond the bound. Cross: fails. Empty square: cannot tell. Dashed: "
        "the bound. Dotted: the run's own threshold. 1a, 1b and 6 are read off the tokens that receive more than θ: "
        "the share of stops (closing tokens) among them over that of all, and the mean level of pairs of such tokens "
        "less that of pairs without. At another τ than the run's own, matched pairs are pooled over texts.",
    )
    return figure


def _swept(axes: Any, row: Any, own: float) -> None:
    at, value = row["threshold"].values, row["value"].values
    ink = WAYS[AT_TAU].colour
    axes.axhline(float(row["bound"]), color=BASE, linewidth=1, linestyle=(0, (4, 2)))
    axes.fill_between(at, row["low"].values, row["high"].values, color=ink, alpha=0.12, linewidth=0)
    axes.plot(at, value, color=ink, linewidth=0.9)
    for x, y, state in zip(at, value, row["state"].values, strict=True):
        if str(state) in MARKED_AS and np.isfinite(y):
            look = VERDICT_INKS[MARKED_AS[str(state)]]
            fill = "none" if look.open else "full"
            axes.plot(x, y, marker=look.marker, fillstyle=fill, color=STATE_INKS[str(state)], markersize=5)
    known = value[np.isfinite(value)]
    if float(row["none"]) == 1.0 and spread_widely(known):
        axes.set_yscale("log")
        by_logarithms(axes.yaxis)
    axes.axvline(own, color=BASE, linewidth=0.8, linestyle=":")
    axes.set_xlabel("τ" if str(row["over"].values) == "tau" else "θ")
    key = str(row["claim"].values).split()[0]
    axes.set_title(wrapped(f"{key}: {row['statistic'].values}", 42), fontsize=8)
    plain_axes(axes)
