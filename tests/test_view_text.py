"""One text in the viewer, in a real Chromium: every part of the page held against Python."""

from __future__ import annotations

import base64
import io
import math
import re
from collections import Counter
from typing import Any

import numpy as np
import pytest
from PIL import Image

import headscope
import naive
import naive_order
from headscope.inspection import Inspection
from headscope.inspection.summary import by_threshold, text_sums
from headscope.view.desk import Desk
from headscope.view.purity import of_text
from long import first_of
from viewing import HEAD, LAYER, Tab, cell_point, classed, highs, order_of, served


def painted(page: Any) -> str:
    return str(page.locator("canvas.picture").first.evaluate("e => e.toDataURL()"))


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


@pytest.mark.long
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
        assert float(re.search(r"dot (-?[\d.e+-]+)", told).group(1)) == pytest.approx(row.similarity, rel=1e-3)
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
    picture = Image.open(io.BytesIO(base64.b64decode(painted(page).partition(",")[2])))
    wide = picture.width
    grey = np.array(picture.convert("RGB")).mean(-1)
    size = len(seen.window)
    margin = float(page.get_attribute("canvas.picture", "data-margin"))
    cell = (wide - margin) / size

    def shade(i: int, j: int) -> float:
        return float(grey[round(margin + (i + 0.5) * cell), round(margin + (j + 0.5) * cell)])

    high = highs(seen, LAYER, HEAD, 0.5)
    low = [pair for pair in naive.pairs(seen.counting.tolist()) if pair not in high]
    assert max(shade(i, j) for i, j in high) < 190
    assert min(shade(i, j) for i, j in low) > 200  # faded
    assert all(shade(i, j) == shade(j, i) for i, j in high)


@pytest.mark.parametrize("tau", first_of([0.5, 0.15, 0.85]))
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


@pytest.mark.parametrize("theta", first_of([0.3, 0.1, 0.62]))
def test_the_mask_follows_theta(tab: Tab, address: str, seen: Inspection, theta: float) -> None:
    page = tab.open(address)
    page.check("[data-key=mask]")
    tab.set_slider(1, theta)
    attended = set(seen.attended(LAYER, HEAD, theta, text_only=True).index)
    assert classed(page, "attended") == attended
    assert int(page.get_attribute(".mask-count", "data-number")) == len(attended)
    places = naive.pairs(seen.counting.tolist())
    matrix = seen.similarity_matrix(LAYER, HEAD)
    values = [float(matrix[place]) for place in places]
    order = naive_order.order(values, naive_order.edges(values, naive_order.window_key(seen.tokens.id.tolist())))
    inside = [p for p, (i, j) in enumerate(places) if i in attended and j in attended]
    outside = [p for p, (i, j) in enumerate(places) if i not in attended and j not in attended]
    wins, weight = naive_order.contrast(order, inside, outside, [naive_order.band_of(j - i) for i, j in places])
    auc = float(page.get_attribute(".mask-count", "data-auc"))
    assert auc == pytest.approx(wins / weight if weight else math.nan, nan_ok=True)


@pytest.mark.long
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


@pytest.mark.long
def test_the_atlas_sorts_by_any_score(tab: Tab, address: str, seen: Inspection) -> None:
    page = tab.open(address)
    assert order_of(page) == [(layer, head) for layer in range(12) for head in range(12)]
    page.check("aside .toggle input")
    found = [by_threshold(seen, k) for k in range(12)]
    pure = [of_text(text_sums(seen, k), "dot")[0] for k in range(12)]
    for score in (
        "separator_focus_stop",
        "reach",
        "sentence_preference",
        "repetition_preference",
        "focal_share",
        "likeness",
    ):
        for tau in (0.5, 0.3):
            tab.set_slider(0, round(20 * tau))
            page.select_option("aside select", score)
            page.wait_for_timeout(200)  # the atlas follows a slider when it rests
            values = {(k, h): found[k][score][round(20 * tau) - 1][h] for k in range(12) for h in range(12)}
            if score == "repetition_preference":
                values = {(k, h): pure[k][round(20 * tau) - 1][h] for k in range(12) for h in range(12)}
            order = [values[place] for place in order_of(page)]
            known = [x for x in order if not math.isnan(x)]
            assert known == sorted(known, reverse=True)
            assert all(math.isnan(x) for x in order[len(known) :])
            first = page.locator(".atlas .tile").first
            told = first.get_attribute("title").split(": ")[1].split("\n")[0]
            if score == "repetition_preference":  # the title has the score itself
                known = [found[order_of(page)[0][0]][score][round(20 * tau) - 1][order_of(page)[0][1]]]
            assert float(told.replace(",", "")) == pytest.approx(known[0], abs=0.51 if known[0] >= 1000 else 0.0051)
    page.locator(".atlas .tile").nth(3).click()
    layer, head = order_of(page)[3]
    page.wait_for_selector(f".panel[data-head='{layer}.{head}']")


@pytest.mark.long
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


def test_a_language_that_the_model_does_not_know_is_noticed(tab: Tab, address: str, embedded: headscope.Model) -> None:
    page = tab.open(address)
    german = "Das ist schön und größer als früher. Warum kommt niemand nach Hause, wenn die Sonne untergeht?"
    tab.look_at(german)
    assert page.inner_text(".text-page > .warnings") == embedded.inspect(german).unfamiliar != ""
    tab.look_at("The cat saw the dog. The dog saw the cat.")
    assert page.locator(".text-page > .warnings:visible").count() == 0


@pytest.mark.long
def test_what_is_no_text_is_answered_with_a_sentence(tab: Tab, address: str) -> None:
    page = tab.open(address)
    page.fill("textarea", "   ")
    page.click("button.primary")
    page.wait_for_selector(".problem:has-text('white space')")
    assert page.locator(".tokens:visible").count() == 0  # nothing of the text before is left beside the error
    assert page.locator(".telling.busy").count() == 0
    # What was wrong can be put right without changing the text.
    page.fill("textarea", "It rains again.")
    page.click(".options summary")
    page.fill("[name=start]", "4000")
    page.click("button.primary")
    page.wait_for_selector(".problem:has-text('start')")
    page.click(".options summary")
    page.fill("[name=start]", "0")
    page.click("button.primary")
    page.wait_for_function("() => document.querySelector('#headscope').shadowRoot"
                           ".querySelectorAll('.token').length < 20")  # fmt: skip
    page.wait_for_selector(".headscope > .problem", state="hidden")
    page.fill("textarea", "")
    page.click("button.primary")
    page.wait_for_selector(".problem:has-text('empty')")
    tab.troubles = [each for each in tab.troubles if "422" not in each]  # the browser notes every refused request


@pytest.mark.long
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


@pytest.mark.long
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
    cell = (box["width"] - float(page.get_attribute("canvas.picture", "data-margin"))) / n
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


@pytest.mark.long
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
        assert {each.split("/", 2)[2] for each in asked} == {f"dot/heads/{layer}/0"}
        page.keyboard.press("3")
        page.wait_for_function("() => performance.getEntriesByType('resource').some(e => /attention$/.test(e.name))")
        tab.settle()
        page.mouse.move(*cell_point(page, window, 200, 100))
        page.wait_for_selector(".readout:has-text('A ')")
        told = float(re.search(r"A ([\d.e-]+)", page.inner_text(".readout")).group(1))
        i, j = (int(k) for k in re.findall(r"\((\d+)\)", page.inner_text(".readout"))[:2])
        assert told == pytest.approx(float(seen.attention_map(layer, 0)[i, j]), rel=6e-3, abs=1e-9)
        tab.close()
