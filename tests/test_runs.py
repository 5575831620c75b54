"""Runs: the same numbers however they came about, and nothing finished is lost, whatever goes wrong."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import headscope
from folders import make_folder
from headscope.errors import HeadscopeError
from headscope.runs.progress import Progress

HERE = Path(__file__).parent
PASSAGES = headscope.passages()
TEXTS = [p["text"][: 60 + 7 * k] for k, p in enumerate(PASSAGES[:24])]  # ragged
Tiny = Callable[[str], headscope.Model]


def run(model: Any, texts: Any, **options: Any) -> headscope.Result:
    return headscope.analyze(model, texts, **({"progress": False, "threads": 2, "batch_size": 4} | options))


def same_bytes(one: headscope.Result, other: headscope.Result) -> None:
    assert one.stacks == other.stacks
    for stack in one.stacks:
        a, b = one.stack(stack), other.stack(stack)
        for left, right in ((a.dataset, b.dataset), (a.shards.load(), b.shards.load())):
            assert set(left.variables) == set(right.variables)
            for name in left.variables:
                x, y = left[name].values, right[name].values
                assert x.dtype == y.dtype, name
                assert x.shape == y.shape, name
                assert (x.tolist() == y.tolist()) if x.dtype.kind not in "iufb" else x.tobytes() == y.tobytes(), name


def pairs_moved(one: headscope.Result, other: headscope.Result) -> tuple[int, int]:
    """How many pairs lie in different bins, and of how many."""
    a, b = (r.dataset.pairs.values for r in (one, other))
    # A pair that moves leaves one bin of its distance and relation and enters another.
    return int(np.abs(a - b).sum()) // 2, int(a.sum())


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_folder("gpt2", tmp_path_factory.mktemp("gpt2"))


# ---------------------------------------------------------------------- the same numbers


def test_two_runs_are_the_same_to_the_last_bit(tiny: Tiny, tmp_path: Path) -> None:
    model = tiny("t5")
    first = run(model, TEXTS, out=tmp_path / "a", shard_size=5, per_text=True)
    same_bytes(first, run(model, TEXTS, out=tmp_path / "b", shard_size=5, per_text=True))
    same_bytes(first, run(model, iter(TEXTS), shard_size=5, per_text=True))  # a stream


def test_the_order_in_which_shards_are_computed_does_not_matter(tiny: Tiny, tmp_path: Path) -> None:
    model = tiny("gpt2")
    whole = run(model, TEXTS, out=tmp_path / "a", shard_size=3)
    stop_after(model, TEXTS, tmp_path / "b", shard_size=3, shards=8)
    shards = sorted((tmp_path / "b" / "shards").glob("*.json"))
    assert len(shards) == 8
    for file in random.Random(5).sample(shards, 5):  # these are computed last
        for part in (tmp_path / "b" / "shards").glob(f"{file.stem}.*"):
            part.unlink()
    same_bytes(whole, run(model, TEXTS, out=tmp_path / "b", shard_size=3))


class StopAfter(Progress):
    """Fails after some shards, as a crash would."""

    def __init__(self, shards: int) -> None:
        super().__init__()
        self.after, self.said = shards, []

    def shard(self) -> None:
        super().shard()
        if self.shards_done == self.after:
            raise InterruptedError("stopped by the test")

    def say(self, message: str) -> None:
        self.said.append(message)


def stop_after(model: Any, texts: Any, out: Path, *, shards: int, **options: Any) -> None:
    with pytest.raises(InterruptedError):
        run(model, texts, out=out, progress=StopAfter(shards), **options)


def killed_and_resumed(folder: Path, tmp_path: Path, kills: int, seed: int) -> None:
    texts = tmp_path / "texts.jsonl"
    rows = [{"id": str(k), "text": text} for k, text in enumerate(TEXTS * 3)]
    texts.write_text("".join(json.dumps(row) + "\n" for row in rows))
    command = [sys.executable, HERE / "killed.py", folder, texts, tmp_path / "killed", str(kills), str(seed)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout.splitlines()[-1])
    assert told["killed"] == kills
    assert any(0 < number < 36 for number in told["shards"]), told  # some were killed in the middle
    options = {"shard_size": 2, "batch_size": 2, "threads": 2, "per_text": True}
    whole = run(str(folder), str(texts), out=tmp_path / "whole", **options)
    killed = headscope.Result.open(tmp_path / "killed")
    same_bytes(whole, killed)
    import pandas as pd

    for name in ("heads.parquet", "texts.parquet"):
        pd.testing.assert_frame_equal(*(pd.read_parquet(tmp_path / run_ / name) for run_ in ("whole", "killed")))


def test_killed_twenty_times_and_resumed(folder: Path, tmp_path: Path) -> None:
    killed_and_resumed(folder, tmp_path, 20, seed=1)


@pytest.mark.long
def test_killed_a_hundred_times_and_resumed(folder: Path, tmp_path: Path) -> None:
    killed_and_resumed(folder, tmp_path, 100, seed=2)


def test_batch_sizes_and_threads_move_next_to_no_pair(embedded: headscope.Model) -> None:
    texts = [p["text"] for p in PASSAGES[:24]]
    base = run(embedded, texts, batch_size=1, threads=1)
    for batch, threads in ((7, 1), (64, 1), (64, 2), (7, 2)):
        other = run(embedded, texts, batch_size=batch, threads=threads)
        moved, of = pairs_moved(base, other)
        assert moved <= 2e-5 * of, f"{moved} of {of} pairs changed their bin"
        np.testing.assert_array_equal(base.dataset.position_pairs, other.dataset.position_pairs)
        np.testing.assert_allclose(base.dataset.similarity_sum, other.dataset.similarity_sum, rtol=1e-4, atol=1e-4)
    threads_alone = run(embedded, texts, batch_size=7, threads=1), run(embedded, texts, batch_size=7, threads=2)
    assert pairs_moved(*threads_alone)[0] == 0  # a batch is computed by one thread, whoever it is


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_corpus_cut_anywhere_adds_up(data: st.DataObject, tiny: Tiny) -> None:
    model = tiny("gpt2")
    texts = data.draw(st.lists(st.sampled_from(TEXTS), min_size=2, max_size=9, unique=True))
    cut = data.draw(st.integers(1, len(texts) - 1))
    size = data.draw(st.integers(1, 5))
    whole = run(model, texts, batch_size=1, shard_size=data.draw(st.integers(1, 9)))
    parts = [run(model, part, batch_size=1, shard_size=size) for part in (texts[:cut], texts[cut:])]
    added = parts[0] + parts[1]
    assert added.texts["texts"] == len(texts)
    for name, values in whole.dataset.data_vars.items():
        other = added.dataset[name]
        assert values.dims == other.dims
        if values.dtype.kind == "f":
            np.testing.assert_allclose(values.values, other.values, rtol=1e-12, atol=1e-12, err_msg=name)
        else:
            np.testing.assert_array_equal(values.values, other.values, err_msg=name)


ITEMS = st.one_of(
    st.none(), st.integers(), st.floats(), st.binary(max_size=5), st.text(max_size=30),
    st.tuples(st.integers(), st.text(max_size=9)),
    st.tuples(st.text(max_size=3), st.text(max_size=9), st.text(max_size=2)),
    st.dictionaries(st.sampled_from(["text", "id", "body"]), st.one_of(st.none(), st.text(max_size=9)), max_size=3),
    st.lists(st.integers(), max_size=4),
)  # fmt: skip


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(items=st.lists(ITEMS, max_size=10))
def test_bad_records_never_crash_a_run(items: list[Any], tiny: Tiny) -> None:
    every = ["A good text stands first.", *items]
    result = run(tiny("gpt2"), every)
    told = result.texts
    assert told["texts"] + told["bad"] + told["refused"] == len(every)
    assert int(result.dataset.texts) == told["texts"] >= 1


# ---------------------------------------------------------------------- going on, refusing


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


class Counting(Progress):
    def __init__(self) -> None:
        super().__init__()
        self.said: list[str] = []

    def say(self, message: str) -> None:
        self.said.append(message)


def test_a_damaged_shard_is_computed_again(tiny: Tiny, tmp_path: Path) -> None:
    model = tiny("gpt2")
    whole = run(model, TEXTS, shard_size=4)
    stop_after(model, TEXTS, tmp_path / "run", shard_size=4, shards=4)
    data = tmp_path / "run" / "shards" / "000001.h5"
    content = bytearray(data.read_bytes())
    content[len(content) // 2] ^= 1
    data.write_bytes(content)
    (tmp_path / "run" / "shards" / "000002.json").write_text("{")
    shown = Counting()
    same_bytes(whole, run(model, TEXTS, out=tmp_path / "run", shard_size=4, progress=shown))
    assert [said for said in shown.said if "damaged" in said] == [
        "shard 1 is damaged and is computed again",
        "shard 2 is damaged and is computed again",
    ]
    assert shown.kept == 8


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


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"tau": 0.6}, "settings.tau: 0.5, and 0.6"),
        ({"window": 64}, "settings.window: 128, and 64"),
        ({"layers": [0]}, r"settings.layers: None, and \[0\]"),
        ({"shard_size": 5}, "plan.shard_size: 4, and 5"),
        ({"batch_size": 8}, "plan.batch_size: 4, and 8"),
        ({"threads": 1}, "plan.threads: 2, and 1"),
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


def test_a_changed_relation_is_another_setting(tiny: Tiny, tmp_path: Path) -> None:
    def one(window: Any) -> list[int]:
        return [0] * len(window)

    def two(window: Any) -> list[int]:
        return [1] * len(window)

    run(tiny("gpt2"), TEXTS[:4], out=tmp_path / "run", relations={"own": one})
    with pytest.raises(HeadscopeError, match=r"settings\.relations\.own"):
        run(tiny("gpt2"), TEXTS[:4], out=tmp_path / "run", relations={"own": two})


# ---------------------------------------------------------------------- locks, signals, disks

SCRIPT = """
import sys, headscope
from headscope.errors import HeadscopeError
try:
    headscope.analyze(sys.argv[1], sys.argv[2], out=sys.argv[3], shard_size=2, batch_size=2, threads=1, progress=False)
except HeadscopeError as error:
    print(error)
    sys.exit(2)
"""


@pytest.fixture
def many(tmp_path: Path) -> Path:
    file = tmp_path / "many.jsonl"
    file.write_text("".join(json.dumps({"text": text}) + "\n" for text in TEXTS * 40))
    return file


@pytest.fixture
def started(folder: Path, many: Path, tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-m", "headscope", "analyze", many, "--model", folder, "--out", tmp_path / "run",
         "--shard-size", "2", "--batch-size", "2", "--threads", "1"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    deadline = time.monotonic() + 90
    while not list((tmp_path / "run").glob("shards/*.json")):
        assert process.poll() is None, process.stderr.read()  # type: ignore[union-attr]
        assert time.monotonic() < deadline
        time.sleep(0.05)
    yield process
    process.kill()
    process.wait()


def test_a_second_process_is_refused_while_the_first_lives(
    started: subprocess.Popen[str], folder: Path, many: Path, tmp_path: Path
) -> None:
    options = {"out": tmp_path / "run", "shard_size": 2, "batch_size": 2, "threads": 1}
    with pytest.raises(HeadscopeError, match=f"another process is working in .*: process {started.pid} on"):
        run(str(folder), str(many), **options)
    started.kill()  # the lock file stays behind, the lock does not
    started.wait()
    shown = StopAfter(400)
    with pytest.raises(InterruptedError):
        run(str(folder), str(many), progress=shown, **options)
    assert f"the last attempt (process {started.pid}" in shown.said[0]
    assert shown.kept > 0


def test_ctrl_c_finishes_the_shard_and_says_how_to_go_on(started: subprocess.Popen[str], tmp_path: Path) -> None:
    started.send_signal(signal.SIGINT)
    _, said = started.communicate(timeout=60)
    assert started.returncode == 130
    assert "stopping after this shard; Ctrl-C again stops at once" in said
    assert "To go on: " in said
    assert "analyze" in said.rsplit("To go on: ", 1)[1]
    shards = list((tmp_path / "run" / "shards").glob("*"))
    assert shards
    assert not [file for file in shards if file.suffix == ".partial"]


def test_ctrl_c_twice_stops_at_once(folder: Path, many: Path, tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-u", "-m", "headscope", "analyze", many, "--model", folder, "--out", tmp_path / "run",
         "--shard-size", "960", "--batch-size", "1", "--threads", "1"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stderr is not None
    for line in process.stderr:
        if line.startswith("0 of 960 texts"):
            break
    time.sleep(1)  # one shard of all texts, which takes far longer
    process.send_signal(signal.SIGINT)
    assert "Ctrl-C again stops at once" in process.stderr.readline()
    process.send_signal(signal.SIGINT)
    said = process.stderr.read()
    assert process.wait(30) == 130
    assert "Traceback" not in said
    assert "To go on: python -m headscope analyze" in said
    assert not list((tmp_path / "run").glob("shards/*.json"))


def test_a_full_disk_keeps_what_is_finished(folder: Path, tmp_path: Path) -> None:
    """A limit on the size of files stands in for the full disk: the same error, from the same call."""
    texts, out = tmp_path / "few.jsonl", tmp_path / "run"
    texts.write_text("".join(json.dumps({"text": text}) + "\n" for text in TEXTS))
    limited = "import resource\nresource.setrlimit(resource.RLIMIT_FSIZE, ({0}, {0}))\n"
    sizes = {}
    for size, what in ((20_000, "a shard"), (870_000, "the result")):
        done = subprocess.run(
            [sys.executable, "-c", limited.format(size) + SCRIPT, folder, texts, out], capture_output=True, text=True,
            check=False,
        )  # fmt: skip
        assert done.returncode == 2, (what, done.stdout[-500:], done.stderr[-500:])
        assert "cannot be written: " in done.stdout
        assert "every finished shard is kept" in done.stdout
        assert not list(out.glob("**/*.partial"))
        sizes[what] = len(list(out.glob("shards/*.json")))
    assert sizes == {"a shard": 0, "the result": 12}
    shown = Counting()
    options = {"shard_size": 2, "batch_size": 2, "threads": 1}
    result = run(str(folder), str(texts), out=out, progress=shown, **options)
    assert shown.kept == 24
    assert result.file.stat().st_size > 870_000
    same_bytes(result, run(str(folder), str(texts), **options))


def test_a_folder_that_cannot_be_written(tiny: Tiny, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("x")
    for out in (file, file / "below", Path("/proc/nothing/here")):
        with pytest.raises(HeadscopeError, match=r"is no folder|cannot be"):
            run(tiny("gpt2"), TEXTS, out=out)


def test_a_stream_that_breaks_in_the_middle_keeps_what_is_finished(
    tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headscope.runs.deal.HELD", 500)  # characters that are read ahead

    def texts(broken: bool) -> Iterator[str]:
        yield from TEXTS[:18]
        if broken:
            raise HeadscopeError("the disk with the texts went away", "mount it")
        yield from TEXTS[18:]

    with pytest.raises(HeadscopeError, match="went away"):
        run(tiny("gpt2"), texts(True), out=tmp_path / "run", shard_size=2)
    assert len(list((tmp_path / "run" / "shards").glob("*.json"))) == 9
    shown = Counting()
    again = run(tiny("gpt2"), texts(False), out=tmp_path / "run", shard_size=2, progress=shown)
    assert shown.kept == 18
    same_bytes(again, run(tiny("gpt2"), TEXTS, shard_size=2))


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


NO_PLAN = {"schema": 1, "settings": {}, "model": {}, "texts": {}, "versions": {}, "finished": False,
           "plan": {"batches": []}}  # fmt: skip


@pytest.mark.parametrize("told", ['{"schema": 1, "settings": {}}', "[]", "{", json.dumps(NO_PLAN)])
def test_a_damaged_run_file_is_refused(told: str, tiny: Tiny, tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text(told)
    with pytest.raises(HeadscopeError, match=r"run\.json' cannot be read"):
        run(tiny("gpt2"), TEXTS, out=tmp_path)


def test_a_crash_in_the_first_moment_does_not_block_the_folder(tiny: Tiny, tmp_path: Path) -> None:
    (tmp_path / ".run.json.partial").write_text('{"schema"')
    run(tiny("gpt2"), TEXTS[:2], out=tmp_path)


def test_hostile_names_do_not_end_a_run(tiny: Tiny, tmp_path: Path) -> None:
    file = Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff.jsonl"))
    file.write_bytes(b'{"text": "A good text."}\n{"\\ud800": 1}\n{"text": "x", "id": "\\ud800"}\n')
    result = run(tiny("gpt2"), str(file), out=tmp_path / "run")
    assert (result.texts["texts"], result.texts["bad"]) == (2, 1)


def test_layers_that_only_one_stack_has(tiny: Tiny) -> None:
    result = run(tiny("t5"), TEXTS[:3], layers=[2])  # the decoder has two
    assert result.stacks == ("encoder",)
    assert result.dataset.layer.values.tolist() == [2]


def test_progress_counts_texts_whatever_the_windows(tiny: Tiny) -> None:
    shown = Counting()
    run(tiny("gpt2"), TEXTS, window=12, windows="all", shard_size=5, progress=shown)
    assert shown.state()["texts"] == len(TEXTS)
    assert shown.state()["seconds_left"] == 0


def test_strict_runs_fail_on_bad_records(tiny: Tiny, tmp_path: Path) -> None:
    texts = [*TEXTS[:3], "", 7]
    with pytest.raises(HeadscopeError, match=r"2 bad records among 3 texts: item 3: the text is empty; item 4"):
        run(tiny("gpt2"), texts, strict=True)
    with pytest.raises(HeadscopeError, match=r"2 bad records among 3 texts: item 3: the text is empty; item 4"):
        run(tiny("gpt2"), iter(texts), strict=True)
    shown = Counting()
    result = run(tiny("gpt2"), texts, progress=shown)
    assert result.texts["bad"] == 2
    assert "2 bad records were left out: item 3" in shown.said[-1]
    with pytest.raises(HeadscopeError, match="there are no texts"):
        run(tiny("gpt2"), ["", None])
    with pytest.raises(HeadscopeError, match="there are no texts"):
        run(tiny("gpt2"), [])


def test_running_out_of_memory_halves_the_batch(folder: Path, tmp_path: Path) -> None:
    """Really out of memory: the process may take only so much, and the first batches are far too large."""
    texts = tmp_path / "long.jsonl"
    texts.write_text("".join(json.dumps({"text": p["text"] * 3}) + "\n" for p in PASSAGES * 8))
    limit = (
        "import headscope, resource, os\nfrom headscope.runs import analyze\nimport pyarrow\n"
        "model = headscope.load(os.sys.argv[1])\n"
        "headscope.analyze(model, ['Warm. Up.'], window=250, progress=False, threads=1)\n"
        "now = int(open('/proc/self/statm').read().split()[0]) * 4096\n"
        "resource.setrlimit(resource.RLIMIT_AS, (now + 900_000_000,) * 2)\n"
        "headscope.analyze(model, os.sys.argv[2], out=os.sys.argv[3], window=250, batch_size=512, shard_size=512, "
        "threads=1, progress=headscope.runs.progress.Lines())\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", limit, folder, texts, tmp_path / "run"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    said = [line for line in done.stderr.splitlines() if "out of memory with" in line]
    assert said[0] == "out of memory with 512 windows in a batch: going on with 256"
    plan = json.loads((tmp_path / "run" / "run.json").read_text())["plan"]
    assert plan["batches"][-1][1] < 512
    result = headscope.Result.open(tmp_path / "run")
    assert int(result.dataset.texts) == len(PASSAGES) * 8


@pytest.mark.parametrize("choice", ["first", "all", "random"])
def test_long_texts_give_the_windows_that_were_asked_for(choice: str, tiny: Tiny) -> None:
    model = tiny("gpt2")
    text = PASSAGES[0]["text"]
    tokens = len(model.tokenizer(text)["input_ids"])
    result = run(model, [text], window=20, windows=choice)
    assert int(result.dataset.texts) == (-(-tokens // 20) if choice == "all" else 1)
    assert int(result.dataset.tokens.sum()) == (tokens if choice == "all" else 20)
    if choice == "random":
        seeds = {run(model, [text], window=20, windows=choice, seed=s).dataset.similarity_sum.values.tobytes()
                 for s in (1, 2, 3)}  # fmt: skip
        assert len(seeds) > 1
        again = run(model, [text], window=20, windows=choice)
        assert again.dataset.similarity_sum.values.tobytes() == result.dataset.similarity_sum.values.tobytes()


MEASURE = """
import sys, headscope
model = headscope.load(sys.argv[1])
texts = [p["text"] for p in headscope.passages()]
def stream(n):
    for k in range(n):
        yield texts[k % 64][: 200 + k % 97]
headscope.analyze(model, stream(int(sys.argv[2])), window=64, shard_size=100, batch_size=16, threads=2, progress=False)
from headscope.runs.plan import peak_memory
print(peak_memory())
"""


def test_memory_does_not_grow_with_the_number_of_texts(folder: Path) -> None:
    peaks = []
    for number in (300, 6000):
        done = subprocess.run([sys.executable, "-c", MEASURE, folder, str(number)], capture_output=True, text=True,
                              check=True, env=os.environ | {"HF_HUB_OFFLINE": "1"})  # fmt: skip
        peaks.append(int(done.stdout))
    assert peaks[1] <= 1.1 * peaks[0], peaks
