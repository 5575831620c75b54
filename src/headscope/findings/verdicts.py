"""Findings: every claim of the paper held against a result, with intervals, controls and an honest verdict."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from headscope.errors import counted
from headscope.findings.checks import FAILS, PASSES, Check, ControlRun, check, together
from headscope.findings.claims import CLAIMS, PERMUTED, ROTATED, UNTRAINED, Claim
from headscope.findings.controls import Controls, check_controls
from headscope.findings.finding import DOES_NOT_HOLD, HOLDS, NONE, OPEN, QUALIFIED, Finding, Findings
from headscope.findings.numbers import Numbers
from headscope.findings.resampling import DRAWS, VERDICT_FROM, Resampling
from headscope.findings.sentences import in_words
from headscope.findings.single_texts import shares_of_texts
from headscope.findings.trouble import signs_of_trouble
from headscope.measures.block_sums import THIRDS
from headscope.result import keeping
from headscope.result.checksum import checksum_of
from headscope.result.rows import row_paths
from headscope.result.unfamiliar import unfamiliar_texts

if TYPE_CHECKING:
    from headscope.result.result import Result

PAPER = {"reading": "dot", "scale": "max", "tau": 0.5}  # how the paper reads S


def findings(
    result: Result, *, tau: float | None = None, controls: Sequence[Result] = (), draws: int = DRAWS, seed: int = 0
) -> Findings:
    """Hold every claim against a result; `controls` are results of control runs. What was found is kept beside it."""
    beside = check_controls(result, controls)
    key = {
        "tau": result.tau(tau),
        "draws": draws,
        "seed": seed,
        "rows": row_paths(result) is not None,
        "controls": [checksum_of(each.file) for each in controls],
        "claims": hashlib.sha256(repr(CLAIMS).encode()).hexdigest(),
    }
    kept = keeping.get(result, "findings", key)
    if kept is not None:
        return Findings.from_dict(kept)
    found = _findings(result, result.tau(tau), beside, draws, seed)
    keeping.put(result, "findings", key, found.as_dict())
    return found


def _findings(result: Result, at: float, beside: Controls, draws: int, seed: int) -> Findings:
    sums = result.blocks
    numbers = Numbers(sums, Resampling(sums.windows, draws=draws, seed=seed), at)
    kinds = ((PERMUTED, beside.permuted), (ROTATED, beside.rotated), (UNTRAINED, beside.untrained))
    runs = [
        ControlRun.of(kind, each.model["name"], each.blocks, at, draws, seed) for kind, own in kinds for each in own
    ]
    unread = why_unread(sums.readings[0], str(result.settings["scale"]), at)
    shares = shares_of_texts(result, at)
    items = []
    for claim in CLAIMS:
        finding = replace(judge(claim, numbers, runs, unread), texts=shares.get(claim.key))
        items.append(replace(finding, sentence=in_words(claim, finding, numbers)))
    return Findings(
        model=result.model["name"],
        stack=result.name,
        windows=int(sums.texts.sum()),
        blocks=sums.blocks,
        interval=numbers.resample.intervals,
        tau=at,
        theta=sums.theta,
        items=tuple(items),
        warnings=tuple(filter(None, [unfamiliar_texts(result.texts), *signs_of_trouble(sums, at)])),
        unread=unread,
        over_windows=numbers.view().over_windows,
        about={
            "headscope": result.attrs.get("headscope"),
            "settings": result.settings,
            "model": result.model,
            "texts": result.texts,
            "controls": beside.names,
        },
    )


def why_unread(reading: str, scale: str, tau: float) -> str:
    """Why there are no verdicts where S was not read as the paper reads it; empty where it was.

    >>> why_unread("dot", "max", 0.5), why_unread("cosine", "max", 0.5)
    ('', 'verdicts are on S as the paper reads it (dot, max, τ = 0.5), and here the main reading is cosine')
    """
    other = [
        what
        for differs, what in (
            (reading != PAPER["reading"], f"the main reading is {reading}"),
            (scale != PAPER["scale"], f"levels go by {scale}"),
            (tau != PAPER["tau"], f"τ is {tau:g}"),
        )
        if differs
    ]
    paper = f"verdicts are on S as the paper reads it ({PAPER['reading']}, {PAPER['scale']}, τ = {PAPER['tau']})"
    return f"{paper}, and here {' and '.join(other)}" if other else ""


def judge(claim: Claim, numbers: Numbers, runs: Sequence[ControlRun] = (), unread: str = "") -> Finding:
    """Measure one claim and its controls, and say whether it holds."""
    statistics = tuple(check(each, numbers) for each in claim.statistics)
    controls = tuple(check(each, numbers, runs) for each in claim.controls)
    verdict, reason = decided(statistics, controls)
    resample = numbers.resample
    if not resample.enough_blocks:
        verdict = NONE
        reason = f"{counted(resample.blocks, 'block')} of texts; a verdict needs at least {VERDICT_FROM}"
    elif not resample.asked:
        verdict, reason = NONE, "no interval was asked for"
    elif unread:
        verdict, reason = NONE, unread
    beyond, short = layers_on_both_sides(claim, numbers, statistics)
    return Finding(
        key=claim.key,
        claim=claim.paper,
        says=claim.says,
        statistic=claim.statistic,
        verdict=verdict,
        statistics=statistics,
        controls=controls,
        runs=tuple(run.number(test) for run in runs if run.kind in claim.spoken_to for test in claim.statistics),
        layers_beyond=beyond,
        layers_short=short,
        digits=claim.digits,
        thresholds=claim.thresholds,
        reason=reason,
        middle=more_in_the_middle(claim, numbers),
    )


def more_in_the_middle(claim: Claim, numbers: Numbers) -> str:
    """The number of the middle layers, where these do it more than the final ones, of which alone the claim speaks.

    Empty where it is not certain, and where a control of the claim asks for it.
    """
    own = claim.statistics[0].number
    if own.where != "final" or any(each.name == "over middle" for each in claim.controls):
        return ""
    compared = numbers.measure(replace(own, where=("final", "middle")))
    if not compared.high < 1:  # these are ratios
        return ""
    middle = numbers.measure(replace(own, where="middle"))
    return f"{middle.value:.{claim.digits}f} [{middle.low:.{claim.digits}f}, {middle.high:.{claim.digits}f}]"


def decided(statistics: Sequence[Check], controls: Sequence[Check]) -> tuple[str, str]:
    """The verdict, and where it is open, why."""
    state = together(each.state for each in statistics)
    if state == FAILS:
        return DOES_NOT_HOLD, ""
    if state != PASSES:
        return OPEN, next(each.why for each in statistics if each.state == state)
    if any(each.state == FAILS for each in controls):
        return QUALIFIED, ""
    unclear = [each for each in controls if each.state != PASSES]
    if unclear:
        labels = {each.why: [one.label for one in unclear if one.why == each.why] for each in unclear}
        return OPEN, "; ".join(f"{', '.join(names)}: {why}" for why, names in labels.items())
    return HOLDS, ""


def layers_on_both_sides(
    claim: Claim, numbers: Numbers, statistics: Sequence[Check]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The layers, of those that the statistic is made of, that lie wholly beyond the bound, and wholly short of it."""
    test = claim.statistics[0]
    if math.isnan(statistics[0].low):
        return (), ()
    estimate, sums = numbers.layers(test.number), numbers.sums
    if estimate is None:
        return (), ()
    where = test.number.where
    places = sums.third(where) if isinstance(where, str) and where in THIRDS else list(range(len(sums.layers)))
    beyond = tuple(sums.layers[k] for k in places if estimate.low[k] > test.bound)
    return beyond, tuple(sums.layers[k] for k in places if estimate.high[k] < test.bound)
