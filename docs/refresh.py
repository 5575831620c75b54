"""Write what pages show of the code: the commands' output on every page, with --images the pictures.

Running it must leave nothing to commit: the tests compare.
"""

from __future__ import annotations

import argparse
import io
import os
import re
import shlex
import sys
from contextlib import chdir, redirect_stdout
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import headscope
from headscope.cli import main
from headscope.texts import example_passage

HERE = Path(__file__).parent


def refresh_console(page: Path) -> None:
    """Run every command that a page shows and put what it prints below it."""

    def printed(match: re.Match[str]) -> str:
        command = match[1].partition("\n")[0]
        out = io.StringIO()
        with redirect_stdout(out), TemporaryDirectory() as folder, chdir(folder):
            main(shlex.split(command)[2:])
        lines = "".join(f"{line.rstrip()}\n" for line in out.getvalue().splitlines())
        return f"```console\n{command}\n{lines}```"

    text = page.read_text(encoding="utf-8")
    page.write_text(re.sub(r"```console\n(.*?)```", printed, text, flags=re.DOTALL), encoding="utf-8")


def images() -> None:
    """The pictures of the README and the tutorial."""
    model = headscope.load()
    passage = example_passage()
    text = "The ferryman knew the river. The river knew the ferryman, and the children feared the river."
    short = model.inspect(text)
    pictures = {
        "grid": (model.inspect(passage["text"]).plot_grid(), 75),
        "similarity": (short.plot_similarity(8, 0, theta=0.7), 90),
    }
    for name, (figure, dpi) in pictures.items():
        figure.savefig(HERE / "images" / f"{name}.png", dpi=dpi)


def screenshots() -> None:
    """The viewer as it looks: a text on a desktop, in the dark and on a phone, and a run."""
    sys.path.insert(0, str(HERE.parent / "tests"))
    from browser import chromium
    from headscope.view.desk import Desk
    from headscope.view.run_data import RunData
    from viewing import Tab, served

    model = headscope.load()
    rows = [{"id": p["id"], "text": p["text"], "group": p["group"]} for p in headscope.passages()]
    text = next(p["text"] for p in headscope.passages() if p["id"] == "law-2")
    with TemporaryDirectory() as folder, chdir(folder), chromium() as browser:
        run = headscope.analyze(
            model, rows, out="run", per_text=True, shard_size=2, progress=False, group_field="group"
        )
        desk = Desk(lambda: model, RunData(run), state={"layer": 4, "head": 1})
        desk.inspect(text)
        at = desk.texts()[0].labels.index("dog")
        looks: list[tuple[str, str, dict[str, Any]]] = [
            ("viewer", f"token={at}", {"height": 760}),
            ("viewer-dark", "layer=6&head=0&show=similarity&mask=1", {"height": 760, "color_scheme": "dark"}),
            ("viewer-phone", f"token={at}", {"width": 390, "height": 844, "is_mobile": True, "has_touch": True}),
            ("viewer-run", "page=run&rlayer=6&rhead=2", {"height": 1500}),
        ]
        with served(desk) as server:
            for name, state, options in looks:
                tab = Tab(browser, **options)
                of_run = ".run-page[data-findings]:has(.examples[data-marked])"
                ready = of_run if "run" in state else ".text-page[data-ready]:not([aria-busy])"
                page = tab.open(f"{server.address}#{state}", ready)
                tab.settle()
                page.wait_for_timeout(300)
                page.screenshot(path=HERE / "images" / f"{name}.png")
                tab.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--images", action="store_true")
    if parser.parse_args().images:
        images()
        screenshots()
    os.environ["COLUMNS"] = "100"  # the width that tables wrap to
    for page in HERE.glob("*.md"):
        refresh_console(page)
