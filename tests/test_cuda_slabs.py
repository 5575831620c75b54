"""Long windows slab by slab: the sums of the kernels that keep whole maps, and of the naive implementation."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

import headscope
from cuda_on_cpu import CpuKernels, cpu_kernels
from headscope.choices import Choices
from headscope.measures import variables
from headscope.measures.accumulator import LayerBatch
from headscope.measures.compiled_accumulator import CompiledAccumulator
from headscope.measures.cuda import device_batch, slab_layers
from headscope.measures.cuda.accumulator import CudaAccumulator
from headscope.measures.variables import Shape, Sums, Variable
from headscope.models.plain import plain_attention, products
from headscope.tap import LayerHeads, Scores
from headscope.windows import Window, WindowBatch
from headscope.windows import window as text_window
from headscope.windows.window import END
from made_up_layers import MASKS, cut_to
from test_corpus_numbers import TEXTS

LENGTH, HEADS, GROUPS, WIDTH = 560, 4, 2, 8
FLOATS_BY_BINS = ("attention_wins", "attention_correlation")  # of a map, whose last digits differ


def windows_of(model: headscope.Model, *, every: int = 7) -> tuple[Window, ...]:
    """Long windows of which few tokens count, so that it is quick; a short one, and one without pairs."""
    whole = text_window(" ".join(TEXTS * 12), None, model.tokenizer, model.template, length=LENGTH)
    assert len(whole) == LENGTH
    far = np.arange(len(whole)) % every > 0
    thin = replace(
        whole, category=np.where(far, END, whole.category), sentence=np.where(far, -1, whole.sentence),
        word=np.where(far, -1, whole.word),
    )  # fmt: skip
    return (cut_to(thin, every + 1), cut_to(whole, 40), cut_to(thin, 301), thin)


def layer_of(batch: WindowBatch, mask: str | None, dtype: torch.dtype, seed: int = 0) -> LayerHeads:
    """A layer whose outputs are small whole numbers, with what its attention is computed from."""
    size, tokens = len(batch.windows), max(map(len, batch.windows))
    generator = torch.Generator().manual_seed(seed)
    outputs = torch.randint(-3, 4, (size, HEADS, tokens, WIDTH), generator=generator).to(dtype)
    outputs[:, 0] = 0  # a head without any output: all its matrices are flat
    values = torch.randint(-2, 3, (size, GROUPS, tokens, WIDTH), generator=generator).to(dtype)
    queries = torch.randn(size, tokens, HEADS, WIDTH, generator=generator).to(dtype).transpose(1, 2)
    keys = torch.randn(size, tokens, GROUPS, WIDTH, generator=generator).to(dtype).transpose(1, 2)
    lengths = torch.tensor([len(window) for window in batch.windows])
    readable = (torch.arange(tokens) < lengths[:, None])[:, None, None].expand(-1, 1, tokens, -1)
    if mask is not None:
        readable = readable & torch.from_numpy(MASKS[mask](0, tokens))
    for b, length in enumerate(lengths):  # padding means nothing
        for each in (outputs, values, queries, keys):
            each[b, :, length:] = torch.nan
    return LayerHeads("encoder", 0, "", outputs, None, values, readable, Scores(queries, keys, 2.0 * WIDTH**-0.5))


def with_weights(layer: LayerHeads) -> LayerHeads:
    """The same layer with its maps."""
    return replace(layer, weights=plain_attention(products(layer), layer.readable).nan_to_num(0.0), scores=None)


def sums_of(
    accumulator: CudaAccumulator | CompiledAccumulator, batch: WindowBatch, layer: LayerHeads
) -> dict[str, np.ndarray[Any, Any]]:
    sink = accumulator.begin(batch)
    sink.layer(layer)
    sink.finish()
    sums: Sums = accumulator.sums()
    return sums["encoder"]


def held_against_whole_maps(
    model: headscope.Model, mask: str | None, dtype: torch.dtype, chosen: dict[str, Any], relations: dict[str, Any]
) -> None:
    batch = WindowBatch(windows_of(model))
    choices = Choices(window=LENGTH, **chosen)
    shape = {"encoder": Shape((0,), HEADS, LENGTH, tuple(relations), readings=choices.readings)}
    layer = layer_of(batch, mask, dtype)
    mine = sums_of(CudaAccumulator(shape, choices, kernels=cpu_kernels, relations=relations), batch, layer)
    theirs = sums_of(CompiledAccumulator(shape, choices, relations=relations), batch, with_weights(layer))
    assert set(mine) == set(theirs)
    assert mine["pairs"].any()
    assert mine["top_pairs"].any()
    assert mine["flat"].any() or choices.readings[0] == "values"
    exact = choices.readings[0] == "dot"  # products are whole numbers here
    for name, expected in theirs.items():
        if name in FLOATS_BY_BINS or (name in ("wins", "contrast_weight", "mask_sum", "mask_pairs") and not exact):
            np.testing.assert_allclose(mine[name], expected, rtol=2e-3, atol=2e-3, err_msg=name)
        elif expected.dtype.kind == "i":
            np.testing.assert_array_equal(mine[name], expected, err_msg=name)
        else:
            near = 1e-5 if name.startswith("attention") or not exact else 1e-9
            np.testing.assert_allclose(mine[name], expected, rtol=near, atol=near, err_msg=name)


@pytest.mark.parametrize("mask", [None, "causal", "sliding", "blind"])
def test_slabs_give_the_sums_of_whole_maps(
    mask: str | None, embedded: headscope.Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slab_layers, "NUMBERS_OF_SLAB", 16 * 100 * LENGTH)  # several slabs
    held_against_whole_maps(embedded, mask, torch.float32, {}, {})


OWN = {"first_letter": lambda window: [text[:1] or None for text in window.tokens]}


@pytest.mark.parametrize(
    ("chosen", "relations"),
    [
        ({"readings": ("cosine", "centred", "values", "dot"), "tau": 0.7}, {}),
        pytest.param({"readings": ("dot",), "special": True, "theta": 0.6}, OWN, marks=pytest.mark.long),
        pytest.param({"readings": ("values", "dot")}, {}, marks=pytest.mark.long),
    ],
    ids=["every reading", "own relations, special tokens", "values first"],
)
def test_slabs_do_whatever_is_chosen(
    chosen: dict[str, Any], relations: dict[str, Any], embedded: headscope.Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slab_layers, "NUMBERS_OF_SLAB", 16 * 200 * LENGTH)
    dtype = torch.bfloat16 if chosen.get("special") else torch.float32
    held_against_whole_maps(embedded, "causal", dtype, chosen, relations)


def test_neither_slabs_nor_the_order_of_threads_change_a_byte(
    embedded: headscope.Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch, choices = WindowBatch(windows_of(embedded, every=11)[1:3]), Choices(window=LENGTH)
    shape = {"encoder": Shape((0,), HEADS, LENGTH, (), readings=choices.readings)}
    layer, found = layer_of(batch, "causal", torch.bfloat16, seed=3), []
    for order, rows in ((0, 1000), (1, 1000), (2, 32)):
        monkeypatch.setattr(CpuKernels, "order", order)
        monkeypatch.setattr(slab_layers, "NUMBERS_OF_SLAB", 2 * HEADS * rows * 301)
        found.append(sums_of(CudaAccumulator(shape, choices, kernels=cpu_kernels), batch, layer))
    for name, expected in found[0].items():
        for other in found[1:]:
            assert other[name].tobytes() == expected.tobytes(), name


def test_nothing_of_the_size_of_a_map_is_made(embedded: headscope.Model, monkeypatch: pytest.MonkeyPatch) -> None:
    """The largest tensor of a layer holds a slab, however long the window is."""
    from torch.utils._python_dispatch import TorchDispatchMode

    class Largest(TorchDispatchMode):
        numbers = 0

        def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            made = function(*args, **(kwargs or {}))
            if isinstance(made, torch.Tensor):
                self.numbers = max(self.numbers, made.untyped_storage().nbytes() // made.element_size())
            return made

    room = 32 * HEADS * LENGTH  # that of the fewest rows
    monkeypatch.setattr(slab_layers, "NUMBERS_OF_SLAB", room)
    monkeypatch.setattr(device_batch, "READ_TOGETHER", room)
    batch, choices = WindowBatch(windows_of(embedded)[-1:]), Choices(window=LENGTH)
    shape = {"encoder": Shape((0,), HEADS, LENGTH, (), readings=choices.readings)}
    layer = replace(layer_of(batch, None, torch.bfloat16), readable=None)
    accumulator = CudaAccumulator(shape, choices, kernels=cpu_kernels)
    sink = accumulator.begin(batch)
    with Largest() as largest:
        sink.layer(layer)
    assert room <= largest.numbers < 2 * room < HEADS * LENGTH * LENGTH
    sink.finish()


def test_a_variable_of_ones_own_is_given_whole_maps(embedded: headscope.Model) -> None:
    """It may ask for anything, so that nothing is counted in slabs then."""
    seen = []

    def fill(batch: LayerBatch, into: np.ndarray[Any, Any]) -> None:
        seen.append((batch.weights, batch.products))
        into += batch.weights.sum((0, 2, 3))

    own = Variable("read", ("layer", "head"), "how often tokens read", "sum", fill=fill)
    variables.declare(own)
    try:
        batch, choices = WindowBatch(windows_of(embedded)[-1:]), Choices(window=LENGTH)
        shape = {"encoder": Shape((0,), HEADS, LENGTH, (), readings=choices.readings)}
        layer = layer_of(batch, "blind", torch.float32)
        sums = sums_of(CudaAccumulator(shape, choices, kernels=cpu_kernels), batch, layer)
    finally:
        variables.withdraw("read")
    np.testing.assert_allclose(sums["read"], MASKS["blind"](0, LENGTH).any(1).sum(), rtol=1e-5)  # some read nothing
    assert seen[0][0].shape == seen[0][1].shape == (1, HEADS, LENGTH, LENGTH)


def test_what_a_window_without_pairs_has_does_not_matter(embedded: headscope.Model) -> None:
    """Its one token may have an output that is no number: it enters no sum of pairs."""
    whole = windows_of(embedded, every=7)
    one = cut_to(whole[-1], 8)
    assert one.counting(False).sum() == 1
    batch, choices = WindowBatch((one, whole[1])), Choices(window=LENGTH)
    shape = {"encoder": Shape((0,), HEADS, LENGTH, (), readings=choices.readings)}
    layer, found = layer_of(batch, None, torch.float32), []
    for value in (1.0, torch.inf):
        layer.outputs[0, :, int(np.flatnonzero(one.counting(False))[0])] = value
        found.append(sums_of(CudaAccumulator(shape, choices, kernels=cpu_kernels), batch, layer))
    for name, expected in found[0].items():
        np.testing.assert_array_equal(found[1][name], expected, err_msg=name)


def test_levels_of_nearly_orthogonal_outputs(embedded: headscope.Model) -> None:
    """Lengths may be a million times S: of two tokens the only pair has the level 1 all the same."""
    window = cut_to(windows_of(embedded, every=3)[-1], 8)
    places = np.flatnonzero(window.counting(False))
    assert len(places) == 2
    batch, choices = WindowBatch((window,)), Choices(window=LENGTH)
    shape = {"encoder": Shape((0,), HEADS, LENGTH, (), readings=choices.readings)}
    layer = layer_of(batch, None, torch.float32)
    layer.outputs[:] = 0
    layer.outputs[0, :, int(places[0]), :2] = torch.tensor([1000.3, 0.001])
    layer.outputs[0, :, int(places[1]), :2] = torch.tensor([0.001, 1000.7])
    sums = sums_of(CudaAccumulator(shape, choices, kernels=cpu_kernels), batch, layer)
    np.testing.assert_allclose(sums["mask_sum"].sum(-1), 1, rtol=1e-4)
