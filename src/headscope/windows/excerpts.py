"""Excerpts of texts: as much as can be read at a glance, from a word to a word, with what is marked in it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headscope.windows.text import WORD_CHARACTER, in_a_line

LONGEST = 600  # characters of a text that are shown
BEFORE = 80  # characters before the first mark, where an excerpt does not begin with the text
ELLIPSIS = "…"


@dataclass(frozen=True, slots=True)
class Excerpt:
    """Pieces of a text one after the other, each marked or not."""

    pieces: tuple[tuple[str, bool], ...]

    def __str__(self) -> str:
        return "".join(text for text, _ in self.pieces)


def excerpt(
    text: str, marks: Sequence[tuple[int, int]], *, begins: bool = True, ends: bool = True, longest: int = LONGEST
) -> Excerpt:
    """The part of a text that holds most of the marks, given as characters; … stands where the text goes on.

    `begins` and `ends` say whether the text itself begins and ends here: a window may have cut it within a word.

    >>> excerpt("The river knew the ferryman, and the fer", [(4, 9)], ends=False).pieces
    (('The ', False), ('river', True), (' knew the ferryman, and the …', False))
    """
    start, end = _words(text, *_best(text, marks, longest), begins, ends)
    pieces: list[tuple[str, bool]] = []
    at = start
    for a, b in marks:
        a, b = max(a, at), min(b, end)
        if a >= b:
            continue
        a += len(text[a:b]) - len(text[a:b].lstrip())  # tokens of some models begin with the space before them
        pieces += [(text[at:a], False), (text[a:b], True)]
        at = b
    pieces.append((text[at:end], False))
    before = f"{ELLIPSIS} " if start > 0 or not begins else ""
    after = f" {ELLIPSIS}" if end < len(text.rstrip()) or not ends else ""
    shown = [(before, False), *((_shown(piece), marked) for piece, marked in pieces), (after, False)]
    return Excerpt(_joined(shown))


def _joined(pieces: Sequence[tuple[str, bool]]) -> tuple[tuple[str, bool], ...]:
    """Neighbours of one kind as one piece, without empty ones."""
    found: list[tuple[str, bool]] = []
    for text, marked in pieces:
        if text and found and found[-1][1] == marked:
            found[-1] = (found[-1][0] + text, marked)
        elif text:
            found.append((text, marked))
    return tuple(found)


def _shown(piece: str) -> str:
    """White space is one space, and what could turn a line round is seen."""
    return in_a_line("".join(" " if c.isspace() else c for c in piece))


def _best(text: str, marks: Sequence[tuple[int, int]], longest: int) -> tuple[int, int]:
    """Of the stretches that begin with the text or a little before a mark, the first that holds most marks."""
    if len(text) <= longest:
        return 0, len(text)
    starts = [0, *(max(0, a - BEFORE) for a, _ in marks)]
    held = [sum(start <= a and b <= start + longest for a, b in marks) for start in starts]
    start = starts[held.index(max(held))]
    return start, min(start + longest, len(text))


def _words(text: str, start: int, end: int, begins: bool, ends: bool) -> tuple[int, int]:
    """The same stretch from a word to a word, unless it is all one word."""
    first, last = start, end
    word_before = not text[start - 1].isspace() if start > 0 else not begins and _is_word(text[:1])
    word_after = not text[end].isspace() if end < len(text) else not ends and _is_word(text[-1:])
    if word_before:
        first = next((k for k in range(start, end) if text[k].isspace()), start)
    if word_after:
        last = next((k for k in range(end, first, -1) if text[k - 1].isspace()), end)
    while first < last and text[first].isspace():
        first += 1
    while last > first and text[last - 1].isspace():
        last -= 1
    return (first, last) if first < last else (start, end)


def _is_word(character: str) -> bool:
    return WORD_CHARACTER.match(character) is not None
