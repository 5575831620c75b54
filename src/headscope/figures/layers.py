"""Numbers over layers: the trajectory of every score by reading, and the number of different focal tokens."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.lines import Line2D

from headscope.figures.atlas import chosen
from headscope.figures.colours import ATTENTION_ITSELF, BASE, BY_READING, CONTROL_LABELS, WAYS, Line
from headscope.figures.fonts import balanced, in_style, points
from headscope.figures.parts import (
    Runs,
    band_handle,
    base_line,
    control_handles,
    control_line,
    layer_axis,
    none_handle,
    outline,
    outline_handle,
    over_layers,
    run_caption,
    shade_thirds,
    sorted_controls,
    thirds_handle,
    way_handles,
)
from headscope.figures.style import Picture, by_logarithms, finish, panel_columns, picture, plain_axes, spread_widely
from headscope.findings.estimates import AT_TAU, by_readings, quantity
from headscope.findings.numbers import Numbers
from headscope.findings.resampling import Resampling
from headscope.look import SCREEN, Look
from headscope.measures.derived import ratio
from headscope.measures.quantities import named, shown_in
from headscope.measures.quantity import Quantity
from headscope.measures.view import View

if TYPE_CHECKING:
    import xarray as xr

    from headscope.result.result import Result

COLUMNS = 3
PATTERNS = {"permuted": "unbroken", "untrained": "dotted", "rotated": "dashes and dots"}  # of control runs


@in_style
def trajectory(
    result: Result,
    tau: float | None = None,
    controls: Sequence[Result] = (),
    scores: Collection[str] | None = None,
    *,
    look: Look = SCREEN,
) -> Picture:
    """Every score over the layers, a line for each reading: the median over heads with its interval."""
    at, sums, runs = result.tau(tau), result.blocks, sorted_controls(result, controls)
    drawn = [each for each in shown_in("layers", sums.stored) if _ways(each, View(sums, at))]
    quantities = chosen(drawn, scores)
    resample = Resampling(sums.windows)
    figure = picture(look, 3.5 * min(COLUMNS, len(quantities)), 1.0, "From layer to layer: what a typical head does")
    columns = panel_columns(figure, min(COLUMNS, len(quantities)), 2.0)
    rows = -(-len(quantities) // columns)
    wide = figure.get_figwidth() / columns
    high = max(1.75 * look.size / 9, min(1.85, 0.62 * wide))
    figure.body = high * rows + 0.35
    grid: Any = figure.subplots(rows, columns, squeeze=False, sharex=True)
    for axes in grid.flat[len(quantities) :]:
        axes.set_visible(False)
    ways: list[str] = []
    most = int((wide - 0.6) / (2.3 * points("small") / 72))
    for axes, each in zip(grid.flat, quantities, strict=False):
        table = by_readings(Numbers(sums, resample, at), each.name)
        ways += [] if each.read == "attention" else [str(way) for way in table["way"].values]
        shade_thirds(axes, sums)
        _panel(axes, each, table, [(kind, _of_run(each, run, at)) for kind, run in runs])
        layer_axis(axes, sums.layers, min(12, most))
        plain_axes(axes)
        axes.set_ylabel(balanced(each.label, high - 0.15))
    for axes in grid.flat[max(0, len(quantities) - columns) : len(quantities)]:
        axes.set_xlabel("layer")
        axes.tick_params(labelbottom=True)
    attention = [each for each in quantities if each.read == "attention"]
    read = any(way != AT_TAU for way in ways)  # legend and caption speak of what these scores have
    none = [none_handle()] if any(np.isfinite(each.none) for each in quantities) else []
    handles = [
        *([Line2D([], [], label=ATTENTION_ITSELF.label, **ATTENTION_ITSELF.style())] if attention else []),
        *way_handles(ways, any(each.read == "pairs" for each in quantities)), *control_handles(runs),
        *none, band_handle("95 % interval"), outline_handle("middle half of the heads, for the first line"),
        thirds_handle(),
    ]  # fmt: skip
    every = [each.label for each in quantities if each.read in ("order", "maps")]
    return finish(
        figure,
        run_caption(result, at),
        f"Lines: the median over a layer's heads; bands in their colour: 95 % intervals ({resample.how})."
        + (f" {BY_READING}" if read else "")
        + (f" The latter in: {'; '.join(every)}." if every else "")
        + " Outlined: the middle half of the heads, for the first line."
        + (" Grey and dashed: no effect." if none else "")
        + " Tinted: early and final thirds."
        + (f" Thin and grey: control runs, read as the first line is ({_patterns(runs)})." if runs else ""),
        panels=list(grid.flat)[: len(quantities)], handles=handles, names=[each.label for each in quantities],
    )  # fmt: skip


def _patterns(runs: Runs) -> str:
    """How the lines of control runs are drawn, in words."""
    kinds = {kind for kind, _ in runs}
    return "; ".join(f"{pattern}: {CONTROL_LABELS[kind]}" for kind, pattern in PATTERNS.items() if kind in kinds)


def _ways(quantity: Quantity, view: View) -> bool:
    return any(not quantity.lacking(view.by(way)) for way in quantity.ways(view.sums))


def _of_run(quantity: Quantity, run: Result, tau: float) -> Any:
    """The numbers of a control run by layer, read as the first line is; None where it cannot have them."""
    view = View(run.blocks, tau, reading=quantity.ways(run.blocks)[0])
    return None if quantity.lacking(view) else quantity.value(view)


def _panel(axes: Any, quantity: Quantity, table: xr.Dataset, runs: list[tuple[str, Any]]) -> None:
    layers = table["layer"].values.tolist()
    base_line(axes, quantity.none)
    for kind, values in runs:
        if values is not None:
            control_line(axes, layers, values, kind)
    first = table.isel(way=0)
    low, high = first["lower_quartile"].values, first["upper_quartile"].values
    lines = [ATTENTION_ITSELF if quantity.read == "attention" else WAYS[str(way)] for way in table["way"].values]
    outline(axes, layers, low, high, lines[0].colour)
    for place, line in enumerate(lines):
        over_layers(axes, table.isel(way=place), line.style() | {"markersize": 2.8, "linewidth": 1.2})
    values = table["value"].values
    if quantity.logarithmic and spread_widely(values[values > 0]):
        axes.set_yscale("log")
        by_logarithms(axes.yaxis)


@in_style
def focal_tokens(result: Result, tau: float | None = None, *, look: Look = SCREEN) -> Picture:
    """How many different focal tokens a layer's heads have, and how many they would have by chance."""
    at, sums = result.tau(tau), result.blocks
    numbers = Numbers(sums, Resampling(sums.windows), at)
    top = sums.readings[0]
    ways = [way for way in (None, top) if not named("focal_unique").lacking(numbers.view(way))]
    figure = picture(look, 5.1 * len(ways) + 0.4, 1.0, "Different focal tokens among the heads of a layer")
    columns = panel_columns(figure, len(ways), 2.6)
    rows = -(-len(ways) // columns)
    figure.body = rows * min(3.4, 0.75 * figure.get_figwidth() / columns)
    grid: Any = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)
    area = 110 * (look.size / 9) ** 2  # of a dot that stands for all texts, in square points
    handles: dict[str, Any] = {}
    for axes, way in zip(grid.flat, ways, strict=True):
        _focal_panel(axes, numbers, way, area)
        axes.set_title(_line(way).called(from_pairs=True))
        axes.set_ylabel(f"different focal tokens\nof {sums.heads} heads")
        handles |= {label: each for each, label in zip(*axes.get_legend_handles_labels(), strict=True)}
    for axes in grid[-1]:
        axes.set_xlabel("layer")
    grid[0, 0].set_ylim(0, sums.heads + 0.6)
    sizes = [
        Line2D([], [], marker="o", linestyle="", markerfacecolor="none", markeredgecolor="#000000",
               markersize=float(np.sqrt(area * share)), markeredgewidth=RING,
               label=f"so many in {100 * share:.0f} % of the texts")
        for share in (0.1, 0.5)
    ]  # fmt: skip
    return finish(
        figure,
        run_caption(result, at),
        "Rings: in how many texts a layer has so many. Filled bands: 95 % intervals of what was measured; outlined: of "
        "chance. By chance: within a text, tokens that occur equally often exchange their similar pairs, for each head "
        "by itself.",
        panels=list(grid.flat)[: len(ways)],
        handles=[
            *handles.values(),
            band_handle("95 % interval"),
            outline_handle("95 % interval of chance", BASE),
            *sizes,
            thirds_handle(),
        ],
    )


def _focal_panel(axes: Any, numbers: Numbers, way: str | None, area: float) -> None:
    sums, view, drawn = numbers.sums, numbers.view(way), _line(way)
    shade_thirds(axes, sums)
    counts = view.focal()[0].sum(0)[:, 0]  # (L, unique)
    shares = ratio(counts, counts.sum(-1, keepdims=True))
    for layer, line in zip(sums.layers, shares, strict=True):
        axes.scatter(
            np.full(len(line), layer), np.arange(len(line)), s=area * np.nan_to_num(line), facecolor="none",
            edgecolor=drawn.colour, linewidth=RING, alpha=0.7, zorder=1.2,
        )  # fmt: skip
    said = f"measured, {drawn.called(from_pairs=True)}: mean over texts"
    over_layers(axes, quantity(numbers, "focal_unique", reading=way), drawn.style(), said)
    over_layers(axes, quantity(numbers, "focal_null", reading=way), _CHANCE, "by chance", outlined=True)
    mixed = named("focal_mixed")
    if way is not None and not mixed.lacking(view):
        level = float(mixed.value(view, "model"))
        axes.axhline(level, color=BASE, linewidth=1.4, linestyle=(0, (1, 1.5)), zorder=2, label=_MIXED)
    layer_axis(axes, sums.layers)
    plain_axes(axes)


def _line(way: str | None) -> Line:
    return WAYS[AT_TAU if way is None else way]


RING = 0.6  # points: the edge of a dot that says in how many texts it was so
_MIXED = "as many heads drawn from all layers"
_CHANCE = {"color": BASE, "linestyle": (0, (4, 2)), "marker": "", "linewidth": 1.6}
