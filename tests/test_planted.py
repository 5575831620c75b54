"""Planted effects: findings recover what is there, say nothing of what is not, and their intervals keep their word."""

from __future__ import annotations

import numpy as np
import pytest

import headscope
import planted
from headscope.findings.claims import CLAIMS, claim
from headscope.findings.resampling import Resampling
from headscope.findings.verdicts import judge
from headscope.measures import derived
from simulation import simulate

KEYS = [each.key for each in CLAIMS]
SEED = 11
TOO_FEW = {("5", 64)}  # claims, and numbers of texts with which a finding must say that it cannot tell


@pytest.mark.parametrize("key", KEYS)
def test_an_effect_twice_the_smallest_is_recovered(key: str, embedded: headscope.Model) -> None:
    found = simulate(embedded, key, "twice", 64, 20, seed=SEED, texts=150)
    if key != "2":  # its share cannot be planted to the digit
        assert found.truth == pytest.approx(claim(key).twice, rel=0.08, abs=0.12 if key == "5" else 0.01)
    assert (found.can_tell >= 0.5) == ((key, 64) not in TOO_FEW), found
    assert found.holds >= 0.8 or (key, 64) in TOO_FEW, found
    assert found.covered >= 0.8  # loosely: 20 corpora; the long test holds it to 92 to 98 %


@pytest.mark.parametrize("key", KEYS)
def test_nothing_is_found_where_nothing_is(key: str, embedded: headscope.Model) -> None:
    found = simulate(embedded, key, "none", 64, 10, seed=SEED, texts=100)
    assert found.truth == pytest.approx(claim(key).none, abs=0.15 if key == "5" else 0.03)  # chance is all there is
    assert found.holds == 0


@pytest.mark.long
@pytest.mark.parametrize("size", [64, 1000])
@pytest.mark.parametrize("key", KEYS)
def test_power_errors_and_coverage(key: str, size: int, embedded: headscope.Model) -> None:
    number = 400
    twice = simulate(embedded, key, "twice", size, number, seed=SEED)
    assert (twice.can_tell >= 0.5) == ((key, size) not in TOO_FEW), twice
    assert twice.holds >= 0.8 or (key, size) in TOO_FEW, twice
    assert 0.92 <= twice.covered <= 0.98, twice
    none = simulate(embedded, key, "none", size, number, seed=SEED)
    assert none.wrong <= 0.05, none
    if key not in ("2", "7"):  # their smallest effect cannot be planted to the digit
        bound = simulate(embedded, key, "bound", size, number, seed=SEED)
        assert bound.wrong <= 0.05, bound


@pytest.mark.parametrize(
    "effects", [planted.Effects(near=3.0), planted.Effects(avoid_punctuation=0.2)], ids=["near", "punctuation"]
)
def test_the_controls_work(effects: planted.Effects, embedded: headscope.Model) -> None:
    """A head that likes only nearness, or only avoids punctuation, has no sentence preference."""
    pool = planted.pool(embedded, effects, 200, seed=SEED)
    one = claim("4")
    for corpus in planted.corpora(pool, 300, 5, seed=1):
        found = judge(one, corpus, Resampling(corpus.windows, draws=200), 0.5)
        assert found.verdict == "does not hold"
        assert found.value == pytest.approx(1, abs=0.04)
    high, every = pool.high(0.5).sum((0, 1)), pool.base.sum(0) * pool.heads * 3
    # Without the controls, both heads would seem to prefer sentences.
    within, across = [3, 4], [5, 6, 1, 2]
    crude = high[:, within].sum() / every[:, within].sum() / (high[:, across].sum() / every[:, across].sum())
    assert crude > 1.1
    if effects.near:
        assert float(derived.distance_over_base(high, every)) < 0.9


def test_a_pool_counts_what_was_planted(embedded: headscope.Model) -> None:
    """The synthetic heads go through the real accumulators; a repetition head shows in the repetition preference."""
    pool = planted.pool(embedded, planted.Effects(repetition=3.0), 150, seed=SEED)
    high, every = pool.high(0.5).sum((0, 1)), pool.base.sum(0) * pool.heads * 3
    assert float(derived.repetition_preference(high, every)) == pytest.approx(3, rel=0.1)
    assert float(derived.sentence_preference(high, every)) == pytest.approx(1, abs=0.05)
    assert np.isfinite(pool.stored["focal_share"]).all()
