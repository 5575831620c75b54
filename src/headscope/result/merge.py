"""From shards to one file: totals at the top, what intervals need for each shard, the mean matrix for each group.

Shards are added in their order, one at a time, so that the numbers do not depend on who computed what when and memory
does not grow with their number.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import h5netcdf
import h5py
import numpy as np
from numpy.typing import NDArray

from headscope.errors import HeadscopeError
from headscope.measures.tally import Shape
from headscope.result import schema
from headscope.result.shards import Sums

ABOUT_SHARDS = ("group", "texts_read", "texts_hash")  # what a shard is, beside its sums
SQUEEZE = {"compression": "gzip", "compression_opts": 1, "shuffle": True}


@dataclass(frozen=True, slots=True)
class ShardInfo:
    """Which texts a shard holds."""

    group: str
    texts: int
    hash: str


class Shards(Protocol):
    """Where shards come from: a run's folder, or a finished result."""

    @property
    def infos(self) -> Sequence[ShardInfo]:
        """What the shards hold, in their order."""

    def sums(self, number: int, only: str | None = None) -> Sums:
        """One shard's sums, or one of them, without the mean matrix.

        `focal_tokens` comes as its entries: layer, head, token, number of windows.
        """

    def matrices(self, group: str) -> dict[str, NDArray[Any]]:
        """The sum of S over a group's shards, for each stack that keeps it."""


def write_result(
    file: Path,
    sources: Sequence[Shards],
    shapes: Mapping[str, Shape],
    header: Mapping[str, Any],
    token_text: Callable[[Iterable[int]], list[str]],
    *,
    groups: Sequence[str] | None = None,
) -> None:
    """Merge shards into one netCDF file; with `groups`, only theirs. The first stack is the file's top level."""
    chosen = [
        (source, number)
        for source in sources
        for number, info in enumerate(source.infos)
        if groups is None or info.group in groups
    ]
    infos = [source.infos[number] for source, number in chosen]
    names = list(dict.fromkeys(info.group for info in infos))
    tokens = _tokens(chosen, shapes)
    partial = partial_name(file)
    with h5netcdf.File(partial, "w") as out:
        for key, value in header.items():
            out.attrs[key] = value if isinstance(value, (str, int, float)) else json.dumps(value)
        out.attrs["schema"] = schema.VERSION
        out.attrs["stacks"] = ", ".join(shapes)
        stacks = {}
        for place, (stack, shape) in enumerate(shapes.items()):
            group = out if place == 0 else out.create_group(stack)
            stacks[stack] = _Stack(group, stack, shape, tokens[stack], token_text, infos)
        for place, (source, number) in enumerate(chosen):
            found = source.sums(number)
            for stack, writer in stacks.items():
                writer.add(place, found[stack])
        for group_name in names:
            summed: dict[str, NDArray[Any]] = {}
            for source in sources:
                if any(info.group == group_name for info in source.infos):
                    for stack, matrix in source.matrices(group_name).items():
                        summed[stack] = summed[stack] + matrix if stack in summed else matrix
            for stack, matrix in summed.items():
                stacks[stack].add_matrix(names.index(group_name), matrix, several=len(names) > 1)
        for writer in stacks.values():
            writer.finish(names if len(names) > 1 else [])
    with partial.open("rb") as written:
        os.fsync(written.fileno())
    os.replace(partial, file)


def partial_name(file: Path) -> Path:
    """Where a file is written before it has its name."""
    return file.with_name(f".{file.name}.partial")


def _tokens(chosen: Sequence[tuple[Shards, int]], shapes: Mapping[str, Shape]) -> dict[str, NDArray[np.int64]]:
    """The ids that are focal anywhere, for each stack."""
    found: dict[str, set[int]] = {stack: set() for stack in shapes}
    for source, number in chosen:
        entries = source.sums(number, only="focal_tokens")
        for stack in shapes:
            found[stack].update(np.unique(entries[stack]["focal_tokens"][:, 2]).tolist())
    return {stack: np.array(sorted(ids), dtype=np.int64) for stack, ids in found.items()}


class _Stack:
    """One stack's part of the file, filled shard by shard."""

    def __init__(
        self,
        group: Any,
        stack: str,
        shape: Shape,
        tokens: NDArray[np.int64],
        token_text: Callable[[Iterable[int]], list[str]],
        infos: Sequence[ShardInfo],
    ) -> None:
        self.group, self.shape, self.tokens = group, shape, tokens
        self.totals: dict[str, NDArray[Any]] = {}
        self.by_shard: dict[str, Any] = {}
        coordinates = schema.coordinates(shape) | {"token": tokens}
        group.dimensions = {name: len(values) for name, values in coordinates.items()}
        group.attrs["stack"] = stack
        for name, values in coordinates.items():
            _write(group, name, (name,), values, schema.COORDINATES[name])
        text = np.array(token_text(tokens.tolist()), dtype=object)
        _write(group, "token_text", ("token",), text, "the token's own form")
        self.shards = group.create_group("shards")
        self.shards.dimensions["shard"] = len(infos)
        _write(self.shards, "group", ("shard",), np.array([i.group for i in infos], dtype=object), "group of the texts")
        _write(self.shards, "texts_read", ("shard",), np.array([i.texts for i in infos]), "number of texts")
        _write(self.shards, "texts_hash", ("shard",), np.array([i.hash for i in infos], dtype=object), "of the texts")
        self.matrix: NDArray[Any] | None = None
        self._groups: Any = None

    def add(self, place: int, sums: dict[str, NDArray[Any]]) -> None:
        """Add a shard to the totals and write it down."""
        sums = dict(sums)
        entries = sums["focal_tokens"]
        dense = np.zeros((len(self.shape.layers), self.shape.heads, len(self.tokens)), dtype=np.int64)
        dense[entries[:, 0], entries[:, 1], np.searchsorted(self.tokens, entries[:, 2])] = entries[:, 3]
        sums["focal_tokens"] = dense
        for name, values in sums.items():
            self.totals[name] = self.totals[name] + values if name in self.totals else values.copy()
            if name not in self.by_shard:
                self.by_shard[name] = self._make(name, values)
            if values.size and values.max() > np.iinfo(np.uint32).max and values.dtype.kind != "f" and values.ndim > 2:
                raise HeadscopeError("a shard counts more than 4,294,967,295 of one thing", "make smaller shards")
            self.by_shard[name][place] = values

    def _make(self, name: str, values: NDArray[Any]) -> Any:
        about = schema.variable(name)
        dims = ("shard", *_dims(name, about.dims))
        dtype = np.dtype(np.float64 if values.dtype.kind == "f" else np.uint32 if values.ndim > 2 else np.int64)
        options: dict[str, Any] = {}
        if values.ndim:
            one_layer = 1 if values.ndim > 2 and about.dims[0] == "layer" else len(values)
            options = SQUEEZE | {"chunks": (1, max(one_layer, 1), *(max(n, 1) for n in values.shape[1:]))}
        made = self.shards.create_variable(name, dims, dtype, **options)
        made.attrs["description"] = about.meaning
        return made

    def add_matrix(self, place: int, matrix: NDArray[Any], *, several: bool) -> None:
        """Add one group's sum of S to the total; with several groups, keep it by itself too."""
        self.matrix = matrix if self.matrix is None else self.matrix + matrix
        if several:
            if self._groups is None:
                self._groups = self.group.create_group("groups")
            dims = ("layer", "head", "i", "j")
            made = self._groups.create_variable(
                f"similarity_sum_{place}", dims, np.float64, chunks=(1, *matrix.shape[1:]), **SQUEEZE
            )
            made[...] = matrix

    def finish(self, groups: Sequence[str]) -> None:
        """Write the totals."""
        if self.matrix is not None:
            self.totals["similarity_sum"] = self.matrix
        for name, values in self.totals.items():
            about = schema.variable(name)
            dims = about.dims
            if name == "attention_even":
                if (values == values[:1]).all():
                    values = values[0]
                else:
                    dims = ("layer", *dims)  # layers that read differently, through windows that slide
            options = SQUEEZE | {"chunks": (1, *values.shape[1:])} if values.ndim > 2 and values.size else {}
            _write(self.group, name, dims, values, about.meaning, **options)
        if self._groups is not None:
            self._groups.attrs["names"] = json.dumps(list(groups), ensure_ascii=False)


def _dims(name: str, dims: tuple[str, ...]) -> tuple[str, ...]:
    """In shards the even spread is kept for each layer: some models read differently in some."""
    return ("layer", *dims) if name == "attention_even" else dims


def _write(group: Any, name: str, dims: tuple[str, ...], values: NDArray[Any], meaning: str, **options: Any) -> None:
    text = values.dtype == object
    made = group.create_variable(name, dims, h5py.string_dtype() if text else values.dtype, **options)
    if values.size:
        made[...] = values
    made.attrs["description"] = meaning
