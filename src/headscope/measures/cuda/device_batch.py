"""The windows of a batch as tensors on the device: what the kernels know before any head has looked at them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from headscope.measures.attention import may_read
from headscope.measures.batch_index import TokenIndex
from headscope.measures.cuda.arguments import DTYPES
from headscope.measures.cuda.layout import Layout
from headscope.models.transfer import to_device
from headscope.windows import CATEGORIES

C_TYPES = {str(dtype).removeprefix("torch."): name for name, dtype in DTYPES.items()}
INTEGERS = ("sizes", "positions", "sampled", "id_number", "distinct", "by_count", "class_ends")


class DeviceReadable(NamedTuple):
    """Who may read whom in a batch: the same for most layers of a stack."""

    readable: Tensor  # (B, T): how many tokens each may read
    readers: Tensor  # (B, 2): how many may read any, and several
    evenness: Tensor  # (B, T): 1 over ln of how many each may read; 0 below two
    even: Tensor  # (B, Tk): what each would receive if all read evenly
    directions: Tensor | None  # (B, T, T): 1 over the directions in which a pair may be read; none where nobody asks
    even_by_category: Tensor  # (B, C): the mean weight that a token that reads would give to each category
    allowed: Tensor | None  # (B, T, Tk): whether a token may read another; None where it may read all of its window


class Arrays(NamedTuple):
    """The arrays of a batch as they go to the card: in one piece of memory."""

    layout: Layout
    room: NDArray[np.uint8]


def arrays_of(queries: TokenIndex, keys: TokenIndex) -> Arrays:
    """What the kernels know of the tokens that query and of those that are read."""
    ends = queries.class_ends
    # Where the ids that occur as often begin: at the end of the class before.
    starts = np.concatenate([np.zeros((len(ends), 1), dtype=ends.dtype), ends[:, :-1]], axis=1)
    own_places = np.arange(ends.shape[1])
    begins = np.maximum.accumulate(np.where(starts == own_places, own_places, 0), axis=1)
    own: dict[str, NDArray[np.generic]] = {name: getattr(queries, name).astype(np.int32) for name in INTEGERS}
    tokens, places = queries.tokens, queries.positions
    related = {"word": tokens.word, "sentence": tokens.sentence, "same": tokens.same, "mark": tokens.mark}
    own |= {name: np.take_along_axis(each, places, 1).astype(np.int32) for name, each in related.items()}
    own["id_at"] = np.full(queries.counting.shape, -1, dtype=np.int32)
    own["id_at"][queries.counting] = queries.id_number[np.arange(places.shape[1]) < queries.sizes[:, None]]
    own |= {
        "queries_of": queries.lengths.astype(np.int32),
        "keys_of": keys.lengths.astype(np.int32),
        "category": keys.category.astype(np.int32),
        "is_counting": keys.counting.astype(np.int32),
        "custom": queries.custom.astype(np.int32),
        "class_begins": begins.astype(np.int32),
        "firsts": np.take_along_axis(queries.firsts, queries.by_count, 1).astype(np.int32),
        "number": queries.number.view(np.int64),
        "counts": _by_position(queries.counting),
        "ids": queries.ids,
    }
    layout = Layout({name: (C_TYPES[values.dtype.name], values.shape) for name, values in own.items()})
    room = np.empty(layout.size, dtype=np.uint8)
    for name, values in own.items():
        begin = layout.begins[name]
        room[begin : begin + values.nbytes] = np.ascontiguousarray(values).reshape(-1).view(np.uint8)
    return Arrays(layout, room)


@dataclass
class DeviceBatch:
    """Index of the tokens that query and of those that are read, for one stack."""

    queries: TokenIndex
    keys: TokenIndex
    arrays: Arrays
    device: torch.device
    tensors: dict[str, Tensor] = field(default_factory=dict)

    def __post_init__(self) -> None:
        moved = to_device(self.arrays.room, self.device)
        self.tensors = {name: self.arrays.layout.view(moved, name) for name in self.arrays.layout.arrays}

    def read_by(
        self, readable: Tensor | None, *, cross: bool, tiled: bool = False, slabs: bool = False
    ) -> DeviceReadable:
        """Who may read whom, and what even attention would give.

        `tiled`: directions are not asked for where every token may read all of its window. `slabs`: nothing of the size
        of a map is kept; the kernels look at `readable` itself.
        """
        size, tall, wide = len(self.queries.lengths), self.queries.category.shape[1], self.keys.category.shape[1]
        reads = torch.arange(tall, device=self.device) < self.tensors["queries_of"][:, None]
        is_read = torch.arange(wide, device=self.device) < self.tensors["keys_of"][:, None]
        asked = not cross and not slabs and not (tiled and readable is None)  # for directions
        if readable is None and not asked:  # every token reads all of its window
            lengths, readers = self.tensors["keys_of"][:, None], self.tensors["queries_of"][:, None]
            number = torch.where(reads, lengths, 0)
            even = torch.where(is_read, readers.double() / lengths.clamp_min(1), 0.0)
        else:
            may = may_read(readable, size, tall, wide, self.device)  # (B, T, Tk), but for padding
            rows = max(1, READ_TOGETHER // (size * wide)) if slabs else tall
            numbers, even = [], torch.zeros((size, wide), dtype=torch.float64, device=self.device)
            for first in range(0, tall, rows):
                own = slice(first, first + rows)
                allowed = may[:, own] & reads[:, own, None] & is_read[:, None, :]
                numbers.append(allowed.sum(2))
                even += (allowed.double() / numbers[-1].clamp_min(1)[:, :, None]).sum(1)
            number = torch.cat(numbers, dim=1)
        of_category = self.tensors["category"][:, None, :] == torch.arange(len(CATEGORIES), device=self.device)[:, None]
        by_category = (even[:, None, :] * of_category).sum(2)  # (B, C); in one order, as scattering is not
        by_category /= (number >= 1).sum(1).clamp_min(1)[:, None]
        directions = told = None
        if asked:
            ways = allowed.float() + allowed.transpose(1, 2).float()
            directions = torch.where(ways > 0, 1 / ways.clamp_min(1), 0.0).contiguous()
        if readable is not None and not slabs:
            told = allowed.to(torch.uint8).contiguous()
        several = number >= 2
        readers = torch.stack([(number >= 1).sum(1), several.sum(1)], dim=1).int()
        evenness = torch.where(several, 1 / number.clamp_min(2).double().log(), 0.0)
        return DeviceReadable(number.int(), readers, evenness, even.contiguous(), directions, by_category, told)


READ_TOGETHER = 2**25  # pairs of which it is looked up at a time who may read whom
MANY = 16  # windows that `add_matrices` has on their way at a time


def _by_position(counting: NDArray[np.bool_]) -> NDArray[np.uint8]:
    """Which tokens count, position by position: (B, T) to (T, B rounded up), 255 for those that do."""
    size, tokens = counting.shape
    flags = np.zeros((tokens, -(-size // MANY) * MANY), dtype=np.uint8)
    flags[:, :size] = counting.T * np.uint8(255)
    return flags
