"""Intervals: how far a number would move if other texts of the same kind had been read.

Texts are resampled in the blocks they were counted in. With 20 blocks and more by the bootstrap: bias-corrected
percentiles, widened a little, because few blocks vary less among themselves than the texts they stand for. With fewer
by the jackknife and Student's t.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headscope.errors import HeadscopeError
from headscope.measures.derived import Array

BOOTSTRAP_FROM = 20  # blocks
VERDICT_FROM = 8  # blocks
DRAWS = 1000
AT_ONCE = 1 << 24  # numbers in the resampled tables kept in memory at a time
LOST = 0.05  # of the resamples may have nothing to compare; with more, an interval would be a guess


@dataclass(frozen=True, slots=True)
class Estimate:
    """A number, or an array of them, with a 95 % interval and its standard error; NaN where there is none."""

    value: Array
    low: Array
    high: Array
    error: Array


class Resampling:
    """Resamples of S blocks, the same for every number that is asked for, so that differences are resampled alike.

    >>> blocks = np.arange(32.0)
    >>> estimate = Resampling(np.ones(32), seed=0)(lambda total, number: total / number, blocks, np.ones(32))
    >>> float(estimate.value), bool(estimate.low < 15.5 < estimate.high)
    (15.5, True)

    Without draws there are values and no intervals.
    """

    def __init__(self, sizes: Array, *, draws: int = DRAWS, seed: int = 0) -> None:
        self.sizes = np.asarray(sizes, dtype=np.float64)  # of the blocks, in windows
        self.blocks = len(self.sizes)
        if draws < 0:
            raise HeadscopeError(f"draws={draws}", "give a whole number; 1000 is usual")
        if not draws:
            self.how = "none was asked for"
            self.weights: Array = np.zeros((0, self.blocks))
        elif self.blocks >= BOOTSTRAP_FROM:
            self.how = f"bootstrap over {self.blocks} blocks, {draws:,} draws, seed {seed}"
            rng = np.random.default_rng(seed)
            even = np.full(self.blocks, 1 / self.blocks)
            self.weights = rng.multinomial(self.blocks, even, size=draws).astype(np.float64)
        elif self.blocks > 1:
            self.how = f"jackknife over {self.blocks} blocks"
            self.weights = 1.0 - np.eye(self.blocks)
        else:
            self.how = "none: there is one block of texts"
            self.weights = np.zeros((0, self.blocks))

    @property
    def enough_blocks(self) -> bool:
        """Whether there are blocks enough for a verdict; empty ones do not count."""
        return int((self.sizes > 0).sum()) >= VERDICT_FROM

    @property
    def errors_to_detect(self) -> float:
        """How many standard errors beyond a bound an effect must lie to be detected in 80 % of corpora."""
        from scipy.stats import t

        freedom = max(int((self.sizes > 0).sum()) - 1, 1)
        return float((t.ppf(0.975, freedom) + t.ppf(0.8, freedom)) * np.sqrt((freedom + 1) / freedom))

    def __call__(self, function: Callable[..., Array], *sums: NDArray[Any]) -> Estimate:
        """The value of a function of sums over blocks, with its interval.

        Every array has the blocks as its first dimension; the function gets their sums, with a dimension for the
        resamples in its place, and keeps that one.
        """
        whole = [np.asarray(each, dtype=np.float64) for each in sums]
        value = function(*(each.sum(0, keepdims=True) for each in whole))[0]
        if not len(self.weights):
            return _without_interval(value)
        step = max(1, AT_ONCE // max(sum(each[0].size for each in whole), 1))
        drawn = of_weighted_sums(function, self.weights, whole, step)
        interval = self._bootstrap if self.blocks >= BOOTSTRAP_FROM else self._jackknife
        low, high, error = interval(value, drawn, self.sizes)
        unknown = np.isnan(value) | (np.isnan(drawn).mean(0) > LOST)
        return Estimate(value, *(np.where(unknown, np.nan, each) for each in (low, high, error)))

    def jackknife(self, function: Callable[..., Array], *sums: NDArray[Any]) -> Estimate:
        """By the jackknife and Student's t, however many blocks there are; for numbers in which all count the same."""
        whole = [np.asarray(each, dtype=np.float64) for each in sums]
        value = function(*(each.sum(0, keepdims=True) for each in whole))[0]
        if self.blocks < 2 or not len(self.weights):
            return _without_interval(value)
        left_out = function(*(each.sum(0, keepdims=True) - each for each in whole))
        return Estimate(value, *self._jackknife(value, left_out, np.ones(self.blocks)))

    def _bootstrap(self, value: Array, drawn: Array, sizes: Array) -> tuple[Array, Array, Array]:
        """Efron's bias-corrected percentiles, widened for the number of blocks."""
        from scipy.stats import norm, t

        # A mean of S blocks has a t distribution, and the bootstrap's variance lacks a factor S / (S - 1).
        wide = t.ppf(0.975, self.blocks - 1) * np.sqrt(self.blocks / (self.blocks - 1))
        number = np.isfinite(drawn).sum(0)
        # Where more than half of the resamples lie on one side of the value, the value leans to the other.
        below = (drawn < value).sum(0) + (drawn == value).sum(0) / 2
        bias = norm.ppf(np.clip(below / np.maximum(number, 1), 1 / len(drawn), 1 - 1 / len(drawn)))
        ordered = np.sort(drawn, axis=0)  # NaN last
        low, high = (_quantile(ordered, number, norm.cdf(2 * bias + side * wide)) for side in (-1, 1))
        centre = np.where(number > 0, np.nan_to_num(drawn).sum(0) / np.maximum(number, 1), 0)
        spread = np.nan_to_num((drawn - centre) ** 2).sum(0) / np.maximum(number, 1)
        return low, high, np.sqrt(spread)

    def _jackknife(self, value: Array, left_out: Array, sizes: Array) -> tuple[Array, Array, Array]:
        """For blocks of unequal sizes (Busing, Meijer and Van der Leeden 1999); for equal ones the usual jackknife."""
        from scipy.stats import t

        used = sizes > 0  # a block without windows says nothing
        if used.sum() < 2:
            nothing = np.full_like(value, np.nan)
            return nothing, nothing, nothing
        inverse_share = (sizes.sum() / sizes[used]).reshape(-1, *[1] * value.ndim)  # h = n / m
        pseudo = inverse_share * value - (inverse_share - 1) * left_out[used]
        centre = (pseudo / inverse_share).sum(0)
        error = np.sqrt(((pseudo - centre) ** 2 / np.maximum(inverse_share - 1, 1e-12)).mean(0))
        half_width = t.ppf(0.975, used.sum() - 1) * error
        return value - half_width, value + half_width, error


def of_weighted_sums(
    function: Callable[..., NDArray[Any]], weights: NDArray[Any], sums: Sequence[NDArray[Any]], at_once: int
) -> NDArray[Any]:
    """A function of sums over blocks, for many weights of the blocks, some at a time: (number, S) to (number, …)."""
    values = []
    for k in range(0, len(weights), at_once):
        part = weights[k : k + at_once]
        drawn = ((part @ each.reshape(len(each), -1)).reshape(len(part), *each.shape[1:]) for each in sums)
        values.append(function(*drawn))
    return np.concatenate(values)


def _without_interval(value: Array) -> Estimate:
    nothing = np.full_like(value, np.nan)
    return Estimate(value, nothing, nothing, nothing)


def _quantile(ordered: Array, number: Array, share: Array) -> Array:
    """The quantiles of values sorted along the first dimension, of which the first `number` count; each its own."""
    place = np.clip(share * (number - 1), 0, None)
    before = np.floor(place).astype(np.int64)
    after = np.minimum(before + 1, np.maximum(number - 1, 0))
    low, high = (np.take_along_axis(ordered, each[None], 0)[0] for each in (before, after))
    return np.asarray(low + (high - low) * (place - before))
