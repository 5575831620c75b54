"""Sums and largest of many numbers, side by side: vectorised, and yet always in the same order."""

from __future__ import annotations

from typing import Any

import numpy as np

from headscope.measures.numba_options import inner

LANES = 16  # numbers that are compared side by side
WIDE = 64  # numbers that are added side by side


@inner
def largest_of(values: Any, size: int) -> Any:
    """The largest of the first numbers, none of them NaN."""
    high = np.full(LANES, values[0])
    whole = size // LANES * LANES
    for k in range(0, whole, LANES):
        for lane in range(LANES):
            value = values[k + lane]
            high[lane] = value if value > high[lane] else high[lane]
    most = values[0]
    for lane in range(LANES):
        most = max(most, high[lane])
    for k in range(whole, size):
        most = max(most, values[k])
    return most


@inner
def varies(values: Any, size: int) -> Any:
    """Whether not all of the first numbers are equal."""
    others = np.int32(0)
    for k in range(size):
        others += np.int32(values[k] != values[0])
    return others > 0


@inner
def total(values: Any, size: int, lanes: Any) -> float:
    """Σ x."""
    for lane in range(WIDE):
        lanes[lane] = 0.0
    whole = size // WIDE * WIDE
    for k in range(0, whole, WIDE):
        for lane in range(WIDE):
            lanes[lane] += np.float64(values[k + lane])
    sum_ = 0.0
    for lane in range(WIDE):
        sum_ += lanes[lane]
    for k in range(whole, size):
        sum_ += np.float64(values[k])
    return sum_


@inner
def products_about_means(x: Any, y: Any, size: int, x_mean: float, y_mean: float, lanes: Any) -> float:
    """Σ (x - its mean)·(y - its mean)."""
    for lane in range(WIDE):
        lanes[lane] = 0.0
    whole = size // WIDE * WIDE
    for k in range(0, whole, WIDE):
        for lane in range(WIDE):
            lanes[lane] += (np.float64(x[k + lane]) - x_mean) * (np.float64(y[k + lane]) - y_mean)
    sum_ = 0.0
    for lane in range(WIDE):
        sum_ += lanes[lane]
    for k in range(whole, size):
        sum_ += (np.float64(x[k]) - x_mean) * (np.float64(y[k]) - y_mean)
    return sum_


@inner
def correlation_of_few(x: Any, y: Any, size: int) -> Any:
    """Pearson's correlation of a few numbers; 0 where either is constant."""
    x_sum = y_sum = 0.0
    x_varies = y_varies = False
    for k in range(size):
        x_sum += np.float64(x[k])
        y_sum += np.float64(y[k])
        x_varies |= x[k] != x[0]
        y_varies |= y[k] != y[0]
    if not (x_varies and y_varies):
        return 0.0
    x_mean, y_mean = x_sum / size, y_sum / size
    xx = yy = xy = 0.0
    for k in range(size):
        dx, dy = np.float64(x[k]) - x_mean, np.float64(y[k]) - y_mean
        xx += dx * dx
        yy += dy * dy
        xy += dx * dy
    return xy / np.sqrt(xx * yy)


@inner
def add_row(row: Any, begin: int, n: int, columns: Any) -> None:
    """Add a token's row to the sums of columns."""
    if begin >= 0:
        for j in range(n):
            columns[j] += np.float64(row[begin + j])


@inner
def sum_of_few(values: Any, n: int) -> float:
    """Σ x of a few numbers, in four sums side by side."""
    a = b = c = d = 0.0
    whole = n // 4 * 4
    for k in range(0, whole, 4):
        a += values[k]
        b += values[k + 1]
        c += values[k + 2]
        d += values[k + 3]
    for k in range(whole, n):
        a += values[k]
    return (a + b) + (c + d)
