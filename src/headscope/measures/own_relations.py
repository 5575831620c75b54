"""Relations of the caller's own: a function that labels the tokens of a window; equal labels are related."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence

import numpy as np
from numpy.typing import NDArray

from headscope.errors import HeadscopeError, brief
from headscope.windows import Window

# Tokens with equal labels are related; None is related to nothing.
Labels = Callable[[Window], Sequence[Hashable]]


def label_numbers(name: str, window: Window, labels: Labels) -> NDArray[np.int64]:
    """A number for each token of a window, equal for equal labels, -1 for None: (T,)."""
    try:
        given = labels(window)
    except Exception as error:  # the caller's own code may raise anything
        raise HeadscopeError(
            f"the relation {name!r} failed: {type(error).__name__}: {brief(error)}", "correct the function"
        ) from error
    if isinstance(given, str) or not isinstance(given, Sequence) or len(given) != len(window):
        size = f"{len(given)} labels" if isinstance(given, Sequence) else type(given).__name__
        raise HeadscopeError(
            f"the relation {name!r} gave {size} for a window of {len(window)} tokens",
            "return a list with one label for each token, None where there is none",
        )
    numbers: dict[Hashable, int] = {}
    try:
        each = [-1 if label is None else numbers.setdefault(label, len(numbers)) for label in given]
    except TypeError as error:
        raise HeadscopeError(
            f"a label of the relation {name!r} cannot be compared: {brief(error)}", "use strings"
        ) from error
    return np.array(each, dtype=np.int64)
