"""Sensitivity: every finding at other thresholds. Levels are kept in bins, so no text is read again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from headscope.findings.claims import CLAIMS, scores_of_blocks
from headscope.findings.resampling import DRAWS, Resampling
from headscope.findings.verdicts import judge

if TYPE_CHECKING:
    from headscope.result.result import Result

SWEPT = tuple(k / 20 for k in range(2, 19))  # 0.1, 0.15, … 0.9


def sensitivity(result: Result, *, draws: int = DRAWS, seed: int = 0) -> xr.Dataset:
    """Value, interval and verdict of each claim, over the threshold that it depends on, from 0.1 to 0.9.

    `over` says which: "tau" for claims about similar pairs, "theta" for claims about attention. Claims 1a and 1b are
    measured without a threshold; over θ they are read off the tokens that receive high attention instead, as the
    paper does: the share of stops (of closing tokens) among them, over their share of all tokens. Claim 7 depends on
    no threshold and is the same throughout.
    """
    sums = result.blocks
    resample = Resampling(sums.windows, draws=draws, seed=seed)
    shape = (len(CLAIMS), len(SWEPT))
    numbers = {name: np.full(shape, np.nan) for name in ("value", "low", "high")}
    words = {name: np.full(shape, "", dtype=object) for name in ("verdict", "reason")}
    own = float(result.settings["tau"])
    if sums.heads > 1:
        sums.scores.update(scores_of_blocks(sums, SWEPT))  # one pass over the pairs for all thresholds
    for row, claim in enumerate(CLAIMS):
        for column, threshold in enumerate(SWEPT):
            if not claim.thresholds and column:
                for table in (*numbers.values(), *words.values()):
                    table[row, column] = table[row, 0]
                continue
            over_theta = claim.thresholds == "theta"
            tau, theta = (own, threshold) if over_theta else (threshold, None)
            finding = judge(claim, sums, resample, tau, theta)
            for name, table in numbers.items():
                table[row, column] = getattr(finding, name)
            words["verdict"][row, column], words["reason"][row, column] = finding.verdict, finding.reason
    dims = ("claim", "threshold")
    coords: dict[str, Any] = {
        "claim": [claim.key for claim in CLAIMS],
        "threshold": list(SWEPT),
        "over": ("claim", [claim.thresholds for claim in CLAIMS]),
        "bound": ("claim", [claim.bound for claim in CLAIMS]),
    }
    attrs = {"interval": f"95 %, {resample.how}", "tau": own, "theta": float(result.settings["theta"])}
    return xr.Dataset({name: (dims, table) for name, table in (numbers | words).items()}, coords, attrs)
