"""One attention stack's part of a result's file: totals at its top, `blocks` and `groups` beneath."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from math import prod
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from headscope.measures.variables import DIMENSIONS, FOCAL_TOKENS, Shape, coordinates, variable
from headscope.result.parts import ShardInfo, add_sums

BLOCKS, GROUPS = "blocks", "groups"  # the parts of a file beside the totals
COMPRESSION = {"compression": "gzip", "compression_opts": 4, "shuffle": True}
WORTH_COMPRESSING = 512  # numbers; what is smaller stands in the file as it is
LARGE = 65_536  # numbers; what is larger is read layer by layer
Array = NDArray[Any]
TokenText = Callable[[Iterable[int]], list[str]]


class StackWriter:
    """One stack's part of the file, filled block by block, then variable by variable and group by group."""

    def __init__(self, group: Any, stack: str, shape: Shape, bounds: Mapping[str, int]) -> None:
        self.group, self.shape, self.bounds = group, shape, bounds
        self.totals: dict[str, Array] = {}
        self.tokens = np.zeros(0, dtype=np.int64)
        values_of = {name: values for name, values in coordinates(shape).items() if name != "token"}
        group.dimensions = {name: len(values) for name, values in values_of.items()}
        group.attrs["stack"] = stack
        for name, values in values_of.items():
            _write(group, name, (name,), values, DIMENSIONS[name].meaning)

    # ------------------------------------------------------------------ blocks

    def about_blocks(self, infos: Sequence[ShardInfo], blocks: Sequence[tuple[int, ...]]) -> None:
        """Write down which texts the blocks hold."""
        inner = self.blocks = self.group.create_group(BLOCKS)
        held = [[infos[number] for number in block] for block in blocks]
        hashes = [[hash_ for info in block for hash_ in info.hashes] for block in held]
        of_block = np.repeat(np.arange(len(blocks)), [len(each) for each in hashes])
        inner.dimensions = {"block": len(blocks), "shard": len(of_block)}
        groups = np.array([block[0].group for block in held], dtype=object)
        _write(inner, "group", ("block",), groups, "group of the texts")
        texts = np.array([sum(info.texts for info in block) for block in held])
        _write(inner, "texts_read", ("block",), texts, "number of texts")
        _write(inner, "shard_block", ("shard",), of_block, "which block the shard was added to")
        joined = np.array([hash_ for each in hashes for hash_ in each], dtype=np.uint64)
        _write(inner, "shard_hash", ("shard",), joined, "first eight bytes of the hash of the shard's texts")

    def add_block(self, place: int, sums: Mapping[str, Array]) -> None:
        """Write a block down and, unless groups keep it whole, add it to the totals."""
        for name, values in sums.items():
            declared = variable(name)
            if name not in self.blocks.variables:
                self._make_for_blocks(name, values)
            self.blocks.variables[name][place] = values
            if declared.dims_of(self.shape) == declared.dims_of_block:
                add_sums(self.totals, {name: values})

    def _make_for_blocks(self, name: str, values: Array) -> None:
        declared, count = variable(name), values.dtype.kind != "f"
        dtype = np.min_scalar_type(self.bounds[name]) if count else values.dtype
        options = _storage(declared.dims_of_block, values.shape)
        if options:
            options["chunks"] = (1, *options["chunks"])
        target = self.blocks.create_variable(name, ("block", *declared.dims_of_block), dtype, **options)
        target.attrs["description"] = declared.meaning

    def write_totals(self) -> None:
        """Write the totals of what blocks keep."""
        for name, values in self.totals.items():
            self.write_total(name, values)
        self.totals.clear()

    # ------------------------------------------------------------------ groups

    def about_groups(self, names: Sequence[str]) -> None:
        """Name the groups. Where there is one, the totals are its sums."""
        if len(names) > 1:
            inner = self.group.create_group(GROUPS)
            inner.dimensions = {"group": len(names)}
            _write(inner, "group", ("group",), np.array(names, dtype=object), "group of the texts")

    def about_tokens(self, tokens: NDArray[np.int64], token_text: TokenText) -> None:
        """Name the ids that are focal anywhere."""
        self.tokens = tokens
        self.group.dimensions["token"] = len(tokens)
        _write(self.group, "token", ("token",), tokens, DIMENSIONS["token"].meaning)
        text = np.array(token_text(tokens.tolist()), dtype=object)
        _write(self.group, "token_text", ("token",), text, "the token's own form")

    def add_group(self, place: int, name: str, values: Array) -> None:
        """Write down one variable of one group, where there are several."""
        if GROUPS not in self.group.groups:
            return
        inner = self.group.groups[GROUPS]
        if name not in inner.variables:
            options = _storage(variable(name).dims_of(self.shape), self._size(name, values))
            if options:
                options["chunks"] = (1, *options["chunks"])
            dims = ("group", *variable(name).dims_of(self.shape))
            inner.create_variable(name, dims, values.dtype, **options).attrs["description"] = variable(name).meaning
        self._put(inner.variables[name], name, values, (place,))

    def write_total(self, name: str, values: Array) -> None:
        """Write the total of one variable."""
        dims, size = variable(name).dims_of(self.shape), self._size(name, values)
        target = self.group.create_variable(name, dims, values.dtype, **_storage(dims, size))
        target.attrs["description"] = variable(name).meaning
        self._put(target, name, values, ())

    def _size(self, name: str, values: Array) -> tuple[int, ...]:
        if name != FOCAL_TOKENS:
            return values.shape
        return len(self.shape.layers), self.shape.heads, len(self.tokens)

    def _put(self, target: Any, name: str, values: Array, where: tuple[int, ...]) -> None:
        """Write values to their place; entries of focal tokens become a table of each layer."""
        if name != FOCAL_TOKENS:
            if values.size:
                target[(*where, ...)] = values
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
    whole = dict(zip(dims, shape, strict=True))
    return COMPRESSION | {"chunks": tuple((whole | {"layer": 1} if size > LARGE else whole)[dim] for dim in dims)}


def _write(group: Any, name: str, dims: tuple[str, ...], values: Array, meaning: str) -> None:
    text = values.dtype == object
    target = group.create_variable(name, dims, h5py.string_dtype() if text else values.dtype)
    if values.size:
        target[...] = values
    target.attrs["description"] = meaning
