"""The head atlas: every head of every layer as one square, for each score."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.colors import LogNorm, Normalize, TwoSlopeNorm

from headscope.figures.parts import run_caption
from headscope.figures.style import Picture, by_logarithms, caption, picture
from headscope.findings.stability import scores_of
from headscope.measures.quantity import Quantity
from headscope.measures.view import View

if TYPE_CHECKING:
    from headscope.result.result import Result

MOST = 0.95  # of the heads lie within a scale
WIDE = 3  # ratios that reach farther are drawn by logarithms


def atlas(result: Result, tau: float | None = None) -> Picture:
    """A layer × head grid for each score; ratios by logarithms, white at no effect."""
    at, sums = result.tau(tau), result.blocks
    quantities = scores_of(sums, at)
    columns = 3
    rows = -(-len(quantities) // columns)
    height = float(np.clip(0.16 * len(sums.layers) + 0.9, 1.9, 6))
    figure = picture(10.2, height * rows + 0.8, "Head atlas")
    grid: Any = figure.subplots(rows, columns, squeeze=False)
    for axes in grid.flat[len(quantities) :]:
        axes.set_visible(False)
    for axes, quantity in zip(grid.flat, quantities, strict=False):
        values = quantity.value(View(sums, at), "head")  # (L, H)
        colours, norm = _scale(values, quantity)
        image = axes.imshow(values, cmap=colours, norm=norm, aspect="auto", interpolation="nearest")
        axes.set_facecolor("#cccccc")
        axes.set_title(quantity.label, fontsize=9)
        step = max(1, len(sums.layers) // 6)
        axes.set_yticks(range(0, len(sums.layers), step), [str(layer) for layer in sums.layers[::step]])
        axes.tick_params(labelsize=7, length=0)
        bar = figure.colorbar(image, ax=axes, fraction=0.05, pad=0.02)
        if isinstance(norm, LogNorm):
            by_logarithms(bar.ax.yaxis)
        bar.ax.tick_params(labelsize=7, which="both")
    for axes in grid[:, 0]:
        axes.set_ylabel("layer", fontsize=9)
    for axes in grid.flat:
        axes.set_xlabel("head", fontsize=8)
    caption(
        figure,
        f"{run_caption(result, at)}",
        "Brown: above no effect; blue-green: below it; white: none. Violet, where there is no such number: dark is "
        "large. Grey: nothing to compare. Scales with two colours end where 95 % of the heads lie within.",
        panels=[quantity.label for quantity in quantities],
    )
    return figure


def _scale(values: Any, quantity: Quantity) -> tuple[str, Any]:
    """Two colours that meet at no effect, where there is such a number; else one that darkens."""
    known = values[np.isfinite(values)]
    none = quantity.none
    if not np.isfinite(none) or not known.size:
        low, high = (float(known.min()), float(known.max())) if known.size else (0.0, 1.0)
        return "Purples", Normalize(min(low, 0), high if high > min(low, 0) else min(low, 0) + 1)
    # A few heads far from all others would otherwise set the scale: they get its end.
    if quantity.logarithmic:
        positive = known[known > 0]
        reach = float(np.exp(np.quantile(np.abs(np.log(positive)), MOST))) if positive.size else 2.0
        if reach > WIDE:
            return "BrBG_r", LogNorm(1 / reach, reach, clip=True)
        reach -= 1
    else:
        reach = float(np.quantile(np.abs(known - none), MOST))
    reach = max(reach, 0.05)
    return "BrBG_r", TwoSlopeNorm(none, none - reach, none + reach)
