"""The same run on a Ray cluster of several nodes: equal bytes, whoever is killed meanwhile."""

from __future__ import annotations

import importlib
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

from crews import Gate
from headscope.errors import HeadscopeError
from runs import TEXTS, Counting, run

os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"  # Ray listens on 127.0.0.1 alone
os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
ray = pytest.importorskip("ray", reason="Ray is not installed: pip install 'headscope[ray]'")
ray.cloudpickle.register_pickle_by_value(sys.modules["crews"])  # nodes do not have the tests

FILES = ("result.nc", "heads.parquet", "texts.parquet")
OPTIONS: dict[str, Any] = {"shard_size": 2, "per_text": True, "threads": 1}
HERE = "127.0.0.1"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """A head and two nodes that compute, each with a raylet and an object store of its own."""
    from ray.cluster_utils import Cluster

    made = Cluster()
    try:
        made.add_node(num_cpus=0, include_dashboard=False, object_store_memory=100_000_000)
        for _ in range(2):
            made.add_node(num_cpus=2, object_store_memory=100_000_000)
        made.wait_for_nodes()
        yield made
    finally:
        made.shutdown()


@pytest.fixture(scope="module")
def local(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> list[bytes]:
    out = tmp_path_factory.mktemp("local") / "run"
    run(str(folder), TEXTS, out=out, relations={"own": Gate(out / "never")}, **OPTIONS)
    return contents(out)


def contents(out: Path) -> list[bytes]:
    return [(out / name).read_bytes() for name in FILES]


class OpenFor(Counting):
    """Opens the gate when so many workers are ready, so that all of them compute some of the shards."""

    def __init__(self, gate: Gate, workers: int) -> None:
        super().__init__()
        self.gate, self.wanted, self.most = gate, workers, 0

    def working(self, workers: int) -> None:
        super().working(workers)
        self.most = max(self.most, workers)
        if workers == self.wanted:
            self.gate.open()


class KillNode(Counting):
    """Kills a node that is at work on a shard, its workers with it, when both of two are ready; opens the gate then."""

    def __init__(self, cluster: Any, gate: Gate) -> None:
        super().__init__()
        self.cluster, self.gate, self.killed = cluster, gate, ""

    def working(self, workers: int) -> None:
        super().working(workers)
        for node in [] if self.killed or workers < 2 else list(self.cluster.worker_nodes):
            raylet = psutil.Process(node.all_processes["raylet"][0].process.pid)
            processes = [raylet, *raylet.children(recursive=True)]
            titles = [" ".join(process.cmdline()) for process in processes]
            if any("ray::ShardComputer.shard" in title for title in titles):  # so Ray names a worker at such a call
                for process in processes:
                    process.send_signal(signal.SIGKILL)
                self.killed = node.node_id
                self.gate.open()
                return


@pytest.mark.parametrize("workers", [4, 1, 2])
def test_workers_of_a_cluster_give_the_bytes_of_one_process(
    workers: int, cluster: Any, folder: Path, local: list[bytes], tmp_path: Path
) -> None:
    out, gate = tmp_path / "run", Gate(tmp_path / "open")
    shown = OpenFor(gate, workers)
    run(str(folder), TEXTS, out=out, engine="ray", ray_address=cluster.address, workers=workers, progress=shown,
        relations={"own": gate}, **OPTIONS)  # fmt: skip
    assert contents(out) == local
    assert shown.most == workers
    assert not ray.is_initialized()


def test_a_node_that_is_killed_costs_its_shards_in_flight_alone(
    cluster: Any, folder: Path, local: list[bytes], tmp_path: Path
) -> None:
    gate = Gate(tmp_path / "open")
    shown = KillNode(cluster, gate)
    run(str(folder), TEXTS, out=tmp_path / "run", engine="ray", ray_address=cluster.address, workers=2, progress=shown,
        relations={"own": gate}, **OPTIONS)  # fmt: skip
    assert shown.killed
    assert any("is tried again" in said for said in shown.said), shown.said
    assert shown.shards_done == 12
    assert contents(tmp_path / "run") == local


def test_workers_for_whom_there_is_no_room_keep_nobody_waiting(
    cluster: Any, folder: Path, local: list[bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headscope.runs.roster.PATIENCE", 2.0)
    gate = Gate(tmp_path / "open")
    gate.open()
    shown = Counting()
    run(str(folder), TEXTS, out=tmp_path / "run", engine="ray", ray_address=cluster.address, workers=9, progress=shown,
        relations={"own": gate}, **OPTIONS)  # fmt: skip
    assert contents(tmp_path / "run") == local
    assert any(said.startswith("waiting for the cluster: ") for said in shown.said)
    with pytest.raises(HeadscopeError, match=r"no node of the Ray cluster has the 99 CPUs and 0 GPUs.*--threads"):
        run(str(folder), TEXTS[:2], engine="ray", ray_address=cluster.address, workers=1, threads=99)
    assert not ray.is_initialized()
    with pytest.raises(HeadscopeError, match=r"no node of the Ray cluster has the 1 CPUs and 1 GPUs"):
        run(str(folder), TEXTS[:2], engine="ray", ray_address=cluster.address, workers=1, threads=1, gpus_per_worker=1)


def test_a_module_that_nodes_do_not_have_is_told(
    cluster: Any, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "only_here.py").write_text("def own(window):\n    return [0] * len(window)\n")
    monkeypatch.syspath_prepend(tmp_path)
    relations = {"own": importlib.import_module("only_here").own}
    with pytest.raises(HeadscopeError, match=r"No module named 'only_here'.*where Python finds it on every node"):
        run(str(folder), TEXTS[:2], out=tmp_path / "run", engine="ray", ray_address=cluster.address, workers=1,
            relations=relations, **OPTIONS)  # fmt: skip


def test_a_cluster_that_is_not_there_is_told(folder: Path) -> None:
    with pytest.raises(HeadscopeError, match=r"Ray cluster '127.0.0.1:1' cannot be reached.*--ray-address"):
        run(str(folder), TEXTS[:2], engine="ray", ray_address=f"{HERE}:1")
    with pytest.raises(HeadscopeError, match=r"is an address of Ray's client.*on a node of the cluster"):
        run(str(folder), TEXTS[:2], engine="ray", ray_address=f"ray://{HERE}:10001")


def test_a_run_goes_on_after_the_head_was_restarted(folder: Path, tmp_path: Path) -> None:
    texts, out, plain = tmp_path / "texts.txt", tmp_path / "run", tmp_path / "plain"
    texts.write_text("".join(f"{' '.join(text.split())}\n" for text in TEXTS))
    run(str(folder), str(texts), out=plain, **OPTIONS)
    command = [sys.executable, "-m", "headscope", "analyze", str(texts), "--model", str(folder), "--out", str(out),
               "--engine", "ray", "--workers", "1", "--threads", "1", "--shard-size", "2", "--batch-size", "4",
               "--per-text"]  # fmt: skip
    with head() as address:
        process = subprocess.Popen([*command, "--ray-address", address], stderr=subprocess.PIPE, text=True)
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
    shown = Counting()
    with head() as address:
        run(str(folder), str(texts), out=out, engine="ray", ray_address=address, workers=1, progress=shown, **OPTIONS)
    assert shown.shards_done == 12
    assert shown.kept == 2 * kept
    assert contents(out) == contents(plain)


def test_the_node_of_the_driver_is_lost(folder: Path, tmp_path: Path) -> None:
    texts, out = tmp_path / "texts.txt", tmp_path / "run"
    texts.write_text("".join(f"{' '.join(text.split())}\n" for text in TEXTS))
    command = [sys.executable, "-m", "headscope", "analyze", str(texts), "--model", str(folder), "--out", str(out),
               "--engine", "ray", "--workers", "1", "--threads", "1", "--shard-size", "2"]  # fmt: skip
    begun = head()
    with begun as address:
        process = subprocess.Popen([*command, "--ray-address", address], stderr=subprocess.PIPE, text=True)
        deadline = time.monotonic() + 120
        while not list(out.glob("shards/*.json")):
            assert process.poll() is None, process.communicate()[1]
            assert time.monotonic() < deadline
            time.sleep(0.02)
        begun.cluster.head_node.kill_raylet(check_alive=False)  # what knows of all nodes lives on
        _, said = process.communicate(timeout=200)
    assert process.returncode == 2, said
    assert "out of reach: the node of the cluster that this command was typed on is lost" in said
    assert "the same command goes on from there" in said


class head:  # noqa: N801 - reads as a thing: `with head(…) as address`
    """The head of a cluster, begun as people do and ended with SIGKILL."""

    def __enter__(self) -> str:
        from ray.cluster_utils import Cluster

        self.cluster = Cluster()
        self.cluster.add_node(num_cpus=1, include_dashboard=False, object_store_memory=100_000_000)
        return str(self.cluster.address)

    def __exit__(self, *error: object) -> None:
        self.cluster.head_node.kill_all_processes(check_alive=False, allow_graceful=False)
