"""Every derived quantity and every claim against a second implementation written from docs/method.md."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

import headscope
import naive_findings as naive
from headscope.findings import QUANTITIES
from headscope.findings.claims import CLAIMS
from headscope.findings.resampling import Resampling

TEXTS = [p["text"][: 90 + 17 * k] for k, p in enumerate(headscope.passages()[:24])]  # ragged
CASES = ("roberta", "distilbert", "gpt2", "llama-no-start", "mistral", "t5")
OF_PAIRS = ("distance", "sentence_preference", "repetition_preference", "separator_similarity", "reach_within",
            "across_rate", "noise_rate")  # fmt: skip
SIGNALS = {"sentence": ("sentence",), "repeated": ("repeated",), "all": ("sentence", "repeated", "both")}
Tiny = Callable[[str], headscope.Model]


@pytest.fixture(scope="module", params=CASES)
def result(request: pytest.FixtureRequest, tiny: Tiny) -> headscope.Result:
    return headscope.analyze(
        tiny(request.param), TEXTS, window=48, shard_size=2, batch_size=3, threads=2, progress=False
    )


@pytest.mark.parametrize("tau", [0.5, pytest.param(0.3, marks=pytest.mark.long)])
def test_quantities_of_pairs(result: headscope.Result, tau: float) -> None:
    for stack in map(result.stack, result.stacks):
        data = stack.dataset
        layers = [int(layer) for layer in data["layer"].values]
        by = {name: stack.quantity(name, tau=tau, draws=0) for name in OF_PAIRS}
        by_head = {name: stack.quantity(name, by="head", tau=tau, draws=0) for name in OF_PAIRS}
        thirds = {name: stack.quantity(name, by="third", tau=tau, draws=0) for name in OF_PAIRS}
        whole = {name: stack.quantity(name, by="model", tau=tau, draws=0) for name in OF_PAIRS}
        for name in OF_PAIRS:
            same(whole[name].value, getattr(naive.Table(data, layers, tau), name)())
            for place, own in zip(("early", "middle", "final"), naive.thirds(len(layers)), strict=True):
                if own:
                    same(thirds[name].value.sel(third=place), getattr(naive.Table(data, own, tau), name)())
            for layer in layers:
                table = naive.Table(data, [layer], tau)
                same(by[name].value.sel(layer=layer), getattr(table, name)())
                one = naive.Table(data, [layer], tau, [1])
                same(by_head[name].value.sel(layer=layer, head=1), _or_nan(getattr(one, name)))


def test_separation(result: headscope.Result) -> None:
    data = result.dataset
    for signal, relations in SIGNALS.items():
        found = result.quantity(f"separation_{signal}", draws=0)
        for layer in data["layer"].values:
            same(found.value.sel(layer=layer), naive.Table(data, [int(layer)], 0.5).separation(relations))


def test_quantities_of_attention_and_focal_tokens(result: headscope.Result) -> None:
    for stack in map(result.stack, result.stacks):
        data = stack.dataset
        layers = [int(layer) for layer in data["layer"].values]
        for category in ("stop", "end"):
            found = stack.quantity(f"{category}_focus", draws=0)
            for layer in layers:
                same(found.value.sel(layer=layer), naive.focus(data, [layer], category))
        unique, excess = stack.quantity("focal_unique", draws=0), stack.quantity("focal_excess", draws=0)
        for layer in layers:
            number, expected = naive.focal(data, layer, 0.5)
            same(unique.value.sel(layer=layer), number)
            same(unique.base.sel(layer=layer), expected)
            same(excess.value.sel(layer=layer), number - expected)
            same(stack.quantity("focal_expected", draws=0).value.sel(layer=layer), expected)
        high, flat = (stack.quantity(name, by="head", draws=0).value for name in ("high_pairs", "flat"))
        for layer in layers:
            same(
                high.sel(layer=layer, head=1), float(data["pairs"].sel(layer=layer, head=1, level=range(11, 21)).sum())
            )
            same(flat.sel(layer=layer, head=1), float(data["flat"].sel(layer=layer, head=1)))
        for name in ("focal_share", "focal_frequency", "focal_distance"):
            found = stack.quantity(name, by="head", draws=0)
            total = data[name].isel(threshold=9) if name == "focal_share" else data[name]
            for layer in layers:
                share = float(total.sel(layer=layer, head=0)) / naive.windows(data, layer, 0)
                same(found.value.sel(layer=layer, head=0), share)
        if stack.name != "cross":
            for layer in layers:
                same(stack.quantity("likeness", draws=0).value.sel(layer=layer), naive.likeness(data, layer))
                same(stack.quantity("mask_contrast", draws=0).value.sel(layer=layer), naive.contrast(data, layer))


def test_claims(result: headscope.Result) -> None:
    for stack in map(result.stack, result.stacks):
        data, cross = stack.dataset, stack.name == "cross"
        layers = [int(layer) for layer in data["layer"].values]
        early, middle, final = naive.thirds(len(layers))
        focal = [naive.focal(data, layer, 0.5) for layer in layers]
        last = naive.Table(data, final, 0.5)
        expected = {
            "1a": naive.focus(data, final, "stop"),
            "1b": naive.focus(data, final, "end"),
            "2": naive.specialisation(stack.shards.load(), 0.5),
            "4": last.sentence_preference(),
            "5": sum(a - b for a, b in focal) / len(focal),
            "8": last.separator_similarity(),
        }
        if early and middle:
            expected["3"] = naive.Table(data, early, 0.5).distance() - naive.Table(data, middle, 0.5).distance()
        if not cross:
            expected["6"] = sum(naive.contrast(data, layer) for layer in layers) / len(layers)
            expected["7"] = 1 - sum(naive.likeness(data, layer) for layer in layers) / len(layers)
        for found in stack.findings(draws=50):
            if found.key in expected:
                same(found.value, expected[found.key])
            else:
                assert math.isnan(found.value)
            assert math.isfinite(found.value) or found.reason
            assert found.verdict != "no verdict" or found.reason


def test_every_quantity_is_here() -> None:
    tested = {*OF_PAIRS, "stop_focus", "end_focus", "focal_unique", "focal_excess", "focal_share", "focal_frequency",
              "focal_distance", "likeness", "mask_contrast", "focal_expected", "high_pairs", "flat",
              *(f"separation_{s}" for s in SIGNALS)}  # fmt: skip
    assert tested == set(QUANTITIES)
    assert [claim.key for claim in CLAIMS] == ["1a", "1b", "2", "3", "4", "5", "6", "7", "8"]


def test_the_mean_matrix_and_the_distances(result: headscope.Result) -> None:
    data = result.dataset
    mean = result.mean_matrix().values
    pairs = data["position_pairs"].values
    i, j = np.argwhere(pairs)[-1]
    same(mean[0, 1, i, j], float(data["similarity_sum"].values[0, 1, i, j]) / int(pairs[i, j]))
    assert np.isnan(mean[0, 0][pairs == 0]).all()
    found = result.distance_distribution(draws=60)
    table = naive.Table(data, [int(data["layer"].values[0])], 0.5)
    for d in (1, 5):
        at, every = (sum(n for (e, _), n in t.items() if e == d) / sum(t.values()) for t in (table.high, table.every))
        same(found.value.isel(layer=0).sel(distance=d), at)
        same(found.base.isel(layer=0).sel(distance=d), every)
    assert (found.low <= found.high).all()


def test_the_jackknife_is_the_textbook_one() -> None:
    x = np.array([3.0, 5.0, 4.0, 8.0, 6.0, 1.0, 2.0, 9.0, 7.0])
    found = Resampling(np.ones(9))(lambda total, number: total / number, x, np.ones(9))
    error = x.std(ddof=1) / 3
    same(found.error, error)
    same(found.high - found.value, 2.306004135 * error)


def test_the_bootstrap_of_a_mean_has_its_standard_error() -> None:
    x = np.random.default_rng(0).normal(size=64)
    found = Resampling(np.ones(64), draws=20_000)(lambda total, number: total / number, x, np.ones(64))
    assert float(found.error) == pytest.approx(x.std() / 8, rel=0.03)
    wide = 1.998 * np.sqrt(64 / 63) * x.std() / 8  # Student's t with 63 degrees of freedom
    assert float(found.high - found.low) == pytest.approx(2 * wide, rel=0.04)


def same(mine: object, theirs: float) -> None:
    np.testing.assert_allclose(float(mine), theirs, rtol=1e-9, atol=1e-12)  # type: ignore[arg-type]


def _or_nan(function: Callable[[], float]) -> float:
    try:
        return function()
    except ZeroDivisionError:
        return math.nan
