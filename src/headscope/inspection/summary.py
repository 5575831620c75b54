"""What an inspection comes to: a row per head, or a row per layer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray

from headscope.findings import derived
from headscope.measures.attention import correlation, to_categories
from headscope.measures.focal import expected_unique
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
    given = torch.from_numpy(captured.weights[k]).double().sum(1)  # (H, Tk)
    found = to_categories(given, category, len(CATEGORIES), queries)
    even = to_categories(torch.from_numpy(captured.even[k]), category, len(CATEGORIES), queries)
    return found.numpy(), even.numpy()


def likeness(inspection: Inspection, k: int) -> Array:
    """Pearson's correlation of S with symmetric attention, per head; NaN for flat heads and cross-attention."""
    captured, pairs = inspection.captured, inspection.layer_pairs(k)
    if captured.stack == "cross":  # A and S are over different tokens
        return np.full(captured.heads, np.nan)
    weights = torch.from_numpy(captured.weights[k])
    first, second = inspection.places
    both = (weights[:, first, second] + weights[:, second, first]) / 2
    return correlation(pairs.value, both).masked_fill(pairs.flat, torch.nan).numpy()


def _focus_columns(given: Array, even: Array) -> dict[str, Any]:
    columns = {f"{name}_focus": CATEGORIES.index(name) for name in ("stop", "end")}
    return {
        name: derived.ratio(given[..., c], np.broadcast_to(even[c], given[..., c].shape)) for name, c in columns.items()
    }


def _pair_columns(counts: Array, tau: float) -> dict[str, Array]:
    high, every = derived.high_and_all(counts, tau)
    return {
        "distance": derived.distance_over_base(high, every),
        "sentence_preference": derived.sentence_preference(high, every),
        "repetition_preference": derived.repetition_preference(high, every),
    }
