"""Every architecture that docs/architectures.md lists: what the tap sees is what the heads compute."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import transformers

from architectures import ARCHITECTURES, HEADER, UNSUPPORTED, Architecture, own_maps_agree, peaked, row
from headscope import HeadscopeError
from headscope.models.check import PROJECTION, self_check
from headscope.models.forward import collate, forward, pad_token
from headscope.tap import LayerHeads, tap

transformers.logging.set_verbosity_error()
DOCS = Path(__file__).parents[1] / "docs" / "architectures.md"
every = pytest.mark.parametrize("architecture", ARCHITECTURES, ids=lambda a: a.kind)
ON_THE_INTERFACE = [a for a in ARCHITECTURES if f"| {a.kind} | {a.family} | interface" in DOCS.read_text("utf-8")]
LIMIT = 1e-5  # of the largest |O|


@every
def test_heads_are_what_the_self_check_says(architecture: Architecture) -> None:
    report = architecture.report()
    assert {name: stack.layers for name, stack in report.stacks.items()} == architecture.stacks
    assert not report.failed
    assert all(stack.values for stack in report.stacks.values())
    unchecked = [check.name for check in report.checks if check.passed is None]
    assert unchecked == ([PROJECTION] if "gated" in architecture.limits else [])
    errors = {check.name: check.error for check in report.checks if check.error is not None}
    assert max(errors.values()) <= LIMIT, errors
    # The documentation's row for this architecture says the same.
    agree = own_maps_agree(architecture)
    assert agree is not False
    assert row(architecture, report, agree is True) in DOCS.read_text(encoding="utf-8").splitlines()


@every
def test_attention_is_peaked_so_that_mistakes_would_show(architecture: Architecture) -> None:
    model = architecture.model()
    batch = architecture.batch(model)
    with tap(model, weights=True) as tapped:
        forward(model, batch)
    largest = torch.cat([heads.weights[0, :, 4:17].amax(-1).flatten() for heads in tapped])
    assert largest.mean() > 0.25  # an even spread would give 0.06 reading both ways, 0.1 reading backwards


@pytest.mark.parametrize("architecture", ON_THE_INTERFACE, ids=lambda a: a.kind)
def test_the_two_routes_see_the_same_heads(architecture: Architecture) -> None:
    """Following the softmax knows nothing of transformers' interface: an independent second measurement."""
    model = architecture.model()
    batch = architecture.batch(model)
    seen = {}
    for route in ("interface", "fallback"):
        with tap(model, weights=True, values=True, route=route) as tapped:
            forward(model, batch)
        seen[route] = list(tapped)
    assert len(seen["interface"]) == len(seen["fallback"]) == sum(architecture.stacks.values())
    for one, other in zip(seen["interface"], seen["fallback"], strict=True):
        assert (one.stack, one.layer) == (other.stack, other.layer)
        for b, length in enumerate(batch.lengths):
            assert torch.equal(one.outputs[b, :, :length], other.outputs[b, :, :length])
            assert torch.equal(one.weights[b, :, :length, :], other.weights[b, :, :length, :])
            assert torch.equal(may_read(one, b)[:length], may_read(other, b)[:length])
            assert torch.equal(one.values_of_heads[b], other.values_of_heads[b])
    # The self-check comes to the same by either route, and vouches for the values that it was given.
    report = self_check(model, batch, route="fallback")
    assert not report.failed
    assert report.route == "fallback"
    assert all(stack.values for stack in report.stacks.values())
    unchecked = [check.name for check in report.checks if check.passed is None]
    assert unchecked == ([PROJECTION] if "gated" in architecture.limits else [])


def test_values_of_grouped_queries_are_those_of_their_group() -> None:
    shared = {a.kind: a for a in ARCHITECTURES if "num_key_value_heads" in a.settings or a.kind == "falcon"}
    groups = {}
    for kind in ("llama", "gpt_oss", "falcon", "deepseek_v3"):
        model = shared[kind].model()
        with tap(model, weights=True, values=True) as tapped:
            forward(model, shared[kind].batch(model))
        for heads in tapped:
            groups[kind] = heads.values.shape[1]
            values, size = heads.values_of_heads, heads.outputs.shape[1] // heads.values.shape[1]
            for h in range(heads.outputs.shape[1]):
                assert torch.equal(values[:, h], heads.values[:, h // size])
                product = heads.weights[0, h].double() @ heads.values[0, h // size].double()
                assert torch.allclose(product, heads.outputs[0, h].double(), atol=1e-5)
    assert groups["llama"] == groups["gpt_oss"] == 2
    assert groups["deepseek_v3"] == 4


def may_read(heads: LayerHeads, b: int) -> torch.Tensor:
    queries, keys = heads.weights.shape[-2:]
    if heads.readable is None:
        return torch.ones(queries, keys, dtype=torch.bool)
    return heads.readable.expand(len(heads.weights), -1, queries, keys)[b, 0]


def test_at_least_forty_architectures_and_all_that_are_promised() -> None:
    kinds = {architecture.kind for architecture in ARCHITECTURES}
    promised = """bert roberta xlm-roberta distilbert albert electra mpnet deberta-v2 modernbert nomic_bert mobilebert
    camembert eurobert esm gpt2 gpt_neo gpt_neox gptj opt bloom falcon llama mistral mixtral qwen2 qwen3 gemma2
    gemma3_text phi3 olmo2 gpt_oss stablelm cohere t5 bart marian pegasus"""
    assert len(kinds) >= 40
    assert len(ON_THE_INTERFACE) >= 40
    assert set(promised.split()) <= kinds


def test_the_documented_table_lists_these_architectures_and_no_others() -> None:
    text = DOCS.read_text(encoding="utf-8")
    assert text.startswith(HEADER)
    listed = [line.split("|")[1].strip() for line in text[len(HEADER) :].splitlines() if line.startswith("| ")]
    kinds = [architecture.kind for architecture in ARCHITECTURES]
    assert listed == [*kinds, "architecture", *UNSUPPORTED]


@pytest.mark.parametrize("kind", UNSUPPORTED)
def test_an_unsupported_architecture_fails_by_name(kind: str) -> None:
    settings, _ = UNSUPPORTED[kind]
    config = transformers.AutoConfig.for_model(kind, **settings)
    model = peaked(transformers.AutoModel.from_config(config, attn_implementation="eager").eval())
    batch = collate([[7] * 17, [8] * 9], pad_token(config), "cpu")
    with pytest.raises(HeadscopeError, match=type(model).__name__):
        self_check(model, batch).raise_if_failed("")
