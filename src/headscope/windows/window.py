"""A window: at most T tokens of a text, with everything the method needs to know of each token."""

from __future__ import annotations

import unicodedata
from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headscope.errors import HeadscopeError
from headscope.windows.text import first_visible, stands_alone, visible, words_between

CATEGORIES = ("start", "end", "stop", "punctuation", "word")
START, END, STOP, PUNCTUATION, WORD = range(5)
NO_WORDS = "words and sentences are not known: the tokens came without their text"
NONE = -1  # the sentence, word or part of a token that belongs to none

COLUMNS = ("ids", "types", "category", "sentence", "word", "span", "part", "unknown")  # an entry for each token

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Window:
    """The tokens of one window, one entry each.

    `sentence` counts from 0 over the whole text, not the window; `word` numbers are equal for pieces of one word;
    `span` is the characters a token stands for, in `texts[part]`. Special tokens have -1 in all of them.
    `first` and `total` tell which of the text's own tokens the window shows.
    """

    ids: Ints  # (T,)
    types: Ints  # (T,)
    category: Ints  # (T,), index into CATEGORIES
    sentence: Ints  # (T,)
    word: Ints  # (T,)
    span: Ints  # (T, 2)
    part: Ints  # (T,)
    unknown: NDArray[np.bool_]  # (T,): stands for characters that the tokenizer has no token for
    tokens: tuple[str, ...]
    texts: tuple[str, ...]
    first: int
    total: int
    sentences: int  # how many the splitter finds in the whole text

    def __len__(self) -> int:
        return len(self.ids)

    def __reduce__(self) -> tuple[Any, ...]:
        """For processes that cut texts: an array of small numbers is sent faster than eight of large ones."""
        rows = np.stack([*(getattr(self, name) for name in COLUMNS if name != "span"), *self.span.T])
        small = rows.astype(np.int32)
        rows = small if np.array_equal(small, rows) else rows
        return _from_rows, (rows, self.tokens, self.texts, self.first, self.total, self.sentences)

    @property
    def described(self) -> bool:
        """Whether words and sentences are known: not of tokens that came without their text."""
        return bool(self.texts)

    @property
    def special(self) -> NDArray[np.bool_]:
        """Which tokens are special, and so left out of the similarity statistics unless asked for."""
        return self.category <= END

    def counting(self, special: bool) -> NDArray[np.bool_]:
        """Which tokens take part in the similarity statistics: all but special ones, or with `special` all."""
        return np.ones(len(self), dtype=bool) if special else ~self.special

    @property
    def words(self) -> tuple[str, ...]:
        """Each token's word as written, case folded; empty for a special token."""
        texts: dict[int, str] = {}
        for part, text in enumerate(self.texts):
            places = np.flatnonzero(self.part == part)
            if not len(places):
                continue
            spans = words_between(text, int(self.span[places, 0].min()), int(self.span[places, 1].max()))
            starts = [a for a, _ in spans]
            for place in places:
                a, b = self.span[place]
                k = word_at(text, first_visible(text, a, b), spans, starts)
                texts[int(place)] = (text[slice(*spans[k])] if k >= 0 else text[a:b]).strip().casefold()
        return tuple(texts.get(place, "") for place in range(len(self)))

    def repeats(self, by: str) -> Ints:
        """Numbers that are equal for repeated tokens: the token ids, or with "word" a number for each written word."""
        if by == "token":
            return self.ids
        if not self.described:
            raise HeadscopeError(NO_WORDS, 'give text= and offsets=, or take repeated="token"')
        numbers: dict[str, int] = {"": NONE}
        word_numbers = np.array([numbers.setdefault(word, len(numbers)) for word in self.words], dtype=np.int64)
        # Of a character that is spread over several tokens, the first one stands for it.
        word_numbers[1:][(self.span[1:] == self.span[:-1]).all(1) & (self.part[1:] >= 0)] = NONE
        return word_numbers

    def _end(self, k: int) -> int:
        """Where the k-th token's characters end, with the marks that belong to the last of them.

        A tokenizer that strips accents stands for the letter alone where the accent is a character of its own.
        """
        end, part = int(self.span[k, 1]), self.part[k]
        following = k + 1 < len(self) and self.part[k + 1] == part and self.span[k + 1, 0] < self.span[k + 1, 1]
        limit = int(self.span[k + 1, 0]) if following else len(self.texts[part])
        while end < limit and unicodedata.combining(self.texts[part][end]):
            end += 1
        return end

    @property
    def labels(self) -> tuple[str, ...]:
        """Each token as something a person can read: the text's own characters where the token has any.

        A token that is unknown to the tokenizer says so, because the model cannot tell it from any other such.
        """
        labels = []
        for k, (token, part, (a, b)) in enumerate(zip(self.tokens, self.part, self.span, strict=True)):
            if part < 0 or a == b:
                labels.append(visible(token))
                continue
            piece = _piece(self.texts[part], a, self._end(k))
            # A piece within a word keeps its mark, and takes its letters from the text: "##ön", not "##on".
            label = visible(f"##{piece}" if token.startswith("##") and token != piece else piece)
            labels.append(f"{visible(token)}:{label}" if self.unknown[k] else label)
        return tuple(labels)


def _from_rows(rows: NDArray[np.integer[Any]], *others: Any) -> Window:
    """The window of which `__reduce__` made this.

    >>> import pickle, headscope
    >>> seen = headscope.load().inspect("It rains.").window
    >>> sent = pickle.loads(pickle.dumps(seen))
    >>> sent.labels == seen.labels, sent.span.tolist() == seen.span.tolist(), sent.ids.dtype, sent.unknown.dtype
    (True, True, dtype('int64'), dtype('bool'))
    """
    own = rows.astype(np.int64)
    columns = dict(zip((name for name in COLUMNS if name != "span"), own, strict=False))
    columns |= {"span": np.ascontiguousarray(own[-2:].T), "unknown": columns["unknown"].astype(bool)}
    return Window(*(columns[name] for name in COLUMNS), *others)


def spellings(window: Window) -> dict[int, str]:
    """How each token id of a window is written in it, most often: "the" and "The" may be one token.

    >>> import headscope
    >>> seen = headscope.load().inspect("Schön, schöner, schon.")
    >>> [written for written in spellings(seen.window).values() if written.startswith("##")]
    ['##ön', '##öne', '##r']
    """
    written: dict[int, Counter[str]] = {}
    for token, label in zip(window.ids.tolist(), window.labels, strict=True):
        written.setdefault(token, Counter())[label] += 1
    return {token: counts.most_common(1)[0][0] for token, counts in written.items()}


def word_at(text: str, at: int, spans: Sequence[tuple[int, int]], starts: Sequence[int]) -> int:
    """Which word the character at a place is in; -1 where it is in none, or its token is a word of its own."""
    k = bisect_right(starts, at) - 1
    return k if at >= 0 and k >= 0 and at < spans[k][1] and not stands_alone(text[at]) else -1


def _piece(text: str, start: int, end: int) -> str:
    piece = text[start:end]
    return piece.strip() or piece


def first_is_special(window: Window) -> Window:
    """Position 0 of a causal model is its attention sink, so without a start token it is treated as one."""
    category, sentence, word = window.category.copy(), window.sentence.copy(), window.word.copy()
    category[:1], sentence[:1], word[:1] = START, NONE, NONE
    return replace(window, category=category, sentence=sentence, word=word)


def shifted_window(window: Window, start_id: int, tokenizer: Any) -> Window:
    """What an encoder-decoder's decoder reads: the same tokens, moved right by one behind its start token."""
    first = special_tokens(tokenizer, [start_id], START, 0)
    last = replace(window, **{name: getattr(window, name)[:-1] for name in COLUMNS}, tokens=window.tokens[:-1])
    return joined_windows([first, last], window.first, window.total, window.texts, window.sentences)


def piece_of(part: Window, a: int, b: int) -> Window:
    """The tokens from number a up to but not including number b."""
    return replace(part, **{name: getattr(part, name)[a:b] for name in COLUMNS}, tokens=part.tokens[a:b])


def special_tokens(tokenizer: Any, ids: Sequence[int], category: int, kind: int) -> Window:
    """Tokens that stand for no character of the text."""
    n = len(ids)
    none = np.full(n, NONE, dtype=np.int64)
    return Window(
        np.array(ids, dtype=np.int64),
        np.full(n, kind, dtype=np.int64),
        np.full(n, category, dtype=np.int64),
        none,
        none,
        np.zeros((n, 2), dtype=np.int64),
        none,
        np.zeros(n, dtype=bool),
        tuple(tokenizer.convert_ids_to_tokens(list(ids))) if n else (),
        (),
        0,
        0,
        0,
    )


def joined_windows(rows: list[Window], first: int, total: int, texts: tuple[str, ...], sentences: int) -> Window:
    """Tokens that follow each other, as one window."""
    joined = {name: np.concatenate([getattr(row, name) for row in rows]) for name in COLUMNS}
    tokens = tuple(token for row in rows for token in row.tokens)
    return Window(**joined, tokens=tokens, texts=texts, first=first, total=total, sentences=sentences)
