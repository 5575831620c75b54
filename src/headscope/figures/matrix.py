"""One head's matrices with the tokens on their axes."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.colors import Normalize, PowerNorm

from headscope.figures.cells import cells
from headscope.figures.colours import CONTROL, MASK, RECEIVES
from headscope.figures.fonts import fonts, in_style, points, shorten, text_width
from headscope.figures.style import (
    ATTENTION,
    BOUNDARY,
    SIMILARITY,
    Picture,
    dressed,
    finish,
    letter_height,
    place,
    placed_picture,
    symmetric_limit,
)
from headscope.look import SCREEN, Look
from headscope.windows import Window

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from headscope.inspection.inspection import Inspection

SCALES = {
    "dot": "similarity S = O·Oᵀ",
    "cosine": "similarity S, cosine",
    "centred": "similarity S, cosine without the mean output",
    "values": "similarity of value vectors, cosine",
}
LABELLED = 256  # more tokens than this are numbered instead of named
MANY = 64  # tokens
CROWDED = 1.02  # the least distance of labels, in sizes of their letters: accents and tails still have room
STRIP, GAP = 0.05, 0.03  # inches: the strips that mark tokens with high attention, and what parts things
BAR = 0.09  # inches: how wide a scale is
LIFTED = 0.05  # inches: between an attention map and the bars above it
BOTH = 8.2  # inches: how wide two matrices are on a screen; on a page of 7.2 their letters still have 6.5 points
BESIDE = 6.0  # inches: from this width on, two matrices stand beside each other


@in_style
def similarity_figure(
    inspection: Inspection, layer: int, head: int, theta: float, *, look: Look = SCREEN, ax: Axes | None = None
) -> Picture | Axes:
    """S of one head. Lines separate sentences; strips along the edges mark tokens with high attention."""
    title = f"Context similarity, layer {layer}, head {head}"
    window = inspection.window
    if ax is not None:
        _similarity(ax, inspection, layer, head, theta, _fitting(_side_of(ax), window, window))
        return _given(ax, title, look)
    page = _Page.made(look, window, [window])
    figure = placed_picture(look, page.width, page.below + page.side + page.strip + GAP, title)
    axes = place(figure, page.left, page.below, page.side, page.side)
    said = _similarity(axes, inspection, layer, head, theta, page.labels)
    return finish(figure, _about(inspection), said, page.labels.said, panels=[axes])


@in_style
def attention_figure(
    inspection: Inspection, layer: int, head: int, theta: float, *, look: Look = SCREEN, ax: Axes | None = None
) -> Picture | Axes:
    """A of one head, and above it the attention that each token receives."""
    title = f"Attention, layer {layer}, head {head}"
    window, keys = inspection.window, inspection.captured.keys
    if ax is not None:
        _attention(ax, inspection, layer, head, theta, _fitting(_side_of(ax), window, keys))
        return _given(ax, title, look)
    page = _Page.made(look, window, [keys], titled=True)
    high = page.side * min(1.0, len(window) / len(keys))
    figure = placed_picture(look, page.width, page.below + page.line + high + page.received, title)
    axes = place(figure, page.left, page.below + page.line, page.side, high)
    bars, said = _attention(axes, inspection, layer, head, theta, page.labels)
    return finish(figure, _about(inspection), said, page.labels.said, panels=[bars])


@in_style
def head_figure(inspection: Inspection, layer: int, head: int, theta: float, *, look: Look = SCREEN) -> Picture:
    """What a head reads and what it makes of it: attention map and similarity matrix, token under or beside token."""
    window, keys = inspection.window, inspection.captured.keys
    title = f"What layer {layer}, head {head} reads, and what it makes of it"
    page = _Page.made(look, window, [keys, window], titled=True)
    high = page.side * min(1.0, len(window) / len(keys))
    foot = page.below + (page.line if page.beside else 0)
    if page.beside:
        above = page.received + letter_height(look)
        figure = placed_picture(look, page.width, foot + max(high, page.side) + above, title)
        left = place(figure, page.left, foot, page.side, high)
        right = place(figure, page.left + page.side + page.between, foot, page.side, page.side)
    else:
        second = foot + page.side + page.strip + 0.1 + page.below + page.line
        figure = placed_picture(look, page.width, second + high + page.received + letter_height(look), title)
        left = place(figure, page.left, second, page.side, high)
        right = place(figure, page.left, foot, page.side, page.side)
    bars, blue = _attention(left, inspection, layer, head, theta, page.labels)
    strips = _similarity(right, inspection, layer, head, theta, page.labels)
    if page.beside and len(window) <= LABELLED:
        right.tick_params(labelleft=False)  # the tokens of a row stand at the left of both
    return finish(figure, _about(inspection), blue, strips, page.labels.said, panels=[bars, right])


def _about(inspection: Inspection) -> str:
    special = int((inspection.window.part < 0).sum())
    beside = f" and {special} special" if special else ""
    return f"{inspection.model}, {inspection.stack}, {inspection.shown}{beside}; lines separate sentences"


def _given(axes: Axes, title: str, look: Look) -> Axes:
    if look.title:
        axes.set_title(title)
    return axes


# ---------------------------------------------------------------------- the two matrices


def _similarity(axes: Axes, inspection: Inspection, layer: int, head: int, theta: float, labels: _Labels) -> str:
    """Draw S with its mask; returns what the strips mean."""
    drawn = inspection.stack != "cross" and inspection.captured.given is not None
    high = list(inspection.attended(layer, head, theta, text_only=True).index) if drawn else []
    values = inspection.similarity_matrix(layer, head)
    limit = symmetric_limit(values, inspection.counting.numpy())
    image = cells(axes, values, cmap=_steps(SIMILARITY, values), norm=Normalize(-limit, limit))
    _tokens(axes, inspection.window, inspection.window, labels)
    _sentences(axes, inspection.window)
    _emphasise(axes, high, labels, MASK)
    side = _side_of(axes)
    for which in ("x", "y"):
        _strip(axes, high, which, len(inspection.window), side)
    bar = _scale(axes, image, SCALES[inspection.reading], side, beyond=float(values.max()) > limit)
    bar.ax.set_ylim(max(float(values.min()), -limit), limit)  # no more of the scale than the matrix has
    among = "all tokens" if inspection.choices.special else "the tokens that are not special"
    return f"blue strips and tokens: {_receive(high, theta, among)}" if high else ""


def _attention(
    axes: Axes, inspection: Inspection, layer: int, head: int, theta: float, labels: _Labels
) -> tuple[Axes, str]:
    """Draw A and what each token receives; returns the bars of that, and what is blue."""
    values = inspection.attention_map(layer, head)
    received = inspection.received(layer, head).values
    keys = inspection.captured.keys
    # Colours go by the square root: one large weight would otherwise leave the rest of the map white.
    norm = PowerNorm(0.5, vmin=0, vmax=float(values.max()) or 1.0)
    image = cells(axes, values, cmap=_steps(ATTENTION, values), norm=norm)
    _tokens(axes, inspection.window, keys, labels)
    _sentences(axes, inspection.window, across=keys)
    high = np.flatnonzero(received > theta)
    _emphasise(axes, high, labels, RECEIVES, rows=False)
    side = _side_of(axes)
    bars = axes.inset_axes((0.0, 1.0 + LIFTED / side, 1.0, RECEIVED * len(keys) / len(inspection.window)), sharex=axes)
    inks = np.where(received > theta, RECEIVES, CONTROL)
    bars.bar(np.arange(len(keys)), received, width=1.0, color=inks, linewidth=0)
    bars.axhline(theta, color=BOUNDARY, linewidth=0.7, linestyle=":")
    bars.set(ylim=(0, 1), yticks=[0, 1])
    bars.tick_params(axis="x", labelbottom=False, bottom=False)
    bars.tick_params(axis="y", labelsize="small", length=2)
    lowest, highest = bars.get_yticklabels()  # within the bars' height: a token of the map stands right below
    lowest.set_verticalalignment("bottom")
    highest.set_verticalalignment("top")
    bars.set_ylabel("received", fontsize="small", rotation=0, ha="right", va="center")
    for edge in ("top", "right"):
        bars.spines[edge].set_visible(False)
    _scale(axes, image, "attention weight A", side)
    axes.set_ylabel("reads (query)")
    axes.set_xlabel("is read (key)")
    said = f"dark green bars and tokens: {_receive(high, theta, 'all tokens')}; " if len(high) else ""
    return bars, f"{said}colours by the square root of A"


def _receive(high: Any, theta: float, among: str) -> str:
    """Which tokens are marked, for a caption.

    >>> _receive([4], 0.3, "all tokens")
    'of all tokens, the one that receives more than θ = 0.3 of the largest attention among them'
    """
    many = f"the {len(high)} that receive" if len(high) != 1 else "the one that receives"
    return f"of {among}, {many} more than θ = {theta:g} of the largest attention among them"


def _steps(colours: Any, values: Any) -> Any:
    """Fewer steps of colour where cells are many, so that more of them have the same and files stay small."""
    return colours if len(values) <= MANY else colours.resampled(colours.N // 2)


def _scale(axes: Axes, image: Any, label: str, side: float, beyond: bool = False) -> Any:
    """The scale at the right of a matrix, as part of its axes: it takes no room of others."""
    beside = axes.inset_axes((1 + (STRIP + 2.5 * GAP) / side, 0, BAR / side, 1))
    figure: Any = axes.figure
    return dressed(figure.colorbar(image, cax=beside, extend="max" if beyond else "neither"), label)


def _strip(axes: Axes, high: list[int], along: str, size: int, side: float) -> None:
    """A strip beside the matrix with a mark at each token that receives much attention: the cells stay free."""
    if not high:
        return
    thick = (STRIP / side, (STRIP + GAP / 2) / side)
    where = (0, 1 + GAP / 2 / side, 1, thick[0]) if along == "x" else (1 + GAP / 2 / side, 0, thick[0], 1)
    strip = axes.inset_axes(where)
    for place_ in high:
        (strip.axvspan if along == "x" else strip.axhspan)(place_ - 0.5, place_ + 0.5, color=MASK, linewidth=0)
    strip.set(xticks=[], yticks=[])
    if along == "x":
        strip.set_xlim(-0.5, size - 0.5)
    else:
        strip.set_ylim(size - 0.5, -0.5)
    for edge in strip.spines.values():
        edge.set_visible(False)


def _tokens(axes: Axes, rows: Window, columns: Window, labels: _Labels) -> None:
    for axis, window, turn in ((axes.yaxis, rows, 0), (axes.xaxis, columns, 90)):
        if len(window) > LABELLED:
            continue
        names = [shorten(label, labels.longest) for label in window.labels]
        axis.set_ticks(np.arange(len(window))[:: labels.step])
        written = axis.set_ticklabels(names[:: labels.step], rotation=turn)
        for label in written:
            # A "$" in a token is a dollar sign, not the start of a formula.
            label.set(fontfamily=_families(), fontsize=labels.size, parse_math=False)
        if labels.step > 1:
            axis.set_ticks(np.arange(len(window)), minor=True)
        axis.set_tick_params(which="both", length=1, pad=1)
        axis.set_tick_params(which="major", length=2)


def _emphasise(axes: Axes, places: Any, labels: _Labels, ink: str, rows: bool = True) -> None:
    chosen = set(map(int, places))
    for axis in (axes.xaxis, axes.yaxis) if rows else (axes.xaxis,):
        for k, label in enumerate(axis.get_ticklabels()):
            if k * labels.step in chosen:
                label.set(color=ink, fontweight="bold")


def _sentences(axes: Axes, window: Window, across: Window | None = None) -> None:
    """Lines where one sentence ends and the next begins."""
    for which, draw in ((window, axes.axhline), (across or window, axes.axvline)):
        own = np.flatnonzero(which.sentence >= 0)
        for before, after in itertools.pairwise(own):
            if which.sentence[before] != which.sentence[after]:
                draw((before + after) / 2, color=BOUNDARY, linewidth=0.8)


# ---------------------------------------------------------------------- where things stand


RECEIVED = 0.12  # of the side: the bars above an attention map


@dataclass(frozen=True, slots=True)
class _Labels:
    """How tokens are written on axes: every so many, how large, how long at most."""

    step: int
    size: float  # points
    longest: int  # characters

    @property
    def said(self) -> str:
        return f"one token in {self.step} is named" if self.step > 1 else ""


@dataclass(frozen=True, slots=True)
class _Page:
    """Where matrices stand on a figure, in inches."""

    width: float
    side: float  # of a matrix
    left: float  # of it: the tokens of its rows
    below: float  # of it: the tokens of its columns
    line: float  # the name of an axis
    between: float  # two matrices beside each other
    beside: bool
    labels: _Labels

    @property
    def strip(self) -> float:
        return STRIP + GAP / 2

    @property
    def received(self) -> float:
        """Above an attention map."""
        return RECEIVED * self.side + LIFTED + GAP + points("small") / 144

    @classmethod
    def made(cls, look: Look, rows: Window, columns: list[Window], titled: bool = False) -> _Page:
        """Matrices as wide as the figure leaves room for, with labels that do not touch; `titled` axes have a name."""
        most = max(len(rows), *(len(window) for window in columns))
        own = float(np.clip(2.9 + 0.11 * most, 5.2, 20))
        width = look.inches(own if len(columns) == 1 else BOTH)
        beside = len(columns) > 1 and width >= BESIDE
        line, small = points("medium") / 72, points("small") / 72
        bar = STRIP + 2.5 * GAP + BAR + 4.2 * small + 1.6 * line
        labels, left, below, side = _Labels(1, points("small"), 18), 0.0, 0.0, width
        for _ in range(4):  # fewer labels leave more room, and more room takes more of them
            left = _widest([rows], labels) + 0.1 + (1.5 * line if titled else 0)
            if titled:  # the bars above have a name as well
                left = max(left, text_width("received 1", points("small")) + 0.16)
            below = _widest(columns, labels) + 0.1
            side = (width - left - bar * (2 if beside else 1)) / (2 if beside else 1)
            labels = _fitted_labels(side, most)
        return cls(width, side, left, below, 1.6 * line, bar, beside, labels)


def _fitting(side: float, rows: Window, columns: Window) -> _Labels:
    """Labels for axes of somebody else's."""
    return _fitted_labels(side, max(len(rows), len(columns)))


def _fitted_labels(side: float, number: int) -> _Labels:
    """Of the size of other small letters; where not all fit, fewer of them, for smaller ones could not be read."""
    pitch = 72 * side / max(number, 1)  # points from one token to the next
    size = points("small")
    return _Labels(max(1, int(np.ceil(size * CROWDED / pitch))), size, 18 if side > 3.5 else 12)


def _widest(windows: list[Window], labels: _Labels) -> float:
    """The longest label, in inches."""
    if any(len(window) > LABELLED for window in windows):
        return text_width("0000", points("small"))
    names = {shorten(label, labels.longest) for window in windows for label in window.labels[:: labels.step]}
    return max((text_width(name, labels.size, "bold") for name in names), default=0.0)


def _side_of(axes: Axes) -> float:
    """The shorter side of axes, in inches."""
    figure: Any = axes.figure
    box = axes.get_window_extent()
    return float(min(box.width, box.height) / figure.dpi)


def _families() -> list[str]:
    import matplotlib

    return list(dict.fromkeys([*matplotlib.rcParams["font.family"], *fonts()]))
