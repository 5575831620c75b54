"""The quantities of docs/method.md for a whole result: by head, by layer, by third of the depth, each with an interval.

>>> import headscope
>>> result = headscope.analyze(None, [p["text"] for p in headscope.passages()[:8]], progress=False)
>>> table = result.quantity("sentence_preference", by="third")
>>> list(table.data_vars), dict(table.sizes)
(['value', 'low', 'high', 'base', 'left_out'], {'third': 3})
"""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr

from headscope.errors import HeadscopeError
from headscope.findings.resampling import Estimate, Resampling
from headscope.measures import derived
from headscope.measures.block_sums import BY, THIRDS, BlockSums, View
from headscope.measures.derived import ratio
from headscope.measures.quantities import QUANTITIES


def estimate(
    sums: BlockSums, resample: Resampling, name: str, by: str, tau: float, theta: float | None = None
) -> Estimate:
    """One quantity with its interval, as plain arrays."""
    which = QUANTITIES[name]
    return resample(which.formula, *which.sums(View(sums, by, tau, theta)))


def quantity(sums: BlockSums, resample: Resampling, name: str, by: str, tau: float) -> xr.Dataset:
    """One quantity as a labelled dataset: value, low, high, and base: what it would be without any effect."""
    if name not in QUANTITIES:
        raise HeadscopeError(f"there is no quantity {name!r}", f"use one of {', '.join(QUANTITIES)}")
    coords = _coordinates(sums, by)
    which = QUANTITIES[name]
    if by == "head" and not which.heads:
        raise HeadscopeError(f"{name} is a quantity of layers, not of single heads", 'ask for by="layer"')
    missing = [need for need in which.needs if need not in sums.stored]
    if missing:
        raise HeadscopeError(f"{name} needs {missing[0]}, which cross-attention does not have", "ask for another stack")
    measured, view = estimate(sums, resample, name, by, tau), View(sums, by, tau)
    base = np.full_like(measured.value, which.none)
    if which.none_formula is not None:
        base = which.none_formula(*(each.sum(0) for each in which.sums(view)))
    arrays = {"value": measured.value, "low": measured.low, "high": measured.high, "base": base}
    if which.matched is not None:  # the share of class 1 that had no counterpart
        left_out = derived.matched_ratio(*which.matched(*(each.sum(0) for each in view.pairs())))[1]
        arrays["left_out"] = np.broadcast_to(left_out, measured.value.shape)
    attrs = {"quantity": which.label, "tau": tau, "interval": f"95 %, {resample.how}"}
    return xr.Dataset({key: (tuple(coords), values) for key, values in arrays.items()}, coords, attrs)


def distances(sums: BlockSums, resample: Resampling, by: str, tau: float) -> xr.Dataset:
    """The share of the high pairs at each distance with its interval, and as `base` that of all pairs."""
    coords = _coordinates(sums, by)
    high, every = View(sums, by, tau).pairs()
    shares = resample(lambda by_distance: ratio(by_distance, by_distance.sum(-1, keepdims=True)), high.sum(-1))
    base = np.broadcast_to(derived.distance_distribution(every.sum(0)), shares.value.shape)
    coords |= {"distance": np.arange(1, shares.value.shape[-1] + 1)}
    arrays = {"value": shares.value, "low": shares.low, "high": shares.high, "base": base}
    attrs = {"quantity": "share of similar pairs", "tau": tau, "interval": f"95 %, {resample.how}"}
    return xr.Dataset({key: (tuple(coords), values) for key, values in arrays.items()}, coords, attrs)


def _coordinates(sums: BlockSums, by: str) -> dict[str, Any]:
    if by not in BY:
        raise HeadscopeError(f"by={by!r}", f"use one of {', '.join(BY)}")
    every: dict[str, dict[str, Any]] = {
        "head": {"layer": list(sums.layers), "head": np.arange(sums.heads)},
        "layer": {"layer": list(sums.layers)},
        "third": {"third": list(THIRDS)},
        "model": {},
    }
    return every[by]
