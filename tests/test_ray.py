"""The same run on a Ray cluster of several nodes: equal bytes, whoever is killed meanwhile."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headscope.errors import HeadscopeError
from long import first_of
from runs import TEXTS, Counting, run

os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"  # Ray listens on 127.0.0.1 alone
os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
ray = pytest.importorskip("ray", reason="Ray is not installed: pip install 'headscope[ray]'")

FILES = ("result.nc", "heads.parquet", "texts.parquet")
OPTIONS: dict[str, Any] = {"shard_size": 2, "per_text": True, "threads": 1}
HERE = "127.0.0.1"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """Three nodes, each with a raylet and an object store of its own."""
    from ray.cluster_utils import Cluster

    made = Cluster()
    try:
        made.add_node(num_cpus=2, include_dashboard=False, object_store_memory=100_000_000)
        for _ in range(2):
            made.add_node(num_cpus=1, object_store_memory=100_000_000)
        made.wait_for_nodes()
        yield made
    finally:
        made.shutdown()


@pytest.fixture(scope="module")
def local(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> list[bytes]:
    out = tmp_path_factory.mktemp("local") / "run"
    run(str(folder), TEXTS, out=out, **OPTIONS)
    return contents(out)


def contents(out: Path) -> list[bytes]:
    return [(out / name).read_bytes() for name in FILES]


class KillNode(Counting):
    """Kills a node with everything on it when so many shards are done."""

    def __init__(self, node: Any, after: int) -> None:
        super().__init__()
        self.node, self.after = node, after

    def shard(self) -> None:
        super().shard()
        if self.shards_done == self.after:
            os.kill(self.node.all_processes["raylet"][0].process.pid, signal.SIGKILL)


@pytest.mark.parametrize("workers", first_of([4, 1, 2]))
def test_workers_of_a_cluster_give_the_bytes_of_one_process(
    workers: int, cluster: Any, folder: Path, local: list[bytes], tmp_path: Path
) -> None:
    out, shown = tmp_path / "run", Counting()
    run(str(folder), TEXTS, out=out, engine="ray", ray_address=cluster.address, workers=workers, progress=shown,
        **OPTIONS)  # fmt: skip
    assert contents(out) == local
    assert 1 <= (shown.workers or 0) <= workers
    assert not ray.is_initialized()


def test_a_node_that_is_killed_costs_its_shards_in_flight_alone(
    cluster: Any, folder: Path, local: list[bytes], tmp_path: Path
) -> None:
    node = next(iter(cluster.worker_nodes))
    shown = KillNode(node, after=3)
    run(str(folder), TEXTS, out=tmp_path / "run", engine="ray", ray_address=cluster.address, workers=3, progress=shown,
        **OPTIONS)  # fmt: skip
    assert contents(tmp_path / "run") == local
    assert shown.shards_done == 12


def test_a_cluster_that_is_not_there_is_told(folder: Path) -> None:
    with pytest.raises(HeadscopeError, match=r"Ray cluster '127.0.0.1:1' cannot be reached.*--ray-address"):
        run(str(folder), TEXTS[:2], engine="ray", ray_address=f"{HERE}:1")


def test_a_run_goes_on_after_the_head_was_restarted(folder: Path, local: list[bytes], tmp_path: Path) -> None:
    texts, out = tmp_path / "texts.txt", tmp_path / "run"
    texts.write_text("".join(f"{' '.join(text.split())}\n" for text in TEXTS))
    plain = tmp_path / "plain"
    run(str(folder), str(texts), out=plain, **OPTIONS)
    command = [sys.executable, "-m", "headscope", "analyze", str(texts), "--model", str(folder), "--out", str(out),
               "--engine", "ray", "--workers", "1", "--threads", "1", "--shard-size", "2", "--batch-size", "4",
               "--per-text"]  # fmt: skip
    for stopped in (True, False):
        with head(tmp_path) as address:
            process = subprocess.Popen([*command, "--ray-address", address], stderr=subprocess.PIPE, text=True)
            if not stopped:
                _, said = process.communicate(timeout=200)
                assert process.returncode == 0, said
                continue
            deadline = time.monotonic() + 120
            while not list(out.glob("shards/*.json")):
                assert process.poll() is None, process.communicate()[1]
                assert time.monotonic() < deadline
                time.sleep(0.02)
        _, said = process.communicate(timeout=200)  # the head is gone, and with it whoever worked for it
        assert process.returncode == 2, said
        assert "the workers are out of reach" in said
        assert "the same command goes on from there" in said
        kept = len(list(out.glob("shards/*.json")))
        assert 0 < kept <= 12
    assert contents(out) == contents(plain)


class head:  # noqa: N801 - reads as a thing: `with head(…) as address`
    """The head of a cluster, begun as people do and ended with SIGKILL."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __enter__(self) -> str:
        from ray.cluster_utils import Cluster

        self.cluster = Cluster()
        self.cluster.add_node(num_cpus=1, include_dashboard=False, object_store_memory=100_000_000)
        return str(self.cluster.address)

    def __exit__(self, *error: object) -> None:
        self.cluster.head_node.kill_all_processes(check_alive=False, allow_graceful=False)
