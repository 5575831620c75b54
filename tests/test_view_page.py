"""The viewer in a real Chromium: every part of the page, held against Python."""

from __future__ import annotations

import io
import math
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from PIL import Image

import headscope
import naive
from browser import chromium
from headscope.inspection import Inspection
from headscope.inspection.summary import by_threshold
from headscope.view.corpus import Corpus
from headscope.view.desk import Desk
from headscope.view.page import module
from viewing import Tab, highs, served

LAYER, HEAD = 7, 3
AXE = Path(__file__).parents[1] / "node_modules" / "axe-core" / "axe.min.js"
HOSTILE = (
    'A <script>document.title="taken"</script> came. "><img src=x onerror=alert(1)> &amp; {{7*7}} '
    "javascript:alert(2) \u202eevil\u202c. שלום עולם. `${alert(3)}` </textarea></style>"
)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, embedded: headscope.Model) -> headscope.Result:
    out = tmp_path_factory.mktemp("view") / "run"
    rows = [{"id": f"<b>{p['id']}</b>", "text": p["text"], "group": p["group"]} for p in headscope.passages()[:24]]
    rows[5]["text"] = HOSTILE + " " + rows[5]["text"]
    return headscope.analyze(embedded, rows, out=out, per_text=True, shard_size=2, progress=False, group_field="group")


@pytest.fixture(scope="module")
def address(embedded: headscope.Model, run: headscope.Result, passage: str) -> Iterator[str]:
    desk = Desk(lambda: embedded, Corpus(run), state={"layer": LAYER, "head": HEAD})
    desk.inspect(passage)
    with served(desk) as server:
        yield server.address


@pytest.fixture(scope="module")
def seen(embedded: headscope.Model, passage: str) -> Inspection:
    return embedded.inspect(passage)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as opened:
        yield opened


@pytest.fixture
def tab(browser: Any) -> Iterator[Tab]:
    opened = Tab(browser)
    yield opened
    opened.close()


def classed(page: Any, name: str) -> set[int]:
    """The tokens of the first panel that have a class."""
    found = page.eval_on_selector_all(f".panel:not(.pinned) .token.{name}", "all => all.map(e => +e.dataset.place)")
    return set(found)


def test_the_module_is_small_and_one() -> None:
    assert len(module().encode()) < 150_000
    assert not re.search(r"^\s*import\s", module(), re.MULTILINE)
    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function", module())


def test_hovering_a_token_lights_up_those_similar_to_it(tab: Tab, address: str, seen: Inspection) -> None:
    page = tab.open(address)
    shown = page.eval_on_selector_all(".panel .token", "all => all.map(e => e.title)")
    assert shown == list(seen.labels)
    busiest = Counter(k for pair in highs(seen, LAYER, HEAD, 0.5) for k in pair).most_common(3)
    for token, number in busiest:
        page.hover(f".token[data-place='{token}']")
        tab.settle()
        alike = {i + j - token for i, j in highs(seen, LAYER, HEAD, 0.5) if token in (i, j)}
        assert classed(page, "high") == alike
        assert len(alike) == number
        assert classed(page, "looked") == {token}
        assert f"({token}) is similar to {number} token" in page.inner_text(".readout")
        arcs = page.eval_on_selector_all(".arcs path", "all => all.map(e => e.dataset.pair)")
        assert {tuple(map(int, arc.split(","))) for arc in arcs} <= {tuple(sorted((token, k))) for k in alike}
        assert arcs
    page.mouse.move(5, 5)
    tab.settle()
    assert classed(page, "high") == set()


def cell_point(page: Any, size: int, i: int, j: int) -> tuple[float, float]:
    box = page.locator(".panel:not(.pinned) canvas.picture").bounding_box()
    cell = (box["width"] - 14) / size
    return box["x"] + 14 + (j + 0.5) * cell, box["y"] + 14 + (i + 0.5) * cell


def test_a_cell_of_the_matrix_and_its_two_tokens_are_linked(tab: Tab, address: str, seen: Inspection) -> None:
    page = tab.open(address)
    pairs = seen.high_pairs(LAYER, HEAD, 0.5)
    for row in pairs.head(4).itertuples():
        page.mouse.move(*cell_point(page, len(seen.window), row.i, row.j))
        tab.settle()
        assert classed(page, "looked") == {row.i, row.j}
        told = page.inner_text(".readout")
        assert f"({row.i})" in told
        assert f"({row.j})" in told
        assert f"level {row.level:.3f}" in told
        assert float(re.search(r"S (-?[\d.e+-]+)", told).group(1)) == pytest.approx(row.similarity, rel=1e-3)
    # Clicking keeps the token; Escape lets go of it.
    page.mouse.click(*cell_point(page, len(seen.window), int(pairs.i[0]), int(pairs.j[0])))
    page.mouse.move(5, 5)
    tab.settle()
    assert classed(page, "kept") == {int(pairs.i[0])}
    page.keyboard.press("Escape")
    tab.settle()
    assert classed(page, "kept") == set()


def test_the_matrix_is_painted_where_the_pairs_are(tab: Tab, address: str, seen: Inspection) -> None:
    page = tab.open(address)
    pixels = page.evaluate(
        """() => { const c = document.querySelector('#headscope').shadowRoot.querySelector('canvas.picture');
        return [c.width, [...c.getContext('2d').getImageData(0, 0, c.width, c.height).data]] }"""
    )
    wide = int(pixels[0])
    grey = np.array(pixels[1]).reshape(wide, wide, 4)[..., :3].mean(-1)
    size = len(seen.window)
    cell = (wide - 14) / size

    def shade(i: int, j: int) -> float:
        return float(grey[round(14 + (i + 0.5) * cell), round(14 + (j + 0.5) * cell)])

    high = highs(seen, LAYER, HEAD, 0.5)
    low = [pair for pair in naive.pairs(seen.counting.tolist()) if pair not in high]
    assert max(shade(i, j) for i, j in high) < 190
    assert min(shade(i, j) for i, j in low) > 200  # faded
    assert all(shade(i, j) == shade(j, i) for i, j in high)


@pytest.mark.parametrize("tau", [0.15, 0.5, 0.85])
def test_the_slider_counts_as_the_method_does(tab: Tab, address: str, seen: Inspection, tau: float) -> None:
    page = tab.open(address)
    tab.set_slider(0, round(20 * tau))
    high = highs(seen, LAYER, HEAD, tau)
    assert int(page.get_attribute(".high-count", "data-high")) == len(high)
    window = seen.window
    places = naive.pairs(seen.counting.tolist())
    named = {
        pair: naive.relation(*pair, window.ids.tolist(), seen.tokens.category.tolist(), window.word.tolist(),
                             window.sentence.tolist())
        for pair in places
    }  # fmt: skip
    rows = page.eval_on_selector_all(
        ".relations tr[data-relation]", "all => all.map(e => [e.dataset.relation, +e.dataset.high, +e.dataset.all])"
    )
    wanted = Counter(named[pair] for pair in high), Counter(named.values())
    assert {name: (a, b) for name, a, b in rows} == {name: (wanted[0][name], wanted[1][name]) for name, _, _ in rows}
    distances = [float(n) for n in page.get_attribute(".chart-holder", "data-counts").split(",")]
    by_distance = Counter(j - i for i, j in high)
    assert distances == [by_distance[k] for k in range(len(distances))]
    focal = naive.focal(list(high), window.ids.tolist(), seen.counting.tolist())
    if focal is None:
        assert page.locator(".focal-name").count() == 0
    else:
        assert float(page.get_attribute(".focal-name", "data-share")) == pytest.approx(focal[1])
        assert page.inner_text(".focal-name") == seen.focal_token(LAYER, HEAD, tau).token
        marked = {k for k in range(len(window)) if window.ids[k] == focal[0] and seen.counting[k]}
        assert classed(page, "focal") == marked


@pytest.mark.parametrize("theta", [0.1, 0.3, 0.62])
def test_the_mask_follows_theta(tab: Tab, address: str, seen: Inspection, theta: float) -> None:
    page = tab.open(address)
    page.check("[data-key=mask]")
    tab.set_slider(1, theta)
    attended = set(seen.attended(LAYER, HEAD, theta, text_only=True).index)
    assert classed(page, "attended") == attended
    assert int(page.get_attribute(".mask-count", "data-number")) == len(attended)
    levels = {pair: float(x) for pair, x in zip(
        naive.pairs(seen.counting.tolist()),
        naive.levels(seen.similarity_matrix(LAYER, HEAD).astype(float), naive.pairs(seen.counting.tolist())) or [],
        strict=True,
    )}  # fmt: skip
    inside = [x for (i, j), x in levels.items() if i in attended and j in attended]
    outside = [x for (i, j), x in levels.items() if i not in attended and j not in attended]
    contrast = float(page.get_attribute(".mask-count", "data-contrast"))
    expected = np.mean(inside) - np.mean(outside) if inside and outside else math.nan
    assert contrast == pytest.approx(expected, nan_ok=True)


def test_the_switch_shows_attention_received_and_norms(tab: Tab, address: str, seen: Inspection) -> None:
    page = tab.open(address)
    pictures = set()
    for name in ("similarity", "level", "attention", "received", "norms"):
        page.click(f".switch label:has-text('{name}')")
        page.wait_for_function("n => document.querySelector('#headscope').shadowRoot"
                               ".querySelector('.legend').textContent.includes(n)", arg=name[:4])  # fmt: skip
        tab.settle()
        pictures.add(page.locator("canvas.picture").screenshot())
        if name == "attention":
            page.wait_for_function(
                "() => performance.getEntriesByType('resource').some(e => /attention$/.test(e.name))"
            )
            tab.settle()
            i, j = 5, 9
            page.mouse.move(*cell_point(page, len(seen.window), i, j))
            page.wait_for_selector(".readout:has-text('A ')")
            told = float(re.search(r"A ([\d.e-]+)", page.inner_text(".readout")).group(1))
            assert told == pytest.approx(float(seen.attention_map(LAYER, HEAD)[i, j]), rel=6e-3)
            page.mouse.move(5, 5)
    assert len(pictures) == 5
    page.hover(".token[data-place='4']")
    tab.settle()
    assert f"norm {np.linalg.norm(seen.captured.outputs[LAYER, HEAD, 4]):.3f}" in page.inner_text(".readout")
    assert f"received {float(seen.received(LAYER, HEAD)[4]):.3f}" in page.inner_text(".readout")


def order_of(page: Any) -> list[tuple[int, int]]:
    return [tuple(each) for each in page.eval_on_selector_all(
        ".atlas .tile", "all => all.map(e => [+e.dataset.layer, +e.dataset.head])")]  # fmt: skip


def test_the_atlas_sorts_by_any_score(tab: Tab, address: str, seen: Inspection) -> None:
    page = tab.open(address)
    assert order_of(page) == [(layer, head) for layer in range(12) for head in range(12)]
    page.check("aside .toggle input")
    found = [by_threshold(seen, k) for k in range(12)]
    for score in ("stop_focus", "distance", "sentence_preference", "repetition_preference", "focal_share", "likeness"):
        for tau in (0.5, 0.3):
            tab.set_slider(0, round(20 * tau))
            page.select_option("aside select", score)
            page.wait_for_timeout(200)  # the atlas follows a slider when it rests
            values = {(k, h): found[k][score][round(20 * tau) - 1][h] for k in range(12) for h in range(12)}
            order = [values[place] for place in order_of(page)]
            known = [x for x in order if not math.isnan(x)]
            assert known == sorted(known, reverse=True)
            assert all(math.isnan(x) for x in order[len(known) :])
            first = page.locator(".atlas .tile").first
            told = first.get_attribute("title").split(": ")[1].split("\n")[0]
            assert float(told.replace(",", "")) == pytest.approx(known[0], abs=0.51 if known[0] >= 1000 else 0.0051)
    page.locator(".atlas .tile").nth(3).click()
    layer, head = order_of(page)[3]
    page.wait_for_selector(f".panel[data-head='{layer}.{head}']")


def test_thumbnails_are_the_matrices_in_small(tab: Tab, address: str, seen: Inspection) -> None:
    page = tab.open(address)
    side, data = page.evaluate(
        f"""() => {{ const c = document.querySelector('#headscope').shadowRoot
        .querySelector('[data-layer="{LAYER}"][data-head="{HEAD}"] canvas');
        return [c.width, [...c.getContext('2d').getImageData(0, 0, c.width, c.height).data]] }}"""
    )
    grey = np.array(data).reshape(side, side, 4)[..., :3].mean(-1)
    size = int(seen.counting.sum())
    assert side == min(size, 40)
    row = seen.high_pairs(LAYER, HEAD, 0.5).iloc[0]
    own = [math.floor(((place - 1) + 1) * side / size - 1e-9) for place in (row.i, row.j)]  # one token before the text
    assert grey[own[0], own[1]] < 60  # the strongest pair is as dark as it gets
    assert np.array_equal(grey, grey.T)


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


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_no_rule_of_accessibility_is_broken(browser: Any, address: str, theme: str) -> None:
    tab = Tab(browser, color_scheme=theme, bypass_csp=True)
    page = tab.open(address)
    assert AXE.exists(), "make test installs it: npm install"
    page.add_script_tag(path=str(AXE))
    check = "() => axe.run(document, {runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa']})"
    for hash_ in ("", "#page=run&rlayer=6&rhead=2"):
        if hash_:
            page.evaluate("h => { location.hash = h }", hash_)
            page.wait_for_selector(".run-page[data-ready] >> visible=true")
            page.wait_for_selector(".example")
        found = page.evaluate(check)["violations"]
        told = [(v["id"], v["nodes"][0]["html"][:160], v["nodes"][0].get("failureSummary", "")[:300]) for v in found]
        assert not told
    tab.close()


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
    page.select_option("aside select", "distance")
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
        assert each.input_value("aside select") == "distance"
        assert each.is_checked("input[value=similarity]")
        assert classed(each, "kept") == {8}
    numbers = [[each.get_attribute(f"{where} .high-count", "data-high") for where in (".panel:not(.pinned)", ".pinned")]
               for each in (page, again)]  # fmt: skip
    assert numbers[0] == numbers[1]
    assert other.settled_address().split("#")[1] == link.split("#")[1]
    other.close()


def test_an_address_that_makes_no_sense_is_not_followed(tab: Tab, address: str) -> None:
    page = tab.open(f"{address}#layer=99&head=-4&tau=7&theta=x&show=evil&n=abc&pin=t1.2.3&page=%3Cb%3E&o.window=0")
    assert re.fullmatch(r"\d+\.\d+", page.get_attribute(".panel", "data-head"))


def test_a_text_can_be_typed(tab: Tab, address: str, embedded: headscope.Model) -> None:
    page = tab.open(address)
    text = "The cat saw the dog. The dog saw the cat."
    tab.look_at(text)
    seen = embedded.inspect(text)
    assert page.eval_on_selector_all(".panel .token", "all => all.map(e => e.title)") == list(seen.labels)
    assert int(page.get_attribute(".high-count", "data-high")) == len(highs(seen, LAYER, HEAD, 0.5))
    page.click(".options summary")
    page.select_option("[name=scale]", "rank")
    page.fill("[name=window]", "8")
    tab.look_at(text)
    seen = embedded.inspect(text, scale="rank", window=8)
    assert int(page.get_attribute(".high-count", "data-high")) == len(highs(seen, LAYER, HEAD, 0.5))
    assert page.locator(".panel .token").count() == 8


def test_what_is_no_text_is_answered_with_a_sentence(tab: Tab, address: str) -> None:
    page = tab.open(address)
    before = page.inner_text(".tokens")
    page.fill("textarea", "   ")
    page.click("button.primary")
    page.wait_for_selector(".problem:has-text('white space')")
    assert page.inner_text(".tokens") == before
    tab.look_at("It rains again.")
    assert page.locator(".problem:visible").count() == 0
    tab.troubles = [each for each in tab.troubles if "422" not in each]  # the browser notes every refused request


def test_a_second_head_and_a_second_text_stand_side_by_side(
    tab: Tab, address: str, seen: Inspection, embedded: headscope.Model
) -> None:
    page = tab.open(address)
    page.click("button.pin")
    page.wait_for_selector(f".panel.pinned[data-head='{LAYER}.{HEAD}']")
    page.keyboard.press("ArrowDown")
    page.wait_for_selector(f".panel:not(.pinned)[data-head='{LAYER + 1}.{HEAD}']")
    boxes = [page.locator(which).bounding_box() for which in (".panel:not(.pinned)", ".panel.pinned")]
    assert boxes[0]["x"] + boxes[0]["width"] <= boxes[1]["x"]
    assert abs(boxes[0]["y"] - boxes[1]["y"]) < 2
    page.hover(".panel:not(.pinned) .token[data-place='4']")
    tab.settle()
    assert page.locator(".panel.pinned .token.looked").get_attribute("data-place") == "4"  # one text: one token in both
    counts = [int(each.get_attribute("data-high")) for each in page.locator(".high-count").all()]
    assert counts == [len(highs(seen, LAYER + 1, HEAD, 0.5)), len(highs(seen, LAYER, HEAD, 0.5))]
    other = "Another text altogether. It is short."
    tab.look_at(other)
    assert page.locator(".panel.pinned .token").count() == len(seen.window)
    assert page.locator(".panel:not(.pinned) .token").count() == len(embedded.inspect(other).window)
    page.click(".panel.pinned button.pin")
    assert page.locator(".panel.pinned").count() == 0


def painted(page: Any) -> str:
    return str(page.locator("canvas.picture").first.evaluate("e => e.toDataURL()"))


def test_zoom_and_pan(tab: Tab, address: str, seen: Inspection) -> None:
    page = tab.open(address)
    whole = painted(page)
    page.click("[aria-label^='zoom in']")
    page.click("[aria-label^='zoom in']")
    tab.settle()
    zoomed = painted(page)
    n = int(re.search(r"&n=(\d+)", tab.settled_address()).group(1))
    assert n == round(round(128 * 0.6) * 0.6)
    box = page.locator("canvas.picture").bounding_box()
    page.mouse.move(box["x"] + 300, box["y"] + 300)
    page.mouse.down()
    page.mouse.move(box["x"] + 200, box["y"] + 250, steps=4)
    page.mouse.up()
    page.mouse.move(5, 5)
    tab.settle()
    moved = painted(page)
    address_ = tab.settled_address()
    start = round(0.5 * (128 - 77)), round(0.5 * (77 - n))
    cell = (box["width"] - 14) / n
    x = int(re.search(r"&x=(\d+)", address_).group(1))
    assert abs(x - (sum(start) + 100 / cell)) <= 1.5
    page.keyboard.press("Shift+ArrowLeft")
    tab.settle()
    assert int(re.search(r"&x=(\d+)", tab.settled_address()).group(1)) < x
    page.keyboard.press("0")
    tab.settle()
    assert painted(page) == whole
    assert len({whole, zoomed, moved}) == 3
    page.mouse.move(box["x"] + 200, box["y"] + 200)
    page.keyboard.down("Control")
    page.mouse.wheel(0, -100)
    page.keyboard.up("Control")
    assert "&n=" in tab.settled_address()


def saved(page: Any, kind: str) -> bytes:
    page.click(".menu summary")
    with page.expect_download() as waiting:
        page.click(f"[data-save={kind}]")
    return Path(waiting.value.path()).read_bytes()


def test_what_is_exported_holds_the_same_numbers(tab: Tab, address: str, seen: Inspection, tmp_path: Path) -> None:
    page = tab.open(address)
    tab.set_slider(0, 1)
    table = pd.read_csv(io.BytesIO(saved(page, "csv")), keep_default_na=False)
    wanted = seen.high_pairs(LAYER, HEAD, 0.05)
    assert list(table.columns) == list(wanted.columns)
    assert len(table) > 500
    key = ["i", "j"]
    table, wanted = (each.sort_values(key).reset_index(drop=True) for each in (table, wanted))
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
    assert all(label in words for label in seen.labels)
    picture = Image.open(io.BytesIO(saved(page, "png")))
    assert picture.size[0] >= 2 * float(drawing.get("width")) - 2
    assert len(picture.convert("RGB").getcolors(1 << 24)) > 50

    file = tmp_path / "inspection.nc"
    file.write_bytes(saved(page, "nc"))
    with xr.open_dataset(file, engine="h5netcdf") as data:
        np.testing.assert_array_equal(data.similarity.values, seen.similarity.values)
        np.testing.assert_array_equal(data.attention.values, seen.attention.values)


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


def test_on_a_phone_and_in_the_dark(browser: Any, address: str, seen: Inspection) -> None:
    tab = Tab(browser, width=390, height=844, has_touch=True, is_mobile=True, color_scheme="dark")
    page = tab.open(address)
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    colour = page.locator(".headscope").evaluate("e => getComputedStyle(e).backgroundColor")
    assert max(map(int, re.findall(r"\d+", colour))) < 60
    busiest = Counter(k for pair in highs(seen, LAYER, HEAD, 0.5) for k in pair).most_common(1)[0][0]
    page.tap(f".token[data-place='{busiest}']")
    tab.settle()
    assert classed(page, "high") == {i + j - busiest for i, j in highs(seen, LAYER, HEAD, 0.5) if busiest in (i, j)}
    page.tap("[data-layer='2'][data-head='2']")
    page.wait_for_selector(".panel[data-head='2.2']")
    page.evaluate("() => { location.hash = 'page=run&rlayer=6&rhead=2' }")
    page.wait_for_selector(".example")
    assert page.evaluate("document.documentElement.scrollWidth") == 390
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


def test_findings_of_a_run_at_every_threshold(tab: Tab, address: str, run: headscope.Result) -> None:
    page = tab.open(f"{address}#page=run", ".run-page[data-ready]")
    found = run.findings()

    def told() -> dict[str, tuple[str, float]]:
        rows = page.eval_on_selector_all(
            ".findings tr[data-claim]", "all => all.map(e => [e.dataset.claim, e.dataset.verdict, +e.dataset.value])"
        )
        return {key: (verdict, value) for key, verdict, value in rows}

    assert {key: verdict for key, (verdict, _) in told().items()} == {f.key: f.verdict for f in found}
    assert {key: value for key, (_, value) in told().items()} == pytest.approx({f.key: f.value for f in found})
    swept = run.sensitivity()
    for which, over, step, threshold in ((0, "tau", 6, 0.3), (1, "theta", 0.6, 0.6)):
        tab.set_slider(which, step)
        now = told()
        for key in swept.claim.values[swept.over.values == over]:
            one = swept.sel(claim=key).sel(threshold=threshold, method="nearest")
            assert now[key] == (str(one.verdict.values), pytest.approx(float(one.value)))
    page.wait_for_selector(".run-page[data-ready='6']")


def test_the_atlas_of_a_run_its_curves_and_its_texts(tab: Tab, address: str, run: headscope.Result) -> None:
    page = tab.open(f"{address}#page=run&rscore=repetition_preference", ".run-page[data-ready]")
    values = run.quantity("repetition_preference", by="head").value.values
    page.check(".run-page aside .toggle input")
    order = [values[layer, head] for layer, head in order_of(page)]
    known = [x for x in order if not math.isnan(x)]
    assert known == sorted(known, reverse=True)
    ranked = page.locator(".ranked-head")
    best = np.unravel_index(np.nanargmax(values), values.shape)
    assert ranked.first.get_attribute("data-head") == f"{best[0]}.{best[1]}"
    assert re.search(r"95 % from [\d.]+ to [\d.]+", ranked.first.locator("svg").get_attribute("aria-label"))
    ranked.first.click()
    page.wait_for_selector(f".head-detail h2:has-text('Layer {best[0]}, head {best[1]}')")
    page.wait_for_selector(".example")
    bars = page.eval_on_selector_all(".head-detail .bar title", "all => all.map(e => e.textContent)")
    shares = run.distance_distribution(by="head").value.values[best[0], best[1]]
    first = re.match(r"distance 1(?: to (\d+))?: ([\d.]+) %", bars[0])
    assert first is not None
    assert float(first.group(2)) == pytest.approx(100 * shares[: int(first.group(1) or 1)].sum(), abs=0.051)
    texts = run.examples(int(best[0]), int(best[1]), "repetition_share", 5)
    assert page.locator(".example").count() == len(texts)
    page.locator(".example button").first.click()
    page.wait_for_selector(".text-page[data-ready]:not([aria-busy])")
    assert page.input_value("textarea").replace("\r", "") == texts.text[0]
    page.wait_for_selector(f".panel[data-head='{best[0]}.{best[1]}']")
    assert page.get_attribute("[role=tab][data-page=text]", "aria-selected") == "true"


def test_long_windows_are_sent_head_by_head(browser: Any, tiny: Any) -> None:
    gpt = tiny("long")
    text = " ".join(p["text"] for p in headscope.passages()[:6])
    window = 400
    desk = Desk(lambda: gpt, defaults={"window": window})
    desk.inspect(text)
    assert desk.texts()[0].captured.weights is None
    with served(desk) as server:
        tab = Tab(browser)
        page = tab.open(server.address)
        seen = gpt.inspect(text, window=window, maps=False)
        layer = gpt.stack().layers - 1
        assert page.locator(".token").count() == window
        assert int(page.get_attribute(".high-count", "data-high")) == len(seen.high_pairs(layer, 0, 0.5))
        asked = {url.split("/api/")[1] for url in tab.requests if "/heads/" in url}
        assert {each.split("/", 2)[2] for each in asked} == {f"heads/{layer}/0"}
        page.keyboard.press("3")
        page.wait_for_function("() => performance.getEntriesByType('resource').some(e => /attention$/.test(e.name))")
        tab.settle()
        page.mouse.move(*cell_point(page, window, 200, 100))
        page.wait_for_selector(".readout:has-text('A ')")
        told = float(re.search(r"A ([\d.e-]+)", page.inner_text(".readout")).group(1))
        i, j = (int(k) for k in re.findall(r"\((\d+)\)", page.inner_text(".readout"))[:2])
        assert told == pytest.approx(float(seen.attention_map(layer, 0)[i, j]), rel=6e-3, abs=1e-9)
        tab.close()
