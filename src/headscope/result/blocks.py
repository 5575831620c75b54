"""What a result holds for each block of its texts, read from its file: a block is a shard, or some neighbours."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from headscope.choices import first_high_bin
from headscope.measures.block_sums import BlockSums
from headscope.measures.derived import Array
from headscope.measures.variables import FOCAL_TOKENS, VARIABLES

if TYPE_CHECKING:
    from headscope.result.result import Result

MOST_BLOCKS = 256  # more shards than this are taken together with their neighbours
MOST_NUMBERS = 1 << 27  # in the table of pairs by layer: a gigabyte
FEWEST_BLOCKS = 32  # but not fewer than this, however large the table
# Read only when they are needed, or not for single blocks: they are large.
LARGE = ("pairs", "position_pairs", FOCAL_TOKENS)


def block_sums(result: Result) -> BlockSums:
    """Read a result shard by shard, layer by layer; the tables of pairs of single heads are not kept."""
    shards = result.shards
    groups = [str(group) for group in shards["group"].values]
    table = int(np.prod(shards["pairs"].shape[3:])) * shards.sizes["layer"]
    blocks = blocks_of(groups, max(FEWEST_BLOCKS, min(MOST_BLOCKS, MOST_NUMBERS // max(table, 1))))

    def read(k: int, block: tuple[int, ...]) -> NDArray[np.int64]:
        """One block's pairs of a layer, shard by shard: (H, level, distance, relation)."""
        each = (shards["pairs"].isel(layer=k, shard=shard).values for shard in block)
        return np.asarray(sum(part.astype(np.int64) for part in each))

    def summed(values: Array) -> Array:
        return np.stack([values[list(block)].sum(0) for block in blocks])

    stored = {name: summed(shards[name].values.astype(np.float64)) for name in small_variables(shards)}
    return _sums(result, groups, blocks, read, stored)


def total_sums(result: Result) -> BlockSums:
    """The sums over all texts as one block: for numbers without intervals."""
    data = result.dataset
    stored = {name: data[name].values.astype(np.float64)[None] for name in small_variables(data)}

    def read(k: int, block: tuple[int, ...]) -> NDArray[np.int64]:
        return np.asarray(data["pairs"].values[k])

    return _sums(result, [""], [(0,)], read, stored)


def _sums(result: Result, groups: list[str], blocks: list[tuple[int, ...]], read: Any, stored: Any) -> BlockSums:
    layers = tuple(int(layer) for layer in result.dataset["layer"].values)

    def layer_at(k: int, taus: Sequence[float]) -> list[Array]:
        high: list[list[Array]] = [[] for _ in taus]
        for block in blocks:
            whole = read(k, block)
            for place, tau in enumerate(taus):
                high[place].append(whole[:, first_high_bin(tau) :].sum(1, dtype=np.float64))
        return [np.stack(parts) for parts in high]

    pooled = [np.stack([read(k, block).sum(0) for block in blocks]) for k in range(len(layers))]
    stack = result.model.get("stacks", {}).get(result.name, {})
    return BlockSums(
        layers=layers,
        depth=max(int(stack.get("layers", 0)), layers[-1] + 1),
        heads=result.dataset.sizes["head"],
        groups=tuple(groups[block[0]] for block in blocks),
        shards_of=tuple(blocks),
        pairs=np.stack(pooled, axis=1).astype(np.int64),
        stored=stored,
        layer_at=layer_at,
    )


def small_variables(data: xr.Dataset) -> list[str]:
    """The declared variables that are read at once, of those that a dataset has."""
    return [name for name, each in VARIABLES.items() if each.kept == "block" and name not in LARGE and name in data]


def blocks_of(groups: list[str], most: int) -> list[tuple[int, ...]]:
    """Shards taken together to so many blocks, or a few more: a block never holds two groups.

    >>> blocks_of(["a", "b", "a", "a", "a"], 3)
    [(0, 2), (3, 4), (1,)]
    """
    size = -(-len(groups) // most)
    blocks: list[tuple[int, ...]] = []
    for name in dict.fromkeys(groups):
        members = [place for place, group in enumerate(groups) if group == name]
        blocks += [tuple(members[k : k + size]) for k in range(0, len(members), size)]
    return blocks
