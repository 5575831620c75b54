"""The parts of a text between which it may be cut: its sentences, as token ids, none longer than a model reads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from headscope.segmentation.cut import Span
from headscope.windows.text import sentence_spans

if TYPE_CHECKING:
    from headscope.models.model import Model

AT_ONCE = 20_000  # characters that the splitter is given: its time grows faster than they do
TOGETHER = 512  # sentences that are tokenized at a time
LONGEST = 128  # tokens of a part, special ones included, where a model reads more


@dataclass(frozen=True, slots=True)
class Part:
    """A sentence, or a piece of one that is too long to be read at once."""

    span: Span
    ids: NDArray[np.int32]  # its own tokens; none where the tokenizer drops all its characters


def sentences_of(text: str, language: str = "en") -> Iterator[Span]:
    """The sentences of a text of any length, without the white space around them.

    The splitter reads some pages at a time. The last sentence of these is read again with what follows, so that
    where they end does not matter.

    >>> text = " It rains. " * 4_000
    >>> spans = list(sentences_of(text))
    >>> len(spans), {text[a:b] for a, b in spans}
    (4000, {'It rains.'})
    """
    start = 0
    while start < len(text):
        end = min(start + AT_ONCE, len(text))
        if end < len(text):  # not within a word
            space = max(text.rfind(" ", start + AT_ONCE // 2, end), text.rfind("\n", start + AT_ONCE // 2, end))
            end = space + 1 if space >= 0 else end
        spans = sentence_spans(text[start:end], language)
        again = end < len(text) and len(spans) > 1
        for a, b in spans[:-1] if again else spans:
            stripped = text[start + a : start + b].strip()
            first = text.index(stripped[:1], start + a)
            yield first, first + len(stripped)
        start = start + spans[-1][0] if again else end


def parts_of(text: str, model: Model, language: str = "en", most: int | None = None) -> Iterator[Part]:
    """The sentences of a text with their tokens, those that are too long cut between words.

    A part has no more tokens than a model reads at once, and than `most`.

    >>> import headscope
    >>> model = headscope.load()
    >>> [len(part.ids) for part in parts_of("It rains. " + "Rain and " * 100 + "rain.", model)]
    [4, 126, 76]
    """
    limit = room(model) if most is None else min(room(model), most)
    waiting: list[Span] = []
    for span in sentences_of(text, language):
        waiting.append(span)
        if len(waiting) == TOGETHER:
            yield from _tokenized(text, waiting, model, limit)
            waiting = []
    yield from _tokenized(text, waiting, model, limit)


def _tokenized(text: str, spans: Sequence[Span], model: Model, limit: int) -> Iterator[Part]:
    if not spans:
        return
    encoded = model.tokenizer([text[a:b] for a, b in spans], add_special_tokens=False, verbose=False)
    for number, (start, _) in enumerate(spans):
        encoding = encoded[number]
        for first, last in _pieces(encoding.word_ids, limit):
            ids = np.array(encoding.ids[first:last], dtype=np.int32)
            a = encoding.offsets[first][0] if first else 0
            b = encoding.offsets[last][0] if last < len(encoding.ids) else spans[number][1] - start
            piece = text[start + a : start + b]
            lead = len(piece) - len(piece.lstrip())
            yield Part((start + a + lead, start + a + len(piece.rstrip())), ids)


def _pieces(words: Sequence[int | None], most: int) -> Iterator[tuple[int, int]]:
    """Runs of at most so many tokens, cut where a word begins if one does.

    >>> list(_pieces([0, 1, 1, 1, 2], 3)), list(_pieces([], 3))
    ([(0, 1), (1, 4), (4, 5)], [(0, 0)])
    """
    start = 0
    while len(words) - start > most:
        end = start + most
        while end > start and words[end] is not None and words[end] == words[end - 1]:
            end -= 1
        end = end if end > start else start + most
        yield start, end
        start = end
    yield start, len(words)


def room(model: Model) -> int:
    """How many of its own tokens a part may have."""
    around = len(model.template.start) + len(model.template.end)
    return max(1, min(LONGEST, model.max_length) - around)
