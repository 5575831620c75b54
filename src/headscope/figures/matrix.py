"""One head's matrices with the tokens on their axes."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.colors import PowerNorm

from headscope.figures.style import (
    ATTENTION,
    BOUNDARY,
    MASK,
    SIMILARITY,
    Picture,
    caption,
    fonts,
    picture,
    scale_bar,
    shorten,
    symmetric_limit,
)
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


def similarity_figure(inspection: Inspection, layer: int, head: int, theta: float) -> Picture:
    """S of one head. Lines part the sentences; dotted ones mark tokens with high attention among those that count."""
    figure, axes = _square(len(inspection.window), f"Context similarity, layer {layer}, head {head}")
    bands = _draw_similarity(figure, axes, inspection, layer, head, theta)
    caption(figure, f"{inspection.model}, {inspection.stack}, {inspection.shown}; lines part the sentences", bands)
    return figure


def attention_figure(inspection: Inspection, layer: int, head: int, theta: float) -> Picture:
    """A of one head, and above it the attention that each token receives."""
    figure, axes = _square(len(inspection.captured.keys), f"Attention, layer {layer}, head {head}", above=0.12)
    blue = _draw_attention(figure, axes, inspection, layer, head, theta)
    caption(figure, f"{inspection.model}, {inspection.stack}, {inspection.shown}; lines part the sentences", blue)
    return figure


def head_figure(inspection: Inspection, layer: int, head: int, theta: float) -> Picture:
    """What a head reads and what it makes of it: the attention map, and the similarity matrix under it."""
    side = float(np.clip(1.6 + 0.075 * len(inspection.window), 4, 11))
    figure = picture(side + 1.2, 2.15 * side + 1.0, f"What layer {layer}, head {head} reads, and what it makes of it")
    above, below = figure.subplots(2, 1, height_ratios=[1.12, 1])
    blue = _draw_attention(figure, above, inspection, layer, head, theta)
    bands = _draw_similarity(figure, below, inspection, layer, head, theta)
    caption(
        figure, f"{inspection.model}, {inspection.stack}, {inspection.shown}; lines part the sentences", blue, bands
    )
    return figure


def _draw_similarity(figure: Picture, axes: Axes, inspection: Inspection, layer: int, head: int, theta: float) -> str:
    """Draw S with its mask; returns what the dotted lines mean."""
    drawn = inspection.stack != "cross" and inspection.captured.given is not None
    high = list(inspection.attended(layer, head, theta, text_only=True).index) if drawn else []
    values = inspection.similarity_matrix(layer, head)
    limit = symmetric_limit(values, inspection.counting.numpy())
    image = axes.imshow(values, cmap=SIMILARITY, vmin=-limit, vmax=limit, interpolation="nearest")
    _tokens(axes, inspection.window, inspection.window)
    _sentences(axes, inspection.window)
    for place in high:
        # Dotted, so that the colours below stay what they are.
        axes.axvline(place, color=MASK, linewidth=0.9, linestyle=(0, (1, 1.5)))
        axes.axhline(place, color=MASK, linewidth=0.9, linestyle=(0, (1, 1.5)))
    _emphasise(axes, high)
    scale_bar(figure, image, axes, SCALES[inspection.reading])
    bands = f"dotted blue: the {len(high)} tokens that receive more than {theta:g} of the largest attention among them"
    return f"{bands}, special tokens left out" if high and not inspection.choices.special else bands if high else ""


def _draw_attention(figure: Picture, axes: Axes, inspection: Inspection, layer: int, head: int, theta: float) -> str:
    """Draw A and what each token receives; returns what is blue."""
    values = inspection.attention_map(layer, head)
    received = inspection.received(layer, head).values
    keys = inspection.captured.keys
    # Colours go by the square root: one large weight would otherwise leave the rest of the map white.
    norm = PowerNorm(0.5, vmin=0, vmax=float(values.max()) or 1.0)
    image = axes.imshow(values, cmap=ATTENTION, norm=norm, interpolation="nearest")
    _tokens(axes, inspection.window, keys)
    _sentences(axes, inspection.window, across=keys)
    high = np.flatnonzero(received > theta)
    _emphasise(axes, high, rows=False)
    bars = axes.inset_axes((0.0, 1.01, 1.0, 0.12), sharex=axes)
    colours = np.where(received > theta, MASK, "#bbbbbb")
    bars.bar(np.arange(len(keys)), received, width=1.0, color=colours)
    bars.axhline(theta, color=BOUNDARY, linewidth=0.7, linestyle=":")
    bars.set(ylim=(0, 1), yticks=[0, 1])
    bars.tick_params(axis="x", labelbottom=False, bottom=False)
    bars.set_ylabel("received", fontsize=8)
    scale_bar(figure, image, axes, "attention weight A")
    axes.set_ylabel("reads (query)")
    axes.set_xlabel("is read (key)")
    return f"blue: the {len(high)} of all tokens that receive more than {theta:g} of the largest attention"


def _square(size: int, title: str, above: float = 0.0) -> tuple[Picture, Axes]:
    side = float(np.clip(2.0 + 0.1 * size, 5, 22))
    figure = picture(side + 0.9, side * (1 + above) + 0.8, title)
    return figure, figure.add_subplot()


def _tokens(axes: Axes, rows: Window, columns: Window) -> None:
    for axis, window, turn in ((axes.yaxis, rows, 0), (axes.xaxis, columns, 90)):
        if len(window) > LABELLED:
            continue
        axis.set_ticks(np.arange(len(window)))
        labels = axis.set_ticklabels([shorten(label) for label in window.labels], rotation=turn)
        size = 8.5 if len(window) <= 40 else 6.5
        for label in labels:
            # A "$" in a token is a dollar sign, not the start of a formula.
            label.set(fontfamily=fonts(), fontsize=size, parse_math=False)
        axis.set_tick_params(length=1, pad=1)


def _emphasise(axes: Axes, places: Any, rows: bool = True) -> None:
    chosen = set(map(int, places))
    for axis in (axes.xaxis, axes.yaxis) if rows else (axes.xaxis,):
        for place, label in enumerate(axis.get_ticklabels()):
            if place in chosen:
                label.set(color=MASK, fontweight="bold")


def _sentences(axes: Axes, window: Window, across: Window | None = None) -> None:
    """Lines where one sentence ends and the next begins."""
    for which, draw in ((window, axes.axhline), (across or window, axes.axvline)):
        own = np.flatnonzero(which.sentence >= 0)
        for before, after in itertools.pairwise(own):
            if which.sentence[before] != which.sentence[after]:
                draw((before + after) / 2, color=BOUNDARY, linewidth=0.8)
