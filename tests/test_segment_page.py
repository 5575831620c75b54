"""The page of a cut text: everything on it once, nothing that breaks out, and no room that it does not have."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import headscope
from headscope.errors import HeadscopeError
from headscope.report.segments import COLUMNS, along_the_text, write_segments
from headscope.segmentation.cut import Cut
from headscope.segmentation.head_weights import HeadWeights
from headscope.segmentation.segmenter import Segmenter

HEADS = ((0, 1), (2, 3), (11, 0))
SENTENCES = [
    'The <script>document.title = "taken"</script> rained.',
    "Rain & <b>more</b> rain; {{ 7 * 7 }} drops.",
    "An \u202eevil\u202c line,\nbroken\tin two \x07.",
    "שלום עולם.",
    'A "><img src=x onerror=alert(1)> granite.',
    "Supercalifragilistic" * 20 + ".",
]
SHOWN = [*SENTENCES]
SHOWN[2] = "An <U+202E>evil<U+202C> line, broken in two <U+7>."
STRENGTH = np.array([0.01, 0.834, 0.42, 0.666, 0.0, 1.0])


def made_up(grain: str = "topics", sentences: list[str] = SENTENCES, **other: Any) -> Cut:
    """A cut by hand: the parts are these, and the heads speak for a boundary one more than the next."""
    text, spans = "", []
    for sentence in sentences:
        spans.append((len(text), len(text) + len(sentence)))
        text += sentence + " "
    number = len(sentences)
    topics = SimpleNamespace(heads=HEADS, weights=np.array([3.0, 1.0, 0.0]))
    of_words = SimpleNamespace(heads=HEADS, moves=np.array([1.0, 3.0, 0.0]))
    model = {"name": 'a/<i>model</i>"\u202e', "stacks": {"encoder": {"layers": 12, "heads": 12}}}
    weights = HeadWeights(model, "encoder", topics, of_words, {})  # type: ignore[arg-type]
    speaking = np.tile([6.0, 3.0, 1.0], (number, 1))
    given = {"strength": STRENGTH, "ends": (1, 3, 5)} | other
    return Cut(text, grain, tuple(spans), given["strength"], given["ends"], speaking, HEADS, weights)


class Read(HTMLParser):
    """What a browser would make of a page: its elements, and the text of those with a class."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None], str]] = []
        self._open: list[int] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs), ""))
        if tag not in ("meta", "br", "img", "link"):
            self._open.append(len(self.elements) - 1)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs), ""))

    def handle_endtag(self, tag: str) -> None:
        while self._open and self.elements[self._open.pop()][0] != tag:
            pass

    def handle_data(self, data: str) -> None:
        for place in self._open:
            tag, attrs, text = self.elements[place]
            self.elements[place] = (tag, attrs, text + data)

    def texts(self, name: str) -> list[str]:
        return [text for _, attrs, text in self.elements if name in (attrs.get("class") or "").split()]

    def tags(self) -> set[str]:
        return {tag for tag, _, _ in self.elements}


def read(cut: Cut, folder: Path) -> tuple[str, Read]:
    page = write_segments(cut, folder / "cut.html").read_text(encoding="utf-8")
    return page, Read(page)


def test_every_sentence_is_there_once_as_text_and_nothing_breaks_out(tmp_path: Path) -> None:
    page, found = read(made_up(), tmp_path)
    assert found.texts("text") == SHOWN
    assert not {"script", "img"} & found.tags()
    assert "<b>more" not in page
    assert "49 drops" not in page
    assert not re.search("[\x00-\x08\x0b-\x1f\u202a-\u202e\u2066-\u2069]", page)
    title = next(text for tag, _, text in found.elements if tag == "title")
    assert title == 'headscope: 3 segments by a/<i>model</i>"<U+202E>'
    assert not re.search(r"https?://(?!www\.w3\.org)", page)


def test_strengths_are_right_and_chosen_ones_are_marked(tmp_path: Path) -> None:
    _, found = read(made_up(), tmp_path)
    assert found.texts("bar") == ["0.01", "0.83", "0.42", "0.67", "0.00", "end"]
    assert found.texts("chosen") == ["", "0.83", "0.67"]  # the path of the picture, then two bars
    styles = [attrs.get("style") for _, attrs, _ in found.elements if "bar" in (attrs.get("class") or "").split()]
    assert styles == ["--s:0.010", "--s:0.834", "--s:0.420", "--s:0.666", "--s:0.000", None]
    rules = [" ".join(text.split()) for text in found.texts("cut")]
    assert rules == [f"boundary {value} by heads 0.1 60 %, 2.3 30 %, 11.0 10 %" for value in ("0.83", "0.67")]
    near = [attrs.get("title") for _, attrs, _ in found.elements if "bar" in (attrs.get("class") or "").split()]
    assert [bool(title) for title in near] == [False, True, True, True, False, False]
    ranges = [" ".join(text.split()) for text in found.texts("range")]
    assert ranges == ["1 · sentences 1–2", "2 · sentences 3–4", "3 · sentences 5–6"]
    assert any("3 segments in 6 sentences" in text for tag, _, text in found.elements if tag == "h1")


def test_the_grid_has_a_cell_for_each_head_that_weighs_something(tmp_path: Path) -> None:
    for grain, first, second in (("topics", "75.0%", "25.0%"), ("sentences", "25.0%", "75.0%")):
        page, _ = read(made_up(grain), tmp_path)
        titles = re.findall(r'<rect class="cell".*?<title>(.*?)</title>', page)
        told = [f"layer 0, head 1: {first} of all weight", f"layer 2, head 3: {second} of all weight"]
        assert titles == told
        assert "Of 144 heads\n2 count." in page
    unnamed = made_up()
    unnamed.weights.model.clear()
    assert "Of 48 heads" in read(unnamed, tmp_path)[0]  # as many as the heads that are known need


def test_sentences_found_by_words_stand_in_lines(tmp_path: Path) -> None:
    words = "it rains the <boats> came home".split()
    strength = np.array([0.1, 0.91, 0.0, 0.3, 0.2, 1.0])
    page, found = read(made_up("sentences", words, strength=strength, ends=(1, 5)), tmp_path)
    assert found.texts("text") == ["it rains", "the <boats> came home"]
    assert found.texts("bar") == ["0.91", "end"]
    assert "2 sentences in 6 words" in page
    assert found.texts("cut") == []


def test_an_empty_text_and_a_single_sentence_have_a_page_too(tmp_path: Path) -> None:
    page, found = read(made_up(sentences=[], strength=np.zeros(0), ends=()), tmp_path)
    assert "0 segments in 0 sentences" in page
    assert found.texts("text") == []
    page, found = read(made_up(sentences=["One."], strength=np.ones(1), ends=(0,)), tmp_path)
    assert "1 segment in 1 sentence<" in page
    assert found.texts("bar") == ["end"]
    with pytest.raises(HeadscopeError, match="not named like a web page"):
        write_segments(made_up(), tmp_path / "cut.txt")


def test_paragraphs_of_the_text_stay_apart(tmp_path: Path) -> None:
    cut = made_up(sentences=["One.", "Two.", "Three."], strength=np.array([0.1, 0.1, 1]), ends=(2,))
    a, b = cut.parts[1][1], cut.parts[2][0]
    text = cut.text[:a] + "\n\n" + cut.text[b:]
    moved = (*cut.parts[:2], (a + 2, a + 8))
    _, found = read(Cut(text, "topics", moved, cut.strength, cut.ends, cut.for_boundary, HEADS, cut.weights), tmp_path)
    assert found.texts("text") == ["One.", "Two.", "Three."]
    assert [" ".join(text.split()) for text in found.texts("apart")] == ["Three.end"]


def test_ten_thousand_sentences_make_a_page_that_can_be_opened(tmp_path: Path, browser: Any) -> None:
    draw = np.random.default_rng(0)
    number = 10_000
    ends = (*range(19, number, 20),)
    strength = draw.random(number) * 0.3
    strength[list(ends)] = 0.9
    cut = made_up(sentences=[f"Sentence {k} of a long text." for k in range(number)], strength=strength, ends=ends)
    file = write_segments(cut, tmp_path / "long.html")
    assert file.stat().st_size < 4_000_000
    along = along_the_text(cut)
    assert sum(chosen for _, _, chosen in along) == number // 20 - 1
    assert len(along) <= COLUMNS + number // 20
    assert max(strong for _, strong, chosen in along if not chosen) == strength[strength < 0.9].max()
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    page.goto(file.as_uri())
    assert page.locator(".text").count() == number
    page.close()


def test_nothing_sticks_out_on_a_phone_or_on_paper(tmp_path: Path, browser: Any) -> None:
    for grain in ("topics", "sentences"):
        file = write_segments(made_up(grain), tmp_path / f"{grain}.html")
        for width, media in ((380, "screen"), (1280, "screen"), (718, "print")):
            context = browser.new_context(viewport={"width": width, "height": 800})
            page = context.new_page()
            said: list[str] = []
            asked: list[str] = []
            page.on("console", lambda message, said=said: said.append(message.text))
            page.on("request", lambda request, asked=asked: asked.append(request.url))
            page.emulate_media(media=media)
            page.goto(file.as_uri())
            assert page.evaluate("document.documentElement.scrollWidth") <= width
            places = page.eval_on_selector_all(
                "main *, header *", "all => all.map(e => e.getBoundingClientRect()).map(b => [b.left, b.right])"
            )
            assert min(left for left, _ in places) >= 0
            assert max(right for _, right in places) <= width
            assert said == []
            assert asked == [file.as_uri()]
            assert page.title().startswith("headscope: 3 s")  # nobody took it
            context.close()


def test_the_bar_of_a_chosen_boundary_is_as_long_as_it_is_strong(tmp_path: Path, browser: Any) -> None:
    file = write_segments(made_up(), tmp_path / "cut.html")
    page = browser.new_page(color_scheme="dark")
    page.goto(file.as_uri())
    look = "e => [getComputedStyle(e).backgroundSize, getComputedStyle(e).backgroundImage]"
    (size, chosen), (_, other) = (page.locator(".bar i").nth(k).evaluate(look) for k in (1, 2))
    assert float(size.partition("%")[0]) == pytest.approx(83.4)
    assert chosen != other
    page.close()


def test_a_text_that_the_embedded_model_cuts(tmp_path: Path, embedded: headscope.Model) -> None:
    text = " ".join(p["text"] for p in headscope.passages()[:3])
    cut = Segmenter(embedded).cut(text)
    _, found = read(cut, tmp_path)
    assert len(found.texts("text")) == len(cut.parts)
    assert len(found.texts("range")) == len(cut.ends) == len(found.texts("cut")) + 1
    shown = [f"{value:.2f}" for value in cut.strength[:-1]]
    assert found.texts("bar") == [*shown, "end"]
