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

from headscope.choices import Choices
from headscope.measures.accumulator import LayerBatch, NotFinite
from headscope.measures.attention import may_read
from headscope.measures.batch_index import BatchIndex, index_of
from headscope.measures.columns import row_tables
from headscope.measures.compiled_sums import LayerTensors, StackSums
from headscope.measures.own_relations import Labels
from headscope.measures.variables import Shape, Sums
from headscope.tap import LayerHeads
from headscope.windows import WindowBatch


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
        self.length = max(shape.length for shape in shapes.values())
        self.stacks = {name: StackSums(shape, choices) for name, shape in shapes.items()}
        self.rows = row_tables(rows, shapes)
        self.threads = threads
        self._pool = ThreadPoolExecutor(threads - 1) if threads > 1 else None
        self._local = threading.local()  # buffers for matrices, kept by each thread from batch to batch

    def begin(self, batch: WindowBatch, first: int = 0) -> CompiledBatch:
        """Index the windows of a batch and count what they hold, whatever the heads make of it."""
        opened = CompiledBatch(self, batch, first)
        for name, stack in self.stacks.items():
            queries, keys = opened.index.of_stack(name)
            stack.add_windows(queries, keys)
            stack.arrays["base_pairs"] += queries.related
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

    def buffer(self, name: str, shape: tuple[int, ...]) -> Tensor:
        """Memory for matrices of tokens, (…, T, T), that is used again for the next layer and batch."""
        size = math.prod(shape)
        kept: Tensor = getattr(self._local, name, torch.empty(0))
        if kept.numel() < size:  # large enough for every later batch: they are ordered by length
            kept = torch.empty(max(size, math.prod(shape[:-2]) * self.choices.window**2))
            setattr(self._local, name, kept)
        return kept[:size].view(shape)

    def products(self, vectors: list[Tensor]) -> NDArray[np.float32]:
        """Vectors times vectors with their diagonal: several (B, H, T, d) to (sources, B, H, T, T)."""
        size, heads, tokens, _ = vectors[0].shape
        out = self.buffer("products", (len(vectors), size, heads, tokens, tokens))
        for place, each in zip(out, vectors, strict=True):
            if each.device.type == "cpu":
                own = each.contiguous()  # else both sides are copied, one of them across its rows
                torch.matmul(own, own.transpose(-1, -2), out=place)
            else:
                place.copy_(each @ each.transpose(-1, -2))
        return out.numpy()


class CompiledBatch:
    """One batch on its way through the model."""

    def __init__(self, accumulator: CompiledAccumulator, batch: WindowBatch, first: int) -> None:
        self.accumulator, self.first = accumulator, first
        self.index = index_of(batch, accumulator.length, accumulator.choices, accumulator.relations)
        self._read: dict[str, tuple[Tensor | None, Readable]] = {}
        # Focal tokens from the top pairs of every layer, until all are there.
        self._top = {name: stack.no_top(len(batch.windows)) for name, stack in accumulator.stacks.items()}

    def layer(self, heads: LayerHeads) -> None:
        """Add what one layer read and wrote."""
        accumulator = self.accumulator
        stack = accumulator.stacks.get(heads.stack)
        if stack is None or heads.layer not in stack.shape.layers:
            return
        assert heads.weights is not None
        queries, keys = self.index.of_stack(heads.stack)
        readable = self._readable(heads, queries, keys)
        products = accumulator.products([stack.vectors(source, heads, queries) for source in stack.sources])
        weights = heads.weights.float().contiguous().cpu().numpy()
        tensors = LayerTensors(
            LayerBatch(heads, products[stack.outputs_source], weights, readable.even, queries, keys),
            products,
            queries,
            keys,
            readable.number,
            readable.directions,
            accumulator.buffer("roots", weights.shape) if stack.compares_rows else None,
            accumulator.buffer("rows", weights.shape) if stack.compares_rows else None,
        )
        layer_rows = stack.add_layer(heads.layer, tensors, self._top[heads.stack], accumulator.each_part)
        if layer_rows is None:
            raise NotFinite(heads.stack, heads.layer)
        if accumulator.rows:
            accumulator.rows[heads.stack].put(self.first, heads.layer, *layer_rows)

    def finish(self) -> None:
        """Add what needs all layers."""
        for name, stack in self.accumulator.stacks.items():
            stack.add_mixed(self.index.of_stack(name)[0], self._top[name])

    def _readable(self, heads: LayerHeads, queries: BatchIndex, keys: BatchIndex) -> Readable:
        """What may be read: the same for most layers of a stack."""
        known = self._read.get(heads.stack)
        if known is None or not _equal(known[0], heads.readable):
            made = Readable(heads.readable, queries, keys, cross=heads.stack == "cross")
            known = self._read[heads.stack] = (heads.readable, made)
        return known[1]


class Readable:
    """Which tokens of a batch may read which, as the loops want it."""

    def __init__(self, readable: Tensor | None, queries: BatchIndex, keys: BatchIndex, *, cross: bool) -> None:
        size, tall, wide = len(queries.lengths), queries.category.shape[1], keys.category.shape[1]
        allowed = may_read(readable, size, tall, wide, torch.device("cpu")).numpy()  # (B, Tq, Tk)
        reads, is_read = np.arange(tall) < queries.lengths[:, None], np.arange(wide) < keys.lengths[:, None]
        allowed = allowed & reads[:, :, None] & is_read[:, None, :]
        number = allowed.sum(2)
        self.number = number.astype(np.float32)  # (B, Tq): how many tokens each may read
        self.even = np.asarray((allowed / np.maximum(number, 1)[:, :, None]).sum(1))  # (B, Tk)
        self.directions = np.zeros((len(allowed), 1 if cross else queries.cells.shape[1]), dtype=np.float32)
        for row, own, positions, size in zip(self.directions, allowed, queries.positions, queries.sizes, strict=True):
            if cross:
                continue
            i, j = (positions[place] for place in np.triu_indices(size, 1))
            ways = own[i, j].astype(np.float32) + own[j, i]  # 0, 1 or 2
            row[: len(i)] = np.where(ways > 0, 1 / np.maximum(ways, 1), 0)


def _equal(one: Tensor | None, other: Tensor | None) -> bool:
    if one is None or other is None:
        return one is other
    return one.shape == other.shape and torch.equal(one, other)
