"""What a result holds for each of its shards, as plain arrays: everything that numbers and intervals are made of.

S blocks (a shard, or neighbouring shards where there are very many), L layers, H heads. Blocks are what is resampled.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from headscope.findings.derived import Array
from headscope.measures.similarity import first_high_bin

if TYPE_CHECKING:
    from headscope.result.core import Result

MOST_BLOCKS = 256  # more shards than this are taken together with their neighbours
MOST_NUMBERS = 1 << 27  # in the table of pairs by layer: a gigabyte
FEWEST_BLOCKS = 32  # but not fewer than this, however large the table
THIRDS = ("early", "middle", "final")
SMALL = (
    "texts unsplit pairless tokens flat diagonal attention attention_even attended attended_text attention_correlation "
    "region_sum region_pairs mask_sum mask_pairs focal_unique focal_expected focal_share focal_few focal_frequency "
    "focal_distance"
).split()


@dataclass(frozen=True)
class Counts:
    """The sums of each block. `pairs` is pooled over the heads of a layer; `layer_at` reads the high pairs of each.

    `stored` holds the other variables under their names, each with the blocks as its first dimension.
    """

    layers: tuple[int, ...]
    depth: int  # layers of the model, kept or not
    heads: int
    groups: tuple[str, ...]  # (S,)
    blocks_of: tuple[tuple[int, ...], ...]  # (S,): the shards of each block
    pairs: NDArray[np.int64]  # (S, L, level, distance, relation)
    stored: dict[str, Array]
    layer_at: Callable[[int, Sequence[float]], list[Array]]  # layer's place, τ to (S, H, distance, relation) for each τ
    kept: dict[float, Array] = field(default_factory=dict, repr=False)
    scores: dict[float, Array] = field(default_factory=dict, repr=False)  # by τ, of every head in every block

    @property
    def blocks(self) -> int:
        """S."""
        return len(self.groups)

    @property
    def windows(self) -> Array:
        """Windows with pairs in each block."""
        return self.stored["texts"] - self.stored["pairless"]

    @property
    def base(self) -> Array:
        """All pairs of one head: the same for every head of every layer. (S, distance, relation)."""
        return np.asarray(self.pairs[:, 0].sum(1) / self.heads)

    def heads_at(self, tau: float) -> Array:
        """The high pairs of every head: (S, L, H, distance, relation). The last τ asked for is kept."""
        if tau not in self.kept:
            self.kept.clear()  # one at a time: it is a large table
            self.kept[tau] = np.stack([self.layer_at(k, [tau])[0] for k in range(len(self.layers))], axis=1)
        return self.kept[tau]

    def high(self, tau: float) -> Array:
        """The high pairs of each layer, pooled over its heads: (S, L, distance, relation)."""
        return np.asarray(self.pairs[:, :, first_high_bin(tau) :].sum(2), dtype=np.float64)

    def third(self, name: str) -> list[int]:
        """The places, in `layers`, of those that lie in one third of the model's depth.

        A model of one layer has a final third and no other.
        """
        which = THIRDS.index(name)
        if self.depth == 1:
            return [0] if name == "final" else []
        return [place for place, layer in enumerate(self.layers) if int(3 * (layer + 0.5) / self.depth) == which]

    def mean_over_windows(self, name: str) -> tuple[Array, Array]:
        """A sum over windows that are not flat, and the number of those: (S, L, H) each."""
        return self.stored[name], self.windows[:, None, None] - self.stored["flat"]


def counts_of(result: Result) -> Counts:
    """Read a result shard by shard, layer by layer; the tables of pairs of single heads are not kept."""
    shards = result.shards
    layers = tuple(int(layer) for layer in result.dataset["layer"].values)
    groups = [str(group) for group in shards["group"].values]
    table = int(np.prod(shards["pairs"].shape[3:])) * len(layers)
    blocks = blocks_of(groups, max(FEWEST_BLOCKS, min(MOST_BLOCKS, MOST_NUMBERS // max(table, 1))))

    def read(k: int, block: tuple[int, ...]) -> NDArray[np.int64]:
        """One block's pairs of a layer, shard by shard: (H, level, distance, relation)."""
        each = (shards["pairs"].isel(layer=k, shard=shard).values for shard in block)
        return np.asarray(sum(part.astype(np.int64) for part in each))

    def added(values: Array) -> Array:
        return np.stack([values[list(block)].sum(0) for block in blocks])

    pooled = [np.stack([read(k, block).sum(0) for block in blocks]) for k in range(len(layers))]

    def layer_at(k: int, taus: Sequence[float]) -> list[Array]:
        found: list[list[Array]] = [[] for _ in taus]
        for block in blocks:
            whole = read(k, block)
            for place, tau in enumerate(taus):
                found[place].append(whole[:, first_high_bin(tau) :].sum(1, dtype=np.float64))
        return [np.stack(parts) for parts in found]

    stack = result.model.get("stacks", {}).get(result.name, {})
    return Counts(
        layers=layers,
        depth=max(int(stack.get("layers", 0)), layers[-1] + 1),
        heads=result.dataset.sizes["head"],
        groups=tuple(groups[block[0]] for block in blocks),
        blocks_of=tuple(blocks),
        pairs=np.stack(pooled, axis=1).astype(np.int64),
        stored={name: added(shards[name].values.astype(np.float64)) for name in SMALL if name in shards},
        layer_at=layer_at,
    )


def blocks_of(groups: list[str], most: int) -> list[tuple[int, ...]]:
    """Shards taken together to so many blocks, or a few more: a block never holds two groups.

    >>> blocks_of(["a", "b", "a", "a", "a"], 3)
    [(0, 2), (3, 4), (1,)]
    """
    size = -(-len(groups) // most)
    found: list[tuple[int, ...]] = []
    for name in dict.fromkeys(groups):
        own = [place for place, group in enumerate(groups) if group == name]
        found += [tuple(own[k : k + size]) for k in range(0, len(own), size)]
    return found


def pooled(values: Array, places: list[int]) -> Array:
    """Sum over some layers: (S, L, …) to (S, …)."""
    return np.asarray(values[:, places].sum(1))
