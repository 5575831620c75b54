"""The findings at a glance: each number with its interval, against no effect and the smallest that matters."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from headscope.figures.parts import run_caption
from headscope.figures.style import BASE, LINES, Picture, by_logarithms, caption, picture, spread_widely
from headscope.findings.verdicts import Finding, Findings

if TYPE_CHECKING:
    from headscope.result.result import Result

INK = {"holds": LINES[0][0], "does not hold": LINES[1][0], "open": "#000000", "no verdict": BASE}
MARKS = {"holds": "o", "does not hold": "X", "open": "s", "no verdict": "s"}


def findings_figure(result: Result, findings: Findings) -> Picture:
    """A line for each claim, each on its own scale."""
    figure = picture(9.6, 0.56 * len(findings) + 1.3, "What the paper says, and what was measured")
    grid: Any = figure.subplots(len(findings), 1, squeeze=False)[:, 0]
    for axes, finding in zip(grid, findings, strict=True):
        _line(axes, finding)
    untrained = any(finding.untrained and finding.untrained.values for finding in findings)
    caption(
        figure,
        f"{run_caption(result, findings.tau)}",
        f"Bars: intervals, {findings.interval}.",
        "Thin line: no effect. Grey: short of the smallest effect that matters. Round: holds; cross: does not hold; "
        "square: open, or no verdict." + (" Small bars: untrained models." if untrained else ""),
    )
    return figure


def _line(axes: Any, finding: Finding) -> None:
    axes.set_yticks([0], [f"{finding.key}  {finding.claim}"], fontsize=8)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.tick_params(axis="x", labelsize=7, length=2, pad=1)
    axes.tick_params(axis="y", length=0)
    axes.set_ylim(-1, 1)
    numbers = [finding.none, finding.bound, finding.value, finding.low, finding.high]
    numbers += list(finding.untrained.values) if finding.untrained else []
    known = np.array([number for number in numbers if math.isfinite(number)])
    if finding.none == 1.0 and spread_widely(known):
        axes.set_xscale("log")
        by_logarithms(axes.xaxis)
        low, high = known.min() / 1.15, known.max() * 1.15
    else:
        room = 0.08 * (known.max() - known.min())
        low, high = known.min() - room, known.max() + room
    axes.set_xlim(low, high)
    axes.axvspan(low, finding.bound, color="#ededed", linewidth=0, zorder=0)
    axes.axvline(finding.none, color=BASE, linewidth=1)
    for value in finding.untrained.values if finding.untrained else ():
        axes.plot([value, value], [-0.75, -0.2], color="#444444", linewidth=1.4)
    if math.isnan(finding.value):
        axes.text(0.5, 0.5, finding.reason, transform=axes.transAxes, ha="center", va="center", fontsize=8, color=BASE)
    else:
        ink = INK[finding.verdict]
        if math.isfinite(finding.low):
            axes.plot([finding.low, finding.high], [0.2, 0.2], color=ink, linewidth=3, solid_capstyle="butt")
        axes.plot(finding.value, 0.2, marker=MARKS[finding.verdict], color=ink, markersize=7, markeredgecolor="white")
    shown = f"{finding.interval()}\n{finding.verdict}"
    axes.text(1.01, 0.5, shown, transform=axes.transAxes, fontsize=8, va="center", color=INK[finding.verdict])
