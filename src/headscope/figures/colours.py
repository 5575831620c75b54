"""Colours, declared once: of readings, attention maps, control runs, verdicts, and the neutral ones. Figures, report,
viewer and command line read them here, so that the same thing has the same colour wherever it is met. Nothing here
needs matplotlib.

Readings have Okabe and Ito's colours, which the colour-blind can tell apart; each goes with a dash and a marker for
print in grey. Verdicts have colours of their own, and a sign. Grey is what a number is compared with: no effect, too
small to matter, control runs. What has no number is hatched.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from headscope.findings.estimates import AT_TAU

# What the lines of readings are made of, for captions.
BY_READING = (
    "Top pairs: the highest sixteenth of all pairs by a reading. S by a reading: the order of all pairs, where none "
    "needs to be called similar."
)
BASE = "#767676"  # what would be there without any effect
TOO_SMALL = "#e9e9e9"  # behind numbers that lie short of the smallest effect that matters, and of heads that do
MISSING = "#b0b0b0"  # the hatching of what has no number
THIRDS_SHADE = "#eaf1f9"  # behind the early and the final layers: a place, not a measure
MASK = "#0072b2"  # tokens that receive much attention, among those that count for similarity
RECEIVES = "#00682f"  # tokens that receive much attention, among all: the ink of attention maps


@dataclass(frozen=True, slots=True)
class Line:
    """How one way of reading is drawn, on a light page and on a dark one, and what a legend calls it."""

    colour: str
    dash: Any
    marker: str
    label: str
    dark: str
    top: str = ""  # what a legend calls it where only the reading's top pairs come in
    hollow: bool = False

    def style(self) -> dict[str, Any]:
        """For matplotlib's plot."""
        return {
            "color": self.colour, "linestyle": self.dash, "marker": self.marker, "markersize": 4, "linewidth": 1.4,
            "markerfacecolor": "white" if self.hollow else self.colour,
        }  # fmt: skip

    def called(self, from_pairs: bool) -> str:
        """What it is called where it reads top pairs, or where it compares all pairs.

        >>> WAYS["dot"].called(from_pairs=True), WAYS["dot"].called(from_pairs=False)
        ('top pairs by dot', 'S by dot')
        """
        return self.top if from_pairs and self.top else self.label


# Every way in which a number can be read: the paper's, the readings of S, the attention maps.
WAYS: dict[str, Line] = {
    AT_TAU: Line("#000000", "-", "o", "the paper's way, at τ", "#f2f2f2"),
    "dot": Line("#0072b2", "-", "s", "S by dot", "#5db4f0", "top pairs by dot"),
    "cosine": Line("#d55e00", "-", "^", "S by cosine", "#ff9a52", "top pairs by cosine"),
    "centred": Line("#009e73", "-", "D", "S by centred cosine", "#4fd1a5", "top pairs by centred cosine"),
    "values": Line("#cc79a7", "-", "v", "values, before attention", "#ea9ac6", "top pairs by values"),
    "direct": Line("#56b4e9", (0, (5, 2)), "P", "attention: they read each other", "#a8d8ff"),
    "rows": Line("#e69f00", (0, (5, 2)), "X", "attention: they read the same", "#f0c661"),
}
# What is measured of attention alone: neither S nor a threshold comes in.
ATTENTION_ITSELF = Line("#000000", "-", "o", "attention", "#f2f2f2", hollow=True)

# Control runs are what something is compared with: thin and grey. None is dashed as "no effect" is.
CONTROL = "#9a9a9a"
CONTROL_DASHES: dict[str, Any] = {"permuted": "-", "untrained": (0, (1, 1.5)), "rotated": (0, (7, 1.5, 1, 1.5))}
CONTROL_LABELS = {"permuted": "permuted weights", "untrained": "untrained", "rotated": "rotated sentences"}


@dataclass(frozen=True, slots=True)
class VerdictInk:
    """How a verdict looks: an ink that can be read on white and on black, a lighter one for pages that are known to be
    dark, a sign beside the word, a marker."""

    ink: str
    dark: str
    sign: str
    marker: str
    open: bool = False  # whether the marker is an outline


VERDICT_INKS: dict[str, VerdictInk] = {
    "holds": VerdictInk("#178194", "#62cbdf", "✓", "o"),
    "qualified": VerdictInk("#ab49d5", "#d9a8f2", "(✓)", "D"),
    "does not hold": VerdictInk("#d44052", "#ff97a3", "✗", "X"),
    "open": VerdictInk("#ad6500", "#f2ba5e", "?", "s", open=True),
    "no verdict": VerdictInk("#767676", "#a3abb5", "–", "s", open=True),
}
# What became of one check looks like the verdict that it speaks for.
STATE_VERDICTS = {"passes": "holds", "fails": "does not hold", "cannot tell": "open", "not run": "no verdict"}
STATE_INKS = {state: VERDICT_INKS[verdict].ink for state, verdict in STATE_VERDICTS.items()}
# Neutral colours as style sheets name them, on a light page and on a dark one.
NEUTRAL = {
    "base": (BASE, "#9aa2ab"),
    "too-small": (TOO_SMALL, "#30353c"),
    "missing": (MISSING, "#666c74"),
    "control": (CONTROL, "#7d858e"),
    "thirds": (THIRDS_SHADE, "#1c2530"),
    "mask": (MASK, "#5db4f0"),
}


def style_variables(dark: bool = False) -> str:
    """The colours as variables of a style sheet: --verdict-holds, --way-dot, --too-small and so on.

    >>> [each for each in style_variables().split(";") if "holds" in each]
    ['--verdict-holds:#178194']
    >>> "--way-tau:" in style_variables(dark=True)
    True
    """
    verdicts = {f"verdict-{_dashed(name)}": look.dark if dark else look.ink for name, look in VERDICT_INKS.items()}
    ways = {f"way-{'tau' if way == AT_TAU else way}": line.dark if dark else line.colour for way, line in WAYS.items()}
    neutral = {name: pair[dark] for name, pair in NEUTRAL.items()}
    return ";".join(f"--{name}:{colour}" for name, colour in (verdicts | ways | neutral).items())


def _dashed(name: str) -> str:
    return name.replace(" ", "-")
