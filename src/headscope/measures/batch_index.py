"""An index of a batch of windows: what its tokens and pairs are, before any head has looked at them.

All of it is the same for every head and layer, so it is worked out once for each batch, as padded arrays that the
compiled loops read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
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
from headscope.measures.relations import RELATIONS, UNRELATED, relation_table
from headscope.windows import WindowBatch
from headscope.windows.window import END, PUNCTUATION, STOP, Window


class TokenIndex(NamedTuple):
    """The tokens of B windows as arrays: what is known of them without looking at pairs. See `BatchIndex`."""

    tokens: token_loops.Tokens  # (B, T) each
    lengths: NDArray[np.int64]  # (B,)
    sentences: NDArray[np.int64]  # (B,)
    positions: NDArray[np.int64]  # (B, N)
    sizes: NDArray[np.int64]  # (B,)
    category: NDArray[np.int64]  # (B, T)
    counting: NDArray[np.bool_]  # (B, T)
    custom: NDArray[np.bool_]  # (own relations, B, P)
    number: NDArray[np.uint64]  # (B,)
    sampled: NDArray[np.int64]  # (B,)
    id_number: NDArray[np.int32]  # (B, N)
    distinct: NDArray[np.int64]  # (B,)
    ids: NDArray[np.int64]  # (B, K)
    firsts: NDArray[np.int64]  # (B, K)
    by_count: NDArray[np.int64]  # (B, K)
    class_ends: NDArray[np.int64]  # (B, K)
    repeats: NDArray[np.int64]  # (B,): pairs of one id with itself

    @property
    def most_pairs(self) -> int:
        """P: pairs of the largest window, or one where there is none."""
        return _most_pairs(self.positions.shape[1])


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
    related: NDArray[np.int64]  # (distances, relations): the same in all windows, by distance
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


def index_tokens(
    windows: Sequence[Window], *, repeated: str, special: bool, relations: Mapping[str, Labels]
) -> TokenIndex:
    """Index the tokens of a batch of windows."""
    lengths = np.array([len(window) for window in windows])
    counting = np.arange(lengths.max()) < lengths[:, None]
    columns = [[getattr(window, name) for window in windows] for name in ("ids", "category", "word", "sentence")]
    if repeated != "token":
        columns.append([window.repeats(repeated) for window in windows])
    table = np.zeros((len(columns), *counting.shape), dtype=np.int64)
    table[:, counting] = np.concatenate([row for column in columns for row in column]).reshape(len(columns), -1)
    ids, category, word, sentence = table[:4]
    marks = np.where(category == STOP, 2, category == PUNCTUATION)
    tokens = token_loops.Tokens(ids, marks, word, sentence, table[4] if repeated != "token" else ids)
    if not special:
        counting &= category > END
    sizes = counting.sum(1)
    positions = np.zeros((len(windows), max(1, sizes.max())), dtype=np.int64)
    positions[np.arange(positions.shape[1]) < sizes[:, None]] = np.nonzero(counting)[1]
    counted = token_loops.Counting(sizes, positions)
    by_id = _number_ids(tokens, counted)
    most_ids = max(1, by_id.distinct.max())
    return TokenIndex(
        tokens=tokens,
        lengths=lengths,
        sentences=np.array([window.sentences for window in windows]),
        positions=positions,
        sizes=sizes,
        category=category,
        counting=counting,
        custom=_own_pairs(windows, counted, _most_pairs(positions.shape[1]), relations),
        number=order.window_numbers([window.ids for window in windows]),
        sampled=np.minimum(sizes * (sizes - 1) // 2, order.SAMPLED),
        id_number=by_id.id_number,
        distinct=by_id.distinct,
        ids=np.ascontiguousarray(by_id.ids[:, :most_ids]),
        firsts=np.ascontiguousarray(by_id.firsts[:, :most_ids]),
        by_count=np.ascontiguousarray(by_id.by_count[:, :most_ids]),
        class_ends=np.ascontiguousarray(by_id.class_ends[:, :most_ids]),
        repeats=by_id.repeats,
    )


def index_batch(
    windows: Sequence[Window], length: int, *, repeated: str, special: bool, relations: Mapping[str, Labels]
) -> BatchIndex:
    """Index a batch of windows of a run whose longest window has `length` tokens."""
    known = index_tokens(windows, repeated=repeated, special=special, relations=relations)
    ends = known.positions[np.arange(len(windows)), np.maximum(known.sizes - 1, 0)]
    scattered = (known.sizes > 0) & (ends - known.positions[:, 0] + 1 != known.sizes)
    pairs = _relate(known, length)
    shared = {name: value for name, value in known._asdict().items() if name in BatchIndex._fields}
    return BatchIndex(**shared | {
        "begins": np.where(scattered, 0, known.positions[:, 0]), "scattered": scattered, "cells": pairs.cells,
        "classes": pairs.classes, "bands": pairs.bands, "distance": pairs.distance, "base": pairs.base,
        "related": pairs.related, "contrast_weight": contrast_weight(pairs.base),
        "matched": matched_weights(pairs.base), "samples": pairs.samples, "repeats": pairs.repeats,
    })  # fmt: skip


def _most_pairs(tokens: int) -> int:
    """Pairs of so many tokens, or one: no array is empty."""
    return max(1, tokens * (tokens - 1) // 2)


def _number_ids(tokens: token_loops.Tokens, counting: token_loops.Counting) -> token_loops.IdTables:
    """Which ids come again, window by window."""
    places = counting.positions.shape
    tables = token_loops.IdTables(
        id_number=np.zeros(places, np.int32),
        distinct=np.zeros(places[0], np.int64),
        ids=np.full(places, -1, np.int64),
        firsts=np.zeros(places, np.int64),
        by_count=np.zeros(places, np.int64),
        class_ends=np.zeros(places, np.int64),
        repeats=np.zeros(places[0], np.int64),
    )
    token_loops.number_ids(tokens, counting, tables)
    return tables


def _relate(known: TokenIndex, length: int) -> token_loops.PairTables:
    """How the tokens of each pair are related, and which pairs are sampled."""
    size, most = known.positions.shape
    pairs, sampled = _most_pairs(most), min(_most_pairs(most), order.SAMPLED)
    bands = bands_of_distances(length)
    tables = token_loops.PairTables(
        cells=np.zeros((size, pairs), np.int32),
        classes=np.zeros((size, pairs), np.int16),
        bands=np.zeros((size, pairs), np.int8),
        distance=np.zeros((size, pairs), np.int32),
        base=np.zeros((size, (int(bands[-1]) + 1) * len(RELATIONS)), np.int64),
        related=np.zeros((len(bands), len(RELATIONS)), np.int64),
        samples=np.zeros((size, sampled, 3), np.int32),
        repeats=np.full((size, max(1, known.repeats.max()), 2), -1, np.int32),
    )
    by_band = length > LONGEST_SUMMED
    bins = token_loops.Bins(bands, by_band, relation_table().reshape(3, -1), order.ORDER_BINS, order.SAMPLED)
    counting = token_loops.Counting(known.sizes, known.positions)
    token_loops.relate(known.tokens, counting, known.id_number, known.number, tables, bins)
    return tables


def _own_pairs(
    windows: Sequence[Window], counting: token_loops.Counting, most: int, relations: Mapping[str, Labels]
) -> NDArray[np.bool_]:
    """Which pairs have each of the caller's own relations: (own relations, B, P)."""
    own = np.zeros((len(relations), len(windows), most if relations else 1), dtype=bool)
    for of_name, (name, labels) in zip(own, relations.items(), strict=True):
        for line, window, places, size in zip(of_name, windows, counting.positions, counting.sizes, strict=True):
            numbers = label_numbers(name, window, labels)[places[:size]]
            first, second = _pairs(int(size))
            line[: len(first)] = (numbers[first] == numbers[second]) & (numbers[first] >= 0)
    return own


class StackIndex:
    """The index of a batch by stack, made when it is first asked for: stacks that share windows share their index."""

    def __init__(self, batch: WindowBatch, length: int, choices: Choices, relations: Mapping[str, Labels]) -> None:
        self.batch, self.length, self.choices, self.relations = batch, length, choices, relations
        self._indexed: dict[int, BatchIndex] = {}
        self._tokens: dict[int, TokenIndex] = {}
        self._prepared: dict[str, Any] = {}

    def prepared(self, stack: str, prepare: Callable[[TokenIndex, TokenIndex], Any]) -> Any:
        """What an accumulator makes of the index of a stack; asked for in another thread, it is there beforehand."""
        if stack not in self._prepared:
            self._prepared[stack] = prepare(*self.tokens_of_stack(stack))
        return self._prepared[stack]

    def of_stack(self, stack: str) -> tuple[BatchIndex, BatchIndex]:
        """The index of the tokens that query in a stack, and of those that are read."""
        queries, keys = self.batch.of_stack(stack)
        return self._of(queries), self._of(keys)

    def tokens_of_stack(self, stack: str) -> tuple[TokenIndex, TokenIndex]:
        """The same without pairs, for who relates them himself."""
        queries, keys = self.batch.of_stack(stack)
        return self._tokens_of(queries), self._tokens_of(keys)

    def _of(self, windows: tuple[Window, ...]) -> BatchIndex:
        if id(windows) not in self._indexed:
            self._indexed[id(windows)] = index_batch(windows, self.length, **self._options)
        return self._indexed[id(windows)]

    def _tokens_of(self, windows: tuple[Window, ...]) -> TokenIndex:
        if id(windows) not in self._tokens:
            self._tokens[id(windows)] = index_tokens(windows, **self._options)
        return self._tokens[id(windows)]

    @property
    def _options(self) -> dict[str, Any]:
        choices = self.choices
        return {"repeated": choices.repeated, "special": choices.special, "relations": self.relations}


@lru_cache(256)
def _pairs(size: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Both tokens of every pair of so many."""
    first, second = np.triu_indices(size, 1)
    first.flags.writeable = second.flags.writeable = False
    return first, second


@dataclass(frozen=True, slots=True)
class IndexedBatch(WindowBatch):
    """A batch whose windows were indexed before an accumulator asked for it."""

    index: StackIndex | None = None


def indexed(
    batch: WindowBatch, length: int, choices: Choices, relations: Mapping[str, Labels], *, pairs: bool = True
) -> IndexedBatch:
    """Index the windows of a batch for every stack, in whatever thread; their tokens alone, or pairs as well."""
    index = StackIndex(batch, length, choices, relations)
    for stack in ("encoder",) if batch.decoder is None else ("encoder", "decoder"):
        (index.of_stack if pairs else index.tokens_of_stack)(stack)
    return IndexedBatch(batch.windows, batch.decoder, index)


def index_of(batch: WindowBatch, length: int, choices: Choices, relations: Mapping[str, Labels]) -> StackIndex:
    """The index of a batch: the one it was given, or one that is made when it is asked for."""
    given = batch.index if isinstance(batch, IndexedBatch) else None
    return given or StackIndex(batch, length, choices, relations)


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
