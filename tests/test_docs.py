"""The documentation is true: printed output is what the commands print, generated parts are up to date."""

from __future__ import annotations

import importlib.util
import re
import shlex
from pathlib import Path

import pytest

from headscope.cli import main

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
CONSOLE = re.compile(r"```console\n(.*?)```", re.DOTALL)


def console_blocks() -> list[tuple[str, str, str]]:
    """(page, command, printed output) of every block that begins with `$ headscope`."""
    found = []
    for page in PAGES:
        for block in CONSOLE.findall(page.read_text(encoding="utf-8")):
            command, _, output = block.partition("\n")
            found.append((page.name, command, output))
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


def test_the_readme_shows_commands() -> None:
    assert sum(page == "README.md" for page, _, _ in console_blocks()) >= 2


def test_the_reference_is_up_to_date() -> None:
    spec = importlib.util.spec_from_file_location("build", ROOT / "docs" / "build.py")
    assert spec is not None
    assert spec.loader is not None
    build = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(build)
    assert (ROOT / "docs" / "reference.md").read_text(encoding="utf-8") == build.reference(), "run: make docs"


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text(encoding="utf-8")):
        if not target.startswith("http"):
            assert (page.parent / target).exists(), target


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
