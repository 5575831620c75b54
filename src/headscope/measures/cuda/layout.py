"""Named arrays in one piece of memory of the device: made, cleared and moved together instead of one by one."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from numpy.typing import NDArray
from torch import Tensor

from headscope.measures.cuda.arguments import DTYPES

ALIGNED = 16  # bytes at which every array begins, or a multiple of them
Shape = tuple[int, ...]


class Layout:
    """Where each of some arrays lies, by its type in C and its shape.

    >>> import torch
    >>> layout = Layout({"number": ("int", (3,)), "sum": ("double", (2, 2))})
    >>> room = torch.zeros(layout.size, dtype=torch.uint8)
    >>> layout.view(room, "sum")[1, 0] = 4.0
    >>> layout.view(room, "sum").tolist(), layout.addresses(room)["sum"] - room.data_ptr()
    ([[0.0, 0.0], [4.0, 0.0]], 16)
    """

    def __init__(self, arrays: Mapping[str, tuple[str, Shape]]) -> None:
        self.arrays = dict(arrays)
        self.begins: dict[str, int] = {}
        self.size = 0  # bytes
        for name, (kind, shape) in self.arrays.items():
            self.begins[name] = self.size
            self.size += -(-math.prod(shape) * DTYPES[kind].itemsize // ALIGNED) * ALIGNED

    def view(self, room: Tensor, name: str) -> Tensor:
        """One array in a piece of memory that is laid out so: (size,) bytes."""
        kind, shape = self.arrays[name]
        end = self.begins[name] + math.prod(shape) * DTYPES[kind].itemsize
        return room[self.begins[name] : end].view(DTYPES[kind]).view(shape)

    def view_of_all(self, rooms: Tensor, name: str) -> Tensor:
        """The same array of several such pieces: (rooms, …) of (rooms, size) bytes."""
        kind, shape = self.arrays[name]
        end = self.begins[name] + math.prod(shape) * DTYPES[kind].itemsize
        return rooms[:, self.begins[name] : end].view(DTYPES[kind]).view(len(rooms), *shape)

    def on_host(self, room: Tensor) -> dict[str, NDArray[Any]]:
        """All arrays, moved together."""
        moved = room.cpu()
        return {name: self.view(moved, name).numpy() for name in self.arrays}

    def addresses(self, room: Tensor) -> dict[str, int]:
        """Where the arrays of such a piece of memory begin."""
        first = room.data_ptr()
        return {name: first + begin for name, begin in self.begins.items()}


@dataclass
class Filled:
    """What the kernels filled for each head and window of a batch, by name."""

    layout: Layout
    room: Tensor

    @cached_property
    def addresses(self) -> dict[str, int]:
        """Where its arrays begin."""
        return self.layout.addresses(self.room)

    def __getitem__(self, name: str) -> Tensor:
        return self.layout.view(self.room, name)


@dataclass
class Rooms:
    """Room for what the kernels fill in each layer of a batch: (layers, bytes)."""

    layout: Layout
    room: Tensor

    def of_layer(self, place: int) -> Filled:
        """That of one layer."""
        return Filled(self.layout, self.room[place])

    def every(self, name: str) -> Tensor:
        """One array of all layers, (layers, …), apart from the rest."""
        kind, shape = self.layout.arrays[name]
        begin = self.layout.begins[name]
        bytes_of = self.room[:, begin : begin + math.prod(shape) * DTYPES[kind].itemsize]
        return bytes_of.contiguous().view(DTYPES[kind]).view(-1, *shape)
