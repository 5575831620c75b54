"""Models by hub id: the real download, from a hub on the loopback."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from headscope.models.source import find
from hub import local_hub


def headscope(address: str, home: Path, *argv: str, offline: str = "0") -> subprocess.CompletedProcess[str]:
    """The command line in a process of its own, with its own cache, talking to the local hub alone."""
    environment = os.environ | {"HF_ENDPOINT": address, "HF_HOME": str(home), "HF_HUB_OFFLINE": offline}
    environment |= {"HF_HUB_DISABLE_PROGRESS_BARS": "1", "HF_HUB_DISABLE_XET": "1", "NO_PROXY": "127.0.0.1"}
    command = [sys.executable, "-m", "headscope", *argv]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, env=environment, check=False)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """The embedded model as a hub would hold it, with what must not be fetched beside it."""
    folder = tmp_path / "hub-model"
    shutil.copytree(find(None).folder, folder)
    (folder / "pytorch_model.bin").write_bytes(b"pickled: must not be fetched")
    (folder / "modeling_evil.py").write_text("raise SystemExit('remote code ran')")
    (folder / "onnx").mkdir()
    (folder / "onnx" / "model.safetensors").write_bytes(b"of another format: must not be fetched")
    return folder


@pytest.mark.long
def test_a_hub_id_is_fetched_cached_and_checked(model: Path, tmp_path: Path) -> None:
    home = tmp_path / "home"
    with local_hub({"someone/bert12": model}) as (address, asked):
        done = headscope(address, home, "check", "someone/bert12")
        assert done.returncode == 0, done.stderr
        assert "someone/bert12" in done.stdout
        assert done.stdout.count("holds") == 11
        fetched = {path.rpartition("/")[2] for path in asked if "/resolve/" in path}
        assert {"config.json", "model.safetensors", "tokenizer.json"} <= fetched
        assert not fetched & {"pytorch_model.bin", "modeling_evil.py"}
        assert not any("onnx" in path for path in asked)
    # The hub is gone: the copy in the cache serves, offline too.
    again = headscope(address, home, "check", "someone/bert12", offline="1")
    assert again.returncode == 0, again.stderr


@pytest.mark.long
def test_a_hub_that_does_not_know_the_model(model: Path, tmp_path: Path) -> None:
    with local_hub({"someone/bert12": model}) as (address, _):
        done = headscope(address, tmp_path / "home", "check", "someone/else")
    assert done.returncode == 2
    assert "the hub knows no model 'someone/else'" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.long
def test_a_hub_that_cannot_be_reached(tmp_path: Path) -> None:
    done = headscope("http://127.0.0.1:9", tmp_path / "home", "check", "someone/bert12")
    assert done.returncode == 2
    assert "could not be fetched" in done.stderr
    assert "embedded model" in done.stderr


@pytest.mark.long
def test_only_pickled_weights_on_the_hub(model: Path, tmp_path: Path) -> None:
    (model / "model.safetensors").unlink()
    shutil.rmtree(model / "onnx")
    with local_hub({"someone/old": model}) as (address, asked):
        done = headscope(address, tmp_path / "home", "check", "someone/old")
    assert done.returncode == 2
    assert "headscope convert FOLDER OUT" in done.stderr
    assert not any("pytorch_model.bin" in path for path in asked if "/resolve/" in path)
