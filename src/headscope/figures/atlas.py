"""The head atlas: every head of every layer as one square, for each score."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.colors import LogNorm, Normalize, TwoSlopeNorm

from headscope.figures.parts import run_caption
from headscope.figures.style import Picture, by_logarithms, caption, picture
from headscope.findings.stability import head_sums
from headscope.measures.quantities import shown_in

if TYPE_CHECKING:
    from headscope.result.result import Result


def atlas(result: Result, tau: float | None = None) -> Picture:
    """A layer × head grid for each score; ratios by logarithms, white at no effect."""
    at, sums = result.tau(tau), result.blocks
    quantities = shown_in("heads", sums.stored)
    columns = 3
    rows = -(-len(quantities) // columns)
    height = float(np.clip(0.16 * len(sums.layers) + 0.9, 1.9, 6))
    figure = picture(10.2, height * rows + 0.8, "Head atlas")
    grid: Any = figure.subplots(rows, columns, squeeze=False)
    for axes in grid.flat[len(quantities) :]:
        axes.set_visible(False)
    for axes, quantity in zip(grid.flat, quantities, strict=False):
        values = quantity.formula(*(each.sum(0) for each in head_sums(sums, quantity.name, at)))  # (L, H)
        colours, norm = _scale(values, quantity.none)
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
        "Brown: above no effect; blue-green: below it; white: none. Where no effect is zero or unknown: dark is large. "
        "Grey: nothing to compare. Scales of ratios end where 95 % of the heads lie within.",
        panels=[quantity.label for quantity in quantities],
    )
    return figure


def _scale(values: Any, base: float) -> tuple[str, Any]:
    """Two colours that meet at no effect where ratios lie on both sides of it; else one that darkens."""
    known = values[np.isfinite(values)]
    if base != 1.0 or not known.size:
        low, high = (float(known.min()), float(known.max())) if known.size else (0.0, 1.0)
        return "Purples", Normalize(min(low, 0), high if high > min(low, 0) else min(low, 0) + 1)
    positive = known[known > 0]
    # A few heads next to nothing would otherwise set the scale for all: they get its end.
    reach = float(np.exp(np.quantile(np.abs(np.log(positive)), 0.95))) if positive.size else 2.0
    if reach > 3:
        return "BrBG_r", LogNorm(1 / reach, reach, clip=True)
    return "BrBG_r", TwoSlopeNorm(1.0, 1 - max(reach - 1, 0.05), 1 + max(reach - 1, 0.05))
