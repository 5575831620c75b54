"""A finished run that is asked again answers without loading anything; whatever has changed is noticed all the same."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import headscope
from folders import make_folder
from headscope.cli import main
from headscope.models.spec import ModelSpec
from headscope.runs.plan import WorkOptions
from headscope.runs.repeated import finished_result
from headscope.texts import open_texts

TEXTS = "The cat saw the dog. It ran.\nIt rains. It pours.\nThe lamp was lit again.\n"


@pytest.fixture
def case(tmp_path: Path) -> dict[str, Any]:
    """A model, texts, and the folder of their finished run."""
    model, texts, out = make_folder("gpt2", tmp_path / "model"), tmp_path / "texts.txt", tmp_path / "run"
    texts.write_text(TEXTS)
    assert main(["analyze", str(texts), "--model", str(model), "--out", str(out), "--quiet"]) == 0
    return {"model": model, "texts": texts, "out": out}


def again(case: dict[str, Any], spec: dict[str, Any] | None = None, **options: Any) -> headscope.Result | None:
    work = WorkOptions(**options.pop("work", {}))
    limits = {name: options.pop(name) for name in ("limit", "sample") if name in options}
    layers, choices = options.pop("layers", None), options.pop("choices", {})
    corpus = open_texts(case["texts"], **limits)
    made = ModelSpec(str(case["model"]), **spec or {})
    return finished_result(case["out"], made, corpus, choices, layers=layers, asked=work, **options)


def test_a_finished_run_needs_no_torch(case: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    told = ["analyze", str(case["texts"]), "--model", str(case["model"]), "--out", str(case["out"]), "--json"]
    code = (
        "import sys\nfrom headscope.cli import main\n"
        f"assert main({told!r}) == 0\nassert main({[*told, '--tau', '0.7']!r}) == 0\n"
        "heavy = {'torch', 'transformers', 'numba'} & set(sys.modules)\n"
        "sys.exit(f'imported {heavy}' if heavy else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    first, other = map(json.loads, done.stdout.splitlines())
    assert first["texts"]["texts"] == 3
    assert "the run is finished already" in done.stderr
    result = headscope.Result.open(case["out"])
    assert [
        row["high_pairs"] for row in first["stacks"]["decoder"]["layers"]
    ] == result.layer_summary().high_pairs.tolist()
    assert [row["high_pairs"] for row in other["stacks"]["decoder"]["layers"]] == result.layer_summary(
        0.7
    ).high_pairs.tolist()


def test_what_is_the_same_is_known(case: dict[str, Any]) -> None:
    for options in (
        {},
        {"choices": {"tau": 0.7, "window": None}},
        {"choices": {"window": 128}},
        {"work": {"threads": 1}},
    ):
        assert again(case, **options) is not None


@pytest.mark.parametrize(
    "options",
    [
        {"choices": {"window": 64}},
        {"choices": {"theta": 0.5}},
        {"choices": {"readings": ("cosine",)}},
        {"layers": [0]},
        {"limit": 2},
        {"sample": 3},
        {"work": {"per_text": True}},
        {"work": {"shard_size": 2}},
        {"spec": {"dtype": "bfloat16"}},
        {"spec": {"control": "permuted:0"}},
    ],
    ids=str,
)
def test_another_command_is_not_the_same(case: dict[str, Any], options: dict[str, Any]) -> None:
    assert again(case, **options) is None


def test_what_has_changed_is_noticed(case: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    case["texts"].write_text(TEXTS + "One more.\n")
    assert again(case) is None
    case["texts"].write_text(TEXTS)
    assert again(case) is not None
    weights = case["model"] / "model.safetensors"
    before = weights.stat()
    os.utime(weights, ns=(before.st_atime_ns, before.st_mtime_ns + 1))
    assert again(case) is None  # perhaps the same: `analyze` loads it, sees that it is, and writes that down
    told = ["analyze", str(case["texts"]), "--model", str(case["model"]), "--out", str(case["out"]), "--quiet"]
    assert main(told) == 0
    assert again(case) is not None
    result = case["out"] / "result.nc"
    content = result.read_bytes()
    result.write_bytes(content[:-1])
    assert again(case) is None
    result.write_bytes(content)
    (case["out"] / "run.json").write_text("{")
    assert again(case) is None
    assert finished_result(tmp_path / "none", ModelSpec(None), open_texts(["A."]), {}, asked=WorkOptions()) is None


def test_the_page_of_a_run_needs_no_torch(view_run: Path) -> None:
    code = (
        "import sys\nfrom headscope.result import Result\nfrom headscope.view.desk import Desk\n"
        "from headscope.view.run_data import RunData\nimport headscope.view.server, headscope.cli.view_texts\n"
        f"desk = Desk(lambda: None, RunData(Result.open({str(view_run)!r})))\n"
        "desk.answer('run')\ndesk.answer('run/heads/0/0')\n"
        "desk.answer('run/scores/reach/10')\n"
        "heavy = {'torch', 'transformers', 'numba'} & set(sys.modules)\n"
        "sys.exit(f'imported {heavy}' if heavy else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
