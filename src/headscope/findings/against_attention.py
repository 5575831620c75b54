"""S against attention: how well each tells pairs of one sentence, and repetitions, from unrelated pairs, by layer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from headscope.errors import HeadscopeError
from headscope.findings.numbers import Numbers
from headscope.findings.resampling import DRAWS, Resampling
from headscope.measures.block_sums import BlockSums
from headscope.measures.comparisons import CONTRASTED
from headscope.measures.quantities import named

if TYPE_CHECKING:
    from headscope.result.result import Result


def against_attention(
    result: Result, *, controls: Sequence[Result] = (), draws: int = DRAWS, seed: int = 0
) -> xr.Dataset:
    """AUC of each contrast by S in each reading and by each attention map, by layer: value, low, high.

    Dimensions: contrast ("sentence", "repeated", "related"), way ("dot", "cosine", …, "direct", "rows"), layer. Where
    there are control runs, `controls` has their values, with the leading dimension run; `kind` says what each is.
    """
    from headscope.findings.controls import check_controls

    beside = check_controls(result, controls)
    runs = {"permuted": beside.permuted, "untrained": beside.untrained, "rotated": beside.rotated}
    sums = result.blocks
    found = of_sums(sums, Resampling(sums.windows, draws=draws, seed=seed))
    if any(runs.values()):
        each = [(kind, run) for kind, own in runs.items() for run in own]
        values = [of_sums(run.blocks, Resampling(run.blocks.windows, draws=0))["value"].values for _, run in each]
        found["controls"] = ("run", "contrast", "way", "layer"), np.stack(values)
        found["kind"] = "run", np.array([kind for kind, _ in each], dtype=object)
        found = found.assign_coords(run=[run.model["name"] for _, run in each])
    return found


def of_sums(sums: BlockSums, resample: Resampling) -> xr.Dataset:
    """The same from sums of blocks, without control runs."""
    if not sums.maps:
        raise HeadscopeError(
            "in cross-attention maps and pairs are of different tokens", "ask for the encoder or the decoder"
        )
    numbers, ways = Numbers(sums, resample), (*sums.readings, *sums.maps)
    tables: dict[str, list[list[Any]]] = {name: [] for name in ("value", "low", "high")}
    for contrast in CONTRASTED:
        each = [numbers.by(named(f"separation_{contrast}"), "layer", way) for way in ways]
        for name, rows in tables.items():
            rows.append([getattr(one, name) for one in each])
    dims = ("contrast", "way", "layer")
    coords = {"contrast": list(CONTRASTED), "way": list(ways), "layer": list(sums.layers)}
    attrs = {"interval": resample.intervals}
    return xr.Dataset({name: (dims, np.array(rows)) for name, rows in tables.items()}, coords, attrs)
