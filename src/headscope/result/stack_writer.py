"""One attention stack's part of a result's file: totals at its top, `blocks` and `groups` beneath."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from math import prod
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from headscope.measures.variables import DIMENSIONS, FOCAL_TOKENS, Shape, coordinates, variable
from headscope.result.netcdf import Group, fill
from headscope.result.parts import ShardInfo, add_sums, is_coarser
from headscope.result.shards import smallest

BLOCKS, GROUPS = "blocks", "groups"  # the parts of a file beside the totals
COMPRESSION: dict[str, Any] = {"compression": "gzip", "compression_opts": 4, "shuffle": True}
WORTH_COMPRESSING = 512  # numbers; what is smaller stands in the file as it is
WRITTEN_AT_ONCE = 4096  # numbers of a block; what is smaller waits for the last block
LARGE = 32_768  # numbers; what is larger is stored in pieces, of layers for one
Array = NDArray[Any]
TokenText = Callable[[Iterable[int]], list[str]]


class StackWriter:
    """One stack's part of the file, filled block by block, then variable by variable and group by group."""

    def __init__(self, group: Group, stack: str, shape: Shape, bounds: Mapping[str, int]) -> None:
        self.group, self.shape, self.bounds = group, shape, bounds
        self.totals: dict[str, Array] = {}
        self.small: dict[str, list[Array]] = {}  # of blocks, until the last
        self.large: dict[str, h5py.Dataset] = {}  # of blocks, in the file
        self.tokens = np.zeros(0, dtype=np.int64)
        group.attrs["stack"] = stack
        for name, values in coordinates(shape).items():
            if name != "token":
                group.coordinate(name, values, DIMENSIONS[name].meaning)

    # ------------------------------------------------------------------ blocks

    def about_blocks(self, infos: Sequence[ShardInfo], blocks: Sequence[tuple[int, ...]]) -> None:
        """Write down which texts the blocks hold."""
        inner = self.blocks = self.group.group(BLOCKS)
        held = [[infos[number] for number in block] for block in blocks]
        hashes = [[hash_ for info in block for hash_ in info.hashes] for block in held]
        of_block = np.repeat(np.arange(len(blocks)), [len(each) for each in hashes])
        inner.dimension("block", len(blocks))
        inner.dimension("shard", len(of_block))
        groups = np.array([block[0].group for block in held], dtype=object)
        _write(inner, "group", ("block",), groups, "group of the texts")
        texts = np.array([sum(info.texts for info in block) for block in held])
        _write(inner, "texts_read", ("block",), texts, "number of texts")
        _write(inner, "shard_block", ("shard",), of_block, "which block the shard was added to")
        joined = np.array([hash_ for each in hashes for hash_ in each], dtype=np.uint64)
        _write(inner, "shard_hash", ("shard",), joined, "first eight bytes of the hash of the shard's texts")

    def add_block(self, place: int, sums: Mapping[str, Array]) -> None:
        """Take in the next block: what is large is written at once, the rest with the last block."""
        for name, values in sums.items():
            if values.size < WRITTEN_AT_ONCE:
                self.small.setdefault(name, []).append(values)
            else:
                fill(self._large_for_blocks(name, values), values, (place,))
            if not is_coarser(variable(name), self.shape):
                add_sums(self.totals, {name: values})

    def _large_for_blocks(self, name: str, values: Array) -> h5py.Dataset:
        if name not in self.large:
            dtype = values.dtype if values.dtype.kind == "f" else np.min_scalar_type(self.bounds[name])
            options = _storage(variable(name).dims_of_block, values.shape)
            options["chunks"] = (1, *options["chunks"])
            self.large[name] = self._make(self.blocks, name, ("block", *variable(name).dims_of_block), dtype, options)
        return self.large[name]

    def finish_blocks(self) -> None:
        """Write what is small, and the totals of everything that blocks keep whole."""
        for name, each in self.small.items():
            values, dims = smallest(np.stack(each)), ("block", *variable(name).dims_of_block)
            fill(self._make(self.blocks, name, dims, values.dtype, _storage(dims, values.shape)), values)
        for name, values in self.totals.items():
            self.write_total(name, values)
        self.small.clear()
        self.totals.clear()

    # ------------------------------------------------------------------ groups

    def about_groups(self, names: Sequence[str]) -> None:
        """Name the groups. Where there is one, the totals are its sums."""
        if len(names) > 1:
            inner = self.group.group(GROUPS)
            inner.coordinate("group", np.array(names, dtype=object), "group of the texts")

    def about_tokens(self, tokens: NDArray[np.int64], token_text: TokenText) -> None:
        """Name the ids that are focal anywhere."""
        self.tokens = tokens
        self.group.coordinate("token", tokens, DIMENSIONS["token"].meaning)
        text = np.array(token_text(tokens.tolist()), dtype=object)
        _write(self.group, "token_text", ("token",), text, "the token's own form")

    def add_group(self, place: int, name: str, values: Array) -> None:
        """Write down one variable of one group, where there are several."""
        if GROUPS not in self.group.groups:
            return
        inner, dims = self.group.groups[GROUPS], variable(name).dims_of(self.shape)
        if name not in inner.variables:
            options = _storage(dims, self._size(name, values))
            if options:
                options["chunks"] = (1, *options["chunks"])
            self._make(inner, name, ("group", *dims), values.dtype, options)
        self._put(inner.variables[name], name, values, (place,))

    def write_total(self, name: str, values: Array) -> None:
        """Write the total of one variable."""
        dims, size = variable(name).dims_of(self.shape), self._size(name, values)
        self._put(self._make(self.group, name, dims, values.dtype, _storage(dims, size)), name, values, ())

    @staticmethod
    def _make(group: Group, name: str, dims: tuple[str, ...], dtype: Any, options: Mapping[str, Any]) -> h5py.Dataset:
        return group.variable(name, dims, dtype, variable(name).meaning, **options)

    def _size(self, name: str, values: Array) -> tuple[int, ...]:
        if name != FOCAL_TOKENS:
            return values.shape
        return len(self.shape.layers), self.shape.heads, len(self.tokens)

    def _put(self, target: h5py.Dataset, name: str, values: Array, where: tuple[int, ...]) -> None:
        """Write values to their place; entries of focal tokens become a table of each layer."""
        if name != FOCAL_TOKENS:
            if values.size:
                fill(target, values, where)
            return
        for k in range(len(self.shape.layers)) if len(self.tokens) else ():
            _, head, token, number = values[values[:, 0] == k].T
            table = np.zeros((self.shape.heads, len(self.tokens)), dtype=np.int64)
            table[head, np.searchsorted(self.tokens, token)] = number
            target[(*where, k)] = table


def _storage(dims: Sequence[str], shape: Sequence[int]) -> dict[str, Any]:
    """How an array is stored: small ones as they are, others compressed, large ones in a piece for each layer."""
    size = prod(shape)
    if size < WORTH_COMPRESSING:
        return {}
    pieces = dict(zip(dims, shape, strict=True))
    for dim in ("block", "layer"):
        if dim in pieces and prod(pieces.values()) > LARGE:
            pieces[dim] = max(1, LARGE * pieces[dim] // prod(pieces.values()))
    return COMPRESSION | {"chunks": tuple(pieces.values())}


def _write(group: Group, name: str, dims: tuple[str, ...], values: Array, meaning: str) -> None:
    target = group.variable(name, dims, values.dtype, meaning)
    if values.size:
        target[...] = values
