"""Thresholds: how many pairs and tokens pass at each, and which findings depend on the choice."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any

import matplotlib
import numpy as np
from matplotlib.colors import BoundaryNorm, ListedColormap
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from headscope.choices import THRESHOLDS
from headscope.figures.colours import BASE, STATE_INKS, STATE_VERDICTS, TOO_SMALL, VERDICT_INKS, WAYS
from headscope.figures.fonts import balanced, in_style, points
from headscope.figures.parts import band_handle, chosen_claims, run_caption
from headscope.figures.style import (
    Picture,
    by_logarithms,
    dressed,
    finish,
    panel_columns,
    picture,
    plain_axes,
    spread_widely,
)
from headscope.findings.estimates import AT_TAU
from headscope.findings.sensitivity import OTHERWISE
from headscope.look import SCREEN, Look
from headscope.measures import heads_first
from headscope.measures.derived import ratio

if TYPE_CHECKING:
    from headscope.result.result import Result

TOLD = ("passes", "fails", "cannot tell")  # what a number at a threshold may come to
COLUMNS = 4
MARKERS = ("o", "s", "^")  # of the first, a middle and the last layer
DRAWS = 400
BAND = 0.18


@in_style
def threshold_choice(result: Result, *, look: Look = SCREEN) -> Picture:
    """What is left at each threshold: similar pairs over τ, high-attention tokens over θ, a line for each layer."""
    sums = result.blocks
    figure = picture(look, 9.6, 1.0, "The choice of thresholds")
    columns = panel_columns(figure, 2, 2.6)
    figure.body = 2 // columns * min(3.6, 0.7 * figure.get_figwidth() / columns + 0.3)
    grid: Any = figure.subplots(2 // columns, columns, squeeze=False)
    left, right = grid.flat
    levels = sums.by_level.sum((0, -1))  # (L, H, level)
    reached = ratio(np.cumsum(levels[..., ::-1], axis=-1)[..., ::-1], levels.sum(-1, keepdims=True))
    similar = heads_first.median(np.moveaxis(reached, 1, -1))  # (L, level): the median over heads
    tokens = max(float(sums.stored["tokens"].sum()), 1)
    attended = heads_first.median(np.moveaxis(sums.stored["attended"].sum((0, -1)), 1, -1)) / tokens  # (L, θ)
    layers = list(sums.layers)
    shades = ListedColormap(matplotlib.colormaps["viridis"](np.linspace(0, 0.9, len(layers))))
    marked = dict(zip(sorted({0, (len(layers) - 1) // 2, len(layers) - 1}), MARKERS, strict=False))
    handles = []
    for place, layer in enumerate(layers):
        style: dict[str, Any] = {"color": shades(place), "linewidth": 0.7}
        if place in marked:  # neighbours differ little in colour: some are told by a marker
            style |= {"linewidth": 1.6, "marker": marked[place], "markersize": 3.5, "markevery": 3, "zorder": 3}
            handles.append(Line2D([], [], label=f"layer {layer}", **style))
        left.plot(THRESHOLDS, _drawn(similar[place, 2:]), **style)
        right.plot(THRESHOLDS, _drawn(attended[place]), **style)
    for axes, label, own, what in (
        (left, "τ", result.settings["tau"], "share of pairs with\na level of at least τ"),
        (right, "θ", result.settings["theta"], "share of tokens that\nreceive more than θ"),
    ):
        axes.axvline(own, color=BASE, linestyle=(0, (4, 2)), linewidth=1)
        axes.set(xlabel=label, ylabel=what, yscale="log")
        by_logarithms(axes.yaxis)
        plain_axes(axes)
    norm = BoundaryNorm(np.arange(len(layers) + 1) - 0.5, len(layers))
    mappable = matplotlib.cm.ScalarMappable(norm, shades)
    bar = dressed(figure.colorbar(mappable, ax=list(grid.flat), pad=0.01, aspect=30, fraction=0.04), "layer")
    step = max(1, -(-len(layers) // int(72 * figure.body * 0.8 / (1.4 * points("small")))))
    bar.set_ticks(range(0, len(layers), step), labels=[str(layer) for layer in layers[::step]])
    bar.ax.minorticks_off()
    own = Line2D([], [], color=BASE, linewidth=1.0, linestyle=(0, (4, 2)), label="the run's own threshold")
    return finish(
        figure,
        run_caption(result),
        "A line for each layer: the median over its heads; three of them are thick and have markers. Dashed: the run's "
        "own choice. Lines end where the typical head has none left.",
        panels=[left, right], handles=[*handles, own],
    )  # fmt: skip


def _drawn(shares: Any) -> Any:
    """Shares for an axis by logarithms, which has no zero."""
    return np.where(shares > 0, shares, np.nan)


@in_style
def sensitivity_figure(result: Result, claims: Collection[str] | None = None, *, look: Look = SCREEN) -> Picture:
    """Every statistic over the threshold that it depends on, with its interval and whether it passes."""
    swept = result.sensitivity(draws=DRAWS)
    every = [swept.isel(claim=k) for k in range(swept.sizes["claim"])]
    swept_over = [row for row in every if str(row["over"].values)]
    drawn = chosen_claims(map(_key, swept_over), claims)
    rows_of = [row for row in swept_over if _key(row) in drawn]
    without = [str(row["claim"].values) for row in every if not str(row["over"].values)]
    most = min(COLUMNS - 1 if look.printed else COLUMNS, len(rows_of))
    figure = picture(look, 2.85 * most, 1.0, "The claims' numbers at other thresholds")
    columns = panel_columns(figure, most, 2.0)
    rows = -(-len(rows_of) // columns)
    wide = figure.get_figwidth() / columns
    high = max(1.8 * look.size / 9, min(2.3, 0.85 * wide))
    figure.body = rows * high
    grid: Any = figure.subplots(rows, columns, squeeze=False)
    for axes in grid.flat[len(rows_of) :]:
        axes.set_visible(False)
    for axes, row in zip(grid.flat, rows_of, strict=False):
        _swept(axes, row, float(swept.attrs[str(row["over"].values)]), high)
    states = [Line2D([], [], linestyle="", **_mark(state), markersize=5, label=state) for state in TOLD]
    own = Line2D([], [], color=BASE, linewidth=0.8, linestyle=":", label="the run's own threshold")
    return finish(
        figure,
        run_caption(result),
        "Filled dot: passes, the whole interval beyond the bound. Cross: fails. Empty square: cannot tell. Grey: short "
        "of the bound. Dotted: the run's own threshold. * Not the number of the verdict, which needs no θ (1a, 1b) or "
        "is known at the run's own alone (6): they are read off the tokens that receive more than θ, as the share of "
        "stops (closing tokens) among them over that of all, and as the mean level of pairs of such tokens less that "
        "of pairs without. That "
        "share is 0, whatever the verdict, where no stop of the typical head passes θ: often special tokens alone do. "
        "Where the run's own τ stands off the line: pairs are matched within each text there, and pooled over texts "
        "elsewhere." + (f" Not shown, since they need no threshold: {', '.join(without)}." if without else ""),
        panels=list(grid.flat)[: len(rows_of)],
        handles=[*states, band_handle("95 % interval", WAYS[AT_TAU].colour, BAND),
                 Patch(color=TOO_SMALL, linewidth=0, label="short of the smallest effect that matters"), own],
    )  # fmt: skip


def _key(row: Any) -> str:
    """The claim of a row: claim 2 has two."""
    return str(row["claim"].values).split()[0]


def _mark(state: str) -> dict[str, Any]:
    """How a state is marked: as the verdict that it speaks for."""
    look = VERDICT_INKS[STATE_VERDICTS[state]]
    return {"marker": look.marker, "fillstyle": "none" if look.open else "full", "color": STATE_INKS[state]}


def _swept(axes: Any, row: Any, own: float, inches: float) -> None:
    dot = 0.42 * points("medium")
    at, value = row["threshold"].values, row["value"].values
    ink = WAYS[AT_TAU].colour
    # Numbers that were pooled over texts are not joined with one that was matched within each.
    pooled = row["over_windows"].values
    joined = pooled if pooled.any() else ~pooled
    low, high = row["low"].values, row["high"].values
    axes.fill_between(at[joined], low[joined], high[joined], color=ink, alpha=BAND, linewidth=0)
    axes.plot(at[joined], value[joined], color=ink, linewidth=0.9)
    for k in np.flatnonzero(~joined):
        axes.plot([at[k], at[k]], [low[k], high[k]], color=ink, linewidth=3, alpha=2 * BAND, solid_capstyle="butt")
    for x, y, state in zip(at, value, row["state"].values, strict=True):
        if str(state) in TOLD and np.isfinite(y):
            axes.plot(x, y, **_mark(str(state)), markersize=dot)
    known = value[np.isfinite(value)]
    if float(row["none"]) == 1.0 and spread_widely(known):
        axes.set_yscale("log")
        by_logarithms(axes.yaxis)
    axes.axvline(own, color=BASE, linewidth=0.8, linestyle=":")
    bound, (bottom, top) = float(row["bound"]), axes.get_ylim()
    if np.isfinite(bound):
        axes.set_ylim(min(bottom, bound), max(top, bound + 0.03 * (bound - bottom)))
        axes.axhspan(axes.get_ylim()[0], bound, color=TOO_SMALL, linewidth=0, zorder=0)
    axes.set_xlabel("τ" if str(row["over"].values) == "tau" else "θ")
    claim = _key(row)
    axes.set_title(f"claim {claim}*" if claim in OTHERWISE else f"claim {claim}")
    axes.set_ylabel(balanced(str(row["statistic"].values), inches - 0.4, "small"), fontsize="small")
    plain_axes(axes)
