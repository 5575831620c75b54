"""Which figures there are, and how one should look: width, font, what is left out. The same words in Python and on the
command line.

Nothing here needs matplotlib, so that a command line can be read without it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, TypedDict

from headscope.errors import HeadscopeError

WIDTHS = {"column": 3.5, "page": 7.2}  # inches: one column of a journal, and both of them
NARROWEST, WIDEST = 2.0, 60.0  # inches
PRINTED = 7.5  # inches: a figure up to this width goes into a page, and has a page's smaller letters
FIGURES = (  # of a result, by name, in the order of a report; figures/catalog.py has what each shows
    "findings", "against-attention", "heads-beyond", "trajectory", "distances-of-heads", "focal-tokens",
    "mean-matrices", "distances-of-layers", "threshold-choice", "sensitivity", "atlas", "specialists", "stability",
)  # fmt: skip
LETTERS = re.compile(r"^(?P<before>\W?)(?P<first>[A-Za-z])(?P<after>\W?)$")


class LookOptions(TypedDict, total=False):
    """What every plot method takes; the fields of `Look`."""

    width: str | float | None
    font: str | None
    font_size: float | None
    title: bool
    caption: bool
    letters: bool | str
    dpi: int | None


@dataclass(frozen=True, slots=True)
class Look:
    """How a figure should look.

    - `width`: "column" (3.5 in), "page" (7.2 in) or inches; without it a figure has a width of its own, for a screen.
    - `font`: the family of all text; characters that it lacks come from the usual one.
    - `font_size`: of axis labels, in points; other text is a little larger or smaller. 7.5 up to the width of a page,
      9 beyond.
    - `title`, `caption`: whether the figure's title above and the caption below are drawn. The caption stays readable
      as `figure.caption`.
    - `letters`: letters on the panels, True for a, b, c; or how the first looks: "A", "(a)", "d".
    - `dpi`: dots per inch of a PNG; 300 up to the width of a page, 160 beyond.

    >>> Look(width="column").inches(10.0), Look(width=5).inches(10.0), Look().inches(10.0)
    (3.5, 5.0, 10.0)
    >>> Look(letters="(b)").letter(0), Look(letters=True).letter(2), Look().letter(0)
    ('(b)', 'c', '')
    """

    width: str | float | None = None
    font: str | None = None
    font_size: float | None = None
    title: bool = True
    caption: bool = True
    letters: bool | str = False
    dpi: int | None = None

    def __post_init__(self) -> None:
        if isinstance(self.width, str) and self.width not in WIDTHS:
            raise HeadscopeError(f"width={self.width!r} is not a width", f"use {_or(WIDTHS)}, or a number of inches")
        if isinstance(self.width, (int, float)) and not NARROWEST <= self.width <= WIDEST:
            raise HeadscopeError(f"width={self.width:g} inches", f"use {NARROWEST:g} to {WIDEST:g} inches")
        if self.font_size is not None and not 3 <= self.font_size <= 40:
            raise HeadscopeError(f"font_size={self.font_size:g}", "use 3 to 40 points")
        if self.dpi is not None and not 20 <= self.dpi <= 2400:
            raise HeadscopeError(f"dpi={self.dpi}", "use 20 to 2400 dots per inch")
        if isinstance(self.letters, str) and not LETTERS.match(self.letters):
            raise HeadscopeError(f"letters={self.letters!r} is not a first letter", "use one such as 'a', 'A' or '(a)'")

    def inches(self, own: float) -> float:
        """How wide the figure is; `own` is its width where none was asked for."""
        if self.width is None:
            return own
        return WIDTHS[self.width] if isinstance(self.width, str) else float(self.width)

    @property
    def printed(self) -> bool:
        """Whether the figure is meant for a page, where letters are small and dots many."""
        return self.width is not None and self.inches(0) <= PRINTED

    @property
    def size(self) -> float:
        """Of axis labels, in points."""
        return self.font_size or (7.5 if self.printed else 9.0)

    @property
    def dots(self) -> int:
        """Dots per inch of a PNG."""
        return self.dpi or (300 if self.printed else 160)

    def letter(self, place: int) -> str:
        """What is written on a panel, counted from 0; empty without letters.

        >>> Look(letters="y)").letter(3)
        'ab)'
        """
        if not self.letters:
            return ""
        found = LETTERS.match("a" if self.letters is True else self.letters)
        assert found is not None  # looked at when this was made
        zero = ord("a" if found["first"].islower() else "A")
        number, name = ord(found["first"]) - zero + place, ""
        while number >= 0:
            name, number = chr(zero + number % 26) + name, number // 26 - 1
        return found["before"] + name + found["after"]


SCREEN = Look()
OPTIONS = tuple(field.name for field in fields(Look))


def split_look(options: Mapping[str, Any]) -> tuple[Look, dict[str, Any]]:
    """The look that options ask for, and the other options.

    >>> split_look({"width": 3.5, "tau": 0.4})[1]
    {'tau': 0.4}
    """
    look = Look(**{name: value for name, value in options.items() if name in OPTIONS})
    return look, {name: value for name, value in options.items() if name not in OPTIONS}


def read_width(text: str) -> str | float:
    """A width as the command line gives it.

    >>> read_width("column"), read_width("5.5")
    ('column', 5.5)
    """
    try:
        return float(text)
    except ValueError:
        return text


def look_of(arguments: Any) -> LookOptions:
    """The look that the arguments of a command ask for."""
    found: Any = {name: getattr(arguments, name) for name in OPTIONS}
    Look(**found)  # what is wrong is said before anything is read
    options: LookOptions = found
    return options


def _or(names: Mapping[str, float]) -> str:
    return " or ".join(f"{name!r} ({inches:g})" for name, inches in names.items())
