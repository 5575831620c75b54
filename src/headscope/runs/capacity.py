"""What the machine can take: how many batches fit into memory side by side, and what was used in the end."""

from __future__ import annotations

import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import torch

from headscope.errors import HeadscopeError
from headscope.measures.own_relations import Labels
from headscope.models.reading import OutOfMemory
from headscope.runs.plan import default_batch
from headscope.runs.settings import Settings
from headscope.runs.worker import Threads, Worker
from headscope.texts import Record

if TYPE_CHECKING:
    from headscope.models.model import Model

SHARE = 0.3  # of free memory that batches may take
TRIAL_TEXTS = 64  # texts; the longest of them are tried
AT_ONCE = 1  # batches on a graphics card: it is given the next one's work before it is done with this one's
CUTTING = 5 / 8  # of the cores, beside a graphics card: the others index, pack and add up
TRIAL_WINDOWS = 4  # windows in the batch that is measured


@dataclass(frozen=True, slots=True)
class Capacity:
    """What fits: windows in a batch, and how many such batches side by side."""

    batch: int
    side_by_side: int


def threads_for(device: str, cores: int, side_by_side: int) -> Threads:
    """How to use so many cores.

    >>> threads_for("cpu", 8, side_by_side=4), threads_for("cuda", 8, side_by_side=1)
    (Threads(reading=4, counting=2, cutting=0), Threads(reading=1, counting=8, cutting=5))
    """
    reading = max(1, min(cores if device == "cpu" else AT_ONCE, side_by_side))
    return Threads(reading, max(1, cores // reading), max(1, int(cores * CUTTING)) if device == "cuda" else 0)


def measured_capacity(
    model: Model, settings: Settings, relations: Mapping[str, Labels], records: Sequence[Record], batch: int | None,
    path: str,
) -> Capacity:  # fmt: skip
    """Measure the memory that a small batch of the longest of these texts takes, and scale up.

    The batch size follows from the settings; where memory is short, fewer batches go side by side. Only where not even
    one fits does the batch become smaller.
    """
    device = model.network.device.type
    wanted = batch or default_batch(device, settings.choices.window)
    longest = sorted(records, key=lambda record: -len(record.text))[:TRIAL_WINDOWS]
    try:
        with Worker(model, settings, relations, path=path) as trial:
            trial.shard(longest[:1], 1)  # what is made once is not the batch's
            if device == "cuda":
                torch.cuda.reset_peak_memory_stats()
                before = torch.cuda.memory_allocated()
                trial.shard(longest, TRIAL_WINDOWS)
                taken = torch.cuda.max_memory_allocated() - before
                free = torch.cuda.mem_get_info()[0]
            else:
                with watched_memory() as watched:
                    trial.shard(longest, TRIAL_WINDOWS)
                taken, free = watched.most, psutil.virtual_memory().available
    except OutOfMemory as error:
        raise HeadscopeError(
            f"a batch of {TRIAL_WINDOWS} windows does not fit into memory", "take a smaller window or name a batch size"
        ) from error
    windows = max(1, int(free * SHARE / max(taken / TRIAL_WINDOWS, 1)))  # that fit at once
    if batch is None and windows < wanted:
        wanted = 2 ** (windows.bit_length() - 1)
    return Capacity(wanted, max(1, windows // wanted))


class watched_memory:  # noqa: N801 - reads as a thing: `with watched_memory() as watched`
    """The most memory that this process takes on top of what it has, looked at every few milliseconds."""

    def __enter__(self) -> watched_memory:
        self.process = psutil.Process()
        self.before, self.most, self._ended = self.process.memory_info().rss, 0, threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def _watch(self) -> None:
        while not self._ended.wait(0.002):
            self.most = max(self.most, self.process.memory_info().rss - self.before)

    def __exit__(self, *error: object) -> None:
        self._ended.set()
        self._thread.join()


def peak_memory() -> int:
    """The most memory this process has taken so far, in bytes."""
    if sys.platform.startswith("linux"):  # what getrusage reports may be of the process that started this one
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    memory = psutil.Process().memory_info()
    if sys.platform == "win32":
        return int(memory.peak_wset)
    import resource  # not on Windows

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
