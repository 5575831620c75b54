"""headscope segment, as a person calls it."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest

import headscope
from headscope.cli import main

TEXT = " ".join(each["text"] for each in headscope.passages() if each["id"] in ("law-1", "news-4"))


@pytest.fixture
def file(tmp_path: Path) -> str:
    (tmp_path / "text.txt").write_text(TEXT, encoding="utf-8")
    return str(tmp_path / "text.txt")


def test_a_text_is_printed_with_rules(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["segment", file]) == 0
    out = capsys.readouterr().out
    rules = [line for line in out.splitlines() if line.startswith("────")]
    assert len(rules) == 1
    assert " · layer.head " in rules[0]
    assert "".join(line for line in out.splitlines() if not line.startswith("────")).split() != []
    assert main(["segment", file, "--segments", "1"]) == 0
    assert capsys.readouterr().out.split() == TEXT.split()


def test_lines_of_json(file: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out.jsonl"
    assert main(["segment", file, "--out", str(out), "--max-tokens", "40"]) == 0
    assert "segments to" in capsys.readouterr().out
    rows = [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()]
    assert len(rows) > 3
    for row in rows:
        assert row["text"] == TEXT[slice(*row["span"])]
        assert set(row) == {"text", "span", "sentences", "strength", "why"}
    assert main(["segment", file, "--format", "jsonl"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 2


def test_a_page(file: str, tmp_path: Path) -> None:
    assert main(["segment", file, "--out", str(tmp_path / "a" / "page.html")]) == 0
    assert "<html" in (tmp_path / "a" / "page.html").read_text(encoding="utf-8")


def test_standard_input(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    class Input:
        buffer = io.BytesIO(b"we came home late it was dark")

        def isatty(self) -> bool:
            return False

    monkeypatch.setattr("sys.stdin", Input())
    assert main(["segment", "--grain", "sentences"]) == 0
    assert "we came home late" in capsys.readouterr().out


def test_terminal_codes_in_a_text_are_not_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.txt").write_text("It rains \u202e today. It pours.", encoding="utf-8")
    assert main(["segment", str(tmp_path / "a.txt")]) == 0
    assert "\u202e" not in capsys.readouterr().out


def test_an_empty_file_gives_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.txt").write_text("")
    assert main(["segment", str(tmp_path / "a.txt")]) == 0
    said = capsys.readouterr()
    assert (said.out, said.err) == ("", "headscope: there is no text to cut\n")


@pytest.mark.parametrize(
    ("more", "problem"),
    [
        (["--segments", "0"], "segments=0"),
        (["--segments", "2", "--max-tokens", "50"], "both given"),
        (["--format", "html"], "HTML is written to a file"),
        (["--format", "html", "--out", "a.txt"], "not named like a web page"),
        (["--out", "a.pdf"], "does not tell what to write"),
        (["--heads", "missing.json"], "there is no file 'missing.json'"),
        (["--fit", "passages:"], "--fit needs a file"),
        (["--fit", "passages:", "--heads", "a.json"], "--fit does not cut a text"),
    ],
)
def test_what_cannot_be(file: str, more: list[str], problem: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["segment", file, *more]) == 2
    assert problem in capsys.readouterr().err


def test_a_file_that_is_not_there_or_no_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.bin").write_bytes(b"\xff\xfe\x00")
    for name, problem in (("none.txt", "there is no file"), ("a.bin", "is not UTF-8")):
        assert main(["segment", str(tmp_path / name)]) == 2
        assert problem in capsys.readouterr().err


@pytest.mark.long
def test_learning_on_the_command_line(tmp_path: Path, file: str, capsys: Any) -> None:
    heads = str(tmp_path / "heads.json")
    assert main(["segment", "--fit", "passages:", "--heads", heads]) == 0
    assert "of 144 heads tell topics apart" in capsys.readouterr().out
    assert main(["segment", file, "--heads", heads]) == 0
