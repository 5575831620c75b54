"""What a result comes to: a row per head, or a row per layer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from headscope.findings import derived
from headscope.measures.similarity import first_high_bin

if TYPE_CHECKING:
    from headscope.result.core import Result

Array = NDArray[np.float64]


def by_head(result: Result, tau: float) -> pd.DataFrame:
    """A row per head, with its focal token at the run's τ."""
    data = result.dataset
    layers, heads = data.sizes["layer"], data.sizes["head"]
    columns = {name: values.reshape(-1) for name, values in _columns(result, tau, pooled=False).items()}
    where: dict[str, Any] = {
        "layer": np.repeat(data["layer"].values, heads),
        "head": np.tile(data["head"].values, layers),
    }
    counts = data["focal_tokens"].values.reshape(layers * heads, -1)
    if counts.shape[1]:
        best = counts.argmax(1)
        texts = data["token_text"].values[best]
        columns["focal_token"] = np.where(counts.any(1), texts, None)
        columns["focal_windows"] = counts.max(1)
    return pd.DataFrame(where | columns)


def by_layer(result: Result, tau: float) -> pd.DataFrame:
    """A row per layer: counts and attention pooled over its heads, then divided."""
    data = result.dataset
    columns = _columns(result, tau, pooled=True)
    step = first_high_bin(tau) - 2
    unique = data["focal_unique"].values[:, step]  # (layer, unique)
    windows = unique.sum(1)
    columns["focal_unique"] = derived.ratio(unique @ data["unique"].values, windows)
    columns["focal_expected"] = derived.ratio(data["focal_expected"].values[:, step], windows)
    return pd.DataFrame({"layer": data["layer"].values} | columns)


def _columns(result: Result, tau: float, *, pooled: bool) -> dict[str, Any]:
    data = result.dataset

    def over_heads(name: str) -> Array:
        values = data[name].values.astype(np.float64)
        return values.sum(1) if pooled else values

    heads = data.sizes["head"] if pooled else 1
    attention = over_heads("attention")  # (layer[, head], category)
    even = data["attention_even"].values * heads
    if not pooled and even.ndim == 2:
        even = even[:, None]
    categories = list(data["category"].values)
    windows = (int(data["texts"]) - int(data["pairless"])) * heads - over_heads("flat")
    pairs = over_heads("pairs")
    found: dict[str, Any] = {
        f"{name}_focus": derived.ratio(attention[..., k], np.broadcast_to(even[..., k], attention.shape[:-1]))
        for name, k in (("stop", categories.index("stop")), ("end", categories.index("end")))
    }
    high, every = derived.high_and_all(pairs, tau)
    found["distance"] = derived.distance_over_base(high, every)
    found["sentence_preference"] = derived.sentence_preference(high, every)
    found["repetition_preference"] = derived.repetition_preference(high, every)
    for name in result.settings["relations"]:
        found[f"{name}_preference"] = derived.own_preference(over_heads(f"pairs_{name}"), pairs, tau)
    if "attention_correlation" in data:
        found["likeness"] = derived.ratio(over_heads("attention_correlation"), windows)
    step = first_high_bin(tau) - 2
    found["focal_share"] = derived.ratio(over_heads("focal_share")[..., step], windows)
    found["high_pairs"] = high.sum((-2, -1)).astype(np.int64)
    found["flat"] = over_heads("flat").astype(np.int64)
    return found
