"""The quantities of docs/method.md for a whole result: by head, by layer, by third of the depth, each with an interval.

>>> import headscope
>>> result = headscope.analyze(None, [p["text"] for p in headscope.passages()[:8]], progress=False)
>>> found = result.quantity("sentence_preference", by="third")
>>> list(found.data_vars), dict(found.sizes)
(['value', 'low', 'high', 'base', 'left_out'], {'third': 3})
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import xarray as xr

from headscope.errors import HeadscopeError
from headscope.findings import derived
from headscope.findings.counts import THIRDS, Counts
from headscope.findings.derived import Array, ratio
from headscope.findings.resampling import Estimate, Resampling
from headscope.measures.similarity import first_high_bin
from headscope.measures.tally import REGIONS
from headscope.windows import CATEGORIES

LEVELS = ("head", "layer", "third", "model")
MATCHED = {
    "sentence_preference": derived.sentence_classes,
    "repetition_preference": derived.repetition_classes,
    "separator_similarity": derived.separator_classes,
}
Sums = tuple[Array, ...]


@dataclass(frozen=True, slots=True)
class Quantity:
    """A derived quantity: how it is called, what no effect would be, and how it comes from sums over blocks."""

    name: str
    label: str
    sums: Callable[[View], Sums]  # arrays with the blocks as their first dimension
    function: Callable[..., Array]  # of those sums
    base: float = field(default=np.nan)  # no effect
    needs: tuple[str, ...] = ()  # variables that not every result has
    heads: bool = True  # whether a single head has it


@dataclass(frozen=True, slots=True)
class View:
    """Counts seen by head, layer, third or as a whole, at a τ and, where it matters, a θ."""

    counts: Counts
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
        return np.stack([values[:, self.counts.third(name)].sum(1) for name in THIRDS], axis=1)

    def every(self, values: Array) -> Array:
        """What is the same for all heads of all layers, (S, …), as often as there are heads in what is looked at."""
        number = len(self.counts.layers)
        each = np.broadcast_to(values[:, None], (len(values), number, *values.shape[1:]))
        if self.by == "head":
            return each[:, :, None]
        return self.layers(each) * self.counts.heads

    @property
    def step(self) -> int:
        """Where τ stands among the thresholds."""
        return first_high_bin(self.tau) - 2

    def pairs(self) -> Sums:
        """High pairs and all pairs, by distance and relation."""
        if self.by == "head":
            high = self.counts.heads_at(self.tau)
        else:
            high = self.layers(self.counts.high(self.tau))
        return high, self.every(self.counts.base)

    def levels(self) -> Sums:
        """All pairs by level, distance and relation."""
        return (self.layers(self.counts.pairs.astype(np.float64)),)

    def focus(self, category: str) -> Sums:
        """Attention given to a category, and what an even spread would give it."""
        k = CATEGORIES.index(category)
        even = self.counts.stored["attention_even"][:, :, k]  # (S, L)
        given = self.over(self.counts.stored["attention"][..., k])
        if self.by == "head":
            return given, np.broadcast_to(even[:, :, None], given.shape)
        return given, self.layers(even) * self.counts.heads

    def regions(self) -> Sums:
        """Levels and numbers of pairs inside and outside the mask of high attention."""
        stored = self.counts.stored
        names = ("region_sum", "region_pairs")
        if self.theta is not None:
            place = round(self.theta * 20) - 1
            sums = [stored[name][:, :, :, place] for name in ("mask_sum", "mask_pairs")]
        else:
            sums = [stored[name] for name in names]
        return tuple(self.over(each[..., REGIONS.index(name)]) for name in ("inside", "outside") for each in sums)

    def windows(self, name: str) -> Sums:
        """A sum over windows that are not flat, and their number."""
        return tuple(self.over(each) for each in self.counts.mean_over_windows(name))

    def shares(self) -> Sums:
        """The focal tokens' shares, and the windows that have one."""
        total = self.counts.stored["focal_share"][..., self.step]
        return self.over(total), self.over(self.counts.mean_over_windows("flat")[1])

    def focal(self) -> Sums:
        """Different focal tokens, how many would be expected, and the windows."""
        unique = self.counts.stored["focal_unique"][:, :, self.step]  # (S, L, unique)
        number = unique @ np.arange(unique.shape[-1], dtype=np.float64)
        expected = self.counts.stored["focal_expected"][:, :, self.step]
        return self.layers(number), self.layers(expected), self.layers(unique.sum(-1))


def contrast(inside: Array, pairs_inside: Array, outside: Array, pairs_outside: Array) -> Array:
    """Mean level inside minus mean level outside."""
    return ratio(inside, pairs_inside) - ratio(outside, pairs_outside)


def _of_pairs(name: str, label: str, function: Callable[[Array, Array], Array], base: float = 1.0) -> Quantity:
    return Quantity(name, label, View.pairs, function, base)


def _separation(signal: str, label: str) -> Quantity:
    def function(pairs: Array) -> Array:
        return derived.separation(pairs, signal)

    return Quantity(f"separation_{signal}", label, View.levels, function, 0.5, heads=False)


_ALL = (
    Quantity("stop_focus", "focus on sentence stops", lambda view: view.focus("stop"), ratio, 1.0),
    Quantity("end_focus", "focus on closing special tokens", lambda view: view.focus("end"), ratio, 1.0),
    _of_pairs("distance", "distance of similar pairs over that of all", derived.distance_over_base),
    _of_pairs("sentence_preference", "sentence preference", derived.sentence_preference),
    _of_pairs("repetition_preference", "repetition preference", derived.repetition_preference),
    _of_pairs("separator_similarity", "separator similarity", derived.separator_similarity),
    _of_pairs("reach_within", "reach within the sentence", derived.reach_within),
    _of_pairs("across_rate", "similar pairs across sentences", derived.across_rate),
    _of_pairs("noise_rate", "noise rate", derived.noise_rate),
    Quantity(
        "focal_unique",
        "different focal tokens",
        View.focal,
        lambda number, expected, windows: ratio(number, windows),
        heads=False,
    ),
    Quantity(
        "focal_excess",
        "different focal tokens beyond chance",
        View.focal,
        lambda number, expected, windows: ratio(number, windows) - ratio(expected, windows),
        0.0,
        heads=False,
    ),
    Quantity("focal_share", "common-token score", View.shares, ratio),
    Quantity("focal_frequency", "frequency of the focal token", lambda v: v.windows("focal_frequency"), ratio),
    Quantity("focal_distance", "distance of the focal token's pairs", lambda v: v.windows("focal_distance"), ratio),
    Quantity("mask_contrast", "mask contrast", View.regions, contrast, 0.0, ("region_sum",)),
    Quantity(
        "likeness",
        "likeness to attention",
        lambda v: v.windows("attention_correlation"),
        ratio,
        needs=("attention_correlation",),
    ),
    _separation("sentence", "separation of sentence pairs from noise"),
    _separation("repeated", "separation of repeated pairs from noise"),
    _separation("all", "separation of all related pairs from noise"),
)
QUANTITIES = {quantity.name: quantity for quantity in _ALL}


def estimate(
    counts: Counts, resampling: Resampling, name: str, by: str, tau: float, theta: float | None = None
) -> Estimate:
    """One quantity with its interval, as plain arrays."""
    quantity = QUANTITIES[name]
    return resampling(quantity.function, *quantity.sums(View(counts, by, tau, theta)))


def quantity(counts: Counts, resampling: Resampling, name: str, by: str, tau: float) -> xr.Dataset:
    """One quantity as a labelled dataset: value, low, high, and base: what it would be without any effect."""
    if name not in QUANTITIES:
        raise HeadscopeError(f"there is no quantity {name!r}", f"use one of {', '.join(QUANTITIES)}")
    coords = _coordinates(counts, by)
    which = QUANTITIES[name]
    if by == "head" and not which.heads:
        raise HeadscopeError(f"{name} is a quantity of layers, not of single heads", 'ask for by="layer"')
    missing = [need for need in which.needs if need not in counts.stored]
    if missing:
        raise HeadscopeError(f"{name} needs {missing[0]}, which cross-attention does not have", "ask for another stack")
    found = estimate(counts, resampling, name, by, tau)
    base = np.full_like(found.value, which.base)
    if name == "focal_unique":
        _, expected, windows = (each.sum(0) for each in View(counts, by, tau).focal())
        base = ratio(expected, windows)
    arrays = {"value": found.value, "low": found.low, "high": found.high, "base": base}
    if name in MATCHED:  # the share of class 1 that had no counterpart
        sums = (each.sum(0) for each in View(counts, by, tau).pairs())
        arrays["left_out"] = np.broadcast_to(derived.matched_ratio(*MATCHED[name](*sums))[1], found.value.shape)
    attrs = {"quantity": which.label, "tau": tau, "interval": f"95 %, {resampling.how}"}
    return xr.Dataset({key: (tuple(coords), values) for key, values in arrays.items()}, coords, attrs)


def distances(counts: Counts, resampling: Resampling, by: str, tau: float) -> xr.Dataset:
    """The share of the high pairs at each distance with its interval, and as `base` that of all pairs."""
    coords = _coordinates(counts, by)
    high, every = View(counts, by, tau).pairs()
    found = resampling(lambda by_distance: ratio(by_distance, by_distance.sum(-1, keepdims=True)), high.sum(-1))
    base = np.broadcast_to(derived.distance_distribution(every.sum(0)), found.value.shape)
    coords |= {"distance": np.arange(1, found.value.shape[-1] + 1)}
    arrays = {"value": found.value, "low": found.low, "high": found.high, "base": base}
    attrs = {"quantity": "share of similar pairs", "tau": tau, "interval": f"95 %, {resampling.how}"}
    return xr.Dataset({key: (tuple(coords), values) for key, values in arrays.items()}, coords, attrs)


def _coordinates(counts: Counts, by: str) -> dict[str, Any]:
    if by not in LEVELS:
        raise HeadscopeError(f"by={by!r}", f"use one of {', '.join(LEVELS)}")
    every: dict[str, dict[str, Any]] = {
        "head": {"layer": list(counts.layers), "head": np.arange(counts.heads)},
        "layer": {"layer": list(counts.layers)},
        "third": {"third": list(THIRDS)},
        "model": {},
    }
    return every[by]
