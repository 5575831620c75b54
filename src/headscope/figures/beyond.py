"""How many heads show an effect: a typical head and a few heads can be told apart."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from headscope.errors import HeadscopeError
from headscope.figures.colours import BY_READING, WAYS
from headscope.figures.parts import run_caption
from headscope.figures.style import Picture, caption, picture, scale_bar
from headscope.findings.claims import CLAIMS
from headscope.findings.estimates import by_readings
from headscope.findings.numbers import SPREAD, Numbers
from headscope.findings.resampling import Resampling
from headscope.measures.derived import Array
from headscope.measures.quantities import named

if TYPE_CHECKING:
    from headscope.result.result import Result

SHADES = "GnBu"
FEW_LAYERS = 24  # with more, the shares are not written out


@dataclass(frozen=True, slots=True)
class Strip:
    """One quantity that a claim rests on: the share of a layer's heads beyond the bound, in each way of reading."""

    title: str
    ways: tuple[str, ...]
    shares: Array  # (way, L)


def heads_beyond(result: Result, tau: float | None = None) -> Picture:
    """For each quantity that a claim rests on and each layer, the share of heads beyond the bound."""
    at, sums = result.tau(tau), result.blocks
    strips = list(_strips(result, at))
    if not strips:
        raise HeadscopeError("no claim about single heads can be had from this stack", "ask for another stack")
    figure = picture(10.4, sum(0.24 * len(each.ways) + 0.42 for each in strips) + 1.5, "How many heads show it")
    column: Any = figure.subplots(
        len(strips), 1, squeeze=False, sharex=True, height_ratios=[len(each.ways) + 0.8 for each in strips]
    )[:, 0]
    for axes, strip in zip(column, strips, strict=True):
        image = axes.imshow(100 * strip.shares, cmap=SHADES, vmin=0, vmax=100, aspect="auto", interpolation="nearest")
        axes.set_facecolor("#dddddd")
        axes.set_title(strip.title, fontsize=9, loc="left", pad=3)
        axes.set_yticks(range(len(strip.ways)), strip.ways)
        axes.tick_params(labelsize=7.5, length=0)
        for spine in axes.spines.values():
            spine.set_visible(False)
        if len(sums.layers) <= FEW_LAYERS:
            for row, column_, share in ((r, c, strip.shares[r, c]) for r, c in np.ndindex(strip.shares.shape)):
                if np.isfinite(share):
                    ink = "white" if share > 0.65 else "black"
                    axes.text(column_, row, f"{100 * share:.0f}", ha="center", va="center", fontsize=7, color=ink)
    step = max(1, -(-len(sums.layers) // FEW_LAYERS))
    column[-1].set_xticks(range(0, len(sums.layers), step), [str(layer) for layer in sums.layers[::step]])
    column[-1].set_xlabel("layer", fontsize=9)
    scale_bar(figure, image, list(column), "per cent of the layer's heads beyond the bound")
    caption(
        figure,
        run_caption(result, at),
        "Per cent of a layer's heads whose own number lies beyond the bound of the claim, of those that have a "
        f"number. Grey: no head has one. {BY_READING} Claims that compare heads (2), compare thirds of the model (3, "
        "9) or count over a layer (5) have no such share.",
        panels=[each.title for each in strips],
    )
    return figure


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
