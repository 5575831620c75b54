"""headscope analyze, as a user types it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import headscope
from folders import make_folder
from headscope.cli import main


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(make_folder("gpt2", tmp_path_factory.mktemp("gpt2")))


@pytest.fixture
def texts(tmp_path: Path) -> str:
    file = tmp_path / "texts.jsonl"
    rows = [{"id": p["id"], "body": p["text"][:150], "genre": p["group"]} for p in headscope.passages()[:20]]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows) + '{"body": 3, "genre": "x"}\n')
    return str(file)


def analyze(*told: str) -> int:
    return main(["analyze", *told])


def test_a_run_from_the_command_line(
    model: str, texts: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    told = [texts, "--model", model, "--out", str(tmp_path / "run"), "--text-field", "body", "--group-field", "genre",
            "--layers", "0,2", "--per-text"]  # fmt: skip
    assert analyze(*told) == 0
    printed, said = capsys.readouterr()
    assert "2 layers × 4 heads" in printed
    assert "20 windows of 20 texts, 3 groups, 1 bad record left out" in printed
    assert "headscope.Result.open(" in printed
    assert "20 of 20 texts" in said
    assert "1 bad record was left out: texts.jsonl:21: the text is not a string but int" in said
    result = headscope.Result.open(tmp_path / "run")
    assert result.dataset.layer.values.tolist() == [0, 2]
    assert len(result.examples(2, 1, "mean_distance", 3)) == 3
    assert analyze(*told) == 0
    assert "the run is finished already" in capsys.readouterr().err
    assert analyze(*told, "--tau", "0.6") == 0
    printed = capsys.readouterr().out
    assert "at τ = 0.6; the run was made at 0.5" in printed
    assert f"{result.layer_summary(0.6).high_pairs[0]}" in printed
    assert analyze(*told, "--theta", "0.6") == 2
    assert "settings.theta: 0.3, and 0.6" in capsys.readouterr().err
    assert analyze(*told, "--heads") == 0
    assert len([line for line in capsys.readouterr().out.splitlines() if line.split()[:1] in (["0"], ["2"])]) == 8


def test_a_language_that_the_model_does_not_know_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    german = " ".join(f"Der Müller Nummer {k} kannte den tiefen Fluss seit seiner frühen Kindheit." for k in range(9))
    (tmp_path / "texts.txt").write_text("\n".join([german, *(p["text"] for p in headscope.passages()[:3])]))
    told = [str(tmp_path / "texts.txt"), "--layers", "0"]
    assert analyze(*told, "--out", str(tmp_path / "run")) == 0
    said = "n 25 % of the windows most words are unknown to the model's tokenizer or broken into pieces"
    assert f"I{said}" in capsys.readouterr().out.replace("\n", " ")
    result = headscope.Result.open(tmp_path / "run")
    assert any(f"i{said}" in each for each in result.findings().warnings)


def test_runs_are_merged(model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runs = [str(tmp_path / name) for name in ("one", "other")]
    for out, text in zip(runs, ("The cat saw the dog. It ran.", "It rains. It pours. It rains again."), strict=True):
        (tmp_path / "text.txt").write_text(text)
        assert analyze(str(tmp_path / "text.txt"), "--model", model, "--out", out, "--per-text", "--quiet") == 0
    out = str(tmp_path / "both")
    assert main(["merge", *runs, "--out", out]) == 0
    assert "2 windows of 2 texts" in capsys.readouterr().out
    merged = headscope.Result.open(out)
    assert int(merged.dataset.texts) == 2
    assert len(merged.examples(1, 2, "separator_focus_stop")) == 2
    assert main(["merge", runs[0], runs[0], "--out", str(tmp_path / "twice"), "--json"]) == 0
    printed, said = capsys.readouterr()
    assert json.loads(printed)["stacks"]["decoder"]["windows"] == 2
    assert "share texts, which will count twice" in said
    for told, words in (
        ([runs[0], "--out", str(tmp_path / "new")], "nothing to add it to"),
        ([*runs, "--out", out], "not an empty folder"),
        ([runs[0], str(tmp_path / "none"), "--out", str(tmp_path / "new")], "there is no run or result"),
    ):
        assert main(["merge", *told]) == 2
        assert words in capsys.readouterr().err


def test_json_and_quiet(model: str, texts: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    common = [texts, "--model", model, "--text-field", "body", "--limit", "6"]
    assert analyze(*common, "--out", str(tmp_path / "a"), "--json") == 0
    printed, said = capsys.readouterr()
    told = json.loads(printed)
    assert told["stacks"]["decoder"]["windows"] == 6
    assert len(told["stacks"]["decoder"]["layers"]) == 3
    events = [json.loads(line) for line in said.splitlines() if line.startswith("{")]
    assert events[-1]["event"] == "progress"
    assert events[-1]["texts"] == 6
    assert {"texts_per_second", "seconds_left", "memory", "shards"} <= set(events[-1])
    assert analyze(*common, "--out", str(tmp_path / "b"), "--quiet") == 0
    printed, said = capsys.readouterr()
    assert printed == ""
    assert "texts/s" not in said


def test_a_dry_run_tells_and_writes_nothing(
    model: str, texts: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = set(tmp_path.iterdir())
    common = [texts, "--model", model, "--text-field", "body", "--dry-run"]
    assert analyze(*common) == 0
    printed = capsys.readouterr().out
    for word in ("20 (1 bad record)", "texts per second", "GB are free", "MB while it runs"):
        assert word in printed
    assert analyze(*common, "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert told["texts"] == 20
    assert told["seconds"] > 0
    assert told["disk"] > 0
    assert set(tmp_path.iterdir()) == before


def test_a_relation_from_a_file(model: str, texts: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "own.py").write_text("def length(window):\n    return [len(label) for label in window.labels]\n")
    told = [texts, "--model", model, "--text-field", "body", "--out", str(tmp_path / "run"), "--quiet"]
    assert analyze(*told, "--relation", f"{tmp_path / 'own.py'}:length") == 0
    assert "pairs_length" in headscope.Result.open(tmp_path / "run").dataset
    (tmp_path / "broken.py").write_text("1 / 0")
    for wrong, said in (
        (f"{tmp_path / 'own.py'}:width", "has no function 'width'"),
        (f"{tmp_path / 'none.py'}:width", "there is no file"),
        ("length", "name a file and a function"),
        (f"{tmp_path / 'broken.py'}:x", "ZeroDivisionError"),
    ):
        assert analyze(*told, "--relation", wrong) == 2
        assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("told", "said"),
    [
        ([], "there is no folder for the run"),
        (["--out", "run", "--layers", "a-b"], "--layers a-b"),
        (["--out", "run", "--layers", "99"], "name layers from 0 to 2"),
        (["--out", "run", "--window", "9999"], "is too long for"),
        (["--out", "run", "--limit", "0"], "limit=0"),
        (["--out", "run", "--batch-size", "0"], "batch_size=0"),
        (["--out", "run", "--shard-size", "100000"], "a shard has 65,536 texts at most"),
        (["--out", "run", "--tau", "0.33"], "τ = 0.33"),
        (["--out", "run", "--text-field", "nope"], "--text-field"),
        (["--out", "run", "--strict"], "1 bad record among 20 texts"),
    ],
    ids=lambda value: "-".join(value[-2:]) if isinstance(value, list) else None,
)
def test_mistakes_are_answered(
    told: list[str], said: str, model: str, texts: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    options = ["--text-field", "body"] if "--text-field" not in told else []
    assert analyze(texts, "--model", model, *options, *told) == 2
    assert said in capsys.readouterr().err
