"""Readings, order, contrasts, matched counts and nulls of docs/method.md, written a second time: plain loops.

Values of pairs are lists in the order of (i, j). Products are added up in float64 and then rounded to float32: as exact
as float32 can be, and next to what anybody gets who multiplies in float32.
"""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from typing import Any

import numpy as np

import naive

MAPS = ("direct", "rows")
RELATIONS = ("word_pieces", "marks", "stop", "punctuation", "both", "sentence", "repeated", "none")
CONTRASTS = {  # class 1; class 0 is none. The fourth, inside, is of regions
    "sentence": ("sentence",),
    "repeated": ("repeated",),
    "related": ("sentence", "repeated", "both"),
}
COMPARISONS = {  # in each band these strata, each with its classes 1 and 0
    "sentence": [(("sentence",), ("none",)), (("both",), ("repeated",))],
    "repetition": [(("repeated",), ("none",)), (("both",), ("sentence",))],
    "stop": [(("stop",), ("none", "sentence"))],
    "stop_punctuation": [(("stop",), ("punctuation",))],
    "noise": [(("none",), ("sentence", "repeated", "both"))],
}
BAND_ENDS = sorted({2**n for n in range(30)} | {3 * 2**n for n in range(30)})  # 1, 2, 3, 4, 6, 8, 12, …
SAMPLE, BINS, FEWEST = 512, 16, 160
NEAR = 1e-5  # how near to an edge, of the value or the spread, rounding may put a value on the other side

# ---------------------------------------------------------------------- readings and maps


def products(vectors: np.ndarray) -> np.ndarray:
    wide = vectors.astype(np.float32).astype(np.float64)
    return (wide @ wide.T).astype(np.float32)


def lengths(vectors: np.ndarray) -> np.ndarray:
    return np.sqrt(np.diag(products(vectors)))


def similarity(outputs: np.ndarray, values: np.ndarray | None, counting: list[bool], reading: str) -> np.ndarray:
    """S by a reading, in float32, with what would stand on its diagonal."""
    vectors = outputs.astype(np.float32) if reading != "values" else values.astype(np.float32)
    if reading == "centred":
        vectors = vectors - vectors[counting].astype(np.float64).mean(0).astype(np.float32)
    matrix = products(vectors)
    if reading == "dot":
        return matrix
    scale = np.outer(lengths(vectors), lengths(vectors))
    return np.divide(matrix, scale, out=np.zeros_like(matrix), where=scale > 0)


def attention_map(attention: np.ndarray, may_read: np.ndarray, name: str) -> np.ndarray:
    """What a head's attention says of each pair i < j, in float32."""
    weights = attention.astype(np.float32)
    if name == "rows":
        return products(np.sqrt(weights))
    size = len(weights)
    readable = [np.float32(row.sum()) for row in may_read]
    found = np.zeros((size, size), dtype=np.float32)
    for i in range(size):
        for j in range(i + 1, size):
            ways = [weights[a, b] * readable[a] for a, b in ((i, j), (j, i)) if may_read[a, b]]
            if len(ways) == 2:
                found[i, j] = (ways[0] + ways[1]) / np.float32(2)
            elif ways:
                found[i, j] = ways[0]
    return found


# ---------------------------------------------------------------------- the pairs of a window


def band_of(distance: int) -> int:
    """The number of the band that a distance is in."""
    return next(number for number, end in enumerate(BAND_ENDS) if distance <= end)


def number_of_bands(length: int) -> int:
    """How many bands hold a distance of a window of so many tokens."""
    return band_of(length - 1) + 1 if length > 1 else 0


def by_band(pairs: np.ndarray) -> np.ndarray:
    """Counts by (…, distance, relation), added up to (…, band, relation)."""
    longest = pairs.shape[-2]
    found = np.zeros((*pairs.shape[:-2], number_of_bands(longest + 1), pairs.shape[-1]), dtype=pairs.dtype)
    for distance in range(1, longest + 1):
        found[..., band_of(distance), :] += pairs[..., distance - 1, :]
    return found


class Pairs:
    """The pairs of one window, with all that is the same for every head."""

    def __init__(self, window: Any) -> None:
        self.ids, self.counting = window.ids, window.counting
        self.places = naive.pairs(window.counting)
        again = [object() if a is None else a for a in window.again]  # what is nothing is repeated nowhere
        self.relations = [
            naive.relation(i, j, again, window.category, window.word, window.sentence) for i, j in self.places
        ]
        self.bands = [band_of(j - i) for i, j in self.places]
        self.own = [i for i, counts in enumerate(window.counting) if counts]
        self.key = window_key(window.ids)

    def of(self, matrix: np.ndarray) -> list[float]:
        return [float(matrix[place]) for place in self.places]

    def related(self, names: tuple[str, ...]) -> list[int]:
        """The numbers of the pairs with one of these relations."""
        return [number for number, relation in enumerate(self.relations) if relation in names]


# ---------------------------------------------------------------------- order


def mix(x: int) -> int:
    """The finaliser of SplitMix64."""
    x ^= x >> 30
    x = x * 0xBF58476D1CE4E5B9 % 2**64
    x ^= x >> 27
    x = x * 0x94D049BB133111EB % 2**64
    return x ^ (x >> 31)


def window_key(ids: list[int]) -> int:
    """The method's w."""
    written = b"".join(int(token).to_bytes(8, "little", signed=True) for token in ids)
    return int.from_bytes(hashlib.sha256(written).digest()[:8], "little")


def sampled(count: int, w: int) -> list[int]:
    """The numbers of the pairs that the edges are taken from."""
    size, found = min(count, SAMPLE), []
    for k in range(size):
        begin, end = k * count // size, (k + 1) * count // size
        found.append(begin + (mix((w + k) % 2**64) * (end - begin) >> 64))
    return found


def edges(values: list[float], w: int) -> list[float]:
    sample = sorted(values[number] for number in sampled(len(values), w))
    return [sample[len(sample) * k // BINS] for k in range(1, BINS)]


def order(values: list[float], cuts: list[float]) -> list[int]:
    """The bin of every pair: how many edges lie below it."""
    return [sum(edge < value for edge in cuts) for value in values]


def doubtful(values: list[float], cuts: list[float], signed: bool = True) -> int:
    """How many pairs rounding may put on the other side of an edge.

    A pair that is alone at an edge is the edge, whatever its last digit; what is exactly 0 stays so. Sums of terms of
    both signs are as uncertain as the largest of them, sums of terms that are not negative as they themselves.
    """
    every = np.array(values)
    spread, near = every.max() - every.min() if signed else 0.0, np.zeros(len(every), dtype=bool)
    for edge in cuts:
        here = np.abs(every - edge) <= NEAR * np.maximum(np.maximum(np.abs(every), abs(edge)), spread)
        if here.sum() > 1 and every[here].any():
            near |= here
    return int(near.sum())


def top_pairs(bins: list[int]) -> list[int]:
    """The numbers of the pairs in the last bin; none where there are too few."""
    found = [number for number, own in enumerate(bins) if own == BINS - 1]
    return found if len(bins) >= FEWEST and 32 * len(found) >= len(bins) else []


def doubtful_top(values: list[float], cuts: list[float]) -> int:
    """How many pairs may be top or not; all of them where it is in doubt whether there are top pairs."""
    count = len(values)
    if count < FEWEST:
        return 0
    near, found = doubtful(values, cuts[-1:]), sum(cuts[-1] < value for value in values)
    return count if 32 * (found - near) < count <= 32 * (found + near) else near


# ---------------------------------------------------------------------- contrasts and matched counts


def contrast(bins: list[int], ones: list[int], zeros: list[int], bands: list[int]) -> tuple[float, float]:
    """The wins of the pairs `ones` over `zeros`, and the weight."""
    first = Counter((bands[number], bins[number]) for number in ones)
    second = Counter((bands[number], bins[number]) for number in zeros)
    wins = weight = 0.0
    for band in sorted(set(bands)):
        n1, n0 = (sum(found[band, x] for x in range(BINS)) for found in (first, second))
        if not n1 or not n0:
            continue
        won = 0.0
        for x in range(BINS):
            for y in range(x + 1):
                won += first[band, x] * second[band, y] * (0.5 if x == y else 1.0)
        own = n1 * n0 / (n1 + n0)
        wins += own * won / (n1 * n0)
        weight += own
    return wins, weight


def matched(high: list[int], relations: list[str], bands: list[int]) -> np.ndarray:
    """a and b of every comparison: (comparison, side)."""
    every = Counter(zip(bands, relations, strict=True))
    those = Counter((bands[number], relations[number]) for number in high)
    found = np.zeros((len(COMPARISONS), 2))
    for c, strata in enumerate(COMPARISONS.values()):
        for ones, zeros in strata:
            for band in sorted(set(bands)):
                n1, n0 = (sum(every[band, name] for name in names) for names in (ones, zeros))
                k1, k0 = (sum(those[band, name] for name in names) for names in (ones, zeros))
                if n1 and n0:
                    found[c] += k1 * n0 / (n1 + n0), k0 * n1 / (n1 + n0)
    return found


def slack(values: list[float]) -> float:
    """By how much rounding may change a correlation with these values: more, the less they differ."""
    every = np.array(values)
    if not every.any():
        return 0.0
    largest, spread = np.abs(every).max(), every.std()
    return float(min(2.0, NEAR / 10 * largest / spread)) if spread > 0 else 2.0


# ---------------------------------------------------------------------- focal tokens


def null_focal(high: list[tuple[int, int]], pairs: Pairs, layer: int, head: int) -> int | None:
    """The focal token after ids that occur equally often exchanged their sums of degrees."""
    if not high:
        return None
    degrees = Counter(pairs.ids[place] for pair in high for place in pair)
    counts = Counter(pairs.ids[place] for place in pairs.own)
    first: dict[int, int] = {}
    for place in pairs.own:
        first.setdefault(pairs.ids[place], place)
    seed = mix(pairs.key ^ (layer * 2**32 + head))
    given = {}
    for count in set(counts.values()):
        alike = sorted((token for token in counts if counts[token] == count), key=lambda token: first[token])
        shuffled = sorted(alike, key=lambda token: (mix((seed + first[token]) % 2**64), first[token]))
        for giver, taker in zip(alike, shuffled, strict=True):
            given[taker] = degrees[giver]
    return max(given, key=lambda token: (given[token], -first[token]))


def mixed(chosen: list[int | None], heads: int) -> float:
    """How many different focal tokens so many heads drawn from all of them would have."""
    every = len(chosen)
    many = Counter(token for token in chosen if token is not None)
    return sum(1 - math.comb(every - m, heads) / math.comb(every, heads) for m in many.values())
