"""Stability: whether other texts would single out the same heads; and which heads stand out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import matplotlib
import numpy as np
from matplotlib.colors import LogNorm

from headscope.figures.colours import BASE, CONTROL
from headscope.figures.parts import run_caption, sorted_controls
from headscope.figures.style import Picture, by_logarithms, caption, picture, plain_axes
from headscope.findings.specialists import NOISE, ORDINARY, SPECIALIST, farthest
from headscope.measures.quantities import named

if TYPE_CHECKING:
    import pandas as pd

    from headscope.result.result import Result

KINDS = {  # how a head is drawn, by what is made of it
    ORDINARY: {"facecolor": "#c9c9c9", "edgecolor": "none"},
    NOISE: {"facecolor": "white", "edgecolor": "#9a9a9a"},
    SPECIALIST: {"facecolor": "#111111", "edgecolor": "none"},
}
GROUPS = "#7f7f7f"


def stability_figure(result: Result, tau: float | None = None) -> Picture:
    """Agreement of disjoint sets of texts, darker for larger ones; with groups, agreement between those."""
    at = result.tau(tau)
    table, groups = result.stability(tau=at), result.group_agreement(tau=at)
    names = list(dict.fromkeys(table["score"]))
    figure = picture(9.6, 0.44 * len(names) + 2.1, "Would other texts single out the same heads?")
    axes = figure.add_subplot()
    sizes = np.array(sorted(set(table["texts"])), dtype=float)
    norm = LogNorm(max(sizes.min(), 1), max(sizes.max(), sizes.min() + 1))
    shades = matplotlib.colormaps["viridis_r"]
    for place, name in enumerate(names):
        rows = table[table["score"] == name].sort_values("texts")
        axes.plot(rows["agreement"], [place] * len(rows), color="#dddddd", linewidth=1, zorder=1)
        last = rows.iloc[-1]
        axes.plot([last["low"], last["high"]], [place, place], color=shades(norm(last["texts"])), linewidth=2.4)
        axes.scatter(rows["agreement"], [place] * len(rows), c=rows["texts"], cmap=shades, norm=norm, s=34, zorder=3)
        own = groups[groups["score"] == name]
        axes.scatter(own["agreement"], [place + 0.3] * len(own), marker="|", color=GROUPS, s=34, linewidth=1.1)
    axes.set_yticks(range(len(names)), [named(name).label for name in names], fontsize=8)
    axes.invert_yaxis()
    axes.set_xlabel("agreement on the order of heads (rank correlation; 1: the same order)")
    plain_axes(axes)
    bar = figure.colorbar(matplotlib.cm.ScalarMappable(norm, shades), ax=axes, pad=0.02, aspect=30, shrink=0.8)
    bar.set_label("texts in each of two sets", fontsize=9)
    by_logarithms(bar.ax.yaxis)
    bar.ax.tick_params(labelsize=8, which="both")
    between = f" Small bars below: between two of the groups {', '.join(result.groups)}." if len(groups) else ""
    caption(
        figure,
        run_caption(result, at),
        "Dots: the median over random pairs of disjoint sets of texts; bars: the middle 95 % of it, for the largest "
        f"sets.{between}",
    )
    return figure


def specialists_figure(result: Result, tau: float | None = None, controls: Sequence[Result] = ()) -> Picture:
    """Every head by how far it stands out from the median head of its layer; those that certainly do are named."""
    table = result.specialists(tau=tau, controls=controls)
    names = list(dict.fromkeys(table["score"]))
    kinds = [kind for kind in dict.fromkeys(kind for kind, _ in sorted_controls(result, controls)) if kind in table]
    figure = picture(11.0, 0.5 * len(names) + 2.4, "Specialists and noise")
    axes = figure.add_subplot()
    axes.axvspan(-1, 1, color="#efefef", linewidth=0, zorder=0)
    axes.axvline(0, color=BASE, linewidth=1, zorder=1)
    for row, name in enumerate(names):
        own = table[table["score"] == name]
        _heads(axes, row, own, named(name).smallest)
        for kind in kinds[:1]:
            reach = float(own[kind].iloc[0]) / named(name).smallest
            for side in (-reach, reach):
                axes.plot([side, side], [row - 0.32, row + 0.32], color=CONTROL, linewidth=1.4, zorder=2)
        number = {what: int((own["what"] == what).sum()) for what in KINDS}
        most = farthest(own, 3)
        said = f"{number[SPECIALIST]} stand out, {number[ORDINARY]} do not, {number[NOISE]} unclear"
        axes.text(
            1.01, row, f"{said}\n{most}", transform=axes.get_yaxis_transform(), va="center", fontsize=7.5,
        )  # fmt: skip
    axes.set_xscale("symlog", linthresh=2, linscale=0.8)
    ticks = [-50, -20, -10, -5, -2, -1, 0, 1, 2, 5, 10, 20, 50]
    low, high = axes.get_xlim()
    axes.set_xticks([tick for tick in ticks if low <= tick <= high], [f"{t:g}" for t in ticks if low <= t <= high])
    axes.set_xticks([], minor=True)
    axes.set_yticks(range(len(names)), [named(name).label for name in names], fontsize=8)
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.set_xlabel("distance from the median head of the same layer, in differences that just matter")
    plain_axes(axes)
    beside = f" Grey bars: the farthest head of {kinds[0]} runs." if kinds else ""
    caption(
        figure,
        run_caption(result, result.tau(tau)),
        "Each dot is a head. Black: stands out by more than matters, at most 5 % of them by chance. Grey: certainly "
        "does not. Empty: the texts disagree too much to tell. At the right those that lie farthest above their "
        f"layer.{beside}",
    )
    return figure


def _heads(axes: Any, row: int, own: pd.DataFrame, smallest: float) -> None:
    """The heads of a model in one row, a little apart so that all are seen."""
    for place, (what, look) in enumerate(KINDS.items()):
        heads = own[own["what"] == what]
        apart = (np.arange(len(heads)) * 0.618 % 1 - 0.5) * 0.5
        axes.scatter(heads["out"] / smallest, row + apart, s=11, linewidth=0.6, zorder=2 + place, **look)
