"""What an inspection comes to: every quantity that is shown for a single text, by head, by layer, at every τ.

One window is one block of texts, so the formulas are those of a whole collection.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray

from headscope.choices import BINS, THRESHOLDS, first_high_bin
from headscope.measures.attention import correlation, to_categories
from headscope.measures.block_sums import BlockSums, Sums, View
from headscope.measures.focal import expected_unique, focal_at_every_tau
from headscope.measures.quantities import Quantity, shown_in
from headscope.measures.relations import count_pairs
from headscope.windows import CATEGORIES

if TYPE_CHECKING:
    from headscope.inspection.inspection import Inspection

Array = NDArray[np.float64]


def by_head(inspection: Inspection, tau: float) -> pd.DataFrame:
    """A row per head of every kept layer."""
    rows: list[dict[str, Any]] = []
    for k, layer in enumerate(inspection.captured.layers):
        text = layer_sums(inspection, k)
        columns = {each.name: _typed(each, each.value(View(text, "head", tau))[0]) for each in shown_in("text")}
        columns["flat"] = text.stored["flat"][0, 0] > 0
        for head, focal in enumerate(inspection.focal_tokens(k, tau)):
            row: dict[str, Any] = {"layer": layer, "head": head}
            row |= {name: values[head] for name, values in columns.items()}
            row |= {"focal_token": focal.token if focal else None, "focal_share": focal.share if focal else np.nan}
            rows.append(row)
    return pd.DataFrame(rows)


def by_layer(inspection: Inspection, tau: float) -> pd.DataFrame:
    """A row per layer, counts and attention pooled over its heads, then divided."""
    rows: list[dict[str, Any]] = []
    counting = inspection.window.ids[inspection.counting.numpy()]
    for k, layer in enumerate(inspection.captured.layers):
        text = layer_sums(inspection, k)
        focal = [token for token in inspection.focal_tokens(k, tau) if token]
        row: dict[str, Any] = {"layer": layer}
        for quantity in shown_in("text"):
            if quantity.name != "focal_share":
                row[quantity.name] = _typed(quantity, quantity.value(View(text, "layer", tau)))[0]
        row |= {
            "focal_unique": len({token.id for token in focal}),
            "focal_expected": expected_unique(counting, len(focal)),
            "flat": int(text.stored["flat"].sum()),
        }
        rows.append(row)
    return pd.DataFrame(rows)


def by_threshold(inspection: Inspection, k: int) -> dict[str, Array]:
    """What `by_head` says of the k-th kept layer's heads, at every τ at once: (19, H) each.

    `focal` is the number of the focal token in `inspection.same`, -1 where a head has no high pair.
    """
    view = _EveryThreshold(layer_sums(inspection, k), "head", THRESHOLDS[0])
    shape = (len(THRESHOLDS), inspection.captured.heads)
    columns = {each.name: np.broadcast_to(each.formula(*each.sums(view))[:, 0], shape) for each in shown_in("text")}
    token, share = focal_at_every_tau(inspection.layer_pairs(k).bin, *inspection.places, inspection.same)
    return columns | {"focal": token.numpy(), "focal_share": share.masked_fill(token < 0, torch.nan).numpy()}


def _typed(quantity: Quantity, values: Any) -> Any:
    return np.asarray(values).astype(np.int64) if quantity.whole else values


@dataclass(frozen=True, slots=True)
class _EveryThreshold(View):
    """A text at every τ: the thresholds stand where blocks of texts would."""

    def pairs(self) -> Sums:
        """High pairs at each τ, and all pairs."""
        high = np.stack(self.sums.layer_at(0, THRESHOLDS))  # (19, 1, H, distance, relation)
        return high, self.every(self.sums.base)


def layer_sums(inspection: Inspection, k: int) -> BlockSums:
    """The sums of one window and the k-th kept layer, as those of one block of texts."""
    captured, pairs = inspection.captured, inspection.layer_pairs(k)
    counts = pair_counts(inspection, k)  # (H, level, distance, relation)
    above = np.flip(np.flip(counts, 1).cumsum(1), 1)
    given, even = focus(inspection, k)
    stored = {
        "texts": np.ones(1),
        "pairless": np.array([float(not pairs.bin.shape[1])]),
        "flat": pairs.flat.numpy().astype(np.float64)[None, None],
        "attention": given[None, None],
        "attention_even": even[None, None],
        "attention_correlation": np.where(pairs.flat.numpy(), 0.0, likeness(inspection, k))[None, None],
        "focal_share": np.zeros((1, 1, captured.heads, len(THRESHOLDS))),  # callers fill in the focal tokens
    }
    return BlockSums(
        layers=(captured.layers[k],),
        depth=captured.layers[k] + 1,
        heads=captured.heads,
        groups=("",),
        shards_of=((0,),),
        pairs=counts.sum(0).astype(np.int64)[None, None],
        stored=stored,
        layer_at=lambda _, taus: [above[:, first_high_bin(tau)][None] for tau in taus],
    )


def pair_counts(inspection: Inspection, k: int) -> Array:
    """The k-th kept layer's pairs by head, level bin, distance and relation."""
    first, second = inspection.places
    longest = max(len(inspection.window) - 1, 1)
    counts = count_pairs(inspection.layer_pairs(k).bin, second - first, inspection.relations, BINS, longest)
    return counts.numpy().astype(np.float64)


def focus(inspection: Inspection, k: int) -> tuple[Array, Array]:
    """The mean weight given to each category, (H, C), and its base rate under even attention, (C,)."""
    captured = inspection.captured
    category, queries = torch.from_numpy(captured.keys.category), len(captured.queries)
    given = to_categories(torch.from_numpy(captured.given[k]), category, len(CATEGORIES), queries)
    even = to_categories(torch.from_numpy(captured.even[k]), category, len(CATEGORIES), queries)
    return given.numpy(), even.numpy()


def likeness(inspection: Inspection, k: int) -> Array:
    """Pearson's correlation of S with symmetric attention, per head; NaN for flat heads and cross-attention."""
    captured, pairs = inspection.captured, inspection.layer_pairs(k)
    if captured.stack == "cross":  # A and S are over different tokens
        return np.full(captured.heads, np.nan)
    if captured.from_maps is not None:
        return np.where(pairs.flat.numpy(), np.nan, captured.from_maps[k])
    return likeness_to(pairs.value, captured.maps(k), inspection.places).masked_fill(pairs.flat, torch.nan).numpy()


def likeness_to(
    values: torch.Tensor, maps: NDArray[np.float32], places: tuple[torch.Tensor, torch.Tensor]
) -> torch.Tensor:
    """The correlation of the S of pairs, (H, P), with their attention both ways, out of (H, T, T)."""
    weights = torch.from_numpy(maps)
    first, second = places
    return correlation(values, (weights[:, first, second] + weights[:, second, first]) / 2)
