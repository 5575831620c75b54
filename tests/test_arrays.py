"""Arrays in place of a model, and inspections that were saved: the numbers are those that the model gave."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
import xarray as xr

import headscope
from headscope import HeadscopeError, Inspection

Tiny = Callable[[str], headscope.Model]
TEXT = "The cat saw the dog. The dog, old and grey, saw the cat. It ran."


def given(model: headscope.Model, text: str) -> dict[str, Any]:
    """A text as another library would have it: what a tokenizer tells, and arrays."""
    seen = model.inspect(text)
    encoded = model.tokenizer(text, return_offsets_mapping=True)
    return {
        "outputs": seen.captured.outputs,
        "attention": seen.captured.weights,
        "values": list(seen.captured.values),
        "ids": encoded["input_ids"],
        "tokens": model.tokenizer.convert_ids_to_tokens(encoded["input_ids"]),
        "text": text,
        "offsets": encoded["offset_mapping"],
    }


@pytest.mark.parametrize("kind", ["embedded", "gpt2", "llama", "roberta", "mistral"])
def test_arrays_give_what_the_model_gives(kind: str, embedded: headscope.Model, tiny: Tiny) -> None:
    model = embedded if kind == "embedded" else tiny(kind)
    seen, arrays = model.inspect(TEXT), given(model, TEXT)
    if kind == "mistral":  # a sliding window: who may read whom cannot be seen from who does
        arrays["readable"] = [each[0, 0] if each.ndim > 2 else each for each in seen.captured.readable]
    again = Inspection.from_arrays(**arrays, model=model.name)
    assert again.missing == []
    assert again.stack == seen.stack
    pd.testing.assert_frame_equal(again.tokens, seen.tokens)
    pd.testing.assert_frame_equal(again.summary(), seen.summary())
    pd.testing.assert_frame_equal(again.layer_summary(0.7), seen.layer_summary(0.7))
    for reading in ("cosine", "values"):
        pd.testing.assert_frame_equal(again.read_as(reading).summary(top=True), seen.read_as(reading).summary(top=True))
    pd.testing.assert_frame_equal(again.high_pairs(1, 2), seen.high_pairs(1, 2))
    pd.testing.assert_frame_equal(again.attended(1, 2), seen.attended(1, 2))
    assert again.in_words() == seen.in_words()


def test_any_kind_of_numbers_is_taken(embedded: headscope.Model) -> None:
    arrays = given(embedded, TEXT)
    whole = Inspection.from_arrays(**arrays)
    for kind in (torch.from_numpy, lambda a: [torch.from_numpy(each) for each in a], lambda a: a.astype(np.float64)):
        changed = arrays | {name: kind(arrays[name]) for name in ("outputs", "attention")}
        pd.testing.assert_frame_equal(Inspection.from_arrays(**changed).summary(), whole.summary())
    half = arrays | {"outputs": torch.from_numpy(arrays["outputs"]).bfloat16()}
    assert Inspection.from_arrays(**half).similarity.dtype == np.float32


def test_without_text_what_needs_words_says_so(embedded: headscope.Model) -> None:
    arrays = {name: value for name, value in given(embedded, TEXT).items() if name not in ("text", "offsets")}
    seen = Inspection.from_arrays(**arrays, special_tokens_mask=[1] + [0] * (len(arrays["ids"]) - 2) + [1])
    known = embedded.inspect(TEXT)
    assert seen.missing == ["words and sentences are not known: the tokens came without their text"]
    assert "words and sentences are not known" in repr(seen)
    one, other = seen.summary(), known.summary()
    unknown = ["separator_focus_stop", "sentence_preference", "repetition_preference", "separator_similarity"]
    assert one[unknown].isna().all(axis=None)
    rest = [name for name in one if name not in unknown and name != "focal_token"]
    pd.testing.assert_frame_equal(one[rest], other[rest])
    assert set(seen.tokens.category.dropna()) == {"start", "end"}
    assert seen.high_pairs(8, 0).relation.isna().all()
    assert seen.high_pairs(8, 0).level.equals(known.high_pairs(8, 0).level)
    assert seen.in_words()[-1].startswith("Missing: words and sentences")
    with pytest.raises(HeadscopeError, match="words and sentences are not known"):
        Inspection.from_arrays(**arrays, repeated="word")
    with pytest.raises(HeadscopeError, match=r"no offsets.*return_offsets_mapping"):
        Inspection.from_arrays(**arrays, text=TEXT)


def test_without_attention_what_needs_it_says_so(embedded: headscope.Model, tmp_path: Path) -> None:
    arrays = {name: value for name, value in given(embedded, TEXT).items() if name != "attention"}
    seen, known = Inspection.from_arrays(**arrays), embedded.inspect(TEXT)
    assert seen.missing == ["attention is not known: it was not given"]
    one, other = seen.summary(), known.summary()
    unknown = ["separator_focus_stop", "separator_focus_end", "likeness"]
    assert one[unknown].isna().all(axis=None)
    rest = [name for name in one if name not in unknown]
    pd.testing.assert_frame_equal(one[rest], other[rest])
    for ask in (
        lambda: seen.attention,
        lambda: seen.given,
        lambda: seen.attended(0, 0),
        lambda: seen.attention_map(0, 0),
    ):
        with pytest.raises(HeadscopeError, match="attention is not known here"):
            ask()
    seen.plot_similarity(8, 0).save(tmp_path / "s.svg")
    assert seen.view_html(tmp_path / "view.html").stat().st_size > 100_000
    pd.testing.assert_frame_equal(Inspection.open(seen.save(tmp_path / "a.nc")).summary(), one)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"outputs": np.ones((2, 3, 4))}, r"outputs are of shape \(2, 3, 4\).*without padding"),
        ({"outputs": np.full((1, 1, 3, 2), np.nan)}, "NaN or infinite"),
        ({"tokens": ["a", "b"]}, "outputs are of 3 tokens, and 2 are named"),
        ({"tokens": [1, 2, 3]}, "give strings; token ids are ids="),
        ({"tokens": None}, "there are no tokens"),
        ({"attention": np.ones((1, 2, 3, 3))}, "do not sum to one"),
        ({"attention": np.ones((1, 2, 3, 4)) / 4}, "do not go with outputs"),
        ({"text": "a b c", "offsets": [(0, 1), (2, 3), (4, 9)]}, "outside the text of 5 characters"),
        ({"text": "a b c", "offsets": [(0, 1)]}, r"offsets of shape \(1, 2\) for 3 tokens"),
        ({"values": np.ones((1, 3, 3, 2))}, "values of shape"),
        ({"layers": [3, 3]}, r"layers=\[3, 3\]"),
        ({"readable": np.ones((2, 2))}, r"readable of shape \(2, 2\)"),
        ({"special_tokens_mask": [1, 1, 1]}, "all tokens are special"),
    ],
)
def test_what_does_not_fit_together_is_said(changes: dict[str, Any], words: str) -> None:
    arrays = {"outputs": np.ones((1, 2, 3, 2)), "tokens": ["a", "b", "c"]} | changes
    with pytest.raises(HeadscopeError, match=words):
        Inspection.from_arrays(**arrays)


@pytest.mark.parametrize("kind", ["embedded", "gpt2"])
@pytest.mark.parametrize("padding", [1, 4])
def test_padding_is_refused(kind: str, padding: int, embedded: headscope.Model, tiny: Tiny) -> None:
    arrays = given(embedded if kind == "embedded" else tiny(kind), TEXT)
    size = len(arrays["ids"])
    more = ((0, 0), (0, 0), (0, padding), (0, 0))
    padded = arrays | {
        "outputs": np.pad(arrays["outputs"], more, mode="edge"),
        "attention": np.pad(arrays["attention"], (*more[:2], (0, padding), (0, padding))),
        "values": [np.pad(each, more[1:]) for each in arrays["values"]],
        "ids": [*arrays["ids"], *[0] * padding],
        "tokens": [*arrays["tokens"], *["[PAD]"] * padding],
        "offsets": [*arrays["offsets"], *[(0, 0)] * padding],
    }
    which = f"tokens {size} to {size + 3} receive" if padding > 1 else f"token {size} receives"
    with pytest.raises(HeadscopeError, match=f"{which} no attention from anyone.*padding.*cut"):
        Inspection.from_arrays(**padded)
    builder = headscope.ResultBuilder("mine", window=64)
    with pytest.raises(HeadscopeError, match=f"text 0: {which} no attention"):
        builder.add(**padded)
    own = np.arange(size, size + padding)
    padded["attention"][..., own, own] = 1  # no mask: each reads itself
    if kind == "gpt2" and padding > 1:
        with pytest.raises(HeadscopeError, match="same special token again and again"):
            Inspection.from_arrays(**padded)
    else:
        Inspection.from_arrays(**padded)


def test_equal_tokens_at_the_end_are_no_padding() -> None:
    backwards = np.tril(np.ones((4, 4))) / np.arange(1, 5)[:, None]
    arrays = {"outputs": np.ones((1, 1, 4, 2)), "text": "a b!!", "offsets": [(0, 1), (2, 3), (3, 4), (4, 5)]}
    seen = Inspection.from_arrays(**arrays, attention=backwards[None, None], tokens=["a", "b", "!", "!"])
    assert seen.stack == "decoder"


def test_a_model_that_reads_ahead_is_not_causal(embedded: headscope.Model) -> None:
    with pytest.raises(HeadscopeError, match="attention reads later tokens"):
        Inspection.from_arrays(**given(embedded, TEXT), causal=True)


# ---------------------------------------------------------------------- opening what was saved


@pytest.mark.parametrize("kind", ["gpt2", "llama", "mistral", "cross"])
def test_a_saved_inspection_opens_as_it_was(kind: str, tiny: Tiny, tmp_path: Path) -> None:
    seen = tiny("t5").inspect(TEXT, stack="cross") if kind == "cross" else tiny(kind).inspect(TEXT, scale="rank")
    opened = Inspection.open(seen.save(tmp_path / "a.nc"))
    assert repr(opened) == repr(seen)
    assert opened.choices == seen.choices
    assert opened.missing == []
    pd.testing.assert_frame_equal(opened.tokens, seen.tokens)
    pd.testing.assert_frame_equal(opened.key_tokens, seen.key_tokens)
    pd.testing.assert_frame_equal(opened.summary(), seen.summary())
    other = "cosine" if kind == "cross" else "values"
    pd.testing.assert_frame_equal(
        opened.read_as(other).layer_summary(top=True), seen.read_as(other).layer_summary(top=True)
    )
    assert opened.in_words() == seen.in_words()
    assert opened.similarity.equals(seen.similarity)
    xr.testing.assert_identical(opened.to_dataset(), seen.to_dataset())


def test_a_pair_and_a_text_without_maps(embedded: headscope.Model, tiny: Tiny, tmp_path: Path) -> None:
    seen = embedded.inspect("The cat sat.", "A dog lay on the rug.", layers=[3, 11])
    opened = Inspection.open(seen.save(tmp_path / "pair.nc"))
    pd.testing.assert_frame_equal(opened.summary(), seen.summary())
    without = tiny("gpt2").inspect(TEXT, maps=False)
    opened = Inspection.open(without.save(tmp_path / "without.nc"))
    assert opened.missing == ["attention maps, and what is made of them, are not known: they were not kept"]
    pd.testing.assert_frame_equal(opened.attended(2, 3), without.attended(2, 3))
    assert opened.summary().likeness.isna().all()
    with pytest.raises(HeadscopeError, match="were not kept in this file"):
        opened.attention_map(0, 0)


def test_what_is_no_inspection_is_refused(embedded: headscope.Model, tmp_path: Path, view_run: Path) -> None:
    with pytest.raises(HeadscopeError, match="there is no file"):
        Inspection.open(tmp_path / "none.nc")
    with pytest.raises(HeadscopeError, match=r"is not a saved inspection.*Result\.open"):
        Inspection.open(view_run / "result.nc")
    with pytest.raises(HeadscopeError, match=r"is the inspection of one text.*Inspection\.open"):
        headscope.Result.open(embedded.inspect("The cat sat.").save(tmp_path / "a.nc"))
    (tmp_path / "noise.nc").write_bytes(b"\x89HDF noise")
    with pytest.raises(HeadscopeError, match="is not a saved inspection"):
        Inspection.open(tmp_path / "noise.nc")
    whole = embedded.inspect("The cat sat.").to_dataset()
    for number, (changed, words) in enumerate([
        (whole.assign_attrs(schema=0), "was saved by headscope"),
        (whole.drop_vars("token_id"), "does not hold what it should"),
        (whole.assign_attrs(stack="../x"), "does not hold what it should"),
        (whole.assign(given=whole.given * np.nan), "NaN or infinite"),
        (whole.assign(token_part=whole.token_part + 5), "outside the text"),
    ]):  # fmt: skip
        changed.to_netcdf(tmp_path / f"{number}.nc", engine="h5netcdf")
        with pytest.raises(HeadscopeError, match=words):
            Inspection.open(tmp_path / f"{number}.nc")


# ---------------------------------------------------------------------- from arrays to a result


def build(model: headscope.Model, passages: list[dict[str, str]], **options: Any) -> headscope.ResultBuilder:
    builder = headscope.ResultBuilder(model.name, **options)
    for each in passages:
        arrays = given(model, each["text"])
        builder.add(**arrays, group=each["group"])
    return builder


def short(number: int) -> list[dict[str, str]]:
    return [p | {"text": p["text"][:120]} for p in headscope.passages()[4 : 4 + number]]


@pytest.mark.parametrize(("kind", "most"), [("embedded", 64), ("gpt2", 4)])
def test_a_result_of_arrays_is_that_of_the_texts(
    kind: str, most: int, embedded: headscope.Model, tiny: Tiny, monkeypatch: pytest.MonkeyPatch
) -> None:
    from headscope.runs import builder as building

    monkeypatch.setattr(building, "MOST", most)  # so that shards are added on the way
    model, passages = embedded if kind == "embedded" else tiny(kind), short(11)
    options: dict[str, Any] = {"window": 64, "readings": ("dot", "cosine", "values")}
    result = build(model, passages, **options).result()
    texts = [(p["id"], p["text"], p["group"]) for p in passages]
    expected = headscope.analyze(model, texts, progress=False, **options)
    assert result.groups == expected.groups
    for part in ("dataset", "by_group"):
        one, other = getattr(result, part), getattr(expected, part)
        assert set(one.data_vars) == set(other.data_vars)
        for name in other.data_vars:
            if other[name].dtype.kind in "iu":
                assert np.array_equal(one[name].values, other[name].values), name
            elif other[name].dtype.kind == "f":
                assert np.allclose(one[name].values, other[name].values, rtol=1e-6, atol=1e-6), name
    assert int(result.by_block.texts_read.sum()) == 11
    assert result.by_block.sizes["block"] >= 4
    assert [finding.key for finding in result.findings(draws=20)] == [f.key for f in expected.findings(draws=20)]
    assert result.select("news").groups == ["news"]


def test_a_builder_goes_on_after_a_result_and_results_add_up(tiny: Tiny) -> None:
    passages = short(5)
    builder = build(tiny("gpt2"), passages[:2], window=64)
    first = builder.result()
    for each in passages[2:]:
        builder.add(**given(tiny("gpt2"), each["text"]), group=each["group"])
    assert int(first.dataset.texts) == 2
    rest = build(tiny("gpt2"), passages[2:], window=64).result()
    whole, added = builder.result(), first + rest
    assert np.array_equal(whole.dataset.pairs.values, added.dataset.pairs.values)
    other = headscope.ResultBuilder("another", window=64)
    other.add(**given(tiny("gpt2"), passages[0]["text"]))
    with pytest.raises(HeadscopeError, match="results that differ do not add up: model"):
        first + other.result()


def test_what_a_builder_refuses(tiny: Tiny) -> None:
    arrays = given(tiny("gpt2"), "The cat saw the dog.")
    with pytest.raises(HeadscopeError, match="there are no texts"):
        headscope.ResultBuilder("a").result()
    for changes, options, words in [
        ({"attention": None}, {}, "text 0 comes without attention"),
        ({"text": None, "offsets": None}, {}, r"text 0 comes without text.*Inspection\.from_arrays"),
        ({}, {"window": 3}, "text 0: the text has .* tokens, and the window 3"),
        ({"values": None}, {"readings": "values"}, "compares value vectors"),
    ]:
        with pytest.raises(HeadscopeError, match=words):
            headscope.ResultBuilder("a", **options).add(**arrays | changes)
    builder = headscope.ResultBuilder("a")
    builder.add(**arrays)
    with pytest.raises(HeadscopeError, match=r"text 1: 2 layers × 4 heads.*before there were 3"):
        builder.add(**arrays | {name: arrays[name][:2] for name in ("outputs", "attention", "values")})
