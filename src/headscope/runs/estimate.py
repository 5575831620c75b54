"""What a run would take: a few batches are measured before anybody commits to hours."""

from __future__ import annotations

import time
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
import psutil
import torch
from numpy.typing import NDArray

from headscope.errors import HeadscopeError
from headscope.measures.variables import Shape, Sums
from headscope.models.reading import OutOfMemory
from headscope.result.neighbours import most_blocks
from headscope.result.parts import as_block, kept_for_groups
from headscope.result.shards import pack, smallest
from headscope.result.stack_writer import COMPRESSION
from headscope.runs.capacity import TRIAL_TEXTS, measured_capacity, peak_memory, threads_for
from headscope.runs.paths import attention_lacks, choose_path
from headscope.runs.plan import WorkOptions, default_shard_size
from headscope.runs.row_files import row_files
from headscope.runs.settings import Settings
from headscope.runs.worker import Worker
from headscope.texts import Corpus, Record, Survey

MEASURED = 4  # batches for each thread


@dataclass(frozen=True, slots=True)
class RunCost:
    """What a run would take. Texts, time and disk are unknown (None) for a stream that passes by only once."""

    texts: int | None
    bad: int
    shards: int | None
    shard_size: int
    batch: int
    side_by_side: int  # batches at once
    texts_per_second: float
    seconds: float | None
    memory: int  # bytes
    free_memory: int
    disk: int | None  # bytes of the finished run
    disk_working: int | None  # at its most, when the shards are put together


def estimate(
    model: Any,
    settings: Settings,
    relations: Any,
    corpus: Corpus,
    survey: Survey,
    options: WorkOptions,
) -> RunCost:
    """Run a few batches and scale up."""
    cores, device = options.threads or torch.get_num_threads(), model.network.device.type
    first = list(islice((record for record in corpus.records() if isinstance(record, Record)), 256))
    if not first:
        raise HeadscopeError(f"there are no texts in {corpus.name}", "check the input")
    choices = settings.choices
    path, _ = choose_path(options.path, model.network.device, choices, lambda: attention_lacks(model, choices))
    capacity = measured_capacity(model, settings, relations, first[:TRIAL_TEXTS], options.batch_size, path)
    threads, batch = threads_for(device, cores, capacity.side_by_side), capacity.batch
    before = torch.get_num_threads()
    try:
        with Worker(model, settings, relations, threads=threads, per_text=options.per_text, path=path) as worker:
            worker.shard(first[: batch * threads.reading], batch)  # warm: compiled, buffers made
            taken = first[: batch * threads.reading * MEASURED]
            began = time.perf_counter()
            computed = worker.shard(taken, batch)
            sums = computed.sums()
            passed = time.perf_counter() - began
    except OutOfMemory as error:
        raise HeadscopeError(f"a batch of {batch} windows does not fit into memory", "name a smaller one") from error
    finally:
        torch.set_num_threads(before)
    size = options.shard_size or default_shard_size(survey.texts if survey.known else len(first))
    rate = len(taken) / passed
    texts = survey.texts if survey.known else None
    shards = survey.shards(size)
    disk = working = None
    if texts is not None and shards is not None:
        files = row_files(computed, model.tokenizer).values() if options.per_text else ()
        rows = sum(map(len, files)) / len(taken) * texts
        of_shard, of_result = _sums_on_disk(sums, worker.shapes, texts, shards, len(survey.groups), len(taken))
        disk, working = int(of_result + rows), int(shards * of_shard + of_result + 2 * rows)
    return RunCost(
        texts, survey.bad, shards, size, batch, threads.reading, rate, None if texts is None else texts / rate,
        peak_memory(), psutil.virtual_memory().available, disk, working,
    )  # fmt: skip


def _sums_on_disk(
    sums: Sums, shapes: Mapping[str, Shape], texts: int, shards: int, groups: int, taken: int
) -> tuple[float, float]:
    """Bytes of a shard's file and of the result, from the sums of so many texts that were taken."""

    def size(of_sums: Sums, number: float) -> float:
        """Of so many texts: tables of counts fill up with texts, ever more slowly; sums are full from the first on."""
        growth = max(number / taken, 1) ** 0.4
        every = [values for variables in of_sums.values() for values in variables.values()]
        return sum(compressed_bytes(values) * (1 if values.dtype.kind == "f" else growth) for values in every)

    blocks = min(shards, most_blocks(list(shapes.values())))
    in_groups = {
        stack: {each.name: sums[stack][each.name] for each in kept_for_groups(shape)} for stack, shape in shapes.items()
    }
    of_groups = size(in_groups, texts / groups) * groups if groups > 1 else 0
    in_all = size(in_groups, texts) + blocks * size(as_block(sums, shapes), texts / blocks)
    return len(pack(sums)) * max(texts / shards / taken, 1) ** 0.4, in_all + of_groups


def compressed_bytes(values: NDArray[Any]) -> int:
    """About how many bytes an array takes in a result: small whole numbers, bytes of like weight together, packed.

    >>> compressed_bytes(np.zeros(100_000)) < 1000
    True
    """
    stored = smallest(values)
    planes = np.ascontiguousarray(stored).reshape(-1).view(np.uint8).reshape(-1, stored.itemsize).T
    return len(zlib.compress(planes.tobytes(), COMPRESSION["compression_opts"]))
