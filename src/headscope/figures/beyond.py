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
from headscope.figures.colours import BY_READING, WAYS
from headscope.figures.fonts import in_style, points, text_width, wrapped
from headscope.figures.parts import hatch_missing, run_caption
from headscope.figures.style import Picture, dressed, finish, picture, whole_numbers
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
    row = 0.24 * look.size / 9
    figure = picture(look, 10.4, 1.0, "How many heads show it")
    width = figure.get_figwidth()
    labels = max(text_width(way, points("small")) for each in strips for way in each.ways)
    titles = [wrapped(each.title, width - labels - 0.9, "medium") for each in strips]
    lines = [title.count("\n") + 1 for title in titles]
    heights = [len(each.ways) + 1.1 * number for each, number in zip(strips, lines, strict=True)]
    figure.body = sum(heights) * row + 0.45
    column: Any = figure.subplots(len(strips), 1, squeeze=False, sharex=True, height_ratios=heights)[:, 0]
    pitch = 72 * (width - labels - 0.9) / len(sums.layers)  # points from one layer to the next
    written = min(points("small"), 0.42 * pitch)
    for axes, strip, title in zip(column, strips, titles, strict=True):
        image = cells(axes, 100 * strip.shares, cmap=SHADES, norm=Normalize(0, 100), aspect="auto")
        if not np.isfinite(strip.shares).all():
            hatch_missing(axes)
        axes.set_title(title, loc="left", pad=3)
        axes.set_yticks(range(len(strip.ways)), strip.ways)
        axes.tick_params(length=0)
        for spine in axes.spines.values():
            spine.set_visible(False)
        if written >= SMALLEST:
            for way, layer in np.ndindex(strip.shares.shape):
                share = strip.shares[way, layer]
                if np.isfinite(share):
                    ink = "white" if share > 0.65 else "black"
                    axes.text(layer, way, f"{100 * share:.0f}", ha="center", va="center", fontsize=written, color=ink)
    whole_numbers(column[-1].xaxis, list(sums.layers), int(72 * width / (3.2 * points("small"))))
    column[-1].set_xlabel("layer")
    bar = figure.colorbar(
        image, ax=list(column), shrink=min(1.0, 2.5 / figure.body), pad=0.01, aspect=25, fraction=0.03
    )
    dressed(bar, "% of the layer's heads beyond the bound")
    return finish(
        figure,
        run_caption(result, at),
        "Per cent of a layer's heads whose own number lies beyond the bound of the claim, of those that have a "
        f"number. Hatched: no head has one. {BY_READING} Claims that compare heads (2), compare thirds of the model "
        "(3, 9) or count over a layer (5) have no such share.",
        panels=list(column), names=[each.title for each in strips],
    )  # fmt: skip


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
            ways = [WAYS[str(way)].label for way in table["way"].values]
            shares = np.where(table["heads"].values > 0, table["beyond"].values, np.nan)
            title = f"{claim.key}  {quantity.label}: beyond {quantity.bound:g}"
            yield Strip(title, ("attention",) if quantity.read == "attention" else tuple(ways), shares)
