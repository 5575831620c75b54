"""Runs lose nothing that is finished, whatever goes wrong: locks, signals, disks, memory, bad records."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import headscope
from headscope.errors import HeadscopeError
from runs import PASSAGES, TEXTS, Counting, StopAfter, Tiny, run, same_bytes

# ---------------------------------------------------------------------- locks and Ctrl-C


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


@pytest.mark.long
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
    assert any(f"the last attempt (process {started.pid}" in said for said in shown.said)
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


# ---------------------------------------------------------------------- disks and streams

SCRIPT = """
import sys, headscope
from headscope.errors import HeadscopeError
try:
    headscope.analyze(sys.argv[1], sys.argv[2], out=sys.argv[3], shard_size=2, batch_size=2, threads=1, progress=False)
except HeadscopeError as error:
    print(error)
    sys.exit(2)
"""


@pytest.mark.long
def test_a_full_disk_keeps_what_is_finished(folder: Path, tmp_path: Path) -> None:
    """A limit on the size of files stands in for the full disk: the same error, from the same call.

    A result reserves as much as it can take at most before it is written.
    """
    texts, out = tmp_path / "few.jsonl", tmp_path / "run"
    texts.write_text("".join(json.dumps({"text": text}) + "\n" for text in TEXTS))
    limited = "import resource\nresource.setrlimit(resource.RLIMIT_FSIZE, ({0}, {0}))\n"
    sizes = {}
    for size, what in ((20_000, "a shard"), (1_100_000, "the result")):
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
    same_bytes(result, run(str(folder), str(texts), **options))


def test_a_folder_that_cannot_be_written(tiny: Tiny, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("x")
    for out in (file, file / "below", Path("/proc/nothing/here")):
        with pytest.raises(HeadscopeError, match=r"is not a folder|cannot be"):
            run(tiny("gpt2"), TEXTS, out=out)


def test_a_stream_that_breaks_in_the_middle_keeps_what_is_finished(
    tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headscope.runs.deal.MOST_CHARACTERS", 500)  # characters that are read ahead

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


# ---------------------------------------------------------------------- memory


@pytest.mark.long
def test_running_out_of_memory_halves_the_batch(folder: Path, tmp_path: Path) -> None:
    """Really out of memory: the process may take only so much, and the first batches are far too large."""
    texts = tmp_path / "long.jsonl"
    texts.write_text("".join(json.dumps({"text": p["text"] * 3}) + "\n" for p in PASSAGES * 6))
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
    assert int(result.dataset.texts) == len(PASSAGES) * 6


def test_tables_that_cannot_fit_are_refused_at_once(tiny: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    memory = psutil.virtual_memory()
    monkeypatch.setattr(psutil, "virtual_memory", lambda: memory._replace(available=1_000_000))
    with pytest.raises(HeadscopeError, match=r"the tables of counts take 0\.0 GB of memory.*take fewer layers"):
        run(tiny("gpt2"), TEXTS[:2])


MEASURE = """
import sys, headscope
model = headscope.load(sys.argv[1])
texts = [p["text"] for p in headscope.passages()]
def stream(n):
    for k in range(n):
        yield texts[k % 64][: 200 + k % 97]
headscope.analyze(model, stream(int(sys.argv[2])), window=64, shard_size=100, batch_size=16, threads=2, progress=False)
from headscope.runs.capacity import peak_memory
print(peak_memory())
"""


@pytest.mark.long
def test_memory_does_not_grow_with_the_number_of_texts(folder: Path) -> None:
    assert_memory_stays(folder, 1500)


@pytest.mark.long
def test_memory_does_not_grow_with_thousands_of_texts(folder: Path) -> None:
    assert_memory_stays(folder, 6000)


def assert_memory_stays(folder: Path, most: int) -> None:
    peaks = []
    for number in (300, most):
        done = subprocess.run([sys.executable, "-c", MEASURE, folder, str(number)], capture_output=True, text=True,
                              check=True, env=os.environ | {"HF_HUB_OFFLINE": "1"})  # fmt: skip
        peaks.append(int(done.stdout))
    assert peaks[1] <= 1.1 * peaks[0], peaks


# ---------------------------------------------------------------------- bad records

ITEMS = st.one_of(
    st.none(), st.integers(), st.floats(), st.binary(max_size=5), st.text(max_size=30),
    st.tuples(st.integers(), st.text(max_size=9)),
    st.tuples(st.text(max_size=3), st.text(max_size=9), st.text(max_size=2)),
    st.dictionaries(st.sampled_from(["text", "id", "body"]), st.one_of(st.none(), st.text(max_size=9)), max_size=3),
    st.lists(st.integers(), max_size=4),
)  # fmt: skip


@settings(max_examples=3, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(items=st.lists(ITEMS, max_size=60))
def test_bad_records_never_crash_a_run(items: list[Any], tiny: Tiny) -> None:
    run_with(items, tiny)


@pytest.mark.long
@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(items=st.lists(ITEMS, max_size=10))
def test_many_bad_records_never_crash_a_run(items: list[Any], tiny: Tiny) -> None:
    run_with(items, tiny)


def run_with(items: list[Any], tiny: Tiny) -> None:
    every = ["A good text stands first.", *items]
    result = run(tiny("gpt2"), every)
    told = result.texts
    assert told["texts"] + told["bad"] + told["refused"] == len(every)
    assert int(result.dataset.texts) == told["texts"] >= 1


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


def test_hostile_names_do_not_end_a_run(tiny: Tiny, tmp_path: Path) -> None:
    file = Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff.jsonl"))
    file.write_bytes(b'{"text": "A good text."}\n{"\\ud800": 1}\n{"text": "x", "id": "\\ud800"}\n')
    result = run(tiny("gpt2"), str(file), out=tmp_path / "run")
    assert (result.texts["texts"], result.texts["bad"]) == (2, 1)
