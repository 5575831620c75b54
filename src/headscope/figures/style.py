"""How headscope's figures are put together, and how they are written."""

from __future__ import annotations

import hashlib
import io
import math
import re
import warnings
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import matplotlib
import numpy as np
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure

from headscope.errors import HeadscopeError
from headscope.figures.fonts import balanced, points, settings, text_width, wrapped
from headscope.files import disk_file, written_whole
from headscope.look import SCREEN, Look
from headscope.windows.text import in_a_line

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Zero is white, similarity darkens towards violet, dissimilarity stays a light blue: readable in grey as well.
SIMILARITY = LinearSegmentedColormap.from_list(
    "headscope",
    [(0.0, "#7fb8dd"), (0.5, "#ffffff"), (0.62, "#fdc98d"), (0.75, "#e8590c"), (0.88, "#6a1b7d"), (1.0, "#16002e")],
    N=128,
)
ATTENTION = LinearSegmentedColormap.from_list("attention", ["#ffffff", "#74c476", "#00441b"], N=128)
BOUNDARY = "#555555"
FORMATS = ("svg", "pdf", "png")
# No date: the same result makes the same file.
METADATA = {"pdf": {"Creator": "headscope", "CreationDate": None}, "svg": {"Creator": "headscope", "Date": None}}
EDGE = 0.04  # inches between the figure's edge and what is drawn
LINE = 1.3  # the height of a line of text, in sizes of its letters


class Picture(Figure):
    """A figure that shows itself in a notebook, and that knows its caption; it never touches pyplot's state."""

    caption = ""
    about = ""  # what only this one shows, in a sentence: which text, which head
    look: Look = SCREEN
    body: float = 0.0  # inches: how high it is between title and caption
    heading: str = ""
    placed: tuple[tuple[Any, float, float, float, float], ...] = ()  # axes with their place in the body, in inches

    def draw(self, renderer: Any) -> None:
        """Draw with the fonts and sizes that the figure was made with: some labels are only made now."""
        with matplotlib.rc_context(settings(self.look)):
            super().draw(renderer)

    def _repr_png_(self) -> bytes:
        buffer = io.BytesIO()
        _write(self, buffer, "png", dpi=round(min(200, max(100, 900 / self.get_figwidth()))))
        return buffer.getvalue()

    def write(self, target: Any, kind: str, *, outlines: bool = False) -> None:
        """Write into an open file; `outlines` draws letters instead of leaving them to the reader's fonts."""
        _write(self, target, kind, dpi=self.look.dots, outlines=outlines)

    def save(self, file: str | Path) -> Path:
        """Write as SVG, PDF or PNG, by the file's ending."""
        file = disk_file(file)
        kind = file.suffix.lstrip(".").lower()
        if kind not in FORMATS:
            raise HeadscopeError(f"{file.name!r} is not a figure format", f"end the name in .{', .'.join(FORMATS)}")
        with written_whole(file) as partial:
            _write(self, partial, kind, dpi=self.look.dots)
        return file


def _write(figure: Figure, target: Any, kind: str, dpi: int, outlines: bool = False) -> None:
    # Text stays text in vector formats: it can be searched, and a reader's own fonts fill in missing scripts.
    written: Any = {"svg.fonttype": "path" if outlines else "none", "pdf.fonttype": 42, "svg.hashsalt": "headscope"}
    with matplotlib.rc_context(written), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        if kind != "svg":
            figure.savefig(target, format=kind, dpi=dpi, metadata=METADATA.get(kind))
            return
        made = io.StringIO()
        figure.savefig(made, format=kind, dpi=dpi, metadata=METADATA.get(kind))
    svg = same_names(made.getvalue()).encode()
    if hasattr(target, "write"):
        target.write(svg)
    else:
        Path(target).write_bytes(svg)


def same_names(svg: str) -> str:
    """An SVG whose clip rectangles are named by their number, and by what the figure shows.

    matplotlib names them after their corners, whose last digits depend on what was laid out before; where nothing else
    differs, files are to be the same.

    >>> same_names('<clipPath id="p0123456789"/><path clip-path="url(#p0123456789)"/>')
    '<clipPath id="p0-528db3"/><path clip-path="url(#p0-528db3)"/>'
    """
    names = list(dict.fromkeys(re.findall(r'<clipPath id="(p[0-9a-f]{10})"', svg)))
    numbers = {name: f"p{number}" for number, name in enumerate(names)}
    svg = re.sub(r"\bp[0-9a-f]{10}\b", lambda found: numbers.get(found[0], found[0]), svg)
    own = hashlib.sha256(svg.encode()).hexdigest()[:6]  # in one page with others, names stay apart
    return re.sub(r'(<clipPath id="|url\(#)(p[0-9]+)(?=["\)])', rf"\1\2-{own}", svg)


# ---------------------------------------------------------------------- a figure and its parts


def picture(look: Look, width: float, height: float, title: str) -> Picture:
    """An empty figure; `width` is its own, where the look asks for none, `height` that without title and caption."""
    figure = Picture(figsize=(look.inches(width), height), layout="constrained")
    figure.look, figure.body, figure.heading = look, height, title
    engine: Any = figure.get_layout_engine()
    engine.set(w_pad=EDGE, h_pad=EDGE, wspace=0.02, hspace=0.03)
    return figure


def placed_picture(look: Look, width: float, height: float, title: str) -> Picture:
    """The same for panels that are put at places in inches, with `place`; `width` is the figure's."""
    figure = Picture(figsize=(width, height))
    figure.look, figure.body, figure.heading = look, height, title
    return figure


def place(figure: Picture, left: float, bottom: float, wide: float, high: float) -> Any:
    """Axes at a place between title and caption, in inches from the lower left."""
    axes = figure.add_axes((0, 0, 1, 1), label=f"{len(figure.placed)}")
    figure.placed = (*figure.placed, (axes, left, bottom, wide, high))
    axes.set_position(
        (left / figure.get_figwidth(), bottom / figure.body, wide / figure.get_figwidth(), high / figure.body)
    )
    return axes


def finish(
    figure: Picture,
    *lines: str,
    panels: Sequence[Any] = (),
    handles: Sequence[Any] = (),
    names: Iterable[str] = (),
) -> Picture:
    """Put the title and a legend above, say below what is shown, and letter the panels; empty lines are left out.

    The figure grows by what is put above and below, so that panels keep their size. `names` are of panels, for those
    who cannot see them. A single panel has a letter only where one was named, before the title: it is a panel of a
    figure that somebody puts together, and nothing of it may lie under the letter.
    """
    look, width = figure.look, figure.get_figwidth()
    shown = [in_a_line(line) for line in lines if line]  # names in it may hold anything
    also = [f"panels: {', '.join(names)}"] if names else []
    figure.caption = "; ".join([*shown, *also])
    alone = look.letter(0) if len(panels) == 1 and isinstance(look.letters, str) else ""
    heading = " ".join(part for part in (alone, figure.heading * look.title) if part)
    title = wrapped(heading, width - 2 * EDGE, "large", "bold") if heading else ""
    below = "\n".join(wrapped(line, width - 2 * EDGE, "small") for line in shown) if look.caption else ""
    columns, legend = _legend_size(handles, width)
    above = (_height(title, "large") + 2 * EDGE) * bool(title)
    under = (_height(below, "small") + 2 * EDGE) * bool(below)
    whole = figure.body + above + legend + under
    figure.set_size_inches(width, whole)
    side = EDGE / width
    if title:
        figure.suptitle(
            title, x=side, y=1 - EDGE / whole, ha="left", va="top", fontsize="large", fontweight="bold",
            in_layout=False, linespacing=1.15,
        )  # fmt: skip
    if handles:
        key = figure.legend(
            handles=handles, ncols=columns, loc="upper left", bbox_to_anchor=(side, 1 - above / whole),
            frameon=False, borderaxespad=0, borderpad=0.2, columnspacing=1.4, handletextpad=0.6,
        )  # fmt: skip
        key.set_in_layout(False)
    if below:
        figure.supxlabel(
            below, x=side, y=EDGE / whole, ha="left", va="bottom", fontsize="small", parse_math=False,
            in_layout=False, linespacing=1.15,
        )  # fmt: skip
    engine: Any = figure.get_layout_engine()
    if engine is not None:
        engine.set(rect=(0, under / whole, 1, figure.body / whole))
    for axes, left, bottom, wide, high in figure.placed:
        axes.set_position((left / width, (under + bottom) / whole, wide / width, high / whole))
    for number, axes in enumerate(panels if len(panels) > 1 else ()):
        letter(axes, look.letter(number))
    return figure


def one_panel(look: Look, width: float, height: float, title: str, ax: Any) -> tuple[Picture | None, Any]:
    """A figure with one panel and its axes; or no figure, and the axes that were given."""
    if ax is not None:
        return None, ax
    figure = picture(look, width, height, title)
    return figure, figure.add_subplot()


def finish_panel(
    figure: Picture | None, axes: Any, look: Look, title: str, *lines: str, handles: Sequence[Any] = ()
) -> Picture | Axes:
    """Finish the figure; or give axes that are somebody else's their title and legend, and nothing else."""
    if figure is not None:
        return finish(figure, *lines, panels=[axes], handles=handles)
    if look.title:
        axes.set_title(title)
    if handles:
        axes.legend(handles=handles, fontsize="small", frameon=False)
    given: Axes = axes
    return given


def inches_wide(axes: Any) -> float:
    """How wide the figure is that axes belong to; of axes that are somebody else's, they themselves."""
    figure = axes.figure
    return float(figure.get_figwidth() if isinstance(figure, Picture) else axes.get_window_extent().width / figure.dpi)


def letter(axes: Any, text: str) -> None:
    """Write a panel's letter over its upper left corner."""
    if text:
        axes.annotate(
            text, (0, 1), (-2, 3), xycoords="axes fraction", textcoords="offset points", ha="right", va="bottom",
            fontsize="large", fontweight="bold", annotation_clip=False,
        )  # fmt: skip


def letter_height(look: Look) -> float:
    """Inches above the uppermost panels that their letters take, for figures whose panels are put at places."""
    return (LINE * points("large") + 3) / 72 if look.letters else 0.0


def _height(text: str, size: str) -> float:
    """How high lines of text are, in inches."""
    return (text.count("\n") + 1) * LINE * points(size) / 72


def _legend_size(handles: Sequence[Any], width: float) -> tuple[int, float]:
    """Columns of a legend over the whole width, and its height in inches."""
    if not handles:
        return 1, 0.0
    size = points("small")
    widest = max(text_width(str(handle.get_label()), size) for handle in handles)
    columns = max(1, min(len(handles), int((width - 2 * EDGE) / (widest + 4.2 * size / 72))))
    rows = math.ceil(len(handles) / columns)
    return math.ceil(len(handles) / rows), (rows * 1.55 + 0.8) * size / 72


def panel_columns(figure: Picture, most: int, inches: float) -> int:
    """How many panels stand beside each other, if each wants so many inches at the usual size of letters."""
    return max(1, min(most, int(figure.get_figwidth() / (inches * figure.look.size / 9))))


def panel_title(axes: Any, text: str, inches: float) -> None:
    """The title of a panel, wrapped to its width."""
    axes.set_title(balanced(text, inches), linespacing=1.1)


def colour_bar(axes: Any, image: Any, label: str = "", extend: str = "neither", shrink: float = 1.0) -> Any:
    """A slim scale beside a panel, as vectors; `extend` marks ends beyond which colours do not change."""
    bar = axes.figure.colorbar(
        image, ax=axes, fraction=0.06, pad=0.02, aspect=22 * shrink, shrink=shrink, extend=extend
    )
    return dressed(bar, label)


def dressed(bar: Any, label: str) -> Any:
    """A colour bar in style: no bitmap, no lines between its steps."""
    bar.solids.set_rasterized(False)
    bar.solids.set_edgecolor("face")
    bar.solids.set_linewidth(0.3)
    bar.outline.set_linewidth(0.5)
    bar.ax.tick_params(which="both", labelsize="small", length=2, width=0.5, pad=1.5)
    if label:
        bar.set_label(label, fontsize="medium")
    return bar


# ---------------------------------------------------------------------- axes


def by_logarithms(axis: Any) -> None:
    """Plain numbers at 1, 2, 5, 10 … for an axis that goes by logarithms; at powers of ten alone where it is long."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    low, high = axis.get_view_interval()
    long = low > 0 and high > 200 * low
    axis.set_major_locator(LogLocator(subs=(1.0,) if long else (1.0, 2.0, 5.0), numticks=8))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_formatter(NullFormatter())


def spread_widely(values: Any) -> bool:
    """Whether ratios lie so far apart that they are better drawn by logarithms.

    >>> spread_widely(np.array([1.0, 9.0])), spread_widely(np.array([0.0, 9.0])), spread_widely(np.array([]))
    (True, False, False)
    """
    return bool(values.size and values.min() > 0 and values.max() > 8 * values.min())


def plain_axes(axes: Any) -> None:
    """Only the axes that are read."""
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def whole_numbers(axis: Any, numbers: Sequence[int], most: int) -> None:
    """Ticks at some of the numbers, at equal steps, and at places of the axis from 0 on.

    >>> from matplotlib.figure import Figure
    >>> axes = Figure().add_subplot()
    >>> whole_numbers(axes.xaxis, range(12), 6)
    >>> [label.get_text() for label in axes.get_xticklabels()]
    ['0', '2', '4', '6', '8', '10']
    """
    step = max(1, -(-len(numbers) // max(1, most)))
    axis.set_ticks(range(0, len(numbers), step), [str(number) for number in list(numbers)[::step]])


def symmetric_limit(values: Any, counting: Any) -> float:
    """The largest |value| among the pairs of tokens that count; 1 where there is none."""
    inner = np.abs(values[np.ix_(counting, counting)])
    largest = float(inner.max(initial=0))
    return largest or 1.0
