"""The quantities of docs/method.md for a whole result: by head, by layer, by third of the depth, each with an interval.

>>> import headscope
>>> result = headscope.analyze(None, [p["text"] for p in headscope.passages()[:8]], layers=[0, 5, 11], progress=False)
>>> table = result.quantity("sentence_preference", by="third", reading="cosine")
>>> list(table.data_vars), dict(table.sizes)
(['value', 'low', 'high', 'base', 'pooled', 'lower_quartile', 'upper_quartile', 'beyond', 'heads'], {'third': 3})
"""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr

from headscope.errors import HeadscopeError
from headscope.findings.numbers import Numbers
from headscope.measures import derived, heads_first
from headscope.measures.block_sums import THIRDS, BlockSums
from headscope.measures.derived import Array
from headscope.measures.quantities import named
from headscope.measures.quantity import BY, Quantity, places_of

AT_TAU = "τ"  # the paper's way: high pairs at τ in the main reading


def quantity(numbers: Numbers, name: str, by: str = "layer", reading: str | None = None) -> xr.Dataset:
    """One quantity as a labelled dataset.

    value, low, high and base (what it would be without any effect); by layer, third or for the model beside it the
    quartiles of the heads, how many have a number, the share of them beyond the bound (where there is one), and the
    number of counts pooled over heads.
    """
    which, sums = named(name), numbers.sums
    coords = coordinates(sums, by)
    if by == "head" and which.of_layers:
        raise HeadscopeError(f"{name} is a quantity of layers, not of single heads", 'ask for by="layer"')
    view = numbers.view(reading)
    which.check(view)
    found = numbers.by(which, by, reading)
    arrays: dict[str, Any] = {
        "value": found.value, "low": found.low, "high": found.high, "base": np.full_like(found.value, which.none),
    }  # fmt: skip
    if by != "head":
        arrays |= {"pooled": numbers.pooled(which, by, reading)}
        arrays |= _beside(which, numbers.heads(which, reading).value, sums, by)
    attrs = _attributes(numbers, which.label, reading) | {
        "over_windows": int(bool(which.matched) and view.over_windows)
    }
    return xr.Dataset({key: (tuple(coords), values) for key, values in arrays.items()}, coords, attrs)


def by_readings(numbers: Numbers, name: str, by: str = "layer") -> xr.Dataset:
    """The same in every way that it can be read, with the leading dimension `way`: "τ", readings, attention maps."""
    which = named(name)
    ways = [way for way in which.ways(numbers.sums) if not which.lacking(numbers.view(way))]
    if not ways:
        which.check(numbers.view())
    each = [quantity(numbers, name, by, way) for way in ways]
    joined = xr.concat(each, "way", combine_attrs="drop_conflicts")
    return joined.assign_coords(way=[AT_TAU if way is None else way for way in ways])


def _beside(which: Quantity, heads: Array, sums: BlockSums, by: str) -> dict[str, Any]:
    groups = [which.heads_of(heads, places, sums) for places in places_of(sums, by)]
    columns = {
        "lower_quartile": [heads_first.quantile(own, 0.25, logarithmic=which.logarithmic) for own in groups],
        "upper_quartile": [heads_first.quantile(own, 0.75, logarithmic=which.logarithmic) for own in groups],
        "beyond": [heads_first.share_beyond(own, which.bound) for own in groups],
        "heads": [np.isfinite(own).sum() for own in groups],
    }
    return {name: np.array(values)[0] if by == "model" else np.array(values) for name, values in columns.items()}


def distances(numbers: Numbers, by: str = "layer", reading: str | None = None) -> xr.Dataset:
    """The share of a typical head's high pairs, or top pairs, in each band of distance, and as `base` that of all."""
    sums, view = numbers.sums, numbers.view(reading)
    named("reach").check(view)
    coords = coordinates(sums, by)
    pairs = np.moveaxis(view.pairs().sum(-1), -1, 1)  # (S, band, L, H)
    shares = Quantity("share", "share of similar pairs", "share of similar pairs", lambda _: (pairs,), np.asarray)
    drawn = numbers.resample.draw(derived.distribution, pairs)
    found = numbers.resample.interval(drawn.then(lambda values: shares.summarised(values, sums, by)))
    every = sums.base[0].sum((0, 2))  # (band,)
    every = every.reshape(-1, *[1] * (found.value.ndim - 1)) / max(float(every.sum()), 1)
    arrays = {"value": found.value, "low": found.low, "high": found.high}
    arrays |= {"base": np.broadcast_to(every, found.value.shape)}
    coords = {"band": np.array(sums.bands, dtype=object)} | coords
    attrs = _attributes(numbers, "share of similar pairs", reading)
    return xr.Dataset({key: (tuple(coords), values) for key, values in arrays.items()}, coords, attrs)


def coordinates(sums: BlockSums, by: str) -> dict[str, Any]:
    """The coordinates of numbers by "head", "layer", "third" or for the "model"."""
    if by not in BY:
        raise HeadscopeError(f"by={by!r} is not possible", f"use one of {', '.join(BY)}")
    every: dict[str, dict[str, Any]] = {
        "head": {"layer": list(sums.layers), "head": np.arange(sums.heads)},
        "layer": {"layer": list(sums.layers)},
        "third": {"third": list(THIRDS)},
        "model": {},
    }
    return every[by]


def _attributes(numbers: Numbers, label: str, reading: str | None) -> dict[str, Any]:
    how = numbers.resample.intervals
    return {"quantity": label, "tau": numbers.view().at, "reading": reading or "", "interval": how}
