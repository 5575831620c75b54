"""The head atlas: every head of every layer as one square, for each score."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.colors import Colormap, LinearSegmentedColormap, LogNorm, Normalize

from headscope.errors import HeadscopeError
from headscope.figures.cells import cells
from headscope.figures.fonts import in_style, points
from headscope.figures.parts import hatch_missing, run_caption
from headscope.figures.style import (
    Picture,
    by_logarithms,
    colour_bar,
    finish,
    panel_columns,
    panel_title,
    picture,
    whole_numbers,
)
from headscope.findings.stability import scores_of
from headscope.look import SCREEN, Look
from headscope.measures.quantity import Quantity
from headscope.measures.view import View

if TYPE_CHECKING:
    from headscope.result.result import Result

MOST = 0.95  # of the heads lie within a scale
FAR = 1.5  # times as far as most heads: what lies farther is beyond the scale
WIDE = 3  # ratios that reach farther are drawn by logarithms
# Above no effect brown, below it blue-green, which stays light: in grey print, dark is above.
TWO_SIDES = LinearSegmentedColormap.from_list(
    "two sides", [(0, "#3fa79d"), (0.5, "#f7f7f7"), (0.65, "#e6c88c"), (0.82, "#ad7a2a"), (1, "#3f2500")], N=128
)
ONE_SIDE = LinearSegmentedColormap.from_list("one side", ["#fcfbfd", "#9e9ac8", "#3f007d"], N=96)


@in_style
def atlas(
    result: Result, tau: float | None = None, scores: Collection[str] | None = None, *, look: Look = SCREEN
) -> Picture:
    """A layer × head grid for each score; ratios by logarithms, white at no effect."""
    at, sums = result.tau(tau), result.blocks
    quantities = chosen(scores_of(sums, at), scores)
    figure = picture(look, 3.4 * min(3, len(quantities)), 1.0, "Head atlas")
    columns = panel_columns(figure, min(3, len(quantities)), 2.1)
    rows = -(-len(quantities) // columns)
    wide = figure.get_figwidth() / columns
    inner = wide - 1.0 * look.size / 9  # without labels and scale
    high = float(np.clip(inner * len(sums.layers) / sums.heads, 0.9, 1.4 * inner))
    figure.body = rows * (high + 0.72 * look.size / 9)
    grid: Any = figure.subplots(rows, columns, squeeze=False)
    for axes in grid.flat[len(quantities) :]:
        axes.set_visible(False)
    for axes, quantity in zip(grid.flat, quantities, strict=False):
        _panel(axes, quantity, quantity.value(View(sums, at), "head"))
        panel_title(axes, quantity.label, inner if look.letters else wide - 0.4)
        letters = points("small") / 72
        whole_numbers(axes.yaxis, list(sums.layers), int(high / (1.5 * letters)))
        whole_numbers(axes.xaxis, range(sums.heads), int(inner / (2.4 * letters)))
        axes.tick_params(length=0)
        axes.set(xlabel="head", ylabel="layer")
    return finish(
        figure,
        f"{run_caption(result, at)}",
        "Brown: above no effect; blue-green: below it; white: none. Violet, where there is no such number: dark is "
        "large. Hatched: nothing to compare. A pointed end of a scale: heads lie beyond it, at most 5 % of them.",
        panels=list(grid.flat)[: len(quantities)], names=[quantity.label for quantity in quantities],
    )  # fmt: skip


def chosen(quantities: list[Quantity], names: Collection[str] | None) -> list[Quantity]:
    """Those of the quantities that are asked for by name; all of them without."""
    if names is None:
        return quantities
    names = [names] if isinstance(names, str) else list(names)
    known = {quantity.name: quantity for quantity in quantities}
    for name in names:
        if name not in known:
            raise HeadscopeError(f"there is no score {name!r} here", f"use some of {', '.join(known)}")
    return [known[name] for name in names]


def _panel(axes: Any, quantity: Quantity, values: Any) -> None:
    """One score, with a scale that shows no more than its heads have."""
    colours, norm = _scale(values, quantity)
    known = values[np.isfinite(values)]
    shown = values
    if isinstance(norm, LogNorm):
        shown = np.where(values <= 0, norm.vmin, values)  # no logarithm: at the lower end
    image = cells(axes, shown, cmap=colours, norm=norm, aspect="auto")
    if known.size < values.size:
        hatch_missing(axes)
    if not known.size:
        return
    low, high = float(norm.vmin), float(norm.vmax)
    under, over = bool((known < low).any()), bool((known > high).any())
    extend = "both" if under and over else "min" if under else "max" if over else "neither"
    bar = colour_bar(axes, image, extend=extend)
    if isinstance(norm, LogNorm):
        by_logarithms(bar.ax.yaxis)
    least, most = max(low, float(known.min())), min(high, float(known.max()))
    none = quantity.none if np.isfinite(quantity.none) else 0.0
    least, most = min(least, none), max(most, none)
    if not under and not over and least < most:  # a pointed end belongs to a whole scale
        bar.ax.set_ylim(least, most)
    elif under != over:
        bar.ax.set_ylim(*((low, most) if under else (least, high)))


def _scale(values: Any, quantity: Quantity) -> tuple[Colormap, Any]:
    """Two colours that meet at no effect, or at zero where some heads lie below it; else one that darkens."""
    known = values[np.isfinite(values)]
    none = quantity.none
    if not known.size:
        return ONE_SIDE, Normalize(0, 1)
    if not np.isfinite(none):
        low, high = float(known.min()), float(known.max())
        if low >= 0:
            return ONE_SIDE, Normalize(0, high or 1)
        none = 0.0
    # A few heads far from all others would otherwise set the scale: they get its end.
    if quantity.logarithmic:
        positive = known[known > 0]
        reach = float(np.exp(_reach(np.log(positive)))) if positive.size else 2.0
        if reach > WIDE:
            return TWO_SIDES, LogNorm(1 / reach, reach, clip=False)
        reach -= 1
    else:
        reach = _reach(known - none)
    reach = max(reach, 0.05)
    return TWO_SIDES, Normalize(none - reach, none + reach)


def _reach(differences: Any) -> float:
    """How far a scale reaches: to the farthest head, or, where that lies far from all others, as far as most do."""
    far = np.abs(differences)
    most, farthest = float(np.quantile(far, MOST)), float(far.max())
    return farthest if farthest <= FAR * most else most
