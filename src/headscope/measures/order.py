"""What is drawn at random in a window, from its ids alone: which pairs set the edges of order bins, and the null of
focal tokens. So the draw is the same whoever computes it.

All arithmetic is on unsigned 64-bit integers, which wrap round.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

ORDER_BINS = 16
SAMPLED = 512  # pairs, at most, whose values set the edges of the bins
FEWEST_FOR_TOP = 160  # pairs of a window that has top pairs
LEAST_TOP = 32  # a head has no top pairs where fewer than one in so many are in the last bin

UInts = NDArray[np.uint64]


def mix(values: UInts) -> UInts:
    """The finaliser of SplitMix64.

    >>> hex(int(mix(np.array([1], dtype=np.uint64))[0]))
    '0x5692161d100b05e5'
    """
    x = values.astype(np.uint64)
    x ^= x >> np.uint64(30)
    x *= np.uint64(0xBF58476D1CE4E5B9)
    x ^= x >> np.uint64(27)
    x *= np.uint64(0x94D049BB133111EB)
    x ^= x >> np.uint64(31)
    return x


def window_numbers(windows: Sequence[NDArray[np.int64]]) -> UInts:
    """w of each window: the first eight bytes of the SHA-256 of its ids.

    >>> [hex(int(number)) for number in window_numbers([np.array([101, 102])])]
    ['0x1feb46e6287d8409']
    """
    digests = [hashlib.sha256(ids.astype("<i8", copy=False).tobytes()).digest()[:8] for ids in windows]
    return np.frombuffer(b"".join(digests), dtype="<u8").astype(np.uint64)


def sampled_pairs(number: int, window: np.uint64) -> NDArray[np.int64]:
    """The numbers of the pairs that are sampled among `number` of them, in the order of (i, j).

    One of each of up to 512 equal stretches: a fixed stride would miss whole distances.

    >>> sampled_pairs(3, np.uint64(7)).tolist()
    [0, 1, 2]
    """
    begins, stretch = _stretches(number)
    drawn = mix(window + np.arange(len(stretch), dtype=np.uint64))
    half, low = np.uint64(32), np.uint64(0xFFFFFFFF)
    place = ((drawn >> half) * stretch + ((drawn & low) * stretch >> half)) >> half  # ⌊drawn · stretch / 2⁶⁴⌋
    return np.asarray(begins + place.astype(np.int64))


@lru_cache(256)
def _stretches(number: int) -> tuple[NDArray[np.int64], UInts]:
    """Where each stretch of so many pairs begins, and how long it is, which is below 2³²."""
    size = min(number, SAMPLED)
    edges = np.arange(size + 1, dtype=np.int64) * number // max(size, 1)
    return edges[:-1], np.diff(edges).astype(np.uint64)


def edge_places(sampled: int) -> NDArray[np.int64]:
    """Where the 15 edges stand in the sorted sample.

    >>> edge_places(512)[:3].tolist()
    [32, 64, 96]
    """
    return sampled * np.arange(1, ORDER_BINS) // ORDER_BINS


def null_order(positions: NDArray[np.int64], counts: NDArray[np.int64], keys: UInts) -> NDArray[np.int64]:
    """Which id takes over the sum of which in the null: entry t is the id whose sum goes to id t.

    `positions` (K,) are first counting positions, ascending; `counts` (K,) how often each id occurs; `keys` (K,).

    >>> null_order(np.array([1, 2, 5]), np.array([1, 2, 1]), np.array([9, 0, 3], dtype=np.uint64)).tolist()
    [2, 1, 0]
    """
    by_position = np.lexsort((positions, counts))
    by_key = np.lexsort((positions, keys, counts))
    source = np.empty(len(positions), dtype=np.int64)
    source[by_key] = by_position
    return source


def null_keys(window: np.uint64, layer: int, heads: int, positions: NDArray[np.int64]) -> UInts:
    """key(p) of each head of a layer: (H, K)."""
    places = np.uint64(layer << 32) + np.arange(heads, dtype=np.uint64)
    return mix(mix(window ^ places)[:, None] + positions.astype(np.uint64))
