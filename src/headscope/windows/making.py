"""Cutting windows out of texts: one window that is looked at, or those of a text of a collection."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from headscope.choices import Windows
from headscope.errors import HeadscopeError
from headscope.windows.template import Template
from headscope.windows.tokens import TokenNames, decode_ids, describe, read_tokens
from headscope.windows.window import (
    END,
    START,
    Window,
    first_is_special,
    joined_windows,
    piece_of,
    special_tokens,
)


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
    >>> from headscope.windows import CATEGORIES
    >>> model = headscope.load()
    >>> cut = window('It rains. "Come in!" he said.', None, model.tokenizer, model.template)
    >>> [(token, CATEGORIES[c], int(s)) for token, c, s in zip(cut.tokens, cut.category, cut.sentence)][2:7]
    [('rain', 'word', 0), ('##s', 'word', 0), ('.', 'stop', 0), ('"', 'punctuation', 1), ('come', 'word', 1)]
    """
    parts = [read_tokens(text, 0, tokenizer, language, 0)]
    if pair is not None:
        sentences, words = parts[0].sentences, int(parts[0].word.max(initial=-1)) + 1
        second = read_tokens(pair, 1, tokenizer, language, template.pair_type)
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
    part = read_tokens(text, 0, tokenizer, language, 0, upto=room if choice == "first" else None)
    starts = [0]
    if choice == "all":
        starts = list(range(0, len(part), room))
    elif choice == "random" and len(part) > room:
        digest = hashlib.sha256(f"{seed}\x00{text}".encode()).digest()
        starts = [int.from_bytes(digest[:8]) % (len(part) - room + 1)]
    return [
        _assemble([part], [piece_of(part, start, start + room)], start, around, tokenizer, causal) for start in starts
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
    text, spans = decode_ids(inner, tokenizer)
    part = describe(inner, spans, text, TokenNames.of(tokenizer), language)
    rows = [
        special_tokens(tokenizer, values[:before], START, 0),
        part,
        special_tokens(tokenizer, values[after:], END, 0),
    ]
    whole = joined_windows(rows, 0, len(inner), (text,), part.sentences)
    return first_is_special(whole) if causal and not before else whole


def _assemble(
    parts: Sequence[Window],
    cut: Sequence[Window],
    start: int,
    around: Sequence[Sequence[int]],
    tokenizer: Any,
    causal: bool,
) -> Window:
    """The pieces that were cut out, with the template's tokens around them."""
    rows = [special_tokens(tokenizer, around[0], START, 0)]
    for part, special in zip(cut, around[1:], strict=True):
        rows += [part, special_tokens(tokenizer, special, END, int(part.types[-1]) if len(part) else 0)]
    whole = joined_windows(
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
        return [piece_of(parts[0], start, start + room)]
    if room < 2:
        raise HeadscopeError("the window has no room for two texts", "ask for a longer window")
    if start:
        raise HeadscopeError("start= moves the window of a single text, not of a pair", "leave it out")
    sizes = [len(part) for part in parts]
    while sum(sizes) > room:  # the longer of the two gives way
        sizes[int(sizes[0] < sizes[1])] -= 1
    return [piece_of(part, 0, size) for part, size in zip(parts, sizes, strict=True)]
