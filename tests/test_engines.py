"""Several processes compute what one does, to the last byte, and lose nothing when some of them end."""

from __future__ import annotations

import importlib
import json
import os
import signal
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

import headscope
from crews import Gate, Killed, ThreadCrew
from headscope.errors import HeadscopeError
from headscope.models.spec import ModelSpec
from headscope.runs import shift
from headscope.runs.computer import ShardComputer
from headscope.runs.process_crew import ProcessCrew
from runs import TEXTS, Counting, Tiny, run, stop_after

FILES = ("result.nc", "heads.parquet", "texts.parquet")
OPTIONS: dict[str, Any] = {"shard_size": 3, "per_text": True, "threads": 1}


def contents(out: Path) -> list[bytes]:
    return [(out / name).read_bytes() for name in FILES]


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Two files, which workers look through and read themselves."""
    made = tmp_path_factory.mktemp("texts")
    for name, part in (("a.jsonl", TEXTS[:10]), ("b.jsonl", TEXTS[10:])):
        (made / name).write_text("".join(json.dumps({"text": text}) + "\n" for text in part))
    return str(made)


@pytest.fixture(scope="module")
def local(folder: Path, texts: str, tmp_path_factory: pytest.TempPathFactory) -> list[bytes]:
    """What one process gives."""
    out = tmp_path_factory.mktemp("local") / "run"
    run(str(folder), texts, out=out, **OPTIONS)
    return contents(out)


def workers_of(process: int) -> list[psutil.Process]:
    return [child for child in psutil.Process(process).children() if "process_worker" in " ".join(child.cmdline())]


class KillOne(Counting):
    """Kills the first of two workers, which a gate holds in a shard, when the other is ready; then opens the gate."""

    def __init__(self, gate: Gate) -> None:
        super().__init__()
        self.gate, self.killed = gate, 0

    def working(self, workers: int) -> None:
        super().working(workers)
        if workers == 2 and not self.killed:
            victim = min(workers_of(os.getpid()), key=psutil.Process.create_time)
            self.killed = victim.pid
            victim.send_signal(signal.SIGKILL)
            self.gate.open()


def test_processes_give_the_bytes_of_one(folder: Path, texts: str, tmp_path: Path) -> None:
    gate = Gate(tmp_path / "open")
    options = OPTIONS | {"relations": {"own": gate}}
    run(str(folder), texts, out=tmp_path / "local", **options)
    shown = KillOne(gate)
    run(str(folder), texts, out=tmp_path / "run", workers=2, progress=shown, **options)
    assert shown.killed
    assert contents(tmp_path / "run") == contents(tmp_path / "local")
    assert shown.shards_done == 8
    assert not workers_of(os.getpid())
    (tried,) = (said for said in shown.said if "is tried again" in said)
    assert f"(process {shown.killed}, killed by signal 9)" in tried


def test_a_run_begun_here_goes_on_with_workers(folder: Path, texts: str, local: list[bytes], tmp_path: Path) -> None:
    stop_after(str(folder), texts, tmp_path / "run", shards=3, **OPTIONS)
    shown = Counting()
    run(headscope.load(str(folder)), texts, out=tmp_path / "run", workers=1, progress=shown, **OPTIONS)
    assert shown.kept == 9
    assert contents(tmp_path / "run") == local


DEADLY = """
import os, pathlib, signal
from crews import Killed
def deadly(window):
    if "kills" in window.texts[0] and not pathlib.Path({cured!r}).exists():
        if {in_threads}:
            raise Killed
        os.kill(os.getpid(), signal.SIGKILL)
    return [0] * len(window)
"""


@pytest.mark.parametrize(
    ("in_threads", "how"), [(True, "killed by the test"), pytest.param(False, "signal 9", marks=pytest.mark.long)]
)
def test_a_shard_that_ends_every_worker_is_named_and_put_aside(
    in_threads: bool, how: str, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who gives up when is decided in one place, whatever workers are; that processes end is shown above."""
    cured, module = tmp_path / "cured", f"deadly_{in_threads}"
    (tmp_path / f"{module}.py").write_text(DEADLY.format(cured=str(cured), in_threads=in_threads))
    monkeypatch.syspath_prepend(tmp_path)
    if in_threads:
        monkeypatch.setattr("headscope.runs.engines.ProcessCrew", ThreadCrew)
    relations = {"own": importlib.import_module(module).deadly}
    texts = [("first", TEXTS[0]), ("second", TEXTS[1]), ("third", "This one kills."), ("fourth", TEXTS[3])]
    options = {"out": tmp_path / "run", "shard_size": 1, "threads": 1, "workers": 1, "relations": relations}
    shown = Counting()
    with pytest.raises(HeadscopeError, match=rf"is incomplete: .* shard 2 \(1 texts: third\), .*{how}") as raised:
        run(str(folder), texts, progress=shown, **options)
    assert "the same command tries these again" in raised.value.remedy
    assert len([said for said in shown.said if "is tried again" in said]) == shift.TRIES - 1
    assert len(list((tmp_path / "run" / "shards").glob("*.json"))) == 3
    assert not json.loads((tmp_path / "run" / "run.json").read_text())["finished"]
    cured.touch()
    again = Counting()
    run(str(folder), texts, progress=again, **options)
    assert again.kept == 3
    assert json.loads((tmp_path / "run" / "run.json").read_text())["finished"]


def test_workers_for_whom_there_is_no_room_keep_nobody_waiting(
    folder: Path, texts: str, local: list[bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither the look through the texts, nor shards, nor the tokens' names at the end wait for them."""
    monkeypatch.setattr("headscope.runs.engines.ProcessCrew", ThreadCrew)
    monkeypatch.setattr("headscope.runs.roster.PATIENCE", 0.0)
    monkeypatch.setattr(ThreadCrew, "room", 1)
    ends = iter([True])

    class Ends(Counting):
        def shard(self) -> None:
            super().shard()
            if self.shards_done == 3:
                monkeypatch.setattr(
                    ShardComputer, "shard", lambda *given: kills() if next(ends, False) else one(*given)
                )

    def kills() -> None:
        raise Killed

    one, shown = ShardComputer.shard, Ends()
    run(str(folder), texts, out=tmp_path / "run", workers=4, progress=shown, **OPTIONS)
    assert contents(tmp_path / "run") == local
    assert shown.said[0] == "there is room for 1"
    assert len([said for said in shown.said if "is tried again" in said]) == 1


def test_a_model_that_workers_cannot_load_is_told_in_its_own_words(tmp_path: Path) -> None:
    with pytest.raises(HeadscopeError, match="there is no file or folder"):
        run(str(tmp_path / "nowhere"), TEXTS, out=tmp_path / "run", workers=1)


def test_a_worker_that_fails_to_load_its_model_is_replaced(
    folder: Path, texts: str, local: list[bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once is an accident; again and again it is told."""
    monkeypatch.setattr("headscope.runs.engines.ProcessCrew", ThreadCrew)
    load, fails = ModelSpec.load, iter([True, True])

    def loaded(self: ModelSpec) -> Any:
        if next(fails, False):
            raise RuntimeError("the card is busy")
        return load(self)

    monkeypatch.setattr(ModelSpec, "load", loaded)
    run(str(folder), texts, out=tmp_path / "run", workers=1, **OPTIONS)
    assert contents(tmp_path / "run") == local
    fails = iter([True] * 9)
    with pytest.raises(HeadscopeError, match=r"3 workers in a row ended.*RuntimeError: the card is busy"):
        run(str(folder), texts, out=tmp_path / "other", workers=1, **OPTIONS)


def test_workers_that_end_before_they_are_ready_do_not_go_on_for_ever(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headscope.runs.process_crew.STARTED_BY", "import sys; sys.exit('no room here')")
    with pytest.raises(HeadscopeError, match=r"3 workers in a row ended before they were ready.*no room here"):
        run(str(folder), TEXTS, out=tmp_path / "run", workers=2)


STARTED = "import time; time.sleep(60)"


@pytest.mark.parametrize(("visible", "cards"), [(None, "0 1 0"), ("3,5", "3 5 3")])
def test_workers_share_out_the_graphics_cards(
    visible: str | None, cards: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if visible is None:
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    else:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    monkeypatch.setattr("torch.cuda.device_count", lambda: 2)
    monkeypatch.setattr("headscope.runs.process_crew.STARTED_BY", STARTED)
    crew = ProcessCrew(ModelSpec(str(folder)), 3, 1)
    seen = [_card_of(crew, crew.hire()) for _ in range(3)]
    assert " ".join(seen) == cards
    crew.dismiss(2)
    assert _card_of(crew, crew.hire()) == cards.split()[1]  # the one that is free
    crew.close()


def _card_of(crew: ProcessCrew, worker: int) -> str:
    process, deadline = psutil.Process(crew._processes[worker].popen.pid), time.monotonic() + 30
    while "-c" not in process.cmdline() or STARTED not in " ".join(process.cmdline()):  # it is still its parent's copy
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return process.environ()["CUDA_VISIBLE_DEVICES"]


def test_what_cannot_travel_is_refused(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(HeadscopeError, match=r"cannot be sent to other processes.*in a module"):
        run(str(folder), TEXTS[:2], out=tmp_path / "a", workers=1, relations={"own": lambda window: [0] * len(window)})
    model = headscope.load(str(folder))
    model.spec = None
    with pytest.raises(HeadscopeError, match=r"was not loaded by headscope\.load"):
        run(model, TEXTS[:2], out=tmp_path / "c", workers=1)


@pytest.mark.long
def test_a_network_that_was_changed_is_not_what_workers_load(folder: Path, tmp_path: Path) -> None:
    model = headscope.load(str(folder))
    next(model.network.parameters()).data.add_(1)
    with pytest.raises(HeadscopeError, match="are not those that workers load under its name"):
        run(model, TEXTS[:2], out=tmp_path / "b", workers=1)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"workers": 0}, "workers=0"),
        ({"engine": "spark"}, "use one of local, ray"),
        ({"ray_address": "auto"}, "ask for it: --engine ray"),
        ({"engine": "ray", "gpus_per_worker": -1}, "gpus_per_worker=-1"),
    ],
)
def test_options_that_make_no_sense_are_refused(options: dict[str, Any], said: str, tiny: Tiny) -> None:
    with pytest.raises(HeadscopeError, match=said):
        run(tiny("gpt2"), TEXTS[:2], **options)


def test_a_worker_ends_with_the_process_that_began_it(folder: Path) -> None:
    told, tell = os.pipe()
    child = os.fork()
    if not child:
        crew = ProcessCrew(ModelSpec(str(folder)), 1, 1)
        crew.hire()
        (worker,) = crew._processes.values()
        os.write(tell, str(worker.popen.pid).encode())
        os.kill(os.getpid(), signal.SIGKILL)
    os.close(tell)
    os.waitpid(child, 0)
    worker = _process(int(os.read(told, 20)))
    os.close(told)
    deadline = time.monotonic() + 60
    while _lives(worker) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not _lives(worker)


def _process(number: int) -> psutil.Process | None:
    try:
        return psutil.Process(number)
    except psutil.NoSuchProcess:
        return None


def _lives(process: psutil.Process | None) -> bool:
    """Whether it is there and more than an entry that nobody has collected yet."""
    try:
        return process is not None and process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
