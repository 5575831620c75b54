"""TransformerLens and nnsight themselves, through docs/other_libraries.md: their arrays give what the tap gives.

They come with `pip install 'headscope[peers]'`, as `make test-long` does; where they are missing these tests fail.
"""

from __future__ import annotations

import doctest
import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import headscope
from folders import make_folder

DOCUMENT = Path(__file__).parents[1] / "docs" / "other_libraries.md"
FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS


@pytest.mark.long
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_what_the_document_shows_is_what_the_tap_sees(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    folder = make_folder("gpt2", tmp_path / "gpt2")
    names = {"folder": os.fspath(folder)}
    test = doctest.DocTestParser().get_doctest(DOCUMENT.read_text(), names, "other_libraries", str(DOCUMENT), 0)
    runner = doctest.DocTestRunner(optionflags=FLAGS)
    runner.run(test, clear_globs=False)
    assert runner.summarize().failed == 0
    model = headscope.load(folder)
    seen, expected = test.globs["seen"], model.inspect(test.globs["about"]["text"])
    for one in (seen, test.globs["again"]):
        assert np.allclose(one.captured.outputs, expected.captured.outputs, atol=1e-6)
        pd.testing.assert_frame_equal(one.tokens, expected.tokens)
        pd.testing.assert_frame_equal(one.summary(), expected.summary(), rtol=1e-4)
    result = headscope.analyze(model, test.globs["texts"], window=64, progress=False)
    found = test.globs["result"].dataset
    assert np.array_equal(found["base_pairs"].values, result.dataset["base_pairs"].values)
    assert (
        abs(found["pairs"] - result.dataset["pairs"]).sum() <= 0.001 * result.dataset["pairs"].sum()
    )  # within rounding
    assert np.allclose(found["attention"], result.dataset["attention"], atol=1e-5)


@pytest.mark.long
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_an_encoder_in_transformer_lens(embedded: headscope.Model) -> None:
    import torch
    import transformers
    from transformer_lens.model_bridge import TransformerBridge

    whole = transformers.BertForMaskedLM(embedded.network.config).eval()
    whole.bert.load_state_dict(embedded.network.state_dict(), strict=False)
    name = str(Path(headscope.__file__).parent / "data" / "bert12")
    bridge = TransformerBridge.boot_transformers(name, device="cpu", hf_model=whole)
    text = headscope.passages("news")[0]["text"][:300]
    encoded = embedded.tokenizer(text, return_offsets_mapping=True)
    _, cache = bridge.run_with_cache(torch.tensor([encoded["input_ids"]]))
    seen = headscope.Inspection.from_arrays(
        [cache["z", k][0].transpose(0, 1) for k in range(12)],
        [cache["pattern", k][0] for k in range(12)],
        values=[cache["v", k][0].transpose(0, 1) for k in range(12)],
        ids=encoded["input_ids"],
        tokens=encoded.tokens(),
        text=text,
        offsets=encoded["offset_mapping"],
    )
    expected = embedded.inspect(text)
    assert seen.stack == "encoder"
    pd.testing.assert_frame_equal(seen.summary(), expected.summary(), rtol=1e-4)
    pd.testing.assert_frame_equal(
        seen.read_as("values").summary(top=True), expected.read_as("values").summary(top=True), rtol=1e-4
    )
