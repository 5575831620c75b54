"""How far apart similar tokens lie, compared with how far apart any two tokens lie."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from headscope.choices import FEW_PAIRS
from headscope.figures.parts import run_caption, shown_layers
from headscope.figures.style import BASE, LINES, Picture, caption, picture, plain_axes
from headscope.measures import derived
from headscope.measures.derived import Array

if TYPE_CHECKING:
    from headscope.result.result import Result

BARS = 24  # at most, over all distances
SHOWN = 4  # heads of each kind


def distances_of_heads(result: Result, tau: float | None = None) -> Picture:
    """The heads whose similar pairs reach farthest, and those that keep nearest; dashed, the distances available."""
    at, sums = result.tau(tau), result.blocks
    high, every = sums.heads_at(at).sum(0), sums.base.sum(0)  # (L, H, distance, relation)
    reach = derived.distance_over_base(high, every)  # (L, H)
    enough = high.sum((-2, -1)) >= FEW_PAIRS * max(float(sums.windows.sum()), 1)
    reach = np.where(enough if enough.any() else high.sum((-2, -1)) > 0, reach, np.nan)
    order = np.argsort(np.where(np.isfinite(reach), reach, np.inf), axis=None)[: int(np.isfinite(reach).sum())]
    number = min(SHOWN, max(1, len(order) // 2))
    near, far = order[:number], order[::-1][:number]
    figure = picture(2.3 * max(number, 2) + 0.6, 4.9, "Long-range and short-range heads")
    grid: Any = figure.subplots(2, number, sharex=True, squeeze=False)
    for row, (places, colour, kind) in enumerate(((far, LINES[1][0], "long"), (near, LINES[0][0], "short"))):
        for axes, place in zip(grid[row], places, strict=False):
            layer, head = np.unravel_index(place, reach.shape)
            _bars(axes, high[layer, head].sum(-1), every.sum(-1), colour)
            axes.set_title(f"layer {sums.layers[layer]}, head {head}: {reach[layer, head]:.2f}", fontsize=9)
        grid[row, 0].set_ylabel(f"{kind} range\nshare of similar pairs")
    for axes in grid[1]:
        axes.set_xlabel("distance in tokens")
    caption(
        figure,
        f"{run_caption(result, at)}; dashed: all pairs",
        "Numbers: mean distance of similar pairs over that of all pairs. Heads with fewer than "
        f"{FEW_PAIRS} similar pairs to a text are left out.",
    )
    return figure


def distances_of_layers(result: Result, tau: float | None = None) -> Picture:
    """The same for an early, a middle and the last layer, pooled over heads."""
    at, sums = result.tau(tau), result.blocks
    layers = shown_layers(sums.layers)
    high, every = sums.high(at).sum(0), sums.base.sum(0)
    reach = derived.distance_over_base(high, every * sums.heads)
    figure = picture(3.0 * len(layers) + 0.6, 3.2, "Distances of similar pairs by layer")
    row: Any = figure.subplots(1, len(layers), sharex=True, sharey=True, squeeze=False)[0]
    for axes, layer, (colour, _, _) in zip(row, layers, LINES, strict=False):
        place = sums.layers.index(layer)
        _bars(axes, high[place].sum(-1), every.sum(-1), colour)
        axes.set_title(f"layer {layer}: {reach[place]:.2f}", fontsize=10)
        axes.set_xlabel("distance in tokens")
    row[0].set_ylabel("share of similar pairs")
    caption(
        figure,
        f"{run_caption(result, at)}; dashed: all pairs",
        "Numbers: mean distance of similar pairs over that of all pairs.",
    )
    return figure


def _bars(axes: Any, high: Array, every: Array, colour: str) -> None:
    """Shares of similar pairs by distance as bars, those of all pairs as a dashed outline."""
    longest = int(np.flatnonzero(every).max(initial=0)) + 1
    step = max(1, -(-longest // BARS))
    edges = np.arange(1, longest + step + 1, step)
    shown = []
    for counts in (high, every):
        padded = np.zeros((len(edges) - 1) * step)
        padded[:longest] = counts[:longest]
        shown.append(padded.reshape(-1, step).sum(1) / max(counts.sum(), 1))
    axes.bar(edges[:-1], shown[0], width=step, align="edge", color=colour, edgecolor="white", linewidth=0.4)
    axes.stairs(shown[1], edges, color=BASE, linewidth=1.3, linestyle=(0, (4, 2)), baseline=None)
    plain_axes(axes)
