"""Layers of a batch whose pairs are counted in tiles; what is the same from layer to layer is told once."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from headscope.measures.cuda.arguments import (
    FIELDS,
    POINTERS,
    TILE,
    by_tile_bytes,
    cells_of,
    level_tile_bytes,
    packed,
    tiles_of,
)
from headscope.measures.cuda.device_batch import DeviceBatch, DeviceReadable
from headscope.measures.cuda.device_layer import LOW, laid_out, vectors_of
from headscope.measures.cuda.device_sums import WIDE, DeviceSums
from headscope.measures.cuda.kernels import Kernels
from headscope.measures.cuda.layout import Filled
from headscope.measures.variables import MATRIX
from headscope.tap import LayerHeads

VECTORS = ("outputs", "values", "queries", "score_keys")  # of the model, another place in memory in each layer


def in_tiles(heads: LayerHeads, sums: DeviceSums, kernels: Kernels) -> bool:
    """Whether pairs are counted in tiles: attention is computed, S is of outputs alone, nobody else asks for either."""
    if heads.scores is None or not kernels.tiles or heads.outputs.dtype not in LOW or heads.outputs.shape[2] > TILE:
        return False
    return sums.maps > 1 and sums.host.sources == ["outputs"] and not any(each.fill for each in sums.host.declared)


class TileLayers:
    """Counts such layers of one batch of a stack, as long as all of them may read the same tokens."""

    def __init__(
        self, sums: DeviceSums, heads: LayerHeads, batch: DeviceBatch, read: DeviceReadable, kernels: Kernels
    ) -> None:
        self.sums, self.kernels, self.read = sums, kernels, read
        size, many, tokens, _ = heads.outputs.shape
        device = heads.outputs.device
        vectors = self._vectors(heads)
        numbers = sums.numbers(heads, laid_out(*vectors), batch) | {"table_on_chip": 1, "rows_square": 0}
        self._space = {  # used by one layer after the other
            "similar": torch.empty((size, many, cells_of(tokens)), dtype=torch.float32, device=device),
            "squares": torch.empty((size, many, tokens), dtype=torch.float32, device=device),
            "nulls": torch.empty((size, many, numbers["most_ids"]), dtype=torch.int32, device=device),
        }
        assert heads.scores is not None
        given = dict.fromkeys(POINTERS) | batch.tensors | read._asdict() | self._space
        reals = {"theta": sums.choices.theta, "scaling": heads.scores.scaling}
        self._told = np.frombuffer(packed(numbers, reals, given), dtype=np.int64)
        self._kept = _places(sums.kept.begins)
        memory = level_tile_bytes(numbers)
        self._launches = (
            ("by_tile", (many, size), by_tile_bytes(numbers, sums.constants)),
            ("level_tile", (many, sums.blocks(numbers, memory, kernels)), memory),
        )
        self._grid = (many, tiles_of(tokens))

    def _vectors(self, heads: LayerHeads) -> tuple[Tensor, Tensor | None, Tensor, Tensor]:
        assert heads.scores is not None
        values = None if heads.values is None else vectors_of(heads.values)
        return vectors_of(heads.outputs), values, vectors_of(heads.scores.queries), vectors_of(heads.scores.keys)

    def add(self, heads: LayerHeads, filled: Filled) -> None:
        """Have the kernels count one layer."""
        assert heads.scores is not None
        sums, vectors, told = self.sums, self._vectors(heads), self._told.copy()
        room = sums.room_of(sums.shape.layers.index(heads.layer), heads.outputs.device)
        own = {"layer": heads.layer} | laid_out(*vectors)
        own |= {name: 0 if each is None else each.data_ptr() for name, each in zip(VECTORS, vectors, strict=True)}
        told[[FIELDS[name] for name in own]] = list(own.values())
        told[FIELDS["scaling"]] = np.float64(heads.scores.scaling).view(np.int64)
        places, begins = self._kept
        told[places] = begins + room.data_ptr()
        places, begins = _places(filled.layout.begins)
        told[places] = begins + filled.room.data_ptr()
        launch, packed_once = self.kernels.launcher(), told.tobytes()
        for name, grid, memory in self._launches:
            launch(name, grid, WIDE, memory, packed_once)
        if MATRIX in sums.kept.arrays:
            launch("add_tiles", self._grid, WIDE, 0, packed_once, sums.kept.view(room, MATRIX), sums.shape.length)


def _places(begins: dict[str, int]) -> tuple[list[int], np.ndarray]:
    """Which fields of what the kernels are told lie in a piece of memory, and how far from its beginning."""
    known = [name for name in begins if name in FIELDS]
    return [FIELDS[name] for name in known], np.array([begins[name] for name in known], dtype=np.int64)
