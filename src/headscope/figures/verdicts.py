"""The findings at a glance: each number with its interval, in every reading, against no effect and the bound."""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from headscope.figures.colours import BASE, CONTROL, STATE_INKS, TOO_SMALL, VERDICT_INKS, WAYS
from headscope.figures.fonts import balanced, in_style, points, text_width, wrapped
from headscope.figures.parts import chosen_claims, run_caption, upright_handle
from headscope.figures.style import Picture, by_logarithms, finish, place, placed_picture, spread_widely
from headscope.findings.checks import Check
from headscope.findings.claims import CLAIMS
from headscope.findings.estimates import AT_TAU
from headscope.findings.finding import Finding, Findings
from headscope.findings.showing import KINDS, LEGEND, mark_of, shown, state_of
from headscope.look import SCREEN, Look
from headscope.measures.quantities import named

if TYPE_CHECKING:
    from headscope.result.result import Result

HEIGHTS = {"": 0.5, "dot": 0.0, "cosine": -0.4}  # where in a claim's line its readings stand
CONTROLS_AT = (-0.95, -0.7)
BESIDE = "#555555"  # the ink of what stands beside a number
ENDS = 1.5  # how high the ends of an interval are, in dots: a dot never hides them
NARROW = 8.2  # inches, at the size of letters on a screen: less has claims and verdicts over their scales


@in_style
def findings_figure(
    result: Result, findings: Findings, claims: Collection[str] | None = None, *, look: Look = SCREEN
) -> Picture:
    """A line for each statistic on its own scale: number and interval, the readings under it; marks; the verdict."""
    drawn = chosen_claims((finding.key for finding in findings), claims)
    lines = [(finding, each) for finding in findings if finding.key in drawn for each in finding.statistics]
    width = look.inches(11.6)
    unit = look.size / 9
    narrow = width < NARROW * unit
    layout = _narrow if narrow else _wide
    figure, panels = layout(look, width, unit, lines)
    runs = any(finding.runs for finding in findings)
    first = WAYS[AT_TAU]
    handles = [
        Line2D([], [], color=first.colour, marker="o", linewidth=2.4, markersize=5, label="the paper's way"),
        *(Line2D([], [], color=WAYS[each].colour, marker=WAYS[each].marker, linewidth=1.4, markersize=3.5,
                 label=WAYS[each].called(from_pairs=True))
          for each in ("dot", "cosine")),
        upright_handle("no effect", BASE, 1.0),
        Patch(color=TOO_SMALL, linewidth=0, label="short of the smallest effect that matters"),
        *([upright_handle("control runs", CONTROL, 1.6)] if runs else []),
    ]  # fmt: skip
    marks = f"Marks: {LEGEND}. " + "; ".join(f"{kind.heading}: {kind.meaning}" for kind in KINDS) + "."
    return finish(
        figure,
        run_caption(result, findings.tau),
        f"Dots and bars: the median over heads with its interval, {findings.interval}; strokes mark its "
        f"ends. In black: the paper's way; below it blue: top pairs by dot, vermilion: top pairs by cosine{_order()}. "
        "Thin line: no effect. Grey: short of the smallest effect that matters. "
        f"{'Above each scale' if narrow else 'Under the verdict'}: the number with its interval, the share of heads "
        "beyond the smallest effect that matters, and the same number pooled over heads."
        + (" Small grey bars: control runs." if runs else ""),
        marks,
        panels=panels[:1],
        handles=handles,
    )


Lines = list[tuple[Finding, Check]]


def _order() -> str:
    """Which claims have no top pairs, for a caption: they compare all pairs, in their order."""
    keys = [each.key for each in CLAIMS if named(each.statistics[0].number.quantity).read == "order"]
    return f" ({', '.join(keys)}: the order of all pairs by cosine)"


def _wide(look: Look, width: float, unit: float, lines: Lines) -> tuple[Picture, list[Any]]:
    """Claim, scale, marks and verdict beside each other."""
    claims, verdicts, mark = 0.2 * width, 1.95 * unit, 0.26 * unit
    marks = mark * len(KINDS) + 0.1
    scales = width - claims - verdicts - marks - 0.3
    labels = [balanced(statistic.label, scales, "small") for _, statistic in lines]
    heights = [0.66 * unit + _line("small") * (label.count("\n") + 1) for label in labels]
    figure = placed_picture(look, width, sum(heights) + 0.5 * unit, TITLE)
    panels, above = [], sum(heights)
    for number, ((finding, statistic), label, height) in enumerate(zip(lines, labels, heights, strict=True)):
        above -= height
        bottom, high = above + height - 0.48 * unit, 0.42 * unit
        axes = place(figure, claims + 0.08, bottom, scales, high)
        first = statistic is finding.statistics[0]
        _scale(axes, finding, statistic, label, scales)
        axes.set_yticks([0], [balanced(_name(finding, first), claims - 0.1)], fontsize="medium")
        shown_marks = place(figure, claims + scales + 0.2, bottom, marks, high)
        _marks(shown_marks, finding if first else None, headings=number == 0)
        _verdict(place(figure, width - verdicts, bottom, verdicts, high), finding, statistic, said=first)
        panels.append(axes)
    return figure, panels


def _narrow(look: Look, width: float, unit: float, lines: Lines) -> tuple[Picture, list[Any]]:
    """Claim and verdict over the scale, under them marks, then the numbers: for a column of text."""
    scales = width - 0.3  # numbers at the ends of an axis reach over it
    names, labels, heights, tops = [], [], [], []
    for finding, statistic in lines:
        first = statistic is finding.statistics[0]
        verdict = text_width(_said(finding), points("medium"), "bold") if first else 0.0
        names.append(wrapped(_name(finding, first), scales - verdict - 0.15))
        labels.append(balanced(statistic.label, scales, "small"))
        tops.append(_line("medium") * (names[-1].count("\n") + 1) + _line("small") * (1 + first) + 0.06)
        heights.append(tops[-1] + 0.34 * unit + 0.28 * unit + _line("small") * (labels[-1].count("\n") + 1))
    figure = placed_picture(look, width, sum(heights), TITLE)
    panels, above = [], sum(heights)
    for (finding, statistic), name, label, height, top in zip(lines, names, labels, heights, tops, strict=True):
        above -= height
        axes = place(figure, 0.15, above + height - top - 0.34 * unit, scales, 0.34 * unit)
        _scale(axes, finding, statistic, label, scales)
        axes.set_yticks([])
        first = statistic is finding.statistics[0]
        lifted = 4 + 72 * _line("small") * (1 + first)
        style: Any = {"xycoords": "axes fraction", "textcoords": "offset points", "va": "bottom"}
        axes.annotate(name, (0, 1), (0, lifted), ha="left", fontsize="medium", **style)
        if first:
            ink = VERDICT_INKS[finding.verdict].ink
            axes.annotate(_said(finding), (1, 1), (0, lifted), ha="right", color=ink, fontweight="bold", **style)
            marks = 3 + 72 * _line("small")
            axes.annotate(_marks_in_words(finding), (0, 1), (0, marks), ha="left", fontsize="small", **style)
        number, beside = _numbers(finding, statistic)
        axes.annotate(number, (0, 1), (0, 3), ha="left", fontsize="small", **style)
        axes.annotate(beside, (1, 1), (0, 3), ha="right", fontsize="small", color=BESIDE, **style)
        panels.append(axes)
    return figure, panels


def _line(size: str) -> float:
    """The height of a line of text, in inches."""
    return 1.3 * points(size) / 72


TITLE = "What the paper says, and what was measured"


def _name(finding: Finding, first: bool) -> str:
    return f"{finding.key}  {finding.claim}" if first else f"{finding.key}  … and"


def _said(finding: Finding) -> str:
    return f"{VERDICT_INKS[finding.verdict].sign} {finding.verdict}"


def _marks_in_words(finding: Finding) -> str:
    """The marks of a claim in one line, for where there is no room for a table."""
    marks = [(kind.heading, mark_of(finding, kind)) for kind in KINDS]
    return "  ".join(f"{heading} {mark}" for heading, mark in marks if mark)


def _scale(axes: Any, finding: Finding, statistic: Check, label: str, inches: float) -> None:
    """The number, the readings and the control runs on a scale of their own, and which quantity that is."""
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.tick_params(axis="x", length=2, pad=1)
    axes.tick_params(axis="y", length=0)
    axes.set_ylim(-1, 1)
    axes.set_xlabel(label, fontsize="small", labelpad=1, linespacing=1.1)
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
        axes.locator_params(axis="x", nbins=max(3, int(inches / 0.45)))
    axes.set_xlim(low, high)
    axes.axvspan(low, statistic.bound, color=TOO_SMALL, linewidth=0, zorder=0)
    axes.axvline(statistic.none, color=BASE, linewidth=1)
    for value in runs:
        axes.plot([value, value], CONTROLS_AT, color=CONTROL, linewidth=1.6)
    for each in others:
        line = WAYS[str(each.reading)]
        _bar(axes, each, HEIGHTS[str(each.reading)], line.colour, line.marker, size=3.4, width=1.2)
    if math.isnan(statistic.value):
        axes.text(0.5, 0.5, statistic.why, transform=axes.transAxes, ha="center", va="center", fontsize="small",
                  color=BASE)  # fmt: skip
    else:
        _bar(axes, statistic, HEIGHTS[""], WAYS[AT_TAU].colour, "o", size=4.6, width=2.0)


def _same_scale(control: Check, statistic: Check) -> bool:
    """Whether a control is the statistic itself in another reading."""
    return control.reading in HEIGHTS and not control.run and control.label.startswith(_stem(control, statistic))


def _stem(control: Check, statistic: Check) -> str:
    return statistic.label if " " in control.name else ""


def _bar(axes: Any, check: Check, y: float, ink: str, marker: str, *, size: float, width: float) -> None:
    """An interval with upright ends, which stand out above and below the dot also where it is narrower than that."""
    if math.isfinite(check.low):
        axes.plot(
            [check.low, check.high], [y, y], color=ink, linewidth=width, solid_capstyle="butt", marker="|",
            markersize=ENDS * size, markeredgewidth=0.8,
        )  # fmt: skip
    if math.isfinite(check.value):
        axes.plot(
            check.value, y, marker=marker, color=ink, markersize=size, markeredgecolor="white", markeredgewidth=0.4
        )


def _marks(axes: Any, finding: Finding | None, *, headings: bool) -> None:
    """What became of the statistic and of each kind of control."""
    axes.set(xlim=(0, len(KINDS)), ylim=(0, 1))
    axes.axis("off")
    for column, kind in enumerate(KINDS):
        if headings:
            axes.text(column + 0.35, 1.1, kind.heading, rotation=45, fontsize="small", ha="left", va="bottom")
        if finding is not None:
            axes.text(
                column + 0.5, 0.5, mark_of(finding, kind), fontsize="large", ha="center", va="center",
                color=STATE_INKS.get(state_of(finding, kind), BASE),
            )  # fmt: skip


def _verdict(axes: Any, finding: Finding, statistic: Check, *, said: bool) -> None:
    axes.axis("off")
    if said:
        ink = VERDICT_INKS[finding.verdict].ink
        axes.text(0, 0.9, _said(finding), va="center", color=ink, fontweight="bold", fontsize="medium")
    number, beside = _numbers(finding, statistic)
    axes.text(0, 0.42, number, fontsize="small", va="center")
    axes.text(0, -0.04, beside, fontsize="small", va="center", color=BESIDE)


def _numbers(finding: Finding, statistic: Check) -> tuple[str, str]:
    """The number with its interval; the share of heads beyond the bound, and the number pooled over heads."""
    own = shown(statistic, finding.digits)
    beside = [f"{own.heads} of the heads"] * (own.heads != "–") + [f"pooled {own.pooled}"] * (own.pooled != "–")
    return own.number, "; ".join(beside)
