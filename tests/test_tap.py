"""The tap changes nothing, leaves nothing behind, and is safe with several models and threads."""

from __future__ import annotations

import gc
import sys
import threading
import weakref
from typing import Any

import pytest
import torch
from transformers.modeling_utils import AttentionInterface

from architectures import ARCHITECTURES, Architecture
from headscope import HeadscopeError
from headscope.models.forward import collate, forward
from headscope.tap import LayerHeads, tap
from long import first_of

BY_KIND = {architecture.kind: architecture for architecture in ARCHITECTURES}
BOTH_ROUTES = ["bert", "mpnet"]  # one on the interface, one off it
ORIGINAL = AttentionInterface.get_interface


def hidden(model: Any, batch: Any) -> torch.Tensor:
    return forward(model, batch)[0]


def hooks(model: Any) -> int:
    return sum(len(m._forward_hooks) + len(m._forward_pre_hooks) for m in model.modules())


@pytest.mark.parametrize("architecture", ARCHITECTURES, ids=lambda a: a.kind)
def test_outputs_stay_bit_identical(architecture: Architecture) -> None:
    model = architecture.model()
    batch = architecture.batch(model)
    before = hidden(model, batch)
    with tap(model, weights=True, values=True):
        during = hidden(model, batch)
    after = hidden(model, batch)
    assert torch.equal(before, during)
    assert torch.equal(before, after)


@pytest.mark.parametrize("kind", ["bert", "gpt2"])
def test_layers_that_share_a_mask_share_what_it_allows(kind: str) -> None:
    """What follows from it need be worked out once; another forward pass has masks of its own."""
    model = BY_KIND[kind].model()
    seen: list[LayerHeads] = []
    with tap(model, seen.append, weights=True) as open_tap:
        for rows in ([[5, 6, 7, 8], [5, 6]], [[5, 6, 7], [5, 6, 8]]):
            forward(model, collate(rows, 0, model.device))
            assert len(open_tap.masks) == 1
    half = len(seen) // 2
    first, second = seen[:half], seen[half:]
    for layers in (first, second):
        assert len({id(each.readable) for each in layers}) == 1
    assert first[0].readable is None or first[0].readable is not second[0].readable
    assert not open_tap.masks


@pytest.mark.parametrize("kind", BOTH_ROUTES)
def test_everything_is_put_back_also_after_an_exception(kind: str) -> None:
    model = BY_KIND[kind].model()
    batch = BY_KIND[kind].batch(model)

    def broken(heads: LayerHeads) -> None:
        raise RuntimeError("from the sink")

    with pytest.raises(RuntimeError, match="from the sink"), tap(model, broken):
        forward(model, batch)
    assert AttentionInterface.get_interface is ORIGINAL
    assert hooks(model) == 0
    with tap(model) as tapped:  # and it works again, counting from layer 0
        forward(model, batch)
    assert [heads.layer for heads in tapped] == [0, 1, 2]
    assert AttentionInterface.get_interface is ORIGINAL
    assert hooks(model) == 0


@pytest.mark.parametrize("kind", BOTH_ROUTES)
def test_an_exception_inside_the_model_leaves_no_trace(kind: str) -> None:
    model = BY_KIND[kind].model()
    wrong = collate([[1, 2, 10_000]], 0, "cpu")  # an id that has no embedding
    good = BY_KIND[kind].batch(model)
    tapped = tap(model)
    with tapped:
        with pytest.raises(IndexError):
            forward(model, wrong)
        forward(model, good)
    assert [heads.layer for heads in tapped] == [0, 1, 2]
    assert hooks(model) == 0


@pytest.mark.parametrize("kind", BOTH_ROUTES)
def test_only_what_was_asked_for_is_handed_over(kind: str) -> None:
    model = BY_KIND[kind].model()
    batch = BY_KIND[kind].batch(model)
    with tap(model) as plain:
        forward(model, batch)
    assert all(heads.weights is None and heads.values is None and heads.readable is None for heads in plain)
    with tap(model, layers=[1]) as one:
        forward(model, batch)
    assert [heads.layer for heads in one] == [1]


def test_what_values_are_padded_with_is_no_part_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    right = tap.record

    def padded(self: tap, module: Any, **tensors: Any) -> None:
        right(self, module, **(tensors | {"values": torch.nn.functional.pad(tensors["values"], (0, 5))}))

    monkeypatch.setattr(tap, "record", padded)
    model = BY_KIND["llama"].model()
    with tap(model, values=True) as tapped:
        forward(model, BY_KIND["llama"].batch(model))
    assert {heads.values.shape[-1] for heads in tapped} == {heads.outputs.shape[-1] for heads in tapped} == {8}


@pytest.mark.parametrize("kind", ["gpt2", "mpnet", "llama", "t5"])
def test_a_reader_always_hands_over_values(kind: str, tiny: Any) -> None:
    from headscope.models.reading import Reader
    from headscope.windows import window

    model, seen = tiny(kind), set()

    def listen(heads: LayerHeads) -> None:
        seen.add(heads.stack)
        product = heads.weights.double() @ heads.values_of_heads.double()
        assert torch.allclose(product, heads.outputs.double(), atol=1e-5)
        assert model.stacks[heads.stack].values

    with Reader(model) as reader:
        reader.read(reader.batch([window("It rains. It pours.", None, model.tokenizer, model.template)]), listen)
    assert seen == set(model.stacks)


@pytest.mark.parametrize("kind", first_of(BOTH_ROUTES))
def test_with_a_sink_nothing_is_kept(kind: str) -> None:
    model = BY_KIND[kind].model()
    batch = BY_KIND[kind].batch(model)
    references: list[Any] = []
    alive: list[int] = []

    def sink(heads: LayerHeads) -> None:
        gc.collect()
        alive.append(sum(reference() is not None for reference in references))
        references.append(weakref.ref(heads.weights))

    with tap(model, sink, weights=True) as tapped:
        forward(model, batch)
        gc.collect()
        assert sum(reference() is not None for reference in references) == 0
    assert alive == [0, 0, 0]  # the layer before is gone when the next one comes
    assert list(tapped) == []


def test_layers_are_counted_anew_in_each_forward_pass() -> None:
    model = BY_KIND["albert"].model()  # one module for all layers
    with tap(model) as tapped:
        for _ in range(2):
            forward(model, BY_KIND["albert"].batch(model))
    assert [heads.layer for heads in tapped] == [0, 1, 2, 0, 1, 2]


def test_two_models_at_once_are_told_apart() -> None:
    one, two = BY_KIND["bert"].model(), BY_KIND["llama"].model()
    other = BY_KIND["mpnet"].model()
    with tap(one) as first, tap(two) as second, tap(other) as third:
        forward(two, BY_KIND["llama"].batch(two))
        forward(other, BY_KIND["mpnet"].batch(other))
        forward(one, BY_KIND["bert"].batch(one))
    assert [heads.stack for heads in first] == ["encoder"] * 3
    assert [heads.stack for heads in second] == ["decoder"] * 3
    assert [heads.module.split(".")[-1] for heads in third] == ["attn"] * 3
    assert AttentionInterface.get_interface is ORIGINAL


def test_taps_of_one_model_may_be_nested() -> None:
    model = BY_KIND["bert"].model()
    batch = BY_KIND["bert"].batch(model)
    with tap(model) as outer:
        with tap(model, weights=True) as inner:
            forward(model, batch)
        forward(model, batch)
    assert (len(outer.collected), len(inner.collected)) == (6, 3)


@pytest.mark.parametrize("kind", BOTH_ROUTES)
def test_threads_see_only_their_own_texts(kind: str) -> None:
    """Eight threads share one model, each with a text of its own length; nobody sees another's."""
    model = BY_KIND[kind].model()
    expected, found, errors = {}, {}, []
    for size in range(5, 13):
        with tap(model, weights=True) as tapped:
            forward(model, collate([list(range(5, 5 + size))], 0, "cpu"))
        expected[size] = [heads.outputs.clone() for heads in tapped]
    barrier = threading.Barrier(len(expected))

    def run(size: int) -> None:
        try:
            barrier.wait(timeout=60)
            for _ in range(5):
                with tap(model, weights=True) as tapped:
                    forward(model, collate([list(range(5, 5 + size))], 0, "cpu"))
                found.setdefault(size, []).append([heads.outputs for heads in tapped])
        except Exception as error:  # carried to the main thread, where it fails the test
            errors.append(error)

    threads = [threading.Thread(target=run, args=(size,)) for size in expected]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=120)
    assert errors == []
    for size, runs in found.items():
        assert len(runs) == 5
        for layers in runs:
            assert all(torch.equal(a, b) for a, b in zip(layers, expected[size], strict=True))
    assert AttentionInterface.get_interface is ORIGINAL
    assert hooks(model) == 0


def test_an_untapped_thread_is_not_seen() -> None:
    model = BY_KIND["bert"].model()
    batch = BY_KIND["bert"].batch(model)
    with tap(model) as tapped:
        thread = threading.Thread(target=forward, args=(model, batch))
        thread.start()
        thread.join(timeout=60)
        assert list(tapped) == []
        forward(model, batch)
    assert len(tapped.collected) == 3


def test_somebody_elses_wrapper_survives() -> None:
    model = BY_KIND["bert"].model()
    opened = tap(model)
    with opened:
        ours = AttentionInterface.get_interface

        def theirs(self: Any, name: str, default: Any) -> Any:
            return ours(self, name, default)

        AttentionInterface.get_interface = theirs
    try:
        assert AttentionInterface.get_interface is theirs
        with tap(model) as again:
            forward(model, BY_KIND["bert"].batch(model))
        assert len(again.collected) == 3
        assert AttentionInterface.get_interface is theirs
    finally:
        AttentionInterface.get_interface = ORIGINAL


def test_sdpa_gives_the_outputs_and_says_no_to_weights() -> None:
    model = BY_KIND["llama"].model()
    batch = BY_KIND["llama"].batch(model)
    with tap(model) as eager:
        forward(model, batch)
    model.set_attn_implementation("sdpa")
    with tap(model) as sdpa:
        forward(model, batch)
    for one, other in zip(eager, sdpa, strict=True):
        assert (one.stack, other.stack) == ("decoder", "decoder")
        for b, length in enumerate(batch.lengths):
            torch.testing.assert_close(one.outputs[b, :, :length], other.outputs[b, :, :length], atol=1e-4, rtol=1e-4)
    with (
        pytest.raises(HeadscopeError, match=r'set_attn_implementation\("eager"\) on the network'),
        tap(model, weights=True),
    ):
        forward(model, batch)
    assert AttentionInterface.get_interface is ORIGINAL


def test_a_tap_cannot_be_opened_twice_and_routes_have_names() -> None:
    model = BY_KIND["bert"].model()
    tapped = tap(model)
    with tapped, pytest.raises(HeadscopeError, match="open already"):
        tapped.__enter__()
    with pytest.raises(HeadscopeError, match="no route"):
        tap(model, route="magic")


def test_a_model_without_attention_is_an_error_and_never_an_empty_result() -> None:
    class Plain(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = torch.nn.Sequential(torch.nn.Linear(4, 4))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.inner(x).softmax(-1)

    model = Plain()
    with pytest.raises(HeadscopeError, match="no attention was seen in Plain"), tap(model):
        model(torch.ones(2, 4))


@pytest.mark.parametrize("kind", ["gpt2", "gptj", "bert", "mpnet"])
def test_a_single_token_shows_no_direction_and_settles_none(kind: str) -> None:
    model = BY_KIND[kind].model()
    stack = "decoder" if kind in ("gpt2", "gptj") else "encoder"
    one, many = collate([[7]], 0, "cpu"), BY_KIND[kind].batch(model)
    with tap(model) as tapped:
        forward(model, one)
        forward(model, many)
    assert [heads.stack for heads in tapped][3:] == [stack] * 3
    with tap(model, causal=stack == "decoder") as told:
        forward(model, one)
    assert [heads.stack for heads in told] == [stack] * 3


def test_a_layer_that_never_comes_is_an_error() -> None:
    model = BY_KIND["bert"].model()
    with pytest.raises(HeadscopeError, match="no layer 9"), tap(model, layers=[1, 9]):
        forward(model, BY_KIND["bert"].batch(model))


def test_taps_come_and_go_while_others_run() -> None:
    """Opening and closing taps must not disturb a forward pass of another thread."""
    model = BY_KIND["bert"].model()
    batch = BY_KIND["bert"].batch(model)
    errors: list[BaseException] = []
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)

    def run() -> None:
        try:
            for _ in range(40):
                with tap(model) as tapped:
                    forward(model, batch)
                assert [heads.layer for heads in tapped] == [0, 1, 2]
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=300)
    sys.setswitchinterval(interval)
    assert errors == []


def test_gradients_flow_through_what_the_tap_hands_over() -> None:
    model = BY_KIND["bert"].model()
    batch = BY_KIND["bert"].batch(model)
    with tap(model) as tapped:
        model(batch.ids, attention_mask=batch.mask)
    tapped.collected[0].outputs.sum().backward()
    assert model.embeddings.word_embeddings.weight.grad.abs().sum() > 0
