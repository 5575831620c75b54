"""Intervals: how far a number would move if other texts of the same kind had been read.

Texts are resampled in the blocks they were counted in, from 8 blocks on: the value, plus and minus Student's t times
its standard deviation over multinomial draws of the blocks, widened by √(S / (S − 1)), because S blocks vary less among
themselves than the texts they stand for. Ratios are taken as logarithms. (On medians over heads percentiles cover too
seldom and the jackknife is too wide.)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headscope.errors import HeadscopeError, counted
from headscope.measures.derived import Array, logarithm

VERDICT_FROM = 8  # blocks
DRAWS = 1000
AT_ONCE = 1 << 22  # numbers in the resampled tables kept in memory at a time
LOST = 0.05  # of the draws may have nothing to compare; with more, an interval would be a guess


@dataclass(frozen=True, slots=True)
class Estimate:
    """A number, or an array of them, with a 95 % interval and its standard error; NaN where there is none.

    The error of a ratio is that of its logarithm.
    """

    value: Array
    low: Array
    high: Array
    error: Array


@dataclass(frozen=True, slots=True)
class Drawn:
    """A number from all blocks, and from each draw of them: (…) and (draws, …)."""

    value: Array
    draws: Array

    def then(self, function: Callable[[Array], Array]) -> Drawn:
        """What a function makes of both; it keeps leading dimensions."""
        return Drawn(function(self.value), function(self.draws))


class Resampling:
    """Draws of S blocks, the same for every number that is asked for, so that differences are resampled alike.

    >>> blocks = np.arange(32.0)
    >>> resample = Resampling(np.ones(32))
    >>> estimate = resample(lambda total, number: total / number, blocks, np.ones(32))
    >>> float(estimate.value), bool(estimate.low < 15.5 < estimate.high)
    (15.5, True)

    Without draws, or with fewer than 8 blocks, there are values and no intervals.
    """

    def __init__(self, sizes: Array, *, draws: int = DRAWS, seed: int = 0) -> None:
        sizes = np.asarray(sizes, dtype=np.float64)  # of the blocks, in windows with pairs
        if draws < 0:
            raise HeadscopeError(f"draws={draws} is not possible", f"give a whole number; {DRAWS} is usual")
        self.blocks = len(sizes)
        self.enough_blocks = int((sizes > 0).sum()) >= VERDICT_FROM  # those without pairs say little
        self.asked = draws > 0
        number = draws if self.enough_blocks else 0
        even = np.full(self.blocks, 1 / max(self.blocks, 1))
        rng = np.random.Generator(np.random.PCG64(seed))
        self.weights: Array = rng.multinomial(self.blocks, even, size=number).astype(np.float64)  # (draws, S)
        if not draws:
            self.how = "none was asked for"
        elif not self.enough_blocks:
            are = "is" if self.blocks == 1 else "are"
            self.how = f"at least {VERDICT_FROM} blocks of texts are needed, and there {are} {self.blocks}"
        else:
            self.how = f"bootstrap over {counted(self.blocks, 'block')}, {draws:,} draws, seed {seed}"

    @property
    def intervals(self) -> str:
        """What intervals are, in words.

        >>> Resampling(np.ones(5)).intervals
        'none: at least 8 blocks of texts are needed, and there are 5'
        """
        return f"95 %, {self.how}" if len(self.weights) else f"none: {self.how}" if self.asked else self.how

    @property
    def half_width(self) -> float:
        """How many standard deviations of the draws reach from a value to the end of its interval."""
        from scipy.stats import t

        return float(t.ppf(0.975, self.blocks - 1)) * self.widening if self.blocks > 1 else np.nan

    @property
    def widening(self) -> float:
        """√(S / (S − 1))."""
        return float(np.sqrt(self.blocks / (self.blocks - 1))) if self.blocks > 1 else np.nan

    @property
    def errors_to_detect(self) -> float:
        """How many standard errors beyond a bound an effect must lie to be detected in 80 % of corpora."""
        from scipy.stats import t

        freedom = max(self.blocks - 1, 1)
        return float(t.ppf(0.975, freedom) + t.ppf(0.8, freedom))

    def __call__(self, function: Callable[..., Array], *sums: NDArray[Any], logarithmic: bool = False) -> Estimate:
        """The value of a function of sums over blocks, with its interval."""
        return self.interval(self.draw(function, *sums), logarithmic=logarithmic)

    def draw(self, function: Callable[..., Array], *sums: NDArray[Any]) -> Drawn:
        """The value of a function of sums over blocks, and what it is in each draw.

        Every array has the blocks as its first dimension; the function gets their sums, with a dimension for the
        draws in its place, and keeps that one.
        """
        whole = [np.asarray(each, dtype=np.float64) for each in sums]
        value = function(*(each.sum(0, keepdims=True) for each in whole))[0]
        if not len(self.weights):
            return Drawn(value, np.zeros((0, *value.shape)))
        return Drawn(value, of_weighted_sums(function, self.weights, whole))

    def interval(self, drawn: Drawn, *, logarithmic: bool = False) -> Estimate:
        """A number with its interval, from what it is in each draw."""
        value, draws = drawn.value, drawn.draws
        nothing = np.full_like(value, np.nan)
        if not len(draws):
            return Estimate(value, nothing, nothing, nothing)
        if logarithmic:
            value, draws = logarithm(value), logarithm(draws)
        spread = deviation(draws)
        unknown = ~np.isfinite(value) | (np.isfinite(draws).mean(0) < 1 - LOST)
        spread = np.where(unknown, np.nan, spread)
        low, high = (np.where(unknown, 0, value) + side * self.half_width * spread for side in (-1, 1))
        if logarithmic:
            low, high = np.exp(low), np.exp(high)
        return Estimate(drawn.value, low, high, self.widening * spread)


def deviation(draws: Array) -> Array:
    """The standard deviation over the first dimension of what is there."""
    known = np.isfinite(draws)
    number = known.sum(0)
    centre = np.where(known, draws, 0).sum(0) / np.maximum(number, 1)
    squares = (np.where(known, draws - np.where(number > 0, centre, 0), 0) ** 2).sum(0)
    return np.asarray(np.sqrt(squares / np.maximum(number - 1, 1)))


def of_weighted_sums(
    function: Callable[..., NDArray[Any]], weights: NDArray[Any], sums: Sequence[NDArray[Any]], at_once: int = AT_ONCE
) -> NDArray[Any]:
    """A function of sums over blocks, for many weights of the blocks, some at a time: (number, S) to (number, …)."""
    step = max(1, at_once // max(sum(each[0].size for each in sums), 1))
    flat = [np.ascontiguousarray(each.reshape(len(each), -1)) for each in sums]
    values = []
    for k in range(0, len(weights), step):
        part = weights[k : k + step]
        drawn = (
            (part @ each).reshape(len(part), *whole.shape[1:]) for each, whole in zip(flat, sums, strict=True)
        )  # fmt: skip
        values.append(function(*drawn))
    return np.concatenate(values)
