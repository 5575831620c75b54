"""Bands of distance, half octaves: 1, 2, 3, 4, 5-6, 7-8, 9-12, 13-16, 17-24, … Pairs are compared within them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def band_ends(length: int) -> list[int]:
    """The last distance of each band that windows of so many tokens reach.

    >>> band_ends(20)
    [1, 2, 3, 4, 6, 8, 12, 16, 24]
    """
    longest = max(length - 1, 1)
    ends, power = [1], 2
    while ends[-1] < longest:
        ends += [power] if power == 2 else [3 * power // 4, power]
        power *= 2
    return [end for k, end in enumerate(ends) if k == 0 or ends[k - 1] < longest]


def band_names(length: int) -> tuple[str, ...]:
    """The bands by their distances.

    >>> band_names(9)
    ('1', '2', '3', '4', '5-6', '7-8')
    """
    ends = band_ends(length)
    firsts = [1, *(end + 1 for end in ends)]
    return tuple(str(end) if first == end else f"{first}-{end}" for first, end in zip(firsts, ends, strict=False))


def bands_of_distances(length: int) -> NDArray[np.int64]:
    """The band of each distance 1, 2, … of windows of so many tokens: (distances,).

    >>> bands_of_distances(9).tolist()
    [0, 1, 2, 3, 4, 4, 5, 5]
    """
    return np.searchsorted(band_ends(length), np.arange(1, max(length, 2)))


def by_band(counts: NDArray[Any], axis: int = -2) -> NDArray[Any]:
    """Counts by distance added up to counts by band, along an axis.

    >>> by_band(np.ones((8, 1), dtype=np.int64))[:, 0].tolist()
    [1, 1, 1, 1, 2, 2]
    """
    bands = bands_of_distances(counts.shape[axis] + 1)
    starts = np.flatnonzero(np.diff(bands, prepend=-1))
    return np.add.reduceat(counts, starts, axis=axis)
