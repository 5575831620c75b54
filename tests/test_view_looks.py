"""How the viewer's pages say and draw what figures and report say and draw, too: names, colours, scales, words."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import expect

import headscope
from headscope.figures.colours import BASE, WAYS
from headscope.measures.quantities import named, shown_in
from headscope.view.desk import Desk
from headscope.view.run_data import RunData
from viewing import Tab, served

FINDINGS = ".run-page[data-findings] .layers[data-ready]"
COLOUR = "e => getComputedStyle(e).getPropertyValue(e.matches('.bar') ? 'fill' : 'stroke')"
DASH = "e => getComputedStyle(e).strokeDasharray"


def rgb(colour: str) -> str:
    return f"rgb({int(colour[1:3], 16)}, {int(colour[3:5], 16)}, {int(colour[5:7], 16)})"


def options(page: Any) -> list[str]:
    found: list[str] = page.eval_on_selector_all("aside select option", "all => all.map(e => e.textContent)")
    return found


def test_heads_and_scores_have_the_names_of_the_report(tab: Tab, address: str, hostile_run: headscope.Result) -> None:
    page = tab.open(f"{address}#page=run&rranked=1", FINDINGS)
    for names in (".ranked-head span:first-child", ".tile .caption"):
        found = page.eval_on_selector_all(names, "all => all.map(e => e.firstChild.textContent)")
        assert found
        assert all(re.fullmatch(r"L\d+H\d+", each) for each in found)
    data = RunData(hostile_run)
    assert options(page) == [each.label for each in shown_in("heads") if each.name in data.quantities]
    rows = page.eval_on_selector_all(".scores tbody th", "all => all.map(e => e.textContent)")
    assert rows == options(page)
    assert set(rows[:3]) <= set(page.eval_on_selector_all(".card h4", "all => all.map(e => e.textContent)"))
    assert page.inner_text(".head-detail h2").endswith(f"({page.locator('.ranked-head span').first.inner_text()})")
    page.click("[role=tab][data-page=text]")
    page.wait_for_selector(".text-page[data-ready]:not([aria-busy])")
    assert options(page) == [each.label for each in shown_in("text")]
    page.check(".text-page aside .toggle input")
    assert re.fullmatch(r"L\d+H\d+", page.locator(".tile .caption").first.evaluate("e => e.firstChild.textContent"))


def test_lines_look_as_in_the_figures(tab: Tab, address: str) -> None:
    page = tab.open(f"{address}#page=run", FINDINGS)
    card = "[data-quantity=separation_sentence]"
    for way in ("dot", "cosine", "direct", "rows"):
        line = page.locator(f"{card} path.line.way-{way}:not(.quartile)")
        assert line.evaluate(COLOUR) == rgb(WAYS[way].colour)
        assert (line.evaluate(DASH) != "none") == (WAYS[way].dash != "-")
    paper = page.locator("[data-quantity=reach] path.line.way-tau.strong")
    assert (paper.evaluate(COLOUR), paper.evaluate(DASH)) == (rgb(WAYS["τ"].colour), "none")
    signs = page.eval_on_selector_all(f"{card} .point", "all => all.map(e => e.getAttribute('d'))")
    assert len(set(signs)) == 4
    # Every line of the legend can be told from the others, and attention alone is not the paper's way at τ.
    legend = dict(page.eval_on_selector_all(
        ".key.ways li", "all => all.map(e => [e.dataset.way, e.querySelector('svg').innerHTML])"))  # fmt: skip
    assert {"tau", "attention"} < {*legend}
    assert len({*legend.values()}) == len(legend)
    assert page.locator("[data-quantity=attention_spread] path.line.way-tau").count() == 0
    # No effect is a dashed line, and what is too small to matter an area.
    assert page.locator("[data-quantity=sentence_preference] .none").evaluate(DASH) != "none"
    assert page.locator("[data-quantity=sentence_preference] rect.too-small").bounding_box()["height"] > 1
    # What is compared with is grey; what is read in a way has its colour.
    assert page.locator("[data-quantity=focal_unique] path.line.compared").first.evaluate(COLOUR) == rgb(BASE)
    for way, colour in (("tau", WAYS["τ"].colour), ("dot", WAYS["dot"].colour), ("cosine", WAYS["cosine"].colour)):
        page.click(f"label:has(input[value={way}])")
        page.wait_for_selector(f".head-detail[data-head] .bar.way-{way}")
        assert page.locator(".head-detail .bar").first.evaluate(COLOUR) == rgb(colour)
        lines = page.locator(f".head-detail .line.strong.way-{way}")
        assert {lines.nth(k).evaluate(COLOUR) for k in range(2)} == {rgb(colour)}
        assert len({lines.nth(k).evaluate(DASH) for k in range(2)}) == 2


def test_what_leaves_a_claim_open_is_said_apart(tab: Tab, address: str, hostile_run: headscope.Result) -> None:
    page = tab.open(f"{address}#page=run", FINDINGS)
    seen = set()
    for finding in hostile_run.findings():
        if finding.verdict != "open":
            continue
        told = page.inner_text(f"tr[data-claim='{finding.key}'] .claim .note")
        parts = dict(part.split(": ", 1) for part in told.split(" · "))
        checks = [("the number itself", each.state) for each in finding.statistics]
        checks += [(each.label, each.state) for each in finding.controls]
        for state in ("cannot tell", "fails", "not run"):
            wanted = list(dict.fromkeys(name for name, own in checks if own == state))
            assert parts.get(state, "") == "; ".join(wanted)
            seen |= {state} if wanted else set()
    assert "not run" in seen


@pytest.mark.parametrize("score", ["sentence_preference", "repetition_preference", "focal_share"])
def test_the_scale_ends_where_heads_end(tab: Tab, address: str, hostile_run: headscope.Result, score: str) -> None:
    page = tab.open(f"{address}#page=run&rscore={score}", ".run-page[data-ready]")
    quantity = named(score)
    values = hostile_run.quantity(score, by="head", draws=0).value.values.ravel()
    known = values[np.isfinite(values)]
    low, high = page.locator(".run-page .legend .ends span").all_inner_texts()
    if np.isnan(quantity.none):
        assert (low, high) == ("0.00", f"{known.max():.2f}")
        return
    off = np.log(np.maximum(known, 1e-3) / quantity.none)
    most, farthest = float(np.quantile(abs(off), 0.95)), float(abs(off).max())
    reach = farthest if farthest <= 1.5 * most else most
    for told, end, beyond, sign in (
        (low, min(off.min(), 0), off.min() < -reach, "≤ "),
        (high, max(off.max(), 0), off.max() > reach, "≥ "),
    ):
        assert told.startswith(sign) == beyond
        number = float(told.removeprefix(sign).replace(",", ""))
        assert number == pytest.approx(quantity.none * np.exp(np.clip(end, -reach, reach)), rel=0.5, abs=0.0051)
    assert f"no effect, {quantity.none:.2f}" in page.inner_text(".run-page .legend")
    assert re.search(rf"Bar below a head: {quantity.label}.* from none at .* to full at", page.inner_text(".note.bars"))


def test_a_table_that_is_cut_says_so(browser: Any, address: str) -> None:
    for width, cut in ((390, True), (1280, False)):
        tab = Tab(browser, width=width, has_touch=cut)
        page = tab.open(f"{address}#page=run&ropen=4", FINDINGS)
        scores = page.locator(".head-detail .scroll")
        if cut:
            expect(scores).to_have_class("scroll wider")
            expect(page.locator(".details .scroll").first).to_have_class("scroll wider")
            told = scores.evaluate("e => getComputedStyle(e, '::before').content")
            assert "swipe to see all of it" in told
        else:
            tab.settle()
            expect(scores).to_have_class("scroll")
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        tab.close()


def test_texts_are_marked_and_told_to_be_single_ones(tab: Tab, address: str, hostile_run: headscope.Result) -> None:
    page = tab.open(f"{address}#page=run&rscore=repetition_preference&rlayer=8&rhead=0", ".examples[data-marked]")
    texts = hostile_run.examples(8, 0, "repetition_preference", 5)
    assert page.locator(".example .words:has(mark)").count() == len(texts)
    for k, text in enumerate(texts.text):
        words = page.locator(".example .words").nth(k)
        assert words.inner_text().replace("…", "").split()[0] in text
        assert all(each.strip() in text for each in words.locator("mark").all_inner_texts())
    told = page.inner_text(".examples")
    assert "Each number is of one text" in told
    assert "Marked: words that the head finds similar to their repetition." in told
    assert f"{texts.repetition_preference[0]:.2f} in this text" in told


def test_without_a_text_there_is_a_passage_to_look_at(
    browser: Any, embedded: headscope.Model, hostile_run: headscope.Result
) -> None:
    with served(Desk(lambda: embedded, RunData(hostile_run))) as server:
        for width in (390, 1280):  # the last one has a text read
            tab = Tab(browser, width=width)
            page = tab.open(f"{server.address}#page=text", ".beginning")
            assert "choose one under a head" in page.inner_text(".beginning")
            assert not page.locator(".text-page :is(.panel, aside, .controls)").locator("visible=true").count()
            if width == 1280:
                page.click(".passage")
                page.wait_for_selector(".text-page[data-ready]:not([aria-busy])")
                assert page.input_value("textarea").startswith(headscope.passages("news")[3]["text"][:40])
                expect(page.locator(".beginning")).to_be_hidden()
            tab.close()
    with served(Desk(run_data=RunData(hostile_run))) as server:  # no model: nothing that needs one is offered
        tab = Tab(browser)
        page = tab.open(server.address, ".run-page[data-ready]")
        page.wait_for_selector(".example")
        assert page.locator("[role=tab], .example button").count() == 0
        tab.close()
