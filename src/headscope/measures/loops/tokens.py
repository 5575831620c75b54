"""What the tokens of a window are to each other: which ids come again, and how the two of each pair are related."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from headscope.measures.loops.focal import mix
from headscope.measures.numba_options import compiled, inner


class Tokens(NamedTuple):
    """The tokens of B windows, (B, T) each. Equal numbers: of one word, sentence or repetition; negative: of none."""

    ids: Any
    mark: Any  # 0: none, 1: punctuation, 2: a stop
    word: Any
    sentence: Any
    same: Any


class Counting(NamedTuple):
    """The tokens that count."""

    sizes: Any  # (B,): how many
    positions: Any  # (B, N): where in the window


class IdTables(NamedTuple):
    """What `number_ids` fills in; see `BatchIndex`. Ids have (B, N) places here, one for each token if need be."""

    id_number: Any  # (B, N)
    distinct: Any  # (B,)
    ids: Any
    firsts: Any
    by_count: Any
    class_ends: Any
    repeats: Any  # (B,): pairs of one id with itself


class PairTables(NamedTuple):
    """What `relate` fills in; see `BatchIndex`."""

    cells: Any  # (B, P)
    classes: Any
    bands: Any
    distance: Any
    base: Any  # (B, kinds)
    related: Any  # (distances, relations)
    samples: Any  # (B, 512, 3)
    repeats: Any  # (B, Q, 2)


class Bins(NamedTuple):
    """How pairs are told apart by distance and relation, and sampled."""

    band_of: Any  # (distances,): the band of each
    by_band: bool  # whether a cell is of a band, or of one distance
    relation_of: Any  # (3, 24): by marks, and by whether words, sentences, repetitions are equal
    order_bins: int
    sampled: int  # pairs at most


@compiled
def number_ids(tokens: Tokens, counting: Counting, out: IdTables) -> None:
    """Number the ids of each window by where they first count, and sort them by how often they occur."""
    for b in range(len(counting.sizes)):
        n, ids = counting.sizes[b], out.ids[b]
        distinct = 0
        counts = np.zeros(n, np.int64)
        for i in range(n):
            position = counting.positions[b, i]
            number = 0
            while number < distinct and ids[number] != tokens.ids[b, position]:
                number += 1
            if number == distinct:
                ids[number], out.firsts[b, number] = tokens.ids[b, position], position
                distinct += 1
            out.id_number[b, i] = number
            out.repeats[b] += counts[number]
            counts[number] += 1
        out.distinct[b] = distinct
        begins = np.zeros(n + 2, np.int64)  # by how often an id occurs: where such ids begin
        for k in range(distinct):
            begins[counts[k] + 1] += 1
        for count in range(n + 1):
            begins[count + 1] += begins[count]
        taken = begins.copy()
        for k in range(distinct):
            place = taken[counts[k]]
            taken[counts[k]] += 1
            out.by_count[b, place], out.class_ends[b, place] = k, begins[counts[k] + 1]


@inner
def _sampled_pair(k: int, sampled: int, pairs: int, window: np.uint64) -> Any:
    """The number of the pair that is drawn from stretch k, as `order.sampled_pairs` has it."""
    begin = k * pairs // sampled
    stretch = np.uint64((k + 1) * pairs // sampled - begin)
    drawn, half, low = mix(window + np.uint64(k)), np.uint64(32), np.uint64(0xFFFFFFFF)
    return begin + np.int64(((drawn >> half) * stretch + ((drawn & low) * stretch >> half)) >> half)


@inner
def _of_counting(values: Any, position: Any, none: int) -> Any:
    """Numbers of the tokens at these positions; `none` for those of none."""
    numbers = np.empty(len(position), np.int32)
    for i in range(len(position)):
        value = values[position[i]]
        numbers[i] = value if value >= 0 else none
    return numbers


@inner
def _relate_row(
    word: int, sentence: int, same: int, words: Any, sentences: Any, sames: Any, marks: Any, by_mark: Any, to: Any
) -> None:
    """The relation of one token with each that comes after it. All lists begin at 0: so they are vectorised."""
    for j in range(len(to)):
        equal = 4 * (word == words[j]) + 2 * (sentence == sentences[j]) + (same == sames[j])
        to[j] = by_mark[np.uint32(8 * marks[j] + equal)]


@inner
def _place_row(relation: Any, apart: Any, bins: Bins, relations: int, cells: Any, classes: Any, bands: Any) -> None:
    """The cells, classes and bands of the same pairs."""
    for j in range(len(relation)):
        band = bins.band_of[np.uint32(apart[j] - 1)]
        kind = band * relations + relation[j]
        cells[j] = kind if bins.by_band else (apart[j] - 1) * relations + relation[j]
        classes[j], bands[j] = kind * bins.order_bins, band


@compiled
def relate(tokens: Tokens, counting: Counting, id_number: Any, numbers: Any, out: PairTables, bins: Bins) -> None:
    """How the tokens of each pair are related, and which pairs are sampled, as the loops want it.

    `numbers` (B,) is what the samples are drawn from.
    """
    relations = out.related.shape[1]
    counts = np.empty(out.related.size, np.int32)  # of one window, as `related` is
    room = np.empty(counting.positions.shape[1], np.int32)
    for b in range(len(counting.sizes)):
        n = counting.sizes[b]
        counts[:] = 0
        position, ids = counting.positions[b, :n], id_number[b, :n]
        # A token of none differs from all: it has one number where it comes first, another where it comes second.
        word, words = _of_counting(tokens.word[b], position, -1), _of_counting(tokens.word[b], position, -2)
        sentence, sentences = (
            _of_counting(tokens.sentence[b], position, -1), _of_counting(tokens.sentence[b], position, -2)
        )  # fmt: skip
        same, sames = _of_counting(tokens.same[b], position, -1), _of_counting(tokens.same[b], position, -2)
        mark = _of_counting(tokens.mark[b], position, 0)
        pairs = n * (n - 1) // 2
        sampled = min(pairs, bins.sampled)
        k = repeats = p = 0
        chosen = _sampled_pair(0, sampled, pairs, numbers[b]) if sampled else pairs
        for i in range(n - 1):
            after, end = i + 1, p + n - i - 1
            relation, apart = room[: end - p], out.distance[b, p:end]
            for j in range(len(apart)):
                apart[j] = position[after + j] - position[i]
            _relate_row(
                word[i], sentence[i], same[i], words[after:], sentences[after:], sames[after:], mark[after:],
                bins.relation_of[mark[i]], relation,
            )  # fmt: skip
            _place_row(
                relation, apart, bins, relations, out.cells[b, p:end], out.classes[b, p:end], out.bands[b, p:end]
            )
            for j in range(len(relation)):
                counts[np.uint32((apart[j] - 1) * relations + relation[j])] += 1
            for j in range(after, n):
                if ids[i] == ids[j]:
                    out.repeats[b, repeats, 0], out.repeats[b, repeats, 1] = p + j - after, ids[i]
                    repeats += 1
            while chosen < end:
                out.samples[b, k, 0], out.samples[b, k, 1], out.samples[b, k, 2] = i, after + chosen - p, chosen
                k += 1
                chosen = _sampled_pair(k, sampled, pairs, numbers[b]) if k < sampled else pairs
            p = end
        for far in range(len(bins.band_of)):
            for kind in range(relations):
                number = counts[far * relations + kind]
                out.base[b, bins.band_of[far] * relations + kind] += number
                out.related[far, kind] += number
