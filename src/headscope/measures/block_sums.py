"""The sums of each block of texts as plain arrays: everything that derived numbers and their intervals are made of.

S blocks (a shard, or neighbouring shards where there are very many), L layers, H heads. Blocks are what is resampled.
A `View` (view.py) reads them at a τ or through the top pairs of a reading.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headscope.choices import first_high_bin
from headscope.measures.bands import band_names, by_band
from headscope.measures.derived import Array
from headscope.measures.variables import MAPS, variable

THIRDS = ("early", "middle", "final")


@dataclass(frozen=True)
class BlockSums:
    """The sums of each block.

    `stored` holds the variables that are kept for each block under their names, with the blocks as their first
    dimension; a variable that the stack lacks is not there. It may read them from a file when they are first asked
    for. Pairs of single heads are large, so `layer_pairs` gives them a layer at a time.
    """

    layers: tuple[int, ...]
    depth: int  # layers of the model's stack, kept or not
    heads: int
    readings: tuple[str, ...]  # the first is the main one
    tau: float  # the run's own
    theta: float
    groups: tuple[str, ...]  # (S,)
    stored: Mapping[str, Array]
    layer_pairs: Callable[[int], NDArray[Any]]  # a layer's place to (S, H, level, band, relation)
    described: bool = True  # whether words and sentences are known
    _kept: dict[str, Any] = field(default_factory=dict, init=False, repr=False, compare=False)

    @property
    def blocks(self) -> int:
        """S."""
        return len(self.groups)

    @property
    def texts(self) -> Array:
        """Windows in each block: (S,)."""
        return self.stored["texts"]

    @property
    def windows(self) -> Array:
        """Windows with pairs in each block: (S,)."""
        return self.stored["texts"] - self.stored["pairless"]

    @property
    def maps(self) -> tuple[str, ...]:
        """The attention maps that S is compared with; none in cross-attention."""
        return MAPS[: self.stored["attention_wins"].shape[1]] if "attention_wins" in self.stored else ()

    @property
    def bands(self) -> tuple[str, ...]:
        """The bands of distance by name."""
        return band_names(self.stored["base_pairs"].shape[1] + 1)

    @property
    def base(self) -> tuple[Array, Array]:
        """Number and Σ distance of all pairs of one head, the same for all heads: (S, band, relation) each."""
        if "base" not in self._kept:
            number = self.stored["base_pairs"]  # (S, distance, relation)
            total = number * np.arange(1.0, number.shape[1] + 1)[:, None]
            self._kept["base"] = tuple(by_band(each, axis=1) for each in (number, total))
        base: tuple[Array, Array] = self._kept["base"]
        return base

    @property
    def by_level(self) -> Array:
        """The pairs of every head by level and relation: (S, L, H, level, relation). From one reading of all layers."""
        if "by_level" not in self._kept:
            each = [self.layer_pairs(k).sum(3, dtype=np.float64) for k in range(len(self.layers))]
            self._kept["by_level"] = np.stack(each, axis=1)
        by_level: Array = self._kept["by_level"]
        return by_level

    def high(self, tau: float) -> Array:
        """The high pairs of every head by band: (S, L, H, band, relation). Those of the last τ are kept."""
        kept: tuple[float, Array] | None = self._kept.get("high")
        if kept is None or kept[0] != tau:
            self._kept.pop("high", None)  # one at a time: it is a large table
            least = first_high_bin(tau)
            each = [self.layer_pairs(k)[:, :, least:].sum(2, dtype=np.float64) for k in range(len(self.layers))]
            self._kept["high"] = kept = tau, np.stack(each, axis=1)
        return kept[1]

    def layer(self, k: int) -> BlockSums:
        """The sums of the k-th kept layer alone; its pairs are read once."""
        pairs: list[NDArray[Any]] = []

        def layer_pairs(_: int) -> NDArray[Any]:
            if not pairs:
                pairs.append(self.layer_pairs(k))
            return pairs[0]

        return replace(self, layers=(self.layers[k],), stored=_OneLayer(self.stored, k), layer_pairs=layer_pairs)

    def third(self, name: str) -> list[int]:
        """The places, in `layers`, of those that lie in one third of the model's depth."""
        which = THIRDS.index(name)
        return [place for place, layer in enumerate(self.layers) if int(3 * (layer + 0.5) / self.depth) == which]


@dataclass(frozen=True)
class _OneLayer(Mapping[str, Array]):
    """Stored variables of one layer."""

    every: Mapping[str, Array]
    k: int

    def __getitem__(self, name: str) -> Array:
        values, dims = self.every[name], variable(name).dims
        return values.take([self.k], axis=1 + dims.index("layer")) if "layer" in dims else values

    def __iter__(self) -> Iterator[str]:
        return iter(self.every)

    def __len__(self) -> int:
        return len(self.every)
