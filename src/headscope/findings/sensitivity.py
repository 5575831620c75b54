"""Sensitivity: every statistic at other thresholds. Levels are kept in bins, so no text is read again."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from headscope.findings.checks import check
from headscope.findings.claims import CLAIMS, Claim, Test
from headscope.findings.finding import plain
from headscope.findings.numbers import MEAN_OF_LAYERS, SPREAD, Heads, Number, Numbers, heads_of
from headscope.findings.resampling import DRAWS, Resampling
from headscope.findings.specialisation import variances_of_layers
from headscope.measures.block_sums import BlockSums
from headscope.measures.quantities import named
from headscope.measures.view import Sums, View
from headscope.result import keeping

if TYPE_CHECKING:
    from headscope.result.result import Result

SWEPT = tuple(k / 20 for k in range(2, 19))  # 0.1, 0.15, … 0.9
COLUMNS = ("value", "low", "high", "state", "why")
SPREAD_DRAWS = 100  # at most, for the spread of heads: at another τ it takes long


def _over_theta(label: str, quantity: str, where: str, bound: float, none: float) -> Test:
    return Test("statistic", label, Number(quantity, where), bound, none)


OTHERWISE = {  # how claims are measured over θ
    "1a": _over_theta("stops among attended tokens, over their share of all", "stop_among_attended", "final", 1.1, 1.0),
    "1b": _over_theta(
        "closing tokens among attended tokens, over their share of all", "end_among_attended", "final", 1.1, 1.0
    ),
    "6": _over_theta(
        "mean level inside the mask of high attention minus outside, mean over layers", "mask_contrast", MEAN_OF_LAYERS,
        0.0, 0.0,
    ),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Row:
    """One statistic of a claim, as it is measured over thresholds."""

    claim: Claim
    test: Test
    key: str
    found: dict[str, list[Any]] = field(default_factory=lambda: {name: [] for name in COLUMNS})


def sensitivity(result: Result, *, draws: int = DRAWS, seed: int = 0) -> xr.Dataset:
    """Value, interval and state (passes, fails, cannot tell) of each statistic, over the threshold it depends on.

    `over` says which: "tau" for claims about similar pairs, "theta" for claims about attention. Claims 1a, 1b and 6
    are measured without a threshold, or at one θ; over θ they are read off the tokens that receive high attention
    instead: the share of stops (of closing tokens) among them over their share of all tokens; the mean level of pairs
    of such tokens less that of pairs without. Claims on likeness and separation depend on no threshold and are the same
    throughout. At another τ than the run's own, matched counts are pooled over windows: `over_windows`. Claim 2 has a
    second row, "2 reach". No verdict is given: it is on S as the paper reads it.
    """
    key = {
        "draws": draws,
        "seed": seed,
        "has": [*COLUMNS, "over_windows"],
        "claims": hashlib.sha256(repr((CLAIMS, OTHERWISE)).encode()).hexdigest(),
    }
    kept = keeping.get(result, "sensitivity", key)
    if kept is None:
        found = of_sums(result.blocks, draws=draws, seed=seed)
        keeping.put(result, "sensitivity", key, plain(found.to_dict()))
        return found
    found = xr.Dataset.from_dict(kept)
    return found.assign({name: found[name].astype(float) for name in ("value", "low", "high")})


def of_sums(sums: BlockSums, *, draws: int = DRAWS, seed: int = 0) -> xr.Dataset:
    """The same from sums of blocks."""
    resample = Resampling(sums.windows, draws=draws, seed=seed)
    at_tau = {tau: Numbers(sums, resample, tau) for tau in SWEPT}
    at_theta = {theta: Numbers(sums, resample, theta=theta) for theta in SWEPT}
    _fill(at_tau, sums, resample)
    rows = [
        _Row(claim, OTHERWISE.get(claim.key, test), f"{claim.key} {test.number.quantity}" if place else claim.key)
        for claim in CLAIMS
        for place, test in enumerate(claim.statistics)
    ]
    own = Numbers(sums, resample)
    for row in rows:
        if row.claim.thresholds:
            numbers = at_tau if row.claim.thresholds == "tau" else at_theta
            checks = [check(row.test, numbers[threshold]) for threshold in SWEPT]
        else:
            checks = [check(row.test, own)] * len(SWEPT)
        for each in checks:
            for name, values in row.found.items():
                values.append(getattr(each, name))
    coords: dict[str, Any] = {
        "claim": [row.key for row in rows],
        "threshold": list(SWEPT),
        "over": ("claim", [row.claim.thresholds for row in rows]),
        "bound": ("claim", [row.test.bound for row in rows]),
        "none": ("claim", [row.test.none for row in rows]),
        "statistic": ("claim", [row.test.label for row in rows]),
        "over_windows": (("claim", "threshold"), [_pooled(row, at_tau) for row in rows]),
    }
    tables = {
        "reason" if name == "why" else name: (
            ("claim", "threshold"),
            np.array([row.found[name] for row in rows], dtype=object if name in ("state", "why") else float),
        )
        for name in rows[0].found
    }
    attrs = {"interval": resample.intervals, "tau": sums.tau, "theta": sums.theta}
    return xr.Dataset(tables, coords, attrs)


def _pooled(row: _Row, at_tau: dict[float, Numbers]) -> list[bool]:
    """At which thresholds the statistic's counts are pooled over windows."""
    matched = bool(named(row.test.number.quantity).matched) and row.claim.thresholds == "tau"
    return [matched and at_tau[tau].view().over_windows for tau in SWEPT]


def _fill(at_tau: dict[float, Numbers], sums: BlockSums, resample: Resampling) -> None:
    """Work out the matched ratios at every τ a layer at a time: so the pairs of a layer are read once."""
    fewer = Resampling(sums.windows, draws=0)
    fewer.weights = resample.weights[:SPREAD_DRAWS]
    tests = [test for claim in CLAIMS for test in claim.statistics]
    quantities = {test.number.quantity: named(test.number.quantity) for test in tests}
    matched = [each for each in quantities.values() if each.matched]
    spread = [quantities[test.number.quantity] for test in tests if test.number.where == SPREAD]
    taus = [tau for tau, numbers in at_tau.items() if numbers.view().over_windows]
    parts: dict[tuple[float, str], list[Heads]] = {}
    strata: dict[tuple[float, str], list[Sums]] = {}  # of all layers: what the spread of their heads is made of
    for k in range(len(sums.layers)):
        one = sums.layer(k)
        for tau in taus:
            view = View(one, tau)
            for each in matched:
                parts.setdefault((tau, each.name), []).append(heads_of(each, view, resample))
                if each in spread:
                    strata.setdefault((tau, each.name), []).append(each.sums(view))
    for (tau, name), heads in parts.items():
        at_tau[tau].keep(quantities[name], heads)
    for tau in taus:
        for each in spread:
            own = strata.pop((tau, each.name), None)
            joined = None if own is None else [np.concatenate(part, 1) for part in zip(*own, strict=True)]
            head_sums = each.sums(View(sums, tau)) if joined is None else joined
            at_tau[tau].keep_spread(each, variances_of_layers(each, head_sums, fewer))
