"""The findings at a glance: each number with its interval, in every reading, against no effect and the bound."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from headscope.figures.colours import BASE, CONTROL, SHORT_OF_BOUND, STATE_INKS, VERDICT_INKS, WAYS
from headscope.figures.parts import run_caption
from headscope.figures.style import Picture, by_logarithms, caption, picture, spread_widely
from headscope.findings.checks import Check
from headscope.findings.finding import Finding, Findings
from headscope.findings.showing import KINDS, LEGEND, mark_of, shown, state_of

if TYPE_CHECKING:
    from headscope.result.result import Result

HEIGHTS = {"": 0.45, "dot": -0.05, "cosine": -0.45}  # where in a claim's line its readings stand
CONTROLS_AT = (-0.95, -0.7)


def findings_figure(result: Result, findings: Findings) -> Picture:
    """A line for each statistic on its own scale: number and interval, the readings under it; marks; the verdict."""
    lines = [(finding, each) for finding in findings for each in finding.statistics]
    figure = picture(11.6, 0.66 * len(lines) + 2.2, "What the paper says, and what was measured")
    grid: Any = figure.subplots(len(lines), 3, squeeze=False, width_ratios=[5.2, 3.4, 1.9])
    for row, (finding, statistic) in enumerate(lines):
        _scale(grid[row, 0], finding, statistic)
        first = statistic is finding.statistics[0]
        _marks(grid[row, 1], finding if first else None, headings=row == 0)
        _verdict(grid[row, 2], finding, statistic, said=first)
    runs = any(finding.runs for finding in findings)
    caption(
        figure,
        run_caption(result, findings.tau),
        "Bars: the median over heads with its interval, "
        f"{findings.interval}. In the verdict's colour: as the "
        "paper reads S; below it blue: by the top pairs of "
        "dot, orange: by cosine. Thin line: no effect. Grey "
        "behind: short of the smallest effect that matters. At "
        "the right the share of heads beyond it, and the "
        "number of pairs pooled over heads." + (" Small grey bars: control runs." if runs else ""),
        f"Marks: {LEGEND}. " + "; ".join(f"{kind.heading}: {kind.meaning}" for kind in KINDS) + ".",
    )
    return figure


def _scale(axes: Any, finding: Finding, statistic: Check) -> None:
    """The number, the readings and the control runs on a scale of their own."""
    several = len(finding.statistics) > 1
    name = f"{finding.key}  {finding.claim}" + (f":\n{statistic.label}" if several else "")
    axes.set_yticks([0], [name], fontsize=8)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.tick_params(axis="x", labelsize=7, length=2, pad=1)
    axes.tick_params(axis="y", length=0)
    axes.set_ylim(-1, 1)
    others = [each for each in finding.controls if _same_scale(each, statistic)]
    runs = [run.value for run in finding.runs if run.statistic == statistic.label and math.isfinite(run.value)]
    numbers = [statistic.none, statistic.bound, *runs]
    numbers += [number for each in (statistic, *others) for number in (each.value, each.low, each.high)]
    known = np.array([number for number in numbers if math.isfinite(number)])
    if statistic.none == 1.0 and spread_widely(known):
        axes.set_xscale("log")
        by_logarithms(axes.xaxis)
        low, high = known.min() / 1.15, known.max() * 1.15
    else:
        room = 0.08 * (known.max() - known.min())
        low, high = known.min() - room, known.max() + room
    axes.set_xlim(low, high)
    axes.axvspan(low, statistic.bound, color=SHORT_OF_BOUND, linewidth=0, zorder=0)
    axes.axvline(statistic.none, color=BASE, linewidth=1)
    for value in runs:
        axes.plot([value, value], CONTROLS_AT, color=CONTROL, linewidth=1.6)
    for each in others:
        line = WAYS[str(each.reading)]
        _bar(axes, each, HEIGHTS[str(each.reading)], line.colour, line.marker, size=4, width=1.6)
    if math.isnan(statistic.value):
        axes.text(0.5, 0.5, statistic.why, transform=axes.transAxes, ha="center", va="center", fontsize=8, color=BASE)
    else:
        look = VERDICT_INKS[finding.verdict]
        _bar(axes, statistic, HEIGHTS[""], look.ink, look.marker, size=7, width=3)


def _same_scale(control: Check, statistic: Check) -> bool:
    """Whether a control is the statistic itself in another reading."""
    return control.reading in HEIGHTS and not control.run and control.label.startswith(_stem(control, statistic))


def _stem(control: Check, statistic: Check) -> str:
    return statistic.label if " " in control.name else ""


def _bar(axes: Any, check: Check, y: float, ink: str, marker: str, *, size: float, width: float) -> None:
    if math.isfinite(check.low):
        axes.plot([check.low, check.high], [y, y], color=ink, linewidth=width, solid_capstyle="butt")
    if math.isfinite(check.value):
        axes.plot(check.value, y, marker=marker, color=ink, markersize=size, markeredgecolor="white")


def _marks(axes: Any, finding: Finding | None, *, headings: bool) -> None:
    """What became of the statistic and of each kind of control."""
    axes.set(xlim=(0, len(KINDS)), ylim=(0, 1))
    axes.axis("off")
    for place, kind in enumerate(KINDS):
        if headings:
            axes.text(place + 0.35, 1.1, kind.heading, rotation=45, fontsize=8, ha="left", va="bottom")
        if finding is not None:
            axes.text(
                place + 0.5, 0.5, mark_of(finding, kind), fontsize=11, ha="center", va="center",
                color=STATE_INKS.get(state_of(finding, kind), BASE),
            )  # fmt: skip


def _verdict(axes: Any, finding: Finding, statistic: Check, *, said: bool) -> None:
    axes.axis("off")
    look = VERDICT_INKS[finding.verdict]
    if said:
        axes.text(0, 0.72, f"{look.sign} {finding.verdict}", fontsize=9, va="center", color=look.ink, fontweight="bold")
    own = shown(statistic, finding.digits)
    axes.text(0, 0.3, own.number, fontsize=8, va="center")
    beside = [f"{own.heads} of the heads"] * (own.heads != "–") + [f"pooled {own.pooled}"] * (own.pooled != "–")
    axes.text(0, -0.08, "; ".join(beside), fontsize=7, va="center", color="#555555")
