"""The naive implementation of docs/method.md itself, where the answer can be worked out by hand."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest

import naive_order
from naive_order import COMPARISONS

# Four tokens: their pairs are (0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3).
BANDS = [0, 1, 2, 0, 1, 0]
NAMES = ["sentence", "repeated", "none", "none", "none", "sentence"]


def test_mix_is_the_finaliser_of_splitmix64() -> None:
    """The first three numbers that the published generator gives from seed 0."""
    steps = [naive_order.mix(k * 0x9E3779B97F4A7C15 % 2**64) for k in (1, 2, 3)]
    assert steps == [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F]


def test_bands_are_half_octaves() -> None:
    distances = [1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 13, 16, 17, 97, 128, 129]
    assert [naive_order.band_of(d) for d in distances] == [0, 1, 2, 3, 4, 4, 5, 5, 6, 6, 7, 7, 8, 13, 13, 14]
    assert naive_order.by_band(np.arange(1, 7).reshape(6, 1)).tolist() == [[1], [2], [3], [4], [11]]


def test_a_contrast_counts_ties_half_and_weighs_bands_by_their_smaller_class() -> None:
    ones, zeros = [0, 5, 1], [2, 3, 4]
    wins, weight = naive_order.contrast([9, 4, 0, 5, 4, 5], ones, zeros, BANDS)
    assert weight == pytest.approx(2 * 1 / 3 + 1 / 2)  # band 0: two against one; band 1: one against one
    assert wins == pytest.approx(2 / 3 * (1 + 0.5) / 2 + 1 / 2 * 0.5)


def test_matched_counts() -> None:
    found = dict(zip(COMPARISONS, naive_order.matched([0, 4], NAMES, BANDS).tolist(), strict=True))
    assert found["sentence"] == pytest.approx([1 / 3, 0])  # band 0: one of two against none of one
    assert found["repetition"] == pytest.approx([0, 1 / 2])  # band 1: none of one against one of one
    assert found["noise"] == pytest.approx([1 / 2, 1 / 3])
    assert found["stop"] == found["stop_punctuation"] == [0, 0]


def test_a_sample_has_one_pair_of_each_part() -> None:
    assert naive_order.sampled(300, 2**64 - 1) == list(range(300))
    found = naive_order.sampled(1300, 12345)
    assert len(found) == 512
    assert all(k * 1300 // 512 <= number < (k + 1) * 1300 // 512 for k, number in enumerate(found))
    assert len(Counter(b - a for a, b in pairwise(found))) > 2


def test_order_of_distinct_values_fills_every_bin_alike() -> None:
    values = [float(k * 7 % 160) for k in range(160)]
    bins = naive_order.order(values, naive_order.edges(values, 0))
    assert Counter(bins) == {0: 11, 15: 9} | dict.fromkeys(range(1, 15), 10)  # an edge is not below itself
    assert sorted(values[k] for k in naive_order.top_pairs(bins)) == list(range(151, 160))
    assert naive_order.doubtful(values, naive_order.edges(values, 0)) == 0
    assert naive_order.top_pairs(naive_order.order([1.0] * 160, [1.0] * 15)) == []


def test_ids_that_occur_equally_often_exchange_their_degrees() -> None:
    ids = [5, 5, 5, 8, 8, 9, 9]
    pairs = SimpleNamespace(ids=ids, own=range(7), key=77)
    assert naive_order.null_focal([(0, 1), (1, 2)], pairs, 0, 0) == 5  # nothing else occurs three times
    drawn = {naive_order.null_focal([(3, 4), (3, 5)], pairs, 1, head) for head in range(20)}
    assert drawn == {8, 9}  # 8 has 3 and 9 has 1, or the other way round


def test_mixed_heads() -> None:
    assert naive_order.mixed([3, 3, 3, 3], heads=2) == 1
    assert naive_order.mixed([3, 3, 4, 4], heads=2) == pytest.approx(2 * (1 - 1 / 6))
    assert naive_order.mixed([None] * 4, heads=2) == 0
