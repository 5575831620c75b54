"""How strong boundaries are between the sentences of a text, from the segmenter to the page."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import headscope
from headscope.segmentation.cut import Cut
from headscope.segmentation.segmenter import Segmenter
from headscope.view.boundaries import Boundaries, boundaries_of
from headscope.view.desk import Desk
from serving import SHORT, Tiny, serving
from viewing import HOSTILE, Tab, served

TEXT = (
    "The orchestra tuned its violins. A cellist played a slow melody. The conductor raised her baton. "
    "Granite forms when magma cools. Its crystals of quartz are hard. Erosion slowly wears such rock away."
)
ONE = "The orchestra tuned its violins"


def by_hand(spans: list[tuple[int, int]]) -> Any:
    """A segmenter that finds these sentences in any text, the boundary after each a tenth stronger than the last."""
    number = len(spans)
    strength = np.append(np.arange(1, number) / 10, 1.0)
    speaking = np.tile([3.0, 1.0], (number, 1))

    def cut(text: str) -> Cut:
        told.append(text)
        return Cut(text, "topics", tuple(spans), strength, (1, number - 1), speaking, ((8, 8), (9, 3)), None)  # type: ignore[arg-type]

    told: list[str] = []
    return SimpleNamespace(cut=cut, told=told)


def shown(boundary: dict[str, Any]) -> str:
    """A boundary as the page says it."""
    heads = ", ".join(f"L{layer}H{head} {round(100 * share)} %" for layer, head, share in boundary["heads"])
    by = f", by head{'s' * (len(boundary['heads']) > 1)} {heads}" if heads else ""
    return f"boundary after sentence {boundary['sentence']}: {boundary['strength']:.2f}{by}"


def sentence_ends(tokens: Any) -> list[int]:
    """The last token of each sentence but the last one."""
    own = tokens[tokens.sentence >= 0]
    return [int(each.index[-1]) for _, each in own.groupby("sentence")][:-1]


# ---------------------------------------------------------------------- where boundaries are


def test_boundaries_are_found_by_characters(embedded: headscope.Model) -> None:
    seen = embedded.inspect("One cat.  Two dogs! Three <script>birds</script>.")
    found = boundaries_of(seen.window, by_hand([(0, 8), (10, 19), (20, 49)]))
    assert [each["token"] for each in found] == sentence_ends(seen.tokens)
    assert [(each["sentence"], each["strength"], each["chosen"]) for each in found] == [(1, 0.1, False), (2, 0.2, True)]
    assert found[0]["heads"] == [[8, 8, 0.75], [9, 3, 0.25]]


def test_what_only_one_of_the_two_takes_for_a_sentence_is_not_shown(embedded: headscope.Model) -> None:
    seen = embedded.inspect("One cat.  Two dogs! Three birds.")
    ends = sentence_ends(seen.tokens)
    merged = boundaries_of(seen.window, by_hand([(0, 19), (20, 32)]))
    assert [(each["token"], each["strength"]) for each in merged] == [(ends[1], 0.1)]
    cut_more = boundaries_of(seen.window, by_hand([(0, 3), (4, 8), (10, 19), (20, 32)]))
    assert [(each["token"], each["strength"]) for each in cut_more] == [(ends[0], 0.2), (ends[1], 0.3)]
    assert boundaries_of(seen.window, by_hand([(0, 32)])) == []


def test_a_window_is_cut_together_with_what_stands_around_it(
    embedded: headscope.Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headscope.view.boundaries.AROUND", 40)
    seen = embedded.inspect(TEXT, start=9, window=30)
    begin, end = int(seen.tokens.start[seen.tokens.end > 0].min()), int(seen.tokens.end.max())
    assert 0 < begin < end < len(TEXT)
    segmenter = by_hand([(0, 3)])
    boundaries_of(seen.window, segmenter)
    assert segmenter.told == [TEXT[max(0, begin - 40) : end + 40]]
    real = boundaries_of(seen.window, Segmenter(embedded))
    assert [each["token"] for each in real] == sentence_ends(seen.tokens)
    assert [each["sentence"] for each in real] == sorted(seen.tokens.sentence[seen.tokens.sentence >= 0].unique() + 1)[
        :-1
    ]
    again = Segmenter(embedded).cut(TEXT[max(0, begin - 40) : end + 40])
    assert {each["strength"] for each in real} <= set(again.strength.tolist())


def test_each_text_of_a_pair_has_its_own(embedded: headscope.Model) -> None:
    seen = embedded.inspect("One cat. Two dogs.", pair="Three birds. Four cows.")
    segmenter = Segmenter(embedded)
    found = boundaries_of(seen.window, segmenter)
    assert [each["sentence"] for each in found] == [1, 3]
    strengths = [segmenter.cut(text).strength[0] for text in seen.window.texts]
    assert [each["strength"] for each in found] == strengths


# ---------------------------------------------------------------------- what the desk answers


def test_the_answer_is_that_of_the_segmenter(embedded: headscope.Model) -> None:
    with serving(Desk(lambda: embedded)) as place, place.client() as client:
        for text in (TEXT, HOSTILE):
            name = client.post("/api/texts", json={"text": text}).json()["id"]
            answer = client.get(f"/api/texts/{name}/boundaries")
            assert answer.status_code == 200
            found, cut = answer.json()["boundaries"], Segmenter(embedded).cut(text)
            assert [each["strength"] for each in found] == cut.strength[:-1].tolist()
            assert [each["sentence"] - 1 for each in found if each["chosen"]] == list(cut.ends[:-1])
            assert found[0]["heads"] == [[each.layer, each.head, each.share] for each in cut.why(0)]
        assert client.get(f"/api/texts/t{'0' * 20}/boundaries").status_code == 404


def test_one_sentence_and_a_model_without_weights_have_none(embedded: headscope.Model, tiny: Tiny) -> None:
    for model, text in ((embedded, ONE), (tiny("gpt2"), SHORT), (tiny("t5"), SHORT)):
        desk = Desk(lambda model=model: model)
        name = desk.inspect(text)["id"]
        assert desk.answer(f"texts/{name}/boundaries") == {"boundaries": []}
    controlled = embedded.under("rotated")
    assert Boundaries().of(controlled.inspect(TEXT), controlled) == []


def test_without_the_model_at_hand_the_embedded_one_is_loaded_again(embedded: headscope.Model, tiny: Tiny) -> None:
    """As in a notebook and in one file, which begin with an inspection."""
    seen = embedded.inspect(TEXT)
    expected = boundaries_of(seen.window, Segmenter(embedded))
    desk = Desk()
    name = desk.add(seen)
    assert f"texts/{name}/boundaries" in set(desk.paths())
    assert desk.answer(f"texts/{name}/boundaries") == {"boundaries": expected}
    other = Desk()
    assert other.answer(f"texts/{other.add(tiny('gpt2').inspect(SHORT))}/boundaries") == {"boundaries": []}


def test_what_goes_wrong_is_told_and_tried_again(embedded: headscope.Model, monkeypatch: pytest.MonkeyPatch) -> None:
    seen, known = embedded.inspect(TEXT), Boundaries()

    def gone() -> Any:
        raise headscope.HeadscopeError("the model cannot be read")

    monkeypatch.setattr("headscope.view.boundaries.load", gone)
    for _ in range(2):
        with pytest.raises(headscope.HeadscopeError, match="cannot be read"):
            known.of(seen, None)
    monkeypatch.setattr("headscope.view.boundaries.load", lambda: embedded)
    assert len(known.of(seen, None)) == 5


# ---------------------------------------------------------------------- what the page shows


@pytest.fixture(scope="module")
def desk(embedded: headscope.Model) -> Desk:
    made = Desk(lambda: embedded, state={"layer": 8, "head": 0})
    made.inspect(TEXT)
    return made


@pytest.fixture(scope="module")
def home(desk: Desk) -> Iterator[str]:
    with served(desk) as server:
        yield server.address


def told_of(desk: Desk, text: str) -> list[dict[str, Any]]:
    name = desk.inspect(text)["id"]
    answer = desk.answer(f"texts/{name}/boundaries")
    assert isinstance(answer, dict)
    found: list[dict[str, Any]] = answer["boundaries"]
    return found


def check_page(page: Any, expected: list[dict[str, Any]]) -> None:
    """A bar for each boundary, where it belongs, as high as it is strong, and what it says."""
    page.wait_for_selector(".note.boundaries")
    ticks = page.eval_on_selector_all(
        ".panel:not(.pinned) .boundary",
        """all => all.map(e => ({
            title: e.title, chosen: e.classList.contains("chosen"),
            height: e.firstChild.getBoundingClientRect().height / e.getBoundingClientRect().height,
            before: +[...e.previousElementSibling.querySelectorAll(".token")].at(-1).dataset.place,
        }))""",
    )
    assert [tick["title"] for tick in ticks] == [shown(each) for each in expected]
    assert [(tick["before"], tick["chosen"]) for tick in ticks] == [(b["token"], b["chosen"]) for b in expected]
    for tick, each in zip(ticks, expected, strict=True):
        assert tick["height"] == pytest.approx(max(0.04, each["strength"]), abs=0.01)
        label = page.get_attribute(f".token[data-place='{each['token']}']", "aria-label")
        assert label.endswith(f"; {shown(each)}")


def test_the_page_marks_them_between_sentences(tab: Tab, home: str, desk: Desk) -> None:
    page = tab.open(home)
    expected = told_of(desk, TEXT)
    assert len(expected) == 5
    check_page(page, expected)
    box = page.locator(".boundary span").nth(2).bounding_box()
    under = (
        "([x, y]) => document.querySelector('#headscope').shadowRoot.elementFromPoint(x, y).closest('.boundary').title"
    )
    assert page.evaluate(under, [box["x"] + 1, box["y"] + box["height"] - 1]) == shown(expected[2])  # a mouse finds it
    page.hover(f".token[data-place='{expected[2]['token']}']")  # and so do a finger and a key
    tab.settle()
    assert page.inner_text(".readout").endswith(shown(expected[2]))
    page.click("button.pin")
    page.wait_for_selector(".panel.pinned .boundary", state="attached")
    page.keyboard.press("ArrowRight")  # another head: they stay
    page.wait_for_selector(".panel[data-head='8.1']")
    assert page.locator(".panel:not(.pinned) .boundary").count() == 5
    page.keyboard.press("p")

    tab.look_at(ONE)  # one sentence has none, and no word of them
    tab.settle()
    assert page.locator(".boundary, .note.boundaries").count() == 0
    tab.look_at(HOSTILE)
    check_page(page, told_of(desk, HOSTILE))


def test_nothing_moves_when_they_come(tab: Tab, home: str) -> None:
    asked: list[Any] = []
    tab.page.route("**/boundaries", lambda route: asked.append(route))
    page = tab.open(home)
    places = "all => all.map(e => e.getBoundingClientRect()).map(b => [b.x, b.y])"
    before = page.eval_on_selector_all(".token", places)
    while not asked:
        page.wait_for_timeout(20)
    assert page.locator(".boundary").count() == 0  # all else is there before the first answer
    asked[0].continue_()
    page.wait_for_selector(".note.boundaries")
    assert page.eval_on_selector_all(".token", places) == before


def test_a_model_without_weights_shows_nothing(tab: Tab, tiny: Tiny) -> None:
    behind = Desk(lambda: tiny("gpt2"))
    behind.inspect(SHORT)
    with served(behind) as server:
        page = tab.open(server.address)
        page.wait_for_load_state("networkidle")
        tab.settle()
        assert any(url.endswith("/boundaries") for url in tab.requests)
        assert page.locator(".boundary, .note.boundaries").count() == 0
        assert page.locator(".problem:visible").count() == 0


def test_one_file_holds_them(tab: Tab, embedded: headscope.Model, tmp_path: Path) -> None:
    seen = embedded.inspect(TEXT, layers=[8])
    file = seen.view_html(tmp_path / "view.html", readings="dot")
    check_page(tab.open(file.as_uri()), boundaries_of(seen.window, Segmenter(embedded)))
    tab.page.set_viewport_size({"width": 380, "height": 800})
    tab.settle()
    assert tab.page.evaluate("document.documentElement.scrollWidth") <= 380
