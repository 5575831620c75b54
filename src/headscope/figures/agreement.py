"""Stability: whether other texts would single out the same heads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from headscope.figures.parts import run_caption
from headscope.figures.style import LINES, Picture, by_logarithms, caption, line_style, picture, plain_axes
from headscope.findings.specialists import NOISE, ORDINARY, SPECIALIST, farthest
from headscope.findings.stability import by_groups, stability
from headscope.measures.quantities import QUANTITIES

if TYPE_CHECKING:
    from headscope.result.result import Result

LABELS = {"focal_token": "most frequent focal token (same)"}


def stability_figure(result: Result, tau: float | None = None) -> Picture:
    """Agreement of disjoint sets of texts against their size; with groups, agreement between those."""
    at = result.tau(tau)
    table, groups = stability(result, tau=at), by_groups(result, tau=at)
    names = list(dict.fromkeys(table["score"]))
    figure = picture(10.8 if len(groups) else 9.2, 4.4, "Would other texts single out the same heads?")
    axes: Any = figure.subplots(1, 2, width_ratios=[3, 2]) if len(groups) else [figure.add_subplot()]
    for place, name in enumerate(names):
        rows = table[table["score"] == name]
        style = line_style(place)
        if place >= len(LINES):  # more scores than styles: the rest open
            style["fillstyle"] = "none"
        axes[0].fill_between(rows["texts"], rows["low"], rows["high"], color=style["color"], alpha=0.1, linewidth=0)
        axes[0].plot(rows["texts"], rows["agreement"], label=_label(name), **style)
    axes[0].set(xscale="log", xlabel="texts in each of two sets", ylabel="agreement over heads", ylim=(None, 1.02))
    plain_axes(axes[0])
    by_logarithms(axes[0].xaxis)
    if not len(groups):  # with groups, the labels of the other panel are the legend
        figure.legend(fontsize=8, frameon=False, loc="outside right center")
    if len(groups):
        for place, name in enumerate(names):
            rows = groups[groups["score"] == name]
            y = place + np.linspace(-0.25, 0.25, len(rows))
            error = np.abs(np.stack([rows["agreement"] - rows["low"], rows["high"] - rows["agreement"]]))
            colour, _, marker = LINES[place % len(LINES)]
            axes[1].errorbar(rows["agreement"], y, xerr=error, fmt=marker, color=colour, markersize=4, linewidth=0.8)
        axes[1].set_yticks(range(len(names)), [_label(name) for name in names], fontsize=7)
        axes[1].invert_yaxis()
        axes[1].set_xlabel("agreement between two groups of texts")
        plain_axes(axes[1])
    shown = f"; groups: {', '.join(result.groups)}" if len(groups) else ""
    caption(
        figure,
        f"{run_caption(result, at)}{shown}",
        "Spearman's rank correlation over heads, median and middle 95 % of random splits; for focal tokens the share "
        "of heads with the same one.",
    )
    return figure


def specialists_figure(result: Result, tau: float | None = None) -> Picture:
    """How many heads are specialists, ordinary or noise, by score, and which ones stand out most."""
    table = result.specialists(tau=tau)
    names = list(dict.fromkeys(table["score"]))
    figure = picture(9.0, 0.42 * len(names) + 1.9, "Specialists and noise")
    axes = figure.add_subplot()
    kinds = ((SPECIALIST, LINES[0][0], ""), (ORDINARY, "#d9d9d9", ""), (NOISE, "#ffffff", "////"))
    for row, name in enumerate(names):
        own = table[table["score"] == name]
        begin = 0
        for kind, colour, hatch in kinds:
            number = int((own["what"] == kind).sum())
            axes.barh(row, number, left=begin, color=colour, hatch=hatch, edgecolor="#777777", linewidth=0.6)
            if number:
                ink = "white" if kind == SPECIALIST else "black"
                box = {"facecolor": "white", "edgecolor": "none", "pad": 1} if hatch else None
                axes.text(
                    begin + number / 2, row, str(number), ha="center", va="center", fontsize=8, color=ink, bbox=box
                )
            begin += number
        axes.text(len(own) * 1.01, row, farthest(own, 3), va="center", fontsize=8)
    axes.set_yticks(range(len(names)), [_label(name) for name in names], fontsize=8)
    axes.invert_yaxis()
    axes.set_xlabel("number of heads; at the right those that lie farthest above the typical one")
    plain_axes(axes)
    caption(
        figure,
        f"{run_caption(result, result.tau(tau))}",
        "Blue: stands out from the typical head by more than matters, at most 5 % of them by chance. Grey: certainly "
        "does not. Hatched: the texts disagree too much to tell.",
    )
    return figure


def _label(name: str) -> str:
    return LABELS.get(name) or QUANTITIES[name].label
