"""S, a, levels, relations, focal tokens and the summary of a text equal a naive implementation of the method."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import headscope
import naive
import naive_corpus
import naive_order
from headscope.choices import READINGS
from headscope.inspection import Inspection
from headscope.inspection.summary import by_threshold
from headscope.measures.quantities import shown_in
from headscope.measures.relations import RELATIONS
from headscope.windows.text import sentence_spans
from long import first_of

TEXT = (
    'The ferryman knew the river. "The river knows me," he said (often), and the children laughed! '
    "Naïve or not, the ferryman rowed on: 3 children, 2 dogs… The dogs barked. Nobody answered the dogs"
)
LONG = "".join(p["text"] + " " for p in headscope.passages("story")[:2])
KINDS = ["embedded", "gpt2", "roberta", "llama", "llama-no-start", "mpnet", "distilbert", "mistral"]
SOME = ["gpt2", "embedded", "roberta", "mistral"]


@pytest.fixture(scope="module")
def model(request: pytest.FixtureRequest, embedded: Any, tiny: Callable[[str], Any]) -> headscope.Model:
    return embedded if request.param == "embedded" else tiny(request.param)


def may_read(kind: str, size: int, layer: int) -> np.ndarray:
    allowed = np.ones((size, size), dtype=bool)
    if kind in ("gpt2", "llama", "llama-no-start", "mistral"):
        allowed = np.tril(allowed)
    if kind == "mistral":
        allowed &= ~np.tril(np.ones((size, size), dtype=bool), -6)
    return allowed


def expected_tokens(seen: Inspection, text: str, kind: str) -> dict[str, list]:
    """Category, sentence and word of every token, from the text and the spans alone."""
    table = seen.tokens
    own = [(int(a), int(b)) for a, b, part in zip(table.start, table.end, table.part, strict=True) if part == 0]
    sentences = sentence_spans(text)
    inner = naive.categories(text, own, sentences)
    before = 1 if kind in ("embedded", "roberta", "mpnet", "distilbert", "llama", "mistral") else 0
    after = len(table) - before - len(own)
    category = ["start"] * before + inner + ["end"] * after
    sentence = [None] * before + [naive.sentence_of(text, span, sentences) for span in own] + [None] * after
    word = [None] * before + [naive.word_of(text, span) for span in own] + [None] * after
    if not before:  # a causal model without a start token: position 0 is treated as one
        category[0], sentence[0], word[0] = "start", None, None
    return {"category": category, "sentence": sentence, "word": word}


OPTIONS: dict[str, dict[str, Any]] = {
    "dot": {}, "cosine-rank": {"scale": "rank", "readings": "cosine"}, "centred": {"readings": ("centred", "dot")},
    "values": {"readings": ["values"]},
}  # fmt: skip
EVERY = [
    *((kind, "dot") for kind in KINDS),
    *((kind, name) for name in [*OPTIONS][1:] for kind in ("embedded", "llama")),
]
REST = [(kind, name) for name in OPTIONS for kind in KINDS if (kind, name) not in EVERY]


@pytest.mark.parametrize(("model", "how"), first_of([*EVERY, *REST], len(EVERY)), indirect=["model"])
def test_every_quantity_equals_the_naive_one(model: headscope.Model, how: str, request: pytest.FixtureRequest) -> None:
    kind = request.node.callspec.params["model"]
    seen = model.inspect(TEXT, **OPTIONS[how])
    size = len(seen.window)
    ids = seen.tokens.id.tolist()
    outputs, weights, values = naive_corpus.heads_of(model, ids, None)[seen.stack]
    told = expected_tokens(seen, TEXT, kind)
    assert seen.tokens.category.tolist() == told["category"]
    assert [s if s >= 0 else None for s in seen.tokens.sentence] == told["sentence"]

    np.testing.assert_allclose(seen.attention.values, weights, atol=1e-6)
    scale = np.abs(outputs).max(axis=(2, 3), keepdims=True)
    assert (np.abs(seen.outputs.values - outputs) / scale).max() < 1e-5
    np.testing.assert_allclose(seen.norms.values, np.linalg.norm(outputs, axis=-1), rtol=1e-4, atol=1e-6)
    groups = seen.values.sizes["group"]
    own_values = seen.values.values[:, [h * groups // seen.captured.heads for h in range(seen.captured.heads)]]
    np.testing.assert_allclose(own_values, values, rtol=1e-4, atol=1e-5 * np.abs(values).max())

    counting = [category not in ("start", "end") for category in told["category"]]
    places = naive.pairs(counting)
    relations = [naive.relation(i, j, ids, told["category"], told["word"], told["sentence"]) for i, j in places]
    names = dict(zip(places, relations, strict=True))
    bands = [naive_order.band_of(j - i) for i, j in places]
    summary = seen.summary().set_index(["layer", "head"])
    for layer, head in [(0, 0), (1, 3), (2, 2), (model.stack().layers - 1, 1)]:
        o = seen.outputs.sel(layer=layer, head=head).values
        matrix = naive_order.similarity(o, own_values[layer, head], counting, seen.reading)
        np.fill_diagonal(matrix, 0)
        own = seen.similarity.sel(layer=layer, head=head).values
        np.testing.assert_allclose(own, matrix, atol=2e-5 * np.abs(matrix).max())
        assert (np.diag(own) == 0).all()

        # From here on the naive code starts from the S of headscope, so that counts must match to the last pair.
        level = naive.levels(own.astype(float), places, rank="scale" in OPTIONS[how])
        assert level is not None
        shown = seen.levels.sel(layer=layer, head=head).values
        np.testing.assert_array_equal([shown[p] for p in places], np.array(level, dtype=np.float32))
        outside = np.ones((size, size), dtype=bool)
        for i, j in places:
            outside[i, j] = outside[j, i] = False
        assert np.isnan(shown[outside]).all()

        high = [p for p, x in zip(places, level, strict=True) if naive.bin_of(x) >= 11]
        table = seen.high_pairs(layer, head, tau=0.5)
        assert set(zip(table.i, table.j, strict=True)) == set(high)
        assert table.level.is_monotonic_decreasing
        for line in table.itertuples():
            assert line.relation == names[line.i, line.j]
            assert line.distance == line.j - line.i

        token = seen.focal_token(layer, head, tau=0.5)
        best, share = naive.focal(high, ids, counting)
        assert (token.id, token.high_pairs) == (best, len(high))
        assert token.share == pytest.approx(share)

        reads = may_read(kind, size, layer)
        a = weights[layer, head]
        np.testing.assert_allclose(seen.received(layer, head).values, naive.received(a, reads), atol=1e-5)
        text_only = naive.received(a, reads) * [1 if counts else np.nan for counts in counting]
        text_only /= np.nanmax(text_only)
        np.testing.assert_allclose(seen.received(layer, head, text_only=True).values, text_only, atol=1e-5)
        assert set(seen.attended(layer, head, 0.3, text_only=True).index) == set(np.flatnonzero(text_only > 0.3))
        assert set(seen.attended(layer, head, 0.3).index) == set(np.flatnonzero(naive.received(a, reads) > 0.3))

        row = summary.loc[layer, head]
        assert row.separator_focus_stop == pytest.approx(naive.focus(a, reads, told["category"], "stop"), rel=1e-4)
        end = naive.focus(a, reads, told["category"], "end")
        assert row.separator_focus_end == pytest.approx(end, rel=1e-4, nan_ok=True)
        base = np.mean([j - i for i, j in places])
        assert row.high_pairs == len(high)
        assert row.reach == pytest.approx(np.mean([j - i for i, j in high]) / base)
        matched = naive_order.matched([places.index(pair) for pair in high], relations, bands)
        for name, comparison in PREFERENCES.items():
            ones, zeros = matched[list(naive_order.COMPARISONS).index(comparison)]
            preference = (ones + 0.5) / (zeros + 0.5) if ones + zeros >= 5 else np.nan
            assert row[name] == pytest.approx(preference, nan_ok=True), name
        maps = [naive_order.attention_map(a, reads, name) for name in naive_order.MAPS]
        alike = [naive.pearson([float(own[p]) for p in places], [float(each[p]) for p in places]) for each in maps]
        assert row.likeness == pytest.approx(max(alike), abs=1e-4)


PREFERENCES = {
    "sentence_preference": "sentence", "repetition_preference": "repetition", "separator_similarity": "stop"
}  # fmt: skip


@pytest.mark.parametrize("model", first_of(["llama", "embedded"]), indirect=True)
@pytest.mark.parametrize("maps", [True, False], ids=["maps", "no-maps"])
def test_one_capture_serves_every_reading(model: headscope.Model, maps: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """What `read_as` gives is what an inspection in that reading gives; with its maps kept the model stays idle."""
    whole = {name: model.inspect(TEXT, readings=name, maps=maps) for name in READINGS}
    seen = model.inspect(TEXT, readings=("cosine", "dot"), maps=maps)
    assert (seen.reading, seen.readings) == ("cosine", tuple(READINGS))
    if maps:
        monkeypatch.setattr(model.network, "forward", None)
    for name, own in whole.items():
        again = seen.read_as(name)
        assert again.captured is seen.captured
        assert again.choices.readings == tuple(dict.fromkeys((name, "cosine", "dot")))
        np.testing.assert_array_equal(again.similarity_matrix(1, 2), own.similarity_matrix(1, 2))
        assert again.high_pairs(1, 2).equals(own.high_pairs(1, 2))
        assert again.summary().equals(own.summary())
        assert again.layer_summary(0.7).equals(own.layer_summary(0.7))
    assert len({own.summary().high_pairs.sum() for own in whole.values()}) == 4


def test_the_numbers_of_a_layer_are_those_of_its_typical_head(embedded: headscope.Model) -> None:
    seen = embedded.inspect(LONG)
    heads, layers = seen.summary(0.4), seen.layer_summary(0.4).set_index("layer")
    for layer, rows in heads.groupby("layer"):
        own = layers.loc[layer]
        assert own.high_pairs == rows.high_pairs.sum()
        assert own.reach == pytest.approx(rows.reach.median())
        assert own.likeness == pytest.approx(rows.likeness.median())
        for name in ("separator_focus_stop", *PREFERENCES):
            assert own[name] == pytest.approx(np.exp(np.log(rows[name]).median()), nan_ok=True), name
        assert own.focal_unique == rows.focal_token.nunique()
    pairs = naive_order.Pairs(naive_corpus.Window(embedded, LONG, 128, causal=False))
    for layer in (0, 11):
        high = [list(zip(*seen.high_pairs(layer, head, 0.4)[["i", "j"]].T.values, strict=True)) for head in range(12)]
        chance = {naive_order.null_focal(each, pairs, layer, head) for head, each in enumerate(high)}
        assert layers.focal_null[layer] == len(chance - {None})


@pytest.mark.parametrize("reading", first_of(READINGS))
def test_top_pairs_stand_in_for_high_ones(embedded: headscope.Model, reading: str) -> None:
    seen = embedded.inspect(LONG, readings=reading)
    heads, layers = seen.summary(top=True).set_index(["layer", "head"]), seen.layer_summary(top=True)
    window = naive_corpus.Window(embedded, LONG, 128, causal=False)
    pairs = naive_order.Pairs(window)
    chosen = []
    for head in range(12):
        values = pairs.of(seen.similarity_matrix(7, head))
        top = naive_order.top_pairs(naive_order.order(values, naive_order.edges(values, pairs.key)))
        row, places = heads.loc[7, head], [pairs.places[number] for number in top]
        assert row.high_pairs == len(top)
        matched = naive_order.matched(top, pairs.relations, pairs.bands)
        for name, comparison in PREFERENCES.items():
            ones, zeros = matched[list(naive_order.COMPARISONS).index(comparison)]
            preference = (ones + 0.5) / (zeros + 0.5) if ones + zeros >= 5 else np.nan
            assert row[name] == pytest.approx(preference, nan_ok=True), name
        best, share = naive.focal(places, window.ids, window.counting) or (None, np.nan)
        chosen.append(best)
        assert row.focal_share == pytest.approx(share, nan_ok=True)
        # A band stands for its mean distance.
        far = {band: np.mean([j - i for (i, j), own in zip(pairs.places, pairs.bands, strict=True) if own == band])
               for band in set(pairs.bands)}  # fmt: skip
        base = np.mean([j - i for i, j in pairs.places])
        assert row.reach == pytest.approx(np.mean([far[pairs.bands[number]] for number in top]) / base)
    assert layers.focal_unique[7] == len(set(chosen) - {None})
    assert heads.likeness.tolist() == seen.summary().likeness.tolist()  # it needs no threshold
    assert heads.separator_focus_stop.tolist() == seen.summary().separator_focus_stop.tolist()


def test_cross_attention_has_no_value_vectors_to_compare(tiny: Callable[[str], Any]) -> None:
    model = tiny("t5")
    seen = model.inspect(TEXT, stack="cross")
    assert seen.readings == ("dot", "cosine", "centred")
    with pytest.raises(headscope.HeadscopeError, match="cross-attention cannot be read by 'values'"):
        seen.read_as("values")
    with pytest.raises(headscope.HeadscopeError, match="decoder's tokens"):
        model.inspect(TEXT, stack="cross", readings=("dot", "values"))
    assert model.inspect(TEXT, stack="decoder", readings="values").reading == "values"


def test_a_reading_that_does_not_exist_is_named(embedded: headscope.Model) -> None:
    for wrong in ("manhattan", (), ["dot", "L2"]):
        with pytest.raises(headscope.HeadscopeError, match="use some of dot, cosine, centred, values"):
            embedded.inspect(TEXT, readings=wrong)
    with pytest.raises(headscope.HeadscopeError, match="manhattan"):
        embedded.inspect(TEXT).read_as("manhattan")


@pytest.mark.parametrize("stack", ["encoder", "decoder", "cross"])
def test_three_stacks_of_an_encoder_decoder(tiny: Callable[[str], Any], stack: str) -> None:
    """T5: the decoder reads the text's own ids, shifted right by its start token."""
    model = tiny("t5")
    seen = model.inspect(TEXT, stack=stack)
    ids = model.inspect(TEXT).tokens.id.tolist()
    with torch.no_grad():
        returned = model.network(
            input_ids=torch.tensor([ids]), decoder_input_ids=torch.tensor([[0, *ids[:-1]]]), output_attentions=True
        )
    maps = getattr(returned, {"cross": "cross_attentions"}.get(stack, f"{stack}_attentions"))
    np.testing.assert_array_equal(seen.attention.values, np.stack([m[0].numpy() for m in maps]))
    queries = ids if stack == "encoder" else [0, *ids[:-1]]
    keys = ids if stack in ("encoder", "cross") else queries
    assert seen.tokens.id.tolist() == queries
    assert seen.key_tokens.id.tolist() == keys
    summary = seen.summary()
    assert len(summary) == 4 * (3 if stack == "encoder" else 2)
    assert summary.likeness.isna().all() == (stack == "cross")
    assert set(summary) >= {each.name for each in shown_in("text")}
    assert seen.tokens.category.iloc[0] == ("start" if stack != "encoder" else "word")
    counting = seen.counting.numpy()
    o = seen.outputs.values[0, 0]
    matrix = naive_order.similarity(o, None, counting.tolist(), "dot")
    np.fill_diagonal(matrix, 0)
    np.testing.assert_allclose(seen.similarity.values[0, 0], matrix, atol=1e-5 * np.abs(o).max() ** 2 * 8)
    assert counting.sum() == sum(category not in ("start", "end") for category in seen.tokens.category)


def test_a_window_in_a_longer_text_is_the_text_cut_there(embedded: headscope.Model) -> None:
    whole = embedded.tokenizer(LONG, add_special_tokens=False)["input_ids"]
    seen = embedded.inspect(LONG, start=100)
    assert seen.tokens.id.tolist() == [2, *whole[100:226], 3]
    assert seen.shown == f"tokens 101 to 226 of {len(whole)}"
    first = seen.tokens.iloc[1]
    assert LONG[first.start : first.end].lower() == first.token
    assert first.sentence > 0  # sentences are numbered over the whole text


def test_a_pair_is_read_as_the_model_was_trained_to(embedded: headscope.Model) -> None:
    seen = embedded.inspect("The cat sat.", "The dog ran. It barked.")
    expected = embedded.tokenizer("The cat sat.", "The dog ran. It barked.")
    assert seen.tokens.id.tolist() == expected["input_ids"]
    assert seen.window.types.tolist() == expected["token_type_ids"]
    middle = seen.tokens[seen.tokens.part < 0]
    assert middle.category.tolist() == ["start", "end", "end"]
    assert seen.tokens[seen.tokens.part == 0].sentence.unique().tolist() == [0]
    assert seen.tokens[seen.tokens.part == 1].sentence.unique().tolist() == [1, 2]
    parts = seen.tokens[seen.tokens.part == 1]
    assert parts.word.min() > seen.tokens[seen.tokens.part == 0].word.max()


@pytest.mark.parametrize("kind", ["embedded", "gpt2", "llama", "t5"])
def test_token_ids_give_what_their_text_gives(kind: str, embedded: Any, tiny: Callable[[str], Any]) -> None:
    model = embedded if kind == "embedded" else tiny(kind)
    by_text = model.inspect(TEXT.replace("…", "."))  # T5's kind of tokenizer turns it into three dots
    by_ids = model.inspect(by_text.tokens.id.tolist())
    np.testing.assert_array_equal(by_ids.outputs.values, by_text.outputs.values)
    assert by_ids.tokens.category.tolist() == by_text.tokens.category.tolist()
    if kind != "embedded":  # decoding WordPiece puts spaces between words and marks
        assert by_ids.tokens.sentence.tolist() == by_text.tokens.sentence.tolist()


def test_an_inspection_is_let_go(embedded: headscope.Model) -> None:
    seen = embedded.inspect(TEXT)
    seen.summary()
    alive = weakref.ref(seen)
    del seen
    gc.collect()
    assert alive() is None


def test_the_default_window_fits_the_model(embedded: headscope.Model, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedded.tokenizer, "model_max_length", 20)
    monkeypatch.delitem(embedded.__dict__, "max_length", raising=False)
    assert len(embedded.inspect(TEXT).window) == 20
    with pytest.raises(headscope.HeadscopeError, match="longest is 20"):
        embedded.inspect(TEXT, window=128)
    monkeypatch.undo()
    embedded.__dict__.pop("max_length", None)
    assert embedded.max_length == 128


@pytest.mark.parametrize(
    ("options", "said"),
    [({"layers": 3}, "layers=3"), ({"layers": [99]}, "layers"), ({"scale": "log"}, "scale"), ({"window": 0}, "window"),
     ({"language": "german"}, "language"), ({"pair": 3}, "pair"), ({"pair": "d e", "window": 4}, "no room")],
    ids=str,
)  # fmt: skip
def test_wrong_options_are_named(embedded: headscope.Model, options: dict[str, Any], said: str) -> None:
    with pytest.raises(headscope.HeadscopeError, match=said):
        embedded.inspect("a b c", **options)


def test_ids_may_be_a_tensor_and_must_be_ids(embedded: headscope.Model) -> None:
    ids = embedded.tokenizer("The cat sat.", return_tensors="pt")["input_ids"][0]
    assert embedded.inspect(ids).tokens.id.tolist() == ids.tolist()
    for wrong in ([2, 99_999, 3], [2, "cat", 3], [], [1] * 129, b"bytes", 7, None):
        with pytest.raises(headscope.HeadscopeError):
            embedded.inspect(wrong)


def test_special_tokens_take_part_when_asked_for(embedded: headscope.Model) -> None:
    without, with_ = embedded.inspect(TEXT), embedded.inspect(TEXT, special=True)
    n = len(without.window)
    assert len(with_.places[0]) == n * (n - 1) // 2
    assert len(without.places[0]) == (n - 2) * (n - 3) // 2
    first = with_.relations[[k for k in range(len(with_.places[0])) if with_.places[0][k] == 0]]
    assert "sentence" not in {RELATIONS[r] for r in first}  # special: of no sentence


def relation_of(seen: Inspection, first: int, second: int) -> str:
    place = [(int(i), int(j)) for i, j in zip(*seen.places, strict=True)].index((first, second))
    return RELATIONS[int(seen.relations[place])]


def test_repeated_words_may_differ_in_case(tiny: Callable[[str], Any]) -> None:
    """For a tokenizer that keeps case, "The" and "the" are two tokens and one word."""
    model = tiny("gpt2")
    text = "It ran. The dog saw the cat."
    tokens, words = model.inspect(text), model.inspect(text, repeated="word")
    places = [k for k, word in enumerate(tokens.window.words) if word == "the"]
    assert len(places) == 2
    assert len({int(tokens.window.ids[k]) for k in places}) == 2
    assert relation_of(tokens, *places) == "sentence"
    assert relation_of(words, *places) == "both"


def test_the_bytes_of_one_character_do_not_repeat_each_other(tiny: Callable[[str], Any]) -> None:
    seen = tiny("gpt2").inspect("The 龘 cat. A 龘 dog.", repeated="word")
    spread = [k for k, label in enumerate(seen.window.labels) if label == "龘"]
    half = len(spread) // 2
    assert half > 1
    assert relation_of(seen, spread[0], spread[1]) == "sentence"
    assert relation_of(seen, spread[0], spread[half]) == "repeated"


def test_flat_matrices_have_no_levels_and_no_high_pairs(embedded: headscope.Model) -> None:
    seen = embedded.inspect("The cat saw the dog. The dog ran.")
    size = len(seen.window)
    seen.captured.outputs[0, 0] = np.eye(32)[:size]  # no two tokens alike: S is 0
    seen.captured.outputs[0, 1] = 0
    summary = seen.summary()
    assert summary.flat.tolist()[:2] == [True, True]
    assert summary.high_pairs.tolist()[:2] == [0, 0]
    assert seen.focal_token(0, 0) is None
    assert len(seen.high_pairs(0, 1)) == 0
    assert np.isnan(seen.levels.values[0, 0]).all()


@pytest.mark.parametrize("text", ["Hi", "A.", "one two"])
def test_texts_with_few_tokens_say_so_instead_of_failing(text: str, embedded: Any, tiny: Callable[[str], Any]) -> None:
    for model in (embedded, tiny("gpt2"), tiny("llama-no-start")):
        seen = model.inspect(text)
        summary = seen.summary()
        assert len(summary) == model.stack().layers * model.stack().heads
        assert len(seen.layer_summary()) == model.stack().layers
        assert isinstance(seen.in_words(), list)


@pytest.mark.parametrize("model", first_of(SOME, 2), indirect=True)
@pytest.mark.parametrize(
    "options", first_of([{"scale": "rank"}, {"readings": "cosine"}, {"special": True}, {}]), ids=str
)
def test_scores_at_every_threshold_are_those_of_each(model: headscope.Model, options: dict[str, Any]) -> None:
    seen = model.inspect(TEXT, **options)
    for k, layer in enumerate(seen.captured.layers):
        found = by_threshold(seen, k)
        for step in (1, 6, 10, 19):
            one = seen.summary(step / 20)
            one = one[one.layer == layer]
            for name in {each.name for each in shown_in("text")}:
                np.testing.assert_array_equal(found[name][step - 1], one[name].to_numpy(float), err_msg=name)
            focal = [seen.same_labels[t] if t >= 0 else None for t in found["focal"][step - 1]]
            assert focal == one.focal_token.tolist()


@pytest.mark.parametrize("model", first_of(SOME), indirect=True)
@pytest.mark.parametrize("pair", [None, "A second text. The dogs bark again."], ids=["one", "pair"])
def test_without_maps_the_numbers_are_the_same(model: headscope.Model, pair: str | None) -> None:
    whole, light = model.inspect(TEXT, pair), model.inspect(TEXT, pair, maps=False)
    assert light.captured.weights is None
    for reading in ("dot", "centred"):  # taken in passing; and by running the model again
        assert whole.read_as(reading).summary().equals(light.read_as(reading).summary())
    for layer, head in ((0, 0), (model.stack().layers - 1, 1)):
        np.testing.assert_array_equal(light.attention_map(layer, head), whole.attention_map(layer, head))
        np.testing.assert_array_equal(light.received(layer, head), whole.received(layer, head))
        np.testing.assert_array_equal(
            light.similarity_matrix(layer, head), whole.similarity.sel(layer=layer, head=head).values
        )
    with pytest.raises(headscope.HeadscopeError, match="attention_map"):
        light.attention  # noqa: B018
    assert {"outputs", "norms", "given"} <= set(light.to_dataset()) & set(whole.to_dataset())


def test_a_piece_is_told_with_its_word(embedded: headscope.Model) -> None:
    shed = "The shed was old. Nobody opened the shed in winter, and the shed leaned against the barn. A shed is a shed"
    told = {text: " ".join(embedded.inspect(text).in_words()) for text in (f"{shed}.", f"{shed}, she said.")}
    assert "“she” (of “shed”) is in" in told[f"{shed}."]
    assert "“she” is in" in told[f"{shed}, she said."]  # there it is a word of its own as well
