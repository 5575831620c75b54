"""The accumulator of a graphics card: kernels of our own, and products by torch where pairs are not counted in tiles.

Nothing waits for the card before the sums are asked for: a batch leaves tensors behind, and the next one follows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from headscope.choices import Choices
from headscope.errors import HeadscopeError
from headscope.measures.batch_index import StackIndex, index_of
from headscope.measures.columns import row_tables
from headscope.measures.cuda.arguments import Constants
from headscope.measures.cuda.device_batch import DeviceBatch, DeviceReadable, arrays_of
from headscope.measures.cuda.device_sums import DeviceSums
from headscope.measures.cuda.kernels import Kernels, cuda_kernels
from headscope.measures.cuda.layout import Filled
from headscope.measures.cuda.slab_layers import SlabLayers, in_slabs
from headscope.measures.cuda.tile_layers import TileLayers, in_tiles
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
        """Begin to send sums to the host, so that asking for them waits for nothing that comes after."""
        for stack in self.stacks.values():
            stack.send()


class CudaBatch:
    """One batch on its way through the model."""

    def __init__(self, accumulator: CudaAccumulator, batch: WindowBatch, first: int) -> None:
        self.accumulator, self.first = accumulator, first
        self.index = index_of(batch, accumulator.length, accumulator.choices, accumulator.relations)
        self._stacks: dict[str, _StackBatch] = {}

    @torch.no_grad()
    def layer(self, heads: LayerHeads) -> None:
        """Add what one layer read and wrote."""
        stack = self.accumulator.stacks.get(heads.stack)
        if stack is None or heads.layer not in stack.shape.layers:
            return
        own = self._stacks.get(heads.stack)
        if own is None:
            kernels = self.accumulator.make_kernels(stack.constants, heads.outputs.device)
            own = self._stacks[heads.stack] = _StackBatch(stack, heads, self.index, kernels)
        filled = own.add(heads)
        if self.accumulator.rows:
            assert own.read is not None
            columns, tokens, null_tokens = stack.rows(filled, own.batch, own.read)
            self.accumulator.rows[heads.stack].put(self.first, heads.layer, columns, tokens, null_tokens)

    def finish(self) -> None:
        """Add what heads of all layers have chosen."""
        for own in self._stacks.values():
            own.finish()
        self._stacks.clear()


class _StackBatch:
    """A batch in one stack: what the kernels know of it, and where they put what they find."""

    def __init__(self, sums: DeviceSums, heads: LayerHeads, index: StackIndex, kernels: Kernels) -> None:
        self.sums, self.kernels = sums, kernels
        device = heads.outputs.device
        arrays = index.prepared(heads.stack, arrays_of)
        self.batch = DeviceBatch(*index.tokens_of_stack(heads.stack), arrays, device)
        self.rooms = sums.rooms(len(heads.outputs), self.batch.keys.category.shape[1], device)
        self.tiled, self.slabs = in_tiles(heads, sums, kernels), in_slabs(heads, sums)
        sums.pairs.add(self.batch, kernels, tiled=self.tiled, slabs=self.slabs)
        self.read: DeviceReadable | None = None
        self._readable: Tensor | None = None  # whom the layers since may read
        self._layers: TileLayers | SlabLayers | None = None
        self._places: list[int] = []  # layers since then

    def add(self, heads: LayerHeads) -> Filled:
        """Have one layer counted; gives what was filled."""
        sums, place = self.sums, self.sums.shape.layers.index(heads.layer)
        if self.read is None or self._readable is not heads.readable:  # in most models the same for all layers
            self._add_even()
            cross = sums.shape.cross
            self.read = self.batch.read_by(heads.readable, cross=cross, tiled=self.tiled, slabs=self.slabs)
            self._readable = heads.readable
            if self.tiled or self.slabs:
                kind = TileLayers if self.tiled else SlabLayers
                self._layers = kind(sums, heads, self.batch, self.read, self.kernels)
        filled = self.rooms.of_layer(place)
        if self._layers is not None:
            self._layers.add(heads, filled)
        else:
            sums.add_layer(heads, self.batch, self.read, filled, self.kernels)
        self._places.append(place)
        return filled

    def _add_even(self) -> None:
        """Add what even attention would give in the layers since who may read whom has changed."""
        if self.read is not None:
            self.sums.add_even(self._places, self.read)
        self._places.clear()

    def finish(self) -> None:
        """Add up what was filled in all layers, and what their heads have chosen."""
        self._add_even()
        self.sums.add_up(self.rooms, self.batch, self.kernels)
        self.sums.add_chosen(self.rooms, self.batch, self.kernels)
