"""Every equality of the self-check fails when it ought to: mistakes are put into the tap, one at a time."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
import transformers

from architectures import ARCHITECTURES, peaked
from headscope import HeadscopeError
from headscope.models import check
from headscope.models.check import self_check
from headscope.models.forward import collate
from headscope.tap import tap

BY_KIND = {architecture.kind: architecture for architecture in ARCHITECTURES}
Tensors = dict[str, Any]


def swapped_heads(call: int, tensors: Tensors) -> Tensors:
    return tensors | {"outputs": tensors["outputs"].flip(1)}


def doubled_outputs(call: int, tensors: Tensors) -> Tensors:
    return tensors | {"outputs": tensors["outputs"] * 2, "values": tensors["values"] * 2}


def shifted_tokens(call: int, tensors: Tensors) -> Tensors:
    return tensors | {"outputs": tensors["outputs"].roll(1, 2)}


def spread_weights(call: int, tensors: Tensors) -> Tensors:
    return tensors | {"weights": tensors["weights"] * 0.5, "values": tensors["values"] * 2}


def missing_numbers(call: int, tensors: Tensors) -> Tensors:
    """Only the second layer's, which taking a plain maximum would pass over."""
    return tensors | ({"weights": tensors["weights"] * torch.nan} if call % 3 == 1 else {})


def infinite_outputs(call: int, tensors: Tensors) -> Tensors:
    return tensors | {"outputs": tensors["outputs"] / 0}


def everything_readable(call: int, tensors: Tensors) -> Tensors:
    return tensors | {"readable": None}


def nothing_ahead_readable(call: int, tensors: Tensors) -> Tensors:
    size = tensors["outputs"].shape[2]
    return tensors | {"readable": torch.ones(size, size, dtype=torch.bool).tril()}


def wider_heads(call: int, tensors: Tensors) -> Tensors:
    twice = torch.cat([tensors["outputs"], tensors["outputs"]], dim=-1)
    return tensors | ({"outputs": twice} if call % 3 == 1 else {})


def swapped_values(call: int, tensors: Tensors) -> Tensors:
    """Of the second layer: the values of other heads."""
    return tensors | ({"values": tensors["values"].flip(1)} if call % 3 == 1 else {})


def later_values(call: int, tensors: Tensors) -> Tensors:
    return tensors | {"values": tensors["values"].roll(1, 2)}


def unfit_values(call: int, tensors: Tensors) -> Tensors:
    return tensors | {"values": tensors["values"][:, :, :-1]}


def no_values(call: int, tensors: Tensors) -> Tensors:
    return tensors | {"values": None}


MISTAKES: list[tuple[Callable[[int, Tensors], Tensors], str, list[str]]] = [
    (swapped_heads, check.PRODUCT, ["bert", "mpnet", "llama"]),
    (swapped_heads, check.PROJECTION, ["bert", "mpnet", "llama"]),
    (doubled_outputs, check.PROJECTION, ["bert", "mpnet", "gptj"]),
    (doubled_outputs, check.VALUES, ["qwen3_next"]),  # gated: there is no projection to compare with
    (shifted_tokens, check.PADDED, ["bert", "mpnet"]),
    (shifted_tokens, check.PRODUCT, ["llama", "gptj"]),
    (spread_weights, check.ROWS, ["bert", "mpnet", "llama"]),
    (missing_numbers, check.ROWS, ["bert", "mpnet", "llama", "gptj"]),
    (missing_numbers, check.PRODUCT, ["bert", "mpnet", "llama", "gptj"]),
    (infinite_outputs, check.FINITE, ["bert", "mpnet"]),
    (swapped_values, check.PRODUCT, ["bert", "mpnet", "llama", "gptj"]),
    (later_values, check.PRODUCT, ["bert", "mpnet", "llama", "gptj"]),
    (unfit_values, check.PRODUCT, ["bert", "mpnet"]),
    (no_values, check.PRODUCT, ["bert", "mpnet"]),
    (everything_readable, check.READS, ["llama", "gptj", "bert"]),
    (nothing_ahead_readable, check.READS, ["bert", "mpnet"]),
    (wider_heads, check.HEADS, ["bert", "mpnet"]),
]
CASES = [(mistake, name, kind) for mistake, name, kinds in MISTAKES for kind in kinds]


@pytest.mark.parametrize(("mistake", "name", "kind"), CASES, ids=lambda v: getattr(v, "__name__", str(v))[:30])
def test_a_mistake_in_the_tap_fails_the_equality_that_is_there_for_it(
    mistake: Callable[[int, Tensors], Tensors], name: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = BY_KIND[kind].model()
    batch = BY_KIND[kind].batch(model)
    assert not self_check(model, batch).failed
    right, calls = tap.record, iter(range(1000))

    def wrong(self: tap, module: Any, **tensors: Any) -> None:
        right(self, module, **mistake(next(calls), tensors))

    monkeypatch.setattr(tap, "record", wrong)
    report = self_check(model, batch)
    assert name in {failure.name for failure in report.failed}
    with pytest.raises(HeadscopeError, match="failed the self-check"):
        report.raise_if_failed("")


@pytest.mark.parametrize("route", ["interface", "fallback"])
@pytest.mark.parametrize(
    ("stack", "mistake", "told"),
    [
        ("encoder", swapped_values, r"layer 1 \(encoder\.layers\.1\.self_attn\) is off by "),
        ("cross", unfit_values, r"values of shape .* are not those of 4 heads, 17 tokens, 8 wide"),
        ("decoder", no_values, "the tap saw no values"),
    ],
)
def test_values_that_are_wrong_in_one_stack_are_told(
    stack: str, mistake: Any, told: str, route: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from headscope.tap import places

    model = BY_KIND["bart"].model()
    names = {id(module): name for name, module in model.named_modules()}
    right = tap.record

    def wrong(self: tap, module: Any, **tensors: Any) -> None:
        name = names[id(module)]
        mine = places.stack_of(name, True, False) == stack
        layer = int(name.split(".")[2])
        right(self, module, **(mistake(layer, tensors) if mine else tensors))

    monkeypatch.setattr(tap, "record", wrong)
    report = self_check(model, BY_KIND["bart"].batch(model), route=route)
    failed = {(failure.stack, failure.name): failure.note for failure in report.failed}
    assert (stack, check.PRODUCT) in failed
    assert re.search(told, failed[stack, check.PRODUCT])
    assert {name: seen.values for name, seen in report.stacks.items()} == {
        name: name != stack for name in ("encoder", "decoder", "cross")
    }
    with pytest.raises(HeadscopeError, match=rf"{re.escape(check.PRODUCT)} \({stack}: "):
        report.raise_if_failed("")


def test_a_missed_layer_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    model = BY_KIND["bert"].model()
    right = tap.record

    def wrong(self: tap, module: Any, **tensors: Any) -> None:
        if module is not model.encoder.layer[1].attention.self:
            right(self, module, **tensors)

    monkeypatch.setattr(tap, "record", wrong)
    failed = self_check(model, BY_KIND["bert"].batch(model)).failed
    assert [(failure.name, failure.note) for failure in failed] == [(check.LAYERS, "2 of 3")]


def test_stacks_that_are_mixed_up_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    from headscope.tap import places

    model = BY_KIND["t5"].model()
    right = places.stack_of
    swap = {"encoder": "encoder", "decoder": "cross", "cross": "decoder"}
    monkeypatch.setattr(places, "stack_of", lambda *args: swap[right(*args)])
    failed = {failure.name for failure in self_check(model, BY_KIND["t5"].batch(model)).failed}
    assert check.STACKS in failed


def test_a_model_that_changes_itself_when_it_runs_is_refused() -> None:
    """BigBird's sparse attention gives way to the full one on a short text, and never comes back."""
    config = transformers.BigBirdConfig(
        vocab_size=64, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48,
        max_position_embeddings=256, attention_type="block_sparse", block_size=8,
    )  # fmt: skip
    model = peaked(transformers.BigBirdModel(config).eval())
    failed = self_check(model, collate([[7] * 17, [8] * 9], 0, "cpu")).failed
    assert check.UNCHANGED in {failure.name for failure in failed}
    config.attention_type = "original_full"
    full = peaked(transformers.BigBirdModel(config).eval())
    assert not self_check(full, collate([[7] * 17, [8] * 9], 0, "cpu")).failed


def test_padding_that_leaks_is_noticed() -> None:
    """A model whose padding embedding is not zero and whose inputs are mixed over neighbours, as MobileBERT's are."""
    model = BY_KIND["mobilebert"].model()
    with torch.no_grad():
        model.embeddings.word_embeddings.weight[0] = 1.0
    failed = {failure.name for failure in self_check(model, BY_KIND["mobilebert"].batch(model)).failed}
    assert failed == {check.PADDED}
