"""A real Chromium for tests: Debian's, or whichever Playwright has."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

QUIET = ("--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
         "--disable-component-update", "--disable-sync")  # fmt: skip


@contextmanager
def chromium() -> Iterator[Any]:
    """A browser that is closed again; Playwright's own where the system has none."""
    from playwright.sync_api import sync_playwright

    path = os.environ.get("HEADSCOPE_CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
    arguments = [*QUIET, *(["--no-sandbox"] if os.geteuid() == 0 else [])]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=arguments)
        try:
            yield browser
        finally:
            browser.close()
