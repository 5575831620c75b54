"""An index of a batch of windows: what its tokens and pairs are, before any head has looked at them.

All of it is the same for every head and layer, so it is worked out once for each batch, as padded arrays that the
compiled loops read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from headscope.choices import LONGEST_SUMMED, Choices
from headscope.measures import order
from headscope.measures.bands import bands_of_distances
from headscope.measures.comparisons import COMPARED, CONTRASTED
from headscope.measures.loops import tokens as token_loops
from headscope.measures.own_relations import Labels, label_numbers
from headscope.measures.relations import CODES, RELATIONS, UNRELATED
from headscope.windows import WindowBatch
from headscope.windows.window import PUNCTUATION, STOP, Window


class BatchIndex(NamedTuple):
    """B windows as arrays. N tokens that count, P pairs, K distinct ids among them, T tokens, padded to the largest.

    A kind of pair is a band and a relation. A named tuple, because compiled loops take those by name.
    """

    lengths: NDArray[np.int64]  # (B,)
    sentences: NDArray[np.int64]  # (B,): in the whole text
    begins: NDArray[np.int64]  # (B,): the first token that counts, where the others follow it; else 0
    scattered: NDArray[np.bool_]  # (B,): whether special tokens stand between those that count
    positions: NDArray[np.int64]  # (B, N): where in the window the tokens that count stand
    sizes: NDArray[np.int64]  # (B,): how many count
    category: NDArray[np.int64]  # (B, T)
    counting: NDArray[np.bool_]  # (B, T)
    cells: NDArray[np.int32]  # (B, P): (distance - 1, or band) · relations + relation
    classes: NDArray[np.int16]  # (B, P): (band · relations + relation) · 16
    bands: NDArray[np.int8]  # (B, P)
    distance: NDArray[np.int32]  # (B, P)
    custom: NDArray[np.bool_]  # (own relations, B, P)
    base: NDArray[np.int64]  # (B, kinds): number of pairs
    contrast_weight: NDArray[np.float64]  # (B, 3): of the contrasts of relations
    matched: NDArray[np.float64]  # (B, comparisons, 2, kinds): what a high pair of each kind adds to a and b
    number: NDArray[np.uint64]  # (B,): w, from which everything is drawn
    sampled: NDArray[np.int64]  # (B,): how many pairs set the edges of order bins
    samples: NDArray[np.int32]  # (B, 512, 3): first and second token, counted from `begins`, and number of each
    id_number: NDArray[np.int32]  # (B, N): ids numbered by first occurrence
    distinct: NDArray[np.int64]  # (B,): K, how many ids there are
    ids: NDArray[np.int64]  # (B, K): the ids themselves
    firsts: NDArray[np.int64]  # (B, K): where in the window each id first counts
    by_count: NDArray[np.int64]  # (B, K): the ids by how often they occur, then by first position
    class_ends: NDArray[np.int64]  # (B, K): for each place in `by_count`, where the ids that occur as often end
    repeats: NDArray[np.int32]  # (B, Q, 2): the pairs of one id with itself, and the id's number; -1 after the last


def index_batch(
    windows: Sequence[Window], length: int, *, repeated: str, special: bool, relations: Mapping[str, Labels]
) -> BatchIndex:
    """Index a batch of windows of a run whose longest window has `length` tokens."""
    indexed = [_IndexedWindow(window, length, repeated, special, relations) for window in windows]

    def padded(rows: Sequence[NDArray[Any]], dtype: type, fill: int = 0) -> NDArray[Any]:
        table = np.full((len(rows), max(1, *(len(row) for row in rows)), *rows[0].shape[1:]), fill, dtype=dtype)
        for line, row in zip(table, rows, strict=True):
            line[: len(row)] = row
        return table

    base = np.stack([one.base for one in indexed])
    return BatchIndex(
        lengths=np.array([len(window) for window in windows]),
        sentences=np.array([window.sentences for window in windows]),
        begins=np.array([one.begin for one in indexed]),
        scattered=np.array([one.scattered for one in indexed]),
        positions=padded([one.places for one in indexed], np.int64),
        sizes=np.array([one.size for one in indexed]),
        category=padded([window.category for window in windows], np.int64),
        counting=padded([one.counting for one in indexed], np.bool_),
        cells=padded([one.pairs.cells for one in indexed], np.int32),
        classes=padded([one.pairs.classes for one in indexed], np.int16),
        bands=padded([one.pairs.bands for one in indexed], np.int8),
        distance=padded([one.pairs.distance for one in indexed], np.int32),
        custom=np.stack([padded([one.custom[name] for one in indexed], np.bool_) for name in relations])
        if relations
        else np.zeros((0, len(indexed), 1), dtype=bool),
        base=base,
        contrast_weight=contrast_weight(base),
        matched=matched_weights(base),
        number=np.array([one.number for one in indexed], dtype=np.uint64),
        sampled=np.array([len(one.samples) for one in indexed]),
        samples=padded([one.samples for one in indexed], np.int32),
        id_number=padded([one.id_number for one in indexed], np.int32),
        distinct=np.array([len(one.ids) for one in indexed]),
        ids=padded([one.ids for one in indexed], np.int64, -1),
        firsts=padded([one.firsts for one in indexed], np.int64),
        by_count=padded([one.by_count for one in indexed], np.int64),
        class_ends=padded([one.class_ends for one in indexed], np.int64),
        repeats=padded([one.repeats for one in indexed], np.int32, -1),
    )


class StackIndex:
    """The index of a batch by stack, made when it is first asked for: stacks that share windows share their index."""

    def __init__(self, batch: WindowBatch, length: int, choices: Choices, relations: Mapping[str, Labels]) -> None:
        self.batch, self.length, self.choices, self.relations = batch, length, choices, relations
        self._indexed: dict[int, BatchIndex] = {}

    def of_stack(self, stack: str) -> tuple[BatchIndex, BatchIndex]:
        """The index of the tokens that query in a stack, and of those that are read."""
        queries, keys = self.batch.of_stack(stack)
        return self._of(queries), self._of(keys)

    def _of(self, windows: tuple[Window, ...]) -> BatchIndex:
        if id(windows) not in self._indexed:
            self._indexed[id(windows)] = index_batch(
                windows,
                self.length,
                repeated=self.choices.repeated,
                special=self.choices.special,
                relations=self.relations,
            )
        return self._indexed[id(windows)]


class _IndexedWindow:
    """One window of a batch."""

    def __init__(
        self, window: Window, length: int, repeated: str, special: bool, relations: Mapping[str, Labels]
    ) -> None:
        self.counting = window.counting(special)
        self.places = np.flatnonzero(self.counting)
        self.size = len(self.places)
        self.scattered = self.size > 0 and bool(self.places[-1] - self.places[0] + 1 != self.size)
        self.begin = int(self.places[0]) if self.size and not self.scattered else 0
        self.number = order.window_number(window.ids)
        self._number_ids(window.ids[self.places])
        self._relate(window, length, repeated)
        number = len(self.pairs.cells)
        chosen = order.sampled_pairs(number, self.number)
        first, second = _pairs(self.size)
        self.samples = np.column_stack([first[chosen], second[chosen], chosen]).astype(np.int32)
        self.custom = {}
        for name, labels in relations.items():
            own = label_numbers(name, window, labels)[self.places]
            self.custom[name] = (own[first] == own[second]) & (own[first] >= 0)

    def _number_ids(self, ids: NDArray[np.int64]) -> None:
        """Number the ids by where they first count, and sort them by how often they occur."""
        known, first, number, counts = np.unique(ids, return_index=True, return_inverse=True, return_counts=True)
        in_order = np.argsort(first)  # the ids by where they first count
        renumbered = np.empty(len(known), dtype=np.int32)
        renumbered[in_order] = np.arange(len(known))
        self.id_number, self.ids, counts = renumbered[number], known[in_order], counts[in_order]
        self.firsts = self.places[first[in_order]]
        self.by_count = np.argsort(counts, kind="stable")
        self.class_ends = np.searchsorted(counts[self.by_count], counts[self.by_count], side="right")

    def _relate(self, window: Window, length: int, repeated: str) -> None:
        places, bands, number = self.places, bands_of_distances(length), self.size * (self.size - 1) // 2
        self.pairs = token_loops.PairTables(
            cells=np.empty(number, np.int32),
            classes=np.empty(number, np.int16),
            bands=np.empty(number, np.int8),
            distance=np.empty(number, np.int32),
            repeats=np.empty((number, 2), np.int32),
        )
        tokens = token_loops.Tokens(
            places,
            window.word[places],
            window.category[places],
            window.sentence[places],
            window.repeats(repeated)[places],
            self.id_number,
        )
        by_band = length > LONGEST_SUMMED
        repeats = token_loops.relate(tokens, self.pairs, bands, by_band, CODES, STOP, PUNCTUATION, order.ORDER_BINS)
        self.repeats = self.pairs.repeats[:repeats]
        kinds = (int(bands[-1]) + 1) * len(RELATIONS)
        self.base = np.bincount(self.pairs.classes // order.ORDER_BINS, minlength=kinds)


@lru_cache(256)
def _pairs(size: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Both tokens of every pair of so many."""
    first, second = np.triu_indices(size, 1)
    first.flags.writeable = second.flags.writeable = False
    return first, second


def contrast_weight(base: NDArray[np.int64]) -> NDArray[np.float64]:
    """Σ n1·n0 / (n1 + n0) over the bands, of each contrast of relations: (B, kinds) to (B, 3)."""
    table = base.reshape(len(base), -1, len(RELATIONS)).astype(np.float64)  # (B, bands, relations)
    zeros = table[:, :, UNRELATED]
    ones = [table[:, :, list(kinds)].sum(2) for kinds in CONTRASTED.values()]  # (B, bands) each
    return np.stack([(one * zeros / np.maximum(one + zeros, 1)).sum(1) for one in ones], axis=1)


def matched_weights(base: NDArray[np.int64]) -> NDArray[np.float64]:
    """What a high pair of each kind adds to a and to b of each comparison: (B, kinds) to (B, comparisons, 2, kinds)."""
    table = base.reshape(len(base), -1, len(RELATIONS)).astype(np.float64)  # (B, bands, relations)
    weights = np.zeros((len(base), len(COMPARED), 2, *table.shape[1:]))
    for place, strata in enumerate(COMPARED.values()):
        for ones, zeros in strata:
            n1, n0 = table[:, :, list(ones)].sum(2), table[:, :, list(zeros)].sum(2)  # (B, bands)
            both = np.maximum(n1 + n0, 1)
            weights[:, place, 0][:, :, list(ones)] = (n0 / both)[:, :, None]
            weights[:, place, 1][:, :, list(zeros)] = (n1 / both)[:, :, None]
    return weights.reshape(len(base), len(COMPARED), 2, -1)
