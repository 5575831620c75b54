"""Thresholds: how many pairs and tokens pass at each, and which findings depend on the choice."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import matplotlib
import numpy as np

from headscope.choices import THRESHOLDS
from headscope.figures.parts import run_caption
from headscope.figures.style import (
    BASE,
    Picture,
    by_logarithms,
    caption,
    line_style,
    picture,
    plain_axes,
    spread_widely,
)
from headscope.findings.claims import CLAIMS
from headscope.findings.sensitivity import sensitivity
from headscope.measures.derived import ratio

if TYPE_CHECKING:
    from headscope.result.result import Result

VERDICT_MARKERS = {
    "holds": ("o", "full"),
    "does not hold": ("X", "full"),
    "open": ("o", "none"),
    "no verdict": ("", "none"),
}

OTHERWISE = {"1a": "1a  Stops among attended tokens", "1b": "1b  Closing tokens among attended tokens"}


def threshold_choice(result: Result) -> Picture:
    """What is left at each threshold: similar pairs over τ, high-attention tokens over θ, a line for each layer."""
    sums = result.blocks
    figure = picture(9.6, 3.9, "The choice of thresholds")
    left, right = figure.subplots(1, 2)
    levels = sums.pairs.sum((0, 3, 4)).astype(np.float64)  # (L, level)
    reached = ratio(np.cumsum(levels[:, ::-1], axis=1)[:, ::-1], levels.sum(1, keepdims=True))  # (L, level)
    tokens = sums.stored["tokens"].sum() * sums.heads
    attended = sums.stored["attended"].sum((0, 2, 4)) / max(tokens, 1)  # (L, θ)
    shades = matplotlib.colormaps["viridis"](np.linspace(0, 0.9, len(sums.layers)))
    for place, layer in enumerate(sums.layers):
        named = f"layer {layer}" if place in (0, len(sums.layers) // 2, len(sums.layers) - 1) else None
        style = {"color": shades[place], "linewidth": 1.2, "linestyle": ("-", "--", "-.")[place % 3], "label": named}
        left.plot(THRESHOLDS, reached[place, 2:], **style)
        right.plot(THRESHOLDS, attended[place], **style)
    for axes, label, own, what in (
        (left, "τ", result.settings["tau"], "share of pairs with a level of at least τ"),
        (right, "θ", result.settings["theta"], "share of tokens that receive more than θ"),
    ):
        axes.axvline(own, color=BASE, linestyle=(0, (4, 2)), linewidth=1)
        axes.set(xlabel=label, ylabel=what, yscale="log")
        by_logarithms(axes.yaxis)
        plain_axes(axes)
    left.legend(fontsize=8, frameon=False)
    caption(
        figure, f"{run_caption(result)}; a line for each layer, pooled over its heads; dashed: the run's own choice"
    )
    return figure


def sensitivity_figure(result: Result) -> Picture:
    """Every finding over the threshold that it depends on, with its interval and verdict."""
    swept = sensitivity(result, draws=400)
    claims = [claim for claim in CLAIMS if claim.thresholds]
    columns = 4
    rows = -(-len(claims) // columns)
    figure = picture(11.4, 2.4 * rows + 0.9, "Findings at other thresholds")
    grid: Any = figure.subplots(rows, columns, squeeze=False)
    for axes in grid.flat[len(claims) :]:
        axes.set_visible(False)
    style = line_style(0)
    for axes, claim in zip(grid.flat, claims, strict=False):
        row = swept.sel(claim=claim.key)
        at = row["threshold"].values
        axes.axhline(claim.bound, color=BASE, linewidth=1, linestyle=(0, (4, 2)))
        axes.fill_between(at, row["low"].values, row["high"].values, color=style["color"], alpha=0.22, linewidth=0)
        axes.plot(at, row["value"].values, color=style["color"], linewidth=1.2)
        for x, y, verdict in zip(at, row["value"].values, row["verdict"].values, strict=True):
            marker, fill = VERDICT_MARKERS[str(verdict)]
            if marker and np.isfinite(y):
                axes.plot(x, y, marker=marker, fillstyle=fill, color=style["color"], markersize=5)
        if claim.none == 1.0 and spread_widely(row["value"].values[np.isfinite(row["value"].values)]):
            axes.set_yscale("log")
            by_logarithms(axes.yaxis)
        own = result.settings["tau" if claim.thresholds == "tau" else "theta"]
        axes.axvline(own, color=BASE, linewidth=0.8, linestyle=":")
        axes.set_xlabel("τ" if claim.thresholds == "tau" else "θ")
        axes.set_title(OTHERWISE.get(claim.key) or f"{claim.key}  {claim.paper}", fontsize=8)
        plain_axes(axes)
    caption(
        figure,
        run_caption(result),
        "Filled dot: holds. Cross: does not hold. Empty dot: open. Dashed: the smallest effect that matters. Dotted: "
        "the run's own threshold. 1a and 1b: share of stops (closing tokens) among attended tokens over that of all.",
    )
    return figure
