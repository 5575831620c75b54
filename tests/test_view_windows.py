"""Windows of a long text, stacks of a model, and the source of cross-attention, in the page."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import headscope
from headscope.inspection import Inspection
from headscope.inspection.summary import text_sums
from headscope.view.desk import Desk
from headscope.view.purity import ADDED, REPETITIONS, of_text
from serving import SHORT, Place, Tiny
from viewing import HEAD, LAYER, Tab, served


def turned(page: Any, how: Any) -> str:
    """Do something that shows another window or stack; returns what is told of it."""
    before = page.get_attribute(".text-page", "data-ready")
    how()
    page.wait_for_selector(f".text-page[data-ready]:not([data-ready='{before}']):not([aria-busy])")
    return str(page.inner_text(".telling"))


def test_windows_are_turned_like_pages(tab: Tab, address: str, seen: Inspection) -> None:
    page = tab.open(address)
    assert page.is_disabled("[data-window=before]")
    last = seen.window.total
    assert f"tokens 127 to {last} of {last}" in turned(page, lambda: page.click("[data-window=after]"))
    assert page.is_disabled("[data-window=after]")
    assert page.get_attribute(".panel", "data-head") == f"{LAYER}.{HEAD}"
    page.evaluate("document.activeElement.blur()")
    assert f"tokens 1 to 126 of {last}" in turned(page, lambda: page.keyboard.press(","))  # a whole window again
    turned(page, lambda: page.keyboard.press("."))
    tab.look_at("It rains. It rains again.")  # another text begins at its beginning
    assert "tokens 1 to 9 of 9" in page.inner_text(".telling")


def test_a_text_longer_than_can_be_typed_is_turned_by_its_name(embedded: headscope.Model) -> None:
    desk = Desk(lambda: embedded)
    name = desk.inspect("It rains. " * 12_000)["id"]
    assert (desk.inspect("", again=name, start=200)["first"], desk.inspect("", again=name)["first"]) == (200, 0)


def test_an_unknown_name_is_not_read_again(place: Place) -> None:
    with place.client() as client:
        assert client.post("/api/texts", json={"again": "t" + "0" * 20, "start": 5}).status_code == 404


def test_stacks_are_chosen_and_the_source_stands_beside_the_target(browser: Any, tiny: Tiny) -> None:
    model = tiny("t5")
    desk = Desk(lambda: model)
    desk.inspect(SHORT)
    with served(desk) as server:
        tab = Tab(browser)
        page = tab.open(server.address)
        assert page.is_checked("input[value=encoder]")
        assert page.locator(".sources").count() == 0
        told = turned(page, lambda: page.click("label:has(input[value=cross])"))
        assert "cross" in told
        seen = model.inspect(SHORT, stack="cross")
        sources = page.eval_on_selector_all(".sources .token", "all => all.map(e => e.title)")
        assert sources == list(seen.captured.keys.labels)
        boxes = [page.locator(each).first.bounding_box() for each in (".sources .tokens", ".text .tokens")]
        assert boxes[0]["x"] + boxes[0]["width"] <= boxes[1]["x"]
        # The darkest source token is the one that the target token reads most.
        layer, head = map(int, page.get_attribute(".panel", "data-head").split("."))
        weights = np.asarray(seen.attention_map(layer, head))[3]
        page.hover(".text .token[data-place='3']")
        page.wait_for_selector(".readout:has-text('reads most of the source')")
        tab.settle()
        look = "all => all.map(e => getComputedStyle(e).backgroundColor.match(/[\\d.]+/g).slice(0, 3).map(Number))"
        shades = np.array(page.eval_on_selector_all(".sources .token", look)).sum(1)
        assert int(shades.argmin()) == int(weights.argmax())
        assert sources[int(weights.argmax())] in page.inner_text(".readout")
        # And the other way: who reads a source token.
        page.hover(".sources .token[data-source='2']")
        page.wait_for_selector(".readout:has-text('is read most by')")
        told = turned(page, lambda: page.click("label:has(input[value=decoder])"))
        assert "decoder" in told
        assert page.locator(".sources").count() == 0
        tab.close()


def test_heads_that_find_repetitions_and_little_else_come_first(seen: Inspection) -> None:
    pure, repeated = of_text(text_sums(seen, LAYER), "dot")
    usual = float(np.isin(seen.relations.numpy(), REPETITIONS).mean())
    for head in range(12):
        for step in (6, 10):
            pairs = seen.high_pairs(LAYER, head, step / 20)
            found = int(pairs.relation.isin(["repeated", "both"]).sum())
            assert repeated[step - 1, head] == found
            share = (found + ADDED * usual) / (len(pairs) + ADDED) if len(pairs) else np.nan
            assert pure[step - 1, head] * usual == pytest.approx(share, nan_ok=True)
