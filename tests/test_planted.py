"""Planted effects: findings recover what is there, say nothing of what is not, and their intervals keep their word."""

from __future__ import annotations

import numpy as np
import pytest

import headscope
import planted
from headscope.findings import CLAIMS
from headscope.findings.claims import claim
from headscope.findings.finding import Finding
from headscope.findings.numbers import Numbers
from headscope.findings.resampling import Resampling
from headscope.findings.sentences import in_words
from headscope.findings.verdicts import judge
from headscope.measures.quantities import QUANTITIES
from headscope.measures.view import View
from planted import Effects
from simulation import ALIKE, pool_of, recovered, simulate

SEED = 11
SMALL = 50  # texts of a pool in the short tests
TOO_FEW = {("5", 64)}  # claims, and numbers of texts with which a finding must say that it cannot tell


def judged(model: headscope.Model, effects: Effects, *keys: str, size: int = 300) -> list[list[Finding]]:
    """Some claims in some corpora with these effects, without control runs."""
    pool = pool_of(model, effects, SMALL, SEED)
    found = []
    for corpus in planted.corpora(pool, size, 5, seed=1):
        numbers = Numbers(corpus, Resampling(corpus.windows, draws=200))
        found.append([judge(claim(key), numbers) for key in keys])
    return found


def test_effects_twice_the_smallest_are_recovered(embedded: headscope.Model) -> None:
    found = recovered(embedded, "twice", 64, 10, seed=SEED, texts=SMALL)
    for each in found:
        first = claim(each.key).statistics[0]
        slack = 0.04 if each.key == "5" else 0.025  # so few texts vary
        assert each.truth == pytest.approx(2 * first.bound - first.none, rel=0.12, abs=slack), each
        assert (each.can_tell >= 0.5) == ((each.key, 64) not in TOO_FEW), each
        assert each.holds >= 0.8 or (each.key, 64) in TOO_FEW, each
        assert each.qualified == 0
        assert each.wrong == 0
    assert np.mean([each.covered for each in found]) > 0.88


def test_nothing_is_found_where_nothing_is(embedded: headscope.Model) -> None:
    """Heads that pick pairs at random."""
    found = recovered(embedded, "none", 64, 6, seed=SEED, texts=SMALL)
    for each in found:
        assert each.wrong == 0, each
        if each.key not in ("5", "7a"):  # so few texts vary too much; what is like nothing is unlike attention
            assert each.holds == 0, each
            assert each.truth == pytest.approx(claim(each.key).statistics[0].none, abs=0.03)


def test_similarity_that_is_attention_over_again_is_seen(embedded: headscope.Model) -> None:
    (found,) = simulate(embedded, ALIKE, ["7a"], 64, 4, seed=SEED, texts=20)
    assert found.truth == pytest.approx(0, abs=0.01)
    assert found.holds == found.qualified == found.wrong == 0


def test_heads_that_differ_only_in_vector_length_are_qualified(embedded: headscope.Model) -> None:
    for sentence, stops in judged(embedded, Effects(long_stops=1.5, long_sentences=1.5), "4", "8"):
        for found in (sentence, stops):
            assert found.statistics[0].state == "passes"
            assert found.state("cosine") == "fails"
            assert found.verdict == "qualified"
        pool = pool_of(embedded, Effects(long_stops=1.5, long_sentences=1.5), SMALL, SEED)
        assert "vector length" in in_words(claim("8"), stops, Numbers(pool, Resampling(pool.windows, draws=0)))


@pytest.mark.parametrize(
    "effects", [Effects(near=1.0), Effects(avoid_punctuation=1.5)], ids=["near", "punctuation"]
)  # fmt: skip
def test_liking_nearness_or_avoiding_punctuation_is_no_liking_for_sentences(
    effects: Effects, embedded: headscope.Model
) -> None:
    for (found,) in judged(embedded, effects, "4"):
        assert found.verdict == "does not hold"
        assert found.value == pytest.approx(1, abs=0.06)
    # Without matching, both would seem to prefer sentences.
    view = View(pool_of(embedded, effects, SMALL, SEED))
    high, every = view.pairs().sum((0, 1, 2, 3)), view.sums.stored["base_pairs"].sum((0, 1))  # by relation
    within, across = [4, 5], [2, 3, 6, 7]
    crude = high[within].sum() / every[within].sum() / (high[across].sum() / every[across].sum())
    assert crude > 1.1


def test_one_head_with_most_of_the_pairs_does_not_speak_for_its_layer(embedded: headscope.Model) -> None:
    for (found,) in judged(embedded, Effects(one_head=True), "8"):
        assert found.verdict == "does not hold"
        assert found.value < 0.6
        assert found.statistics[0].pooled > 1.1
        assert found.statistics[0].beyond == pytest.approx(1 / planted.HEADS)


def test_a_pool_counts_what_was_planted(embedded: headscope.Model) -> None:
    """The synthetic heads go through the real accumulator, and the final layer alone does what it is told."""
    view = View(pool_of(embedded, Effects(sentence=2.0), SMALL, SEED))
    preference = QUANTITIES["sentence_preference"].value(view)
    assert preference == pytest.approx([1, 1, 2], rel=0.08)
    assert QUANTITIES["repetition_preference"].value(view) == pytest.approx([1, 1, 1], rel=0.08)
    cosine, dot = (QUANTITIES["sentence_preference"].value(view.by(reading)) for reading in ("cosine", "dot"))
    np.testing.assert_allclose(cosine, dot, rtol=0.02)  # all vectors are of one length


@pytest.mark.long
@pytest.mark.parametrize("size", [64, 1000])
def test_power_errors_and_coverage(size: int, embedded: headscope.Model) -> None:
    number = 300
    twice = recovered(embedded, "twice", size, number, seed=SEED)
    assert 0.92 <= np.mean([each.covered for each in twice]) <= 0.98
    for each in twice:
        assert (each.can_tell >= 0.5) == ((each.key, size) not in TOO_FEW), each
        assert each.holds >= 0.8 or (each.key, size) in TOO_FEW, each
        assert each.qualified <= 0.01, each
        assert 0.89 <= each.covered <= 0.99, each  # two standard errors of so many corpora beside that
    for which in ("none", "bound"):
        for each in recovered(embedded, which, size, number, seed=SEED):
            assert each.wrong <= 0.05, each


def test_every_claim_is_planted() -> None:
    from simulation import PLANTED

    assert sorted(key for keys in PLANTED for key in keys.split()) == sorted(each.key for each in CLAIMS)
