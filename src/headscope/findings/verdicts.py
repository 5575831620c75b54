"""Findings: every claim of the paper held against a result, with intervals, controls and an honest verdict."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

from headscope.findings.checks import CANNOT_TELL, FAILS, NOT_RUN, PASSES, Check, ControlRun, RunNumber, check, together
from headscope.findings.claims import CLAIMS, PERMUTED, ROTATED, UNTRAINED, Claim
from headscope.findings.numbers import Numbers
from headscope.findings.resampling import DRAWS, VERDICT_FROM, Resampling, number_of_blocks
from headscope.findings.sentences import in_words
from headscope.findings.trouble import signs_of_trouble

if TYPE_CHECKING:
    import pandas as pd

    from headscope.result.result import Result

HOLDS, QUALIFIED, DOES_NOT_HOLD, OPEN, NONE = "holds", "qualified", "does not hold", "open", "no verdict"
VERDICTS = (HOLDS, QUALIFIED, DOES_NOT_HOLD, OPEN, NONE)
PAPER = {"reading": "dot", "scale": "max", "tau": 0.5}  # how the paper reads S
MARKS = {PASSES: "✓", FAILS: "✗", CANNOT_TELL: "?", NOT_RUN: "–"}


@dataclass(frozen=True)
class Finding:
    """What was found about one claim."""

    key: str
    claim: str
    says: str  # the paper
    statistic: str
    verdict: str
    statistics: tuple[Check, ...]  # all of which must pass; one, but for claim 2
    controls: tuple[Check, ...]
    runs: tuple[RunNumber, ...]  # what control runs give for the statistics
    layers_beyond: tuple[int, ...]  # layers whose whole interval lies beyond the bound
    layers_short: tuple[int, ...]  # … short of it
    digits: int
    thresholds: str
    reason: str = ""  # why there is no verdict, or why it is open
    sentence: str = ""
    texts: float | None = None  # share of texts that show the effect on their own, where rows per text were kept

    @property
    def value(self) -> float:
        """The (first) statistic; NaN where `reason` says why there is none."""
        return self.statistics[0].value

    @property
    def low(self) -> float:
        """The lower end of its interval."""
        return self.statistics[0].low

    @property
    def high(self) -> float:
        """The upper end of its interval."""
        return self.statistics[0].high

    @property
    def none(self) -> float:
        """The statistic where there is no effect."""
        return self.statistics[0].none

    @property
    def bound(self) -> float:
        """The smallest effect that matters."""
        return self.statistics[0].bound

    @property
    def can_tell(self) -> bool:
        """Whether an effect twice the smallest that matters would be seen, in the statistics and all controls."""
        own = [each for each in (*self.statistics, *self.controls) if not each.run]
        return self.verdict != NONE and all(each.detectable <= 2 * each.bound - each.none for each in own)

    def state(self, name: str) -> str:
        """What became of a control, or of all whose name begins so: "cosine", "permuted", …; "" where it has none."""
        own = [each.state for each in self.controls if each.name.split()[0] == name or each.name == name]
        return together(own) if own else ""

    def interval(self) -> str:
        """The number with its interval, as one string; of claim 2, both."""
        return "; ".join(each.interval(self.digits) for each in self.statistics)

    def as_dict(self) -> dict[str, Any]:
        """For JSON: numbers that are not there become None."""
        first = {name: getattr(self, name) for name in ("value", "low", "high", "none", "bound", "can_tell")}
        told: dict[str, Any] = plain(asdict(self) | first)
        return told


@dataclass(frozen=True)
class Findings(Sequence[Finding]):
    """All findings of one result, in the order of the claims, with warnings about signs of trouble."""

    model: str
    stack: str
    windows: int
    blocks: int
    interval: str
    tau: float
    theta: float
    items: tuple[Finding, ...] = field(repr=False)
    warnings: tuple[str, ...] = ()
    unread: str = ""  # why there are no verdicts, where S was not read as the paper reads it
    over_windows: bool = False  # matched counts were pooled over windows: τ is not the run's own
    about: dict[str, Any] = field(default_factory=dict, repr=False)  # settings, model and texts of the run

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, str):
            for finding in self.items:
                if finding.key == key:
                    return finding
            raise KeyError(key)
        return self.items[key]

    def __len__(self) -> int:
        return len(self.items)

    def __iter__(self) -> Iterator[Finding]:
        return iter(self.items)

    def __repr__(self) -> str:
        head = f"{self.model}, {self.stack}, {self.windows:,} windows, τ = {self.tau:g}"
        rows = [f"{f.key:<3}{f.claim:<46}{f.interval():<44}{f.verdict}" for f in self.items]
        return "\n".join([head, *rows])

    @property
    def control_names(self) -> list[str]:
        """The kinds of controls, in the order of the claims: "weighted", "over", "dot", "cosine", …."""
        return list(dict.fromkeys(each.name.split()[0] for f in self.items for each in f.controls))

    def table(self) -> pd.DataFrame:
        """A row per claim, with a column for each kind of control: passes, fails, cannot tell, not run, or empty."""
        import pandas as pd

        rows = []
        for f in self.items:
            first = f.statistics[0]
            row: dict[str, Any] = {
                "key": f.key, "claim": f.claim, "statistic": f.statistic, "value": f.value, "low": f.low,
                "high": f.high, "none": f.none, "bound": f.bound, "heads_beyond": first.beyond, "pooled": first.pooled,
                "verdict": f.verdict,
            }  # fmt: skip
            row |= {name: f.state(name) for name in self.control_names}
            rows.append(row | {"texts": f.texts, "sentence": f.sentence})
        return pd.DataFrame(rows)

    def checks(self) -> pd.DataFrame:
        """A row for each statistic and control of each claim."""
        import pandas as pd

        return pd.DataFrame([{"key": f.key} | asdict(each) for f in self.items for each in (*f.statistics, *f.controls)])

    def as_dict(self) -> dict[str, Any]:
        """For JSON: numbers that are not there become None."""
        fields = {name: getattr(self, name) for name in self.__dataclass_fields__ if name != "items"}
        told: dict[str, Any] = plain(fields)
        return told | {"findings": [finding.as_dict() for finding in self.items]}


def findings(
    result: Result, *, tau: float | None = None, controls: Sequence[Result] = (), draws: int = DRAWS, seed: int = 0
) -> Findings:
    """Hold every claim against a result; `controls` are results of control runs."""
    from headscope.findings.controls import check_controls
    from headscope.findings.single_texts import shares_of_texts

    beside = check_controls(result, controls)
    sums, at = result.blocks, result.tau(tau)
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
        interval=f"95 %, {numbers.resample.how}",
        tau=at,
        theta=sums.theta,
        items=tuple(items),
        warnings=tuple(signs_of_trouble(sums, at)),
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
        reason = f"{number_of_blocks(resample.blocks)} of texts; a verdict takes {VERDICT_FROM}"
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
        runs=tuple(
            run.number(test) for run in runs if run.kind in claim.spoken_to for test in claim.statistics
        ),
        layers_beyond=beyond,
        layers_short=short,
        digits=claim.digits,
        thresholds=claim.thresholds,
        reason=reason,
    )


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
        return OPEN, "; ".join(dict.fromkeys(f"{each.label}: {each.why}" for each in unclear))
    return HOLDS, ""


def layers_on_both_sides(
    claim: Claim, numbers: Numbers, statistics: Sequence[Check]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The layers, of those that the statistic is made of, whose intervals lie wholly beyond the bound and short of it."""
    test = claim.statistics[0]
    if math.isnan(statistics[0].low):
        return (), ()
    estimate, sums = numbers.layers(test.number), numbers.sums
    if estimate is None:
        return (), ()
    places = sums.third(test.number.where) if test.number.where in ("early", "middle", "final") else range(len(sums.layers))  # type: ignore[arg-type]  # fmt: skip
    beyond = tuple(sums.layers[k] for k in places if estimate.low[k] > test.bound)
    return beyond, tuple(sums.layers[k] for k in places if estimate.high[k] < test.bound)


def plain(value: Any) -> Any:
    """For JSON, which has no NaN: numbers that are not there become None, however deep they stand.

    >>> plain({"a": [1.0, math.nan]})
    {'a': [1.0, None]}
    """
    if isinstance(value, dict):
        return {key: plain(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
