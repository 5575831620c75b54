"""A run on a Ray cluster whose workers, nodes and driver are killed at random: does it give the bytes of a quiet one?

    python benchmarks/chaos.py [--kills 20] [--texts 400] [--seed 1] [--model FOLDER]

A cluster of several nodes is begun on this machine. The driver is `headscope analyze --engine ray`, begun again each
time it is killed; a node that is killed is replaced. Every kill is a SIGKILL. Prints one line of JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"  # Ray listens on 127.0.0.1 alone
os.environ["RAY_USAGE_STATS_ENABLED"] = "0"

import psutil
from ray.cluster_utils import Cluster

import headscope

NODES, STORE = 2, 100_000_000  # beside the head; bytes of each one's object store
FILES = ("result.nc", "heads.parquet", "texts.parquet")


def wait_until(true: object, seconds: float) -> bool:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if true():  # type: ignore[operator]
            return True
        time.sleep(0.05)
    return False


def actors() -> list[psutil.Process]:
    found = []
    for process in psutil.process_iter(["cmdline"]):
        if any("ShardComputer" in part for part in process.info["cmdline"] or ()):
            found.append(process)
    return found


class Chaos:
    def __init__(self, command: list[str], out: Path, seed: int) -> None:
        self.command, self.out, self.draw = command, out, random.Random(seed)
        self.cluster = Cluster()
        self.cluster.add_node(num_cpus=1, include_dashboard=False, object_store_memory=STORE)
        self.nodes = [self.add() for _ in range(NODES)]
        self.killed: Counter[str] = Counter()
        self.driver: subprocess.Popen[bytes] | None = None

    def add(self) -> object:
        return self.cluster.add_node(num_cpus=1, object_store_memory=STORE)

    def finished(self) -> int:
        return len(list(self.out.glob("shards/*.json")))

    def begin(self) -> subprocess.Popen[bytes]:
        self.driver = subprocess.Popen([*self.command, "--ray-address", self.cluster.address], stderr=subprocess.PIPE)
        return self.driver

    def ended(self) -> bool:
        return self.driver is not None and self.driver.poll() is not None

    def kill(self) -> None:
        """One of a worker, a node and the driver, once at least one more shard is done than before."""
        before = self.finished()
        wait_until(lambda: self.ended() or self.finished() > before, 120)
        time.sleep(self.draw.uniform(0, 1))
        if self.ended():
            return
        kind = self.draw.choice(["worker", "node", "driver"])
        if kind == "driver" and self.driver is not None:
            self.driver.kill()
            self.driver.wait()
            self.begin()
        elif kind == "node":
            node = self.nodes.pop(self.draw.randrange(len(self.nodes)))
            os.kill(node.all_processes["raylet"][0].process.pid, signal.SIGKILL)  # type: ignore[attr-defined]
            self.nodes.append(self.add())
        elif not self.kill_worker():
            return
        self.killed[kind] += 1
        print(f"killed a {kind}; {self.finished()} shards are done", file=sys.stderr, flush=True)

    def kill_worker(self) -> bool:
        there = actors()
        if there:
            self.draw.choice(there).kill()
        return bool(there)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--texts", type=int, default=400)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--model", help="default: the embedded one")
    parser.add_argument("--layers", default="0-1", help="fewer layers, smaller shards")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        texts, out, quiet = Path(folder) / "texts.jsonl", Path(folder) / "chaos", Path(folder) / "quiet"
        passages = headscope.passages()
        rows = [{"id": str(k), "text": passages[k % len(passages)]["text"]} for k in range(args.texts)]
        texts.write_text("".join(json.dumps(row) + "\n" for row in rows))
        shared = [sys.executable, "-m", "headscope", "analyze", str(texts), "--shard-size", "4", "--batch-size", "4",
                  "--per-text", "--threads", "1", "--layers", args.layers, "--quiet"]  # fmt: skip
        shared += ["--model", args.model] if args.model else []
        subprocess.run([*shared, "--out", str(quiet)], check=True)
        chaos = Chaos([*shared, "--out", str(out), "--engine", "ray", "--workers", "2"], out, args.seed)
        began = time.monotonic()
        try:
            driver = chaos.begin()
            while sum(chaos.killed.values()) < args.kills and not chaos.ended():
                chaos.kill()
            driver = chaos.driver or driver
            _, said = driver.communicate(timeout=1200)
            if driver.returncode:
                sys.exit(f"the run failed: {said.decode()[-2000:]}")
        finally:
            chaos.cluster.shutdown()
        equal = all((out / name).read_bytes() == (quiet / name).read_bytes() for name in FILES)
        told = {"killed": dict(chaos.killed), "texts": args.texts, "seconds": round(time.monotonic() - began),
                "equal": equal}  # fmt: skip
        print(json.dumps(told))
        sys.exit(not equal)


if __name__ == "__main__":
    main()
