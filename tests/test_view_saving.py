"""A page as one file, saved while the server runs."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import httpx
import pytest

import headscope
from headscope.view.desk import Desk
from headscope.view.run_data import RunData
from serving import SHORT, Place, said, serving
from viewing import Tab, highs, served

UNKNOWN = "t" + "0" * 20


def fetched(client: httpx.Client, asked: dict[str, Any]) -> httpx.Response:
    """Ask for a file and wait until it is written."""
    state = client.post("/api/files", json=asked).json()
    until = time.monotonic() + 600
    while time.monotonic() < until:
        if state["ready"]:
            return client.get(f"/api/files/{state['name']}/view.html")
        time.sleep(0.1)
        state = client.get(f"/api/files/{state['name']}").json()
        assert state["done"] <= state["of"]
    pytest.fail("the file is never ready")


def test_a_view_is_saved_and_opens_without_the_server(browser: Any, embedded: headscope.Model, tmp_path: Path) -> None:
    desk = Desk(lambda: embedded, defaults={"layers": [7, 8]})
    desk.inspect("Another text, which does not go along.")
    desk.inspect(SHORT)
    with served(desk) as server:
        tab = Tab(browser)
        page = tab.open(f"{server.address}#id={desk.about()['texts'][-1]}&layer=8&head=0&reading=cosine&tau=0.4&mask=1")
        page.click(".menu summary")
        with page.expect_download() as waiting:
            page.click("[data-save=html]")
        waiting.value.save_as(tmp_path / "view.html")
        page.wait_for_selector(".telling:has-text('The file is written')")
        tab.close()
    seen = embedded.inspect(SHORT, readings="cosine")
    file = tmp_path / "view.html"
    assert "does not go along" not in file.read_text()
    tab = Tab(browser, offline=True)
    page = tab.open(file.as_uri())
    assert page.get_attribute(".panel", "data-head") == "8.0"
    assert int(page.get_attribute(".high-count", "data-high")) == len(highs(seen, 8, 0, 0.4))
    assert page.is_checked("[data-key=mask]")
    assert page.locator(".tile").count() == 24
    assert page.locator("[data-save=html], [data-save=phone], [data-save=nc]").count() == 0
    assert tab.requests == [file.as_uri()]
    tab.close()


def test_what_cannot_be_saved_is_said(place: Place) -> None:
    with place.client() as client:
        own = client.post("/api/texts", json={"text": SHORT}).json()["id"]
        gone = client.post("/api/files", json={"texts": [UNKNOWN]})
        assert (gone.status_code, client.post("/api/files", json={"run": True}).status_code) == (404, 404)
        assert "not in memory" in said(gone)
        assert client.post("/api/files", json={"texts": [own] * 3}).status_code == 422
        assert client.post("/api/files", json={"address": "x" * 50_000}).status_code == 422
        assert client.get("/api/files/0123456789abcdef").status_code == 404
        first = client.post("/api/files", json={"texts": [own], "readings": ["dot"]}).json()
        early = client.get(f"/api/files/{first['name']}/view.html")
        busy = client.post("/api/files", json={"texts": [own]})
        assert "not written yet" in said(early)
        assert "another file" in said(busy)  # one is written at a time
        for _ in range(600):
            if client.get(f"/api/files/{first['name']}").json()["ready"]:
                break
            time.sleep(0.1)
        assert client.get(f"/api/files/{first['name']}/view.html").text.startswith("<!doctype html>")
        assert client.get(f"/api/files/{first['name']}/view.html").status_code == 404  # it goes when it is fetched


@pytest.mark.long
def test_a_run_is_saved(browser: Any, view_run: Path, tmp_path: Path) -> None:
    with serving(Desk(run_data=RunData(headscope.Result.open(view_run)))) as place, place.client() as client:
        file = tmp_path / "run.html"
        file.write_bytes(fetched(client, {"run": True, "address": "page=run&rlayer=6&rhead=2"}).content)
    tab = Tab(browser, offline=True)
    tab.open(file.as_uri(), ".run-page[data-findings]").wait_for_selector(".head-detail[data-head='6.2']")
    tab.close()
