"""Which of a test's parameters are worth their time in every run of the tests."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def first_of(values: Iterable[Any], number: int = 1) -> list[Any]:
    """The first ones always, the others in the long tests alone."""
    every = list(values)
    return every[:number] + [pytest.param(*_parts(each), marks=pytest.mark.long) for each in every[number:]]


def _parts(value: Any) -> tuple[Any, ...]:
    """The parameters of one case."""
    return value if isinstance(value, tuple) else (value,)
