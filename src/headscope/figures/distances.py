"""How far apart similar tokens lie, compared with how far apart any two tokens lie."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from headscope.choices import FEW_PAIRS
from headscope.errors import HeadscopeError
from headscope.figures.colours import WAYS
from headscope.figures.parts import run_caption, shown_layers
from headscope.figures.style import Picture, caption, picture, plain_axes
from headscope.findings.estimates import AT_TAU
from headscope.measures.derived import Array
from headscope.measures.quantities import named
from headscope.measures.view import View

if TYPE_CHECKING:
    from headscope.result.result import Result

SHOWN = 4  # heads of each kind
BARS, ALL_PAIRS = "#9db4c8", "#444444"


def distances_of_heads(result: Result, tau: float | None = None) -> Picture:
    """The heads whose similar pairs reach farthest, and those that keep nearest; dashed, the distances available."""
    at, sums = result.tau(tau), result.blocks
    view = View(sums, at)
    reach, number = named("reach").of_heads(view), view.number().sum(0)  # (L, H)
    enough = number >= FEW_PAIRS * max(float(sums.windows.sum()), 1)
    reach = np.where(enough if enough.any() else number > 0, reach, np.nan)
    order = np.argsort(np.where(np.isfinite(reach), reach, np.inf), axis=None)[: int(np.isfinite(reach).sum())]
    if not len(order):
        raise HeadscopeError("no head has similar pairs", "analyse more texts, or take a smaller τ")
    each = min(SHOWN, max(1, len(order) // 2))
    near, far = order[:each], order[::-1][:each]
    table = result.distance_distribution(by="head", tau=at, draws=0)
    figure = picture(2.5 * max(each, 2) + 0.6, 5.1, "Long-range and short-range heads")
    grid: Any = figure.subplots(2, each, sharex=True, squeeze=False)
    for row, (places, kind) in enumerate(((far, "long"), (near, "short"))):
        for axes, place in zip(grid[row], places, strict=False):
            layer, head = np.unravel_index(place, reach.shape)
            own = table.isel(layer=layer, head=head)
            _bars(axes, sums.bands, own["value"].values, own["base"].values)
            axes.set_title(f"layer {sums.layers[layer]}, head {head}: {reach[layer, head]:.2f}", fontsize=9)
        grid[row, 0].set_ylabel(f"{kind} range\nshare of similar pairs")
    for axes in grid[1]:
        axes.set_xlabel("distance in tokens")
    caption(
        figure,
        f"{run_caption(result, at)}; dashed: all pairs",
        "Numbers: reach, the mean distance of similar pairs over that of all. Heads with fewer than "
        f"{FEW_PAIRS} similar pairs to a text are left out. Each bar is a band of distances; far bands are wider.",
    )
    return figure


def distances_of_layers(result: Result, tau: float | None = None) -> Picture:
    """The same of the typical head of an early, a middle and the last layer, with intervals."""
    at, sums = result.tau(tau), result.blocks
    layers = shown_layers(sums.layers)
    table, reach = result.distance_distribution(tau=at), result.quantity("reach", tau=at)
    figure = picture(3.2 * len(layers) + 0.6, 3.5, "Distances of similar pairs by layer")
    row: Any = figure.subplots(1, len(layers), sharex=True, sharey=True, squeeze=False)[0]
    for axes, layer in zip(row, layers, strict=True):
        own = table.sel(layer=layer)
        spread = own["low"].values, own["high"].values
        _bars(axes, sums.bands, own["value"].values, own["base"].values, spread)
        axes.set_title(f"layer {layer}: {float(reach['value'].sel(layer=layer)):.2f}", fontsize=10)
        axes.set_xlabel("distance in tokens")
    row[0].set_ylabel("share of similar pairs")
    caption(
        figure,
        f"{run_caption(result, at)}; dashed: all pairs",
        "The median over a layer's heads, with 95 % intervals. Numbers: reach, the mean distance of similar pairs over "
        "that of all, median over heads. Each bar is a band of distances; far bands are wider.",
    )
    return figure


def _bars(
    axes: Any, bands: Sequence[str], share: Array, every: Array, spread: tuple[Array, Array] | None = None
) -> None:
    """Shares of similar pairs in each band of distance as bars, those of all pairs as a dashed outline."""
    last = int(np.flatnonzero(every).max(initial=0)) + 1
    places = np.arange(last)
    axes.bar(places, share[:last], width=1.0, color=BARS, edgecolor="white", linewidth=0.6)
    if spread is not None and np.isfinite(spread[0]).any():
        axes.vlines(places, spread[0][:last], spread[1][:last], color=WAYS[AT_TAU].colour, linewidth=1.1)
    edges = np.arange(last + 1) - 0.5
    axes.stairs(every[:last], edges, color=ALL_PAIRS, linewidth=1.3, linestyle=(0, (4, 2)), baseline=None)
    axes.set_xticks(places, [name.replace("-", "–") for name in bands[:last]], rotation=90)
    plain_axes(axes)
    axes.tick_params(axis="x", labelsize=7, length=2)
