"""Simulated corpora: how often each claim is recovered, wrongly judged, and covered by its interval."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import headscope
import planted
from headscope.findings.claims import Claim, claim
from headscope.findings.resampling import Resampling
from headscope.findings.verdicts import FAILS, HOLDS, judge
from headscope.measures.block_sums import BlockSums

POOL, DRAWS = 300, 400


@dataclass(frozen=True)
class Outcome:
    """What became of some corpora drawn from one pool."""

    key: str
    planted: str
    size: int  # texts in a corpus
    number: int  # corpora
    truth: float
    holds: float
    wrong: float  # verdicts that the truth contradicts
    covered: float
    can_tell: float

    def row(self) -> str:
        return (
            f"| {self.key} | {self.planted} | {self.size:,} | {self.truth:.3f} | {self.holds:.0%} | {self.wrong:.1%} | "
            f"{self.covered:.1%} | {self.can_tell:.0%} |"
        )


def simulate(
    model: headscope.Model,
    key: str,
    which: str,
    size: int,
    number: int,
    *,
    seed: int,
    pool: BlockSums | None = None,
    texts: int = POOL,
) -> Outcome:
    """Draw corpora with an effect "twice" the smallest that matters, at the "bound", or "none", and judge them."""
    one = claim(key)
    made = pool or pool_of(model, planted.PLANTED[key][("twice", "bound", "none").index(which)](), texts, seed)
    truth = truth_of(one, made, size, seed)
    holds = wrong = covered = able = 0
    for place, corpus in enumerate(planted.corpora(made, size, number, seed + 1)):
        found = judge(one, corpus, Resampling(corpus.windows, draws=DRAWS, seed=place), 0.5)
        holds += found.verdict == HOLDS
        wrong += (found.verdict == HOLDS and truth < one.bound) or (found.verdict == FAILS and truth > one.bound)
        covered += found.low <= truth <= found.high
        able += found.can_tell
    return Outcome(key, which, size, number, truth, *(count / number for count in (holds, wrong, covered, able)))


@lru_cache(2)  # of most claims "none" is the same, and it takes longest
def pool_of(model: headscope.Model, effects: planted.Effects, texts: int, seed: int) -> BlockSums:
    return planted.pool(model, effects, texts, seed)


def truth_of(one: Claim, pool: BlockSums, size: int, seed: int) -> float:
    """What is true of all texts of the pool; of claim 2, at the number of texts that a shard has."""
    if one.key == "2":
        large = planted.corpora(pool, 10 * size, 10, seed + 2, shards=10 * 32)
        values = [one.measure(each, Resampling(each.windows, draws=0), 0.5, None).value for each in large]
        return float(sum(values) / len(values))
    return float(one.measure(pool, Resampling(pool.windows, draws=0), 0.5, None).value)
