"""A run in the viewer, in a real Chromium: findings at every threshold, heads and texts held against Python."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest

import headscope
from viewing import Tab, order_of


def test_findings_of_a_run_at_every_threshold(tab: Tab, address: str, hostile_run: headscope.Result) -> None:
    page = tab.open(f"{address}#page=run", ".run-page[data-ready]")
    found = hostile_run.findings()

    def told() -> dict[str, tuple[str, float]]:
        rows = page.eval_on_selector_all(
            ".findings tr[data-claim]", "all => all.map(e => [e.dataset.claim, e.dataset.verdict, +e.dataset.value])"
        )
        return {key: (verdict, value) for key, verdict, value in rows}

    assert {key: verdict for key, (verdict, _) in told().items()} == {f.key: f.verdict for f in found}
    assert {key: value for key, (_, value) in told().items()} == pytest.approx({f.key: f.value for f in found})
    swept = hostile_run.sensitivity()
    for which, over, step, threshold in ((0, "tau", 6, 0.3), (1, "theta", 0.6, 0.6)):
        tab.set_slider(which, step)
        now = told()
        for key in swept.claim.values[swept.over.values == over]:
            one = swept.sel(claim=key).sel(threshold=threshold, method="nearest")
            assert now[key] == (str(one.verdict.values), pytest.approx(float(one.value)))
    page.wait_for_selector(".run-page[data-ready='6']")


def test_the_atlas_of_a_run_its_curves_and_its_texts(tab: Tab, address: str, hostile_run: headscope.Result) -> None:
    page = tab.open(f"{address}#page=run&rscore=repetition_preference", ".run-page[data-ready]")
    values = hostile_run.quantity("repetition_preference", by="head").value.values
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
    shares = hostile_run.distance_distribution(by="head").value.values[best[0], best[1]]
    first = re.match(r"distance 1(?: to (\d+))?: ([\d.]+) %", bars[0])
    assert first is not None
    assert float(first.group(2)) == pytest.approx(100 * shares[: int(first.group(1) or 1)].sum(), abs=0.051)
    texts = hostile_run.examples(int(best[0]), int(best[1]), "repetition_share", 5)
    assert page.locator(".example").count() == len(texts)
    page.locator(".example button").first.click()
    page.wait_for_selector(".text-page[data-ready]:not([aria-busy])")
    assert page.input_value("textarea").replace("\r", "") == texts.text[0]
    page.wait_for_selector(f".panel[data-head='{best[0]}.{best[1]}']")
    assert page.get_attribute("[role=tab][data-page=text]", "aria-selected") == "true"
