"""What a notebook's page may ask of a text. The server checks its requests by models of them, which need pydantic."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from headscope.choices import STACKS, Choice, described
from headscope.errors import HeadscopeError

Fits = Callable[[Any], bool]


def checked_question(given: object) -> dict[str, Any]:
    """A text to read with its options by name. What has another name or type is refused in a sentence.

    >>> checked_question({"text": "A cat.", "window": 64})
    {'text': 'A cat.', 'window': 64}
    >>> checked_question({"text": "A cat.", "window": "64"})
    Traceback (most recent call last):
    headscope.errors.HeadscopeError: window cannot be '64'. To fix it: leave it out, or choose as the page offers.
    """
    if not isinstance(given, dict):
        raise HeadscopeError("a text is asked for without one", "send its options by name")
    known: dict[str, Fits] = {
        "text": _is_text, "again": _is_text, "pair": _is_text, "stack": lambda value: value in STACKS,
        "start": lambda value: _is_number(value) and value >= 0,
        **{each.name: _fits(each) for each in described(of_text=True)},
    }  # fmt: skip
    for name, value in given.items():
        if name not in known:
            raise HeadscopeError(f"there is no option {str(name)[:60]!r}", f"use some of {', '.join(known)}")
        if value is not None and not known[name](value):
            raise HeadscopeError(f"{name} cannot be {str(value)[:60]!r}", "leave it out, or choose as the page offers")
    return dict(given)


def _fits(choice: Choice) -> Fits:
    """Whether a value is one of a choice's."""
    one: Fits
    if choice.allowed:
        one = lambda value: isinstance(value, str) and value in choice.allowed  # noqa: E731
    elif choice.kind is bool:
        one = lambda value: isinstance(value, bool)  # noqa: E731
    else:
        one = _is_number if choice.kind is int else _is_text
    return one if not choice.several else lambda values: isinstance(values, list) and all(map(one, values))


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_number(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
