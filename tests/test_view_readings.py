"""Readings in the viewer, in a real Chromium: the switch, two readings side by side, top pairs, one file."""

from __future__ import annotations

import io
from collections import Counter
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import xarray as xr

import headscope
import naive
import naive_order
from headscope.choices import READINGS
from headscope.inspection import Inspection
from headscope.view.desk import Desk
from long import first_of
from viewing import HEAD, LAYER, Tab, classed, highs, order_of, saved, served

SHOWN = ".panel:not(.pinned)"


def read_by(page: Any, reading: str) -> None:
    """Press the switch, and wait until panel and atlas follow."""
    page.click(f".controls label:has-text('{reading}')")
    page.wait_for_selector(f".text-page[data-reading='{reading}']:not([aria-busy])")


def high_count(page: Any, where: str = SHOWN) -> int:
    return int(page.get_attribute(f"{where} .high-count", "data-high"))


def scores_of(page: Any) -> dict[str, str]:
    names, values = (page.locator(f"{SHOWN} dl.numbers {tag}").all_inner_texts() for tag in ("dt", "dd"))
    return dict(zip(names, values, strict=True))


def tops(seen: Inspection, layer: int, head: int) -> set[tuple[int, int]]:
    """The top pairs, by the second implementation."""
    places = naive.pairs(seen.counting.tolist())
    matrix = seen.similarity_matrix(layer, head)
    values = [float(matrix[place]) for place in places]
    cuts = naive_order.edges(values, naive_order.window_key(seen.tokens.id.tolist()))
    return {places[number] for number in naive_order.top_pairs(naive_order.order(values, cuts))}


@pytest.mark.parametrize("reading", first_of([*READINGS][::-1]))
def test_everything_follows_the_switch(tab: Tab, address: str, seen: Inspection, reading: str) -> None:
    own = seen.read_as(reading)
    page = tab.open(address)
    assert page.is_checked("input[value=dot]")
    read_by(page, "cosine" if reading == "dot" else reading)
    if reading == "dot":
        read_by(page, reading)
    assert READINGS[reading] in page.inner_text(".controls .meaning")
    assert page.get_attribute(SHOWN, "data-reading") == reading
    high = highs(own, LAYER, HEAD, 0.5)
    assert high_count(page) == len(high)
    distances = [float(n) for n in page.get_attribute(".chart-holder", "data-counts").split(",")]
    by_distance = Counter(j - i for i, j in high)
    assert distances == [by_distance[k] for k in range(len(distances))]
    assert page.inner_text(".focal-name") == own.focal_token(LAYER, HEAD, 0.5).token
    strongest = own.high_pairs(LAYER, HEAD, 0.5).iloc[0]
    row = page.locator("table.pairs tr.pair").first
    assert row.locator("td bdi").first.inner_text().strip() == strongest.token_i
    assert row.locator("td .place").all_inner_texts() == [str(strongest.i), str(strongest.j)]
    arcs = page.eval_on_selector_all(".arcs path", "all => all.map(e => e.dataset.pair)")
    assert {tuple(map(int, arc.split(","))) for arc in arcs} <= high
    busiest = Counter(k for pair in high for k in pair).most_common(1)[0][0]
    page.hover(f".token[data-place='{busiest}']")
    tab.settle()
    assert classed(page, "high") == {i + j - busiest for i, j in high if busiest in (i, j)}
    scores = scores_of(page)
    heads = own.heads(LAYER, 0.5).iloc[HEAD]
    assert float(scores["reach of similar pairs"]) == pytest.approx(heads.reach, abs=0.0051)
    assert float(scores["likeness to attention"]) == pytest.approx(heads.likeness, abs=0.0051)
    table = pd.read_csv(io.BytesIO(saved(page, "csv")), keep_default_na=False)
    assert table.similarity.tolist() == own.high_pairs(LAYER, HEAD, 0.5).similarity.astype(float).tolist()


@pytest.mark.long
def test_the_atlas_is_of_the_reading(tab: Tab, address: str, seen: Inspection) -> None:
    page = tab.open(address)
    thumb = f"[data-layer='{LAYER}'][data-head='{HEAD}'] canvas"
    before = page.locator(thumb).evaluate("e => e.toDataURL()")
    read_by(page, "cosine")
    assert page.locator(thumb).evaluate("e => e.toDataURL()") != before
    page.check("aside .toggle input")
    page.select_option("aside select", "high_pairs")
    rows = seen.read_as("cosine").summary().set_index(["layer", "head"]).high_pairs
    order = [rows[place] for place in order_of(page)]
    assert order == sorted(order, reverse=True)
    assert order != [seen.summary().set_index(["layer", "head"]).high_pairs[place] for place in order_of(page)]


def test_two_readings_of_a_head_stand_side_by_side(tab: Tab, browser: Any, address: str, seen: Inspection) -> None:
    page = tab.open(address)
    page.click("button.pin")
    page.wait_for_selector(".panel.pinned[data-reading=dot]")
    read_by(page, "cosine")
    dot, cosine = (len(highs(seen.read_as(name), LAYER, HEAD, 0.5)) for name in ("dot", "cosine"))
    assert dot != cosine
    assert (high_count(page), high_count(page, ".pinned")) == (cosine, dot)
    page.select_option(".pinned select.reading", "values")
    page.wait_for_selector(".panel.pinned[data-reading=values]")
    tab.settle()
    values = len(highs(seen.read_as("values"), LAYER, HEAD, 0.5))
    assert (high_count(page), high_count(page, ".pinned")) == (cosine, values)
    page.wait_for_selector(".pinned dl.numbers dd:last-child:not(:has-text('–'))")
    shown = page.locator(".pinned dl.numbers dd").all_inner_texts()[-1]
    assert int(shown.replace(",", "")) == seen.read_as("values").heads(LAYER).high_pairs[HEAD]
    # The address brings both back.
    other = Tab(browser)
    again = other.open(tab.settled_address())
    again.wait_for_selector(".panel.pinned[data-reading=values]")
    assert (high_count(again), high_count(again, ".pinned")) == (cosine, values)
    assert again.is_checked("input[value=cosine]")
    other.close()


@pytest.mark.long
def test_back_and_forward_go_from_reading_to_reading(tab: Tab, address: str) -> None:
    page = tab.open(address)
    tab.settled_address()
    for reading in ("cosine", "centred"):
        read_by(page, reading)
        tab.settled_address()
    for step, reading in ((page.go_back, "cosine"), (page.go_back, "dot"), (page.go_forward, "cosine")):
        step()
        page.wait_for_selector(f"{SHOWN}[data-reading='{reading}']")
        page.wait_for_selector(f".text-page[data-reading='{reading}']:not([aria-busy])")
        assert page.is_checked(f"input[value='{reading}']")
    page.keyboard.press("r")
    page.wait_for_selector(f"{SHOWN}[data-reading='centred']")
    page.click("[data-layer='2'][data-head='5']")
    page.wait_for_selector(f"{SHOWN}[data-head='2.5'][data-reading='centred']")


@pytest.mark.parametrize("reading", ["evil", "", "%3Cb%3E", "dot.cosine"])
@pytest.mark.long
def test_an_address_with_another_reading_shows_the_main_one(tab: Tab, address: str, reading: str) -> None:
    page = tab.open(f"{address}#reading={reading}&pin=t{'0' * 20}.1.1.{reading}")
    assert page.get_attribute(SHOWN, "data-reading") == "dot"
    assert page.is_checked("input[value=dot]")
    tab.troubles = [each for each in tab.troubles if "404" not in each]  # there is no such text to be pinned


@pytest.mark.parametrize("reading", ["cosine", "dot"])
@pytest.mark.long
def test_top_pairs_are_as_many_in_every_reading(tab: Tab, address: str, seen: Inspection, reading: str) -> None:
    page = tab.open(address)
    if reading != "dot":
        read_by(page, reading)
    page.check("[data-key=top]")
    tab.settle()
    top = tops(seen.read_as(reading), LAYER, HEAD)
    assert high_count(page) == len(top)
    assert len(top) == pytest.approx(len(seen.relations) / 16, rel=0.35)
    for tau in (2, 18):  # whatever τ is
        tab.set_slider(0, tau)
        assert high_count(page) == len(top)
    busiest = Counter(k for pair in top for k in pair).most_common(1)[0][0]
    page.hover(f".token[data-place='{busiest}']")
    tab.settle()
    assert classed(page, "high") == {i + j - busiest for i, j in top if busiest in (i, j)}
    rows = seen.read_as(reading).heads(LAYER, top=True).iloc[HEAD]
    scores = scores_of(page)
    assert int(scores["high pairs"].replace(",", "")) == len(top)
    assert float(scores["reach of similar pairs"]) == pytest.approx(rows.reach, abs=0.0051)
    assert page.inner_text(".focal-name") == rows.focal_token
    assert "top=1" in tab.settled_address()
    page.keyboard.press("t")
    tab.settle()
    assert high_count(page) == len(highs(seen.read_as(reading), LAYER, HEAD, 0.9))


@pytest.mark.long
def test_a_text_without_value_vectors_does_not_offer_them(browser: Any, tiny: Any) -> None:
    model = tiny("t5")
    desk = Desk(lambda: model, defaults={"stack": "cross", "readings": ["centred"]})
    desk.inspect("The cat saw the dog. The dog saw the cat.")
    with served(desk) as server:
        tab = Tab(browser)
        page = tab.open(server.address)
        assert page.locator(".controls label:visible:has-text('values')").count() == 0
        assert page.locator(".controls label:visible:has-text('cosine')").count() == 1
        assert page.get_attribute(SHOWN, "data-reading") == "centred"  # the main reading comes first
        tab.close()


@pytest.mark.long
def test_the_saved_file_is_in_the_reading_that_is_shown(
    tab: Tab, address: str, seen: Inspection, tmp_path: Path
) -> None:
    page = tab.open(address)
    read_by(page, "centred")
    file = tmp_path / "inspection.nc"
    file.write_bytes(saved(page, "nc"))
    with xr.open_dataset(file, engine="h5netcdf") as data:
        assert data.attrs["reading"] == "centred"
        assert (data.similarity.values == seen.read_as("centred").similarity.values).all()
        assert (data["values"].values == seen.values.values).all()


@pytest.mark.long
def test_one_file_holds_the_readings_it_was_asked_for(browser: Any, embedded: headscope.Model, tmp_path: Path) -> None:
    seen = embedded.inspect("The ferryman knew the river. The river knew the ferryman.", layers=[7, 8])
    sizes = []
    for readings, wanted in ((None, ["dot", "cosine"]), ("values", ["values"]), (list(READINGS), list(READINGS))):
        file = seen.view_html(tmp_path / "view.html", 8, 0, readings=readings)
        sizes.append(file.stat().st_size)
        tab = Tab(browser, offline=True)
        page = tab.open(file.as_uri())
        offered = page.eval_on_selector_all(
            ".controls label input[type=radio]", "all => all.filter(e => e.offsetParent).map(e => e.value)"
        )
        assert [name for name in offered if name in READINGS] == wanted
        for reading in wanted[::-1]:
            if len(wanted) > 1:
                read_by(page, reading)
            assert high_count(page) == len(highs(seen.read_as(reading), 8, 0, 0.5))
        assert tab.requests == [file.as_uri()]
        tab.close()
    assert sizes[1] < sizes[0] < sizes[2]
    with pytest.raises(headscope.HeadscopeError, match="use some of dot"):
        seen.view_html(tmp_path / "other.html", readings="L2")
    assert not (tmp_path / "other.html").exists()
