"""The sums of each block of texts as plain arrays: everything that derived numbers and their intervals are made of.

S blocks (a shard, or neighbouring shards where there are very many), L layers, H heads. Blocks are what is resampled.
A `View` looks at them by head, by layer, by third of the depth or as a whole.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headscope.choices import first_high_bin, step_of
from headscope.measures.derived import Array
from headscope.measures.variables import REGIONS
from headscope.windows import CATEGORIES

THIRDS = ("early", "middle", "final")
BY = ("head", "layer", "third", "model")
Sums = tuple[Array, ...]


@dataclass(frozen=True)
class BlockSums:
    """The sums of each block.

    `stored` holds the variables that are kept for each block under their names, with the blocks as their first
    dimension; it may read them when they are first asked for. `layer_pairs` gives the pairs of one layer's heads.
    """

    layers: tuple[int, ...]
    depth: int  # layers of the model's stack, kept or not
    heads: int
    readings: tuple[str, ...]  # the first is the main one
    tau: float  # the run's own
    theta: float
    groups: tuple[str, ...]  # (S,)
    stored: Mapping[str, Array]
    layer_pairs: Callable[[int], Array]  # a layer's place to (S, H, level, band, relation)

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
        """The high pairs of every head: (S, L, H, distance, relation). Those of the last τ are kept."""
        if tau not in self.high_pairs:
            self.high_pairs.clear()  # one at a time: it is a large table
            self.high_pairs[tau] = np.stack([self.layer_at(k, [tau])[0] for k in range(len(self.layers))], axis=1)
        return self.high_pairs[tau]

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


@dataclass(frozen=True, slots=True)
class View:
    """Sums of blocks seen by head, layer, third or as a whole, at a τ and, where it matters, a θ."""

    sums: BlockSums
    by: str
    tau: float
    theta: float | None = None  # None: the run's own

    def over(self, values: Array) -> Array:
        """Sums of each head, (S, L, H, …), added up to what is looked at: (S, …)."""
        if self.by == "head":
            return values
        return self.layers(values.sum(2))

    def layers(self, values: Array) -> Array:
        """Sums of each layer, (S, L, …), added up."""
        if self.by in ("head", "layer"):
            return values
        if self.by == "model":
            return np.asarray(values.sum(1))
        return np.stack([values[:, self.sums.third(name)].sum(1) for name in THIRDS], axis=1)

    def every(self, values: Array) -> Array:
        """What is the same for all heads of all layers, (S, …), as often as there are heads in what is looked at."""
        number = len(self.sums.layers)
        each = np.broadcast_to(values[:, None], (len(values), number, *values.shape[1:]))
        if self.by == "head":
            return each[:, :, None]
        return self.layers(each) * self.sums.heads

    @property
    def step(self) -> int:
        """Where τ stands among the thresholds."""
        return step_of(self.tau)

    def variable(self, name: str) -> Array:
        """A variable of each head by its name, added up."""
        return self.over(self.sums.stored[name])

    def pairs(self) -> Sums:
        """High pairs and all pairs, by distance and relation."""
        if self.by == "head":
            high = self.sums.heads_at(self.tau)
        else:
            high = self.layers(self.sums.high(self.tau))
        return high, self.every(self.sums.base)

    def levels(self) -> Sums:
        """All pairs by level, distance and relation."""
        return (self.layers(self.sums.pairs.astype(np.float64)),)

    def focus(self, category: str) -> Sums:
        """Attention given to a category, and what an even spread would give it."""
        k = CATEGORIES.index(category)
        even = self.sums.stored["attention_even"][:, :, k]  # (S, L)
        given = self.over(self.sums.stored["attention"][..., k])
        if self.by == "head":
            return given, np.broadcast_to(even[:, :, None], given.shape)
        return given, self.layers(even) * self.sums.heads

    def regions(self) -> Sums:
        """Levels and numbers of pairs inside and outside the mask of high attention."""
        stored = self.sums.stored
        names = ("region_sum", "region_pairs")
        if self.theta is not None:
            place = round(self.theta * 20) - 1
            sums = [stored[name][:, :, :, place] for name in ("mask_sum", "mask_pairs")]
        else:
            sums = [stored[name] for name in names]
        return tuple(self.over(each[..., REGIONS.index(name)]) for name in ("inside", "outside") for each in sums)

    def windows(self, name: str | None = None) -> Sums:
        """A sum over windows that are not flat, and their number; without a name, their number alone."""
        if name is None:
            return (self.over(self.sums.mean_over_windows("flat")[1]),)
        return tuple(self.over(each) for each in self.sums.mean_over_windows(name))

    def shares(self) -> Sums:
        """The focal tokens' shares, and the windows that have one."""
        return self.over(self.sums.stored["focal_share"][..., self.step]), *self.windows()

    def focal(self) -> Sums:
        """Different focal tokens, how many would be expected, and the windows."""
        unique = self.sums.stored["focal_unique"][:, :, self.step]  # (S, L, unique)
        number = unique @ np.arange(unique.shape[-1], dtype=np.float64)
        expected = self.sums.stored["focal_expected"][:, :, self.step]
        return self.layers(number), self.layers(expected), self.layers(unique.sum(-1))


def pooled(values: Array, places: list[int]) -> Array:
    """Sum over some layers: (S, L, …) to (S, …)."""
    return np.asarray(values[:, places].sum(1))
