"""How many heads show an effect: a typical head and a few heads can be told apart."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import matplotlib
import numpy as np
from matplotlib.colors import Normalize

from headscope.errors import HeadscopeError
from headscope.figures.cells import cells
from headscope.figures.colours import ATTENTION_ITSELF, BY_READING, WAYS
from headscope.figures.fonts import balanced, in_style, points, text_width
from headscope.figures.parts import hatch_missing, run_caption
from headscope.figures.style import EDGE, Picture, dressed, finish, place, placed_picture, whole_numbers
from headscope.findings.claims import CLAIMS
from headscope.findings.estimates import by_readings
from headscope.findings.numbers import SPREAD, Numbers
from headscope.findings.resampling import Resampling
from headscope.look import SCREEN, Look
from headscope.measures.derived import Array
from headscope.measures.quantities import named

if TYPE_CHECKING:
    from headscope.result.result import Result

SHADES = matplotlib.colormaps["GnBu"].resampled(64)
SMALLEST = 4.5  # points: where shares would have to be smaller, they are not written out
SCALE = 0.09  # inches: how high the scale is
PARTED = 0.1  # inches: between two blocks
BOUND_SPACE = "\u00a0"
BETWEEN = "#c4c4c4"  # lines between cells, which may have equal colours


@dataclass(frozen=True, slots=True)
class Strip:
    """One quantity that a claim rests on: the share of a layer's heads beyond the bound, in each way of reading."""

    title: str
    ways: tuple[str, ...]
    shares: Array  # (way, L)


@in_style
def heads_beyond(result: Result, tau: float | None = None, *, look: Look = SCREEN) -> Picture:
    """For each quantity that a claim rests on and each layer, the share of heads beyond the bound."""
    at, sums = result.tau(tau), result.blocks
    strips = list(_strips(result, at))
    if not strips:
        raise HeadscopeError("no claim about single heads can be had from this stack", "ask for another stack")
    page = _Page.made(look, strips)
    figure = placed_picture(look, page.width, page.high, "How many heads show it")
    axes_of = _blocks(figure, page, strips, len(sums.layers))
    last = axes_of[-1]
    last.tick_params(labelbottom=True)
    whole_numbers(last.xaxis, list(sums.layers), int(72 * page.wide / (3.2 * points("small"))))
    last.set_xlabel("layer")
    # One scale under all blocks and as wide as they are: it belongs to each.
    label = _scale_label(page.wide)
    scale = place(figure, page.left, (label.count("\n") + 1.75) * page.line + 0.03, page.wide, SCALE)
    image = last.images[0]
    dressed(figure.colorbar(image, cax=scale, orientation="horizontal"), label)
    return finish(
        figure,
        run_caption(result, at),
        "Per cent of a layer's heads whose own number lies beyond the bound of the claim, of those that have a "
        f"number. Hatched: no head has one. {BY_READING} Claims that compare heads (2), compare thirds of the model "
        "(3, 9) or count over a layer (5) have no such share.",
        panels=axes_of, names=[each.title for each in strips],
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Page:
    """Where the blocks stand on the figure, in inches: all rows have one height."""

    width: float
    left: float  # of the blocks: the names of their rows
    wide: float  # the blocks
    row: float
    titles: list[str]
    line: float  # of a title
    below: float  # the blocks: layers and the scale
    high: float

    @classmethod
    def made(cls, look: Look, strips: list[Strip]) -> _Page:
        width, row, line = look.inches(10.4), 0.24 * look.size / 9, 1.3 * points("medium") / 72
        left = max(text_width(way, points("small")) for each in strips for way in each.ways) + 0.14
        wide = width - left - 0.15
        titles = [_title(each.title, wide if look.letters else width - 0.15) for each in strips]
        below = (4.2 + _scale_label(wide).count("\n") + 1) * line + SCALE
        high = sum((title.count("\n") + 1) * line + len(each.ways) * row + PARTED
                   for each, title in zip(strips, titles, strict=True))  # fmt: skip
        return cls(width, left, wide, row, titles, line, below, below + high)


def _title(title: str, inches: float) -> str:
    """A title over as few lines as it takes, its bound on one line with the word before it."""
    before, _, bound = title.rpartition(" ")
    return balanced(f"{before}{BOUND_SPACE}{bound}", inches).replace(BOUND_SPACE, " ")


def _scale_label(inches: float) -> str:
    return balanced("% of the layer's heads beyond the bound", inches)


def _blocks(figure: Picture, page: _Page, strips: list[Strip], layers: int) -> list[Any]:
    """A block for each quantity, with lines between its cells, and shares written where there is room."""
    written = min(points("small"), 0.42 * 72 * page.wide / layers)
    found: list[Any] = []
    above = page.high
    for strip, title in zip(strips, page.titles, strict=True):
        rows = len(strip.ways)
        above -= (title.count("\n") + 1) * page.line + rows * page.row + PARTED
        axes = place(figure, page.left, above + PARTED / 2, page.wide, rows * page.row)
        cells(axes, 100 * strip.shares, cmap=SHADES, norm=Normalize(0, 100), aspect="auto")
        if found:
            axes.sharex(found[0])
        if not np.isfinite(strip.shares).all():
            hatch_missing(axes)
        from_edge = 0.0 if figure.look.letters else -(page.left - EDGE) / page.wide
        axes.set_title(title, loc="left", pad=2.5, x=from_edge, linespacing=1.1)
        axes.set_yticks(range(rows), strip.ways)
        axes.tick_params(length=0, labelbottom=False)
        lines: dict[str, Any] = {"color": BETWEEN, "linewidth": 0.4, "clip_on": False}
        axes.vlines(np.arange(layers + 1) - 0.5, -0.5, rows - 0.5, **lines)
        axes.hlines(np.arange(rows + 1) - 0.5, -0.5, layers - 0.5, **lines)
        for spine in axes.spines.values():
            spine.set_visible(False)
        if written >= SMALLEST:
            _write_shares(axes, strip.shares, written)
        found.append(axes)
    return found


def _write_shares(axes: Any, shares: Array, size: float) -> None:
    for way, layer in np.ndindex(shares.shape):
        share = shares[way, layer]
        if np.isfinite(share):
            ink = "white" if share > 0.65 else "black"
            axes.text(layer, way, f"{100 * share:.0f}", ha="center", va="center", fontsize=size, color=ink)


def _strips(result: Result, tau: float) -> Iterator[Strip]:
    """The quantities with a bound that claims rest on, statistic or control, each once, under its claim."""
    sums, seen = result.blocks, set[str]()
    resample = Resampling(sums.windows, draws=0)
    for claim in CLAIMS:
        tests = [each for each in (*claim.statistics, *claim.controls) if not each.run and each.number.where != SPREAD]
        for name in dict.fromkeys(each.number.quantity for each in tests):
            quantity = named(name)
            if name in seen or not np.isfinite(quantity.bound) or quantity.of_layers:
                continue
            seen.add(name)
            numbers = Numbers(sums, resample, tau)
            if all(quantity.lacking(numbers.view(way)) for way in quantity.ways(sums)):
                continue
            table = by_readings(numbers, name)
            ways = [WAYS[str(way)].called(quantity.read == "pairs") for way in table["way"].values]
            shares = np.where(table["heads"].values > 0, table["beyond"].values, np.nan)
            title = f"{claim.key}  {quantity.label}: beyond {quantity.bound:g}"
            yield Strip(title, (ATTENTION_ITSELF.label,) if quantity.read == "attention" else tuple(ways), shares)
