"""How headscope's figures look, and how they are written."""

from __future__ import annotations

import io
import textwrap
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import font_manager
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure

from headscope.errors import HeadscopeError
from headscope.files import disk_file, written_whole
from headscope.windows.text import in_a_line

# Zero is white, similarity darkens towards violet, dissimilarity stays a light blue: readable in grey as well.
SIMILARITY = LinearSegmentedColormap.from_list(
    "headscope",
    [(0.0, "#7fb8dd"), (0.5, "#ffffff"), (0.62, "#fdc98d"), (0.75, "#e8590c"), (0.88, "#6a1b7d"), (1.0, "#16002e")],
    N=512,
)
ATTENTION = LinearSegmentedColormap.from_list("attention", ["#ffffff", "#74c476", "#00441b"], N=256)
MASK = "#0072b2"
BOUNDARY = "#555555"
FORMATS = ("svg", "pdf", "png")
# No date: the same result makes the same file.
METADATA = {"pdf": {"Creator": "headscope", "CreationDate": None}, "svg": {"Creator": "headscope", "Date": None}}
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


class Picture(Figure):
    """A figure that shows itself in a notebook, and that knows its caption; it never touches pyplot's state."""

    caption = ""

    def _repr_png_(self) -> bytes:
        buffer = io.BytesIO()
        _write(self, buffer, "png", dpi=100)
        return buffer.getvalue()

    def write(self, target: Any, kind: str, *, outlines: bool = False) -> None:
        """Write into an open file; `outlines` draws letters instead of leaving them to the reader's fonts."""
        _write(self, target, kind, dpi=160, outlines=outlines)

    def save(self, file: str | Path) -> Path:
        """Write as SVG, PDF or PNG, by the file's ending."""
        file = disk_file(file)
        kind = file.suffix.lstrip(".").lower()
        if kind not in FORMATS:
            raise HeadscopeError(f"{file.name!r} is not a figure format", f"end the name in .{', .'.join(FORMATS)}")
        with written_whole(file) as partial:
            _write(self, partial, kind, dpi=160)
        return file


def _write(figure: Figure, target: Any, kind: str, dpi: int, outlines: bool = False) -> None:
    import matplotlib

    # Text stays text in vector formats: it can be searched, and a reader's own fonts fill in missing scripts.
    settings: Any = {"svg.fonttype": "path" if outlines else "none", "pdf.fonttype": 42, "svg.hashsalt": "headscope"}
    with matplotlib.rc_context(settings), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        figure.savefig(target, format=kind, dpi=dpi, metadata=METADATA.get(kind))


def picture(width: float, height: float, title: str) -> Picture:
    """An empty figure in headscope's style, its title at the top left."""
    figure = Picture(figsize=(width, height), layout="constrained")
    figure.suptitle(title, x=0.01, ha="left", fontsize=12, fontweight="bold")
    return figure


def caption(figure: Picture, *lines: str, panels: Iterable[str] = ()) -> None:
    """Say under the figure what it shows; empty lines are left out. Titles of `panels` are for those who cannot see."""
    shown = [in_a_line(line) for line in lines if line]  # names in it may hold anything
    figure.caption = "; ".join([*shown, *([f"panels: {', '.join(panels)}"] if panels else [])])
    across = int(figure.get_figwidth() * 15)  # letters of this size that fit
    wrapped = [part for line in shown for part in textwrap.wrap(line, across)]
    figure.supxlabel("\n".join(wrapped), fontsize=8, x=0.01, ha="left", parse_math=False)


def scale_bar(figure: Picture, image: Any, axes: Any, label: str) -> None:
    """A slim colour bar."""
    bar = figure.colorbar(image, ax=axes, shrink=0.5, pad=0.01, aspect=35, fraction=0.03)
    bar.set_label(label, fontsize=9)
    bar.ax.tick_params(labelsize=8)


def fonts() -> list[str]:
    """The fonts of FONTS that this machine has."""
    have = {font.name for font in font_manager.fontManager.ttflist}
    return [name for name in FONTS if name in have]


def shorten(label: str, longest: int = 18) -> str:
    """A label that fits on an axis.

    >>> shorten("a" * 40)
    'aaaaaaaaaaaaaaaaa…'
    """
    return label if len(label) <= longest else label[: longest - 1] + "…"


def symmetric_limit(values: Any, counting: Any) -> float:
    """The largest |value| among the pairs of tokens that count; 1 where there is none."""
    inner = np.abs(values[np.ix_(counting, counting)])
    largest = float(inner.max(initial=0))
    return largest or 1.0


THIRD_SHADES = {"early": "#f2f2f2", "middle": "#ffffff", "final": "#e9e9e9"}


def by_logarithms(axis: Any) -> None:
    """Plain numbers at 1, 2, 5, 10 … for an axis that goes by logarithms; at powers of ten alone where it is long."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    low, high = axis.get_view_interval()
    long = low > 0 and high > 200 * low
    axis.set_major_locator(LogLocator(subs=(1.0,) if long else (1.0, 2.0, 5.0), numticks=8))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_formatter(NullFormatter())


def wrapped(text: str, across: int) -> str:
    """Text over as many lines as it takes.

    >>> wrapped("a title of some length", 12)
    'a title of\\nsome length'
    """
    return "\n".join(textwrap.wrap(text, across))


def spread_widely(values: Any) -> bool:
    """Whether ratios lie so far apart that they are better drawn by logarithms.

    >>> spread_widely(np.array([1.0, 9.0])), spread_widely(np.array([0.0, 9.0])), spread_widely(np.array([]))
    (True, False, False)
    """
    return bool(values.size and values.min() > 0 and values.max() > 8 * values.min())


def plain_axes(axes: Any) -> None:
    """Only the axes that are read, and small figures on them."""
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    axes.tick_params(labelsize=8)
    axes.xaxis.label.set_size(9)
    axes.yaxis.label.set_size(9)
