"""Stability: whether other texts would single out the same heads; and which heads stand out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import matplotlib
import numpy as np
from matplotlib.colors import LogNorm
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from headscope.figures.colours import BASE, CONTROL, TOO_SMALL
from headscope.figures.fonts import balanced, in_style
from headscope.figures.parts import run_caption, sorted_controls, upright_handle
from headscope.figures.style import Picture, colour_bar, finish_panel, inches_wide, one_panel, plain_axes
from headscope.findings.specialists import NOISE, ORDINARY, SPECIALIST, farthest
from headscope.look import SCREEN, Look
from headscope.measures.quantities import named

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

    from headscope.result.result import Result

KINDS = {  # how a head is drawn, by what is made of it
    ORDINARY: {"facecolor": "#b4b4b4", "edgecolor": "none"},
    NOISE: {"facecolor": "white", "edgecolor": "#8c8c8c"},
    SPECIALIST: {"facecolor": "#111111", "edgecolor": "none"},
}
LABELS = {ORDINARY: "certainly does not stand out", NOISE: "these texts cannot tell", SPECIALIST: "stands out"}
GROUPS = "#d55e00"
TICKS = (-50, -20, -10, -5, -2, -1, 0, 1, 2, 5, 10, 20, 50)
# What stands at the right of the specialists, for the caption; the heads that lie farthest above follow.
IN_WORDS = " At the right"
IN_SHORT = (
    " At the right how many heads stand out, how many do not, of how many these texts cannot tell, after a plus how "
    "many have no number; below,"
)
WORDY = 8.0  # inches: from this width on, counts are written out


@in_style
def stability_figure(
    result: Result, tau: float | None = None, *, look: Look = SCREEN, ax: Axes | None = None
) -> Picture | Axes:
    """Agreement of disjoint sets of texts, darker for larger ones; with groups, agreement between those."""
    at = result.tau(tau)
    table, groups = result.stability(tau=at), result.group_agreement(tau=at)
    names = list(dict.fromkeys(table["score"]))
    title = "Would other texts single out the same heads?"
    figure, axes = one_panel(look, 9.6, (0.36 * len(names) + 0.6) * look.size / 9, title, ax)
    sizes = np.array(sorted(set(table["texts"])), dtype=float)
    norm = LogNorm(max(sizes.min(), 1), max(sizes.max(), sizes.min() + 1))
    shades = matplotlib.colormaps["viridis_r"].resampled(64)
    for place, name in enumerate(names):
        rows = table[table["score"] == name].sort_values("texts")
        axes.plot(rows["agreement"], [place] * len(rows), color="#dddddd", linewidth=1, zorder=1)
        last = rows.iloc[-1]
        axes.plot([last["low"], last["high"]], [place, place], color=shades(norm(last["texts"])), linewidth=2.4)
        axes.scatter(rows["agreement"], [place] * len(rows), c=rows["texts"], cmap=shades, norm=norm, s=26, zorder=3)
        own = groups[groups["score"] == name]
        axes.scatter(own["agreement"], [place + 0.3] * len(own), marker="|", color=GROUPS, s=30, linewidth=1.1)
    _score_axis(axes, names)
    label = "agreement on the order of heads (rank correlation; 1: the same order)"
    axes.set_xlabel(balanced(label, 0.55 * inches_wide(axes)))
    plain_axes(axes)
    bar = colour_bar(axes, matplotlib.cm.ScalarMappable(norm, shades), "texts in each of two sets")
    bar.set_ticks(sizes, labels=[f"{size:g}" for size in sizes])  # each about twice as large as the one before
    bar.ax.minorticks_off()
    between = f" Small bars below: between two of the groups {', '.join(result.groups)}." if len(groups) else ""
    handles = [
        Line2D(
            [],
            [],
            marker="o",
            linestyle="",
            markerfacecolor="none",
            markeredgecolor="#333333",
            markersize=5,
            label="median over pairs of sets; its colour: their size",
        ),
        Line2D([], [], color=shades(1.0), linewidth=2.4, label="middle 95 %, for the largest sets"),
    ]
    if len(groups):
        handles.append(Line2D([], [], marker="|", linestyle="", color=GROUPS, label="between two groups of texts"))
    return finish_panel(
        figure, axes, look, title,
        run_caption(result, at),
        "Dots: the median over random pairs of disjoint sets of texts; bars: the middle 95 % of it, for the largest "
        f"sets.{between}",
        handles=handles,
    )  # fmt: skip


def _score_axis(axes: Any, names: Sequence[str]) -> None:
    """Scores below each other, the first at the top."""
    across = 0.34 * inches_wide(axes)
    axes.set_yticks(range(len(names)), [balanced(named(name).label, across, "small") for name in names])
    axes.set_ylim(len(names) - 0.5, -0.5)


@in_style
def specialists_figure(
    result: Result,
    tau: float | None = None,
    controls: Sequence[Result] = (),
    *,
    look: Look = SCREEN,
    ax: Axes | None = None,
) -> Picture | Axes:
    """Every head by how far it stands out from the median head of its layer; those that certainly do are named."""
    table = result.specialists(tau=tau, controls=controls)
    names = list(dict.fromkeys(table["score"]))
    kinds = [kind for kind in dict.fromkeys(kind for kind, _ in sorted_controls(result, controls)) if kind in table]
    title = "Specialists: heads that stand out"
    figure, axes = one_panel(look, 11.0, (0.5 * len(names) + 0.6) * look.size / 9, title, ax)
    wide = inches_wide(axes) >= WORDY * look.size / 9
    axes.axvspan(-1, 1, color=TOO_SMALL, linewidth=0, zorder=0)
    axes.axvline(0, color=BASE, linewidth=1, zorder=1)
    dot = 11 if wide else 4
    for row, name in enumerate(names):
        own = table[table["score"] == name]
        _heads(axes, row, own, named(name).smallest, dot)
        for kind in kinds[:1]:
            reach = float(own[kind].iloc[0]) / named(name).smallest
            for side in (-reach, reach):
                axes.plot([side, side], [row - 0.32, row + 0.32], color=CONTROL, linewidth=1.4, zorder=2)
        number = {what: int((own["what"] == what).sum()) for what in KINDS}
        said = _counts(number, len(own), wide)
        axes.text(
            1.01, row, f"{said}\n{farthest(own, 3 if wide else 2)}", transform=axes.get_yaxis_transform(), va="center",
            fontsize="small",
        )  # fmt: skip
    axes.set_xscale("symlog", linthresh=2, linscale=0.8)
    low, high = axes.get_xlim()
    ticks = [tick for tick in (TICKS if wide else TICKS[::2]) if low <= tick <= high]
    axes.set_xticks(ticks, [f"{tick:g}".replace("-", "−") for tick in ticks])
    axes.set_xticks([], minor=True)
    _score_axis(axes, names)
    label = "distance from the median head of the same layer, in smallest differences that matter"
    axes.set_xlabel(balanced(label, 0.5 * inches_wide(axes)))
    plain_axes(axes)
    beside = f" Grey bars: the farthest head of {kinds[0]} runs." if kinds else ""
    margin = IN_WORDS if wide else IN_SHORT
    handles: list[Any] = [
        Line2D([], [], marker="o", linestyle="", markersize=np.sqrt(dot), markerfacecolor=look_["facecolor"],
               markeredgecolor=look_["edgecolor"], markeredgewidth=0.6, label=LABELS[what])
        for what, look_ in KINDS.items()
    ]  # fmt: skip
    handles.append(upright_handle("the median head of the layer", BASE, 1))
    handles.append(Patch(color=TOO_SMALL, linewidth=0, label="too small to matter"))
    if kinds:
        handles.append(upright_handle(f"farthest head of {kinds[0]} runs", CONTROL, 1.4))
    return finish_panel(
        figure, axes, look, title,
        run_caption(result, result.tau(tau)),
        "Each dot is a head. Black: stands out by enough to matter, at most 5 % of them by chance. Grey: certainly "
        f"does not. Empty: these texts cannot tell, they disagree too much.{margin} those that lie "
        f"farthest above their layer: L6H10 is head 10 of layer 6.{beside}",
        handles=handles,
    )  # fmt: skip


def _counts(number: dict[str, int], heads: int, wide: bool) -> str:
    """How many heads there are of each kind, and how many have no number, so that all heads are accounted for.

    >>> _counts({SPECIALIST: 3, ORDINARY: 100, NOISE: 40}, 144, wide=False)
    '3 · 100 · 40 + 1'
    """
    out, plain, open_ = number[SPECIALIST], number[ORDINARY], number[NOISE]
    none = heads - out - plain - open_
    if not wide:
        return f"{out} · {plain} · {open_}" + f" + {none}" * bool(none)
    said = f"{out} stand out, {plain} do not,\nof {open_} these texts cannot tell"
    return said + f", {none} without number" * bool(none)


def _heads(axes: Any, row: int, own: pd.DataFrame, smallest: float, dot: float) -> None:
    """The heads of a model in one row, a little apart so that all are seen."""
    for place, (what, look) in enumerate(KINDS.items()):
        heads = own[own["what"] == what]
        apart = (np.arange(len(heads)) * 0.618 % 1 - 0.5) * 0.5
        axes.scatter(heads["out"] / smallest, row + apart, s=dot, linewidth=0.6, zorder=2 + place, **look)
