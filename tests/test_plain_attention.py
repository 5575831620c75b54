"""Which models' attention can be computed from their queries and keys, and which must be asked for it."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from transformers.models.gpt2 import modeling_gpt2

from architectures import ARCHITECTURES, Architecture
from headscope.models.forward import forward
from headscope.models.plain import EAGER, SDPA, attention_by, own_attention
from headscope.tap import tap

OF_THEIR_OWN = ("gemma2", "gpt_oss")  # a cap on scores; a sink
ONE_STACK = [each for each in ARCHITECTURES if len(each.stacks) == 1]


@pytest.mark.parametrize("architecture", ONE_STACK, ids=lambda a: a.kind)
def test_queries_and_keys_tell_attention_but_where_a_model_adds_to_it(architecture: Architecture) -> None:
    network, report = architecture.model(), architecture.report()
    why = own_attention(network, report)
    assert bool(why) == (report.route != "interface" or architecture.kind in OF_THEIR_OWN)
    assert network.config._attn_implementation == EAGER  # it is left as it was


def test_a_cap_on_scores_that_transformers_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    (gemma,) = (each for each in ARCHITECTURES if each.kind == "gemma2")
    network = gemma.model()
    monkeypatch.setattr(type(network), "_supports_sdpa", True)
    assert "softcap" in own_attention(network, gemma.report())
    assert network.config._attn_implementation == EAGER


def test_attention_of_a_models_own_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    (gpt2,) = (each for each in ARCHITECTURES if each.kind == "gpt2")
    network, report = gpt2.model(), gpt2.report()
    usual = modeling_gpt2.eager_attention_forward

    def narrower(module: Any, query: Any, *args: Any, **kwargs: Any) -> Any:
        return usual(module, query * 0.9, *args, **kwargs)

    monkeypatch.setattr(modeling_gpt2, "eager_attention_forward", narrower)
    assert "layer 0 is not the plain kind" in own_attention(network, report)


def test_an_encoder_with_a_decoder_is_asked() -> None:
    (bart,) = (each for each in ARCHITECTURES if each.kind == "bart")
    assert "several attention stacks" in own_attention(bart.model(), bart.report())


def test_a_batch_without_padding_needs_no_mask() -> None:
    (bert,) = (each for each in ARCHITECTURES if each.kind == "bert")
    network = bert.model()
    batch = bert.batch(network).alone(0)
    assert batch.is_padded  # which is what is assumed where nobody looked
    outputs = []
    for given in (batch, type(batch)(batch.ids, batch.mask, is_padded=False)):
        with attention_by(network, SDPA), tap(network) as seen:
            forward(network, given)
        outputs.append(torch.stack([layer.outputs for layer in seen]))
    torch.testing.assert_close(outputs[0], outputs[1])
