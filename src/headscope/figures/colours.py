"""Colours, declared once: of readings, attention maps, control runs and verdicts. Figures, report and command line read
them here, so that the same thing has the same colour wherever it is met. Nothing here needs matplotlib.

Okabe and Ito's colours, which the colour-blind can tell apart; each goes with a dash and a marker for print in grey.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from headscope.findings.estimates import AT_TAU

# What the lines of readings are made of, for captions.
BY_READING = (
    "By a reading: from its top pairs, a sixteenth of all, or by its order where no pair needs to be called similar."
)
BASE = "#8c8c8c"  # what would be there without any effect
SHORT_OF_BOUND = "#ededed"  # behind numbers that lie short of the smallest effect that matters


@dataclass(frozen=True, slots=True)
class Line:
    """How one way of reading is drawn, and what a legend calls it."""

    colour: str
    dash: Any
    marker: str
    label: str

    def style(self) -> dict[str, Any]:
        """For matplotlib's plot."""
        return {
            "color": self.colour, "linestyle": self.dash, "marker": self.marker, "markersize": 4, "linewidth": 1.4,
        }  # fmt: skip


# Every way in which a number can be read: the paper's, the readings of S, the attention maps.
WAYS: dict[str, Line] = {
    AT_TAU: Line("#000000", "-", "o", "the paper's way, at τ"),
    "dot": Line("#0072b2", "-", "s", "S by dot"),
    "cosine": Line("#d55e00", "-", "^", "S by cosine"),
    "centred": Line("#009e73", "-", "D", "S by centred cosine"),
    "values": Line("#cc79a7", "-", "v", "values, before attention"),
    "direct": Line("#56b4e9", (0, (5, 2)), "P", "attention: they read each other"),
    "rows": Line("#e69f00", (0, (5, 2)), "X", "attention: they read the same"),
}

# Control runs are what something is compared with: thin and grey.
CONTROL = "#9a9a9a"
CONTROL_DASHES: dict[str, Any] = {"permuted": "-", "untrained": (0, (1, 1.5)), "rotated": (0, (4, 2))}
CONTROL_LABELS = {"permuted": "permuted weights", "untrained": "untrained", "rotated": "rotated sentences"}


@dataclass(frozen=True, slots=True)
class VerdictInk:
    """How a verdict looks: an ink that can be read on white and on black, a sign beside the word, a marker."""

    ink: str
    sign: str
    marker: str
    open: bool = False  # whether the marker is an outline


VERDICT_INKS: dict[str, VerdictInk] = {
    "holds": VerdictInk("#1a7ac2", "✓", "o"),
    "qualified": VerdictInk("#9a5cb4", "(✓)", "D"),
    "does not hold": VerdictInk("#c85200", "✗", "X"),
    "open": VerdictInk("#767676", "?", "s", open=True),
    "no verdict": VerdictInk("#767676", "–", "s", open=True),
}
# What became of one check has the colour of the verdict that it speaks for.
STATE_INKS = {
    "passes": VERDICT_INKS["holds"].ink,
    "fails": VERDICT_INKS["does not hold"].ink,
    "cannot tell": VERDICT_INKS["open"].ink,
    "not run": VERDICT_INKS["no verdict"].ink,
}
