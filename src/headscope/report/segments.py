"""A cut text as one HTML page: its segments to read, every boundary with its strength, and the heads behind them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from headscope.files import make_folder_for, write_whole
from headscope.report.page import filled
from headscope.windows.text import in_a_line, visible

if TYPE_CHECKING:
    from headscope.segmentation.cut import Cut, DecidingHead

TEMPLATE = "segments.html"
NEAR_MISS = 0.05  # strength from which a boundary that was not chosen says who speaks for it
COLUMNS = 600  # of the picture of all boundaries: of longer texts each shows the strongest of several
NAMED = 6  # heads with most weight that are named beneath their picture
# Characters that nobody sees and words need: soft hyphens, and the joiners of Persian, Hindi and emoji.
WITHIN_WORDS = frozenset("\u00ad\u200c\u200d")


@dataclass(frozen=True, slots=True)
class Line:
    """What stands in a line of its own, a sentence, with the boundary after it."""

    text: str
    strength: float | None  # None at the text's end, where nothing was to be decided
    chosen: bool
    new_paragraph: bool
    why: str


@dataclass(frozen=True, slots=True)
class Piece:
    """A segment: its lines, and the numbers of the first and the last of them."""

    lines: list[Line]
    first: int
    last: int
    strength: float
    why: str


@dataclass(frozen=True, slots=True)
class Cell:
    """A head in the picture of all heads."""

    layer: int
    head: int
    weight: float  # its share of all heads' together
    shade: float  # the same over the largest


@dataclass(frozen=True, slots=True)
class Grid:
    """The heads that count, among all heads of the model."""

    layers: int
    heads: int
    cells: list[Cell]

    @property
    def heaviest(self) -> list[Cell]:
        """Those with most weight, to be named."""
        return sorted(self.cells, key=lambda cell: -cell.weight)[:NAMED]


def write_segments(cut: Cut, out: str | Path) -> Path:
    """Write a cut text as one self-contained HTML file; it asks nothing of any network and runs no script."""
    target = make_folder_for(out)
    of_sentences = cut.grain != "topics"
    page = filled(
        TEMPLATE,
        model=in_a_line(str(cut.weights.model.get("name", "a model without a name"))),
        of_sentences=of_sentences,
        parts=len(cut.parts),
        pieces=[] if of_sentences else pieces_of(cut),
        lines=sentence_lines(cut) if of_sentences else [],
        number=len(cut.ends),
        along=along_the_text(cut),
        grid=grid_of(cut),
    )
    return write_whole(target, page)


def readable(text: str) -> str:
    r"""A text to be read on a page: white space is a space, and what could turn a line round is seen.

    >>> readable("two\nwords\x07 \u202eevil")
    'two words<U+7> <U+202E>evil'
    """
    if text.isprintable():
        return text
    return "".join(" " if c.isspace() else c if c in WITHIN_WORDS else visible(c) for c in text)


def pieces_of(cut: Cut) -> list[Piece]:
    """The segments of a text that was cut by topics, sentence by sentence."""
    made, first = [], 0
    for end in cut.ends:
        lines = [_line(cut, first, part, part, chosen=part == end) for part in range(first, end + 1)]
        made.append(Piece(lines, first + 1, end + 1, float(cut.strength[end]), heads_named(cut.why(end))))
        first = end + 1
    return made


def sentence_lines(cut: Cut) -> list[Line]:
    """The sentences of a text that was cut into sentences, each with the boundary that closes it."""
    firsts = [0, *(end + 1 for end in cut.ends[:-1])]
    return [_line(cut, first, first, end, chosen=True) for first, end in zip(firsts, cut.ends, strict=True)]


def _line(cut: Cut, opened: int, first: int, last: int, *, chosen: bool) -> Line:
    """Parts that stand in one line, of the segment that the part `opened` opens."""
    (start, _), (_, end) = cut.parts[first], cut.parts[last]
    strength = float(cut.strength[last]) if last < len(cut.parts) - 1 else None
    told = strength is not None and (chosen or strength >= NEAR_MISS)
    apart = first > opened and cut.text[cut.parts[first - 1][1] : start].count("\n") > 1
    return Line(readable(cut.text[start:end]), strength, chosen, apart, heads_named(cut.why(last)) if told else "")


def heads_named(why: tuple[DecidingHead, ...]) -> str:
    """The heads that decided, for a line of text."""
    return ", ".join(map(str, why))


def along_the_text(cut: Cut) -> list[tuple[float, float, bool]]:
    """Every boundary but the text's end, for a picture: its place from 0 to 1, its strength, whether it was chosen.

    Of a long text, those that were not chosen are thinned out: of neighbours that would share a column the strongest
    stays.
    """
    last = len(cut.parts) - 1
    if last < 1:
        return []
    place = (np.arange(last) + 1) / (last + 1)  # (N - 1,)
    chosen = np.isin(np.arange(last), cut.ends)
    strongest: dict[int, int] = {}  # by column
    for k in np.flatnonzero(~chosen).tolist():
        column = int(place[k] * COLUMNS)
        if column not in strongest or cut.strength[k] > cut.strength[strongest[column]]:
            strongest[column] = k
    shown = sorted({*strongest.values(), *np.flatnonzero(chosen).tolist()})
    return [(float(place[k]), float(cut.strength[k]), bool(chosen[k])) for k in shown]


def grid_of(cut: Cut) -> Grid:
    """What each head weighs in the decision, at its place in the model."""
    weights = cut.weights
    if cut.grain == "topics":
        heads, own = weights.topics.heads, weights.topics.weights  # (H,)
    else:
        heads, own = weights.sentences.heads, weights.sentences.moves  # (H,)
    total, largest = max(float(own.sum()), 1e-300), max(float(own.max()), 1e-300)
    cells = [
        Cell(layer, head, float(value) / total, float(value) / largest)
        for (layer, head), value in zip(heads, own, strict=True)
        if value > 0
    ]
    shape = dict(weights.model.get("stacks", {})).get(weights.stack, {})
    layers = max(int(shape.get("layers", 0)), 1 + max(layer for layer, _ in heads))
    return Grid(layers, max(int(shape.get("heads", 0)), 1 + max(head for _, head in heads)), cells)
