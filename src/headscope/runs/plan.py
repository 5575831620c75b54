"""How the work is cut up: lanes and threads from the machine, the batch size from what a batch is seen to take."""

from __future__ import annotations

import resource
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import torch

from headscope.errors import HeadscopeError
from headscope.measures.described import Labels
from headscope.measures.relations import RELATIONS
from headscope.measures.similarity import BINS
from headscope.measures.tally import LONGEST_SUMMED, Shape
from headscope.runs.settings import Settings
from headscope.runs.worker import OutOfMemoryError, Worker
from headscope.texts import Record

if TYPE_CHECKING:
    from headscope.models.model import Model

TOKENS = {"cpu": 1024, "other": 32768}  # in a batch, at most: beyond that nothing gets faster
SHARE = 0.3  # of free memory that batches may take
LOOKED_AT = 64  # texts; the longest of them are tried
TRIAL = 4  # windows in the batch that is measured


def lanes_and_threads(shapes: Mapping[str, Shape], device: str, threads: int) -> tuple[int, int]:
    """How many batches go side by side, and on how many threads each: one each, unless the tables take too much room.

    A graphics card takes one batch at a time, and the cores count what it computes.
    """
    if device != "cpu":
        return 1, threads
    room = psutil.virtual_memory().available * SHARE
    lanes = max(1, min(threads, int(room // max(tally_bytes(shapes), 1))))
    return lanes, max(threads // lanes, 1)


def tally_bytes(shapes: Mapping[str, Shape]) -> int:
    """What the sums of all stacks take in memory."""
    total = 0
    for shape in shapes.values():
        table = BINS * max(shape.length - 1, 1) * len(RELATIONS) * (1 + len(shape.own))
        square = shape.length**2 if shape.length <= LONGEST_SUMMED else 0
        total += len(shape.layers) * shape.heads * (table + square) * 8
    return total


def measured_batch(
    model: Model, settings: Settings, relations: Mapping[str, Labels], lanes: int, records: Sequence[Record]
) -> int:
    """A batch size that fits: the memory of a small batch of the longest of these texts is measured and scaled up."""
    kind = model.network.device.type
    most = max(1, TOKENS["cpu" if kind == "cpu" else "other"] // settings.window)
    longest = sorted(records, key=lambda record: -len(record.text))[:TRIAL]
    try:
        with Worker(model, settings, relations) as trial:
            trial.shard(longest[:1], 1)  # what is made once is not the batch's
            if kind == "cuda":
                torch.cuda.reset_peak_memory_stats()
                before = torch.cuda.memory_allocated()
                trial.shard(longest, TRIAL)
                taken = torch.cuda.max_memory_allocated() - before
                free = torch.cuda.mem_get_info()[0]
            else:
                with watched_memory() as watched:
                    trial.shard(longest, TRIAL)
                taken, free = watched.most, psutil.virtual_memory().available // lanes
    except OutOfMemoryError as error:
        raise HeadscopeError(
            f"a batch of {TRIAL} windows does not fit into memory", "take a smaller window or name a batch size"
        ) from error
    each = max(taken / TRIAL, 1)
    fitting = max(1, int(free * SHARE / each))
    return int(min(most, 2 ** (fitting.bit_length() - 1)))


class watched_memory:  # noqa: N801 - reads as a thing: `with watched_memory() as watched`
    """The most memory that this process takes on top of what it has, looked at every few milliseconds."""

    def __enter__(self) -> watched_memory:
        self.process = psutil.Process()
        self.before, self.most, self._over = self.process.memory_info().rss, 0, threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def _watch(self) -> None:
        while not self._over.wait(0.002):
            self.most = max(self.most, self.process.memory_info().rss - self.before)

    def __exit__(self, *error: object) -> None:
        self._over.set()
        self._thread.join()


def peak_memory() -> int:
    """The most memory this process has taken so far, in bytes."""
    if sys.platform.startswith("linux"):  # what getrusage tells may be of the process that started this one
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
