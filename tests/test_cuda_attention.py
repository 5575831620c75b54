"""Attention that the kernels compute from queries and keys, against torch's softmax; maps with and without tiles."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pytest
import torch

import headscope
from cuda_on_cpu import CpuKernels, cpu_kernels
from headscope.choices import Choices
from headscope.measures.batch_index import index_of
from headscope.measures.cuda import tile_layers
from headscope.measures.cuda.accumulator import CudaAccumulator
from headscope.measures.cuda.device_batch import DeviceBatch, arrays_of
from headscope.measures.variables import Shape
from headscope.models.plain import plain_attention
from headscope.tap import LayerHeads, Scores
from headscope.windows import WindowBatch, corpus_windows
from headscope.windows.window import END
from made_up_layers import LENGTH, Heads, feed, shapes, windows_of
from test_corpus_numbers import TEXTS

HEADS, GROUPS = 4, 2


@pytest.mark.parametrize("width", [16, 40, 100])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("causal", [False, True])
def test_computed_attention_gives_the_sums_of_given_attention(
    width: int, dtype: torch.dtype, causal: bool, embedded: headscope.Model
) -> None:
    same_sums(width, dtype, causal, {}, embedded)


@pytest.mark.parametrize(
    "chosen",
    [
        {"readings": ("dot",)},
        {"readings": ("cosine", "dot"), "tau": 0.7},
        {"special": True, "theta": 0.6, "relations": {"first_letter": lambda window: [t[:1] for t in window.tokens]}},
    ],
    ids=["one reading", "cosine first", "own relations"],
)
def test_it_does_whatever_is_chosen(chosen: dict[str, Any], embedded: headscope.Model) -> None:
    same_sums(32, torch.bfloat16, False, chosen, embedded)


@pytest.mark.parametrize("causal", [False, True])
def test_as_many_tokens_as_there_is_room_for(causal: bool, embedded: headscope.Model) -> None:
    same_sums(72, torch.bfloat16, causal, {}, embedded, length=128, value_width=136)


def test_levels_of_outputs_that_are_nearly_nothing(embedded: headscope.Model) -> None:
    """20 over the largest S is infinite here: zeros are no levels below zero."""
    same_sums(16, torch.bfloat16, False, {}, embedded, of_outputs=2.0**-66, only="pairs")


def test_sums_over_masks_of_outputs_that_are_nearly_nothing(embedded: headscope.Model) -> None:
    """What S is multiplied with, so that it fits into 16 bits, would be infinite here."""
    same_sums(16, torch.bfloat16, False, {}, embedded, of_outputs=2.0**-62, only="mask_sum")


@pytest.mark.parametrize("order", [0, 1, 2])
def test_windows_that_follow_each_other_in_a_block(
    order: int, embedded: headscope.Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One without pairs and one that is flat among them: what was found before is put away once, and as it was."""
    monkeypatch.setattr(CpuKernels, "processors", 1)
    monkeypatch.setattr(CpuKernels, "order", order)
    texts = [*TEXTS[:4], "One", "Two words.", *TEXTS[4:], "Here it is flat.", TEXTS[0], "And one more after it."]
    same_sums(16, torch.bfloat16, False, {}, embedded, length=24, texts=texts, flat=texts.index("Here it is flat."))


def test_windows_of_one_length_need_no_mask(embedded: headscope.Model) -> None:
    texts = [" ".join([*TEXTS[k:], *TEXTS[:k]]) * 2 for k in range(3)]
    same_sums(32, torch.bfloat16, False, {}, embedded, texts=texts, masked=False)


def test_what_a_window_without_pairs_has_is_in_no_sum(embedded: headscope.Model) -> None:
    cut = windows_of(embedded, ["One", TEXTS[0]])
    rng = torch.Generator().manual_seed(2)
    tokens = max(map(len, cut))
    vectors = [torch.randn(2, 2, tokens, 16, generator=rng).bfloat16() for _ in range(4)]
    vectors[3][0] = torch.inf
    queries, keys, values, outputs = vectors
    readable = torch.arange(tokens) < torch.tensor([len(window) for window in cut])[:, None, None, None]
    shape = {"encoder": Shape((0,), 2, LENGTH, (), readings=("dot",))}
    accumulator = CudaAccumulator(shape, Choices(window=LENGTH, readings=("dot",)), kernels=cpu_kernels)
    sink = accumulator.begin(WindowBatch(tuple(cut)))
    sink.layer(LayerHeads("encoder", 0, "", outputs, None, values, readable, Scores(queries, keys, 0.25)))
    sink.finish()
    assert np.isfinite(accumulator.sums()["encoder"]["similarity_sum"]).all()


def test_without_values_nothing_is_said_of_them(embedded: headscope.Model) -> None:
    same_sums(16, torch.bfloat16, False, {}, embedded, value_width=0)


def test_a_card_with_less_memory_on_the_chip_counts_the_same(
    embedded: headscope.Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Most cards let a block have 99 KB, where tiles take 115."""
    monkeypatch.setattr(CpuKernels, "most_shared", 99 << 10)
    same_sums(32, torch.bfloat16, False, {}, embedded)


def same_sums(
    width: int, dtype: torch.dtype, causal: bool, chosen: dict[str, Any], embedded: headscope.Model,
    length: int = 40, value_width: int = 8, of_outputs: float = 1.0, only: str = "",
    texts: list[str] | None = None, flat: int | None = None, masked: bool = True,
) -> None:  # fmt: skip
    """Attention that is computed gives the sums of the same attention given; counts of S are equal.

    `flat`: the number of a window whose outputs are zeros. Without `masked` every window has the same length.
    """
    texts = texts or [f"{TEXTS[0]} {TEXTS[1]} " * (1 + length // 40), "Two words.", TEXTS[2]]
    cut = [corpus_windows(text, embedded.tokenizer, embedded.template, length=length)[0] for text in texts]
    batch, tokens = WindowBatch(tuple(cut)), max(map(len, cut))
    torch.manual_seed(width)
    size = len(cut)
    queries = torch.randn(size, tokens, HEADS, width).to(dtype).transpose(1, 2)  # laid out as models do
    keys = torch.randn(size, tokens, GROUPS, width).to(dtype).transpose(1, 2)
    outputs = (of_outputs * torch.randint(-3, 4, (size, HEADS, tokens, 8))).to(dtype)
    if flat is not None:
        outputs[flat] = 0
    values = torch.randint(-2, 3, (size, GROUPS, tokens, value_width)).to(dtype) if value_width else None
    readable = torch.arange(tokens) < torch.tensor([len(window) for window in cut])[:, None, None, None]
    if causal:
        readable = readable & torch.ones(tokens, tokens, dtype=torch.bool).tril()
    assert masked or readable.all()
    asked = readable if masked else None
    scaling = 2.0 * width**-0.5
    scores = queries.float() @ keys.float().repeat_interleave(HEADS // GROUPS, dim=1).transpose(-1, -2) * scaling
    sums = []
    for weights in (plain_attention(scores, asked), None):
        relations = chosen.get("relations", {})
        choices = Choices(window=length, **{name: each for name, each in chosen.items() if name != "relations"})
        shape = {"encoder": Shape((0,), HEADS, length, tuple(relations), readings=choices.readings)}
        accumulator = CudaAccumulator(shape, choices, kernels=cpu_kernels, relations=relations)
        sink = accumulator.begin(batch)
        given = None if weights is not None else Scores(queries, keys, scaling)
        sink.layer(LayerHeads("encoder", 0, "", outputs, weights, values, asked, given))
        sink.finish()
        sums.append(accumulator.sums()["encoder"])
    for name, expected in sums[0].items():
        if only not in ("", name):
            continue
        if name.startswith("attention") and "wins" not in name:  # those go by bins, and bins by the last digits
            np.testing.assert_allclose(sums[1][name], expected, rtol=1e-5, atol=1e-6, err_msg=name)
        elif not name.startswith(("attention", "mask", "attended", "wins", "contrast")):
            exact = expected.dtype.kind == "i" or choices.readings[0] == "dot"  # whose products are whole numbers here
            np.testing.assert_allclose(sums[1][name], expected, rtol=0 if exact else 1e-6, atol=0, err_msg=name)
        else:
            far = np.abs(sums[1][name] - expected).sum() / max(np.abs(expected).sum(), 1)
            assert far < 1e-3, name


@pytest.mark.parametrize("main", ["dot", "cosine"])
@pytest.mark.parametrize("width", [16, 72])
def test_sums_of_similarity_over_many_windows(
    main: str, width: int, embedded: headscope.Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More windows than are added up before they go to doubles, shared by several blocks; S as it is defined."""
    monkeypatch.setattr(tile_layers, "SHARE", 7)
    texts = [" ".join(f"word{k} on the {n}." for k in range(1 + n % 4)) for n in range(11)] + ["Two words."]
    cut = [corpus_windows(text, embedded.tokenizer, embedded.template, length=40)[0] for text in texts]
    batch, tokens, heads = WindowBatch(tuple(cut)), max(map(len, cut)), 2
    rng = torch.Generator().manual_seed(width)
    outputs = torch.randint(-3, 4, (len(cut), heads, tokens, width), generator=rng).bfloat16()
    queries, keys, values = (torch.randn(len(cut), heads, tokens, 16, generator=rng).bfloat16() for _ in range(3))
    readable = torch.arange(tokens) < torch.tensor([len(window) for window in cut])[:, None, None, None]
    choices = Choices(window=40, readings=(main,))
    shape = {"encoder": Shape((0,), heads, 40, (), readings=choices.readings)}
    accumulator = CudaAccumulator(shape, choices, kernels=cpu_kernels)
    sink = accumulator.begin(batch)
    sink.layer(LayerHeads("encoder", 0, "", outputs, None, values, readable, Scores(queries, keys, 0.25)))
    sink.finish()
    expected = np.zeros((heads, 40, 40))
    for b, window in enumerate(cut):
        at = [k for k, category in enumerate(window.category) if category > END]
        for h, own in enumerate(outputs[b].double().numpy()):
            lengths = np.linalg.norm(own, axis=-1) if main == "cosine" else np.ones(tokens)
            for i, j in combinations(at, 2):
                expected[h, i, j] += own[i] @ own[j] / max(lengths[i] * lengths[j], 1e-9)
    found = accumulator.sums()["encoder"]["similarity_sum"].squeeze()
    np.testing.assert_allclose(found, expected, rtol=0 if main == "dot" else 1e-6, atol=0 if main == "dot" else 1e-6)


def test_who_reads_all_of_its_window_is_known_without_asking_for_each_pair(embedded: headscope.Model) -> None:
    cut = windows_of(embedded, TEXTS[:3])
    index = index_of(WindowBatch(tuple(cut)), LENGTH, Choices(window=LENGTH), {})
    batch = DeviceBatch(*index.tokens_of_stack("encoder"), index.prepared("encoder", arrays_of), torch.device("cpu"))
    tokens = max(map(len, cut))
    short = batch.read_by(None, cross=False, tiled=True)
    long = batch.read_by(torch.ones(3, 1, tokens, tokens, dtype=torch.bool), cross=False, tiled=True)
    assert short.directions is None
    for name in ("readable", "readers", "evenness", "even", "even_by_category"):
        torch.testing.assert_close(getattr(short, name), getattr(long, name), rtol=1e-14, atol=0, msg=name)


@pytest.mark.parametrize("tiles", [True, False])
def test_it_does_not_matter_which_thread_goes_first(
    tiles: bool, embedded: headscope.Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where a barrier is missing, threads that take turns in another order read what is not there yet."""
    texts = [" ".join(TEXTS[:4]), TEXTS[2], "Two words."]
    cut = [corpus_windows(text, embedded.tokenizer, embedded.template, length=128)[0] for text in texts]
    batch, tokens, width = WindowBatch(tuple(cut)), max(map(len, cut)), 72
    rng = torch.Generator().manual_seed(1)
    vectors = [torch.randn(3, tokens, 2, width, generator=rng).bfloat16().transpose(1, 2) for _ in range(4)]
    queries, keys, values, outputs = vectors
    readable = torch.arange(tokens) < torch.tensor([len(window) for window in cut])[:, None, None, None]
    layer = LayerHeads("encoder", 0, "", outputs, None, values, readable, Scores(queries, keys, width**-0.5))
    choices = Choices(window=128)
    found = []
    monkeypatch.setattr(CpuKernels, "tiles", tiles)
    for order in range(4):
        monkeypatch.setattr(CpuKernels, "order", order)
        shape = {"encoder": Shape((0,), 2, 128, (), readings=choices.readings)}
        accumulator = CudaAccumulator(shape, choices, kernels=cpu_kernels)
        sink = accumulator.begin(batch)
        sink.layer(layer)
        sink.finish()
        found.append(accumulator.sums()["encoder"])
    for name, expected in found[0].items():
        for other in found[1:]:
            np.testing.assert_array_equal(other[name], expected, err_msg=name)


def test_a_card_that_multiplies_no_tiles_counts_the_same(
    embedded: headscope.Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    sums = []
    for tiles in (True, False):
        monkeypatch.setattr(CpuKernels, "tiles", tiles)
        windows = WindowBatch(tuple(windows_of(embedded, TEXTS[:3])))
        accumulator = CudaAccumulator(shapes("encoder"), Choices(window=LENGTH), kernels=cpu_kernels)
        feed(accumulator, windows, Heads(windows, "encoder", seed=5))
        sums.append(accumulator.sums()["encoder"])
    for name, expected in sums[0].items():
        near = 1e-7 if name == "attention_entropy" else 1e-12  # floats of a row are added up otherwise
        np.testing.assert_allclose(sums[1][name], expected, rtol=near, atol=near, err_msg=name)


@pytest.mark.parametrize("tiles", [True, False])
def test_weights_that_are_nearly_nothing_are_numbers(
    tiles: bool, embedded: headscope.Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Peaked heads of trained models have weights below 1e-38, of which a card's logarithm is infinite."""
    monkeypatch.setattr(CpuKernels, "tiles", tiles)
    batch, heads = WindowBatch(tuple(windows_of(embedded, TEXTS[:3]))), []
    for tiny in (1e-40, 0.0):
        layer = next(Heads(batch, "encoder", seed=5).layers())
        assert layer.weights is not None
        layer.weights[:, :, :, 1] = tiny
        accumulator = CudaAccumulator(shapes("encoder"), Choices(window=LENGTH), kernels=cpu_kernels)
        sink = accumulator.begin(batch)
        sink.layer(layer)
        sink.finish()
        heads.append(accumulator.sums()["encoder"])
    assert heads[0]["attention_entropy"][0].all()
    for name in ("attention", "attention_entropy", "attention_weighted"):
        np.testing.assert_allclose(heads[0][name], heads[1][name], rtol=1e-12, err_msg=name)
