"""What several workers and Ray cost, and how merging grows: the figures of docs/scaling.md.

    python benchmarks/scaling.py [--texts 256] [--rounds 3] [--shards 100,1000,10000]

Runs of the embedded model on the shipped passages, one core for each worker, rounds interleaved: this process with one
and two threads, processes, and a Ray cluster of two nodes on this machine. Then shards of a small model are merged, as
many as are named, each number in a process of its own whose memory is measured.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"  # Ray listens on 127.0.0.1 alone
os.environ["RAY_USAGE_STATS_ENABLED"] = "0"

import headscope
from headscope.measures.variables import Shape
from headscope.result.merge import write_result
from headscope.result.shards import pack, unpack
from headscope.runs.capacity import peak_memory
from headscope.runs.folder import FinishedShard, FolderShards, RunFolder
from headscope.runs.progress import Progress

SHARD = 16  # texts


class Watched(Progress):
    """When the first shard is done, and the last."""

    def __init__(self) -> None:
        super().__init__()
        self.times: list[float] = []

    def shard(self) -> None:
        super().shard()
        self.times.append(time.perf_counter())


def timed(texts: list[str], **options: Any) -> dict[str, float]:
    """Seconds until the first shard, and texts per second between the first and the last."""
    shown, began = Watched(), time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        headscope.analyze(
            None, texts, out=Path(folder) / "run", shard_size=SHARD, batch_size=8, progress=shown, **options
        )
        ended = time.perf_counter()
    steady = (len(shown.times) - 1) * SHARD / (shown.times[-1] - shown.times[0])
    return {"first": shown.times[0] - began, "rate": steady, "whole": ended - began}


def contenders(address: str) -> dict[str, Callable[[list[str]], dict[str, float]]]:
    def ray(workers: int) -> Callable[[list[str]], dict[str, float]]:
        return lambda texts: timed(texts, threads=1, workers=workers, engine="ray", ray_address=address)

    return {
        "this process, 1 thread": lambda texts: timed(texts, threads=1),
        "this process, 2 threads": lambda texts: timed(texts, threads=2),
        "1 process beside it": lambda texts: timed(texts, threads=1, workers=1),
        "2 processes": lambda texts: timed(texts, threads=1, workers=2),
        "Ray, 1 worker": ray(1),
        "Ray, 2 workers": ray(2),
    }


def engines(number: int, rounds: int) -> None:
    from ray.cluster_utils import Cluster

    passages = [passage["text"] for passage in headscope.passages()]
    texts = [passages[k % len(passages)] for k in range(number)]
    began = time.perf_counter()
    cluster = Cluster()
    for node in range(2):
        cluster.add_node(num_cpus=1, object_store_memory=200_000_000, **({} if node else {"include_dashboard": False}))
    started = time.perf_counter() - began
    try:
        made = contenders(cluster.address)
        seen: dict[str, list[dict[str, float]]] = {name: [] for name in made}
        for each in range(rounds):
            for name in list(made)[each % len(made) :] + list(made)[: each % len(made)]:
                seen[name].append(made[name](texts))
                print(f"{name}: {seen[name][-1]}", file=sys.stderr, flush=True)
        print(f"A cluster of two nodes on this machine begins in {started:.0f} s.\n")
        print("| | first shard after, s | texts/s then | whole run, s |\n|---|---|---|---|")
        for name, values in seen.items():
            cells = (spread([value[key] for value in values]) for key in ("first", "rate", "whole"))
            print(f"| {name} | {' | '.join(cells)} |")
        print(f"\n{per_call(cluster.address)}")
    finally:
        cluster.shutdown()


def spread(values: list[float]) -> str:
    return f"{median(values):.1f} ({min(values):.1f} to {max(values):.1f})"


def per_call(address: str) -> str:
    """What Ray itself takes to hand 25 MB back, the size of a shard of BERT-base, without any computing."""
    import ray

    ray.init(address=address, log_to_driver=False, logging_level="error")
    try:

        @ray.remote(num_cpus=1)
        class Echo:
            def bytes(self, number: int) -> bytes:
                return bytes(number)

        began = time.perf_counter()
        echo = Echo.remote()
        ray.get(echo.bytes.remote(1))
        started = time.perf_counter() - began
        spent: dict[int, list[float]] = {1: [], 25_000_000: []}
        for _ in range(20):
            for number, of in spent.items():
                began = time.perf_counter()
                ray.get(echo.bytes.remote(number))
                of.append(1000 * (time.perf_counter() - began))
    finally:
        ray.shutdown()
    calls = ", ".join(f"{number:,} bytes {spread(of)} ms" for number, of in spent.items())
    return f"Ray alone: an actor begins in {started:.1f} s, and hands back {calls}."


# Merging


def merge(number: int, large: bool) -> dict[str, float]:
    """Merge so many equal shards, of one layer or of all twelve (BERT-base's tables); in a process of its own."""
    with tempfile.TemporaryDirectory() as temporary:
        texts = [passage["text"] for passage in headscope.passages()[:4]]
        one, shapes = one_shard(texts, large)
        data = pack(one)
        folder = RunFolder(Path(temporary) / "run")
        shards = []
        for place in range(number):
            about = FinishedShard(place, "", 4, 4, f"{place:064x}", "", [])
            shards.append(folder.writer.put(about, data, {}))
        before, began = peak_memory(), time.perf_counter()
        words = lambda ids: [str(each) for each in ids]  # noqa: E731
        write_result(Path(temporary) / "result.nc", [FolderShards(folder, shards, shapes)], shapes, {}, words)
        seconds = time.perf_counter() - began
        folder.close()
    return {"shards": number, "bytes": len(data), "seconds": seconds, "more": (peak_memory() - before) / 1e6}


def one_shard(texts: list[str], large: bool) -> tuple[Any, dict[str, Shape]]:
    """The sums of one shard of the embedded model, and their shapes."""
    from headscope.models.spec import facts_of
    from headscope.runs.settings import make_settings
    from headscope.runs.worker import Worker, stack_shapes
    from headscope.texts import Record

    model = headscope.load()
    layers = None if large else [0]
    settings = make_settings(facts_of(model), {"window": 128 if large else 64}, layers=layers, relations={})
    with Worker(model, settings, {}) as worker:
        sums = worker.shard([Record(str(k), text) for k, text in enumerate(texts)], 4).sums()
    return unpack(pack(sums)), stack_shapes(model.stacks, settings)


def merging(numbers: list[int], large: bool) -> None:
    print("\n| shards | of, kB | merged in, s | memory more, MB |\n|---|---|---|---|")
    for number in numbers:
        command = [sys.executable, __file__, "--merge", str(number), *(["--large"] if large else [])]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        told = json.loads(done.stdout.splitlines()[-1])
        print(f"| {number:,} | {told['bytes'] / 1e3:.0f} | {told['seconds']:.1f} | {told['more']:.0f} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--texts", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--shards", default="100,1000,10000")
    parser.add_argument("--merge", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--only-merging", action="store_true")
    parser.add_argument("--large", action="store_true", help="merge shards of BERT-base's size")
    args = parser.parse_args()
    if args.merge:
        print(json.dumps(merge(args.merge, args.large)))
        return
    if not args.only_merging:
        engines(args.texts, args.rounds)
    merging([int(each) for each in args.shards.split(",")], args.large)


if __name__ == "__main__":
    main()
