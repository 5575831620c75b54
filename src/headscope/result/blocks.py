"""The sums of a result's blocks as plain arrays, read from its file when they are asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from headscope.measures.bands import by_band
from headscope.measures.block_sums import BlockSums
from headscope.measures.derived import Array
from headscope.measures.variables import variables_of

if TYPE_CHECKING:
    from headscope.result.result import Result


class Stored(Mapping[str, Array]):
    """Variables by name, each read when it is first asked for: (S, *dimensions), float64."""

    def __init__(self, data: xr.Dataset, names: list[str], *, one_block: bool = False) -> None:
        self._data, self._one_block = data, one_block
        self._read: dict[str, Array | None] = dict.fromkeys(names)

    def __getitem__(self, name: str) -> Array:
        values = self._read[name]
        if values is None:
            values = self._data[name].values.astype(np.float64)
            values = self._read[name] = values[None] if self._one_block else values
        return values

    def __contains__(self, name: object) -> bool:
        return name in self._read

    def __iter__(self) -> Iterator[str]:
        return iter(self._read)

    def __len__(self) -> int:
        return len(self._read)


def block_sums(result: Result) -> BlockSums:
    """The sums of each block. Of pairs one layer at a time is read, for all of them may not fit into memory."""
    data = result.by_block

    def layer_pairs(k: int) -> Array:
        return data["pairs"].isel(layer=k).values.astype(np.float64)

    groups = tuple(str(group) for group in data["group"].values)
    return _sums(result, groups, Stored(data, _names(result, data)), layer_pairs)


def total_sums(result: Result) -> BlockSums:
    """The sums over all texts as one block: for numbers without intervals."""
    data = result.dataset

    def layer_pairs(k: int) -> Array:
        return in_bands(data["pairs"].isel(layer=k)).astype(np.float64)[None]

    return _sums(result, ("",), Stored(data, _names(result, data), one_block=True), layer_pairs)


def in_bands(pairs: xr.DataArray) -> NDArray[Any]:
    """Pairs by level, band and relation; those of long windows are not told apart by distance in the first place."""
    return by_band(pairs.values) if "distance" in pairs.dims else np.asarray(pairs.values)


def _sums(result: Result, groups: tuple[str, ...], stored: Stored, layer_pairs: Callable[[int], Array]) -> BlockSums:
    layers = tuple(int(layer) for layer in result.dataset["layer"].values)
    stack = result.model.get("stacks", {}).get(result.name, {})
    return BlockSums(
        layers=layers,
        depth=max(int(stack.get("layers", 0)), layers[-1] + 1),
        heads=result.dataset.sizes["head"],
        readings=result.readings,
        tau=float(result.settings["tau"]),
        theta=float(result.settings["theta"]),
        groups=groups,
        stored=stored,
        layer_pairs=layer_pairs,
    )


def _names(result: Result, data: xr.Dataset) -> list[str]:
    """What is kept for each block, less the tables of pairs by level, which are read layer by layer."""
    kept = [each for each in variables_of(result.shape) if each.kept == "block" and each.name in data]
    return [each.name for each in kept if each.name != "pairs" and not each.name.startswith("pairs_")]
