"""What an inspection comes to: every quantity that is shown for a single text, by head, by layer, at every τ.

One window is one block of texts, so the formulas are those of a whole collection.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import torch

from headscope.choices import LONGEST_SUMMED, THRESHOLDS
from headscope.inspection.sums import sums_of
from headscope.measures.bands import by_band
from headscope.measures.block_sums import BlockSums
from headscope.measures.derived import Array
from headscope.measures.quantities import QUANTITIES, shown_in
from headscope.measures.quantity import Quantity
from headscope.measures.view import View

if TYPE_CHECKING:
    from headscope.inspection.inspection import Inspection

FOCAL = ("focal_unique", "focal_null")  # of a layer, beside what its heads have


def by_head(inspection: Inspection, tau: float, top: bool) -> pd.DataFrame:
    """A row per head of every kept layer."""
    return pd.concat([heads_of_layer(inspection, k, tau, top) for k in places(inspection)], ignore_index=True)


def heads_of_layer(inspection: Inspection, k: int, tau: float, top: bool = False) -> pd.DataFrame:
    """A row per head of the k-th kept layer, from its pairs that are high at τ, or from its top pairs."""
    return _heads(inspection, k, view_of(inspection, k, tau, top))


def _heads(inspection: Inspection, k: int, view: View) -> pd.DataFrame:
    columns: dict[str, Any] = {"layer": inspection.captured.layers[k], "head": np.arange(view.sums.heads)}
    columns |= {each.name: _typed(each, _of_heads(each, view)) for each in shown_in("text")}
    columns["flat"] = view.sums.stored["flat"][0, 0] > 0
    focal = inspection.top_focal(k) if view.reading else inspection.focal_tokens(k, view.at)
    columns["focal_token"] = pd.Series([token.token if token else None for token in focal], dtype=object)
    columns["focal_share"] = [token.share if token else np.nan for token in focal]
    return pd.DataFrame(columns)


def by_layer(inspection: Inspection, tau: float, top: bool) -> pd.DataFrame:
    """A row per layer: the median over its heads, sums of counts; and how many different focal tokens they have."""
    rows: list[dict[str, Any]] = []
    for k, layer in zip(places(inspection), inspection.captured.layers, strict=True):
        view = view_of(inspection, k, tau, top)
        heads = _heads(inspection, k, view)
        row: dict[str, Any] = {"layer": layer}
        for quantity in shown_in("text"):
            values = heads[quantity.name].to_numpy(np.float64)[None]
            row[quantity.name] = _typed(quantity, quantity.summarised(values, view.sums, "layer"))[0]
        for name in FOCAL:
            row[name] = _number(QUANTITIES[name].value(view, "layer")[0])
        rows.append(row | {"flat": int(heads.flat.sum())})
    return pd.DataFrame(rows)


def view_of(inspection: Inspection, k: int, tau: float, top: bool) -> View:
    """How a layer is looked at: through its pairs that are high at τ, or through the top pairs of the reading."""
    return View(text_sums(inspection, k), tau=tau, reading=inspection.reading if top else None)


def by_threshold(inspection: Inspection, k: int) -> dict[str, Array]:
    """What `by_head` says of the k-th kept layer's heads at every τ, and last from the top pairs: (19 + 1, H) each.

    `focal` is the number of the focal token in `inspection.same`, -1 where a head has none.
    """
    sums = text_sums(inspection, k)
    views = [*(View(sums, tau=tau) for tau in THRESHOLDS), View(sums, reading=inspection.reading)]
    columns = {each.name: np.stack([_of_heads(each, view) for view in views]) for each in shown_in("text")}
    token, share = (
        torch.cat([each, last[None]]).numpy()
        for each, last in zip(inspection.focal_at_every_tau(k), inspection.focal_of_top(k), strict=True)
    )
    return columns | {"focal": token, "focal_share": np.where(token < 0, np.nan, share)}


def places(inspection: Inspection) -> range:
    """The places of the kept layers."""
    return range(len(inspection.captured.layers))


def text_sums(inspection: Inspection, k: int) -> BlockSums:
    """The sums of one window and the k-th kept layer, as those of one block of texts."""
    captured, choices = inspection.captured, inspection.choices
    sums = sums_of(inspection, k)
    pairs = sums["pairs"][0]  # (H, level, distance or band, relation)
    bands = pairs if len(inspection.window) > LONGEST_SUMMED else by_band(pairs)
    return BlockSums(
        layers=(captured.layers[k],),
        depth=captured.depth,
        heads=captured.heads,
        readings=choices.readings[:1],
        tau=choices.tau,
        theta=choices.theta,
        groups=("",),
        stored={name: np.asarray(array, dtype=np.float64)[None] for name, array in sums.items() if name != "pairs"},
        layer_pairs=lambda _: bands[None],
        described=inspection.window.described,
    )


def _of_heads(quantity: Quantity, view: View) -> Array:
    """A number for each head, NaN where such heads have none."""
    own = view.by(None) if quantity.read == "attention" else view
    if quantity.lacking(own):
        return np.full(view.sums.heads, np.nan)
    return np.broadcast_to(quantity.of_heads(own)[0], view.sums.heads)


def _typed(quantity: Quantity, values: Array) -> Any:
    return values.astype(np.int64) if quantity.adds_up else values


def _number(mean: float) -> float | int:
    """A mean over one window is a whole number; NaN where there are no pairs."""
    return mean if np.isnan(mean) else round(mean)
