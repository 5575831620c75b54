"""What is merged: sums of shards, or of the blocks of finished results, and how they are added."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from headscope.measures.bands import band_ends, by_band
from headscope.measures.variables import FOCAL_TOKENS, Shape, Sums, Variable, variable, variables_of
from headscope.result.shards import Largest

Array = NDArray[Any]


@dataclass(frozen=True, slots=True)
class ShardInfo:
    """Which texts a shard holds, or some shards that were added."""

    group: str
    texts: int
    hashes: tuple[int, ...]  # of the texts of each shard

    @classmethod
    def of_shard(cls, group: str, texts: int, hash_: str) -> ShardInfo:
        """One shard, with its hash in hexadecimal digits, of which sixteen are enough to tell shards apart."""
        return cls(group, texts, (int(hash_[:16], 16),))


class Shards(Protocol):
    """Where sums come from: the shards of a run's folder, or the blocks of a finished result."""

    @property
    def infos(self) -> Sequence[ShardInfo]:
        """What they hold, in their order."""

    def sums(self, number: int) -> Sums:
        """One shard's sums of what is kept for each block, pairs by band."""

    def largest(self, number: int) -> Largest:
        """For each count among them a bound that no number exceeds."""

    def group_sums(self, group: str, name: str) -> dict[str, Array]:
        """By stack, the sums over a group's shards of one variable that groups keep.

        `focal_tokens` comes as its entries: layer, head, token, number of windows.
        """


def kept_for_groups(shape: Shape) -> list[Variable]:
    """The variables that are kept for each group and in all: blocks have them by band, or not at all.

    >>> [each.name for each in kept_for_groups(Shape((0,), 2, 128))]
    ['position_pairs', 'similarity_sum', 'pairs', 'focal_tokens']
    """
    return [each for each in variables_of(shape) if each.kept == "group" or is_coarser(each, shape)]


def is_coarser(declared: Variable, shape: Shape) -> bool:
    """Whether a block keeps a variable with fewer dimensions' worth of detail than a shard: by band, not distance."""
    return declared.dims_of(shape) != declared.dims_of_block


def as_block(sums: Mapping[str, Mapping[str, Array]], shapes: Mapping[str, Shape]) -> Sums:
    """A shard's sums as a block keeps them: without what is kept for groups alone, pairs by band."""
    kept: Sums = {}
    for stack, of_stack in sums.items():
        declared = {name: variable(name) for name in of_stack if variable(name).kept == "block"}
        kept[stack] = {
            name: by_band(of_stack[name]) if is_coarser(each, shapes[stack]) else of_stack[name]
            for name, each in declared.items()
        }
    return kept


def largest_in_block(largest: Largest, shapes: Mapping[str, Shape]) -> Largest:
    """The largest counts of a shard as bounds for a block: distances of a band are added, each at its most."""
    bounds: Largest = {}
    for stack, shape in shapes.items():
        widest = int(np.diff([0, *band_ends(shape.length)]).max())
        bounds[stack] = {
            name: number * (widest if is_coarser(variable(name), shape) else 1)
            for name, number in largest[stack].items()
        }
    return bounds


def add_sums(totals: dict[str, Array], sums: Mapping[str, Array]) -> None:
    """Add sums to those of the same name."""
    for name, values in sums.items():
        totals[name] = add_values(name, totals[name], values) if name in totals else values


def add_to(totals: dict[str, Array], sums: Mapping[str, Array]) -> None:
    """The same where nobody else holds the sums: totals grow where they are."""
    for name, values in sums.items():
        if name in totals and name != FOCAL_TOKENS:
            np.add(totals[name], values, out=totals[name])
        else:
            add_sums(totals, {name: values})


def add_values(name: str, one: Array, other: Array) -> Array:
    """The sum of one variable of two shards.

    >>> add_values("focal_tokens", np.array([[0, 1, 7, 2]]), np.array([[0, 0, 7, 1], [0, 1, 7, 3]])).tolist()
    [[0, 0, 7, 1], [0, 1, 7, 5]]
    """
    if name != FOCAL_TOKENS:
        return np.asarray(one + other)
    layer, head, token, number = np.concatenate([one, other]).T
    keys, place = np.unique(layer << 48 | head << 32 | token, return_inverse=True)
    added = np.zeros(len(keys), dtype=np.int64)
    np.add.at(added, place, number)
    return np.column_stack([keys >> 48, keys >> 32 & 0xFFFF, keys & 0xFFFFFFFF, added])
