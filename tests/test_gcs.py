"""Runs on Google's storage, through gcsfs and an emulator of this machine."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from headscope.errors import HeadscopeError
from headscope.stores import claims, objects, open_store
from remote import gcs_server
from runs import TEXTS, Counting, Tiny, run

pytestmark = pytest.mark.long  # the packages are many, and only contributors have them
FILES = ("result.nc", "heads.parquet", "texts.parquet")
LARGE = bytes(6 << 20)  # beyond 5 MiB gcsfs uploads in chunks, by other calls


@contextmanager
def storage(conditional: bool, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    import gcsfs

    with gcs_server(conditional=conditional) as address:
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", address)
        gcsfs.GCSFileSystem.clear_instance_cache()
        yield
    gcsfs.GCSFileSystem.clear_instance_cache()


def test_two_writers_cannot_both_win_on_gcs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claims, "BEAT", 0.1)
    monkeypatch.setattr(claims, "SILENCE", 1.0)
    monkeypatch.setattr(objects, "FIRST_PAUSE", 0.01)
    begun, won, lost = threading.Barrier(6), [], []

    def claim() -> None:
        begun.wait()
        try:
            won.append(open_store("gs://bucket/race").claim())
        except HeadscopeError as error:
            lost.append(str(error))

    with storage(True, monkeypatch):
        threads = [threading.Thread(target=claim) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(won) == 1
        assert len(lost) == 5
        won[0].release()
        store = open_store("gs://bucket/large")
        for content in (LARGE, LARGE + b"1"):
            with store.making("large") as file:
                file.write_bytes(content)
        assert len(store.read("large")) == len(LARGE) + 1


def test_a_run_on_gcs_is_the_same_run(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options: dict[str, Any] = {"shard_size": 4, "per_text": True, "threads": 1}
    run(str(folder), TEXTS, out=tmp_path / "local", **options)
    with storage(True, monkeypatch):
        shown = Counting()
        run(str(folder), TEXTS, out="gs://bucket/run", workers=2, progress=shown, **options)
        store = open_store("gs://bucket/run")
        assert [store.read(name) for name in FILES] == [(tmp_path / "local" / name).read_bytes() for name in FILES]
        assert not [said for said in shown.said if "hands them over" in said]


def test_storage_without_preconditions_is_refused(tiny: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    with (
        storage(False, monkeypatch),
        pytest.raises(HeadscopeError, match="has no conditional create"),
    ):
        run(tiny("gpt2"), TEXTS[:2], out="gs://bucket/run")
