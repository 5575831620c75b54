"""A window whose tokens come from elsewhere: from another library, another tokenizer, another language."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from headscope.errors import HeadscopeError
from headscope.texts import check_text
from headscope.windows.tokens import TokenNames, describe
from headscope.windows.window import COLUMNS, END, NONE, START, WORD, Window, first_is_special


def given_window(
    tokens: Sequence[str] | None = None,
    ids: Sequence[int] | None = None,
    text: str | None = None,
    offsets: Any = None,
    special: Any = None,
    *,
    causal: bool = False,
    language: str = "en",
) -> Window:
    """The window of tokens that somebody else has cut.

    `offsets` tell which characters of `text` each token stands for, as (first, one past the last). Tokens that
    `special` names, or that stand for no character, are special: those in front are at the start, the others at the
    end. Without text and offsets there are no words and sentences.

    >>> cut = given_window(["<s>", "It", " rains", "."], text="It rains.", offsets=[(0, 0), (0, 2), (2, 8), (8, 9)])
    >>> cut.category.tolist(), cut.sentence.tolist(), cut.labels
    ([0, 4, 4, 2], [-1, 0, 0, 0], ('<s>', 'It', 'rains', '.'))
    >>> given_window(["It", "rains"]).described
    False
    """
    names, numbers = _names_and_ids(tokens, ids)
    size = len(names)
    spans = _spans(text, offsets, size)
    own = ~_special(special, spans, size)
    if not own.any():
        raise HeadscopeError("all tokens are special", "give some that stand for a text")
    category = np.where(np.arange(size) < int(own.argmax()), START, END)
    columns: dict[str, Any] = {name: np.full(size, NONE, dtype=np.int64) for name in COLUMNS}
    columns |= {"ids": numbers, "category": category, "types": np.zeros(size, dtype=np.int64)}
    columns |= {"span": np.zeros((size, 2), dtype=np.int64), "unknown": np.zeros(size, dtype=bool)}
    columns["part"][own] = 0
    columns["category"][own] = WORD
    sentences = 0
    if text is not None and spans is not None:
        check_text(text)
        every = describe(numbers[own].tolist(), spans[own].tolist(), text, TokenNames(lambda each: names), language)
        for name in ("category", "sentence", "word", "span"):
            columns[name][own] = getattr(every, name)
        sentences = every.sentences
    texts = () if text is None else (text,)
    made = Window(**columns, tokens=names, texts=texts, first=0, total=int(own.sum()), sentences=sentences)
    return first_is_special(made) if causal and own[0] else made


def _names_and_ids(tokens: Sequence[str] | None, ids: Sequence[int] | None) -> tuple[tuple[str, ...], Any]:
    """How the tokens are written, and numbers that are equal for equal ones."""
    if tokens is None and ids is None:
        raise HeadscopeError("there are no tokens", "give tokens=, as strings, or ids=, or both")
    numbers = None if ids is None else np.asarray(ids, dtype=np.int64)
    if numbers is not None and (numbers.ndim != 1 or (numbers < 0).any()):
        raise HeadscopeError(f"ids of shape {numbers.shape}", "give one number from 0 for each token of one text")
    names = [str(each) for each in numbers.tolist()] if tokens is None else list(tokens)  # type: ignore[union-attr]
    wrong = next((each for each in names if not isinstance(each, str)), None)
    if wrong is not None:
        raise HeadscopeError(f"tokens hold {wrong!r}", "give strings; token ids are ids=")
    if numbers is None:
        places: dict[str, int] = {}
        numbers = np.array([places.setdefault(each, len(places)) for each in names], dtype=np.int64)
    if not names or len(names) != len(numbers):
        raise HeadscopeError(f"{len(names)} tokens and {len(numbers)} ids", "give one of each for every token")
    return tuple(names), numbers


def _spans(text: str | None, offsets: Any, size: int) -> Any:
    if (text is None) != (offsets is None):
        missing = "offsets" if offsets is None else "text"
        raise HeadscopeError(
            f"words and sentences need a text and where its tokens lie in it, and there is no {missing}",
            "give text= and offsets= (a fast tokenizer: return_offsets_mapping=True), or neither",
        )
    if text is None:
        return None
    spans = np.asarray(offsets, dtype=np.int64)
    if spans.shape != (size, 2):
        raise HeadscopeError(f"offsets of shape {spans.shape} for {size} tokens", "give (first, end) for each token")
    if (spans < 0).any() or (spans > len(text)).any() or (spans[:, 0] > spans[:, 1]).any():
        raise HeadscopeError(
            f"offsets lie outside the text of {len(text)} characters", "they are those of another text, or of bytes"
        )
    return spans


def _special(special: Any, spans: Any, size: int) -> Any:
    """Which tokens are special: as told, or those that stand for no character."""
    if special is None:
        return np.zeros(size, dtype=bool) if spans is None else spans[:, 0] == spans[:, 1]
    given = np.asarray(special)
    if given.shape != (size,):
        raise HeadscopeError(f"special of shape {given.shape} for {size} tokens", "give one truth value for each token")
    return given.astype(bool)
