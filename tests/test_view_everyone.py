"""The viewer for everyone, in a real Chromium: keys, phones, shared addresses, exports, hostile texts, one file."""

from __future__ import annotations

import csv
import io
import json
import re
from collections import Counter
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from PIL import Image

import headscope
import headscope.view
from headscope.inspection import Inspection
from headscope.view.desk import Desk
from headscope.view.page import module
from long import first_of
from viewing import HEAD, HOSTILE, LAYER, Tab, classed, highs, saved, served

AXE = Path(__file__).parents[1] / "node_modules" / "axe-core" / "axe.min.js"


def test_the_module_is_small_and_one() -> None:
    assert len(module().encode()) < 220_000
    assert not re.search(r"^\s*import\s", module(), re.MULTILINE)
    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function", module())
    for file in (Path(headscope.view.__file__).parent / "web").glob("*.js"):  # indentation is left out of the module
        lines = file.read_text(encoding="utf-8").splitlines()
        assert not [line for line in lines if line.count("`") % 2], f"{file.name}: a string goes on over a line's end"


def test_everything_can_be_reached_and_done_with_keys(tab: Tab, address: str, seen: Inspection) -> None:
    page = tab.open(address)
    where = """() => { let e = document.activeElement;
        while (e?.shadowRoot?.activeElement) e = e.shadowRoot.activeElement;
        return [e.tagName, e.className, e.getAttribute('aria-label') || e.name || e.textContent.slice(0, 20),
                getComputedStyle(e).outlineStyle] }"""
    stops = []
    for _ in range(60):
        page.keyboard.press("Tab")
        stops.append(tuple(page.evaluate(where)))
        if stops[-1][0] == "BODY":
            break
    kinds = {stop[0] for stop in stops}
    assert {"TEXTAREA", "SUMMARY", "INPUT", "SELECT", "CANVAS", "SPAN", "BUTTON"} <= kinds
    assert sum("token" in stop[1] for stop in stops) == 1  # one stop for all tokens, arrows go on from there
    assert sum("tile" in stop[1] for stop in stops) == 1
    assert all(stop[3] != "none" for stop in stops if stop[0] not in ("BODY", "HTML") and stop[0] != "INPUT"), stops

    page.evaluate("() => document.querySelector('#headscope').shadowRoot.activeElement?.blur()")
    for key, place in (("ArrowRight", "7.4"), ("ArrowUp", "6.4"), ("ArrowLeft", "6.3"), ("ArrowDown", "7.3")):
        page.keyboard.press(key)
        page.wait_for_selector(f".panel[data-head='{place}']")
    page.locator(".tile.chosen").focus()
    page.keyboard.press("ArrowDown")
    page.wait_for_selector(".panel[data-head='8.3']")
    assert page.evaluate(where)[2].startswith("layer 8, head 3")
    page.keyboard.press("ArrowUp")
    page.wait_for_selector(f".panel[data-head='{LAYER}.{HEAD}']")

    page.locator(".token[data-place='0']").focus()
    for _ in range(5):
        page.keyboard.press("ArrowRight")
    tab.settle()
    assert classed(page, "looked") == {5}
    page.keyboard.press("Enter")
    tab.settle()
    assert classed(page, "kept") == {5}
    page.keyboard.press("]")
    tab.settle()
    assert int(page.get_attribute(".high-count", "data-high")) == len(highs(seen, LAYER, HEAD, 0.55))
    page.locator("main input[type=range]").first.focus()
    page.keyboard.press("ArrowLeft")
    tab.settle()
    assert int(page.get_attribute(".high-count", "data-high")) == len(highs(seen, LAYER, HEAD, 0.5))
    page.evaluate("() => document.querySelector('#headscope').shadowRoot.activeElement?.blur()")
    page.keyboard.press("?")
    page.wait_for_selector("dialog[open]")
    page.keyboard.press("Escape")
    assert page.locator("dialog[open]").count() == 0


@pytest.mark.parametrize("theme", first_of(["light", "dark"]))
def test_no_rule_of_accessibility_is_broken(browser: Any, address: str, theme: str) -> None:
    tab = Tab(browser, color_scheme=theme, bypass_csp=True)
    page = tab.open(address)
    assert AXE.exists(), "make test installs it: npm install"
    page.add_script_tag(path=str(AXE))
    page.click("button[aria-label='what level and the others are']")
    check = "() => axe.run(document, {runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa']})"
    for hash_ in ("", "#page=run&rlayer=6&rhead=2&ropen=4"):
        if hash_:
            page.evaluate("h => { location.hash = h }", hash_)
            page.wait_for_selector(".run-page[data-findings] >> visible=true")
            page.wait_for_selector(".layers[data-ready]")
            page.wait_for_selector(".example")
            page.click(".card[data-quantity=reach] summary")
        found = page.evaluate(check)["violations"]
        told = [(v["id"], v["nodes"][0]["html"][:160], v["nodes"][0].get("failureSummary", "")[:300]) for v in found]
        assert not told
    tab.close()


@pytest.mark.long
def test_the_address_brings_the_view_back(tab: Tab, browser: Any, address: str, passage: str) -> None:
    page = tab.open(address)
    page.click("[data-layer='6'][data-head='2']")
    page.wait_for_selector(".panel[data-head='6.2']")
    page.click("button.pin")
    page.wait_for_selector(".panel.pinned[data-head='6.2']")
    page.click("[data-layer='9'][data-head='1']")
    page.wait_for_selector(".panel:not(.pinned)[data-head='9.1']")
    tab.set_slider(0, 7)
    tab.set_slider(1, 0.44)
    page.keyboard.press("1")
    page.check("[data-key=mask]")
    page.uncheck("[data-key=arcs]")
    page.check("aside .toggle input")
    page.select_option("aside select", "reach")
    page.click(".panel:not(.pinned) .token[data-place='8']")
    page.click(".panel:not(.pinned) [aria-label^='zoom in']")
    page.mouse.move(5, 5)
    tab.settle()
    link = tab.settled_address()
    other = Tab(browser)
    again = other.open(link)
    again.wait_for_selector(".panel.pinned[data-head='6.2']")
    again.wait_for_selector(".panel:not(.pinned)[data-head='9.1']")
    other.settle()
    for each in (page, again):
        assert each.locator("main input[type=range]").nth(0).input_value() == "7"
        assert float(each.locator("main input[type=range]").nth(1).input_value()) == pytest.approx(0.44)
        assert each.is_checked("[data-key=mask]")
        assert not each.is_checked("[data-key=arcs]")
        assert each.is_checked("aside .toggle input")
        assert each.input_value("aside select") == "reach"
        assert each.is_checked("input[value=similarity]")
        assert classed(each, "kept") == {8}
    numbers = [[each.get_attribute(f"{where} .high-count", "data-high") for where in (".panel:not(.pinned)", ".pinned")]
               for each in (page, again)]  # fmt: skip
    assert numbers[0] == numbers[1]
    assert other.settled_address().split("#")[1] == link.split("#")[1]
    other.close()


@pytest.mark.long
def test_every_head_can_be_sent_on_and_options_go_along(tab: Tab, browser: Any, address: str) -> None:
    page = tab.open(address)
    page.click("[data-layer='8'][data-head='0']")
    page.wait_for_selector(".panel[data-head='8.0']")
    page.click(".options summary")
    page.select_option("[name=scale]", "rank")
    page.check("[name=special]")
    page.fill("[name=window]", "40")
    tab.look_at("The cat saw the dog. The dog saw the cat.")
    other = Tab(browser)
    again = other.open(tab.settled_address())
    assert again.get_attribute(".panel", "data-head") == "8.0"
    again.click(".options summary")
    assert again.input_value("[name=scale]") == "rank"
    assert again.input_value("[name=window]") == "40"
    assert again.is_checked("[name=special]")
    assert again.get_attribute(".high-count", "data-high") == page.get_attribute(".high-count", "data-high")
    other.close()


@pytest.mark.long
def test_back_and_forward_go_from_text_to_text(tab: Tab, address: str) -> None:
    page = tab.open(address)
    first = page.inner_text(".tokens")
    tab.settled_address()
    tab.look_at("It rains again.")
    tab.settled_address()
    page.go_back()
    page.wait_for_function("n => document.querySelector('#headscope').shadowRoot"
                           ".querySelectorAll('.token').length > n", arg=20)  # fmt: skip
    assert page.inner_text(".tokens") == first
    page.go_forward()
    page.wait_for_function("n => document.querySelector('#headscope').shadowRoot"
                           ".querySelectorAll('.token').length < n", arg=20)  # fmt: skip
    assert (
        "rains" in page.inner_text(".tokens").replace("\n", "").replace(" ", "") or page.locator(".token").count() > 3
    )


@pytest.mark.long
def test_an_address_that_makes_no_sense_is_not_followed(tab: Tab, address: str) -> None:
    page = tab.open(f"{address}#layer=99&head=-4&tau=7&theta=x&show=evil&n=abc&pin=t1.2.3&page=%3Cb%3E&o.window=0")
    assert re.fullmatch(r"\d+\.\d+", page.get_attribute(".panel", "data-head"))


def test_what_is_exported_holds_the_same_numbers(tab: Tab, address: str, seen: Inspection, tmp_path: Path) -> None:
    page = tab.open(address)
    tab.set_slider(0, 1)
    table = pd.read_csv(io.BytesIO(saved(page, "csv")), keep_default_na=False)
    wanted = seen.high_pairs(LAYER, HEAD, 0.05)
    assert list(table.columns) == list(wanted.columns)
    assert len(table) > 500
    key = ["i", "j"]
    table, wanted = (each.sort_values(key).reset_index(drop=True) for each in (table, wanted))
    for column in ("token_i", "token_j"):
        table[column] = table[column].map(token_of)
    for column in ("i", "j", "token_i", "token_j", "distance", "relation"):
        assert table[column].tolist() == wanted[column].tolist(), column
    # Bit for bit: float32 went over as such, and a level is one division of float64.
    assert table.similarity.tolist() == wanted.similarity.astype(float).tolist()
    assert table.level.tolist() == wanted.level.tolist()

    tab.set_slider(0, 10)
    drawing = ElementTree.fromstring(saved(page, "svg"))
    words = "".join(drawing.itertext())
    assert f"Layer {LAYER}, head {HEAD}" in words
    assert f"{len(highs(seen, LAYER, HEAD, 0.5))} of {len(seen.relations)} pairs similar" in words
    assert all(label.removeprefix("##") in words for label in seen.labels)
    shapes = {element.tag.rpartition("}")[2] for element in drawing.iter()}
    assert "image" not in shapes  # the matrix is made of shapes, too
    (cells,) = (element for element in drawing.iter() if element.get("class") == "cells")
    runs = [int(wide) for path in cells for wide in re.findall(r"h(\d+)v1", path.get("d"))]
    assert sum(runs) == len(seen.window) ** 2
    assert len({path.get("fill") for path in cells}) > 20
    picture = Image.open(io.BytesIO(saved(page, "png")))
    assert picture.size[0] >= 2 * float(drawing.get("width")) - 2
    assert len(picture.convert("RGB").getcolors(1 << 24)) > 50

    page.click("button.pin")
    page.wait_for_selector(".panel.pinned[data-head]")
    both = ElementTree.fromstring(saved(page, "svg"))
    assert "".join(both.itertext()).count(f"Layer {LAYER}, head {HEAD}") == 2
    assert float(both.get("width")) > float(drawing.get("width"))

    file = tmp_path / "inspection.nc"
    file.write_bytes(saved(page, "nc"))
    with xr.open_dataset(file, engine="h5netcdf") as data:
        np.testing.assert_array_equal(data.similarity.values, seen.similarity.values)
        np.testing.assert_array_equal(data.attention.values, seen.attention.values)


def token_of(cell: str) -> str:
    """A token out of a cell, as docs/viewer.md says."""
    return str(json.loads(cell)) if cell.startswith('"') else cell


def test_no_cell_is_a_formula(tab: Tab, embedded: headscope.Model) -> None:
    """Tokens that a spreadsheet program would run, from a caller whose tokens may be anything."""
    tokens = ['=HYPERLINK("http://a.b","c")', "+1", "-2", "@SUM(A1)", "\t=1", "a;=2", '"', "＝3", "plain", "a=b", "a,b"]
    outputs = np.ones((1, 1, len(tokens), 2), np.float32)
    seen = Inspection.from_arrays(outputs, tokens=tokens)
    desk = Desk()
    desk.add(seen)
    with served(desk) as server:
        page = tab.open(server.address)
        written = saved(page, "csv").decode()
    rows = list(csv.reader(io.StringIO(written)))[1:]
    wanted = seen.high_pairs(0, 0, 0.5)
    assert sorted((token_of(row[2]), token_of(row[3])) for row in rows) == sorted(
        zip(wanted.token_i, wanted.token_j, strict=True)
    )
    cells = {cell for row in rows for cell in row[2:4]}
    assert {"plain", "a=b", "a,b"} <= cells
    for cell in cells:
        assert not re.match(r"\s*[=+\-@＝]", cell), cell
        assert all(not re.match(r"\s*[=+\-@]", part) for part in re.split(r"[;\t]", cell)), cell
    assert not re.search(r'(^|,)"[=+\-@]', written, re.MULTILINE)


def test_hostile_strings_stay_text(tab: Tab, address: str, embedded: headscope.Model) -> None:
    page = tab.open(address)
    title = page.title()
    tab.look_at(HOSTILE)
    seen = embedded.inspect(HOSTILE)
    assert page.eval_on_selector_all(".panel .token", "all => all.map(e => e.title)") == list(seen.labels)
    page.hover(".token[data-place='3']")
    page.check("aside .toggle input")
    table = saved(page, "csv")
    ElementTree.fromstring(saved(page, "svg"))
    assert b"script" in table
    inside = "() => document.querySelector('#headscope').shadowRoot.querySelectorAll('script, img, iframe').length"
    assert page.evaluate(inside) == 0
    assert page.title() == title
    page.evaluate("() => { location.hash = 'page=run&rlayer=6&rhead=2' }")
    page.wait_for_selector(".example")
    assert "<b>" in page.inner_text(".examples")  # ids of the run hold it
    assert page.evaluate(inside) == 0


@pytest.mark.long
def test_right_to_left_and_white_space_are_seen(browser: Any, tiny: Any, embedded: headscope.Model) -> None:
    gpt = tiny("gpt2")
    desk = Desk(lambda: gpt)
    desk.inspect("Two  spaces\n\nand a\ttab. مرحبا بالعالم.")
    with served(desk) as server:
        tab = Tab(browser)
        page = tab.open(server.address)
        words = page.inner_text(".tokens")
        assert "␣" in words
        assert "⏎" in words
        assert "⇥" in words
        tab.look_at("مرحبا بالعالم. كيف حالك اليوم.")
        assert page.get_attribute(".tokens", "dir") == "rtl"
        boxes = [page.locator(f".token[data-place='{k}']").bounding_box() for k in (1, 2)]
        same_line = abs(boxes[0]["y"] - boxes[1]["y"]) < 4
        assert not same_line or boxes[1]["x"] < boxes[0]["x"]
        page.locator(".token[data-place='1']").focus()
        page.keyboard.press("ArrowLeft")  # on, in this direction
        tab.settle()
        assert classed(page, "looked") == {2}
        tab.close()


RIGHT_EDGES = "all => all.map(e => e.getBoundingClientRect().right)"


@pytest.mark.long
def test_on_a_phone_and_in_the_dark(browser: Any, address: str, seen: Inspection) -> None:
    tab = Tab(browser, width=390, height=844, has_touch=True, is_mobile=True, color_scheme="dark")
    page = tab.open(address)
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    colour = page.locator(".headscope").evaluate("e => getComputedStyle(e).backgroundColor")
    assert max(map(int, re.findall(r"\d+", colour))) < 60
    busiest = Counter(k for pair in highs(seen, LAYER, HEAD, 0.5) for k in pair).most_common(1)[0][0]
    assert "Tap a token or a cell." in page.inner_text(".text-page")
    assert "Tap one to see it." in page.inner_text("aside")
    assert "Click" not in page.inner_text(".text-page")
    assert page.locator("header button:has-text('keys')").count() == 0
    page.tap(f".token[data-place='{busiest}']")
    tab.settle()
    assert classed(page, "high") == {i + j - busiest for i, j in highs(seen, LAYER, HEAD, 0.5) if busiest in (i, j)}
    page.tap("[data-layer='2'][data-head='2']")  # far below
    page.wait_for_selector(".panel[data-head='2.2']")
    in_view = "() => { const e = document.querySelector('#headscope').shadowRoot.querySelector('%s');"
    in_view += " const y = e.getBoundingClientRect().top; return y > -2 && y < 422 }"
    page.wait_for_function(in_view % ".panel h2")
    page.tap(".panel .to-atlas")
    page.wait_for_function(in_view % "aside h2")
    page.tap("button[aria-label='what τ means']")
    assert "counts as similar" in page.inner_text(".explained")
    page.tap("button[aria-label='what level and the others are']")
    page.wait_for_selector(".explained dt:has-text('norms')")
    assert max(page.eval_on_selector_all(".explained dd, .explained button", RIGHT_EDGES)) <= 390
    page.evaluate("() => { location.hash = 'page=run&rlayer=6&rhead=2' }")
    page.wait_for_selector(".example")
    page.wait_for_selector(".run-page[data-findings]")
    page.wait_for_selector(".layers[data-ready]")
    page.click("tr[data-claim='4'] button")
    page.wait_for_selector("tr.more")
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    assert max(page.eval_on_selector_all(".findings .mark .state", RIGHT_EDGES)) <= 390
    page.click("[aria-label='light or dark']")
    colour = page.locator(".headscope").evaluate("e => getComputedStyle(e).backgroundColor")
    assert min(map(int, re.findall(r"\d+", colour)[:3])) > 200
    tab.close()


def test_the_single_file_asks_nobody(browser: Any, seen: Inspection, tmp_path: Path) -> None:
    file = seen.view_html(tmp_path / "view.html", LAYER, HEAD)
    tab = Tab(browser, offline=True)
    page = tab.open(file.as_uri())
    assert tab.requests == [file.as_uri()]
    assert page.locator("form.asking:visible").count() == 0
    for tau in (0.5, 0.25):
        tab.set_slider(0, round(20 * tau))
        assert int(page.get_attribute(".high-count", "data-high")) == len(highs(seen, LAYER, HEAD, tau))
    page.keyboard.press("3")
    page.keyboard.press("ArrowUp")
    page.wait_for_selector(f".panel[data-head='{LAYER - 1}.{HEAD}']")
    table = pd.read_csv(io.BytesIO(saved(page, "csv")), keep_default_na=False)
    wanted = seen.high_pairs(LAYER - 1, HEAD, 0.25)
    assert sorted(table.similarity) == sorted(wanted.similarity.astype(float))
    again = Tab(browser, offline=True)
    again.open(tab.settled_address()).wait_for_selector(f".panel[data-head='{LAYER - 1}.{HEAD}']")
    assert all(each.startswith(("file:", "blob:", "data:")) for each in tab.requests + again.requests)
    tab.close()
    again.close()
