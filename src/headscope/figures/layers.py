"""Numbers over layers: the trajectory of every score by reading, and the number of different focal tokens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from headscope.figures.colours import BASE, BY_READING, WAYS
from headscope.figures.parts import (
    base_line,
    control_handles,
    control_line,
    layer_axis,
    legend_row,
    over_layers,
    run_caption,
    shade_thirds,
    sorted_controls,
    way_handles,
)
from headscope.figures.style import Picture, by_logarithms, caption, picture, plain_axes, spread_widely, wrapped
from headscope.findings.estimates import AT_TAU, by_readings, quantity
from headscope.findings.numbers import Numbers
from headscope.findings.resampling import Resampling
from headscope.measures.derived import ratio
from headscope.measures.quantities import named, shown_in
from headscope.measures.quantity import Quantity
from headscope.measures.view import View

if TYPE_CHECKING:
    import xarray as xr

    from headscope.result.result import Result

COLUMNS = 3


def trajectory(result: Result, tau: float | None = None, controls: Sequence[Result] = ()) -> Picture:
    """Every score over the layers, a line for each reading: the median over heads with its interval."""
    at, sums, runs = result.tau(tau), result.blocks, sorted_controls(result, controls)
    quantities = [each for each in shown_in("layers", sums.stored) if _ways(each, View(sums, at))]
    resample = Resampling(sums.windows)
    rows = -(-len(quantities) // COLUMNS)
    figure = picture(10.4, 2.05 * rows + 1.5, "From layer to layer: what a typical head does")
    grid = figure.add_gridspec(rows + 1, COLUMNS, height_ratios=[0.42, *[1.0] * rows])
    ways: list[str] = []
    for place, each in enumerate(quantities):
        axes = figure.add_subplot(grid[place // COLUMNS + 1, place % COLUMNS])
        table = by_readings(Numbers(sums, resample, at), each.name)
        ways += [str(way) for way in table["way"].values]
        shade_thirds(axes, sums)
        _panel(axes, each, table, [(kind, _of_run(each, run, at)) for kind, run in runs])
        layer_axis(axes, sums.layers)
        plain_axes(axes)
        axes.set_title(wrapped(each.label, 40), fontsize=9)
        if place + COLUMNS >= len(quantities):
            axes.set_xlabel("layer")
    handles = [*way_handles(ways), *control_handles(runs)]
    legend_row(figure.add_subplot(grid[0, :]), handles)
    caption(
        figure,
        run_caption(result, at),
        "Lines: the median over a layer's heads; bands in their colour: 95 % intervals "
        f"({resample.how}). {BY_READING} Pale grey band: the middle half of the heads, for the first line. Dashed: no "
        "effect. Grey behind: early and final thirds."
        + (" Thin grey lines: control runs, read as the first line is." if runs else ""),
        panels=[each.label for each in quantities],
    )
    return figure


def _ways(quantity: Quantity, view: View) -> bool:
    return any(not quantity.lacking(view.by(way)) for way in quantity.ways(view.sums))


def _of_run(quantity: Quantity, run: Result, tau: float) -> Any:
    """The numbers of a control run by layer, read as the first line is; None where it cannot have them."""
    view = View(run.blocks, tau, reading=quantity.ways(run.blocks)[0])
    return None if quantity.lacking(view) else quantity.value(view)


def _panel(axes: Any, quantity: Quantity, table: xr.Dataset, runs: list[tuple[str, Any]]) -> None:
    layers = table["layer"].values
    base_line(axes, quantity.none)
    for kind, values in runs:
        if values is not None:
            control_line(axes, layers, values, kind)
    first = table.isel(way=0)
    low, high = first["lower_quartile"].values, first["upper_quartile"].values
    axes.fill_between(layers, low, high, color="#000000", alpha=0.08, linewidth=0, zorder=1)
    for way in table["way"].values:
        over_layers(axes, table.sel(way=way), WAYS[str(way)].style() | {"markersize": 2.8, "linewidth": 1.2})
    values = table["value"].values
    if quantity.logarithmic and spread_widely(values[values > 0]):
        axes.set_yscale("log")
        by_logarithms(axes.yaxis)


def focal_tokens(result: Result, tau: float | None = None) -> Picture:
    """How many different focal tokens a layer's heads have, and how many they would have by chance."""
    at, sums = result.tau(tau), result.blocks
    numbers = Numbers(sums, Resampling(sums.windows), at)
    top = sums.readings[0]
    ways = [way for way in (None, top) if not named("focal_unique").lacking(numbers.view(way))]
    figure = picture(5.1 * len(ways) + 0.4, 4.7, "Different focal tokens among the heads of a layer")
    grid = figure.add_gridspec(2, len(ways), height_ratios=[0.16, 1])
    panels: list[Any] = []
    for column, way in enumerate(ways):
        axes = figure.add_subplot(grid[1, column], sharey=panels[0] if panels else None)
        panels.append(axes)
        _focal_panel(axes, numbers, way)
        axes.set_title("the paper's way, at τ" if way is None else f"from the top pairs by {way}", fontsize=10)
    panels[0].set_ylabel(f"different focal tokens of {sums.heads} heads")
    panels[0].set_ylim(0, sums.heads + 0.6)
    handles = {label: each for axes in panels for each, label in zip(*axes.get_legend_handles_labels(), strict=True)}
    legend_row(figure.add_subplot(grid[0, :]), list(handles.values()), columns=2)
    caption(
        figure,
        run_caption(result, at),
        "Dots: in how many texts a layer has so many. Bands: 95 % intervals. By chance: within a text, tokens that "
        "occur equally often exchange their similar pairs, for each head by itself.",
    )
    return figure


def _focal_panel(axes: Any, numbers: Numbers, way: str | None) -> None:
    sums, view = numbers.sums, numbers.view(way)
    shade_thirds(axes, sums)
    counts = view.focal()[0].sum(0)[:, 0]  # (L, unique)
    shares = ratio(counts, counts.sum(-1, keepdims=True))
    for layer, line in zip(sums.layers, shares, strict=True):
        axes.scatter(
            np.full(len(line), layer), np.arange(len(line)), s=110 * np.nan_to_num(line), color="#bcd4e6", linewidth=0,
            zorder=1.2,
        )  # fmt: skip
    style = WAYS[AT_TAU if way is None else way].style()
    over_layers(axes, quantity(numbers, "focal_unique", reading=way), style, _MEASURED[way is None])
    over_layers(axes, quantity(numbers, "focal_null", reading=way), _CHANCE, "by chance")
    mixed = named("focal_mixed")
    if way is not None and not mixed.lacking(view):
        level = float(mixed.value(view, "model"))
        axes.axhline(level, color=BASE, linewidth=1.4, linestyle=(0, (1, 1.5)), zorder=2, label=_MIXED)
    layer_axis(axes, sums.layers)
    axes.set_xlabel("layer")
    plain_axes(axes)


_MEASURED = {True: "measured at τ, mean over texts", False: "measured from top pairs, mean over texts"}
_MIXED = "as many heads drawn from all layers"
_CHANCE = {"color": BASE, "linestyle": (0, (4, 2)), "marker": "", "linewidth": 1.6}
