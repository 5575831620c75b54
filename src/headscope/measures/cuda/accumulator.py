"""The accumulator of a graphics card: products by torch, everything else by kernels of our own.

Nothing waits for the card before the sums are asked for: a batch leaves tensors behind, and the next one follows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from headscope.choices import Choices
from headscope.errors import HeadscopeError
from headscope.measures.batch_index import index_of
from headscope.measures.columns import row_tables
from headscope.measures.cuda.arguments import Constants
from headscope.measures.cuda.device_batch import DeviceBatch, DeviceReadable
from headscope.measures.cuda.device_sums import DeviceSums
from headscope.measures.cuda.kernels import Kernels, cuda_kernels
from headscope.measures.own_relations import Labels
from headscope.measures.variables import Shape, Sums
from headscope.tap import LayerHeads
from headscope.windows import WindowBatch

MakeKernels = Callable[[Constants, torch.device], Kernels]


class CudaAccumulator:
    """Sums over windows for every stack of a model; see `Accumulator`. Levels that are ranks are not its business."""

    def __init__(
        self,
        shapes: Mapping[str, Shape],
        choices: Choices,
        *,
        relations: Mapping[str, Labels] | None = None,
        rows: int | None = None,
        threads: int = 1,
        kernels: MakeKernels = cuda_kernels,
    ) -> None:
        if choices.scale != "max":
            raise HeadscopeError("levels by rank are not counted on a graphics card", 'use scale "max", or the CPU')
        self.choices, self.relations, self.threads, self.make_kernels = choices, relations or {}, threads, kernels
        self.length = max(shape.length for shape in shapes.values())
        self.stacks = {name: DeviceSums(shape, choices) for name, shape in shapes.items()}
        self.rows = row_tables(rows, shapes)

    def begin(self, batch: WindowBatch, first: int = 0) -> CudaBatch:
        """Index the windows of a batch and count what they hold, whatever the heads make of it."""
        opened = CudaBatch(self, batch, first)
        for name, stack in self.stacks.items():
            stack.add_windows(*opened.index.tokens_of_stack(name))
        return opened

    def sums(self) -> Sums:
        """Every variable of every stack."""
        return {name: stack.variables(name) for name, stack in self.stacks.items()}

    def close(self) -> None:
        """There is nothing to let go of."""


class CudaBatch:
    """One batch on its way through the model."""

    def __init__(self, accumulator: CudaAccumulator, batch: WindowBatch, first: int) -> None:
        self.accumulator, self.first = accumulator, first
        self.index = index_of(batch, accumulator.length, accumulator.choices, accumulator.relations)
        self._on_device: dict[str, DeviceBatch] = {}
        self._read: dict[str, tuple[Tensor | None, DeviceReadable]] = {}
        self._top: dict[str, list[Tensor]] = {name: [] for name in accumulator.stacks}

    @torch.no_grad()
    def layer(self, heads: LayerHeads) -> None:
        """Add what one layer read and wrote."""
        stack = self.accumulator.stacks.get(heads.stack)
        if stack is None or heads.layer not in stack.shape.layers:
            return
        device = heads.outputs.device
        kernels = self.accumulator.make_kernels(stack.constants, device)
        if heads.stack not in self._on_device:
            self._on_device[heads.stack] = DeviceBatch(*self.index.tokens_of_stack(heads.stack), device)
            stack.pairs.add(self._on_device[heads.stack], kernels)
        own = self._on_device[heads.stack]
        known = self._read.get(heads.stack)
        if known is None or known[0] is not heads.readable:
            known = self._read[heads.stack] = (heads.readable, own.read_by(heads.readable, cross=stack.shape.cross))
        filled = stack.add_layer(heads, own, known[1], kernels)
        self._top[heads.stack].append(filled["top"])
        if self.accumulator.rows:
            columns, tokens, null_tokens = stack.rows(filled, own, known[1])
            self.accumulator.rows[heads.stack].put(self.first, heads.layer, columns, tokens, null_tokens)

    def finish(self) -> None:
        """Add what heads drawn from all layers would have."""
        for name, top in self._top.items():
            if top:
                self.accumulator.stacks[name].add_mixed(torch.stack(top), self._on_device[name])
        self._top.clear()
