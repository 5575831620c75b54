"""Signs of trouble, specialists among the heads, stability, sensitivity, S against attention."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import synthetic
from headscope.errors import HeadscopeError
from headscope.findings import against_attention
from headscope.findings.claims import claim
from headscope.findings.numbers import Numbers
from headscope.findings.resampling import Resampling
from headscope.findings.sensitivity import SWEPT
from headscope.findings.sensitivity import of_sums as sensitivity
from headscope.findings.specialists import adjusted, farthest, of_sums
from headscope.findings.stability import by_groups, stability
from headscope.findings.trouble import signs_of_trouble
from headscope.findings.verdicts import judge
from headscope.measures.block_sums import BlockSums
from headscope.measures.quantities import QUANTITIES
from headscope.windows.window import END, WORD

SOUND = synthetic.block_sums(blocks=20, layers=3, heads=6, length=48)


class Run:
    """What is asked of a result."""

    def __init__(self, sums: BlockSums) -> None:
        self.blocks = sums


def changed(sums: BlockSums, **stored: Any) -> BlockSums:
    return replace(sums, stored={**sums.stored, **stored})


def trouble(sums: BlockSums) -> str:
    return " ".join(signs_of_trouble(sums))


def test_signs_of_trouble() -> None:
    stored = dict(SOUND.stored) | {"flat": SOUND.stored["flat"] * 0, "matched": SOUND.stored["matched"].copy()}
    stored["matched"][:, :, :, 0, 0] *= 2  # heads keep to the sentence
    sound = replace(SOUND, stored=stored)
    assert trouble(sound) == ""
    texts = stored["texts"]
    assert "the matrices are flat" in trouble(changed(sound, flat=stored["flat"] + 1))
    assert "the diagonal dominates" in trouble(changed(sound, diagonal=stored["diagonal"] * 10))
    assert "one outlier may set" in trouble(changed(sound, focal_few=stored["focal_few"] + texts[:, None, None, None]))
    assert "no top pairs" in trouble(changed(sound, top_few=stored["top_few"] + texts[:, None, None, None]))
    assert "texts are short" in trouble(changed(sound, tokens=stored["tokens"] / 10))
    full = stored["tokens"] * 0
    full[:, WORD] = texts * stored["base_pairs"].shape[1]  # one less than the longest window has
    assert "full" not in trouble(changed(sound, tokens=full))  # nothing closes them
    full[:, END] = texts
    assert "most windows are full, 48 of 48 tokens" in trouble(changed(sound, tokens=full))
    assert "one sentence" in trouble(changed(sound, unsplit=texts))
    assert "no pair of tokens" in trouble(changed(sound, pairless=texts * 0.1))
    long = np.broadcast_to(0.7 * texts[:, None, None, None], stored["norm_correlation"].shape)
    assert "vectors are long" in trouble(changed(sound, norm_correlation=long))
    half = np.repeat(stored["contrast_weight"][:, None] / 2, 2, axis=1)
    assert "look like noise" in trouble(changed(sound, wins=half))
    even = np.full_like(stored["matched"], 50.0)
    distance = stored["distance_sum"] * 0 + sound.by_level * 10
    assert "no clustering by sentence" in trouble(changed(sound, matched=even))
    assert "all alike" in trouble(changed(sound, matched=even, distance_sum=distance))
    uniform = synthetic.block_sums(blocks=8, heads=6, length=48, rate=5.0)
    assert "nearly uniform" in trouble(uniform)


# ---------------------------------------------------------------------- specialists


def of_matched(log_ratio: np.ndarray, number: float, rng: np.random.Generator) -> BlockSums:
    """Heads whose repetition preferences are known, on blocks that vary."""
    matched = SOUND.stored["matched"].copy()
    rate = np.exp(log_ratio)
    varies = rng.gamma(20, 1 / 20, size=(20, 1, 1))
    matched[..., 1, 0] = rng.poisson(number * rate * varies)
    matched[..., 1, 1] = rng.poisson(number * varies, size=(20, 3, 6))
    return changed(SOUND, matched=matched)


def test_specialists_stand_out_from_their_own_layer() -> None:
    rng = np.random.default_rng(0)
    taste = np.array([[2.0], [0.0], [0.0]]) + np.array([[0.0] * 6, [1.0, 0, 0, 0, 0, 0], [0.0] * 6])
    table = of_sums(of_matched(taste, 200, rng), None, {"permuted": [of_matched(taste * 0, 200, rng)]})
    own = table[table["score"] == "repetition_preference"].set_index(["layer", "head"])
    assert list(own.index[own["what"] == "specialist"]) == [(1, 0)]  # a whole layer is no specialist
    assert own["out"][1, 0] == pytest.approx(1, abs=0.1)
    assert own["out_of_model"][0, 3] == pytest.approx(2, abs=0.2)
    assert (own["permuted"] < 0.1).all()
    assert farthest(own.reset_index(), 3) == "L1H0"


def test_few_heads_are_called_specialists_by_chance() -> None:
    rng = np.random.default_rng(1)
    called = []
    for _ in range(12):
        table = of_sums(of_matched(np.zeros((3, 6)), 40, rng), None, {})
        own = table[table["score"] == "repetition_preference"]
        called.append((own["what"] == "specialist").mean())
    assert np.mean(called) < 0.01


def test_specialists_take_eight_blocks() -> None:
    with pytest.raises(HeadscopeError, match="too few to tell heads from noise"):
        of_sums(synthetic.block_sums(blocks=7), None, {})


def test_a_head_alone_in_its_layer_stands_out_from_nothing() -> None:
    table = of_sums(synthetic.block_sums(heads=1), None, {})
    assert table["what"].isna().all()


def test_adjusted_p_values_are_those_of_the_definition() -> None:
    p = np.random.default_rng(3).random(40) ** 2
    order = np.sort(p)
    for value, found in zip(p, adjusted(p), strict=True):
        steps = [order[k] * 40 / (k + 1) for k in range(40) if order[k] >= value]
        assert found == pytest.approx(min(1, *steps))


# ---------------------------------------------------------------------- other texts, other thresholds


def test_stability_tells_heads_with_ways_of_their_own() -> None:
    table = stability(Run(SOUND))  # type: ignore[arg-type]
    assert (table["low"] <= table["agreement"]).all()
    assert (table["agreement"] <= table["high"]).all()
    own = table[table["score"] == "repetition_preference"]
    assert own["agreement"].iloc[-1] > 0.9
    assert own["agreement"].iloc[-1] >= own["agreement"].iloc[0]
    chance = table[table["score"] == "likeness"]  # drawn anew for every block
    assert chance["agreement"].iloc[0] < 0.5
    groups = by_groups(Run(SOUND))  # type: ignore[arg-type]
    assert set(groups["group"]) | set(groups["other"]) == {"a", "b"}
    assert groups["agreement"].between(-1, 1).all()
    with pytest.raises(HeadscopeError, match="one block"):
        stability(Run(synthetic.block_sums(blocks=1)))  # type: ignore[arg-type]


def test_sensitivity_is_the_findings_at_other_thresholds() -> None:
    sums = synthetic.block_sums(blocks=9)
    swept = sensitivity(sums, draws=20)
    assert swept.sizes == {"claim": 13, "threshold": len(SWEPT)}
    for tau in (0.1, 0.5, 0.9):
        numbers = Numbers(sums, Resampling(sums.windows, draws=20), tau)
        for key in ("2", "3", "4", "5", "8", "9"):
            row = swept.sel(claim=key).sel(threshold=tau, method="nearest")
            found = judge(claim(key), numbers).statistics[0]
            np.testing.assert_allclose([row.value, row.low, row.high], [found.value, found.low, found.high], rtol=1e-9)
            assert str(row.state.values) == found.state
    assert len(set(swept.sel(claim="7a").value.values.tolist())) == 1
    focus = QUANTITIES["stop_among_attended"]
    found = Numbers(sums, Resampling(sums.windows, draws=0), theta=0.4).by(focus, "third").value[2]
    assert float(swept.sel(claim="1a").sel(threshold=0.4, method="nearest").value) == pytest.approx(float(found))


def test_similarity_against_attention() -> None:
    sums = synthetic.block_sums(readings=("dot", "cosine", "values"))
    found = against_attention.of_sums(sums, Resampling(sums.windows, draws=20))
    assert list(found["way"].values) == ["dot", "cosine", "values", "direct", "rows"]
    wins, weight = sums.stored["attention_wins"].sum(0), sums.stored["contrast_weight"].sum(0)
    expected = np.median(wins[1, 2, :, 1] / weight[2, :, 1])
    assert float(found.value.sel(contrast="repeated", way="rows", layer=2)) == pytest.approx(expected)
    with pytest.raises(HeadscopeError, match="cross-attention"):
        against_attention.of_sums(synthetic.block_sums(cross=True), Resampling(sums.windows))


def test_a_layer_alone_has_the_numbers_it_has_among_all() -> None:
    numbers = Numbers(SOUND, Resampling(SOUND.windows, draws=5))
    one = Numbers(SOUND.layer(1), numbers.resample)
    for name in ("repetition_preference", "reach", "likeness", "focal_excess", "high_pairs"):
        every, own = numbers.by(QUANTITIES[name], "layer"), one.by(QUANTITIES[name], "layer")
        np.testing.assert_allclose([every.value[1], every.low[1]], [own.value[0], own.low[0]], rtol=1e-12)
