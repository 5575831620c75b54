"""Untrained models: what the same architecture does that has learned nothing, a floor for what learning adds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from headscope.findings.claims import CannotTell, Claim
from headscope.findings.resampling import Resampling
from headscope.findings.trouble import UNIFORM
from headscope.measures.block_sums import BlockSums


@dataclass(frozen=True)
class Untrained:
    """One statistic of some untrained models, and what learning added beyond their spread."""

    values: tuple[float, ...]
    mean: float
    low: float  # where the next untrained model would lie, 95 %
    high: float
    learned: str  # "more", "less", "nothing", or "" where there is nothing to compare

    def range(self, digits: int = 2) -> str:
        """From the smallest to the largest."""
        if not self.values:
            return "–"
        least, most = (f"{each:.{digits}f}" for each in (min(self.values), max(self.values)))
        return least if least == most else f"{least} to {most}"

    @property
    def words(self) -> str:
        """What this means."""
        if not self.values:
            return "untrained models have nothing to compare with here"
        shown = self.range(3)
        return {
            "more": f"untrained models give {shown}: learning added to it",
            "less": f"untrained models give {shown}: learning took from it",
            "nothing": f"untrained models give {shown}, which is not clearly less or more",
            "": f"untrained: {shown}; it takes two of them and an interval to compare",
        }[self.learned]


def floor_of(
    claim: Claim, own: BlockSums, low: float, high: float, untrained: Sequence[BlockSums], tau: float
) -> Untrained:
    """Compare a number's interval with the same number of untrained models.

    Where an untrained model finds nearly all pairs similar, claims about similar pairs have nothing to compare; claim
    2 is compared only where blocks have about as many texts.

    Learning added something where the whole interval lies outside the range in which one more untrained model would
    be expected: mean ± t · sd · √(1 + 1/k) of k of them.
    """
    values = []
    for sums in untrained:
        if claim.thresholds == "tau" and _uniform(sums, tau):
            continue
        if claim.key == "2" and not 0.8 < sums.windows.mean() / max(own.windows.mean(), 1e-9) < 1.25:
            continue
        try:
            estimate = claim.measure(sums, Resampling(sums.windows, draws=0), tau, None)
        except CannotTell:
            continue
        values.append(float(estimate.value))
    return compared_with(values, low, high)


def _uniform(sums: BlockSums, tau: float) -> bool:
    high = sums.high(tau).sum()
    return bool(high > UNIFORM * sums.pairs.sum())


def compared_with(values: Sequence[float], low: float, high: float) -> Untrained:
    """The floor from the numbers of untrained models, and how the interval of the trained one compares with it.

    >>> compared_with([1.0, 1.02, 0.98], 1.4, 1.6).learned
    'more'
    """
    known = [each for each in values if math.isfinite(each)]
    if len(known) < 2:
        one = known[0] if known else math.nan
        return Untrained(tuple(known), one, math.nan, math.nan, "")
    from scipy.stats import t

    mean, spread = float(np.mean(known)), float(np.std(known, ddof=1))
    reach = float(t.ppf(0.975, len(known) - 1)) * spread * math.sqrt(1 + 1 / len(known))
    least, most = mean - reach, mean + reach
    learned = "" if math.isnan(low) else "more" if low > most else "less" if high < least else "nothing"
    return Untrained(tuple(known), mean, least, most, learned)
