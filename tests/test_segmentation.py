"""Cutting text: numbers against naive ones, texts of every kind, files of weights, learning."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import headscope
import naive_segmentation as naive
from headscope.errors import HeadscopeError
from headscope.segmentation import Segmenter, Splitter, fit, read_head_weights, segment
from headscope.segmentation.gaps import SIGNALS, gap_windows, read_gaps, words_of
from headscope.segmentation.head_weights import SHIPPED, TopicNumbers
from headscope.segmentation.parts import parts_of, sentences_of
from headscope.segmentation.search import RATES, best_cut, best_cut_into, boundary_probabilities
from headscope.segmentation.segmenter import chosen_ends
from headscope.segmentation.topics import compared, segment_scores, segment_sums
from headscope.segmentation.vectors import all_heads, mean_outputs
from long import first_of


def topics_text(*ids: str) -> str:
    return "\n\n".join(each["text"] for each in headscope.passages() if each["id"] in ids)


@pytest.fixture(scope="module")
def cutter(embedded: headscope.Model) -> Segmenter:
    return Segmenter(embedded)


# ---------------------------------------------------------------------- numbers


@pytest.mark.parametrize(("length", "longest"), [(1, 1), (2, 5), (7, 3), (8, 8)])
def test_every_cut_is_weighed(length: int, longest: int) -> None:
    scores = np.random.default_rng(length).normal(0, 2, (length, longest))
    strength, rate = boundary_probabilities(scores)
    np.testing.assert_allclose(strength, naive.probabilities(scores, RATES), rtol=1e-9)
    every = list(naive.cuts(length, longest))
    assert best_cut(scores, rate) == max(every, key=lambda cut: naive.weight_of(cut, scores, rate))
    for number in range(-(-length // longest), length + 1):
        so_many = [cut for cut in every if len(cut) == number]
        assert best_cut_into(scores, number, strength) == max(
            so_many, key=lambda cut: naive.weight_of(cut, scores, 0.5) + len(cut)
        )


def test_a_number_of_segments_that_would_need_a_large_table(monkeypatch: pytest.MonkeyPatch) -> None:
    scores = np.random.default_rng(3).normal(0, 2, (60, 12))
    strength, _ = boundary_probabilities(scores)
    monkeypatch.setattr("headscope.segmentation.search.MOST_CELLS", 10)
    for number in (7, 20, 60):
        ends = best_cut_into(scores, number, strength)
        assert len(ends) == number
        assert ends[-1] == 59
        assert list(ends) == sorted(set(ends))


@pytest.mark.parametrize("longest", [2, 5, 30])
def test_scores_are_those_of_the_formula(longest: int) -> None:
    rng = np.random.default_rng(longest)
    numbers = TopicNumbers(0.2, 0.7, 0.5, 0.4, 0.3, 0.2)
    counts = rng.uniform(0.2, 0.9, 30)
    vectors = rng.normal(size=(30, 3, 4)).astype(np.float32) * counts[:, None, None].astype(np.float32)
    weights = np.array([0.5, 2.0, 0.0])
    similar = np.einsum("ihd,jhd,h->ij", vectors, vectors, weights)
    for i in range(30):
        for j in range(30):
            if abs(i - j) >= longest:
                similar[i, j] = similar[i, j] if longest > 25 else np.nan
    before = compared(vectors, 0, counts, weights, longest).before
    scores = segment_scores(segment_sums(before, counts), numbers)
    if longest <= 25:  # the levels are those of pairs that are within reach
        level = segment_sums(before, counts)
        near, everywhere = float(level.near[0, 0]), float(level.everywhere[0, 0])
        reach = [(i, j) for i in range(30) for j in range(30) if 0 < abs(i - j) < longest]
        told = sum(similar[i, j] for i, j in reach) / sum(counts[i] * counts[j] for i, j in reach)
        assert everywhere == pytest.approx(told, rel=1e-4)
        assert np.isfinite(near)
        return
    for end in (0, 7, 29):
        for start in range(max(0, end - longest + 1), end + 1):
            told = naive.score(similar, counts, start, end, numbers)
            assert scores[end, end - start] == pytest.approx(told, rel=1e-4, abs=1e-5)


def test_sentences_compared_in_pieces_are_those_compared_at_once() -> None:
    rng = np.random.default_rng(0)
    vectors, counts, weights = rng.normal(size=(40, 2, 3)).astype(np.float32), np.ones(40), np.ones(2)
    whole = compared(vectors, 0, counts, weights, 9).before
    parts = [
        compared(vectors[max(0, k - 8) : k + 10], min(k, 8), counts[:10], weights, 9).before for k in range(0, 40, 10)
    ]
    np.testing.assert_allclose(np.concatenate(parts), whole, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kind", first_of(["roberta", "gpt2", "llama", "t5", "mpnet"], 4))
def test_mean_outputs_are_those_of_each_sentence_alone(kind: str, tiny: Callable[[str], headscope.Model]) -> None:
    model = tiny(kind)
    text = "It rains. The boats came home again before the night fell over the harbour. Nobody saw them."
    parts = list(parts_of(text, model))
    assert len(parts) == 3
    stack = model.stack().name
    heads = all_heads(model, stack)
    counting = np.random.default_rng(0).uniform(0.1, 1, 100_000)
    made = mean_outputs(model, parts, stack, heads, counting)
    for k, part in enumerate(parts):
        for place in (0, 3, len(heads) - 1):
            told = naive.mean_output(model, part.ids.tolist(), stack, *heads[place], counting)
            np.testing.assert_allclose(made[k, place], told, rtol=1e-3, atol=1e-5)


def test_gaps_are_read_alike_in_any_batch(embedded: headscope.Model) -> None:
    texts = ["we came home late it was dark " * 30, "nobody saw the lamp"]
    heads = [(3, 0), (11, 7)]

    def read(which: list[str]) -> dict[int, Any]:
        found: dict[int, Any] = {}
        windows = [each for text in which for each in gap_windows(text, words_of(text), embedded)]

        def take(places: list[int], words: Any, signals: Any) -> None:
            assert signals.shape[1:] == (len(SIGNALS), len(places))
            found[places[0]] = np.concatenate([found.get(places[0], np.zeros((0, len(SIGNALS)))), signals[:, :, 0]])

        read_gaps(embedded, windows, "encoder", heads, take)
        return found

    both, alone = read(texts), read(texts[1:])
    for place in (0, 1):
        np.testing.assert_allclose(both[place][-3:], alone[place], rtol=1e-3, atol=1e-4)


def test_every_gap_is_judged_once(embedded: headscope.Model) -> None:
    text = " ".join(f"word{k}" if k % 7 else "don't" for k in range(700))
    words = words_of(text)
    judged = np.concatenate([each.gaps[:, 1] for each in gap_windows(text, words, embedded)])
    assert sorted(judged.tolist()) == list(range(699))


# ---------------------------------------------------------------------- texts


def test_unlike_passages_are_cut_apart(cutter: Segmenter) -> None:
    text = topics_text("law-1", "news-4")
    cut = cutter.cut(text)
    assert len(cut.segments) >= 2
    assert any(abs(each.span[1] - text.index("\n\n")) < 200 for each in cut.segments[:-1])
    for each in cut.segments:
        assert text[slice(*each.span)] == each.text
        assert 0 <= each.strength <= 1
        assert "".join(each.sentences).replace(" ", "") == "".join(each.text.split())
    assert cut.segments[-1].strength == 1
    assert cut.segments[0].why
    assert sum(head.share for head in cut.segments[0].why) <= 1 + 1e-6


@pytest.mark.parametrize("grain", ["topics", "sentences"])
@pytest.mark.parametrize(
    ("text", "number"),
    [("", 0), ("  \n ", 0), ("…!?", None), ("One sentence alone.", 1), ("a", 1), ("日本語です。猫がいます。", None)],
)
def test_texts_with_little_in_them(embedded: headscope.Model, grain: str, text: str, number: int | None) -> None:
    pieces = segment(text, model=embedded, grain=grain)
    if number is not None:
        assert len(pieces) == number
    assert "".join(piece.text for piece in pieces).split() == [] or all(piece.text in text for piece in pieces)


def test_text_without_any_punctuation_is_cut_into_pieces_that_can_be_read(cutter: Segmenter) -> None:
    text = "rain and wind " * 300
    pieces = cutter.split(text)
    assert " ".join(piece.text for piece in pieces) == text.strip()


def test_mixed_languages_and_odd_characters(cutter: Segmenter) -> None:
    text = "Es regnet. Il pleut. Идёт дождь. 下雨了。 \u202eabc\u200b! مرحبا بالعالم. The end."
    assert "".join("".join(piece.text.split()) for piece in cutter.split(text)) == "".join(text.split())


def test_identical_sentences_make_no_boundary_anywhere(cutter: Segmenter) -> None:
    cut = cutter.cut("The boats came home before the night. " * 300)
    assert len(cut.parts) == 300
    assert np.ptp(cut.strength[40:250]) < 0.1  # none stands out from the others


def test_sentences_do_not_depend_on_where_the_splitter_is_given_the_next_pages() -> None:
    text = " ".join(f"This is sentence {k}, of some length." for k in range(3000))
    assert [text[a:b] for a, b in sentences_of(text)] == [f"This is sentence {k}, of some length." for k in range(3000)]


def test_as_many_segments_as_are_asked_for(embedded: headscope.Model) -> None:
    text = topics_text("law-1", "news-4", "news-1")
    for number in (1, 3, 5):
        assert len(segment(text, model=embedded, segments=number)) == number
        assert len(segment(text, model=embedded, grain="sentences", segments=number)) == number
    with pytest.raises(HeadscopeError, match="99 segments are asked for"):
        segment(text, model=embedded, segments=99)


@pytest.mark.parametrize("grain", ["topics", "sentences"])
@pytest.mark.parametrize("most", [8, 30, 100])
def test_no_segment_has_more_tokens_than_it_may(embedded: headscope.Model, grain: str, most: int) -> None:
    text = topics_text("law-1", "news-4") + " " + "and so on " * 40
    pieces = segment(text, model=embedded, grain=grain, max_tokens=most)
    sizes = [len(embedded.tokenizer.tokenize(piece.text)) for piece in pieces]
    slack = most if grain == "sentences" else 0  # there marks between words do not count
    assert max(sizes) <= most + slack
    assert "".join("".join(piece.text.split()) for piece in pieces) == "".join(text.split())


def test_chunks_keep_the_boundaries_of_topics(embedded: headscope.Model) -> None:
    text = topics_text("law-1", "news-2", "news-4")
    topics = {piece.span[1] for piece in segment(text, model=embedded)}
    assert len(topics) > 1
    for most in (20, 64, 100, 200):
        assert topics <= {piece.span[1] for piece in segment(text, model=embedded, max_tokens=most)}


def test_weak_boundaries_of_the_likeliest_cut_are_left_out() -> None:
    scores = np.zeros((6, 6))
    strength, ends = chosen_ends(scores)
    assert ends == (5,) or all(strength[max(0, end - 1) : end + 2].sum() >= 0.5 for end in ends[:-1])


def test_longest_bounds_a_topic(embedded: headscope.Model) -> None:
    pieces = segment("The boats came home before the night. " * 50, model=embedded, longest=7)
    assert max(len(piece.sentences) for piece in pieces) <= 7


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"grain": "words"}, "grain='words'"),
        ({"segments": 0}, "segments=0"),
        ({"max_tokens": 2}, "max_tokens=2"),
        ({"segments": 2, "max_tokens": 50}, "both given"),
        ({"longest": 1}, "longest=1"),
        ({"words": 1}, "words=1"),
        ({"language": "English"}, "language='English'"),
    ],
)
def test_options_that_make_no_sense(options: dict[str, Any], problem: str) -> None:
    with pytest.raises(HeadscopeError, match=problem):
        segment("It rains.", **options)


def test_what_is_not_a_text(cutter: Segmenter) -> None:
    with pytest.raises(HeadscopeError, match=r"U\+0000 at position 3"):
        cutter.split("abc\x00")
    with pytest.raises(HeadscopeError, match="bytes is not a text"):
        cutter.split(b"abc")  # type: ignore[arg-type]


# ---------------------------------------------------------------------- weights


def test_weights_are_written_as_they_are_read(tmp_path: Path) -> None:
    weights = read_head_weights(SHIPPED)
    again = read_head_weights(weights.save(tmp_path / "again.json"))
    np.testing.assert_allclose(again.topics.weights, weights.topics.weights, rtol=1e-4)
    assert again.topics.numbers.cost == weights.topics.numbers.cost
    assert again.sentences.signals == SIGNALS


def spoil(content: Any, path: list[Any], value: Any) -> Any:
    inner = content
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    return content


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (["format"], 99), (["topics"], []), (["topics", "weights"], [1]), (["topics", "weights", 0], float("nan")),
        (["topics", "weights", 0], -1), (["topics", "means", 0], [1, 2]), (["topics", "heads", 0], [-1, 3]),
        (["topics", "heads", 0], [11, 1]), (["topics", "reliable"], "ten"), (["sentences", "rate"], 2),
        (["sentences", "weights", 0], []), (["topics", "numbers"], {}), (["model"], 3),
    ],
)  # fmt: skip
def test_a_spoiled_file_of_weights(path: list[Any], value: Any, tmp_path: Path) -> None:
    content = spoil(json.loads(SHIPPED.read_text()), path, value)
    (tmp_path / "a.json").write_text(json.dumps(content))
    with pytest.raises(HeadscopeError, match=r"is no file of head weights"):
        read_head_weights(tmp_path / "a.json")


def test_files_that_are_none(tmp_path: Path) -> None:
    (tmp_path / "deep.json").write_text("[" * 100_000)
    for name in ("deep.json", "missing.json"):
        with pytest.raises(HeadscopeError):
            read_head_weights(tmp_path / name)


def test_another_model_is_refused(tiny: Callable[[str], headscope.Model]) -> None:
    with pytest.raises(HeadscopeError, match="does not know which heads"):
        Segmenter(tiny("roberta"))
    with pytest.raises(HeadscopeError, match="is another model"):
        Segmenter(tiny("roberta"), SHIPPED)
    with pytest.raises(HeadscopeError, match="is another model"):
        Segmenter(headscope.load(control="permuted:0"), SHIPPED)


def test_weights_are_learned_from_texts(
    embedded: headscope.Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headscope.segmentation.fit_numbers.DOCUMENTS", 60)
    monkeypatch.setattr("headscope.segmentation.fit_gaps.STEPS", 200)
    said: list[str] = []
    made = fit(embedded, "passages:", tell=lambda what, *_: said.append(what))
    made.save(tmp_path / "0.json")
    assert {"reading sentences", "weighing heads", "weighing gaps"} <= set(said)
    text = topics_text("law-1", "news-4")
    pieces = segment(text, model=embedded, weights=tmp_path / "0.json")
    assert "".join("".join(piece.text.split()) for piece in pieces) == "".join(text.split())
    assert made.topics.weights.min() > 0
    shipped = read_head_weights(SHIPPED).topics
    best = [shipped.heads[k] for k in np.argsort(-shipped.weights)[:4]]
    assert len(set(best) & set(made.topics.heads)) >= 2  # sixty passages already tell some of the best heads


@pytest.mark.long
def test_the_same_texts_and_seed_give_the_same_weights(embedded: headscope.Model, tmp_path: Path) -> None:
    first, second = (fit(embedded, "passages:").save(tmp_path / f"{k}.json").read_text() for k in range(2))
    assert first == second


def test_too_little_to_learn_from(embedded: headscope.Model) -> None:
    with pytest.raises(HeadscopeError, match="too few to learn from"):
        fit(embedded, ["It rains. It pours."] * 5)


# ---------------------------------------------------------------------- other tools


class Document:
    def __init__(self, page_content: str, metadata: dict[str, Any]) -> None:
        self.page_content, self.metadata = page_content, metadata


def test_documents_are_split_into_documents_of_their_kind(embedded: headscope.Model) -> None:
    splitter = Splitter(embedded, max_tokens=40)
    text = topics_text("law-1")
    chunks = splitter.split_documents([Document(text, {"from": "a"})])
    assert [chunk.page_content for chunk in chunks] == splitter.split_text(text)
    assert all(chunk.metadata["from"] == "a" for chunk in chunks)
    assert all(text[chunk.metadata["start_index"] :].startswith(chunk.page_content) for chunk in chunks)
    with pytest.raises(HeadscopeError, match="neither page_content nor text"):
        splitter.split_documents([3])
    with pytest.raises(HeadscopeError, match="Document is not a list"):
        splitter.split_documents(Document(text, {}))  # type: ignore[arg-type]


@pytest.mark.long
def test_the_real_packages_take_the_splitter(embedded: headscope.Model) -> None:
    from langchain_core.documents import Document as LangChainDocument
    from llama_index.core.schema import Document as LlamaDocument

    splitter = Splitter(embedded, max_tokens=60)
    text = topics_text("law-1", "news-4")
    for made in (LangChainDocument(page_content=text, metadata={"a": 1}), LlamaDocument(text=text, metadata={"a": 1})):
        chunks = splitter.split_documents([made])
        assert all(type(chunk) is type(made) for chunk in chunks)
        assert [chunk.metadata["a"] for chunk in chunks] == [1] * len(chunks)
    from llama_index.core.node_parser import LangchainNodeParser

    nodes = LangchainNodeParser(splitter).get_nodes_from_documents([LlamaDocument(text=text)])
    assert [node.text for node in nodes] == splitter.split_text(text)


@pytest.mark.long
def test_ten_thousand_identical_sentences_and_a_line_of_five_megabytes(cutter: Segmenter) -> None:
    assert len(cutter.cut("The boats came home. " * 10_000).parts) == 10_000
    line = "x" * 5_000_000
    pieces = cutter.split(line)
    assert "".join(piece.text for piece in pieces) == line


def test_the_atlas_of_weights(tmp_path: Path) -> None:
    figure = read_head_weights(SHIPPED).plot()
    figure.save(tmp_path / "heads.svg")
    drawn = [axes.images[0].get_array() for axes in figure.axes if axes.images]
    assert [table.shape for table in drawn[:2]] == [(12, 12), (12, 12)]
    assert drawn[0].sum() == pytest.approx(100)
    assert drawn[0].argmax() == 8 * 12 + 8
