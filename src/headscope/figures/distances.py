"""How far apart similar tokens lie, compared with how far apart any two tokens lie."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from headscope.choices import FEW_PAIRS
from headscope.errors import HeadscopeError
from headscope.figures.colours import BASE, WAYS
from headscope.figures.fonts import in_style, points
from headscope.figures.parts import run_caption, shown_layers
from headscope.figures.style import Picture, finish, panel_columns, panel_title, picture, plain_axes
from headscope.findings.estimates import AT_TAU
from headscope.look import SCREEN, Look
from headscope.measures.derived import Array
from headscope.measures.quantities import ABOVE, named
from headscope.measures.view import View

if TYPE_CHECKING:
    from headscope.result.result import Result

SHOWN = 4  # heads of each kind
# Similar pairs have the ink of the paper's way, and no filling: what is available, in grey, has to be seen over them.
BARS: dict[str, Any] = {"facecolor": "none", "edgecolor": WAYS[AT_TAU].colour, "linewidth": 0.9}


@in_style
def distances_of_heads(result: Result, tau: float | None = None, *, look: Look = SCREEN) -> Picture:
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
    figure = picture(look, 2.5 * max(each, 2) + 0.6, 1.0, "Long-range and short-range heads")
    columns = panel_columns(figure, each, 1.55)
    rows = 2 * -(-each // columns)
    figure.body = 2.1 * look.size / 9 * rows + 0.6
    grid: Any = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)
    places = [*far, *[None] * (rows // 2 * columns - each), *near, *[None] * (rows // 2 * columns - each)]
    panels = []
    for axes, place in zip(grid.flat, places, strict=True):
        if place is None:
            axes.set_visible(False)
            continue
        panels.append(axes)
        layer, head = np.unravel_index(place, reach.shape)
        own = table.isel(layer=layer, head=head)
        _bars(axes, sums.bands, own["value"].values, own["base"].values)
        panel_title(axes, f"layer {sums.layers[layer]}, head {head}: {reach[layer, head]:.2f}", 9)
    for row, axes in enumerate(grid[:, 0]):
        axes.set_ylabel(f"{'long' if row < rows // 2 else 'short'} range:\nshare of pairs")
    for axes in grid[-1]:
        axes.set_xlabel("distance (tokens)")
    return finish(
        figure,
        run_caption(result, at),
        "Numbers: reach, the mean distance of similar pairs over that of all. Heads with fewer than "
        f"{FEW_PAIRS} similar pairs to a text are left out. Each bar is a band of distances; far bands are wider."
        + _farthest(float(reach.flat[far[0]])),
        panels=panels, handles=_handles("similar pairs of the head"),
    )  # fmt: skip


@in_style
def distances_of_layers(result: Result, tau: float | None = None, *, look: Look = SCREEN) -> Picture:
    """The same of the typical head of an early, a middle and the last layer, with intervals."""
    at, sums = result.tau(tau), result.blocks
    layers = shown_layers(sums.layers)
    table, reach = result.distance_distribution(tau=at), result.quantity("reach", tau=at)
    figure = picture(look, 3.2 * len(layers) + 0.6, 1.0, "Distances of similar pairs by layer")
    columns = panel_columns(figure, len(layers), 1.7)
    rows = -(-len(layers) // columns)
    figure.body = 2.4 * look.size / 9 * rows + 0.5
    grid: Any = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)
    for axes in grid.flat[len(layers) :]:
        axes.set_visible(False)
    for axes, layer in zip(grid.flat, layers, strict=False):
        own = table.sel(layer=layer)
        spread = own["low"].values, own["high"].values
        _bars(axes, sums.bands, own["value"].values, own["base"].values, spread)
        axes.set_title(f"layer {layer}: {float(reach['value'].sel(layer=layer)):.2f}")
    for axes in grid.flat[max(0, len(layers) - columns) : len(layers)]:  # the last of each column
        axes.set_xlabel("distance (tokens)")
        axes.tick_params(labelbottom=True)
    for axes in grid[:, 0]:
        axes.set_ylabel("share of pairs")
    return finish(
        figure,
        run_caption(result, at),
        "The median over a layer's heads, with 95 % intervals. Numbers: reach, the mean distance of similar pairs over "
        "that of all, median over heads. Each bar is a band of distances; far bands are wider.",
        panels=list(grid.flat)[: len(layers)],
        handles=[*_handles("similar pairs of a typical head"), Line2D([], [], color=WAYS[AT_TAU].colour, linewidth=1.1,
                                                                      label="95 % interval")],
    )  # fmt: skip


def _farthest(reach: float) -> str:
    """A word where even the head that reaches farthest hardly reaches beyond all pairs: "long" is no more than that."""
    if reach >= ABOVE:
        return ""
    return f" No head reaches much farther than all pairs do: the farthest has {reach:.2f} times their mean distance."


def _handles(similar: str) -> list[Any]:
    """A legend's entries for bars and the outline above them."""
    return [
        Patch(**BARS, label=similar),
        Line2D([], [], color=BASE, linewidth=1.3, linestyle=(0, (4, 2)), label="all pairs"),
    ]


def _bars(
    axes: Any, bands: Sequence[str], share: Array, every: Array, spread: tuple[Array, Array] | None = None
) -> None:
    """Shares of similar pairs in each band of distance as bars, those of all pairs as a dashed outline."""
    last = int(np.flatnonzero(every).max(initial=0)) + 1
    places = np.arange(last)
    axes.bar(places, share[:last], width=1.0, **BARS)
    if spread is not None and np.isfinite(spread[0]).any():
        axes.vlines(places, spread[0][:last], spread[1][:last], color=WAYS[AT_TAU].colour, linewidth=1.1)
    edges = np.arange(last + 1) - 0.5
    axes.stairs(every[:last], edges, color=BASE, linewidth=1.3, linestyle=(0, (4, 2)), baseline=None)
    names = [name.replace("-", "–") for name in bands[:last]]
    axes.set_xticks(places, names, rotation=90)
    # As large as stands beside each other.
    room = 72 * axes.figure.get_figwidth() / axes.get_gridspec().ncols * 0.72 / max(last, 1)
    axes.tick_params(axis="x", labelsize=min(points("small"), max(room / 1.1, 4.5)), length=2)
    plain_axes(axes)
