"""For tests of the viewer: a real server in a thread, a real page, and what Python says should be on it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import naive
from headscope.inspection import Inspection
from headscope.view.desk import Desk
from headscope.view.server import Server

LAYER, HEAD = 7, 3  # what the page begins with
HOSTILE = (
    'A <script>document.title="taken"</script> came. "><img src=x onerror=alert(1)> &amp; {{7*7}} '
    "javascript:alert(2) \u202eevil\u202c. שלום עולם. `${alert(3)}` </textarea></style>"
)


@contextmanager
def served(desk: Desk, *, host: str = "127.0.0.1", **limits: float) -> Iterator[Server]:
    """The server, listening; it is stopped at the end."""
    server = Server(desk, limits=limits, host=host)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.stop()
        thread.join(20)
        assert not thread.is_alive(), "the server does not end"


class Tab:
    """A page with the viewer in it, and everything that went wrong on it."""

    def __init__(self, browser: Any, *, width: int = 1280, height: int = 850, **options: Any) -> None:
        self.context = browser.new_context(
            viewport={"width": width, "height": height}, accept_downloads=True, **options
        )
        self.page = self.context.new_page()
        self.page.set_default_timeout(45_000)  # machines may be busy
        self.troubles: list[str] = []
        self.requests: list[str] = []
        self.page.on("console", lambda m: self.troubles.append(m.text) if m.type in ("error", "warning") else None)
        self.page.on("pageerror", lambda error: self.troubles.append(str(error)))
        self.page.on("dialog", lambda dialog: (self.troubles.append("a dialog"), dialog.dismiss()))
        self.page.on("request", lambda request: self.requests.append(request.url))

    def open(self, address: str, ready: str = ".text-page[data-ready]:not([aria-busy])") -> Any:
        self.page.goto(address)
        self.page.wait_for_selector(ready)
        return self.page

    def look_at(self, text: str) -> None:
        """Type a text and wait until it is shown with its atlas."""
        before = self.page.get_attribute(".text-page", "data-ready")
        self.page.fill("textarea", text)
        self.page.click("button.primary")
        self.page.wait_for_selector(f".text-page[data-ready]:not([data-ready='{before}']):not([aria-busy])")

    def set_slider(self, which: int, value: float) -> None:
        """Move a slider as a hand would: one event of input."""
        self.page.locator("main input[type=range]").nth(which).evaluate(
            "(e, v) => { e.value = v; e.dispatchEvent(new Event('input', {bubbles: true})) }", str(value)
        )
        self.settle()

    def settle(self) -> None:
        """Two frames: what was asked for has been drawn."""
        self.page.evaluate("() => new Promise(r => requestAnimationFrame(() => requestAnimationFrame(r)))")

    def settled_address(self) -> str:
        """The address once it says what is shown; it is written when the state has rested for 150 ms."""
        self.settle()
        self.page.wait_for_timeout(150)
        before = ""
        while before != self.page.url:
            before = self.page.url
            self.page.wait_for_timeout(250)
        return before

    def close(self) -> None:
        self.context.close()
        assert not self.troubles, self.troubles


def highs(seen: Inspection, layer: int, head: int, tau: float) -> set[tuple[int, int]]:
    """The pairs that are high, by the second implementation."""
    places = naive.pairs(seen.counting.tolist())
    rank = seen.choices.scale == "rank"
    level = naive.levels(seen.similarity_matrix(layer, head).astype(float), places, rank=rank)
    assert level is not None
    return {place for place, x in zip(places, level, strict=True) if naive.bin_of(x) >= round(20 * tau) + 1}


def classed(page: Any, name: str) -> set[int]:
    """The tokens of the first panel that have a class."""
    found = page.eval_on_selector_all(f".panel:not(.pinned) .token.{name}", "all => all.map(e => +e.dataset.place)")
    return set(found)


def cell_point(page: Any, size: int, i: int, j: int) -> tuple[float, float]:
    picture = page.locator(".panel:not(.pinned) canvas.picture")
    box, margin = picture.bounding_box(), float(picture.get_attribute("data-margin"))
    cell = (box["width"] - margin) / size
    return box["x"] + margin + (j + 0.5) * cell, box["y"] + margin + (i + 0.5) * cell


def order_of(page: Any) -> list[tuple[int, int]]:
    return [tuple(each) for each in page.eval_on_selector_all(
        ".atlas .tile", "all => all.map(e => [+e.dataset.layer, +e.dataset.head])")]  # fmt: skip


def saved(page: Any, kind: str) -> bytes:
    page.click(".menu summary")
    with page.expect_download() as waiting:
        page.click(f"[data-save={kind}]")
    return Path(waiting.value.path()).read_bytes()
