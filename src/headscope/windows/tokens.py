"""The tokens of one text, with category, sentence and word of each, before any window is cut."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from headscope.errors import HeadscopeError
from headscope.texts import check_text
from headscope.windows.text import first_visible, holds_word, only_closers, sentence_spans, word_spans
from headscope.windows.window import PUNCTUATION, STOP, WORD, Window, joined_windows, word_at

PIECE = 100_000  # characters that are split into sentences at once: hostile quotes take the splitter seconds
BROKEN = "\ufffd"  # what decoders put for bytes that make no character


@dataclass(frozen=True, slots=True)
class TokenNames:
    """How tokens are written, and which id stands for characters that have no token; None where there is none."""

    of_ids: Callable[[list[int]], Sequence[str]]
    unknown: int | None = None

    @classmethod
    def of(cls, tokenizer: Any) -> TokenNames:
        """Those of a tokenizer."""
        return cls(tokenizer.convert_ids_to_tokens, tokenizer.unk_token_id)


def read_tokens(text: str, part: int, tokenizer: Any, language: str, kind: int, *, upto: int | None = None) -> Window:
    """The tokens of a text, or the first so many of them. A long text is read piece by piece."""
    check_text(text)
    names, total, sentences, words = TokenNames.of(tokenizer), 0, 0, 0
    rows: list[Window] = []
    for begin, end in pieces_of(text):
        piece = text[begin:end]
        encoding = tokenizer(piece, add_special_tokens=False, verbose=False)[0]
        wanted = None if upto is None else upto - total
        if encoding.ids and (wanted is None or wanted > 0):
            row = describe(encoding.ids, encoding.offsets, piece, names, language, wanted)
            row.span[:] += begin
            rows.append(replace(row, sentence=row.sentence + sentences, word=row.word + words))
            sentences, words = sentences + row.sentences, words + int(row.word.max()) + 1
        elif encoding.ids:
            sentences += len(sentence_spans(piece, language))
        total += len(encoding.ids)
    if not rows:
        raise HeadscopeError("the tokenizer makes no token of this text", "give a text with visible characters")
    whole = joined_windows(rows, 0, total, (text,), sentences)
    whole.part[:], whole.types[:] = part, kind
    return whole


def pieces_of(text: str) -> Iterator[tuple[int, int]]:
    """Where a text is cut, so that no piece is longer than the sentence splitter takes: mostly between paragraphs.

    >>> list(pieces_of("A short text."))
    [(0, 13)]
    """
    begin = 0
    while len(text) - begin > PIECE:
        end = _place_to_cut(text, begin + PIECE // 2, begin + PIECE)
        yield begin, end
        begin = end
    yield begin, len(text)


def _place_to_cut(text: str, first: int, last: int) -> int:
    """The last end of a paragraph in a range, or of a line, a sentence, a word; or else the end of the range."""
    for mark, taken in (("\n\n", 0), ("\n", 0), (". ", 1), (" ", 0)):
        place = text.rfind(mark, first, last)
        if place > 0:
            return place + taken
    return last


def describe(
    ids: Sequence[int],
    spans: Sequence[tuple[int, int]],
    text: str,
    names: TokenNames,
    language: str,
    upto: int | None = None,
) -> Window:
    """Category, sentence and word of each token of a text, or of the first so many, before any window is cut."""
    sentences, words = sentence_spans(text, language), word_spans(text)
    sentence_starts, word_starts = [a for a, _ in sentences], [a for a, _ in words]
    sentence: list[int] = []
    word: list[int] = []
    category: list[int] = []
    next_word, last = len(words), {}  # number for a token outside all words; each sentence's last token but closers
    number = len(ids) if upto is None else min(upto, len(ids))
    for place, (a, b) in enumerate(spans):
        at = first_visible(text, a, b)
        # A token of white space alone has no visible character: it stays with what stands before it.
        where = max(bisect_right(sentence_starts, at if at >= 0 else a) - 1, 0)
        if place >= number and where > sentence[number - 1]:
            break  # the last sentence that counts is over: no token of it is the stop any more
        sentence.append(where)
        k = word_at(text, at, words, word_starts)
        if k >= 0:
            word.append(k)
        else:
            word.append(next_word)
            next_word += 1
        piece = text[a:b]
        category.append(WORD if holds_word(piece) else PUNCTUATION)
        if at >= 0 and not only_closers(piece):
            last[sentence[-1]] = place
    for place in last.values():
        if not holds_word(text[slice(*spans[place])]):
            category[place] = STOP
    own = np.array(ids[:number], dtype=np.int64)
    return Window(
        own,
        np.zeros(number, dtype=np.int64),
        np.array(category[:number], dtype=np.int64),
        np.array(sentence[:number], dtype=np.int64),
        np.array(word[:number], dtype=np.int64),
        np.array(spans[:number], dtype=np.int64).reshape(-1, 2),
        np.zeros(number, dtype=np.int64),
        own == (-1 if names.unknown is None else names.unknown),
        tuple(names.of_ids(own.tolist())),
        (text,),
        0,
        len(ids),
        len(sentences),
    )


def decode_ids(ids: Sequence[int], tokenizer: Any) -> tuple[str, list[tuple[int, int]]]:
    """The text of token ids, and which characters each one added to it.

    A character may be spread over several tokens. Until its last one comes, decoding ends in replacement characters,
    of a number that means nothing; when it is whole, all of these tokens stand for it.
    """
    spans: list[tuple[int, int]] = []
    broken, stable = "", 0  # the last text that ended in such characters; how much was whole before it

    def close(text: str, upto: int) -> int:
        begin = stable if len(text) > stable else max(len(text) - 1, 0)
        spans.extend([(begin, len(text))] * (upto - len(spans)))
        return len(text)

    text = ""
    for k in range(1, len(ids) + 1):
        text = tokenizer.decode(ids[:k], skip_special_tokens=False, clean_up_tokenization_spaces=False)
        if text.endswith(BROKEN) and k < len(ids):
            broken = text
            continue
        if broken and len(spans) < k - 1 and text.startswith(broken):  # they are the text's own characters
            stable = close(broken, k - 1)
        stable, broken = close(text, k), ""
    return text, spans
