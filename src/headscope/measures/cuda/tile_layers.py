"""Layers of a batch whose pairs are counted in tiles; what is the same from layer to layer is told once."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from headscope.measures.cuda.arguments import (
    FIELDS,
    LEVEL_WARPS,
    MOST_BANDS,
    POINTERS,
    TILE,
    TILE_WARPS,
    WARP,
    packed,
)
from headscope.measures.cuda.chip_memory import (
    add_products_bytes,
    by_tile_bytes,
    cells_of,
    level_tile_bytes,
    match_bytes,
    tiles_of,
)
from headscope.measures.cuda.device_batch import DeviceBatch, DeviceReadable
from headscope.measures.cuda.device_layer import LOW, laid_out
from headscope.measures.cuda.device_sums import DeviceSums
from headscope.measures.cuda.kernels import Kernels
from headscope.measures.cuda.layout import Filled
from headscope.measures.variables import MATRIX
from headscope.tap import LayerHeads

SHARE = 48  # windows that a block of `add_products` adds up, at most: on every card as many, since floats are
VECTORS = ("outputs", "values", "queries", "score_keys")  # of the model, another place in memory in each layer


def in_tiles(heads: LayerHeads, sums: DeviceSums, kernels: Kernels) -> bool:
    """Whether pairs are counted in tiles.

    Attention is computed from vectors of 16 bits, windows have at most TILE tokens, S is read from outputs alone, the
    chip has room, and no variable that was declared elsewhere asks for either. The same for all layers of a stack.
    """
    if heads.scores is None or not kernels.tiles or heads.outputs.shape[2] > TILE or sums.bands > MOST_BANDS:
        return False
    if max(by_tile_bytes(sums.constants), level_tile_bytes()) > kernels.most_shared:  # a small card has 99 KB
        return False
    if any(each.dtype not in LOW for each in (heads.outputs, heads.scores.queries, heads.scores.keys)):
        return False
    if heads.values is not None and heads.values.dtype not in LOW:
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
        self._filled: tuple[list[int], NDArray[np.int64]] | None = None
        memory = level_tile_bytes()
        self._launches = (
            ("by_tile", (many, size), WARP * TILE_WARPS, by_tile_bytes(sums.constants)),
            ("level_tile", (many, sums.blocks(numbers, memory, kernels)), WARP * LEVEL_WARPS, memory),
            ("match", (1, size), WARP * TILE_WARPS, match_bytes(sums.kinds)),
        )
        self._tiles = tiles_of(tokens)
        self._parts: Tensor | None = None
        if MATRIX in sums.kept.arrays:
            shares = -(-size // SHARE)
            self._parts = torch.empty((shares, many, cells_of(tokens)), dtype=torch.float64, device=device)

    def _vectors(self, heads: LayerHeads) -> tuple[Tensor, Tensor | None, Tensor, Tensor]:
        assert heads.scores is not None
        values = None if heads.values is None else by_eight(heads.values)
        return by_eight(heads.outputs), values, by_eight(heads.scores.queries), by_eight(heads.scores.keys)

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
        if self._filled is None:
            self._filled = _places(filled.layout.begins)
        places, begins = self._filled
        told[places] = begins + filled.room.data_ptr()
        launch, packed_once = self.kernels.launcher(), told.tobytes()
        for name, grid, threads, memory in self._launches:
            launch(name, grid, threads, memory, packed_once)
        if self._parts is not None:
            whole = sums.kept.view(room, MATRIX)
            shares, many, _ = self._parts.shape
            launch("add_products", (many, shares), WARP * TILE_WARPS, add_products_bytes(), packed_once, self._parts)
            launch("add_parts", (many, self._tiles), cells_of(1), 0, packed_once,
                   self._parts, whole, shares, sums.shape.length)  # fmt: skip


def by_eight(vectors: Tensor) -> Tensor:
    """Vectors whose numbers can be loaded eight at a time; a copy with zeros at their ends where they cannot.

    >>> by_eight(torch.ones(1, 1, 2, 20, dtype=torch.float16)).shape
    torch.Size([1, 1, 2, 24])
    """
    if vectors.stride(-1) == 1 and not any(each % 8 for each in (vectors.shape[-1], *vectors.stride()[:-1])):
        return vectors if vectors.data_ptr() % 16 == 0 else vectors.clone()
    return torch.nn.functional.pad(vectors, (0, -vectors.shape[-1] % 8)).contiguous()


def _places(begins: dict[str, int]) -> tuple[list[int], NDArray[np.int64]]:
    """Which fields of what the kernels are told lie in a piece of memory, and how far from its beginning."""
    known = [name for name in begins if name in FIELDS]
    return [FIELDS[name] for name in known], np.array([begins[name] for name in known], dtype=np.int64)
