"""The documentation is true: printed output is what the commands print, links lead somewhere, examples run."""

from __future__ import annotations

import importlib
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import pytest

import headscope
from headscope.cli import main
from headscope.cli.parser import build_parser
from headscope.figures.catalog import FIGURES

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]
FILES = [*PAGES, ROOT / "CHANGELOG.md", ROOT / "CONTRIBUTING.md", ROOT / "training" / "README.md"]
GALLERY = sorted(DOCS.glob("examples/*/*.py"))
CONSOLE = re.compile(r"```console\n(.*?)```", re.DOTALL)
NAMED = re.compile(r"^\.\. auto(?:function|class|exception):: (\S+)", re.MULTILINE)


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def console_blocks() -> list[tuple[str, str, str]]:
    """(page, command, printed output) of every block that begins with `$ headscope`."""
    found = []
    for page in PAGES:
        for block in CONSOLE.findall(page.read_text(encoding="utf-8")):
            command, _, output = block.partition("\n")
            found.append((name_of(page), command, output))
    return found


def same_words(printed: str, documented: str) -> None:
    """Word by word; numbers may differ in the last place shown, which another CPU may round the other way."""
    one, other = printed.split(), documented.split()
    assert len(one) == len(other)
    for a, b in zip(one, other, strict=True):
        if re.fullmatch(r"-?\d+\.\d+", a) and re.fullmatch(r"-?\d+\.\d+", b):
            assert float(a) == pytest.approx(float(b), abs=0.011)
        elif re.fullmatch(r"\d\.\de-\d\d", a):
            assert re.fullmatch(r"\d\.\de[+-]\d\d", b)
        else:
            assert a == b


@pytest.mark.parametrize(("page", "command", "output"), console_blocks(), ids=lambda value: str(value)[:50])
def test_what_the_pages_print_is_what_the_commands_print(
    page: str, command: str, output: str, capsys: pytest.CaptureFixture[str], tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    assert command.startswith("$ headscope "), f"{page}: a console block must begin with a headscope command"
    monkeypatch.chdir(tmp_path)
    assert main(shlex.split(command)[2:]) == 0
    same_words(capsys.readouterr().out, output)


def test_pages_show_what_commands_print() -> None:
    assert len(console_blocks()) >= 3


# ---------------------------------------------------------------------- links


@pytest.mark.parametrize("file", FILES, ids=name_of)
def test_links_lead_somewhere(file: Path) -> None:
    """To files that are there, and to headings that are in them."""
    text = re.sub(r"```.*?```", "", file.read_text(encoding="utf-8"), flags=re.DOTALL)
    for target in re.findall(r'\]\(([^)\s]+)\)|\bsrc="([^"]+)"', text):
        path, _, anchor = "".join(target).partition("#")
        if re.match(r"\w+:", path):
            continue
        there = file.parent / path if path else file
        if there.parent == DOCS / "gallery":
            continue  # made with the site, and checked there
        assert there.exists(), target
        if anchor:
            assert anchor in anchors(there), target


def test_every_picture_is_shown_somewhere() -> None:
    shown = "\n".join(file.read_text(encoding="utf-8") for file in FILES)
    assert [path.name for path in (DOCS / "images").iterdir() if f"images/{path.name}" not in shown] == []


def anchors(file: Path) -> set[str]:
    """The anchors that GitHub and the site give to headings."""
    headings = re.findall(r"^#{1,4} (.*)$", file.read_text(encoding="utf-8"), re.MULTILINE)
    plain = [re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading) for heading in headings]
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in plain}


def test_every_page_is_in_a_table_of_contents() -> None:
    trees = "\n".join(block for page in PAGES for block in _trees(page))
    listed = set(trees.split("\n"))
    for page in PAGES[1:]:
        name = page.relative_to(DOCS).with_suffix("").as_posix()
        assert name in listed | {"index"}, f"{name} is in no toctree"


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_no_page_is_blank_where_the_site_is_not(page: Path) -> None:
    """On GitHub, a page that the site makes of another file says which."""
    assert re.search(r"\w", re.sub(r"```\{toctree\}.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL))


def _trees(page: Path) -> Iterator[str]:
    """The entries of a page's tables of contents, from the docs folder."""
    folder = page.parent.relative_to(DOCS).as_posix() if DOCS in page.parents else "."
    for block in re.findall(r"```\{toctree\}\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL):
        for line in block.splitlines():
            if line and not line.startswith(":"):
                entry = re.sub(r".*<(.*)>", r"\1", line)
                yield entry if folder == "." else f"{folder}/{entry}"


# ---------------------------------------------------------------------- the reference


def test_the_reference_has_all_that_is_public() -> None:
    pages = {page.name: page.read_text(encoding="utf-8") for page in (DOCS / "reference").glob("*.md")}
    documented = {name for text in pages.values() for name in NAMED.findall(text)}
    assert {f"headscope.{name}" for name in headscope.__all__} - {"headscope.__version__"} <= documented
    for name in documented:
        module, _, attribute = name.rpartition(".")
        assert getattr(importlib.import_module(module), attribute).__doc__
        assert f"   {name}\n" in pages["index.md"], f"{name} is not in the list at the top"
    commands = re.findall(r"^```\{command-help\} (\w+)$", pages["commands.md"], re.MULTILINE)
    (subparsers,) = [a for a in build_parser()._actions if a.dest == "command"]
    assert subparsers.choices is not None
    assert set(commands) == set(subparsers.choices)


# ---------------------------------------------------------------------- figures and the notebook


def test_the_gallery_has_every_figure() -> None:
    code = [path.read_text(encoding="utf-8") for path in GALLERY]
    drawn = {name for text in code for name in re.findall(r'result\.figure\("([\w-]+)"', text)}
    assert drawn == set(FIGURES)
    assert {plot for text in code for plot in re.findall(r"\.(plot\w*)\(", text)} == {
        "plot", "plot_attention", "plot_grid", "plot_head", "plot_similarity",
    }  # fmt: skip


def test_headings_of_the_gallery_are_underlined_as_far_as_they_reach() -> None:
    """One that is short is a warning, and a warning ends `make docs`."""
    for path in GALLERY:
        _, heading, line, *_ = path.read_text(encoding="utf-8").splitlines()
        assert line == "=" * len(heading), path.name


@pytest.mark.parametrize("script", [path for path in GALLERY if path.parent.name == "one_text"], ids=lambda p: p.stem)
def test_figures_of_one_text_are_drawn_by_their_code(script: Path) -> None:
    """Those of many texts take longer: the site runs them (below), and test_run_figures draws each."""
    made: dict[str, object] = {}
    exec(compile(script.read_text(encoding="utf-8"), script, "exec"), made)
    assert type(made["figure"]).__name__ == "Picture"


def test_the_notebook_runs_from_top_to_bottom() -> None:
    cells = re.findall(r"```\{code-cell\} ipython3\n(.*?)```", (DOCS / "notebook.md").read_text(), re.DOTALL)
    made: dict[str, object] = {}
    for number, cell in enumerate(cells):
        exec(compile(cell, f"cell {number}", "exec"), made)
    assert len(cells) > 5
    assert isinstance(made["result"], headscope.Result)


# ---------------------------------------------------------------------- the site


class Links(HTMLParser):
    """What a page of the site links to, what it loads, and what may be linked to in it."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.links: set[str] = set()
        self.loaded: set[str] = set()
        self.ids: set[str] = set()
        self.feed(page.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value for name, value in attrs if value}
        self.ids |= {given[name] for name in ("id", "name") if name in given}
        if tag == "a" and "href" in given:
            self.links.add(given["href"])
        for name in ("src", "href"):
            if tag in ("img", "script", "link", "iframe") and name in given and given.get("rel") != "canonical":
                self.loaded.add(given[name])


@pytest.mark.long
def test_the_site_is_built_without_a_warning_and_leads_nowhere_wrong(tmp_path: Path) -> None:
    shutil.rmtree(DOCS / "gallery", ignore_errors=True)  # as `make docs` does: nothing of an earlier build
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-b", "html", "-d", str(tmp_path / "trees")]
    done = subprocess.run(
        [*command, str(DOCS), str(tmp_path / "site")], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-5000:]
    site = (tmp_path / "site").resolve()
    pages = {page: Links(page) for page in site.rglob("*.html") if site / "_static" not in page.parents}
    for page, found in pages.items():
        for target in found.links | found.loaded:
            if re.match(r"https?:|mailto:", target):
                assert target in found.links, f"{page.name} loads {target}"  # nothing comes from a network
                continue
            if re.match(r"\w+:", target):
                continue
            path, _, anchor = unquote(target).partition("#")
            there = Path(os.path.normpath(page.parent / path.partition("?")[0])) if path else page
            assert there.exists(), f"{page.relative_to(site)}: {target}"
            if anchor and there in pages:
                assert anchor in pages[there].ids, f"{page.relative_to(site)}: {target}"
    text = re.sub(r"<[^>]+>", "", (site / "reference" / "models.html").read_text(encoding="utf-8"))
    assert "device: str = 'auto'" in text.replace("&#39;", "'")
    assert len(list((site / "_images").glob("sphx_glr_plot_*_001.png"))) == len(GALLERY)


def test_the_files_that_a_project_has() -> None:
    for name in (
        "LICENSE",
        "CHANGELOG.md",
        "CONTRIBUTING.md",
        "CITATION.cff",
        "constraints.txt",
        ".pre-commit-config.yaml",
    ):
        assert (ROOT / name).stat().st_size > 100
    assert "make test" in (ROOT / ".ci" / "run").read_text()
    assert re.search(r"^torch==2\.13\.0$", (ROOT / "constraints.txt").read_text(), re.MULTILINE)
