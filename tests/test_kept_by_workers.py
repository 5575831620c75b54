"""Workers put their shards into an object store themselves: whoever ends, nothing is lost or counted twice."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from crews import Killed, ThreadCrew
from headscope.errors import HeadscopeError
from headscope.runs.executing import Execution
from headscope.stores import Permit, claims, objects, open_store
from headscope.stores.store import ClaimLost
from remote import Faulty
from runs import TEXTS, Counting, StopAfter, run

OPTIONS: dict[str, Any] = {"shard_size": 3, "per_text": True, "threads": 1}
FILES = ("result.nc", "heads.parquet", "texts.parquet")
OUT = "faulty://run"
SHARDS = 8


@pytest.fixture(scope="module")
def local(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> list[bytes]:
    out = tmp_path_factory.mktemp("local") / "run"
    run(str(folder), TEXTS, out=out, **OPTIONS)
    return contents(str(out))


def contents(out: str) -> list[bytes]:
    return [open_store(out).read(name) for name in FILES]


@pytest.fixture
def crew(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Two workers in threads; signs of life come often, and patience is short."""
    monkeypatch.setattr("headscope.runs.engines.ProcessCrew", ThreadCrew)
    monkeypatch.setattr(claims, "BEAT", 0.05)
    monkeypatch.setattr(claims, "SILENCE", 0.5)
    monkeypatch.setattr(objects, "FIRST_PAUSE", 0.001)
    Faulty.clear()
    yield
    Faulty.clear()


def by_workers(folder: Path, **options: Any) -> None:
    run(str(folder), TEXTS, out=OUT, **(OPTIONS | {"workers": 2} | options))


class DieAfter:
    """The first worker that has put an object of this kind ends at that moment."""

    def __init__(self, pattern: str) -> None:
        self.pattern, self.ended = pattern, 0

    def __call__(self, path: str) -> None:
        in_worker = threading.current_thread().name.startswith("worker")
        if in_worker and not self.ended and re.search(self.pattern, path):
            self.ended += 1
            raise Killed


@pytest.mark.usefixtures("crew")
@pytest.mark.parametrize(
    "moment", [r"000002-\w+\.h5$", r"000002-\w+\.heads\.parquet$", r"000002\.json$"], ids=["data", "table", "record"]
)
def test_a_worker_that_ends_after_a_put_costs_one_try(moment: str, folder: Path, local: list[bytes]) -> None:
    Faulty.after_put = dies = DieAfter(moment)
    shown = Counting()
    by_workers(folder, progress=shown)
    assert dies.ended == 1
    assert [said for said in shown.said if "is tried again" in said] == [
        "a worker ended in shard 2 (killed by the test): the shard is tried again"
    ]
    assert contents(OUT) == local
    put = [path for path in Faulty.writers if "/shards/" in path]
    assert len(put) == SHARDS * (1 + len(FILES))  # what was put twice has one name
    assert {Faulty.writers[path].split()[0] for path in put} == {"worker"}
    assert not open_store(OUT).names("shards")


@pytest.mark.usefixtures("crew")
@pytest.mark.parametrize("faults", [{}, {"half": True}, {"lost": True}], ids=lambda each: next(iter(each), "throttled"))
def test_faults_of_the_store_lose_nothing(
    faults: dict[str, Any], folder: Path, local: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    Faulty.clear(rate=0.3, lag=4, **faults)
    monkeypatch.setattr(objects, "TRIES", 12)
    by_workers(folder)
    assert Faulty.failed > 20
    Faulty.rate = 0.0
    assert contents(OUT) == local


@pytest.mark.usefixtures("crew")
def test_what_workers_kept_is_found_though_the_driver_ended_before_it_knew(
    folder: Path, local: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = Execution.keep

    def ends(self: Execution, done: Any) -> None:
        if len(self.finished) == 3:
            raise InterruptedError("the driver ends with a receipt in its hands")
        kept(self, done)

    monkeypatch.setattr(Execution, "keep", ends)
    with pytest.raises(InterruptedError):
        by_workers(folder)
    monkeypatch.setattr(Execution, "keep", kept)
    shown = Counting()
    by_workers(folder, progress=shown)
    assert shown.kept >= 4 * 3
    assert contents(OUT) == local


@pytest.mark.usefixtures("crew")
def test_shards_that_are_not_whole_or_of_other_settings_are_not_used(folder: Path, local: list[bytes]) -> None:
    with pytest.raises(InterruptedError):
        by_workers(folder, progress=StopAfter(4), workers=1)
    store = open_store(OUT)
    (half,) = (name for name in store.names("shards") if re.search(r"000000-\w+\.h5$", name))
    store.write(half, store.read(half)[:100])
    (lost,) = (name for name in store.names("shards") if re.search(r"000001-\w+\.heads\.parquet$", name))
    store.remove(lost)
    record = json.loads(store.read("shards/000002.json"))
    store.write(
        "shards/000002.json",
        json.dumps(record | {"about": record["about"].replace('"texts": 3', '"texts": 4')}).encode(),
    )
    shown = Counting()
    by_workers(folder, progress=shown, workers=1)
    again = "is damaged or of another run, and is computed again"
    assert [said for said in shown.said if again in said] == [f"shard {number} {again}" for number in range(3)]
    assert shown.kept >= 3
    assert contents(OUT) == local

    Faulty.clear()  # the same texts, begun with other settings, and run.json is gone
    with pytest.raises(InterruptedError):
        by_workers(folder, progress=StopAfter(2), workers=1, window=16)
    store.remove("run.json")
    shown = Counting()
    by_workers(folder, progress=shown, workers=1)
    assert shown.kept == 0
    assert contents(OUT) == local


@pytest.mark.usefixtures("crew")
def test_workers_of_a_driver_that_lost_its_claim_write_nothing_that_counts(
    folder: Path, local: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claims, "_is_dead", lambda claim: False)
    holders: list[Any] = []
    begin = claims.ObjectClaim.__init__

    def noted(self: Any, store: Any) -> None:
        begin(self, store)
        holders.append(self)

    monkeypatch.setattr(claims.ObjectClaim, "__init__", noted)

    class Suspended(Counting):
        def shard(self) -> None:
            super().shard()
            if self.shards_done == 2:
                holders[0]._ended.set()
                holders[0]._thread.join()
                by_workers(folder)
                Faulty.writers.clear()

    with pytest.raises(ClaimLost, match="has taken over the run"):
        by_workers(folder, progress=Suspended())
    assert not [path for path in Faulty.writers if "/shards/" in path]
    assert contents(OUT) == local
    shown = Counting()
    by_workers(folder, progress=shown)
    assert shown.said == ["the run is finished already"]
    assert not open_store(OUT).names("shards")


@pytest.mark.usefixtures("crew")
def test_workers_that_have_another_store_hand_their_shards_over(
    folder: Path, local: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claims.ObjectClaim, "permit", property(lambda self: Permit(OUT, self.number, "another")))
    shown = Counting()
    by_workers(folder, progress=shown)
    notes = [said for said in shown.said if "hands them over here" in said]
    assert len(notes) == 1
    assert notes[0].endswith("hands them over here: 'faulty://run' is another store here")
    assert {name for path, name in Faulty.writers.items() if "/shards/" in path} == {"MainThread"}
    assert contents(OUT) == local


@pytest.mark.usefixtures("crew")
def test_a_store_that_workers_lose_ends_the_run_which_goes_on_later(folder: Path, local: list[bytes]) -> None:
    class Away(Counting):
        def shard(self) -> None:
            super().shard()
            if self.shards_done == 3:
                Faulty.rate = 1.0

    with pytest.raises(HeadscopeError, match=r"faulty://run/.*cannot be.*503 Slow Down.*every finished shard is kept"):
        by_workers(folder, progress=Away())
    Faulty.rate = 0.0
    shown = Counting()
    by_workers(folder, progress=shown)
    assert shown.kept >= 9
    assert contents(OUT) == local


@pytest.mark.usefixtures("crew")
def test_kinds_of_machines_that_join_are_written_down(
    folder: Path, local: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    names = iter(["one", "other", "other"])
    monkeypatch.setattr("headscope.runs.local_engine.kind_of_machine", lambda device: next(names))
    shown = Counting()
    by_workers(folder, progress=shown)
    assert json.loads(open_store(OUT).read("run.json"))["machines"] == ["one", "other"]
    assert [said for said in shown.said if "of different kinds (one; other)" in said]
    assert contents(OUT) == local


DIES_ONCE = """
import os, pathlib, signal
from headscope.runs.folder import ShardWriter
put = ShardWriter.put
def dies_once(self, shard, data, tables):
    done = put(self, shard, data, tables)
    try:
        pathlib.Path({mark!r}).touch(exist_ok=False)
    except FileExistsError:
        return done
    os.kill(os.getpid(), signal.SIGKILL)
ShardWriter.put = dies_once
"""


def test_processes_put_their_shards_into_s3(
    s3: str, folder: Path, local: list[bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first to have kept a shard is killed before it can say so."""
    from headscope.runs import process_crew

    (tmp_path / "dies_once.py").write_text(DIES_ONCE.format(mark=str(tmp_path / "mark")))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(process_crew, "STARTED_BY", f"import dies_once; {process_crew.STARTED_BY}")
    handed_over: list[Any] = []
    keep = Execution.keep
    monkeypatch.setattr(Execution, "keep", lambda self, done: (handed_over.append(done), keep(self, done)))
    shown = Counting()
    out = f"{s3}/processes"
    run(str(folder), TEXTS, out=out, workers=2, progress=shown, **OPTIONS)
    assert contents(out) == local
    assert not open_store(out).names("shards")
    assert {type(each).__name__ for each in handed_over} == {"FinishedShard"}
    assert len([said for said in shown.said if "is tried again" in said]) == 1, shown.said
