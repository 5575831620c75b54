"""A window: at most T tokens of a text, with everything the method needs to know of each token."""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headscope.choices import Windows
from headscope.errors import HeadscopeError
from headscope.texts import check_text
from headscope.windows.template import Template
from headscope.windows.text import (
    first_visible,
    holds_word,
    only_closers,
    sentence_spans,
    stands_alone,
    visible,
    word_spans,
)

CATEGORIES = ("start", "end", "stop", "punctuation", "word")
START, END, STOP, PUNCTUATION, WORD = range(5)
BROKEN = "\ufffd"  # what decoders put for bytes that make no character
NONE = -1  # the sentence, word or part of a token that belongs to none

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
            spans = word_spans(text)
            starts = [a for a, _ in spans]
            for place in np.flatnonzero(self.part == part):
                a, b = self.span[place]
                k = _word_at(text, first_visible(text, a, b), spans, starts)
                texts[int(place)] = (text[slice(*spans[k])] if k >= 0 else text[a:b]).strip().casefold()
        return tuple(texts.get(place, "") for place in range(len(self)))

    def repeats(self, by: str) -> Ints:
        """Numbers that are equal for repeated tokens: the token ids, or with "word" a number for each written word."""
        if by == "token":
            return self.ids
        numbers: dict[str, int] = {"": NONE}
        word_numbers = np.array([numbers.setdefault(word, len(numbers)) for word in self.words], dtype=np.int64)
        # Of a character that is spread over several tokens, the first one stands for it.
        word_numbers[1:][(self.span[1:] == self.span[:-1]).all(1) & (self.part[1:] >= 0)] = NONE
        return word_numbers

    @property
    def labels(self) -> tuple[str, ...]:
        """Each token as something a person can read: the text's own characters where the token has any.

        A token that is unknown to the tokenizer says so, because the model cannot tell it from any other such.
        """
        labels = []
        for k, (token, part, (a, b)) in enumerate(zip(self.tokens, self.part, self.span, strict=True)):
            plain = part < 0 or a == b or token.startswith("##")
            label = visible(token if plain else _piece(self.texts[part], a, b))
            labels.append(f"{visible(token)}:{label}" if self.unknown[k] and not plain else label)
        return tuple(labels)


def _word_at(text: str, at: int, spans: Sequence[tuple[int, int]], starts: Sequence[int]) -> int:
    """Which word the character at a place is in; -1 where it is in none, or its token is a word of its own."""
    k = bisect_right(starts, at) - 1
    return k if at >= 0 and k >= 0 and at < spans[k][1] and not stands_alone(text[at]) else -1


def _piece(text: str, start: int, end: int) -> str:
    piece = text[start:end]
    return piece.strip() or piece


def window(
    text: str,
    pair: str | None,
    tokenizer: Any,
    template: Template,
    *,
    length: int = 128,
    start: int = 0,
    causal: bool = False,
    language: str = "en",
) -> Window:
    """Cut the window of at most `length` tokens that begins with the text's token number `start`.

    >>> import headscope
    >>> model = headscope.load()
    >>> cut = window('It rains. "Come in!" he said.', None, model.tokenizer, model.template)
    >>> [(token, CATEGORIES[c], int(s)) for token, c, s in zip(cut.tokens, cut.category, cut.sentence)][2:7]
    [('rain', 'word', 0), ('##s', 'word', 0), ('.', 'stop', 0), ('"', 'punctuation', 1), ('come', 'word', 1)]
    """
    parts = [_read(text, 0, tokenizer, language, 0)]
    if pair is not None:
        sentences, words = parts[0].sentences, int(parts[0].word.max(initial=-1)) + 1
        second = _read(pair, 1, tokenizer, language, template.pair_type)
        shifted = replace(second, sentence=second.sentence + sentences, word=second.word + words)
        parts.append(shifted)
    around = (
        (template.start, template.end)
        if pair is None
        else (template.pair_start, template.pair_middle, template.pair_end)
    )
    cut = _cut(parts, _room(length, around), start)
    return _assemble(parts, cut, start, around, tokenizer, causal)


def corpus_windows(
    text: str,
    tokenizer: Any,
    template: Template,
    *,
    length: int,
    choice: Windows = "first",
    seed: int = 0,
    causal: bool = False,
    language: str = "en",
) -> list[Window]:
    """The windows of one text of a collection: its first one, all of them one after the other, or one at random.

    The random one depends on the seed and the text alone, so it is the same in whatever order texts are read.

    >>> import headscope
    >>> model = headscope.load()
    >>> windows = corpus_windows("One. Two. Three. Four.", model.tokenizer, model.template, length=6, choice="all")
    >>> [" ".join(each.tokens) for each in windows]
    ['[CLS] one . two . [SEP]', '[CLS] three . four . [SEP]']
    """
    around = (template.start, template.end)
    room = _room(length, around)
    part = _read(text, 0, tokenizer, language, 0, upto=room if choice == "first" else None)
    starts = [0]
    if choice == "all":
        starts = list(range(0, len(part), room))
    elif choice == "random" and len(part) > room:
        digest = hashlib.sha256(f"{seed}\x00{text}".encode()).digest()
        starts = [int.from_bytes(digest[:8]) % (len(part) - room + 1)]
    return [
        _assemble([part], [_slice(part, start, start + room)], start, around, tokenizer, causal) for start in starts
    ]


def _room(length: int, around: Sequence[Sequence[int]]) -> int:
    """How many of a text's own tokens fit between the template's."""
    room = length - sum(map(len, around))
    if room < 1:
        raise HeadscopeError(f"a window of {length} tokens has no room for text", "ask for a longer window")
    return room


def window_from_ids(
    ids: Sequence[int], tokenizer: Any, template: Template, *, causal: bool = False, language: str = "en"
) -> Window:
    """A window of exactly these token ids; the template's tokens at either end count as special if they are there."""
    values = [int(i) for i in ids]
    before = len(template.start) if tuple(values[: len(template.start)]) == template.start else 0
    text_end = len(values) - len(template.end)
    after = (
        text_end if template.end and text_end >= before and tuple(values[text_end:]) == template.end else len(values)
    )
    inner = values[before:after]
    text, spans = _decode(inner, tokenizer)
    part = _describe(inner, [0] * len(inner), spans, text, 0, tokenizer, language)
    rows = [_special(tokenizer, values[:before], START, 0), part, _special(tokenizer, values[after:], END, 0)]
    whole = _join(rows, 0, len(inner), (text,), part.sentences)
    return first_is_special(whole) if causal and not before else whole


def first_is_special(window: Window) -> Window:
    """Position 0 of a causal model is its attention sink, so without a start token it is treated as one."""
    category, sentence, word = window.category.copy(), window.sentence.copy(), window.word.copy()
    category[:1], sentence[:1], word[:1] = START, NONE, NONE
    return replace(window, category=category, sentence=sentence, word=word)


def shifted_window(window: Window, start_id: int, tokenizer: Any) -> Window:
    """What an encoder-decoder's decoder reads: the same tokens, moved right by one behind its start token."""
    first = _special(tokenizer, [start_id], START, 0)
    last = replace(window, **{name: getattr(window, name)[:-1] for name in _COLUMNS}, tokens=window.tokens[:-1])
    return _join([first, last], window.first, window.total, window.texts, window.sentences)


# ---------------------------------------------------------------------- one text's tokens

_COLUMNS = ("ids", "types", "category", "sentence", "word", "span", "part", "unknown")


def _read(text: str, part: int, tokenizer: Any, language: str, kind: int, *, upto: int | None = None) -> Window:
    """The tokens of a text, or the first so many of them."""
    check_text(text)
    encoding = tokenizer(text, add_special_tokens=False, verbose=False)[0]
    if not encoding.ids:
        raise HeadscopeError("the tokenizer makes no token of this text", "give a text with visible characters")
    types = [kind] * len(encoding.ids)
    return _describe(encoding.ids, types, encoding.offsets, text, part, tokenizer, language, upto)


def _describe(
    ids: Sequence[int],
    types: Sequence[int],
    spans: Sequence[tuple[int, int]],
    text: str,
    part: int,
    tokenizer: Any,
    language: str,
    upto: int | None = None,
) -> Window:
    """Category, sentence and word of each token, or of the first so many, before any window is cut."""
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
        k = _word_at(text, at, words, word_starts)
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
        np.array(types[:number], dtype=np.int64),
        np.array(category[:number], dtype=np.int64),
        np.array(sentence[:number], dtype=np.int64),
        np.array(word[:number], dtype=np.int64),
        np.array(spans[:number], dtype=np.int64).reshape(-1, 2),
        np.full(number, part, dtype=np.int64),
        own == (-1 if tokenizer.unk_token_id is None else tokenizer.unk_token_id),
        tuple(tokenizer.convert_ids_to_tokens(own.tolist())),
        (text,),
        0,
        len(ids),
        len(sentences),
    )


def _decode(ids: Sequence[int], tokenizer: Any) -> tuple[str, list[tuple[int, int]]]:
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


# ---------------------------------------------------------------------- putting a window together


def _assemble(
    parts: Sequence[Window],
    cut: Sequence[Window],
    start: int,
    around: Sequence[Sequence[int]],
    tokenizer: Any,
    causal: bool,
) -> Window:
    """The pieces that were cut out, with the template's tokens around them."""
    rows = [_special(tokenizer, around[0], START, 0)]
    for part, special in zip(cut, around[1:], strict=True):
        rows += [part, _special(tokenizer, special, END, int(part.types[-1]) if len(part) else 0)]
    whole = _join(
        rows,
        start,
        sum(each.total for each in parts),
        tuple(p.texts[0] for p in parts),
        sum(p.sentences for p in parts),
    )
    return first_is_special(whole) if causal and not around[0] else whole


def _cut(parts: list[Window], room: int, start: int) -> list[Window]:
    if len(parts) == 1:
        if not 0 <= start < len(parts[0]):
            raise HeadscopeError(
                f"the window cannot start at token {start}: the text has {len(parts[0])}",
                f"use a start from 0 to {len(parts[0]) - 1}",
            )
        return [_slice(parts[0], start, start + room)]
    if room < 2:
        raise HeadscopeError("the window has no room for two texts", "ask for a longer window")
    if start:
        raise HeadscopeError("start= moves the window of a single text, not of a pair", "leave it out")
    sizes = [len(part) for part in parts]
    while sum(sizes) > room:  # the longer of the two gives way
        sizes[int(sizes[0] < sizes[1])] -= 1
    return [_slice(part, 0, size) for part, size in zip(parts, sizes, strict=True)]


def _slice(part: Window, a: int, b: int) -> Window:
    return replace(part, **{name: getattr(part, name)[a:b] for name in _COLUMNS}, tokens=part.tokens[a:b])


def _special(tokenizer: Any, ids: Sequence[int], category: int, kind: int) -> Window:
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


def _join(rows: list[Window], first: int, total: int, texts: tuple[str, ...], sentences: int) -> Window:
    joined = {name: np.concatenate([getattr(row, name) for row in rows]) for name in _COLUMNS}
    tokens = tuple(token for row in rows for token in row.tokens)
    return Window(**joined, tokens=tokens, texts=texts, first=first, total=total, sentences=sentences)
