"""From shards to one file: totals at the top, what intervals need for each shard, the mean matrix for each group.

Shards are added in their order, one at a time, so that the numbers do not depend on who computed what when and memory
does not grow with their number.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import h5netcdf
import h5py
import numpy as np
from numpy.typing import NDArray

from headscope.errors import HeadscopeError
from headscope.files import OTHER_FOLDER, written_whole
from headscope.measures.variables import (
    DIMENSIONS,
    FOCAL_TOKENS,
    Shape,
    Sums,
    coordinates,
    variable,
)
from headscope.result.checksum import seal

FILE = "result.nc"
VERSION = 2  # of the files; a file of another version is refused by name
ABOUT_SHARDS = ("group", "texts_read", "texts_hash")  # what a shard is, beside its sums
COMPRESSION = {"compression": "gzip", "compression_opts": 1, "shuffle": True}


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
        """One shard's sums, or one of them, without what is kept for groups alone.

        `focal_tokens` comes as its entries: layer, head, token, number of windows.
        """

    def group_sums(self, group: str) -> Sums:
        """The sums over a group's shards of what is kept for groups alone: the mean matrix, for one."""


def write_result(
    file: Path,
    sources: Sequence[Shards],
    shapes: Mapping[str, Shape],
    header: Mapping[str, Any],
    token_text: Callable[[Iterable[int]], list[str]],
    *,
    groups: Sequence[str] | None = None,
    remedy: str = OTHER_FOLDER,
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
    with written_whole(file, remedy) as partial:
        with h5netcdf.File(partial, "w") as out:
            for key, value in header.items():
                out.attrs[key] = value if isinstance(value, (str, int, float)) else json.dumps(value)
            out.attrs["schema"] = VERSION
            out.attrs["stacks"] = ", ".join(shapes)
            writers = {}
            for place, (stack, shape) in enumerate(shapes.items()):
                group = out if place == 0 else out.create_group(stack)
                writers[stack] = _StackWriter(group, stack, shape, tokens[stack], token_text, infos)
            for place, (source, number) in enumerate(chosen):
                sums = source.sums(number)
                for stack, writer in writers.items():
                    writer.add(place, sums[stack])
            for place, group_name in enumerate(names):
                added: Sums = {stack: {} for stack in writers}
                for source in sources:
                    if any(info.group == group_name for info in source.infos):
                        for stack, group_sums in source.group_sums(group_name).items():
                            _add(added[stack], group_sums)
                for stack, writer in writers.items():
                    writer.add_group(place, added[stack], only_group=len(names) == 1)
            for writer in writers.values():
                writer.finish(names)
        seal(partial)


def _tokens(chosen: Sequence[tuple[Shards, int]], shapes: Mapping[str, Shape]) -> dict[str, NDArray[np.int64]]:
    """The ids that are focal anywhere, for each stack."""
    ids: dict[str, set[int]] = {stack: set() for stack in shapes}
    for source, number in chosen:
        entries = source.sums(number, only=FOCAL_TOKENS)
        for stack in shapes:
            ids[stack].update(np.unique(entries[stack][FOCAL_TOKENS][:, 2]).tolist())
    return {stack: np.array(sorted(each), dtype=np.int64) for stack, each in ids.items()}


class _StackWriter:
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
        values_of = coordinates(shape) | {"token": tokens}
        group.dimensions = {name: len(values) for name, values in values_of.items()}
        group.attrs["stack"] = stack
        for name, values in values_of.items():
            _write(group, name, (name,), values, DIMENSIONS[name].meaning)
        text = np.array(token_text(tokens.tolist()), dtype=object)
        _write(group, "token_text", ("token",), text, "the token's own form")
        self.shards = group.create_group("shards")
        self.shards.dimensions["shard"] = len(infos)
        _write(self.shards, "group", ("shard",), np.array([i.group for i in infos], dtype=object), "group of the texts")
        _write(self.shards, "texts_read", ("shard",), np.array([i.texts for i in infos]), "number of texts")
        _write(self.shards, "texts_hash", ("shard",), np.array([i.hash for i in infos], dtype=object), "of the texts")

    def add(self, place: int, sums: dict[str, NDArray[Any]]) -> None:
        """Add a shard to the totals and write it down."""
        sums = dict(sums)
        entries = sums[FOCAL_TOKENS]
        dense = np.zeros((len(self.shape.layers), self.shape.heads, len(self.tokens)), dtype=np.int64)
        dense[entries[:, 0], entries[:, 1], np.searchsorted(self.tokens, entries[:, 2])] = entries[:, 3]
        sums[FOCAL_TOKENS] = dense
        for name, values in sums.items():
            self.totals[name] = self.totals[name] + values if name in self.totals else values.copy()
            if name not in self.by_shard:
                self.by_shard[name] = self._make(name, values)
            if values.size and values.max() > np.iinfo(np.uint32).max and values.dtype.kind != "f" and values.ndim > 2:
                raise HeadscopeError("a shard counts more than 4,294,967,295 of one thing", "make smaller shards")
            self.by_shard[name][place] = values

    def _make(self, name: str, values: NDArray[Any]) -> Any:
        declared = variable(name)
        dims = ("shard", *declared.dims)
        dtype = np.dtype(np.float64 if values.dtype.kind == "f" else np.uint32 if values.ndim > 2 else np.int64)
        options: dict[str, Any] = {}
        if values.ndim:
            one_layer = 1 if values.ndim > 2 and declared.dims[0] == "layer" else len(values)
            options = COMPRESSION | {"chunks": (1, max(one_layer, 1), *(max(n, 1) for n in values.shape[1:]))}
        target = self.shards.create_variable(name, dims, dtype, **options)
        target.attrs["description"] = declared.meaning
        return target

    def add_group(self, place: int, sums: dict[str, NDArray[Any]], *, only_group: bool) -> None:
        """Add what is kept for groups alone to the totals; where there are several groups, write it down too."""
        _add(self.totals, sums)
        if only_group or not sums:
            return
        inner = self.group.groups.get("groups") or self.group.create_group("groups")
        for name, values in sums.items():
            target = inner.create_variable(
                f"{name}_{place}", variable(name).dims, values.dtype, chunks=(1, *values.shape[1:]), **COMPRESSION
            )
            target[...] = values

    def finish(self, groups: Sequence[str]) -> None:
        """Write the totals."""
        for name, values in self.totals.items():
            declared = variable(name)
            options = COMPRESSION | {"chunks": (1, *values.shape[1:])} if values.ndim > 2 and values.size else {}
            _write(self.group, name, declared.dims, values, declared.meaning, **options)
        inner = self.group.groups.get("groups")
        if inner is not None:
            inner.attrs["names"] = json.dumps(list(groups), ensure_ascii=False)


def _add(totals: dict[str, NDArray[Any]], sums: Mapping[str, NDArray[Any]]) -> None:
    """Add sums to those of the same name."""
    for name, values in sums.items():
        totals[name] = totals[name] + values if name in totals else values


def _write(group: Any, name: str, dims: tuple[str, ...], values: NDArray[Any], meaning: str, **options: Any) -> None:
    text = values.dtype == object
    target = group.create_variable(name, dims, h5py.string_dtype() if text else values.dtype, **options)
    if values.size:
        target[...] = values
    target.attrs["description"] = meaning
