"""What the page asks of one text: its tokens as JSON, matrices as binary, each computed when it is asked for.

Binary answers are in the safetensors format: names, types and shapes in front, then the numbers as they are, so that
the page holds the very numbers of the inspection.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headscope.inspection import Inspection
from headscope.inspection.summary import by_threshold, text_sums
from headscope.measures.bands import band_ends
from headscope.measures.order import ORDER_BINS
from headscope.measures.quantities import shown_in
from headscope.measures.relations import RELATIONS
from headscope.measures.similarity import bins, levels
from headscope.measures.torch_order import has_top
from headscope.view.packing import pack
from headscope.view.purity import of_text
from headscope.windows import CATEGORIES, Window

THUMB = 40  # a thumbnail's side in cells, at most
_KNOWN = {"repeated": "same token"}  # of a pair, where words and sentences are not known


def header(inspection: Inspection, readings: Sequence[str]) -> dict[str, Any]:
    """Everything about a text that is the same for all heads, small enough for JSON; the first reading is its main."""
    window = inspection.window
    keys = None if inspection.captured.keys is window else _tokens(inspection.captured.keys)
    return {
        "model": inspection.model,
        "stack": inspection.stack,
        "shown": " · ".join([inspection.shown, *(what.partition(":")[0] for what in inspection.missing)]),
        "layers": list(inspection.captured.layers),
        "heads": inspection.captured.heads,
        "options": inspection.settings(),
        "texts": list(window.texts),
        "first": window.first,
        "total": window.total,
        "tokens": _tokens(window) | {"counting": inspection.counting.tolist(), "same": inspection.same.tolist()},
        "keys": keys,
        "same_labels": inspection.same_labels,
        "scores": [
            {
                "name": each.name,
                "label": each.label,
                "base": None if math.isnan(each.none) else each.none,
                "meaning": each.meaning,
            }
            for each in shown_in("text")
        ],
        "relations": list(RELATIONS) if window.described else [_KNOWN.get(name, "not known") for name in RELATIONS],
        "readings": list(readings),
        "bands": band_ends(len(window)),
        "maps_kept": inspection.captured.weights is not None,
        "unfamiliar": inspection.unfamiliar,
    }


def _tokens(window: Window) -> dict[str, Any]:
    return {
        "label": list(window.labels),
        "category": [CATEGORIES[c] for c in window.category],
        "sentence": window.sentence.tolist(),
        "word": window.word.tolist(),
        "part": window.part.tolist(),
        "start": window.span[:, 0].tolist(),
        "end": window.span[:, 1].tolist(),
        "unknown": window.unknown.tolist(),
    }


def pairs(inspection: Inspection) -> bytes:
    """The relation of every pair i < j of tokens that count, row by row: (P,)."""
    return pack({"relation": inspection.relations.numpy().astype(np.uint8)})


def layer(inspection: Inspection, number: int) -> bytes:
    """A layer's row of the atlas: a thumbnail of each head, and its scores at every τ, and from its top pairs."""
    k, _ = inspection.check_head(number, 0)
    columns = by_threshold(inspection, k)
    pure, repeated = of_text(text_sums(inspection, k), inspection.reading)
    return pack(
        {
            "thumbs": thumbnails(inspection, k),  # (H, n, n)
            "scores": np.stack([columns[each.name].astype(np.float64) for each in shown_in("text")]),  # (scores, 20, H)
            "focal": columns["focal"].astype(np.int32),  # (20, H)
            "purity": pure,  # (20, H)
            "repeated": repeated.astype(np.int32),
        }
    )


def thumbnails(inspection: Inspection, k: int) -> NDArray[np.uint8]:
    """The levels of each head's pairs, the largest of every small square of the matrix: (H, n, n).

    0 stands for no pair, 1 for a level of zero or less, 255 for the largest.
    """
    level = inspection.layer_pairs(k).level.numpy()  # (H, P)
    first, second = (places.numpy() for places in inspection.places)
    begin = int(first[0]) if len(first) else 0
    size = int(second[-1]) - begin + 1 if len(second) else 1
    side = min(size, THUMB)
    cuts = np.arange(side) * size // side  # where each small square begins
    thumbs = np.zeros((len(level), side, side), np.uint8)
    for h, row in enumerate(level):
        full = np.zeros((size, size), np.uint8)
        shade = np.where(np.isnan(row), 0, 1 + np.round(254 * np.clip(row, 0, 1)))
        full[first - begin, second - begin] = full[second - begin, first - begin] = shade
        thumbs[h] = np.maximum.reduceat(np.maximum.reduceat(full, cuts, axis=0), cuts, axis=1)
    return thumbs


def head(inspection: Inspection, number: int, h: int) -> bytes:
    """One head in a reading: S of every two tokens i < j row by row, bins of the pairs by level and by order, norms,
    attention received.

    Levels are S over the largest S of a pair, which the page divides itself; ranks it is given.
    """
    k, _ = inspection.check_head(number, h)
    matrix = inspection.matrix(k, h)  # (T, T)
    value = matrix[inspection.places]  # (P,)
    level, flat = levels(value[None], inspection.choices.scale)
    order = inspection.order(value[None])
    upper = np.triu_indices(len(matrix), 1)
    arrays = {
        "similarity": matrix.numpy()[upper],
        "bin": bins(level)[0].numpy().astype(np.uint8),
        "order": order[0].numpy().astype(np.uint8),
        "norms": np.linalg.norm(inspection.captured.outputs[k, h], axis=-1),
        "received": _received(inspection, number, h),
        "received_text": _received(inspection, number, h, text_only=True),
        "has_top": has_top((order == ORDER_BINS - 1).sum(1), len(value)).numpy().astype(np.uint8),
        "flat": flat.numpy().astype(np.uint8),
    }
    if inspection.choices.scale == "rank":
        arrays["level"] = level[0].numpy()
    return pack(arrays)


def _received(inspection: Inspection, number: int, h: int, *, text_only: bool = False) -> NDArray[np.float64]:
    """The attention that each token receives; NaN where there is none."""
    if inspection.captured.given is None:
        return np.full(len(inspection.captured.keys), np.nan)
    return np.asarray(inspection.received(number, h, text_only=text_only).values)


def attention(inspection: Inspection, number: int, h: int) -> bytes:
    """One head's attention map, (Tq, Tk)."""
    return pack({"attention": inspection.attention_map(number, h)})
