"""How many shards the process that deals them out can take a second: the figures of docs/scaling.md.

    python benchmarks/driver.py [--shards 20000]

Workers here compute nothing: they answer at once with what a worker says that has kept its shard itself. Then, through
one S3 server of this machine: what a shard costs that is put there, whoever does it.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import deque
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from headscope.runs.computer import Ready
from headscope.runs.crew import Answer
from headscope.runs.deal import Shard
from headscope.runs.engine import WorkOrder
from headscope.runs.folder import FinishedShard, RunFolder
from headscope.runs.progress import Progress
from headscope.runs.roster import Roster
from headscope.runs.shift import Shift
from headscope.texts import Record

TEXTS = 16_384  # of a shard
SIZE = 25_000_000  # bytes of a shard


class Answering:
    """A crew that answers at once, a few at a time."""

    def __init__(self, workers: int) -> None:
        self.wanted, self._hired, self._calls = workers, 0, 0
        self._answers: deque[Answer] = deque()

    def hire(self) -> int:
        self._hired += 1
        return self._hired

    def call(self, worker: int, method: str, *arguments: Any) -> int:
        self._calls += 1
        value: Any = Ready(None)
        if method == "facts":
            value = FACTS
        elif method == "shard":
            value = FinishedShard(arguments[0].number, "", TEXTS, TEXTS, "", "", [], {"h5": ("", SIZE)})
        self._answers.append(Answer(worker, self._calls, value))
        return self._calls

    def answers(self, seconds: float) -> list[Answer]:
        return [self._answers.popleft() for _ in range(min(8, len(self._answers)))]

    def dismiss(self, worker: int) -> None: ...

    def trouble(self) -> str:
        return ""

    def close(self) -> None: ...


class Dealt:
    """The work of a run, without a folder."""

    def __init__(self, shards: int) -> None:
        self.number, self.kept, self.progress = shards, 0, Progress()

    def shards(self, by_place: bool) -> Any:
        return (Shard(number, "", (Record("a", "It rains."),)) for number in range(self.number))

    def batch(self, number: int) -> int:
        return 256

    def keep(self, done: FinishedShard) -> None:
        self.kept += 1

    def joined(self, machine: str) -> None: ...

    def stopping(self) -> bool:
        return False


class FACTS:
    fingerprint = machine = versions = ""

    class model:  # noqa: N801
        device = "cuda"


def deals(shards: int, workers: int) -> float:
    """Shards a second."""
    roster, work = Roster(Answering(workers), print), Dealt(shards)
    roster.hire()
    roster.set_order(WorkOrder(None, {}, False, "", ""), None, 1)  # type: ignore[arg-type]
    began = time.perf_counter()
    Shift(roster, FACTS, work).run()  # type: ignore[arg-type]
    assert work.kept == shards
    return shards / (time.perf_counter() - began)


def puts() -> float:
    """Milliseconds to put a shard and its record."""
    from remote import s3_bucket

    with s3_bucket() as bucket:
        folder, spent = RunFolder(f"{bucket}/run"), []
        for number in range(12):
            data = bytes([number]) * SIZE
            began = time.perf_counter()
            folder.writer.put(FinishedShard(number, "", TEXTS, TEXTS, "", "", []), data, {})
            spent.append(1000 * (time.perf_counter() - began))
        folder.close()
    return median(spent)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shards", type=int, default=20_000)
    args = parser.parse_args()
    print("| workers | shards a second |\n|---|---|")
    for workers in (10, 100, 1000):
        print(f"| {workers:,} | {median(deals(args.shards, workers) for _ in range(3)):,.0f} |", flush=True)
    print(
        f"\nA shard of {SIZE / 1e6:.0f} MB is put in {puts():.0f} ms, its record and two looks at the claim included."
    )


if __name__ == "__main__":
    main()
