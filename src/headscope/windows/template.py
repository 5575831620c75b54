"""What a tokenizer puts around a text: read off its own output rather than off its name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Template:
    """The special ids before, between and after, for one text and for a pair of texts."""

    start: tuple[int, ...]
    end: tuple[int, ...]
    pair_start: tuple[int, ...]
    pair_middle: tuple[int, ...]
    pair_end: tuple[int, ...]
    pair_type: int  # the type id of the second text's tokens: 1 in BERT, 0 where the types do not differ


def read_template(tokenizer: Any) -> Template:
    """See where the tokenizer's template adds tokens, by encoding a text and a pair.

    A special token that is written out in the text itself ("[MASK]") is not the template's and is not counted.

    >>> import headscope
    >>> tokenizer = headscope.load().tokenizer
    >>> template = read_template(tokenizer)
    >>> tokenizer.convert_ids_to_tokens(template.start), tokenizer.convert_ids_to_tokens(template.end)
    (['[CLS]'], ['[SEP]'])
    """
    ids, places, _ = _encode(tokenizer, "one")
    first, last = places.index(0), len(places) - places[::-1].index(0)
    both, where, types = _encode(tokenizer, "one", "two")
    begin, after = where.index(0), where.index(1)
    middle = len(where) - where[::-1].index(0)
    finish = len(where) - where[::-1].index(1)
    return Template(
        start=tuple(ids[:first]),
        end=tuple(ids[last:]),
        pair_start=tuple(both[:begin]),
        pair_middle=tuple(both[middle:after]),
        pair_end=tuple(both[finish:]),
        pair_type=types[after],
    )


def _encode(tokenizer: Any, *texts: str) -> tuple[list[int], list[int | None], list[int]]:
    encoding = tokenizer(*texts)[0]  # the backend's own encoding, which remembers what the template added
    return encoding.ids, encoding.sequence_ids, encoding.type_ids
