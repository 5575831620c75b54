"""Simulated corpora: how often each claim is recovered, qualified, wrongly judged, and covered by its interval."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import headscope
import planted
from headscope.findings.checks import ControlRun
from headscope.findings.claims import CLAIMS, claim
from headscope.findings.numbers import Numbers
from headscope.findings.resampling import Resampling
from headscope.findings.verdicts import judge
from headscope.measures.block_sums import BlockSums
from planted import Effects

POOL, DRAWS = 300, 300

# What is planted for some claims at once: an effect twice as large as the smallest that matters, just as large, none.
PLANTED: dict[str, dict[str, Effects]] = {
    "1a 1b 2 3 4 6 7a 8 9": {
        "twice": Effects(sentence=1.06, separator=1.175, stop_focus=1.2, end_focus=1.2, shorter=0.118, reach=0.12,
                         specialised=0.44, inside=0.225, alike=0.05),
        "bound": Effects(sentence=1.03, separator=1.09, stop_focus=1.1, end_focus=1.1, shorter=0.056, reach=0.057,
                         specialised=0.22, inside=0.04, alike=0.05),
        "none": Effects(),
    },
    "5": {
        "twice": Effects(focal=True, different=0.25),
        "bound": Effects(focal=True, different=0.126),
        "none": Effects(focal=True),
    },
    "7b 7c": {
        "twice": Effects(apart=0.595, reads=0.15),
        "bound": Effects(apart=0.405, reads=0.15),
        "none": Effects(),
    },
}  # fmt: skip
ALIKE = Effects(likeness=True)  # what claim 7a is not


@dataclass(frozen=True)
class Outcome:
    """What became of some corpora drawn from one pool."""

    key: str
    planted: str
    size: int  # texts in a corpus
    number: int  # corpora
    truth: float
    holds: float
    qualified: float
    wrong: float  # verdicts that the truth contradicts
    covered: float
    can_tell: float

    def row(self) -> str:
        return (
            f"| {self.key} | {self.planted} | {self.size:,} | {self.truth:.3f} | {self.holds:.0%} | "
            f"{self.qualified:.1%} | {self.wrong:.1%} | {self.covered:.1%} | {self.can_tell:.0%} |"
        )


def simulate(
    model: headscope.Model, effects: Effects, keys: list[str], size: int, number: int, *, seed: int, texts: int = POOL,
    what: str = "",
) -> list[Outcome]:  # fmt: skip
    """Draw corpora from a pool with these effects and judge them, with control runs of as many texts as the pool."""
    pool = pool_of(model, effects, texts, seed)
    runs = control_runs(model, effects, keys, texts, seed)
    truth = Numbers(pool, Resampling(pool.windows, draws=0))
    true_of = {key: [truth.measure(each.number).value for each in claim(key).statistics] for key in keys}
    counts = {key: dict.fromkeys(("holds", "qualified", "wrong", "covered", "can_tell"), 0) for key in keys}
    for place, corpus in enumerate(planted.corpora(pool, size, number, seed + 1)):
        numbers = Numbers(corpus, Resampling(corpus.windows, draws=DRAWS, seed=place))
        for key in keys:
            found, count = judge(claim(key), numbers, runs), counts[key]
            beyond = all(true > check.bound for true, check in zip(true_of[key], found.statistics, strict=True))
            count["holds"] += found.verdict == "holds"
            count["qualified"] += found.verdict == "qualified"
            count["wrong"] += beyond if found.verdict == "does not hold" else found.verdict == "holds" and not beyond
            count["covered"] += found.low <= true_of[key][0] <= found.high
            count["can_tell"] += found.can_tell
    return [
        Outcome(key, what, size, number, true_of[key][0], **{name: n / number for name, n in counts[key].items()})
        for key in keys
    ]


def recovered(
    model: headscope.Model, which: str, size: int, number: int, *, seed: int, texts: int = POOL
) -> list[Outcome]:
    """The same for every claim, with an effect "twice" the smallest that matters, at the "bound", or "none"."""
    found = []
    for keys, effects in PLANTED.items():
        found += simulate(model, effects[which], keys.split(), size, number, seed=seed, texts=texts, what=which)
    return sorted(found, key=lambda each: [one.key for one in CLAIMS].index(each.key))


@lru_cache(8)
def pool_of(model: headscope.Model, effects: Effects, texts: int, seed: int, rotated: bool = False) -> BlockSums:
    return planted.pool(model, effects, texts, seed, rotated=rotated)


def control_runs(model: headscope.Model, effects: Effects, keys: list[str], texts: int, seed: int) -> list[ControlRun]:
    """A model that learned nothing, and the same one with sentence labels rotated, where the claims ask for them."""
    wanted = {each.run for key in keys for each in claim(key).controls}
    runs = []
    if "permuted" in wanted:
        nothing = pool_of(model, Effects(), texts, seed + 5)
        runs.append(ControlRun.of("permuted", "permuted", nothing, 0.5, DRAWS, 0))
    if "rotated" in wanted:
        rotated = pool_of(model, effects, texts, seed, rotated=True)
        runs.append(ControlRun.of("rotated", "rotated", rotated, 0.5, DRAWS, 0))
    return runs
