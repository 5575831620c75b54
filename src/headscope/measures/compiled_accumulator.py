"""The accumulator of a CPU: sums from compiled loops over all pairs of all heads."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from headscope.choices import BINS, FEW_PAIRS, THRESHOLDS, Choices, first_high_bin, step_of
from headscope.errors import HeadscopeError
from headscope.measures import pair_loops, token_loops
from headscope.measures.accumulator import LayerBatch
from headscope.measures.attention import even_of_batch
from headscope.measures.batch_index import BatchIndex, Labels, index_batch
from headscope.measures.columns import RowTable
from headscope.measures.relations import RELATIONS
from headscope.measures.similarity import EDGES, unit
from headscope.measures.variables import FOCAL_TOKENS, REGIONS, Array, Shape, Sums, variables_of
from headscope.tap import LayerHeads
from headscope.windows import CATEGORIES, WindowBatch
from headscope.windows.window import END, STOP

NOTED = 1 << 13  # focal tokens of a layer noted down before they are counted
TOKENS = 1 << 32  # more than any vocabulary has


class CompiledAccumulator:
    """Sums over windows for every stack of a model; see `Accumulator`.

    `relations` are the caller's own, `rows` is how many windows there will be where rows per text are wanted, and
    `threads` share the heads of each layer.
    """

    def __init__(
        self,
        shapes: Mapping[str, Shape],
        choices: Choices,
        *,
        relations: Mapping[str, Labels] | None = None,
        rows: int | None = None,
        threads: int = 1,
    ) -> None:
        self.choices, self.relations = choices, relations or {}
        self.heads = max(shape.heads for shape in shapes.values())
        self.stacks = {name: StackSums(shape, choices) for name, shape in shapes.items()}
        self.rows = {name: RowTable(rows, s.layers, s.heads) for name, s in shapes.items()} if rows is not None else {}
        self.threads = threads
        self._pool = ThreadPoolExecutor(threads - 1) if threads > 1 else None
        self._local = threading.local()  # a buffer for products, kept by each thread from batch to batch

    def begin(self, batch: WindowBatch, first: int = 0) -> CompiledBatch:
        """Index the windows of a batch and count what they hold, whatever the heads make of it."""
        opened = CompiledBatch(self, batch, first)
        for name, stack in self.stacks.items():
            stack.add_windows(*opened.of_stack(name))
        return opened

    def sums(self) -> Sums:
        """Every variable of every stack."""
        return {name: stack.variables() for name, stack in self.stacks.items()}

    def close(self) -> None:
        """Let the threads go."""
        if self._pool is not None:
            self._pool.shutdown()

    def each_part(self, heads: int, work: Callable[[int, int], bool]) -> bool:
        """Do the heads in as many parts as there are threads, the last part in this one; whether all went well."""
        parts = min(self.threads, heads)
        *others, last = pairwise(round(k * heads / parts) for k in range(parts + 1))
        waiting = [self._pool.submit(work, *part) for part in others] if self._pool else []
        return all([work(*last), *(part.result() for part in waiting)])

    def products(self, outputs: Tensor) -> NDArray[np.float32]:
        """O·Oᵀ of every head with its diagonal, in a buffer that is used again: (B, H, T, d) to (B, H, T, T)."""
        outputs = outputs.float()
        if self.choices.similarity == "cosine":
            outputs = unit(outputs)
        if outputs.device.type != "cpu":
            return (outputs @ outputs.transpose(-1, -2)).cpu().numpy()
        shape = (*outputs.shape[:-1], outputs.shape[-2])
        size = math.prod(shape)
        buffer: Tensor = getattr(self._local, "products", torch.empty(0))
        if buffer.numel() < size:  # large enough for every later batch: they are ordered by length
            buffer = self._local.products = torch.empty(max(size, math.prod(shape[:-2]) * self.choices.window**2))
        return torch.matmul(outputs, outputs.transpose(-1, -2), out=buffer[:size].view(shape)).numpy()


class CompiledBatch:
    """One batch on its way through the model."""

    def __init__(self, accumulator: CompiledAccumulator, batch: WindowBatch, first: int) -> None:
        self.accumulator, self.batch, self.first = accumulator, batch, first
        self._indexed: dict[int, BatchIndex] = {}
        self._even: dict[str, tuple[Tensor | None, NDArray[np.float64]]] = {}

    def of_stack(self, stack: str) -> tuple[BatchIndex, BatchIndex]:
        """The index of the tokens that query in a stack, and of those that are read."""
        queries, keys = self.batch.of_stack(stack)
        choices, relations, indexed = self.accumulator.choices, self.accumulator.relations, self._indexed
        for windows in (queries, keys):
            if id(windows) not in indexed:
                indexed[id(windows)] = index_batch(
                    windows,
                    self.accumulator.heads,
                    repeated=choices.repeated,
                    special=choices.special,
                    relations=relations,
                )
        return indexed[id(queries)], indexed[id(keys)]

    def layer(self, heads: LayerHeads) -> None:
        """Add what one layer read and wrote."""
        stack = self.accumulator.stacks.get(heads.stack)
        if stack is None or heads.layer not in stack.shape.layers:
            return
        assert heads.weights is not None
        queries, keys = self.of_stack(heads.stack)
        read = LayerBatch(
            heads,
            self.accumulator.products(heads.outputs),
            heads.weights.float().contiguous().cpu().numpy(),
            self._even_attention(heads, queries, keys),
            queries,
            keys,
        )
        columns, focal = stack.add_layer(heads.layer, read, self.accumulator.each_part)
        if self.accumulator.rows:
            self.accumulator.rows[heads.stack].put(self.first, heads.layer, columns, focal)

    def _even_attention(self, heads: LayerHeads, queries: BatchIndex, keys: BatchIndex) -> NDArray[np.float64]:
        """What each key would receive from an even spread: the same for most layers of a stack."""
        known = self._even.get(heads.stack)
        if known is None or not _equal(known[0], heads.readable):
            even = even_of_batch(heads.readable, queries.lengths.tolist(), keys.lengths.tolist())
            known = self._even[heads.stack] = (heads.readable, even)
        return known[1]


class StackSums:
    """The sums of one stack, filled layer by layer."""

    def __init__(self, shape: Shape, choices: Choices) -> None:
        self.shape, self.choices = shape, choices
        self.declared = [each for each in variables_of(shape) if each.name != FOCAL_TOKENS]
        layers, heads = len(shape.layers), shape.heads
        table = max(shape.length - 1, 1) * len(RELATIONS)  # a head's pairs of one level, by distance and relation
        self._custom_pairs = np.zeros((len(shape.relations), layers, heads, BINS, table), dtype=np.int64)
        custom = {f"pairs_{name}": each for name, each in zip(shape.relations, self._custom_pairs, strict=True)}
        self.arrays: dict[str, Array] = {
            each.name: custom[each.name].reshape(layers, heads, BINS, -1, len(RELATIONS))
            if each.name in custom
            else each.zeros(shape)
            for each in self.declared
        }
        self.focal = [_FocalCounts() for _ in shape.layers]
        self.thresholds = np.array(THRESHOLDS)
        self.limits = pair_loops.Thresholds(EDGES.numpy(), first_high_bin(choices.tau), FEW_PAIRS)

    def add_windows(self, queries: BatchIndex, keys: BatchIndex) -> None:
        """Count the windows of a batch."""
        sums = self.arrays
        sums["texts"] += len(queries.lengths)
        sums["unsplit"] += int((queries.sentences == 1).sum())
        sums["pairless"] += int((queries.sizes < 2).sum())
        for length, category in zip(keys.lengths, keys.category, strict=True):
            sums["tokens"] += np.bincount(category[:length], minlength=len(CATEGORIES))
        for begin, size in zip(queries.begins, queries.sizes, strict=True):
            block = sums["position_pairs"][begin : begin + size, begin : begin + size]
            block += np.triu(np.ones_like(block), 1)

    def add_layer(
        self, layer: int, read: LayerBatch, each_part: Callable[[int, Callable[[int, int], bool]], bool]
    ) -> tuple[dict[str, NDArray[np.float64]], NDArray[np.int64]]:
        """Add one layer of a batch; returns the columns of its rows per text, and the focal tokens: (B, H) each."""
        k, heads, queries, keys = self.shape.layers.index(layer), self.shape.heads, read.queries, read.keys
        size = len(queries.lengths)
        seen = token_loops.AttentionOut(
            np.zeros((size, heads, len(CATEGORIES))),
            np.zeros((size, heads, keys.category.shape[1]), dtype=bool),
            np.zeros((size, heads, keys.category.shape[1]), dtype=np.int8),
        )
        attention = token_loops.AttentionIn(
            read.weights, read.even, queries.lengths, keys.lengths, keys.category, keys.counting
        )
        attended = token_loops.AttentionSums(self.arrays["attended"][k], self.arrays["attended_text"][k])
        none = np.zeros((0, 0, 0, 0))
        pairs = pair_loops.PairsIn(
            read.products,
            ranks(read.products, queries) if self.choices.scale == "rank" else none,
            none.astype(np.float32) if self.shape.cross else read.weights,
            seen.high,
            seen.passed,
        )
        chosen = np.full((size, heads, len(self.thresholds)), -1, dtype=np.int32)
        rows = pair_loops.PairRows(*(np.zeros((size, heads)) for _ in pair_loops.PairRows._fields))
        sums = self._pair_sums(k)

        def work(first: int, last: int) -> bool:
            theta = self.choices.theta
            finite: bool = token_loops.attention_of_heads(
                attention, attended, seen, self.thresholds, theta, first, last
            )
            return finite and pair_loops.pairs_of_heads(pairs, queries, self.limits, sums, chosen, rows, first, last)

        if not each_part(heads, work):
            raise NotFinite(read.heads.stack, layer)
        return self._finish_layer(k, read, seen.given, chosen, rows)

    def _pair_sums(self, k: int) -> pair_loops.PairSums:
        """One layer of the variables that the loops over pairs fill; empty arrays for those that a stack lacks."""
        heads = self.shape.heads
        empty = {
            "similarity_sum": np.zeros((heads, 0, 0)),
            "attention_correlation": np.zeros(0),
            "region_sum": np.zeros((0, len(REGIONS))),
            "region_pairs": np.zeros((0, len(REGIONS)), dtype=np.int64),
            "mask_sum": np.zeros((0, 0, len(REGIONS))),
            "mask_pairs": np.zeros((0, 0, len(REGIONS)), dtype=np.int64),
        }
        views = {
            "pairs": self.arrays["pairs"][k].reshape(heads, BINS, -1),
            "custom_pairs": self._custom_pairs[:, k],
        }
        names = pair_loops.PairSums._fields
        return pair_loops.PairSums(
            *(views[n] if n in views else self.arrays[n][k] if n in self.arrays else empty[n] for n in names)
        )

    def _finish_layer(
        self, k: int, read: LayerBatch, given: NDArray[np.float64], chosen: NDArray[np.int32], rows: pair_loops.PairRows
    ) -> tuple[dict[str, NDArray[np.float64]], NDArray[np.int64]]:
        """What the loops leave to be added: even attention, focal tokens, and the variables declared elsewhere."""
        sums, queries, keys = self.arrays, read.queries, read.keys
        token_loops.focal_of_layer(
            chosen, queries.sizes, queries.expected, sums["focal_unique"][k], sums["focal_expected"][k]
        )
        even = np.zeros((len(queries.lengths), len(CATEGORIES)))
        for b, length in enumerate(keys.lengths):
            even[b] = np.bincount(keys.category[b, :length], read.even[b, :length], len(CATEGORIES))
        even /= queries.lengths[:, None]
        sums["attention"][k] += given.sum(0)
        sums["attention_even"][k] += even.sum(0)
        number = chosen[:, :, step_of(self.choices.tau)]  # (B, H)
        tokens = np.take_along_axis(queries.ids, np.maximum(number, 0).astype(np.int64), 1)
        tokens = np.where(number >= 0, tokens, -1)
        self.focal[k].note(tokens)
        for each in self.declared:
            if each.fill is not None:
                each.fill(read, np.moveaxis(sums[each.name], each.dims.index("layer"), 0)[k])
        drawing = (number >= 0).sum(1)  # heads with a focal token
        chance = np.take_along_axis(queries.expected, drawing[:, None], 1)  # (B, 1)
        with np.errstate(divide="ignore", invalid="ignore"):
            focus = given / even[:, None]  # (B, H, categories); 0 / 0 where there is no such token
        columns = {"stop_focus": focus[..., STOP], "end_focus": focus[..., END], **rows._asdict()}
        return columns | {"focal_expected": np.broadcast_to(chance, tokens.shape)}, tokens

    def variables(self) -> dict[str, Array]:
        """Every sum by its name."""
        entries = []
        for k, counted in enumerate(self.focal):
            codes, counts = counted.count()
            head, token = np.divmod(codes, TOKENS)
            entries.append(np.column_stack([np.full_like(codes, k), head, token, counts]))
        return self.arrays | {FOCAL_TOKENS: np.concatenate(entries)}


class NotFinite(HeadscopeError):  # noqa: N818 - it says what the numbers are
    """A model gave NaN or infinite numbers: nothing of the sums can be trusted."""

    def __init__(self, stack: str, layer: int) -> None:
        super().__init__(f"there are NaN or infinite numbers in {stack} layer {layer}", "check the model's weights")
        self.stack, self.layer = stack, layer


class _FocalCounts:
    """How often each token is focal in each head of a layer, as codes of head and token."""

    def __init__(self) -> None:
        self._noted, self._written = np.zeros(NOTED, dtype=np.int64), 0
        self._counted = (np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64))

    def note(self, tokens: NDArray[np.int64]) -> None:
        """Note down the focal tokens of a batch, (B, H), in a buffer made before: small arrays litter the memory."""
        head = np.broadcast_to(np.arange(tokens.shape[1]), tokens.shape)
        codes = (head * TOKENS + tokens)[tokens >= 0]
        for begin in range(0, len(codes), NOTED):
            part = codes[begin : begin + NOTED]
            if self._written + len(part) > NOTED:
                self.count()
            self._noted[self._written : self._written + len(part)] = part
            self._written += len(part)

    def count(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Equal codes once, with how often they were noted."""
        codes = np.concatenate([self._counted[0], self._noted[: self._written]])
        weight = np.concatenate([self._counted[1], np.ones(self._written, dtype=np.int64)])
        unique, place = np.unique(codes, return_inverse=True)
        total = np.zeros(len(unique), dtype=np.int64)
        np.add.at(total, place.reshape(-1), weight)
        self._counted, self._written = (unique, total), 0
        return self._counted


def ranks(products: NDArray[np.float32], windows: BatchIndex) -> NDArray[np.float64]:
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
        ranked = np.empty(values.shape)
        pair_loops.rank_levels(packed, ranked)
        levels[b][:, i, j] = ranked
        levels[b][:, j, i] = ranked
    return levels


def _equal(one: Tensor | None, other: Tensor | None) -> bool:
    if one is None or other is None:
        return one is other
    return one.shape == other.shape and torch.equal(one, other)
