"""An index of a batch of windows: what its tokens and pairs are, before any head has looked at them.

All of it is the same for every head and layer, so it is worked out once for each batch, as padded arrays that the
compiled loops read.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from headscope.errors import HeadscopeError, brief
from headscope.measures import token_loops
from headscope.measures.relations import CODES
from headscope.windows.window import PUNCTUATION, STOP, Window

# A caller's own relation: tokens with equal labels are related; None is related to nothing.
Labels = Callable[[Window], Sequence[Hashable]]


class BatchIndex(NamedTuple):
    """B windows as arrays. N tokens that count, P pairs, K distinct ids among them, T tokens, padded to the largest.

    A named tuple, because compiled loops take those by name.
    """

    lengths: NDArray[np.int64]  # (B,)
    sentences: NDArray[np.int64]  # (B,): in the whole text
    begins: NDArray[np.int64]  # (B,): the first token that counts; the others follow it
    sizes: NDArray[np.int64]  # (B,): how many count
    category: NDArray[np.int64]  # (B, T)
    counting: NDArray[np.bool_]  # (B, T)
    cells: NDArray[np.int32]  # (B, P): (distance - 1) · relations + relation
    distance: NDArray[np.int32]  # (B, P)
    within: NDArray[np.int32]  # (B, P): 1 for two words of one sentence
    repeated: NDArray[np.int32]  # (B, P): 1 for a repeated word
    with_stop: NDArray[np.int32]  # (B, P): 1 for a pair with a sentence stop
    stop_chance: NDArray[np.float32]  # (B, P): how likely a pair at its distance has a stop
    custom: NDArray[np.bool_]  # (R, B, P): the caller's own relations
    kind: NDArray[np.int32]  # (B, N): ids numbered by first occurrence
    kinds: NDArray[np.int64]  # (B,): K
    ids: NDArray[np.int64]  # (B, K): the ids themselves
    repeats: NDArray[np.int32]  # (B, Q, 2): the pairs of one id with itself, and the id's number; -1 after the last
    expected: NDArray[np.float64]  # (B, H + 1): different focal tokens expected of so many heads


def index_batch(
    windows: Sequence[Window], heads: int, *, repeated: str, special: bool, relations: Mapping[str, Labels]
) -> BatchIndex:
    """Index a batch of windows for layers of so many heads."""
    indexed = [_IndexedWindow(window, repeated, special, relations) for window in windows]

    def padded(rows: Sequence[NDArray[Any]], dtype: type, fill: int = 0) -> NDArray[Any]:
        table = np.full((len(rows), max(1, *(len(row) for row in rows)), *rows[0].shape[1:]), fill, dtype=dtype)
        for line, row in zip(table, rows, strict=True):
            line[: len(row)] = row
        return table

    def of_pairs(name: str, dtype: type = np.int32) -> NDArray[Any]:
        return padded([getattr(one.pairs, name) for one in indexed], dtype)

    return BatchIndex(
        lengths=np.array([len(window) for window in windows]),
        sentences=np.array([window.sentences for window in windows]),
        begins=np.array([one.begin for one in indexed]),
        sizes=np.array([one.size for one in indexed]),
        category=padded([window.category for window in windows], np.int64),
        counting=padded([one.counting for one in indexed], np.bool_),
        cells=of_pairs("cells"),
        distance=of_pairs("distance"),
        within=of_pairs("within"),
        repeated=of_pairs("repeated"),
        with_stop=of_pairs("with_stop"),
        stop_chance=of_pairs("stop_chance", np.float32),
        custom=np.stack([padded([one.custom[name] for one in indexed], np.bool_) for name in relations])
        if relations
        else np.zeros((0, len(indexed), 1), dtype=bool),
        kind=padded([one.kind for one in indexed], np.int32),
        kinds=np.array([len(one.ids) for one in indexed]),
        ids=padded([one.ids for one in indexed], np.int64, -1),
        repeats=padded([one.repeats for one in indexed], np.int32, -1),
        expected=np.stack([one.expected(heads) for one in indexed]),
    )


class _IndexedWindow:
    """One window of a batch."""

    def __init__(self, window: Window, repeated: str, special: bool, relations: Mapping[str, Labels]) -> None:
        self.counting = window.counting(special)
        places = np.flatnonzero(self.counting)
        self.size = len(places)
        self.begin = int(places[0]) if self.size else 0
        if self.size and places[-1] - self.begin + 1 != self.size:
            raise HeadscopeError(
                "the tokenizer puts special tokens into the middle of a text", "analyse with special tokens counting"
            )
        ids = window.ids[places]
        order: dict[int, int] = {}
        self.kind = np.array([order.setdefault(i, len(order)) for i in ids.tolist()], dtype=np.int32)
        self.ids = np.array(list(order), dtype=np.int64)
        number = self.size * (self.size - 1) // 2
        self.pairs = token_loops.PairTables(
            cells=np.empty(number, np.int32),
            distance=np.empty(number, np.int32),
            within=np.empty(number, np.int32),
            repeated=np.empty(number, np.int32),
            with_stop=np.empty(number, np.int32),
            stop_chance=np.empty(number, np.float32),
            repeats=np.empty((number, 2), np.int32),
        )
        tokens = token_loops.Tokens(
            window.word[places],
            window.category[places],
            window.sentence[places],
            window.repeats(repeated)[places],
            self.kind,
        )
        self.repeats = self.pairs.repeats[: token_loops.relate(tokens, self.pairs, CODES, STOP, PUNCTUATION)]
        i, j = (place + self.begin for place in np.triu_indices(self.size, 1)) if relations else ((), ())
        self.custom = {name: _labelled(name, window, labels)[i, j] for name, labels in relations.items()}

    def expected(self, heads: int) -> NDArray[np.float64]:
        """How many different focal tokens 0, 1, … heads would have that draw theirs from the tokens that count."""
        share = np.bincount(self.kind) / max(self.size, 1)  # (K,)
        drawing = np.arange(heads + 1)[:, None]
        return np.asarray((1 - (1 - share) ** drawing).sum(1))


def _labelled(name: str, window: Window, labels: Labels) -> NDArray[np.bool_]:
    """Which two tokens the caller's function gives the same label: (T, T)."""
    try:
        given = labels(window)
    except Exception as error:  # the caller's own code may raise anything
        raise HeadscopeError(
            f"the relation {name!r} failed: {type(error).__name__}: {brief(error)}", "fix the function"
        ) from error
    if isinstance(given, str) or not isinstance(given, Sequence) or len(given) != len(window):
        size = f"{len(given)} labels" if isinstance(given, Sequence) else type(given).__name__
        raise HeadscopeError(
            f"the relation {name!r} gave {size} for a window of {len(window)} tokens",
            "return a list with one label for each token, None where there is none",
        )
    numbers: dict[Hashable, int] = {}
    try:
        value = np.array([-1 if label is None else numbers.setdefault(label, len(numbers)) for label in given])
    except TypeError as error:
        raise HeadscopeError(
            f"a label of the relation {name!r} cannot be compared: {brief(error)}", "use strings"
        ) from error
    return np.asarray((value[:, None] == value[None]) & (value[:, None] >= 0))
