"""What a result comes to: a row per head, or a row per layer, of every quantity that is shown in summaries."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from headscope.measures import derived, heads_first
from headscope.measures.quantities import shown_in
from headscope.measures.view import View
from headscope.result.blocks import in_bands, total_sums

if TYPE_CHECKING:
    from headscope.result.result import Result


def by_head(result: Result, tau: float) -> pd.DataFrame:
    """A row per head, with its focal token at the run's τ."""
    data = result.dataset
    layers, heads = data.sizes["layer"], data.sizes["head"]
    columns = {name: values.reshape(-1) for name, values in _columns(result, tau, "head").items()}
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
    """A row per layer: the median over its heads; counts are added up."""
    return pd.DataFrame({"layer": result.dataset["layer"].values} | _columns(result, tau, "layer"))


def _columns(result: Result, tau: float, by: str) -> dict[str, Any]:
    view = View(total_sums(result), tau)
    columns = {}
    for quantity in shown_in("summary", view.sums.stored):
        if by == "layer" or not quantity.of_layers:
            values = quantity.value(view, by)
            columns[quantity.name] = values.astype(np.int64) if quantity.adds_up else values
    for name in result.settings["relations"]:
        labelled, pairs = (in_bands(result.dataset[each]) for each in (f"pairs_{name}", "pairs"))
        heads = derived.label_preference(labelled, pairs, tau)  # (L, H)
        columns[f"{name}_preference"] = heads if by == "head" else heads_first.median(heads, logarithmic=True)
    return columns
