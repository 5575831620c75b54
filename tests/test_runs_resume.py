"""Runs go on where they stopped, compute again what is damaged and refuse what does not belong to them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import headscope
from headscope.errors import HeadscopeError
from headscope.result.schema import VERSION
from runs import TEXTS, Counting, Tiny, run, same_bytes, stop_after

HERE = Path(__file__).parent


def test_a_run_goes_on_where_it_stopped(tiny: Tiny, tmp_path: Path) -> None:
    model = tiny("gpt2")
    stop_after(model, TEXTS, tmp_path / "run", shard_size=4, shards=3)
    kept = {f.name: f.stat().st_mtime_ns for f in (tmp_path / "run" / "shards").iterdir()}
    shown = Counting()
    result = run(model, TEXTS, out=tmp_path / "run", shard_size=4, progress=shown)
    assert shown.kept == 12
    assert shown.done == len(TEXTS) - 12
    assert len(kept) == 6
    assert not (tmp_path / "run" / "shards").exists()
    same_bytes(result, run(model, TEXTS, out=tmp_path / "other", shard_size=4))
    again = Counting()
    run(model, TEXTS, out=tmp_path / "run", shard_size=4, progress=again)
    assert again.done == 0
    assert again.said == ["the run is finished already"]


@pytest.mark.long
def test_a_run_goes_on_in_another_process(tmp_path: Path) -> None:
    """The embedded model lacks a pooler, which is filled at random: that must not make it another model."""
    script = (
        "import sys, torch, headscope\n"
        "torch.manual_seed(int(sys.argv[2]))\n"
        "r = headscope.analyze(None, ['It rains. It pours.', 'The cat saw the dog.'], out=sys.argv[1], layers=[0])\n"
        "print(r.model['weights'])\n"
    )
    told = [subprocess.run([sys.executable, "-c", script, tmp_path / "run", seed], capture_output=True, text=True,
                           check=True) for seed in ("1", "2")]  # fmt: skip
    assert told[0].stdout == told[1].stdout
    assert "the run is finished already" in told[1].stderr


def killed_and_resumed(folder: Path, tmp_path: Path, kills: int, times: int, seed: int) -> None:
    texts = tmp_path / "texts.jsonl"
    rows = [{"id": str(k), "text": text} for k, text in enumerate(TEXTS * times)]
    texts.write_text("".join(json.dumps(row) + "\n" for row in rows))
    command = [sys.executable, HERE / "killed.py", folder, texts, tmp_path / "killed", str(kills), str(seed)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout.splitlines()[-1])
    assert told["killed"] == kills
    assert any(0 < number < 12 * times for number in told["shards"]), told  # some were killed in the middle
    options = {"shard_size": 2, "batch_size": 2, "threads": 2, "per_text": True}
    whole = run(str(folder), str(texts), out=tmp_path / "whole", **options)
    killed = headscope.Result.open(tmp_path / "killed")
    same_bytes(whole, killed)
    import pandas as pd

    for name in ("heads.parquet", "texts.parquet"):
        pd.testing.assert_frame_equal(*(pd.read_parquet(tmp_path / run_ / name) for run_ in ("whole", "killed")))


@pytest.mark.parametrize(("kills", "times"), [(3, 1), (10, 3)])
@pytest.mark.long
def test_killed_some_times_and_resumed(folder: Path, tmp_path: Path, kills: int, times: int) -> None:
    killed_and_resumed(folder, tmp_path, kills, times, seed=1)


@pytest.mark.long
def test_killed_a_hundred_times_and_resumed(folder: Path, tmp_path: Path) -> None:
    killed_and_resumed(folder, tmp_path, 100, 3, seed=2)


# ---------------------------------------------------------------------- damaged


def test_a_damaged_shard_is_computed_again(tiny: Tiny, tmp_path: Path) -> None:
    model = tiny("gpt2")
    whole = run(model, TEXTS, shard_size=4)
    stop_after(model, TEXTS, tmp_path / "run", shard_size=4, shards=4)
    (data,) = (tmp_path / "run" / "shards").glob("000001-*.h5")
    content = bytearray(data.read_bytes())
    content[len(content) // 2] ^= 1
    data.write_bytes(content)
    (tmp_path / "run" / "shards" / "000002.json").write_text("{")
    shown = Counting()
    same_bytes(whole, run(model, TEXTS, out=tmp_path / "run", shard_size=4, progress=shown))
    assert [said for said in shown.said if "damaged" in said] == [
        "shard 1 is damaged or of another run, and is computed again",
        "shard 2 is damaged or of another run, and is computed again",
    ]
    assert shown.kept == 8


@pytest.mark.long
def test_a_damaged_result_is_computed_again(tiny: Tiny, tmp_path: Path) -> None:
    model = tiny("gpt2")
    first = run(model, TEXTS, out=tmp_path / "run")
    first.close()
    file = tmp_path / "run" / "result.nc"
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)
    shown = Counting()
    same_bytes(run(model, TEXTS), run(model, TEXTS, out=tmp_path / "run", progress=shown))
    assert "result.nc is missing or damaged" in shown.said[0]


NO_PLAN = {"schema": VERSION, "settings": {}, "model": {}, "texts": {}, "versions": {}, "finished": False,
           "plan": {"batches": []}}  # fmt: skip
FEW = json.dumps({"schema": VERSION, "settings": {}})


@pytest.mark.parametrize("told", [FEW, '{"schema": "two"}', "[]", "{", json.dumps(NO_PLAN)])
def test_a_damaged_run_file_is_refused(told: str, tiny: Tiny, tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text(told)
    with pytest.raises(HeadscopeError, match=r"run\.json' cannot be read"):
        run(tiny("gpt2"), TEXTS, out=tmp_path)


@pytest.mark.parametrize(
    ("version", "said"), [(2, r"the method's first edition \(schema 2\).*analyse the texts again"), (99, "newer")]
)
def test_a_run_of_another_edition_is_refused(version: int, said: str, tiny: Tiny, tmp_path: Path) -> None:
    stop_after(tiny("gpt2"), TEXTS, tmp_path / "run", shard_size=4, shards=1)
    file = tmp_path / "run" / "run.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"schema": version}))
    with pytest.raises(HeadscopeError, match=f"the run in .* is of .*{said}"):
        run(tiny("gpt2"), TEXTS, out=tmp_path / "run", shard_size=4)
    assert len(list((tmp_path / "run" / "shards").glob("*.json"))) == 1  # what is there is left alone


def test_a_crash_in_the_first_moment_does_not_block_the_folder(tiny: Tiny, tmp_path: Path) -> None:
    (tmp_path / ".run.json.partial").write_text('{"schema"')
    run(tiny("gpt2"), TEXTS[:2], out=tmp_path)


# ---------------------------------------------------------------------- refused


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"tau": 0.6}, "settings.tau: 0.5, and 0.6"),
        ({"window": 64}, "settings.window: 128, and 64"),
        ({"layers": [0]}, r"settings.layers: None, and \[0\]"),
        ({"shard_size": 5}, "plan.shard_size: 4, and 5"),
        ({"batch_size": 8}, "plan.batch_size: 4, and 8"),
        ({"per_text": True}, "plan.per_text: False, and True"),
        ({"limit": 20}, "texts.limit: None, and 20"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else None,
)
def test_a_changed_setting_is_refused_with_the_difference(
    changed: dict[str, Any], said: str, tiny: Tiny, tmp_path: Path
) -> None:
    model = tiny("gpt2")
    stop_after(model, TEXTS, tmp_path / "run", shard_size=4, shards=1)
    with pytest.raises(HeadscopeError, match=said):
        run(model, TEXTS, out=tmp_path / "run", **({"shard_size": 4} | changed))
    assert len(list((tmp_path / "run" / "shards").glob("*.json"))) == 1  # what is there is left alone


def test_a_changed_relation_is_another_setting(tiny: Tiny, tmp_path: Path) -> None:
    def one(window: Any) -> list[int]:
        return [0] * len(window)

    def two(window: Any) -> list[int]:
        return [1] * len(window)

    run(tiny("gpt2"), TEXTS[:4], out=tmp_path / "run", relations={"own": one})
    with pytest.raises(HeadscopeError, match=r"settings\.relations\.own"):
        run(tiny("gpt2"), TEXTS[:4], out=tmp_path / "run", relations={"own": two})


def test_other_texts_and_another_model_are_refused(tiny: Tiny, tmp_path: Path) -> None:
    model, options = tiny("gpt2"), {"shard_size": 4, "out": tmp_path / "run"}
    stop_after(model, TEXTS, tmp_path / "run", shard_size=4, shards=2)
    with pytest.raises(HeadscopeError, match=r"texts.fingerprint: "):
        run(model, [TEXTS[1], TEXTS[0], *TEXTS[2:]], **options)
    with pytest.raises(HeadscopeError, match=r"model.architecture: GPT2Model, and LlamaModel.*model.weights: "):
        run(tiny("llama"), TEXTS, **options)
    stop_after(model, iter(TEXTS), tmp_path / "stream", shard_size=4, shards=2)
    with pytest.raises(HeadscopeError, match="the texts of shard 0 are not those"):
        run(model, iter(TEXTS[1:]), shard_size=4, out=tmp_path / "stream")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.tex").write_text("years of work")
    with pytest.raises(HeadscopeError, match=r"holds other things \(thesis.tex\)"):
        run(model, TEXTS, out=tmp_path / "full")


def test_a_finished_stream_is_not_mistaken_for_another(tiny: Tiny, tmp_path: Path) -> None:
    model, options = tiny("gpt2"), {"shard_size": 4, "out": tmp_path / "run"}
    run(model, iter(TEXTS), **options)
    shown = Counting()
    run(model, iter(TEXTS), progress=shown, **options)
    assert shown.said == ["the run is finished already"]
    with pytest.raises(HeadscopeError, match="the texts are not those"):
        run(model, iter(TEXTS[:20]), **options)
    stop_after(model, iter(TEXTS), tmp_path / "short", shard_size=4, shards=4)
    with pytest.raises(HeadscopeError, match="the texts end after 2 shards"):
        run(model, iter(TEXTS[:8]), shard_size=4, out=tmp_path / "short")
