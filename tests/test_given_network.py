"""A network that is already there is read like one that was loaded by name; several texts are read one by one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers

import headscope
from folders import make_folder
from headscope import HeadscopeError

Tiny = Callable[[str], headscope.Model]
TEXT = "The cat saw the dog. The dog saw the cat."


@pytest.mark.parametrize("kind", ["gpt2", "llama", "t5"])
def test_a_network_gives_what_its_folder_gives(kind: str, tmp_path: Path) -> None:
    folder = make_folder(kind, tmp_path / kind)
    by_name = headscope.load(folder)
    network = transformers.AutoModel.from_pretrained(folder)  # as everybody loads it: in sdpa
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    given = headscope.load(network, tokenizer)
    assert given.network is network
    assert given.stacks == by_name.stacks
    one, other = (model.inspect(TEXT) for model in (given, by_name))
    assert np.array_equal(one.captured.outputs, other.captured.outputs)
    results = [headscope.analyze(model, [TEXT, "It rains."], progress=False) for model in (given, by_name)]
    assert results[0].model["weights"] == results[1].model["weights"]


def test_a_model_with_a_head_on_top_is_read_below_it(tmp_path: Path) -> None:
    folder = make_folder("gpt2", tmp_path / "gpt2")
    whole = transformers.AutoModelForCausalLM.from_pretrained(folder)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    given = headscope.load(whole, tokenizer)
    assert given.network is whole.transformer
    assert headscope.load(folder).inspect(TEXT).outputs.equals(given.inspect(TEXT).outputs)


def test_hooks_of_ones_own_run_and_what_they_change_is_seen(embedded: headscope.Model) -> None:
    model = headscope.load(embedded.network, embedded.tokenizer)
    before = model.inspect(TEXT)
    handle = model.network.encoder.layer[4].register_forward_hook(lambda module, args, output: output * 0)
    try:
        after = model.inspect(TEXT)
    finally:
        handle.remove()
    assert np.array_equal(before.captured.outputs[:5], after.captured.outputs[:5])
    assert np.abs(before.captured.outputs[5:] - after.captured.outputs[5:]).max(axis=(1, 2, 3)).min() > 0.01
    assert np.array_equal(model.inspect(TEXT).captured.outputs, before.captured.outputs)


def test_controls_of_a_network_leave_it_as_it_is(embedded: headscope.Model) -> None:
    before = [weight.clone() for weight in embedded.network.parameters()]
    permuted = headscope.load(embedded.network, embedded.tokenizer, control="permuted:0")
    assert permuted.name == "bert12 (permuted weights, seed 0)"
    by_name = headscope.load(control="permuted:0")
    assert np.array_equal(permuted.inspect(TEXT).captured.outputs, by_name.inspect(TEXT).captured.outputs)
    untrained = headscope.load(embedded.network, embedded.tokenizer, control="untrained:1")
    assert not np.allclose(untrained.inspect(TEXT).captured.outputs, by_name.inspect(TEXT).captured.outputs)
    assert all(torch.equal(one, other) for one, other in zip(before, embedded.network.parameters(), strict=True))
    rotated = headscope.load(embedded.network, embedded.tokenizer, control="rotated")
    assert rotated.network is embedded.network


def test_what_is_wrong_with_a_network_is_said(embedded: headscope.Model) -> None:
    network, tokenizer = embedded.network, embedded.tokenizer
    for given, options, words in [
        ((network,), {}, "is given without its tokenizer"),
        ((torch.nn.Linear(2, 2), tokenizer), {}, r"Linear is not a transformers model.*from_arrays"),
        ((7, tokenizer), {}, "an object of type int is neither"),
        ((network, tokenizer), {"device": "cpu"}, "device='cpu' is for a model that is loaded by name"),
        ((None, tokenizer), {}, "a tokenizer can be given only with a network"),
    ]:
        with pytest.raises(HeadscopeError, match=words):
            headscope.load(*given, **options)
    network.train()
    try:
        with pytest.raises(HeadscopeError, match=r"training mode.*network\.eval"):
            headscope.load(network, tokenizer)
    finally:
        network.eval()


def test_a_network_cannot_be_sent_to_other_processes(embedded: headscope.Model) -> None:
    model = headscope.load(embedded.network, embedded.tokenizer)
    with pytest.raises(HeadscopeError, match=r"other processes cannot load it.*save_pretrained"):
        headscope.analyze(model, [TEXT], workers=2, progress=False)


def test_a_list_of_texts_gives_a_list(embedded: headscope.Model) -> None:
    texts = ["The cat sat.", TEXT]
    seen = embedded.inspect(texts, readings="cosine")
    assert [one.window.texts[0] for one in seen] == texts
    assert {one.reading for one in seen} == {"cosine"}
    for one, text in zip(seen, texts, strict=True):
        assert np.array_equal(one.captured.outputs, embedded.inspect(text).captured.outputs)
    ids = [embedded.tokenizer(text)["input_ids"] for text in texts]
    assert [len(one.window) for one in embedded.inspect(ids)] == [len(each) for each in ids]
    assert isinstance(embedded.inspect(ids[0]), headscope.Inspection)
    both = embedded.inspect(texts, ["It ran.", "It slept."])
    assert [one.window.texts[1] for one in both] == ["It ran.", "It slept."]
    with pytest.raises(HeadscopeError, match="text 1: the text is empty"):
        embedded.inspect(["Fine.", ""])
    with pytest.raises(HeadscopeError, match="not a second text for each"):
        embedded.inspect(texts, "one")


def test_a_network_put_back_into_training_is_refused(embedded: headscope.Model) -> None:
    embedded.network.train()
    try:
        with pytest.raises(HeadscopeError, match=r"training mode.*network\.eval"):
            embedded.inspect(TEXT)
        with pytest.raises(HeadscopeError, match=r"training mode.*network\.eval"):
            headscope.analyze(embedded, [TEXT], progress=False)
    finally:
        embedded.network.eval()


def test_an_error_of_ones_own_hook_points_to_hooks(embedded: headscope.Model) -> None:
    def broken(*_: object) -> None:
        raise ValueError("mine")

    handle = embedded.network.register_forward_hook(broken)
    try:
        with pytest.raises(HeadscopeError, match=r"ValueError: mine.*hooks of your own"):
            embedded.inspect(TEXT)
    finally:
        handle.remove()


def test_texts_in_arrays_and_none_at_all(embedded: headscope.Model) -> None:
    seen = embedded.inspect(np.array(["The cat sat.", TEXT]))
    assert [one.window.texts[0] for one in seen] == ["The cat sat.", TEXT]
    with pytest.raises(HeadscopeError, match="there are no texts"):
        embedded.inspect([])
    with pytest.raises(HeadscopeError, match=r"the ids are a batch, of shape \(1, 3\).*one row"):
        embedded.inspect(torch.tensor([[2, 5, 3]]))
