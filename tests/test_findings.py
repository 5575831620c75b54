"""Findings on every kind of result: never a division by zero, never a NaN without a reason, words that fit."""

from __future__ import annotations

import json
import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import headscope
from headscope.errors import HeadscopeError
from headscope.findings.claims import CLAIMS
from headscope.findings.floor import compared_with
from headscope.findings.resampling import Resampling
from headscope.findings.trouble import signs_of_trouble
from headscope.findings.verdicts import judge
from headscope.measures.block_sums import BlockSums
from headscope.measures.relations import RELATIONS

Tiny = Callable[[str], headscope.Model]
TEXTS = [p["text"] for p in headscope.passages()[:24]]
EVERYTHING = [(p["id"], p["text"], p["group"]) for p in headscope.passages()[:48:2]]


@pytest.fixture(scope="module")
def result(embedded: headscope.Model, tmp_path_factory: pytest.TempPathFactory) -> headscope.Result:
    out = tmp_path_factory.mktemp("findings") / "run"
    return headscope.analyze(embedded, EVERYTHING, out=out, per_text=True, progress=False, batch_size=8)


# ---------------------------------------------------------------------- any counts at all


@st.composite
def some_counts(draw: st.DrawFn) -> BlockSums:
    """Sums as odd as they can be: one block, one head, one layer, nothing similar, nothing at all."""
    blocks, layers, heads = (draw(st.integers(1, most)) for most in (24, 4, 3))
    distances, rng = draw(st.integers(1, 5)), np.random.default_rng(draw(st.integers(0, 10**6)))
    scale = draw(st.sampled_from([0, 0.2, 3, 1000]))
    every = rng.poisson(scale, size=(blocks, distances, len(RELATIONS)))
    if draw(st.booleans()):  # only some relations occur
        every[..., rng.permutation(len(RELATIONS))[:4]] = 0
    level = draw(st.sampled_from([0, 5, 20]))
    pairs = np.zeros((blocks, layers, heads, 21, distances, len(RELATIONS)), dtype=np.int64)
    for place in range(layers * heads):  # pairs fall into levels, the same pairs for every head
        k, h = divmod(place, heads)
        high = rng.binomial(every, rng.random())
        pairs[:, k, h, level], pairs[:, k, h, 0] = high, every - high
        if level == 0:
            pairs[:, k, h, 0] = every
    texts = rng.poisson(2, size=blocks).astype(float)
    pairless = np.minimum(rng.poisson(0.3, size=blocks), texts)
    flat = np.minimum(rng.poisson(0.3, size=(blocks, layers, heads)), (texts - pairless)[:, None, None])
    zeros = draw(st.booleans())

    def some(*shape: int) -> np.ndarray:
        return (
            np.zeros((blocks, *shape)) if zeros else rng.random((blocks, *shape)) * texts.reshape(-1, *[1] * len(shape))
        )

    stored = {
        "texts": texts, "unsplit": np.minimum(1.0, texts), "pairless": pairless, "tokens": some(5), "flat": flat,
        "diagonal": some(layers, heads), "attention": some(layers, heads, 5), "attention_even": some(layers, 5),
        "attended": some(layers, heads, 19, 5), "attended_text": some(layers, heads, 19, 5),
        "attention_correlation": some(layers, heads), "region_sum": some(layers, heads, 3),
        "region_pairs": np.rint(some(layers, heads, 3)), "mask_sum": some(layers, heads, 19, 3),
        "mask_pairs": np.rint(some(layers, heads, 19, 3)), "focal_unique": np.rint(some(layers, 19, heads + 1)),
        "focal_expected": some(layers, 19), "focal_share": some(layers, heads, 19),
        "focal_few": some(layers, heads, 19), "focal_frequency": some(layers, heads),
        "focal_distance": some(layers, heads),
    }  # fmt: skip
    return BlockSums(
        layers=tuple(range(layers)),
        depth=layers,
        heads=heads,
        groups=("",) * blocks,
        shards_of=tuple((k,) for k in range(blocks)),
        pairs=pairs.sum(2),
        stored=stored,
        layer_at=lambda k, taus: [pairs[:, k, :, round(tau * 20) + 1 :].sum(2).astype(float) for tau in taus],
    )


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(counts=some_counts(), tau=st.sampled_from([0.1, 0.5, 0.95]), theta=st.sampled_from([None, 0.3]))
@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_findings_never_divide_by_zero(counts: BlockSums, tau: float, theta: float | None) -> None:
    resample = Resampling(counts.windows, draws=25)
    for each in CLAIMS:
        found = judge(each, counts, resample, tau, theta)
        assert found.verdict in ("holds", "does not hold", "open", "no verdict")
        assert not math.isinf(found.value)
        assert (found.verdict == "no verdict") == bool(found.reason)
        if math.isnan(found.value):
            assert found.reason
        elif not found.reason:
            assert found.low <= found.high
        if counts.blocks < 8:
            assert found.verdict == "no verdict"
    for warning in signs_of_trouble(counts, tau):
        assert "nan" not in warning


def test_one_text_one_shard(embedded: headscope.Model) -> None:
    one = headscope.analyze(embedded, TEXTS[:1], progress=False)
    found = one.findings()
    assert {f.verdict for f in found} == {"no verdict"}
    assert "one block of texts" in found["1a"].reason
    assert math.isfinite(found["1a"].value)
    assert math.isnan(found["1a"].low)
    assert all(f.sentence for f in found)
    with pytest.raises(HeadscopeError, match="one block"):
        one.stability()
    with pytest.raises(HeadscopeError, match="too few"):
        one.specialists()


def test_texts_without_pairs(embedded: headscope.Model) -> None:
    nothing = headscope.analyze(embedded, ["a", "b", "c"], progress=False)
    found = nothing.findings()
    for f in found:
        if f.key == "1b":  # attention is there all the same
            assert math.isfinite(f.value)
        elif f.key != "1a":
            assert f.reason == "no window has two tokens to compare"
    assert any("no pair of tokens" in warning for warning in found.warnings)


def test_some_layers_only(embedded: headscope.Model) -> None:
    some = headscope.analyze(embedded, TEXTS[:8], layers=[0, 11], progress=False)
    found = some.findings(draws=50)
    assert found["3"].reason == "no layer of the middle third was read"
    assert math.isfinite(found["4"].value)


def test_a_model_without_closing_tokens(tiny: Tiny) -> None:
    found = headscope.analyze(tiny("gpt2"), TEXTS[:8], progress=False).findings(draws=50)
    assert found["1b"].verdict == "no verdict"
    assert found["1b"].reason == "there is no closing special token that could be read"


def test_cross_attention_has_no_mask(tiny: Tiny) -> None:
    result = headscope.analyze(tiny("t5"), TEXTS[:10], progress=False).stack("cross")
    found = result.findings(draws=50)
    assert "cross-attention" in found["6"].reason
    assert "cross-attention" in found["7"].reason
    with pytest.raises(HeadscopeError, match="another stack"):
        result.quantity("likeness")


# ---------------------------------------------------------------------- verdicts, words, tables


def test_findings_of_a_real_run(result: headscope.Result) -> None:
    found = result.findings()
    assert found["1b"].verdict == "holds"
    assert found["5"].verdict == "does not hold"
    assert "fewer than chance" in found["5"].sentence
    assert found["1a"].texts is not None
    assert found["2"].texts is None
    for each in found:
        assert each.low <= each.value <= each.high
        assert each.detectable >= each.bound
    told = json.loads(json.dumps(found.as_dict(), allow_nan=False))
    assert [f["key"] for f in told["findings"]] == [c.key for c in CLAIMS]
    table = found.table()
    assert list(table["verdict"]) == [f.verdict for f in found]
    assert "1a Final layers" in repr(found)
    with pytest.raises(KeyError):
        found["9"]


def test_the_seed_decides_the_interval(result: headscope.Result) -> None:
    a, b, c = (result.findings(seed=seed, draws=200)["4"] for seed in (0, 0, 1))
    assert (a.low, a.high) == (b.low, b.high)
    assert (a.low, a.high) != (c.low, c.high)
    assert a.value == c.value


def test_sensitivity_is_the_findings_at_other_thresholds(result: headscope.Result) -> None:
    swept = result.sensitivity(draws=100)
    assert swept.sizes == {"claim": 9, "threshold": 17}
    for tau in (0.1, 0.4, 0.9):
        found = result.findings(tau=tau, draws=100)
        for key in ("2", "3", "4", "5", "8"):
            row = swept.sel(claim=key).sel(threshold=tau, method="nearest")
            np.testing.assert_allclose(
                [row.value, row.low, row.high], [found[key].value, found[key].low, found[key].high], rtol=1e-9
            )
    own = swept.sel(claim="6").sel(threshold=0.3, method="nearest")
    assert float(own.value) == pytest.approx(result.findings(draws=100)["6"].value, rel=1e-9)
    assert len(set(swept.sel(claim="7").value.values.tolist())) == 1
    tokens = result.dataset["tokens"]
    attended = result.dataset["attended"].sel(layer=slice(8, 11)).isel(attention_threshold=9).sum(("layer", "head"))
    share = float(attended.sel(category="stop") / attended.sum()) / float(tokens.sel(category="stop") / tokens.sum())
    assert float(swept.sel(claim="1a").sel(threshold=0.5, method="nearest").value) == pytest.approx(share, rel=1e-9)


def test_stability(result: headscope.Result) -> None:
    table = result.stability()
    assert set(table["score"]) >= {"repetition_preference", "focal_token", "stop_focus"}
    assert (table["low"] <= table["agreement"]).all()
    assert (table["agreement"] <= table["high"]).all()
    focus = table[table["score"] == "stop_focus"]
    assert focus["agreement"].iloc[-1] > 0.9  # heads have their ways, whatever the text
    assert focus["agreement"].iloc[-1] >= focus["agreement"].iloc[0]
    groups = result.group_agreement()
    assert set(groups["group"]) | set(groups["other"]) == set(result.groups)
    assert groups["agreement"].between(-1, 1).all()


def test_texts_show_effects_on_their_own(result: headscope.Result) -> None:
    import pandas as pd

    rows = pd.read_parquet(result.file.parent / "heads.parquet")
    found = result.findings(draws=50)
    final = rows[rows["layer"] >= 8]
    by_text = final.groupby("text")
    assert found["1a"].texts == pytest.approx(float((by_text["stop_focus"].mean() > 1.1).mean()))
    assert found["4"].texts is None  # one text has too few pairs to match them by distance
    weight = final["high_pairs"]
    ratio = (final["stop_share"] * weight).groupby(final["text"]).sum()
    ratio = ratio / (final["stop_expected"] * weight).groupby(final["text"]).sum()
    assert found["8"].texts == pytest.approx(float((ratio > 1.1).mean()))
    excess = []
    for _, text in rows.groupby("text"):
        different = text[text["focal_id"] >= 0].groupby("layer")["focal_id"].nunique().mean()
        excess.append(different - text["focal_expected"].mean())
    assert found["5"].texts == pytest.approx(float((np.array(excess) > 0.25).mean()))
    assert found["7"].texts == pytest.approx(float((1 - rows.groupby("text")["likeness"].mean() > 0.5).mean()))


@pytest.fixture(scope="module")
def untrained() -> list[headscope.Result]:
    return [headscope.analyze(None, TEXTS[:3], control=f"untrained:{k}", progress=False) for k in (0, 1, 2)]


def test_what_untrained_models_do(result: headscope.Result, untrained: list[headscope.Result]) -> None:
    assert untrained[0].model["weights"] != untrained[1].model["weights"]
    assert untrained[0].model["config"] == result.model["config"]
    found = result.findings(controls=untrained, draws=100)
    focus = found["1b"].untrained
    assert focus is not None
    assert focus.learned == "more"
    assert focus.mean == pytest.approx(1, abs=0.05)  # nothing learned: attention is spread evenly
    assert "learning added" in found["1b"].sentence
    assert found.table()["learned"].iloc[1] == "more"


def test_untrained_models_to_which_all_pairs_are_alike_have_nothing_to_compare(
    result: headscope.Result, untrained: list[headscope.Result]
) -> None:
    found = result.findings(controls=untrained, draws=50)
    assert found["5"].untrained is not None
    assert found["5"].untrained.values == ()
    assert "nothing to compare" in found["5"].sentence
    assert found["1a"].untrained is not None
    assert len(found["1a"].untrained.values) == 3


def test_blocks_without_windows_change_nothing() -> None:
    x, sizes = np.array([3.0, 5.0, 4.0, 8.0, 6.0, 1.0, 2.0, 9.0]), np.ones(8)
    mean = lambda total, number: total / number  # noqa: E731
    one = Resampling(sizes)(mean, x, sizes)
    zeros = np.zeros(4)
    other = Resampling(np.append(sizes, zeros))(mean, np.append(x, zeros), np.append(sizes, zeros))
    assert float(one.error) == pytest.approx(float(other.error))
    assert float(one.low) == pytest.approx(float(other.low))


def test_few_and_unequal_blocks_keep_their_coverage() -> None:
    rng, covered, number = np.random.default_rng(1), 0, 400
    for _ in range(number):
        sizes = rng.integers(1, 12, size=12).astype(float)
        totals = np.array([rng.gamma(2.0, size=int(n)).sum() for n in sizes])
        found = Resampling(sizes)(lambda total, n: total / n, totals, sizes)
        covered += bool(found.low <= 2.0 <= found.high)
    assert 0.9 <= covered / number <= 0.98  # skewed, and blocks that differ tenfold


@pytest.mark.parametrize(
    ("values", "low", "high", "learned"),
    [
        ([1.0, 1.1, 0.9], 1.8, 2.0, "more"),
        ([1.0, 1.1, 0.9], 0.1, 0.2, "less"),
        ([1.0, 1.1, 0.9], 1.1, 1.9, "nothing"),
        ([1.0], 1.8, 2.0, ""),
        ([], 1.8, 2.0, ""),
        ([1.0, 1.1], math.nan, math.nan, ""),
    ],
)
def test_what_learning_added(values: list[float], low: float, high: float, learned: str) -> None:
    assert compared_with(values, low, high).learned == learned
