"""What a segment costs, learned from documents that are put together from passages of different texts.

Of all ways to cut such a document the true one is to be the likeliest: the numbers are those that make it so, added up
over many documents of few and many, short and long segments.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headscope.segmentation.head_weights import Floats, TopicNumbers
from headscope.segmentation.search import RATES
from headscope.segmentation.topics import SegmentSums, compared, segment_scores, segment_sums
from headscope.segmentation.vectors import Vectors

DOCUMENTS = 300
SEGMENTS = (3, 11)  # of a document
LONGEST = 26  # sentences of a segment
LONGEST_DOCUMENT = 96
START = (2.8, 0.05, 0.7, 0.5, 0.5, 0.4, -1.8)  # log of the scale, the numbers, log of the spread
BOUNDS = ((0, 6), (-1, 2), (-1, 3), (-5, 10), (-3, 5), (-4, 4), (-4, 3))
# Towards the start: left free, the numbers come to suit documents of unrelated passages alone. Their level of
# similarity tells how many segments there are, and that of a text about one thing does not.
PULL = 1e-2


@dataclass(frozen=True, slots=True)
class Planted:
    """Documents whose boundaries are known, padded to the same number of sentences."""

    sums: SegmentSums  # (D, N, L) each
    lengths: NDArray[np.int64]  # (D,), in sentences
    ends: list[NDArray[np.int64]]  # by document, the last sentence of each segment
    sizes: list[NDArray[np.int64]]  # and how many it has


def fit_numbers(
    pointing: Vectors, counts: Floats, share: Floats, passages: list[tuple[str, int]], seed: int
) -> tuple[float, TopicNumbers]:
    """By how much to multiply the weights `share`, and what a segment costs.

    `pointing` is where the heads' outputs for each sentence point, as far as each can be relied on: (N, H, d);
    `passages` has the source of each passage and how many of the sentences are its own.
    """
    import scipy.optimize

    documents = plant(pointing, counts, share, passages, np.random.default_rng(seed))
    found = scipy.optimize.minimize(
        lambda x: PULL * ((x - START) ** 2).sum() - likelihood(documents, x),
        np.array(START),
        method="L-BFGS-B",
        bounds=BOUNDS,
        options={"maxiter": 40},
    )
    return float(np.exp(found.x[0])), _numbers(found.x)


def plant(
    pointing: Vectors, counts: Floats, share: Floats, passages: list[tuple[str, int]], drawn: np.random.Generator
) -> Planted:
    """Put documents together: each segment is of another source, a part of one passage or of all that a source has."""
    starts = np.concatenate([[0], np.cumsum([number for _, number in passages])])
    sentences_of: dict[str, list[NDArray[np.int64]]] = {}
    for k, (source, _) in enumerate(passages):
        sentences_of.setdefault(source, []).append(np.arange(starts[k], starts[k + 1]))
    sources = list(sentences_of)
    sums, ends, sizes = [], [], []
    for _ in range(DOCUMENTS):
        segments: list[NDArray[np.int64]] = []
        whole = drawn.random() < 1 / 2  # long segments: all passages of a source, one after the other
        for source in drawn.choice(
            len(sources), min(int(drawn.integers(*SEGMENTS, endpoint=True)), len(sources)), replace=False
        ):
            own = sentences_of[sources[source]]
            rows = (np.concatenate(own) if whole else own[drawn.integers(len(own))])[:LONGEST]
            size = int(drawn.integers(2, len(rows), endpoint=True))
            first = int(drawn.integers(len(rows) - size, endpoint=True))
            if sum(map(len, segments)) + size <= LONGEST_DOCUMENT:
                segments.append(rows[first : first + size])
        rows = np.concatenate(segments)
        similar = compared(pointing[rows], 0, counts[rows], share, LONGEST)
        sums.append(segment_sums(similar.before, counts[rows]))
        sizes.append(np.array([len(each) for each in segments]))
        ends.append(np.cumsum(sizes[-1]) - 1)
    return Planted(_stacked(sums), np.array([each[-1] + 1 for each in ends]), ends, sizes)


def likelihood(documents: Planted, x: NDArray[np.float64]) -> float:
    """The mean logarithm of the probability of the true cut, for each sentence."""
    scale, sums = np.exp(x[0]), documents.sums
    moved = SegmentSums(scale * sums.together, sums.count, sums.pairs, scale * sums.near, scale * sums.everywhere)
    scores = segment_scores(moved, _numbers(x))  # (D, N, L)
    rates = np.array(RATES)
    inside, at_end = np.log1p(-rates), np.log(rates)
    number, most = scores.shape[1:]
    rest = np.arange(most)[:, None] * inside  # (L, R)
    before = np.full((len(scores), number + 1, len(rates)), -np.inf)  # every way to cut what lies before
    before[:, 0] = 0
    for j in range(number):
        far = min(most, j + 1)
        ways = before[:, j + 1 - far : j + 1][:, ::-1] + scores[:, j, :far, None] + rest[:far]  # (D, l, R)
        top = ways.max(1)
        before[:, j + 1] = np.log(np.exp(ways - top[:, None]).sum(1)) + top + at_end
    total = 0.0
    for k, (ends, sizes) in enumerate(zip(documents.ends, documents.sizes, strict=True)):
        length = int(documents.lengths[k])
        true = scores[k, ends, sizes - 1].sum() + (length - len(ends)) * inside + len(ends) * at_end  # (R,)
        total += (np.logaddexp.reduce(true - at_end) - np.logaddexp.reduce(before[k, length] - at_end)) / length
    return float(total / len(scores))


def _numbers(x: NDArray[np.float64]) -> TopicNumbers:
    near, everywhere, cost, cost_level, cost_length = (float(each) for each in x[1:6])
    return TopicNumbers(near, everywhere, cost, cost_level, cost_length, float(np.exp(x[6])))


def _stacked(sums: list[SegmentSums]) -> SegmentSums:
    """Documents side by side, filled up to the longest: (D, N, L)."""
    most = max(len(each.together) for each in sums)

    def filled(name: str) -> Floats:
        parts = [getattr(each, name) for each in sums]
        return np.stack([np.pad(part, ((0, most - len(part)), (0, 0))) for part in parts])

    together, count, pairs = (filled(name) for name in ("together", "count", "pairs"))
    return SegmentSums(together, count, pairs, np.stack([s.near for s in sums]), np.stack([s.everywhere for s in sums]))
