"""Numbers kept beside a result: found again where everything that decides them is the same, never trusted blindly."""

from __future__ import annotations

import json
import math
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

import headscope
from headscope.result import keeping
from made_up import SMALL, MadeUp, result_of

KEY = {"tau": 0.5, "draws": 1000, "seed": 0, "controls": ["ab", "cd"]}
DATA = {"claims": [{"name": "4", "value": 1.25, "interval": [1.1, math.inf]}], "10": "text", "9": None, "ü": 0.1 + 0.2}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("made") / "result.nc"
    result_of(file, MadeUp(SMALL, ["a", "b"]))
    return file


@pytest.fixture
def result(made: Path, tmp_path: Path) -> headscope.Result:
    return headscope.Result.open(shutil.copy(made, tmp_path / "result.nc"))


def kept_files(result: headscope.Result) -> list[Path]:
    return sorted(result.file.parent.glob("*.json"))


def test_what_was_kept_is_found_again(result: headscope.Result) -> None:
    assert keeping.get(result, "findings", KEY) is None
    keeping.put(result, "findings", KEY, DATA)
    assert keeping.get(headscope.Result.open(result.file), "findings", dict(reversed(KEY.items()))) == DATA
    assert [file.name.startswith("findings-") for file in kept_files(result)] == [True]
    keeping.put(result, "findings", KEY, {7: (1, 2), 10: [math.nan]})  # as JSON gives it back
    found = keeping.get(result, "findings", KEY)
    assert found["7"] == [1, 2]
    assert math.isnan(found["10"][0])


@pytest.mark.parametrize(
    "other", [{"tau": 0.6}, {"draws": 999}, {"seed": 1}, {"controls": ["ab"]}, {"controls": ["cd", "ab"]}]
)
def test_another_key_finds_nothing(other: dict[str, Any], result: headscope.Result) -> None:
    keeping.put(result, "findings", KEY, DATA)
    assert keeping.get(result, "findings", KEY | other) is None
    assert keeping.get(result, "sensitivity", KEY) is None
    assert keeping.get(result.stack("cross"), "findings", KEY) is None
    assert keeping.get(result, "findings", KEY) == DATA


def test_another_result_or_version_finds_nothing(
    result: headscope.Result, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keeping.put(result, "findings", KEY, DATA)
    other = result_of(tmp_path / "other.nc", MadeUp(SMALL, ["a", "b"], seed=1))  # in the same folder
    assert keeping.get(other, "findings", KEY) is None
    keeping.put(other, "findings", KEY, 1)
    assert (keeping.get(other, "findings", KEY), keeping.get(result, "findings", KEY)) == (1, DATA)
    with monkeypatch.context() as patch:
        patch.setattr(keeping, "__version__", "99.0")
        assert keeping.get(result, "findings", KEY) is None
    monkeypatch.setattr(keeping, "_code", lambda: "a formula that was changed")
    assert keeping.get(result, "findings", KEY) is None


def test_a_damaged_or_foreign_file_is_ignored_and_written_anew(result: headscope.Result) -> None:
    keeping.put(result, "findings", KEY, DATA)
    (file,) = kept_files(result)
    content = file.read_text()
    told = json.loads(content)
    wrong: list[str | bytes] = [
        "", content[:-10], content.replace("1.25", "9.25"), "[]", "null", "{}", "3", b"\xff\xfe", "[" * 100_000,
        json.dumps(told | {"data": 3}), json.dumps(told | {"key": {}}), json.dumps({"key": told["key"]}),
        json.dumps(told | {"hash": None}),
    ]  # fmt: skip
    for each in wrong:
        file.write_bytes(each.encode() if isinstance(each, str) else each)
        assert keeping.get(result, "findings", KEY) is None, each[:80]
    keeping.put(result, "findings", KEY, DATA)
    assert file.read_text() == content
    assert keeping.get(result, "findings", KEY) == DATA
    file.unlink()
    file.mkdir()  # not even a file
    assert keeping.get(result, "findings", KEY) is None
    keeping.put(result, "findings", KEY, DATA)


def test_a_file_too_large_to_be_ours_is_not_read(result: headscope.Result, monkeypatch: pytest.MonkeyPatch) -> None:
    keeping.put(result, "findings", KEY, DATA)
    monkeypatch.setattr(keeping, "LARGEST", 10)
    assert keeping.get(result, "findings", KEY) is None


def test_a_folder_that_cannot_be_written_to_keeps_nothing(
    result: headscope.Result, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*args: Any, **options: Any) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "replace", refuse)  # whoever runs the tests may write everywhere
    keeping.put(result, "findings", KEY, DATA)
    assert keeping.get(result, "findings", KEY) is None
    assert [file.name for file in result.file.parent.iterdir()] == ["result.nc"]


def test_data_that_json_lacks_is_an_error_of_the_caller(result: headscope.Result) -> None:
    with pytest.raises(TypeError):
        keeping.put(result, "findings", KEY, {"array": object()})
    assert kept_files(result) == []
