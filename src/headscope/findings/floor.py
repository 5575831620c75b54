"""The floor: what models of the same architecture do that have learned nothing."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from headscope.findings.claims import Claim, NotHere
from headscope.findings.counts import Counts
from headscope.findings.resampling import Resampling


@dataclass(frozen=True)
class Floor:
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
            return "untrained models cannot speak to this"
        shown = self.range(3)
        return {
            "more": f"untrained models give {shown}: learning added to it",
            "less": f"untrained models give {shown}: learning took from it",
            "nothing": f"untrained models give {shown}, which is not clearly less or more",
            "": f"untrained: {shown}; it takes two of them and an interval to compare",
        }[self.learned]


def floor_of(claim: Claim, value: float, low: float, high: float, floors: Sequence[Counts], tau: float) -> Floor:
    """Hold a number and its interval against the same number of untrained models.

    Learning added something where the whole interval lies outside the range in which one more untrained model would
    be expected: mean ± t · sd · √(1 + 1/k) of k of them.
    """
    values = []
    for counts in floors:
        try:
            found = claim.measure(counts, Resampling(counts.windows, draws=0), tau, None)
        except NotHere:
            continue
        values.append(float(found.value))
    return held_against(values, value, low, high)


def held_against(values: Sequence[float], value: float, low: float, high: float) -> Floor:
    """The floor from the numbers of untrained models.

    >>> held_against([1.0, 1.02, 0.98], 1.5, 1.4, 1.6).learned
    'more'
    """
    known = [each for each in values if math.isfinite(each)]
    if len(known) < 2:
        one = known[0] if known else math.nan
        return Floor(tuple(known), one, math.nan, math.nan, "")
    from scipy.stats import t

    mean, spread = float(np.mean(known)), float(np.std(known, ddof=1))
    reach = float(t.ppf(0.975, len(known) - 1)) * spread * math.sqrt(1 + 1 / len(known))
    least, most = mean - reach, mean + reach
    learned = "" if math.isnan(low) else "more" if low > most else "less" if high < least else "nothing"
    return Floor(tuple(known), mean, least, most, learned)
