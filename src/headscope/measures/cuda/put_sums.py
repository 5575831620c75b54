"""What was counted on a card, into the variables of a stack."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headscope.measures.compiled_sums import StackSums
from headscope.measures.variables import MATRIX


def put_sums(
    host: StackSums, kept: Mapping[str, NDArray[Any]], weight: NDArray[np.float64], *, maps: bool, first: bool
) -> None:
    """The sums of all layers, (L, …), and the weights of contrasts into the arrays of the whole.

    `first`: nothing was put there before.
    """
    arrays = host.arrays
    same = ("flat", "diagonal", "focal_share", "focal_few", "matched", "mask_sum", "mask_pairs")
    renamed = {"attention": "given", "attention_weighted": "weighted", "attention_entropy": "entropy",
               "focal_frequency": "frequency", "focal_distance": "reach", "focal_longest": "longest",
               "attention_even": "even"}  # fmt: skip
    for name, own in ({name: name for name in same if name in arrays} | renamed).items():
        arrays[name] += kept[f"sum_{own}"]
    for name in ("attended", "attended_text"):  # tokens that pass a threshold pass all below it
        arrays[name] += np.flip(np.cumsum(np.flip(kept[name], 2), 2), 2)
    counted = {"pairs": "pairs", "focal_unique": "focal_unique", "focal_null": "focal_null_unique"}  # fmt: skip
    counted |= {"distance_sum": "distance_sum"} if host.by_band else {}
    counted |= {MATRIX: MATRIX} if MATRIX in arrays else {}
    for name, own in counted.items():
        values = kept[own].reshape(arrays[name].shape)
        # The first numbers are taken as they are: the largest arrays of all need not be added to zeros.
        arrays[name] = values if first else arrays[name] + values
    for place, name in enumerate(host.shape.relations):
        arrays[f"pairs_{name}"] += kept["custom_pairs"][:, place].reshape(arrays["pairs"].shape)
    arrays["contrast_weight"][:, :, :-1] += weight[:, None]
    arrays["contrast_weight"][:, :, -1] += kept["sum_inside"]
    by_reading = {"wins": "sum_wins", "top_pairs": "sum_top_kinds", "top_few": "top_few",
                  "top_matched": "sum_top_matched", "norm_correlation": "sum_with_norms"}  # fmt: skip
    for name, own in by_reading.items():  # (L, H, R, …) to (R, L, H, …)
        arrays[name] += np.moveaxis(kept[own], 2, 0).reshape(arrays[name].shape)
    for name, own in {"top_unique": "top_unique", "top_null": "top_null_unique"}.items():
        arrays[name] += np.moveaxis(kept[own], 1, 0)
    if maps:
        arrays["attention_correlation"] += np.moveaxis(kept["sum_correlation"], (2, 3), (0, 1))
        arrays["attention_wins"][..., :-1] += np.moveaxis(kept["sum_map_wins"], 2, 0)
