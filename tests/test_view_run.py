"""A run in the viewer, in a real Chromium: heads, layers and findings in every reading, held against Python."""

from __future__ import annotations

import math
import re
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import expect

import headscope
from headscope.findings import MARKS
from headscope.measures.quantities import named
from headscope.measures.view import View
from headscope.view.desk import Desk
from headscope.view.later import Later
from headscope.view.purity import of_run
from headscope.view.run_data import RunData
from long import first_of
from viewing import Tab, order_of, served

READY = ".run-page[data-ready]"
FINDINGS = ".run-page[data-findings]"
ROWS = ".findings tr[data-claim]"


def told(page: Any) -> dict[str, tuple[str, float]]:
    """Verdict and value of each claim as the page has them."""
    read = "all => all.map(e => [e.dataset.claim, e.dataset.verdict, +e.dataset.value])"
    rows = page.eval_on_selector_all(ROWS, read)
    return {key: (verdict, value) for key, verdict, value in rows}


def marks(page: Any, claim: str) -> dict[str, tuple[str, str]]:
    """State and text of each mark in a claim's row."""
    cells = page.locator(f"tr[data-claim='{claim}'] td.mark[data-state]").evaluate_all(
        "all => all.map(e => [e.dataset.kind, e.dataset.state, e.textContent])"
    )
    return {kind: (state, text) for kind, state, text in cells}


def points(page: Any, quantity: str, kind: str) -> list[float]:
    """The values along a line of a chart, as its points tell them."""
    titles = page.locator(f".card[data-quantity={quantity}] .point.{kind} title").all_text_contents()
    return [float(re.search(r": (-?[\d.,]+)", each)[1].replace(",", "")) for each in titles]


def test_findings_with_a_mark_for_every_control(tab: Tab, address: str, hostile_run: headscope.Result) -> None:
    page = tab.open(f"{address}#page=run", FINDINGS)
    found = hostile_run.findings()
    assert {key: verdict for key, (verdict, _) in told(page).items()} == {f.key: f.verdict for f in found}
    assert {key: value for key, (_, value) in told(page).items()} == pytest.approx({f.key: f.value for f in found})
    for finding in found:
        seen = marks(page, finding.key)
        states = {kind: finding.state(kind) for kind in found.control_names if finding.state(kind)}
        assert {kind: state for kind, (state, _) in seen.items() if kind != "statistic"} == states
        assert all(text == MARKS[state] + state for state, text in seen.values())
        number = page.inner_text(f"tr[data-claim='{finding.key}'] td.number")
        assert number.replace("\n", "; ") == finding.interval()
    assert len({state for f in found for state, _ in marks(page, f.key).values()}) > 2
    finding = found["4"]
    page.click("tr[data-claim='4'] button")
    page.wait_for_selector("tr.more .sentence")
    assert page.inner_text("tr.more .sentence") == finding.sentence
    assert page.get_attribute("tr[data-claim='4'] button", "aria-expanded") == "true"
    names = page.eval_on_selector_all("tr.more [data-check]", "all => all.map(e => e.dataset.check)")
    assert names == [each.name for each in (*finding.statistics, *finding.controls)]
    share = f"{finding.statistics[0].beyond:.0%}".replace("%", " %")
    assert page.inner_text("tr[data-claim='4'] td[data-label='heads beyond']") == share


@pytest.mark.long
def test_at_another_threshold_there_are_numbers_and_no_verdicts(
    tab: Tab, address: str, hostile_run: headscope.Result
) -> None:
    page = tab.open(f"{address}#page=run", FINDINGS)
    before = told(page)
    swept = hostile_run.sensitivity()
    for which, over, step, threshold in ((0, "tau", 6, 0.3), (1, "theta", 0.6, 0.6)):
        tab.set_slider(which, step)
        page.wait_for_selector(".run-page[data-swept]")
        now = told(page)
        for key in swept.claim.values[swept.over.values == over]:
            if " " in key:  # the second statistic of a claim
                continue
            one = swept.sel(claim=key).sel(threshold=threshold, method="nearest")
            assert now[key] == ("no verdict", pytest.approx(float(one.value), nan_ok=True))
            assert marks(page, key)["statistic"][0] == str(one.state.values)
        for key in swept.claim.values[swept.over.values == ""]:
            assert now[key] == before[key]
    page.wait_for_selector(".run-page[data-ready$='/6']")
    assert "pooled over windows" in page.inner_text(".controls")
    page.click("text=the run's own")
    page.wait_for_selector(".run-page[data-ready$='/10']")
    assert told(page) == before


@pytest.mark.long
def test_heads_are_there_before_the_findings(browser: Any, hostile_run: headscope.Result) -> None:
    data, go = RunData(hostile_run), threading.Event()
    found = data._all_findings
    data._findings = Later(lambda: found() if go.wait(120) else {})
    with served(Desk(run_data=data)) as server:
        tab = Tab(browser)
        page = tab.open(server.address, READY)
        page.wait_for_selector(".layers[data-ready]")
        assert page.locator(".tile:not(.waiting)").count() == 144
        assert page.locator(ROWS).count() == 12  # in their places, without numbers
        assert page.locator(".findings .verdict").count() == 0
        height = page.locator(".findings").bounding_box()["height"]
        go.set()
        page.wait_for_selector(FINDINGS)
        assert page.locator(".findings .verdict").count() == 12
        assert page.locator(".findings").bounding_box()["height"] < 2 * height
        tab.close()


@pytest.mark.parametrize("way", first_of(["cosine", "tau", "dot"]))
def test_the_atlas_in_every_way(tab: Tab, address: str, hostile_run: headscope.Result, way: str) -> None:
    page = tab.open(f"{address}#page=run&rscore=repetition_preference&rtau=0.5", READY)
    page.click(f"label:has(input[value={way}])")
    page.wait_for_selector(f".run-page[data-ready='repetition_preference/{10 if way == 'tau' else way}']")
    reading = None if way == "tau" else way
    values = hostile_run.quantity("repetition_preference", by="head", reading=reading).value.values
    page.check(".run-page aside .toggle input")
    pure, _ = of_run(View(hostile_run.blocks, 0.5, reading=reading))
    order = [pure[layer, head] for layer, head in order_of(page)]
    known = [x for x in order if not math.isnan(x)]
    assert known == sorted(known, reverse=True)
    assert len(known) >= np.isfinite(values).sum()
    ranked = page.locator(".ranked-head")
    best = np.unravel_index(np.nanargmax(np.where(np.isnan(values), np.nan, pure)), values.shape)
    assert ranked.first.get_attribute("data-head") == f"{best[0]}.{best[1]}"
    assert re.search(r"95 % from [\d.,]+ to [\d.,]+", ranked.first.locator("svg").get_attribute("aria-label"))
    ranked.first.click()
    page.wait_for_selector(f".head-detail[data-head='{best[0]}.{best[1]}']")
    bars = page.eval_on_selector_all(".head-detail .bar title", "all => all.map(e => e.textContent)")
    shares = hostile_run.distance_distribution(by="head", reading=reading).value.values[:, best[0], best[1]]
    assert [float(re.search(r": ([\d.]+) %", bar)[1]) for bar in bars] == pytest.approx(100 * shares, abs=0.051)
    assert re.match(r"distance 5 to 6: ", bars[4])


@pytest.mark.long
def test_scores_of_a_head_stand_side_by_side(tab: Tab, address: str, hostile_run: headscope.Result) -> None:
    page = tab.open(f"{address}#page=run&rlayer=7&rhead=3", READY)
    page.wait_for_selector(".head-detail[data-head='7.3']")
    page.wait_for_function("() => document.querySelector('#headscope').shadowRoot"
                           ".querySelectorAll('.scores td span.note').length > 20")  # fmt: skip
    page.wait_for_selector(".layers[data-ready]")
    rows = dict(page.eval_on_selector_all(
        ".scores tbody tr", "all => all.map(e => [e.children[0].textContent,"
        " [...e.children].slice(1).map(c => c.firstChild?.textContent ?? '')])"))  # fmt: skip
    ways = [None, "dot", "cosine", "direct", "rows"]
    for name, own in {
        "sentence_preference": (True, True, True, False, False),
        "separation_repeated": (False, True, True, True, True),
        "separator_focus_stop": (True,),  # one cell over all columns
    }.items():
        assert len(rows[named(name).label]) == len(own)
        for way, there, number in zip(ways[: len(own)], own, rows[named(name).label], strict=True):
            if not there:
                assert number == ""
                continue
            value = float(hostile_run.quantity(name, by="head", reading=way, draws=0).value[7, 3])
            assert number == ("–" if math.isnan(value) else f"{value:.2f}")


@pytest.mark.long
def test_layers_have_a_line_for_every_way(tab: Tab, address: str, hostile_run: headscope.Result) -> None:
    page = tab.open(f"{address}#page=run", ".layers[data-ready]")
    for name, ways in (
        ("sentence_preference", {"way-tau": None, "way-dot": "dot", "way-cosine": "cosine"}),
        ("separation_sentence", {"way-dot": "dot", "way-cosine": "cosine", "way-direct": "direct", "way-rows": "rows"}),
        ("focal_unique", {"way-tau": None}),
        ("separator_focus_stop", {"way-attention": None}),
    ):
        for kind, way in ways.items():
            values = hostile_run.quantity(name, reading=way, draws=0).value.values
            assert points(page, name, kind) == pytest.approx(values[np.isfinite(values)], abs=0.0051)
    null = hostile_run.quantity("focal_null", draws=0).value.values
    assert points(page, "focal_unique", "chance") == pytest.approx(null, abs=0.0051)
    page.click("label:has(input[value=share])")
    page.wait_for_selector(".layers[data-ready$='/share']")
    beyond = hostile_run.quantity("sentence_preference", reading="cosine", draws=0).beyond.values
    assert points(page, "sentence_preference", "way-cosine") == pytest.approx(100 * beyond, abs=0.051)
    assert page.locator(".card[data-quantity=likeness]:visible").count() == 0  # no bound
    page.click("label:has(input[value=pooled])")
    page.wait_for_selector(".layers[data-ready$='/pooled']")
    pooled = hostile_run.quantity("sentence_preference", draws=0).pooled.values
    assert points(page, "sentence_preference", "way-tau") == pytest.approx(pooled, abs=0.0051)
    page.click(".card[data-quantity=sentence_preference] summary")
    cells = page.locator(".card[data-quantity=sentence_preference] tbody tr").first.locator("td")
    expect(cells).to_have_count(3)
    page.click(".card[data-quantity=separation_sentence] h4 button")
    page.wait_for_selector(".run-page[data-ready='separation_sentence/dot']")


@pytest.mark.long
def test_the_address_of_a_run_brings_it_back(tab: Tab, browser: Any, address: str) -> None:
    page = tab.open(f"{address}#page=run", FINDINGS)
    page.select_option("aside select", "separation_repeated")
    page.click("label:has(input[value=rows])")
    page.click("label:has(input[value=share])")
    page.click("tr[data-claim='6'] button")
    page.click("tr[data-claim='7b'] button")
    tab.set_slider(0, 13)
    tab.set_slider(1, 0.45)
    page.click(".tile[data-layer='3'][data-head='9']")
    page.wait_for_selector(".head-detail[data-head='3.9']")
    link = tab.settled_address()
    other = Tab(browser)
    again = other.open(link, ".run-page[data-ready='separation_repeated/rows'][data-findings]")
    again.wait_for_selector(".layers[data-ready='rows/13/share']")
    again.wait_for_selector(".head-detail[data-head='3.9']")
    for each in (page, again):
        assert each.locator("main input[type=range]").nth(0).input_value() == "13"
        assert float(each.locator("main input[type=range]").nth(1).input_value()) == pytest.approx(0.45)
        assert each.locator("tr.more").count() == 2
        assert each.input_value("aside select") == "separation_repeated"
        assert each.is_checked("input[value=rows]")
    assert other.settled_address().split("#")[1] == link.split("#")[1]
    other.close()


def test_stacks_of_a_run_are_chosen(browser: Any, stacks_run: headscope.Result, tmp_path: Path) -> None:
    verdicts = {name: {f.key: f.verdict for f in stacks_run.stack(name).findings()} for name in stacks_run.stacks}
    with served(Desk(run_data=RunData(stacks_run))) as server:
        tab = Tab(browser)
        page = tab.open(f"{server.address}#page=run", FINDINGS)
        chosen = "fieldset.switch input[value={}]".format
        assert page.is_checked(chosen("encoder"))
        for name in ("cross", "decoder"):
            page.locator(f"label:has(> {chosen(name).split()[1]})").click()
            page.wait_for_selector(f"{FINDINGS}[data-ready]")
            page.wait_for_selector(".head-detail[data-head]")
            assert page.is_checked(chosen(name))
            assert name in page.inner_text(".telling")
            assert {key: verdict for key, (verdict, _) in told(page).items()} == verdicts[name]
            assert f"rstack={name}" in tab.settled_address()
        kept = tab.settled_address()
        with page.expect_download() as saving:
            page.click("details.menu summary")
            page.click("[data-save=html]")
        saving.value.save_as(tmp_path / "run.html")
        tab.close()
        again = Tab(browser)
        page = again.open(kept, FINDINGS)
        assert page.is_checked(chosen("decoder"))
        page.goto(f"{server.address}#page=run&rstack=%3Cb%3E")  # no stack: the first
        page.wait_for_selector(f"{chosen('encoder')}:checked", state="attached")
        again.close()
    alone = Tab(browser)
    page = alone.open((tmp_path / "run.html").as_uri(), FINDINGS)
    assert {key: verdict for key, (verdict, _) in told(page).items()} == verdicts["decoder"]
    assert not page.is_visible(chosen("encoder"))  # the file holds what was looked at
    alone.close()


@pytest.mark.long
def test_an_address_of_a_run_that_makes_no_sense_is_not_followed(tab: Tab, address: str) -> None:
    nonsense = "rscore=%3Cb%3E&rway=evil&rsum=x&rtau=7&rtheta=-3&rlayer=99&rhead=-5&ropen=%3Cimg%3E,4"
    page = tab.open(f"{address}#page=run&{nonsense}", f"{FINDINGS}[data-ready]")
    page.wait_for_selector(".head-detail[data-head]")
    assert page.locator("tr.more").count() == 1
    assert page.is_checked("input[value=tau]")
    assert page.locator("main input[type=range]").nth(0).input_value() == "18"


@pytest.mark.long
def test_the_keys_of_a_run(tab: Tab, address: str) -> None:
    page = tab.open(f"{address}#page=run&rlayer=5&rhead=5", READY)
    page.wait_for_selector(".head-detail[data-head='5.5']")
    for key, place in (("ArrowRight", "5.6"), ("ArrowDown", "6.6"), ("ArrowLeft", "6.5"), ("ArrowUp", "5.5")):
        page.keyboard.press(key)
        page.wait_for_selector(f".head-detail[data-head='{place}']")
    page.keyboard.press("r")
    page.wait_for_selector(".run-page[data-ready='sentence_preference/dot']")
    page.keyboard.press("r")
    page.wait_for_selector(".run-page[data-ready='sentence_preference/cosine']")
    page.keyboard.press("r")
    page.wait_for_selector(".run-page[data-ready='sentence_preference/10']")
    page.wait_for_selector(FINDINGS)
    page.locator("tr[data-claim='3'] button").focus()
    page.keyboard.press("Enter")
    page.wait_for_selector("tr.more")
    focused = "() => document.querySelector('#headscope').shadowRoot.activeElement.textContent"
    assert page.evaluate(focused) == headscope.findings.CLAIMS[3].paper  # the focus stays where it was
    page.keyboard.press("Enter")
    page.wait_for_selector("tr.more", state="detached")


@pytest.mark.long
def test_what_control_runs_gave(browser: Any, view_corpus: RunData, view_rotated: headscope.Result) -> None:
    desk = Desk(run_data=RunData(view_corpus.result, [view_rotated]))
    with served(desk) as server:
        tab = Tab(browser)
        page = tab.open(f"{server.address}#page=run&ropen=4", FINDINGS)
        page.wait_for_selector(".layers[data-ready]")
        row = page.inner_text("tr[data-run=rotated]")
        assert view_rotated.model["name"] in row
        value = float(view_rotated.quantity("sentence_preference", by="third", draws=0).value[2])
        assert f"{value:.2f}" in row
        assert page.locator(".card[data-quantity=sentence_preference] path.line.control.rotated").count() == 1
        assert marks(page, "4")["rotated"][0] != "not run"
        tab.close()


def test_a_text_of_the_run_opens_with_its_head_and_reading(
    tab: Tab, address: str, hostile_run: headscope.Result
) -> None:
    page = tab.open(f"{address}#page=run&rscore=repetition_preference&rway=cosine&rlayer=8&rhead=0", READY)
    page.wait_for_selector(".example")
    texts = hostile_run.examples(8, 0, "repetition_preference", 5)
    assert page.locator(".example").count() == len(texts)
    page.locator(".example button").first.click()
    page.wait_for_selector(".text-page[data-ready]:not([aria-busy])")
    assert page.input_value("textarea").replace("\r", "") == texts.text[0]
    page.wait_for_selector(".panel[data-head='8.0'][data-reading=cosine]")
    assert page.get_attribute("[role=tab][data-page=text]", "aria-selected") == "true"
    assert page.is_checked("[data-key=top]")
