"""A tally: the sums of the method for one stack of a model, filled window by window.

The sums of a whole collection are the sums of its parts, so a tally is all that a shard leaves behind.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from headscope.measures import pair_loops, token_loops
from headscope.measures.compiled import STEPS
from headscope.measures.described import Described
from headscope.measures.relations import RELATIONS
from headscope.measures.similarity import BINS
from headscope.windows import CATEGORIES

THRESHOLDS = tuple(k / 20 for k in range(1, STEPS + 1))
REGIONS = ("inside", "edge", "outside")
LONGEST_SUMMED = 512  # tokens; the mean matrix of longer windows is not kept
NOTED = 1 << 16  # focal tokens noted down before they are counted
TOKENS = 1 << 32  # more than any vocabulary has

SUMS = (
    "tokens position_pairs similarity_sum pairs own_pairs head_sums regions masks attention attention_even attended "
    "attended_text focal_unique focal_expected focal_share focal_few"
).split()

Array = NDArray[np.float64] | NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Shape:
    """What decides the size of a tally's tables."""

    layers: tuple[int, ...]
    heads: int
    length: int  # tokens in the longest window
    own: tuple[str, ...] = ()  # names of the caller's own relations
    cross: bool = False  # cross-attention: neither regions nor a correlation


@dataclass(frozen=True, slots=True)
class HeadRows:
    """What each head of one layer did with each window of a batch."""

    given: NDArray[np.float64]  # (B, H, categories): the mean weight given to the category
    even: NDArray[np.float64]  # (B, categories): the same for attention spread evenly
    rows: NDArray[np.float64]  # (B, H, len(pair_loops.ROWS))
    focal_token: NDArray[np.int64]  # (B, H); -1: none
    focal_expected: NDArray[np.float64]  # (B,): different focal tokens that chance would give the layer


class Tally:
    """Sums over windows, under the names and with the dimensions of docs/method.md."""

    def __init__(self, shape: Shape, *, lowest: int, theta: float, threads: int = 1) -> None:
        self.shape, self.lowest, self.theta = shape, lowest, theta
        layers, heads, size = len(shape.layers), shape.heads, shape.length
        table = max(size - 1, 1) * len(RELATIONS)
        kept = size if size <= LONGEST_SUMMED else 0

        def counts(*dims: int) -> NDArray[np.int64]:
            return np.zeros(dims, dtype=np.int64)

        self.texts = self.unsplit = self.pairless = 0
        self.tokens = counts(len(CATEGORIES))
        self.position_pairs = counts(size, size)
        self.similarity_sum = np.zeros((layers, heads, kept, kept))
        self.pairs = counts(layers, heads, BINS, table)
        self.own_pairs = counts(len(shape.own), layers, heads, BINS, table)
        self.head_sums = np.zeros((layers, heads, len(pair_loops.HEAD_SUMS)))
        self.regions = np.zeros((layers, heads, len(REGIONS), 2))
        self.masks = np.zeros((layers, heads, STEPS, len(REGIONS), 2))
        self.attention = np.zeros((layers, heads, len(CATEGORIES)))
        self.attention_even = np.zeros((layers, len(CATEGORIES)))
        self.attended = counts(layers, heads, STEPS, len(CATEGORIES))
        self.attended_text = counts(layers, heads, STEPS, len(CATEGORIES))
        self.focal_unique = counts(layers, STEPS, heads + 1)
        self.focal_expected = np.zeros((layers, STEPS))
        self.focal_share = np.zeros((layers, heads, STEPS))
        self.focal_few = counts(layers, heads, STEPS)
        self._noted, self._written = counts(NOTED), 0  # layer, head and token of focal tokens, one number each
        self._focal_counts = (counts(0), counts(0))  # those that are counted already
        parts = min(threads, heads)
        edges = [round(k * heads / parts) for k in range(parts + 1)]
        self._ranges = list(pairwise(edges))
        self._pool = ThreadPoolExecutor(parts - 1) if parts > 1 else None

    # ------------------------------------------------------------------ filling

    def add_windows(self, queries: Described, keys: Described) -> None:
        """Count the windows of a batch and what they hold, whatever the heads make of it."""
        self.texts += len(queries.lengths)
        self.unsplit += int((queries.sentences == 1).sum())
        self.pairless += int((queries.sizes < 2).sum())
        for length, category in zip(keys.lengths, keys.category, strict=True):
            self.tokens += np.bincount(category[:length], minlength=len(CATEGORIES))
        for begin, size in zip(queries.begins, queries.sizes, strict=True):
            block = self.position_pairs[begin : begin + size, begin : begin + size]
            block += np.triu(np.ones_like(block), 1)

    def add_layer(
        self,
        layer: int,
        products: NDArray[np.float32],  # (B, H, T, T): O·Oᵀ
        weights: NDArray[np.float32],  # (B, H, Tq, Tk)
        even: NDArray[np.float64],  # (B, Tk)
        queries: Described,
        keys: Described,
        scale: str = "max",
    ) -> HeadRows | None:
        """Add one layer of a batch. None where a number is not finite: nothing of this tally can be trusted then."""
        k, shape = self.shape.layers.index(layer), self.shape
        size, heads = len(queries.lengths), shape.heads
        given = np.zeros((size, heads, len(CATEGORIES)))
        high = np.zeros((size, heads, keys.category.shape[1]), dtype=bool)
        passed = np.zeros(high.shape, dtype=np.int8)
        chosen = np.full((size, heads, STEPS), -1, dtype=np.int32)
        rows = np.zeros((size, heads, len(pair_loops.ROWS)))
        levels = ranks(products, queries) if scale == "rank" else np.zeros((0, 0, 0, 0))
        maps = np.zeros((0, 0, 0, 0), dtype=np.float32) if shape.cross else weights

        def work(first: int, last: int) -> bool:
            fine: bool = token_loops.attention_of_heads(
                weights, even, queries.lengths, keys.lengths, keys.category, keys.counting, self.theta, first, last,
                given, self.attended[k], self.attended_text[k], high, passed,
            )  # fmt: skip
            return fine and pair_loops.pairs_of_heads(
                products, levels, maps, high, passed, queries.begins, queries.sizes, queries.cells, queries.traits,
                queries.chances, queries.own, queries.kind, queries.kinds, queries.repeats, self.lowest, first, last,
                self.similarity_sum[k], self.pairs[k], self.own_pairs[:, k], self.head_sums[k], self.regions[k],
                self.masks[k], self.focal_share[k], self.focal_few[k], chosen, rows,
            )  # fmt: skip

        if not all(self._spread(work)):
            return None
        unique, expected = self.focal_unique[k], self.focal_expected[k]
        token_loops.focal_of_layer(chosen, queries.sizes, queries.expected, unique, expected)
        by_category = np.zeros((size, len(CATEGORIES)))
        for b, length in enumerate(keys.lengths):
            by_category[b] = np.bincount(keys.category[b, :length], even[b, :length], len(CATEGORIES))
        by_category /= queries.lengths[:, None]
        self.attention[k] += given.sum(0)
        self.attention_even[k] += by_category.sum(0)
        tokens = np.take_along_axis(queries.ids, np.maximum(chosen[:, :, self.lowest - 2], 0).astype(np.int64), 1)
        tokens = np.where(chosen[:, :, self.lowest - 2] >= 0, tokens, -1)  # (B, H)
        self._note_focal(k, tokens)
        drawing = (chosen[:, :, self.lowest - 2] >= 0).sum(1)  # heads with a focal token
        chance = np.take_along_axis(queries.expected, drawing[:, None], 1)[:, 0]
        return HeadRows(given, by_category, rows, tokens, chance)

    def add(self, other: Tally) -> None:
        """Add what another tally of the same shape counted."""
        self.texts, self.unsplit = self.texts + other.texts, self.unsplit + other.unsplit
        self.pairless += other.pairless
        for name in SUMS:
            mine: Array = getattr(self, name)
            mine += getattr(other, name)
        codes, counts = other._count_focal()
        before, numbers = self._count_focal()
        self._focal_counts = _counted(np.concatenate([before, codes]), np.concatenate([numbers, counts]))

    def _spread(self, work: Callable[[int, int], bool]) -> list[bool]:
        """Do the heads in as many parts as there are threads, the last part in this one."""
        *others, own = self._ranges
        waiting = [self._pool.submit(work, *part) for part in others] if self._pool else []
        done = [work(*own)]
        return done + [part.result() for part in waiting]

    def _note_focal(self, k: int, tokens: NDArray[np.int64]) -> None:
        """Note down a layer's focal tokens, (B, H), into a place made beforehand: small arrays litter the memory."""
        head = np.broadcast_to(np.arange(tokens.shape[1]), tokens.shape)
        codes = ((k * self.shape.heads + head) * TOKENS + tokens)[tokens >= 0]
        for begin in range(0, len(codes), len(self._noted)):
            part = codes[begin : begin + len(self._noted)]
            if self._written + len(part) > len(self._noted):
                self._count_focal()
            self._noted[self._written : self._written + len(part)] = part
            self._written += len(part)

    def _count_focal(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """How often each layer, head and token was noted, as codes and counts."""
        codes, counts = self._focal_counts
        noted = self._noted[: self._written]
        self._focal_counts = _counted(np.concatenate([codes, noted]), np.concatenate([counts, np.ones_like(noted)]))
        self._written = 0
        return self._focal_counts

    # ------------------------------------------------------------------ reading

    def variables(self) -> dict[str, Array]:
        """Every sum by its name. `focal_tokens` comes as its entries: layer, head, token, number of windows."""
        shape = self.shape
        layers, heads = len(shape.layers), shape.heads
        table = (layers, heads, BINS, max(shape.length - 1, 1), len(RELATIONS))
        codes, counts = self._count_focal()
        found: dict[str, Array] = {
            name: np.array(getattr(self, name), dtype=np.int64) for name in ("texts", "unsplit", "pairless")
        }
        found |= {"tokens": self.tokens, "position_pairs": self.position_pairs, "pairs": self.pairs.reshape(table)}
        found |= {f"pairs_{name}": self.own_pairs[r].reshape(table) for r, name in enumerate(shape.own)}
        if self.similarity_sum.size:
            found["similarity_sum"] = self.similarity_sum
        found |= {name: self.head_sums[..., k] for k, name in enumerate(pair_loops.HEAD_SUMS)}
        found["flat"] = found["flat"].astype(np.int64)
        found["region_sum"], found["region_pairs"] = self.regions[..., 0], self.regions[..., 1].astype(np.int64)
        found["mask_sum"], found["mask_pairs"] = self.masks[..., 0], self.masks[..., 1].astype(np.int64)
        if shape.cross:
            for name in ("attention_correlation", "region_sum", "region_pairs", "mask_sum", "mask_pairs"):
                del found[name]
        for name in ("attention", "attention_even", "attended", "attended_text", "focal_unique", "focal_expected",
                     "focal_share", "focal_few"):  # fmt: skip
            found[name] = getattr(self, name)
        place, token = np.divmod(codes, TOKENS)
        found["focal_tokens"] = np.column_stack([*np.divmod(place, heads), token, counts])
        return found

    def close(self) -> None:
        """Let the threads go."""
        if self._pool is not None:
            self._pool.shutdown()


def _counted(codes: NDArray[np.int64], weight: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Equal codes once, with the sum of their weights."""
    unique, place = np.unique(codes, return_inverse=True)
    total = np.zeros(len(unique), dtype=np.int64)
    np.add.at(total, place.reshape(-1), weight)
    return unique, total


def ranks(products: NDArray[np.float32], windows: Described) -> NDArray[np.float64]:
    """Levels as mid-ranks of S among the pairs of its head, over their number: (B, H, T, T), both halves filled."""
    levels = np.zeros(products.shape)
    for b, (begin, size) in enumerate(zip(windows.begins, windows.sizes, strict=True)):
        if size < 2:
            continue
        i, j = (place + begin for place in np.triu_indices(size, 1))
        values = products[b][:, i, j] + np.float32(0)  # (H, P); -0 becomes 0, which it equals
        bits = values.view(np.uint32)
        order = np.where(bits >> 31, ~bits, bits | np.uint32(1 << 31)).astype(np.uint64)  # as the numbers are ordered
        packed = np.sort(order << np.uint64(32) | np.arange(len(i), dtype=np.uint64), axis=1)
        found = np.empty(values.shape)
        pair_loops.rank_levels(packed, found)
        levels[b][:, i, j] = found
        levels[b][:, j, i] = found
    return levels


def even_of_batch(readable: Tensor | None, queries: Sequence[int], keys: Sequence[int]) -> NDArray[np.float64]:
    """What each key of each window would receive if every query spread 1 evenly over what it may read: (B, Tk).

    >>> even_of_batch(torch.ones(2, 2).tril() > 0, [2], [2]).tolist()
    [[1.5, 0.5]]
    """
    size, tall, wide = len(queries), max(queries), max(keys)
    rows = torch.arange(tall)[None] < torch.tensor(queries)[:, None]  # (B, Tq)
    columns = torch.arange(wide)[None] < torch.tensor(keys)[:, None]  # (B, Tk)
    allowed = rows[:, :, None] & columns[:, None, :]
    if readable is not None:
        while readable.ndim > 3:  # heads share what may be read
            readable = readable[:, 0]
        allowed = allowed & readable.cpu().expand(size, tall, wide)
    share = allowed.double() / allowed.sum(2, keepdim=True).clamp_min(1)
    return share.sum(1).numpy()
