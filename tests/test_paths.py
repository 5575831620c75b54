"""Who counts: a run takes the path that is asked for, or the fastest, says so, and the numbers are the same."""

from __future__ import annotations

import copy
import json
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch
from transformers import BertConfig, BertModel, GPT2Config, GPT2Model

import headscope
from cuda_on_cpu import cpu_kernels
from headscope.choices import COMPILED, CUDA, CUDA_EAGER, Choices
from headscope.errors import HeadscopeError
from headscope.measures.cuda import slab_layers
from headscope.measures.cuda.accumulator import CudaAccumulator
from headscope.runs import paths
from runs import TEXTS, Counting, Tiny, run, same_bytes, stop_after


def same_numbers(one: headscope.Result, other: headscope.Result) -> None:
    """Counts but for pairs within rounding of an edge, sums but for what those add to them."""
    for name in one.dataset.data_vars:
        x, y = one.dataset[name].values, other.dataset[name].values
        if x.dtype.kind in "iu":
            assert np.abs(x - y).sum() <= 1e-4 * max(np.abs(y).sum(), 1), name
        elif x.dtype.kind == "f":
            np.testing.assert_allclose(x, y, rtol=1e-3, atol=1e-3 * max(np.nanmax(np.abs(y)), 1), err_msg=name)


@pytest.fixture
def on_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """The card's kernels, compiled for the CPU."""
    for path in (CUDA, CUDA_EAGER):
        monkeypatch.setitem(paths.PATHS, path, partial(CudaAccumulator, kernels=cpu_kernels))
    monkeypatch.setattr(paths, "cuda_lacks", lambda device, choices: "")
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (9, 0))


def test_a_chip_without_room_for_many_readings_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paths, "installed", lambda package: True)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (8, 9))
    small = SimpleNamespace(shared_memory_per_block_optin=99 << 10)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: small)
    card, four = torch.device("cuda"), ("dot", "cosine", "centred", "values")
    assert paths.cuda_lacks(card, Choices(window=512)) == ""
    assert paths.cuda_lacks(card, Choices(window=128, readings=four)) == ""
    path, why = paths.choose_path(None, card, Choices(window=512, readings=four))
    assert path == COMPILED
    assert why.startswith(
        "the graphics card lets a block have 99 KB of memory on the chip, and 4 readings of windows of 512"
    )


@pytest.mark.usefixtures("on_the_cpu")
def test_every_path_gives_the_same_numbers(tiny: Tiny, tmp_path: Path) -> None:
    options = {"window": 24, "shard_size": 3, "per_text": True}
    own = [path for path in paths.PATHS if path != CUDA]  # which takes queries and keys of 16 bits
    compiled, torch_, cuda = (run(tiny("gpt2"), TEXTS[:6], out=tmp_path / path, path=path, **options) for path in own)
    same_numbers(torch_, compiled)
    same_numbers(cuda, compiled)
    for path in own:
        assert json.loads((tmp_path / path / "run.json").read_text())["plan"]["path"] == path
    rows = [pd.read_parquet(tmp_path / path / "heads.parquet") for path in ("compiled", CUDA_EAGER)]
    for column in ("separator_focus_stop", "mean_distance", "separation_repeated", "likeness"):
        np.testing.assert_allclose(rows[0][column], rows[1][column], rtol=1e-3, atol=1e-3, err_msg=column)


@pytest.mark.usefixtures("on_the_cpu")
def test_attention_that_is_computed_gives_the_numbers_of_attention_that_is_given(folder: Path) -> None:
    model = headscope.load(folder, dtype="bfloat16")
    computed, given = (run(model, TEXTS[:6], window=24, path=path).dataset for path in (CUDA, CUDA_EAGER))
    assert model.network.config._attn_implementation == "eager"  # as it was
    for name in ("attention", "attention_entropy", "attention_weighted", "attention_correlation", "attention_wins"):
        x, y = computed[name].values, given[name].values  # the model's own are rounded to three digits
        np.testing.assert_allclose(x, y, rtol=0.03, atol=0.03 * np.abs(y).max(), err_msg=name)
    for name in ("texts", "base_pairs", "position_pairs"):
        np.testing.assert_array_equal(computed[name].values, given[name].values)


@pytest.mark.usefixtures("on_the_cpu")
@pytest.mark.parametrize("batch", [1, 4])  # one window has no padding, so that a model needs no mask, or one for all
@pytest.mark.parametrize("kind", ["gpt2", "bert"])
def test_runs_of_long_windows_give_the_same_numbers(
    kind: str, batch: int, tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the model's precision, from queries and keys, slab by slab."""
    monkeypatch.setattr(slab_layers, "NUMBERS_OF_SLAB", 1)  # as few rows as can be
    tokenizer = copy.deepcopy(tiny("gpt2").tokenizer)
    tokenizer.model_max_length = 640
    # Weights are large enough that attention is not even, where correlations would be of what is rounded.
    size = {"vocab_size": len(tokenizer), "attn_implementation": "eager", "initializer_range": 0.3}
    torch.manual_seed(0)
    network = (
        GPT2Model(GPT2Config(n_embd=32, n_layer=2, n_head=4, n_positions=640, **size))
        if kind == "gpt2"
        else BertModel(BertConfig(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64,
                                  max_position_embeddings=640, **size))
    )  # fmt: skip
    model = headscope.load(network.eval(), tokenizer)
    texts = [*TEXTS[:2], " ".join(TEXTS[:4])]
    options = {"window": 600, "batch_size": batch, "shard_size": 3}
    computed = run(model, texts, out=tmp_path / "a", path=CUDA, **options)
    given = run(model, texts, out=tmp_path / "b", path=COMPILED, **options)
    assert computed.dataset.top_pairs.values.any()
    same_numbers(computed, given)


@pytest.mark.usefixtures("on_the_cpu")
def test_why_attention_is_not_computed(tiny: Tiny) -> None:
    with pytest.raises(HeadscopeError, match=r"16 bits, not of float32.*cuda-eager"):
        run(tiny("gpt2"), TEXTS[:2], path=CUDA)


@pytest.mark.usefixtures("on_the_cpu")
def test_a_run_goes_on_along_its_own_path(tiny: Tiny, tmp_path: Path) -> None:
    options = {"window": 16, "shard_size": 2}
    whole = run(tiny("gpt2"), TEXTS[:6], path="torch", **options)
    stop_after(tiny("gpt2"), TEXTS[:6], tmp_path / "run", shards=2, path="torch", **options)
    with pytest.raises(HeadscopeError, match=r"path: .*torch.*, and .*compiled"):
        run(tiny("gpt2"), TEXTS[:6], out=tmp_path / "run", path="compiled", **options)
    same_bytes(whole, run(tiny("gpt2"), TEXTS[:6], out=tmp_path / "run", **options))


def test_a_path_that_cannot_be_taken(tiny: Tiny) -> None:
    for path, said in (("cuda", "not on a graphics card"), ("abacus", "use one of compiled, torch, cuda, cuda-eager")):
        with pytest.raises(HeadscopeError, match=said):
            run(tiny("gpt2"), TEXTS[:2], path=path)


def test_what_the_card_does_not_count_is_counted_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    card = torch.device("cuda")
    path, why = paths.choose_path(None, card, Choices(scale="rank"))
    assert (path, "by rank" in why, "far longer" in why) == ("compiled", True, True)
    monkeypatch.setattr(paths, "installed", lambda name: False)
    assert "headscope[cuda]" in paths.choose_path(None, card, Choices())[1]
    monkeypatch.setattr(paths, "installed", lambda name: True)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (6, 1))
    assert "too old" in paths.choose_path(None, card, Choices())[1]
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (9, 0))
    monkeypatch.setattr(
        torch.cuda, "get_device_properties", lambda device: SimpleNamespace()
    )  # which torch did not tell
    assert paths.choose_path(None, card, Choices()) == ("cuda", "")
    assert paths.choose_path(None, card, Choices(), lambda: "a sink") == ("cuda-eager", "")


def test_why_another_path_is_taken_is_said_once(tiny: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headscope.runs.local_engine.choose_path", lambda *args: ("compiled", "the card is on fire"))
    shown = Counting()
    run(tiny("gpt2"), TEXTS[:6], window=16, shard_size=2, progress=shown)
    assert shown.said.count("the card is on fire") == 1
