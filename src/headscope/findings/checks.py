"""Checks: a number with its interval, held against a bound, in the run itself or in control runs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from headscope.findings.claims import PERMUTED, ROTATED, UNTRAINED, Test
from headscope.findings.numbers import SPREAD, Measured, Number, Numbers
from headscope.findings.resampling import Resampling
from headscope.measures import heads_first
from headscope.measures.block_sums import BlockSums
from headscope.measures.quantities import named

PASSES, FAILS, CANNOT_TELL, NOT_RUN = "passes", "fails", "cannot tell", "not run"
UNIFORM = 0.8  # of all pairs are high: the matrix has one colour

# How a control is made, for whoever lacks one.
ANALYZE = "headscope analyze …"
COMMANDS = {
    PERMUTED: f"{ANALYZE} --control permuted:0",
    ROTATED: f"{ANALYZE} --control rotated",
    UNTRAINED: f"{ANALYZE} --control untrained:0",
}


@dataclass(frozen=True, slots=True)
class Check:
    """What became of a statistic or a control.

    `value` is the number itself; of a control that compares with control runs, the difference from the run that comes
    closest, or the number of the run that fits worst.
    """

    name: str  # "statistic", "dot", "cosine", "weighted", "over early", "permuted", …
    label: str
    state: str  # passes, fails, cannot tell, not run
    value: float
    low: float
    high: float
    bound: float
    none: float
    above: bool  # whether it passes beyond the bound, or short of it
    why: str = ""  # why it cannot be told or was not run
    detectable: float = math.nan  # an effect of this size would be found in 80 % of such corpora
    beyond: float = math.nan  # share of heads beyond the bound
    pooled: float = math.nan  # the number of a typical pair: counts added up over heads first
    lower_quartile: float = math.nan  # of the heads
    upper_quartile: float = math.nan
    heads: int = 0  # that have a number
    of_heads: int = 0
    reading: str | None = None  # None: the paper's way, at τ
    run: str = ""  # kind of control runs that were asked
    without: str = ""  # what the claim depends on where it fails, in plain words

    def interval(self, digits: int = 2) -> str:
        """The number with its interval, as one string."""
        if math.isnan(self.value):
            return "–"
        shown = f"{self.value:z.{digits}f}"
        return shown if math.isnan(self.low) else f"{shown} [{self.low:z.{digits}f}, {self.high:z.{digits}f}]"


@dataclass(frozen=True, slots=True)
class RunNumber:
    """What a control run gives for a claim's statistic."""

    kind: str
    name: str
    statistic: str
    value: float
    low: float
    high: float
    why: str = ""  # why there is no number, or why it says little


@dataclass(frozen=True, slots=True)
class ControlRun:
    """A control run: its kind ("permuted", "untrained", "rotated"), its name and its numbers."""

    kind: str
    name: str
    numbers: Numbers
    quick: Numbers  # without intervals

    @classmethod
    def of(cls, kind: str, name: str, sums: BlockSums, tau: float, draws: int, seed: int) -> ControlRun:
        """From the sums of a run."""
        windows = sums.windows
        return cls(
            kind,
            name,
            Numbers(sums, Resampling(windows, draws=draws, seed=seed), tau),
            Numbers(sums, Resampling(windows, draws=0), tau),
        )

    def measure(self, number: Number) -> Measured:
        """A number of this run; the spread of heads, which takes long, has an interval only where it is needed."""
        if self.kind == UNTRAINED and self._uniform(number):
            return Measured(why="nearly all of its pairs are similar, so there is nothing to compare")
        quick = number.where == SPREAD and self.kind != PERMUTED
        return (self.quick if quick else self.numbers).measure(number)

    def number(self, test: Test) -> RunNumber:
        """What this run gives for a claim's statistic."""
        found = self.measure(test.number)
        return RunNumber(self.kind, self.name, test.label, found.value, found.low, found.high, found.why)

    def _uniform(self, number: Number) -> bool:
        if named(number.quantity).read != "pairs" or number.reading is not None:
            return False
        sums = self.numbers.sums
        pairs = sums.stored["base_pairs"].sum() * sums.heads * len(sums.layers)
        return bool(self.numbers.view().number().sum() > UNIFORM * pairs)


def check(test: Test, numbers: Numbers, runs: Sequence[ControlRun] = ()) -> Check:
    """Measure a statistic or a control and hold it against its bound."""
    if not test.run:
        measured = numbers.measure(test.number)
        if measured.missing and test.number.reading not in (None, *numbers.sums.readings):
            how = [f"--reading {each}" for each in (*numbers.sums.readings, test.number.reading)]
            measured = replace(measured, why=f"{measured.why} ({' '.join([ANALYZE, *how])})")
        return _check(test, measured, numbers.resample)
    asked = [run for run in runs if run.kind == test.run]
    if not asked:
        nothing = Measured(why=f"no {test.run} run was given ({COMMANDS[test.run]})", missing=True)
        return _check(test, nothing, numbers.resample)
    found = []
    for run in asked:
        measured = run.measure(test.number)
        if measured.why:
            measured = replace(measured, why=f"{run.name}: {measured.why}", missing=False)
        elif test.compared == "more":
            measured = less(numbers.measure(test.number), measured)
        found.append(_check(test, measured, run.numbers.resample))
    return worst(found)


def _check(test: Test, measured: Measured, resample: Resampling) -> Check:
    state, why = CANNOT_TELL, measured.why
    if measured.missing:
        state = NOT_RUN
    elif not why and math.isnan(measured.low):
        why = f"there is no interval ({resample.how})"
    elif not why:
        state = judged(measured.low, measured.high, test.bound, test.above)
        why = f"its interval reaches across {test.bound:g}" if state == CANNOT_TELL else ""
    reach = resample.errors_to_detect * measured.error * (1 if test.above else -1)
    detectable = test.bound * math.exp(min(reach, 50)) if measured.logarithmic else test.bound + reach
    share = math.nan
    if measured.values and not test.compared:
        share = float(heads_first.share_beyond(np.array(measured.values), test.bound))
    return Check(
        name=test.name,
        label=test.label,
        state=state,
        value=measured.value,
        low=measured.low,
        high=measured.high,
        bound=test.bound,
        none=test.none,
        above=test.above,
        why=why,
        detectable=detectable,
        beyond=share,
        pooled=measured.pooled,
        lower_quartile=measured.lower_quartile,
        upper_quartile=measured.upper_quartile,
        heads=measured.heads,
        of_heads=measured.of_heads,
        reading=test.number.reading,
        run=test.run,
        without=test.without,
    )


def judged(low: float, high: float, bound: float, above: bool = True) -> str:
    """Whether a whole interval lies beyond a bound, short of it, or neither.

    >>> judged(1.2, 1.4, 1.1), judged(0.9, 1.05, 1.1), judged(1.0, 1.2, 1.1), judged(0.9, 1.0, 1.05, above=False)
    ('passes', 'fails', 'cannot tell', 'passes')
    """
    if not above:
        low, high, bound = -high, -low, -bound
    return PASSES if low > bound else FAILS if high < bound else CANNOT_TELL


def together(states: Iterable[str]) -> str:
    """The state of several that must all pass: one that fails fails them all.

    >>> together([PASSES, CANNOT_TELL, PASSES])
    'cannot tell'
    """
    found = set(states)
    return next((state for state in (FAILS, NOT_RUN, CANNOT_TELL) if state in found), PASSES)


def worst(found: Sequence[Check]) -> Check:
    """Of the checks of several runs, all of which must pass, the one that decides."""
    state = together(each.state for each in found)
    deciding = [each for each in found if each.state == state]
    sign = 1 if deciding[0].above else -1
    return min(deciding, key=lambda each: math.inf if math.isnan(each.value) else sign * each.value)


def less(own: Measured, other: Measured) -> Measured:
    """The difference of the same number in two runs, with an interval made of both.

    The runs are taken as independent: the distances from value to end of interval add up as squares do.
    """
    if own.why:
        return own
    low = math.hypot(own.value - own.low, other.high - other.value)
    high = math.hypot(own.high - own.value, other.value - other.low)
    value = own.value - other.value
    return Measured(value, value - low, value + high, math.hypot(own.error, other.error))
