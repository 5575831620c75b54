"""Write what is made from the code: reference.md, the commands' output on every page, with --images the pictures.

Running it must leave nothing to commit: the tests compare.
"""

from __future__ import annotations

import argparse
import inspect
import io
import math
import os
import re
import shlex
import sys
from contextlib import chdir, redirect_stdout, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import headscope
from headscope.choices import described
from headscope.cli import main
from headscope.cli.parser import build_parser
from headscope.findings import Check, Finding, Findings
from headscope.inspection import FocalToken, Inspection
from headscope.measures.quantities import QUANTITIES
from headscope.measures.variables import VARIABLES
from headscope.report import write_report
from headscope.segmentation import HeadWeights, fit
from headscope.tap import LayerHeads, tap
from headscope.texts import example_passage, open_texts

HERE = Path(__file__).parent
SECTIONS: list[tuple[str, list[tuple[str, Any]]]] = [
    ("Loading", [("headscope.load", headscope.load), ("headscope.convert", headscope.convert)]),
    ("The model", [("headscope.Model", headscope.Model)]),
    ("One text", [("headscope.Inspection", Inspection), ("headscope.inspection.FocalToken", FocalToken)]),
    (
        "Many texts",
        [
            ("headscope.analyze", headscope.analyze),
            ("headscope.Result", headscope.Result),
            ("headscope.ResultBuilder", headscope.ResultBuilder),
            ("headscope.texts.open_texts", open_texts),
        ],
    ),
    (
        "Findings",
        [
            ("headscope.reproduce", headscope.reproduce),
            ("headscope.findings.Findings", Findings),
            ("headscope.findings.Finding", Finding),
            ("headscope.findings.Check", Check),
            ("headscope.report.write_report", write_report),
        ],
    ),
    (
        "Segments",
        [
            ("headscope.segment", headscope.segment),
            ("headscope.Segmenter", headscope.Segmenter),
            ("headscope.Segment", headscope.Segment),
            ("headscope.Splitter", headscope.Splitter),
            ("headscope.segmentation.fit", fit),
            ("headscope.segmentation.HeadWeights", HeadWeights),
        ],
    ),
    ("The tap", [("headscope.tap.tap", tap), ("headscope.tap.LayerHeads", LayerHeads)]),
    ("The rest", [("headscope.passages", headscope.passages), ("headscope.HeadscopeError", headscope.HeadscopeError)]),
]
COMMANDS = (
    "inspect",
    "view",
    "segment",
    "analyze",
    "merge",
    "findings",
    "figures",
    "report",
    "reproduce",
    "check",
    "convert",
    "demo",
)


def reference() -> str:
    """The reference as Markdown, from signatures and docstrings."""
    parts = ["# Reference\n\nMade from the docstrings by `python docs/build.py`; do not edit.\n"]
    for title, things in SECTIONS:
        parts.append(f"## {title}\n")
        for name, thing in things:
            parts.append(entry(name, thing, 3))
            if inspect.isclass(thing):
                parts += [entry(member, value, 4) for member, value in members(thing)]
    parts += [choices_table(), variables_table(), quantities_table()]
    parts.append("## Command line\n")
    parts += [f"### headscope {name}\n\n```text\n{help_of(name)}```\n" for name in COMMANDS]
    return "\n".join(parts)


def table(title: str, intro: str, heads: list[str], rows: list[list[str]]) -> str:
    lines = [f"## {title}\n", f"{intro}\n", " | ".join(["", *heads, ""]).strip(), "|---" * len(heads) + "|"]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows), ""])


def choices_table() -> str:
    rows = [
        [f"`{c.name}`", f"`{c.default!r}`", ", ".join(f"`{value!r}`" for value in c.allowed), c.help,
         "text, run" if c.of_text else "run"]
        for c in described()
    ]  # fmt: skip
    intro = "What the method leaves open: keyword arguments of `model.inspect` (text) and of `headscope.analyze` (run)."
    return table("Choices", intro, ["name", "usual", "allowed", "what it is", "of"], rows)


def variables_table() -> str:
    rows = [[f"`{v.name}`", ", ".join(v.dims) or "–", v.kind, v.kept, v.meaning] for v in VARIABLES.values()]
    intro = (
        "What a result holds: `result.dataset` in all, `result.by_block` for each block of texts, and "
        "`result.by_group` for each group what takes too much room for that (and `pairs` by distance, of which blocks "
        "have bands). "
        "`headscope.measures.variables.declare` adds one of your own."
    )
    return table("Variables", intro, ["name", "dimensions", "kind", "kept for each", "what it is"], rows)


def quantities_table() -> str:
    rows = [
        [f"`{q.name}`", q.label, q.meaning.replace("|", "\\|"), "–" if math.isnan(q.none) else f"{q.none:g}",
         ", ".join(sorted(q.shown)) or "–"]
        for q in QUANTITIES.values()
    ]  # fmt: skip
    intro = (
        "What is derived (`result.quantity`). `headscope.measures.quantities.declare` adds one of your own, which is "
        "then shown wherever it says."
    )
    return table("Quantities", intro, ["name", "label", "what it is", "no effect", "shown in"], rows)


def members(cls: type) -> list[tuple[str, Any]]:
    # What stands in shortcuts.py is a part of the class that people see; what other libraries' bases have is not.
    bases = [each for each in reversed(cls.__mro__) if each.__module__.startswith("headscope")]
    own = [(name, value) for each in bases for name, value in vars(each).items() if not name.startswith("_")]
    own = [(name, getattr(cls, name) if isinstance(value, classmethod) else value) for name, value in dict(own).items()]
    described = [(name, value) for name, value in own if inspect.getdoc(getattr(value, "func", value))]
    return [(name, value) for name, value in described if callable(value) or is_property(value)]


def is_property(value: Any) -> bool:
    return isinstance(value, property) or hasattr(value, "func")


def entry(name: str, thing: Any, depth: int) -> str:
    function = getattr(thing, "fget", None) or getattr(thing, "func", None)
    if function is not None:
        signature = f" → {inspect.signature(function).return_annotation}"
    else:
        signature = str(inspect.signature(thing)).replace("(self, ", "(").replace("(self)", "()").replace(" -> ", " → ")
        signature = signature.replace("'", "") if thing is not headscope.HeadscopeError else signature
    doc = inspect.getdoc(function or thing) or ""
    prose, _, example = doc.partition("\n>>> ")
    code = f"\n```python\n>>> {example}\n```\n" if example else ""
    return f"{'#' * depth} `{name}`\n\n`{name.rpartition('.')[2]}{signature}`\n\n{prose.strip()}\n{code}"


def help_of(command: str) -> str:
    out = io.StringIO()
    with redirect_stdout(out):
        os.environ["COLUMNS"] = "100"  # the width that argparse wraps to
        with suppress(SystemExit):
            build_parser().parse_args([command, "--help"])
    return out.getvalue()


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
        "attention": (short.plot_attention(8, 0), 90),
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
                of_run = ".run-page[data-findings]:has(.example)"
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
    (HERE / "reference.md").write_text(reference(), encoding="utf-8")
    for page in (HERE.parent / "README.md", *HERE.glob("*.md")):
        refresh_console(page)
