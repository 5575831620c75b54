"""Every command that takes a run takes one from an object store, and what it cannot do there it says."""

from __future__ import annotations

import io
import json
from contextlib import redirect_stdout
from pathlib import Path

import pytest

import headscope
from headscope.cli import main
from headscope.errors import HeadscopeError
from headscope.stores import objects
from runs import TEXTS, same_bytes

Said = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("texts") / "texts.jsonl"
    file.write_text("".join(json.dumps({"text": text}) + "\n" for text in TEXTS[:12]))
    return file


@pytest.fixture(scope="module")
def local(folder: Path, texts: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    out = str(tmp_path_factory.mktemp("local") / "run")
    analyze(folder, str(texts), out)
    return out


@pytest.fixture(scope="module", params=["s3", "memory", "file"])
def remote(request: pytest.FixtureRequest, folder: Path, texts: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The same run elsewhere."""
    if request.param == "file":
        base = f"file://{tmp_path_factory.mktemp('file')}"
    else:
        base = f"{request.getfixturevalue('s3')}/cli" if request.param == "s3" else "memory://cli"
    analyze(folder, str(texts), f"{base}/run")
    return f"{base}/run"


def analyze(model: Path, texts: str, out: str) -> None:
    told = ["--model", str(model), "--threads", "1", "--per-text", "--shard-size", "2", "--quiet"]
    assert main(["analyze", texts, "--out", out, *told]) == 0


def written(run: str, out: Path, report: bool) -> dict[str, str]:
    """What the commands make of a run."""
    with redirect_stdout(io.StringIO()) as printed:
        assert main(["findings", run, "--json"]) == 0
    assert main(["figures", run, "--out", str(out), "--only", "atlas"]) == 0
    assert main(["view", run, "--html", str(out / "view.html")]) == 0
    if report:
        assert main(["report", run, "--out", str(out / "report.html")]) == 0
    return {"findings": printed.getvalue()} | {f.name: f.read_text(encoding="utf-8") for f in out.iterdir()}


@pytest.fixture(scope="module")
def here(local: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return written(local, tmp_path_factory.mktemp("here"), report=True)


def test_every_command_takes_a_run_elsewhere(here: dict[str, str], remote: str, tmp_path: Path) -> None:
    assert set(here) == {"findings", "atlas.svg", "view.html", "report.html"}
    there = written(remote, tmp_path / "there", report=remote.startswith("s3"))
    for name in there:
        assert here[name] == there[name], name
    assert len(there) == (4 if remote.startswith("s3") else 3)
    assert main(["view", f"{remote}/result.nc", "--html", str(tmp_path / "view.html")]) == 0
    assert (tmp_path / "view.html").read_text(encoding="utf-8") == here["view.html"]


def test_runs_elsewhere_add_up(local: str, remote: str, folder: Path, tmp_path: Path) -> None:
    more = tmp_path / "more.txt"
    more.write_text("It rains. It pours. The old man is snoring.\nHe went to bed. He bumped his head.\n")
    beside = remote.replace("/run", "/more")
    analyze(folder, str(more), beside)
    both = headscope.Result.open(remote) + headscope.Result.open(beside)
    assert int(both.dataset.texts) == 14
    with pytest.raises(HeadscopeError, match="is not a path on this disk"):
        both.save("s3://bucket/both.nc")
    same_bytes(both, headscope.Result.open(local) + headscope.Result.open(beside))


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (["figures", "RUN", "--out", "s3://bucket/figures"], "'s3://bucket/figures' is not a path on this disk"),
        (["report", "RUN", "--out", "s3://bucket/a.html"], "'s3://bucket/a.html' is not a path on this disk"),
        (["view", "RUN", "--html", "s3://bucket/a.html"], "'s3://bucket/a.html' is not a path on this disk"),
        (["reproduce", "--texts", "passages:", "--out", "s3://bucket/all"], "'s3://bucket/all' is not a path on this"),
        (["view", "s3://bucket/nothing", "--no-open"], "'s3://bucket/nothing' holds no result"),
        (["findings", "s3://nowhere/run"], "'s3://nowhere/run' holds no result"),
        (["findings", "s3://"], "'s3://' names no place. To fix it: name one: s3://BUCKET/RUN"),
        (["analyze", "passages:", "--limit", "2", "--out", "s3://nowhere/run"], "name a bucket that is there"),
        (["analyze", "passages:", "--limit", "2", "--out", "s3://"], "'s3://' names no place"),
        (["view", "RUN", "--file", "a.txt"], "both a text and a run (or a saved inspection) are given"),
    ],
)
def test_what_cannot_be_done_there_is_said(
    command: list[str],
    said: str,
    s3: str,
    local: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: Said,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main([local if each == "RUN" else each for each in command]) == 2
    assert said in capsys.readouterr().err
    assert not list(tmp_path.iterdir())  # no folder that is called "s3:"


@pytest.mark.usefixtures("s3")
def test_missing_credentials_are_told_at_once(monkeypatch: pytest.MonkeyPatch, capsys: Said, tmp_path: Path) -> None:
    import s3fs

    monkeypatch.setattr(objects, "FIRST_PAUSE", 60.0)  # nothing is tried again
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    s3fs.S3FileSystem.clear_instance_cache()
    try:
        assert main(["analyze", "passages:", "--limit", "2", "--out", "s3://bucket/run"]) == 2
    finally:
        s3fs.S3FileSystem.clear_instance_cache()
    assert "Unable to locate credentials. To fix it: check your credentials" in capsys.readouterr().err
