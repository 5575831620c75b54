"""headscope reproduce, and the same in Python: runs, control runs, findings, figures and the report in one go."""

from __future__ import annotations

import base64
import json
import re
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import headscope
from folders import make_folder
from headscope.cli import main
from headscope.errors import HeadscopeError
from headscope.figures.catalog import FIGURES
from headscope.report import reproduce, writing


@pytest.mark.long
@pytest.mark.parametrize("again", [False, pytest.param(True, marks=pytest.mark.long)], ids=["once", "twice"])
def test_reproduce(tmp_path: Path, capsys: pytest.CaptureFixture[str], again: bool) -> None:
    folder = make_folder("roberta", tmp_path / "model")
    texts = tmp_path / "texts.jsonl"
    rows = [{"id": p["id"], "text": p["text"]} for p in headscope.passages()[:16]]
    texts.write_text("".join(json.dumps(row) + "\n" for row in rows))
    told = ["reproduce", "--texts", str(texts), "--model", str(folder), "--out", str(tmp_path / "out"),
            "--control-texts", "8", "--window", "48", "--limit", "12"]  # fmt: skip
    assert main(told) == 0
    printed, said = capsys.readouterr()
    assert "the paper" in printed
    assert "9 to 10" in printed
    assert "untrained" in printed
    assert str(tmp_path / "out" / "report.html") in printed.replace("\n", "")
    assert "control 2 of 4: permuted weights, seed 1 (the first 8 texts)" in said
    assert "control 4 of 4: rotated sentences" in said
    found = json.loads((tmp_path / "out" / "findings.json").read_text())
    assert found["windows"] == 12
    kinds = [run["kind"] for f in found["findings"] if f["key"] == "4" for run in f["runs"]]
    assert sorted(kinds) == ["permuted", "permuted", "rotated", "untrained"]
    assert len(found["about"]["controls"]) == 4
    for control in ("permuted-0", "permuted-1", "untrained-0", "rotated"):
        made = headscope.Result.open(tmp_path / "out" / f"control-{control}")
        assert made.texts["texts"] == 8
        assert made.settings["control"].replace(":", "-") == control
    assert len(list((tmp_path / "out" / "figures").glob("*.svg"))) >= len(FIGURES)
    if again:  # nothing is computed twice
        assert main([*told, "--json", "--quiet"]) == 0
        assert json.loads(capsys.readouterr().out)["windows"] == 12


def test_reproduce_saves_figures_as_they_are_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The report's figures stay those of a screen."""
    from headscope.report import reproduction

    monkeypatch.setattr(reproduction, "draw_all", partial(writing.draw_all, only=["findings"]))
    file = tmp_path / "texts.jsonl"
    file.write_text("".join(json.dumps({"text": p["text"]}) + "\n" for p in headscope.passages()[:4]))
    asked = ["reproduce", "--texts", str(file), "--out", str(tmp_path / "out"), "--controls", "--window", "16"]
    model = make_folder("gpt2", tmp_path / "model")
    assert main([*asked, "--model", str(model), "--width", "column", "--no-title", "--quiet"]) == 0
    saved = (tmp_path / "out" / "figures" / "findings.svg").read_text()
    assert float(re.search(r'width="([\d.]+)pt"', saved)[1]) == 252  # 3.5 inches
    assert "1a Final layers" in saved
    assert "What the paper says, and what was measured" not in saved
    page = (tmp_path / "out" / "report.html").read_text()
    (shown,) = re.findall(r"data:image/svg\+xml;base64,([A-Za-z0-9+/=]+)", page)
    assert float(re.search(r'width="([\d.]+)pt"', base64.b64decode(shown).decode())[1]) > 600
    assert main([*asked, "--width", "1"]) == 2  # before any work


def test_reproduce_refuses_a_stream(tmp_path: Path) -> None:
    with pytest.raises(HeadscopeError, match="read only once"):
        reproduce(None, iter(["a text"]), tmp_path / "out")


def test_reproduce_goes_on_where_it_was_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The run and one control are there; the second control stops; the same call finishes without doing them again."""
    from headscope.report import reproduction

    folder, said = make_folder("gpt2", tmp_path / "model"), []
    texts = [p["text"] for p in headscope.passages()[:10]]
    options: dict[str, Any] = {"controls": ["rotated", "permuted:3"], "window": 32, "formats": (), "progress": False}
    monkeypatch.setattr(reproduction, "draw_all", lambda *args, **more: [])
    analyze, begun = reproduction.analyze, []

    def stopping(model: headscope.Model, *args: Any, **more: Any) -> headscope.Result:
        begun.append(model.name)
        if len(begun) == 3:
            raise KeyboardInterrupt
        return analyze(model, *args, **more)

    monkeypatch.setattr(reproduction, "analyze", stopping)
    with pytest.raises(KeyboardInterrupt):
        reproduce(folder, texts, tmp_path / "out", **options)
    before = {file: file.stat().st_mtime_ns for file in (tmp_path / "out").rglob("result.nc")}
    assert sorted(file.parent.name for file in before) == ["control-rotated", "run"]
    done = reproduce(folder, texts, tmp_path / "out", tell=said.append, **options)
    assert [each.settings["control"] for each in done.controls] == ["rotated", "permuted:3"]
    assert all(file.stat().st_mtime_ns == when for file, when in before.items())
    assert "control 2 of 2: permuted weights, seed 3 (the first 1,000 texts)" in said
