"""Findings of real runs: from texts to verdicts, what is kept beside them, and what single texts show."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import headscope
from headscope.errors import HeadscopeError
from headscope.findings import CLAIMS, verdicts
from headscope.findings.single_texts import different
from headscope.measures.quantities import QUANTITIES
from headscope.measures.view import View
from headscope.result.blocks import total_sums
from runs import run

Tiny = Callable[[str], headscope.Model]
TEXTS = [p["text"][: 150 + 9 * k] for k, p in enumerate(headscope.passages()[:24])]  # ragged


@pytest.fixture(scope="module")
def result(tiny: Tiny, tmp_path_factory: pytest.TempPathFactory) -> headscope.Result:
    """A model of six layers, with rows per text."""
    out = tmp_path_factory.mktemp("findings") / "run"
    return run(tiny("distilbert"), TEXTS, out=out, per_text=True, window=48, shard_size=2)


def test_findings_of_a_real_run(result: headscope.Result) -> None:
    found = result.findings(draws=50)
    assert [each.key for each in found] == [claim.key for claim in CLAIMS]
    for each in found:
        assert each.sentence
        assert math.isfinite(each.value) or each.reason
    assert found.blocks == 12
    assert found.windows == 24
    told = json.loads(json.dumps(found.as_dict(), allow_nan=False))
    assert [each["key"] for each in told["findings"]] == [claim.key for claim in CLAIMS]


def test_blocks_add_up_to_the_whole(result: headscope.Result) -> None:
    """Every quantity from the blocks is what it is from the sums over all texts, in every way it can be read."""
    blocks, whole = result.blocks, total_sums(result)
    assert blocks.blocks == 12
    for quantity in QUANTITIES.values():
        for way in quantity.ways(blocks):
            ours, theirs = (quantity.value(View(sums, reading=way), "layer") for sums in (blocks, whole))
            np.testing.assert_allclose(ours, theirs, rtol=1e-9, err_msg=f"{quantity.name} by {way}")


def test_findings_are_kept_beside_the_result(result: headscope.Result, monkeypatch: pytest.MonkeyPatch) -> None:
    first = result.findings(draws=31)
    with monkeypatch.context() as patch:
        patch.setattr(verdicts, "judge", None)  # nothing is worked out again
        again = headscope.Result.open(result.file).findings(draws=31)
        with pytest.raises(TypeError):
            result.findings(draws=32)
    assert repr(again.items) == repr(first.items)
    assert again.as_dict() == first.as_dict()
    swept, same = result.sensitivity(draws=9), result.sensitivity(draws=9)
    assert swept.broadcast_equals(same)
    for name in ("value", "low", "high"):
        np.testing.assert_array_equal(swept[name], same[name])
    assert swept["state"].values.tolist() == same["state"].values.tolist()


def test_the_seed_decides_the_interval(result: headscope.Result) -> None:
    a, b = (result.findings(seed=seed, draws=40)["3"] for seed in (0, 1))
    assert (a.low, a.high) != (b.low, b.high)
    assert a.value == b.value


def test_texts_show_effects_on_their_own(result: headscope.Result) -> None:
    rows = pd.read_parquet(result.file.parent / "heads.parquet")
    found = result.findings(draws=20)
    final = rows[rows["layer"] >= 2 * result.blocks.depth // 3]
    shares = {}
    for key, column in (("1a", "separator_focus_stop"), ("4", "sentence_preference"), ("8", "separator_similarity")):
        own = final.groupby("text")[column]
        known = own.count() >= final.groupby("text").size() / 2
        values = own.apply(lambda each: np.exp(np.log(each).median()))[known]
        shares[key] = float((values > 1.1).mean()) if len(values) else None
    by_layer = rows.groupby(["text", "layer"])
    likeness = by_layer["likeness"].median().groupby("text").mean()
    shares["7a"] = float((1 - likeness > 0.5).mean())
    shares["6"] = float((by_layer["mask_auc"].median().groupby("text").mean() > 0.55).mean())
    unique, null = (by_layer[name].apply(lambda each: len(set(each) - {-1})) for name in ("focal", "focal_null"))
    excess = ((unique - null) / result.blocks.heads).groupby("text").mean()
    shares["5"] = float((excess > 0.02).mean())
    for key, share in shares.items():
        assert found[key].texts == (None if share is None else pytest.approx(share)), key
    for key in ("2", "7b", "7c", "9"):
        assert found[key].texts is None
    assert result.findings(tau=0.6, draws=20)["1a"].texts is None  # rows are of the run's own τ


def test_different_ids_are_counted() -> None:
    ids = np.random.default_rng(0).integers(-1, 4, size=(50, 6)).astype(float)
    for row, number in zip(ids, different(ids), strict=True):
        assert number == len(set(row) - {-1})


def test_one_text(tiny: Tiny) -> None:
    one = run(tiny("distilbert"), TEXTS[:1], window=48)
    found = one.findings()
    assert {each.verdict for each in found} == {"no verdict"}
    assert "1 block of texts" in found["1a"].reason
    assert math.isfinite(found["1b"].value)
    with pytest.raises(HeadscopeError, match="one block"):
        one.stability()
    with pytest.raises(HeadscopeError, match="too few"):
        one.specialists()


def test_texts_without_pairs(tiny: Tiny) -> None:
    found = run(tiny("distilbert"), ["a", "b", "c"]).findings(draws=20)
    for each in found:
        if each.key == "1b":  # attention is there all the same
            assert math.isfinite(each.value)
        elif each.key != "1a":
            assert each.statistics[0].why == "no window has two tokens to compare"
    assert any("no pair of tokens" in warning for warning in found.warnings)


def test_some_layers_only(tiny: Tiny) -> None:
    model = tiny("distilbert")
    last = run(model, TEXTS[:1], window=48).dataset.sizes["layer"] - 1
    found = run(model, TEXTS[:8], layers=[0, last], window=48, shard_size=1).findings(draws=20)
    assert found["9"].statistics[0].why == "no layer of the middle third was read"
    assert math.isfinite(found["1a"].value)


def test_a_model_without_closing_tokens(tiny: Tiny) -> None:
    found = run(tiny("gpt2"), TEXTS[:8], window=48, shard_size=1).findings(draws=20)
    assert found["1b"].verdict == "open"
    assert found["1b"].statistics[0].why == "there are no closing special tokens that could be read"


def test_cross_attention_has_no_maps_to_compare_with(tiny: Tiny) -> None:
    result = run(tiny("t5"), TEXTS[:8], window=48, shard_size=1).stack("cross")
    found = result.findings(draws=20)
    for key in ("6", "7a", "7b", "7c"):
        assert found[key].verdict == "open"
        assert "cross-attention" in found[key].sentence
    with pytest.raises(HeadscopeError, match="cross-attention"):
        result.quantity("likeness")


def test_another_reading_first(tiny: Tiny, tmp_path: Path) -> None:
    found = run(tiny("distilbert"), TEXTS[:8], window=48, shard_size=1, readings=["cosine", "dot"]).findings(draws=20)
    assert {each.verdict for each in found} == {"no verdict"}
    assert "the main reading is cosine" in found.unread
