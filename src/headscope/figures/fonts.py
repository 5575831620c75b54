"""Letters of figures: fonts for every script, sizes that follow a look, and how much room words take."""

from __future__ import annotations

import functools
import re
import warnings
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

import matplotlib
import numpy as np
from matplotlib import font_manager
from matplotlib.font_manager import FontProperties, font_scalings
from matplotlib.textpath import TextToPath

from headscope.errors import HeadscopeError
from headscope.look import SCREEN, Look

P = ParamSpec("P")
T = TypeVar("T")

# Tried in turn for each character, where installed: tokens come in every script.
FONTS = (
    "DejaVu Sans",
    "Noto Sans",
    "Noto Sans CJK SC",
    "Noto Sans CJK JP",
    "Noto Sans Arabic",
    "Noto Sans Hebrew",
    "Noto Sans Devanagari",
    "Noto Sans Thai",
    "Noto Emoji",
    "Symbola",
    "Unifont",
)
HINTED = 1.04  # letters that are fitted to pixels take a little more room than they should


@functools.lru_cache(maxsize=1)
def fonts() -> list[str]:
    """The fonts of FONTS that this machine has."""
    have = {font.name for font in font_manager.fontManager.ttflist}
    return [name for name in FONTS if name in have]


@functools.lru_cache(maxsize=64)
def settings(look: Look) -> Any:
    """Matplotlib's settings for a look. Sizes in figures are relative to the size of an axis label."""
    have = {font.name for font in font_manager.fontManager.ttflist}
    if look.font is not None and look.font not in have:
        raise HeadscopeError(
            f"there is no font {look.font!r} on this machine", f"install it, or use one of {', '.join(sorted(have))}"
        )
    return {
        "font.size": look.size,
        "font.family": [*([look.font] if look.font else []), *fonts()],
        "axes.titlesize": "medium",
        "axes.labelsize": "medium",
        "xtick.labelsize": "small",
        "ytick.labelsize": "small",
        "legend.fontsize": "small",
        "axes.linewidth": 0.6,
        "xtick.major.width": 0.6,
        "ytick.major.width": 0.6,
        "xtick.minor.width": 0.4,
        "ytick.minor.width": 0.4,
        "xtick.major.size": 2.5,
        "ytick.major.size": 2.5,
        "xtick.minor.size": 1.5,
        "ytick.minor.size": 1.5,
        "axes.labelpad": 2.5,
        "axes.titlepad": 4.0,
    }


def in_style(function: Callable[P, T]) -> Callable[P, T]:
    """Run a function that draws with the fonts and sizes of its `look`; into given axes, with those of their owner."""

    @functools.wraps(function)
    def drawn(*args: P.args, **kwargs: P.kwargs) -> T:
        if kwargs.get("ax") is not None:
            return function(*args, **kwargs)
        look: Any = kwargs.get("look") or SCREEN
        with matplotlib.rc_context(settings(look)):
            return function(*args, **kwargs)

    return drawn


def points(size: str = "medium") -> float:
    """How large letters of a relative size are.

    >>> with matplotlib.rc_context({"font.size": 10}):
    ...     points("medium"), round(points("small"), 2)
    (10.0, 8.33)
    """
    return float(matplotlib.rcParams["font.size"]) * font_scalings[size]


def text_width(text: str, size: float, weight: str = "normal") -> float:
    """How wide a line of text is, in inches."""
    return _measured(text, size, weight, tuple(matplotlib.rcParams["font.family"]))


@functools.lru_cache(maxsize=4096)
def _measured(text: str, size: float, weight: str, family: tuple[str, ...]) -> float:
    properties = FontProperties(family=list(family), size=size, weight=weight)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        return float(TextToPath().get_text_width_height_descent(text, properties, ismath=False)[0]) / 72


def wrapped(text: str, inches: float, size: str = "medium", weight: str = "normal") -> str:
    """Text over as many lines as it takes; a word that is too long has a line of its own. Bound spaces do not break.

    >>> wrapped("a title of some length", 0.9).count("\\n") > 0, wrapped("a title of some length", 9)
    (True, 'a title of some length')
    """
    lines: list[str] = []
    for word in re.split("[ \t\n]+", text.strip()):
        longer = f"{lines[-1]} {word}" if lines else word
        if lines and HINTED * text_width(longer, points(size), weight) <= inches:
            lines[-1] = longer
        else:
            lines.append(word)
    return "\n".join(lines)


def balanced(text: str, inches: float, size: str = "medium") -> str:
    """Text over as few lines as it takes, of about the same length: no last line with a single short word."""
    found = wrapped(text, inches, size)
    for narrower in np.linspace(inches, inches / 2, 9)[1:]:
        shorter = wrapped(text, float(narrower), size)
        if shorter.count("\n") > found.count("\n"):
            break
        found = shorter
    return found


def shorten(label: str, longest: int = 18) -> str:
    """A label that fits on an axis.

    >>> shorten("a" * 40)
    'aaaaaaaaaaaaaaaaa…'
    """
    return label if len(label) <= longest else label[: longest - 1] + "…"
