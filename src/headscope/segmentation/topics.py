"""Where a text turns to something else: which sentences its heads find alike, and how well they make segments.

Sentences go by once. Of their similarities only those of sentences that may share a segment are kept, a band of the
matrix of all pairs; what the heads made of a sentence is dropped when no later one can share its segment.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from headscope.segmentation.head_weights import Floats, TopicNumbers, TopicWeights
from headscope.segmentation.vectors import Vectors, counting_of, mean_outputs

if TYPE_CHECKING:
    from headscope.models.model import Model
    from headscope.segmentation.parts import Part

TOGETHER = 1024  # sentences that are read at a time
LEVEL_REACH = 25  # sentences apart: the pairs that tell what similarity is usual in a text
BESIDE = 4  # sentences on either side of a boundary that are compared to tell which heads speak for it


@dataclass(frozen=True, slots=True)
class Similarities:
    """Of N sentences, each with the L − 1 before it, and what each head says to a boundary after each."""

    before: NDArray[np.float32]  # (N, L - 1): with the sentence one before, two before, …; 0 where there is none
    counts: Floats  # (N,): how far a sentence can be relied on, from 0 to 1
    for_boundary: NDArray[np.float32]  # (N, H)


def directions(vectors: Vectors, means: Floats) -> Vectors:
    """Where each head's mean output points, the head's usual one taken off: (N, H, d), each of length 1 or 0."""
    moved: Vectors = (vectors - means).astype(np.float32)
    moved[~vectors.any(axis=(1, 2))] = 0  # an empty sentence points nowhere
    length = np.linalg.norm(moved, axis=2, keepdims=True)
    moved /= np.maximum(length, 1e-12)
    return moved


def similarities(
    model: Model, parts: Iterable[Part], stack: str, topics: TopicWeights, longest: int
) -> Iterator[tuple[Sequence[Part], Similarities]]:
    """Read sentences and compare each with those before it, some at a time."""
    counting = counting_of(model, topics.common)
    kept = np.zeros((0, len(topics.heads), topics.means.shape[1]), dtype=np.float32)
    coming = iter(parts)
    while some := list(islice(coming, TOGETHER)):
        relied = np.array([counting[part.ids].sum() for part in some])
        counts = relied / (relied + topics.reliable)
        read = directions(mean_outputs(model, some, stack, topics.heads, counting), topics.means)
        read *= counts[:, None, None].astype(np.float32)
        every = np.concatenate([kept, read])
        yield some, compared(every, len(kept), counts, topics.weights, longest)
        kept = every[-(longest - 1) :] if longest > 1 else every[:0]


def compared(every: Vectors, old: int, counts: Floats, weights: Floats, longest: int) -> Similarities:
    """The rows of sentences from number `old` on."""
    scaled = (every * np.sqrt(weights)[None, :, None].astype(np.float32)).reshape(len(every), -1)
    products = scaled[old:] @ scaled.T  # (n, old + n)
    rows = np.arange(old, len(every))
    columns = rows[:, None] - np.arange(1, longest)  # (n, L - 1)
    before = np.where(columns >= 0, np.take_along_axis(products, np.maximum(columns, 0), axis=1), 0)
    return Similarities(before.astype(np.float32), counts, _for_boundary(every, weights)[old:])


def _for_boundary(every: Vectors, weights: Floats) -> NDArray[np.float32]:
    """How much more alike each side of a boundary is in itself than the two sides are, in each head's opinion."""
    number = len(every)
    sums = np.concatenate([np.zeros_like(every[:1]), every.cumsum(0)])  # (N + 1, H, d)
    squares = np.concatenate([np.zeros_like(every[:1, :, 0]), (every**2).sum(2).cumsum(0)])  # (N + 1, H)
    middle = np.arange(1, number + 1)
    first, last = np.maximum(middle - BESIDE, 0), np.minimum(middle + BESIDE, number)
    left, right = sums[middle] - sums[first], sums[last] - sums[middle]  # (N, H, d)
    across = (left * right).sum(2) / np.maximum((middle - first) * (last - middle), 1)[:, None]

    def within(side: Vectors, start: NDArray[np.int64], end: NDArray[np.int64]) -> Floats:
        pairs = (end - start) * (end - start - 1)
        alike: Floats = ((side**2).sum(2) - (squares[end] - squares[start])) / np.maximum(pairs, 1)[:, None]
        return alike

    inside = (within(left, first, middle) + within(right, middle, last)) / 2
    speaking: NDArray[np.float32] = (weights * (inside - across)).astype(np.float32)
    return speaking


@dataclass(frozen=True, slots=True)
class SegmentSums:
    """What a segment's score is made of: entry [j, l] belongs to the l + 1 sentences that end with sentence j."""

    together: Floats  # (…, N, L): similarity of all its pairs, each counted twice
    count: Floats  # (…, N, L): its sentences, each as far as it can be relied on
    pairs: Floats  # (…, N, L): and its pairs, each counted twice
    near: Floats  # (…, 1, 1): how similar neighbours are in the text
    everywhere: Floats  # (…, 1, 1): and sentences that stand no more than a page apart


def segment_sums(before: NDArray[np.float32], counts: Floats) -> SegmentSums:
    """Add up similarities over every segment that is short enough."""
    number, longest = before.shape[0], before.shape[1] + 1
    together = np.zeros((number, longest))
    so_far = before.astype(np.float64).cumsum(1)  # (N, L - 1)
    for j in range(1, number):
        together[j, 1:] = together[j - 1, :-1] + 2 * so_far[j]
    sums, squares = (np.concatenate([[0], each.cumsum()]) for each in (counts, counts**2))
    end = np.arange(1, number + 1)[:, None]
    start = np.maximum(end - np.arange(1, longest + 1), 0)
    count = sums[end] - sums[start]
    pairs = count**2 - (squares[end] - squares[start])
    near, everywhere = (np.full((1, 1), level) for level in text_levels(before, counts))
    return SegmentSums(together, count, pairs, near, everywhere)


def segment_scores(sums: SegmentSums, numbers: TopicNumbers) -> Floats:
    """What speaks for each segment, (…, N, L).

    It scores by how much more similar its sentences are than the text's own level, for each sentence, and pays for
    being a segment.

    >>> numbers = TopicNumbers(level_near=0.5, level_all=0.5, cost=1, cost_level=0, cost_length=0, spread=0)
    >>> alike = np.array([[0, 0], [0.9, 0], [0.1, 0.1], [0.9, 0.1]], dtype=np.float32)
    >>> segment_scores(segment_sums(alike, np.ones(4)), numbers)[3].round(2).tolist()
    [-1.0, -0.63, -1.32]
    """
    level = numbers.level_near * sums.near + numbers.level_all * sums.everywhere
    gain = (sums.together - level * sums.pairs) / np.maximum(sums.count + numbers.spread, 1e-9)
    cost = numbers.cost + numbers.cost_level * sums.everywhere
    scores: Floats = gain - cost - numbers.cost_length * np.log(np.arange(1, gain.shape[-1] + 1))
    return scores


def text_levels(before: NDArray[np.float32], counts: Floats) -> tuple[float, float]:
    """How similar neighbours are in a text, and sentences that stand no more than a page apart."""
    reach = min(LEVEL_REACH, before.shape[1], len(counts) - 1)
    if reach < 1:
        return 0.0, 0.0
    sums = [float(before[k:, k - 1].sum()) for k in range(1, reach + 1)]
    relied = [float((counts[k:] * counts[:-k]).sum()) for k in range(1, reach + 1)]
    return sums[0] / max(relied[0], 1e-9), sum(sums) / max(sum(relied), 1e-9)
