"""Signs of trouble, specialists among the heads, and the blocks that texts are resampled in."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import headscope
import planted
from headscope.findings.claims import claim
from headscope.findings.resampling import Resampling
from headscope.findings.specialists import adjusted
from headscope.findings.trouble import signs_of_trouble
from headscope.measures.block_sums import BlockSums
from headscope.result.blocks import blocks_of

Tiny = Callable[[str], headscope.Model]
TEXTS = [p["text"] for p in headscope.passages()[:24]]


def in_twos(counts: BlockSums) -> BlockSums:
    """Forty texts as twenty blocks."""
    return planted.combined(counts, np.kron(np.eye(20), np.ones((1, 2))))


def trouble(counts: BlockSums, **changes: Any) -> str:
    return " ".join(signs_of_trouble(replace(counts, high_pairs={}, scores={}, **changes), 0.5))


@pytest.fixture(scope="module")
def sound(embedded: headscope.Model) -> BlockSums:
    effects = planted.Effects(sentence=1.5, specialised=1.0)
    return in_twos(planted.pool(embedded, effects, 40, seed=1))


def test_signs_of_trouble(sound: BlockSums, embedded: headscope.Model) -> None:
    assert trouble(sound) == ""
    stored = sound.stored
    assert "flat matrices" in trouble(sound, stored=stored | {"flat": stored["flat"] + 1})
    assert "the diagonal dominates" in trouble(sound, stored=stored | {"diagonal": stored["diagonal"] * 5})
    assert "one outlier may set" in trouble(sound, stored=stored | {"focal_few": stored["focal_few"] + 2})
    assert "texts are short" in trouble(sound, stored=stored | {"tokens": stored["tokens"] / 10})
    assert "one sentence" in trouble(sound, stored=stored | {"unsplit": stored["texts"]})
    assert "no pair of tokens" in trouble(sound, stored=stored | {"pairless": stored["pairless"] + 0.5})
    assert "nearly uniform" in trouble(sound, pairs=sound.pairs[:, :, ::-1])
    null = in_twos(planted.pool(embedded, planted.Effects(), 40, seed=2))
    said = trouble(null)
    assert "look like noise" in said
    assert "all alike" in said
    assert "no clustering by sentence" in said


def test_specialists_stand_out_and_noise_does_not(embedded: headscope.Model) -> None:
    class Pool:
        """What `specialists` asks of a result."""

        def __init__(self, counts: BlockSums) -> None:
            self.blocks = counts

        def tau(self, tau: float | None) -> float:
            return 0.5

    from headscope.findings.specialists import specialists

    special = planted.pool(embedded, planted.Effects(specialised=1.0), 120, seed=4)
    table = specialists(Pool(planted.corpora(special, 600, 1, seed=1)[0]))  # type: ignore[arg-type]
    own = table[table["score"] == "repetition_preference"]
    assert (own["what"] == "specialist").mean() > 0.5
    null = planted.pool(embedded, planted.Effects(), 120, seed=5)
    called = []
    for corpus in planted.corpora(null, 600, 10, seed=2):
        table = specialists(Pool(corpus))  # type: ignore[arg-type]
        called.append((table["what"] == "specialist").mean())
    assert np.mean(called) < 0.01


def test_adjusted_p_values_are_those_of_the_definition() -> None:
    p = np.random.default_rng(3).random(40) ** 2
    order = np.sort(p)
    for value, found in zip(p, adjusted(p), strict=True):
        steps = [order[k] * 40 / (k + 1) for k in range(40) if order[k] >= value]
        assert found == pytest.approx(min(1, *steps))


def test_blocks_hold_neighbours_of_one_group() -> None:
    assert blocks_of(["a"] * 3, 10) == [(0,), (1,), (2,)]
    for groups in (["a"] * 1000 + ["b"] * 10, ["a", "b"] * 505):  # one after the other, and by turns
        blocks = blocks_of(groups, 256)
        assert len(blocks) <= 256 + 2
        assert sorted(shard for block in blocks for shard in block) == list(range(1010))
        assert all(len({groups[shard] for shard in block}) == 1 for block in blocks)


def test_many_shards_are_taken_together(tiny: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    from headscope.result import blocks

    result = headscope.analyze(tiny("gpt2"), TEXTS, shard_size=1, window=32, progress=False)
    each = blocks.block_sums(result)
    monkeypatch.setattr(blocks, "MOST_BLOCKS", 8)
    monkeypatch.setattr(blocks, "FEWEST_BLOCKS", 1)
    together = blocks.block_sums(result)
    assert (each.blocks, together.blocks) == (24, 8)
    np.testing.assert_array_equal(each.pairs.sum(0), together.pairs.sum(0))
    np.testing.assert_array_equal(each.heads_at(0.5).sum(0), together.heads_at(0.5).sum(0))
    np.testing.assert_allclose(each.stored["attention"].sum(0), together.stored["attention"].sum(0))
    one = claim("4").measure(each, Resampling(each.windows, draws=0), 0.5, None)
    other = claim("4").measure(together, Resampling(together.windows, draws=0), 0.5, None)
    assert float(one.value) == pytest.approx(float(other.value))
