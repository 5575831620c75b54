"""Stores keep what they are given, whole or not at all, and one process at a time works in each of them."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path
from typing import Any

import fsspec
import pytest

import headscope
from headscope.errors import HeadscopeError
from headscope.runs.folder import RunFolder
from headscope.stores import Store, claims, objects, open_store
from headscope.stores.store import ClaimLost
from remote import Faulty
from runs import TEXTS, Counting, Tiny, run, same_bytes, stop_after

OPTIONS: dict[str, Any] = {"shard_size": 4, "per_text": True, "threads": 1}
FILES = ("result.nc", "heads.parquet", "texts.parquet")


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Signs of life come often, and patience is short."""
    monkeypatch.setattr(claims, "BEAT", 0.05)
    monkeypatch.setattr(claims, "SILENCE", 0.5)
    monkeypatch.setattr(objects, "FIRST_PAUSE", 0.001)


@pytest.fixture(params=["disk", "memory", "s3"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    if request.param == "disk":
        return open_store(tmp_path / "run")
    if request.param == "memory":
        return open_store(f"memory://{tmp_path.name}")
    return open_store(f"{request.getfixturevalue('s3')}/{tmp_path.name}")


def test_every_store_keeps_what_it_is_given(store: Store, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        store.read("a")
    assert not store.is_whole("a", 0, "")
    assert store.names() == []
    store.write("a", b"one")
    store.write("a", b"two!")
    store.write("below/b.json", b"{}")
    store.write("below/c", bytes(range(256)) * 5000)
    assert store.read("a") == b"two!"
    assert store.size("a") == 4
    assert store.names() == ["a", "below/b.json", "below/c"]
    assert store.names("below") == ["below/b.json", "below/c"]
    content = store.at_hand("below/c")
    assert (content.read_bytes() if isinstance(content, Path) else content) == bytes(range(256)) * 5000
    store.remove("below/b.json")
    store.remove("below/b.json")  # twice is once
    assert store.names("below") == ["below/c"]
    with store.making("large", 10) as file:
        file.write_bytes(b"large")
    assert store.read("large") == b"large"


@pytest.mark.usefixtures("quick")
def test_one_process_at_a_time(store: Store) -> None:
    first = store.claim()
    with pytest.raises(HeadscopeError, match=r"another process is working in .*: process"):
        open_store(store.name).claim()
    first.check()
    first.release()
    second = open_store(store.name).claim()
    assert second.stale == ""
    second.release()


@pytest.mark.usefixtures("quick")
def test_of_many_that_claim_at_once_one_can() -> None:
    Faulty.clear(lag=3)
    begun, won, lost = threading.Barrier(8), [], []

    def claim() -> None:
        begun.wait()
        try:
            won.append(open_store("faulty://race").claim())
        except HeadscopeError as error:
            lost.append(str(error))

    threads = [threading.Thread(target=claim) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(won) == 1
    assert len(lost) == 7
    won[0].release()


@pytest.mark.usefixtures("quick")
def test_a_holder_that_was_away_learns_that_another_has_taken_over(monkeypatch: pytest.MonkeyPatch) -> None:
    Faulty.clear(lag=2)
    away = RunFolder("faulty://away")
    away.claim._ended.set()  # type: ignore[attr-defined]  # its signs of life end: a machine that is suspended
    away.claim._thread.join()  # type: ignore[attr-defined]
    monkeypatch.setattr(claims, "_is_dead", lambda claim: False)  # it is of another machine
    began = time.monotonic()
    other = RunFolder("faulty://away")
    assert time.monotonic() - began >= claims.SILENCE
    assert "process" in other.claim.stale
    with pytest.raises(ClaimLost, match="has taken over"):
        away.claim.check()
    other.claim.check()
    other.close()


@pytest.mark.parametrize("kind", ["overwriting", "looksfirst"])
def test_a_store_in_which_two_could_win_is_refused(kind: str, tiny: Tiny) -> None:
    with pytest.raises(HeadscopeError, match=r"has no conditional create.*conditional puts"):
        run(tiny("gpt2"), TEXTS[:2], out=f"{kind}://run")


def test_addresses_that_cannot_be_used_are_told(tiny: Tiny) -> None:
    with pytest.raises(HeadscopeError, match=r"begin with nosuch:// cannot be read.*use s3://"):
        run(tiny("gpt2"), TEXTS[:2], out="nosuch://run")
    with pytest.raises(HeadscopeError, match="holds no result"):
        headscope.Result.open("memory://nothing/here")


# ---------------------------------------------------------------------- whole runs


@pytest.fixture(scope="module")
def local(tiny: Tiny, tmp_path_factory: pytest.TempPathFactory) -> list[bytes]:
    out = tmp_path_factory.mktemp("local") / "run"
    run(tiny("gpt2"), TEXTS, out=out, **OPTIONS)
    return [(out / name).read_bytes() for name in FILES]


@pytest.mark.parametrize("place", ["memory", "s3"])
def test_a_run_on_an_object_store_is_the_same_run(
    place: str, tiny: Tiny, local: list[bytes], request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    base = "memory:/" if place == "memory" else request.getfixturevalue("s3")
    out = f"{base}/{tmp_path.name}/run"
    stop_after(tiny("gpt2"), TEXTS, out, shards=3, **OPTIONS)  # type: ignore[arg-type]
    shown = Counting()
    result = run(tiny("gpt2"), TEXTS, out=out, progress=shown, **OPTIONS)
    assert shown.kept == 12
    assert [open_store(out).read(name) for name in FILES] == local
    assert not open_store(out).names("shards")
    assert len(result.examples(0, 0, "high_pairs", k=2)) <= 2
    again = Counting()
    run(tiny("gpt2"), TEXTS, out=out, progress=again, **OPTIONS)
    assert again.said == ["the run is finished already"]
    result = headscope.Result.open(f"{out}/result.nc")
    assert int(result.dataset.texts) == len(TEXTS)


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("faults", [{}, {"half": True}, {"lost": True}], ids=lambda each: next(iter(each), "throttled"))
def test_faults_lose_nothing_and_count_nothing_twice(
    faults: dict[str, Any], tiny: Tiny, local: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    Faulty.clear(rate=0.3, lag=4, **faults)
    monkeypatch.setattr(objects, "TRIES", 12)
    run(tiny("gpt2"), TEXTS, out="faulty://run", **OPTIONS)
    assert Faulty.failed > 20
    Faulty.rate = 0.0
    assert [open_store("faulty://run").read(name) for name in FILES] == local


@pytest.mark.usefixtures("quick")
def test_a_store_that_stays_away_ends_the_run_which_goes_on_later(tiny: Tiny, local: list[bytes]) -> None:
    Faulty.clear()

    class Away(Counting):
        def shard(self) -> None:
            super().shard()
            if self.shards_done == 3:
                Faulty.rate = 1.0

    with pytest.raises(HeadscopeError, match=r"faulty://run/.*cannot be.*503 Slow Down.*every finished shard is kept"):
        run(tiny("gpt2"), TEXTS, out="faulty://run", progress=Away(), **OPTIONS)
    Faulty.rate = 0.0
    shown = Counting()
    run(tiny("gpt2"), TEXTS, out="faulty://run", progress=shown, **OPTIONS)
    assert shown.kept >= 12
    assert [open_store("faulty://run").read(name) for name in FILES] == local


@pytest.mark.usefixtures("quick")
def test_two_writers_cannot_both_win(tiny: Tiny, local: list[bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    """One is suspended in the middle of its run; another takes over and finishes; the first wakes up."""
    Faulty.clear()
    monkeypatch.setattr(claims, "_is_dead", lambda claim: False)

    class Suspended(Counting):
        def shard(self) -> None:
            super().shard()
            if self.shards_done == 2:
                holder = holders[0]
                holder._ended.set()
                holder._thread.join()
                run(tiny("gpt2"), TEXTS, out="faulty://run", **OPTIONS)

    holders: list[Any] = []
    whole = claims.ObjectClaim.__init__

    def noted(self: Any, store: Any) -> None:
        whole(self, store)
        holders.append(self)

    monkeypatch.setattr(claims.ObjectClaim, "__init__", noted)
    with pytest.raises(ClaimLost, match="has taken over the run"):
        run(tiny("gpt2"), TEXTS, out="faulty://run", progress=Suspended(), **OPTIONS)
    assert [open_store("faulty://run").read(name) for name in FILES] == local
    assert json.loads(open_store("faulty://run").read("run.json"))["finished"]
    shown = Counting()
    run(tiny("gpt2"), TEXTS, out="faulty://run", progress=shown, **OPTIONS)
    assert shown.said == ["the run is finished already"]


def test_texts_are_read_from_an_object_store(s3: str, tiny: Tiny, tmp_path: Path) -> None:
    import pandas as pd

    rows = [{"text": text, "id": str(k)} for k, text in enumerate(TEXTS)]
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    files = fsspec.filesystem("s3")
    files.pipe_file("bucket/texts/a.jsonl", "".join(lines.splitlines(keepends=True)[:10]).encode())
    import gzip

    files.pipe_file("bucket/texts/b.jsonl.gz", gzip.compress("".join(lines.splitlines(keepends=True)[10:]).encode()))
    files.pipe_file("bucket/texts/notes.png", b"no text")
    frame = tmp_path / "c.parquet"
    pd.DataFrame(rows).to_parquet(frame)
    files.put_file(str(frame), "bucket/table/c.parquet")
    (tmp_path / "all.jsonl").write_text(lines)
    local = run(tiny("gpt2"), str(tmp_path / "all.jsonl"), out=tmp_path / "local", shard_size=4)
    for number, source in enumerate((f"{s3}/texts", f"{s3}/texts/*.jsonl*", f"{s3}/table/c.parquet")):
        same_bytes(local, run(tiny("gpt2"), source, out=tmp_path / str(number), shard_size=4))
    both = headscope.texts.corpus.open_paths([f"{s3}/texts/a.jsonl", f"{s3}/texts/b.jsonl.gz"])
    same_bytes(local, run(tiny("gpt2"), both, out=tmp_path / "both", shard_size=4))
    with pytest.raises(HeadscopeError, match="there are no texts at 's3://bucket/nothing'"):
        run(tiny("gpt2"), f"{s3}/nothing")
