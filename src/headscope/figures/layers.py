"""Numbers over layers: the trajectory of every score, and the number of different focal tokens."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from headscope.figures.parts import base_line, over_layers, run_caption, shade_thirds
from headscope.figures.style import (
    BASE,
    LINES,
    Picture,
    by_logarithms,
    caption,
    line_style,
    picture,
    plain_axes,
    spread_widely,
)
from headscope.findings.estimates import estimate
from headscope.findings.resampling import Resampling
from headscope.measures.block_sums import View
from headscope.measures.derived import ratio
from headscope.measures.quantities import shown_in

if TYPE_CHECKING:
    from headscope.result.result import Result


def trajectory(result: Result, tau: float | None = None) -> Picture:
    """Every score over the layers, with 95 % intervals; dashed, no effect."""
    at, sums = result.tau(tau), result.blocks
    quantities = shown_in("layers", sums.stored)
    columns, resample = 3, Resampling(sums.windows)
    rows = -(-len(quantities) // columns)
    figure = picture(9.6, 1.95 * rows + 0.9, "From layer to layer")
    grid: Any = figure.subplots(rows, columns, sharex=True, squeeze=False)
    for axes in grid.flat[len(quantities) :]:
        axes.set_visible(False)
    for place, (axes, quantity) in enumerate(zip(grid.flat, quantities, strict=False)):
        estimated = estimate(sums, resample, quantity.name, "layer", at)
        shade_thirds(axes, sums)
        base_line(axes, quantity.none)
        over_layers(axes, sums, estimated, line_style(0))
        if quantity.is_ratio and spread_widely(estimated.value[estimated.value > 0]):
            axes.set_yscale("log")
            by_logarithms(axes.yaxis)
        plain_axes(axes)
        axes.set_title(quantity.label, fontsize=9)
        if place // columns == rows - 1 or place + columns >= len(quantities):
            axes.set_xlabel("layer")
            axes.tick_params(labelbottom=True)
    caption(
        figure,
        f"{run_caption(result, at)}",
        f"Bands: 95 % intervals ({resample.how}). Dashed: no effect. Grey: early and final thirds.",
        panels=[quantity.label for quantity in quantities],
    )
    return figure


def focal_tokens(result: Result, tau: float | None = None) -> Picture:
    """How many different focal tokens a layer's heads have, and how many they would have by chance."""
    at, sums = result.tau(tau), result.blocks
    resample = Resampling(sums.windows)
    figure = picture(7.2, 4.0, "Different focal tokens among the heads of a layer")
    axes = figure.add_subplot()
    shade_thirds(axes, sums)
    spread = sums.stored["focal_unique"][:, :, View(sums, "layer", at).step].sum(0)  # (L, unique)
    shares = ratio(spread, spread.sum(-1, keepdims=True))
    for layer, line in zip(sums.layers, shares, strict=True):
        axes.scatter(
            np.full(len(line), layer), np.arange(len(line)), s=110 * np.nan_to_num(line), color=LINES[5][0], alpha=0.7,
            linewidth=0, zorder=2,
        )  # fmt: skip
    estimated = estimate(sums, resample, "focal_unique", "layer", at)
    over_layers(axes, sums, estimated, line_style(0) | {"zorder": 4}, "measured, mean over texts")
    _, expected, windows = (each.sum(0) for each in View(sums, "layer", at).focal())
    axes.plot(
        sums.layers, ratio(expected, windows), color=BASE, linestyle=(0, (4, 2)), linewidth=1.6, zorder=3,
        label="expected if every head drew a token of the text by frequency",
    )  # fmt: skip
    axes.set(xlabel="layer", ylabel=f"of {sums.heads} heads", ylim=(0, sums.heads + 0.6))
    plain_axes(axes)
    axes.legend(fontsize=8, frameon=False, loc="lower left")
    caption(figure, run_caption(result, at), "Dots: in how many texts a layer has so many. Bands: 95 % intervals.")
    return figure
