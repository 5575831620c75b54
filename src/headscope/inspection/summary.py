"""What an inspection comes to: a row per head, or a row per layer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray

from headscope.findings import derived
from headscope.measures.attention import correlation, to_categories
from headscope.measures.focal import expected_unique, focal_at_every_tau
from headscope.measures.relations import count_pairs
from headscope.measures.similarity import BINS, first_high_bin
from headscope.windows import CATEGORIES

if TYPE_CHECKING:
    from headscope.inspection.core import Inspection

Array = NDArray[np.float64]


def by_head(inspection: Inspection, tau: float) -> pd.DataFrame:
    """A row per head of every kept layer."""
    rows: list[dict[str, Any]] = []
    for k, layer in enumerate(inspection.captured.layers):
        pairs, (given, even) = inspection.layer_pairs(k), focus(inspection, k)
        columns = {
            **_focus_columns(given, even),
            **_pair_columns(pair_counts(inspection, k), tau),
            "likeness": likeness(inspection, k),
            "high_pairs": (pairs.bin >= first_high_bin(tau)).sum(1).numpy(),
            "flat": pairs.flat.numpy(),
        }
        for head, focal in enumerate(inspection.focal_tokens(k, tau)):
            row: dict[str, Any] = {"layer": layer, "head": head}
            row |= {name: values[head] for name, values in columns.items()}
            row |= {"focal_token": focal.token if focal else None, "focal_share": focal.share if focal else np.nan}
            rows.append(row)
    return pd.DataFrame(rows)


def by_layer(inspection: Inspection, tau: float) -> pd.DataFrame:
    """A row per kept layer: counts and attention pooled over its heads, then divided."""
    rows: list[dict[str, Any]] = []
    counting = inspection.window.ids[inspection.counting.numpy()]
    for k, layer in enumerate(inspection.captured.layers):
        pairs, (given, even) = inspection.layer_pairs(k), focus(inspection, k)
        focal = [token for token in inspection.focal_tokens(k, tau) if token]
        alike = likeness(inspection, k)
        pooled = _focus_columns(given.sum(0), even * len(given)) | _pair_columns(pair_counts(inspection, k).sum(0), tau)
        row: dict[str, Any] = {"layer": layer} | {name: float(value) for name, value in pooled.items()}
        row |= {
            "likeness": float(np.nanmean(alike)) if np.isfinite(alike).any() else np.nan,
            "high_pairs": int((pairs.bin >= first_high_bin(tau)).sum()),
            "focal_unique": len({token.id for token in focal}),
            "focal_expected": expected_unique(counting, len(focal)),
            "flat": int(pairs.flat.sum()),
        }
        rows.append(row)
    return pd.DataFrame(rows)


def by_threshold(inspection: Inspection, k: int) -> dict[str, Array]:
    """What `by_head` says of the k-th kept layer's heads, at every τ at once: (19, H) each.

    `focal` is the number of the focal token in `inspection.same`, -1 where a head has no high pair.
    """
    pairs, (given, even) = inspection.layer_pairs(k), focus(inspection, k)
    counts = pair_counts(inspection, k)  # (H, level, distance, relation)
    above = np.flip(np.flip(counts, 1).cumsum(1), 1)[:, 2:]  # (H, 19, distance, relation): bin 2 is the first at 0.05
    high = np.moveaxis(above, 1, 0)
    columns = {**_focus_columns(given, even), "likeness": likeness(inspection, k)}
    shape = high.shape[:2]
    found = {name: np.broadcast_to(values, shape) for name, values in columns.items()}
    found |= _preferences(high, counts.sum(1))
    token, share = focal_at_every_tau(pairs.bin, *inspection.places, inspection.same)
    return found | {
        "high_pairs": high.sum((-2, -1)),
        "focal": token.numpy(),
        "focal_share": share.masked_fill(token < 0, torch.nan).numpy(),
    }


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
    found = to_categories(torch.from_numpy(captured.given[k]), category, len(CATEGORIES), queries)
    even = to_categories(torch.from_numpy(captured.even[k]), category, len(CATEGORIES), queries)
    return found.numpy(), even.numpy()


def likeness(inspection: Inspection, k: int) -> Array:
    """Pearson's correlation of S with symmetric attention, per head; NaN for flat heads and cross-attention."""
    captured, pairs = inspection.captured, inspection.layer_pairs(k)
    if captured.stack == "cross":  # A and S are over different tokens
        return np.full(captured.heads, np.nan)
    if captured.passed is not None:
        return np.where(pairs.flat.numpy(), np.nan, captured.passed[k])
    return likeness_to(pairs.value, captured.maps(k), inspection.places).masked_fill(pairs.flat, torch.nan).numpy()


def likeness_to(
    values: torch.Tensor, maps: NDArray[np.float32], places: tuple[torch.Tensor, torch.Tensor]
) -> torch.Tensor:
    """The correlation of the S of pairs, (H, P), with their attention both ways, out of (H, T, T)."""
    weights = torch.from_numpy(maps)
    first, second = places
    return correlation(values, (weights[:, first, second] + weights[:, second, first]) / 2)


def _focus_columns(given: Array, even: Array) -> dict[str, Any]:
    columns = {f"{name}_focus": CATEGORIES.index(name) for name in ("stop", "end")}
    return {
        name: derived.ratio(given[..., c], np.broadcast_to(even[c], given[..., c].shape)) for name, c in columns.items()
    }


def _pair_columns(counts: Array, tau: float) -> dict[str, Array]:
    return _preferences(*derived.high_and_all(counts, tau))


def _preferences(high: Array, every: Array) -> dict[str, Array]:
    return {
        "distance": derived.distance_over_base(high, every),
        "sentence_preference": derived.sentence_preference(high, every),
        "repetition_preference": derived.repetition_preference(high, every),
    }
