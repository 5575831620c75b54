"""What a run would take: a few batches are measured before anybody commits to hours."""

from __future__ import annotations

import time
from dataclasses import dataclass
from itertools import islice
from typing import Any

import psutil
import torch

from headscope.errors import HeadscopeError
from headscope.result.shards import pack
from headscope.runs.plan import LOOKED_AT, lanes_and_threads, measured_batch, peak_memory
from headscope.runs.settings import Settings, default_shard_size
from headscope.runs.tables import tables
from headscope.runs.worker import OutOfMemoryError, Worker, stack_shapes
from headscope.texts import Corpus, Record, Survey

MEASURED = 4  # batches for each lane


@dataclass(frozen=True, slots=True)
class Estimate:
    """What a run would take. Texts, time and disk are unknown (None) for a stream that passes by only once."""

    texts: int | None
    bad: int
    shards: int | None
    shard_size: int
    batch: int
    lanes: int
    texts_per_second: float
    seconds: float | None
    memory: int  # bytes
    free_memory: int
    disk: int | None  # bytes of the finished run
    disk_working: int | None  # at its most, before the shards are put together


def estimate(
    model: Any,
    settings: Settings,
    relations: Any,
    corpus: Corpus,
    survey: Survey,
    *,
    shard_size: int | None = None,
    batch_size: int | None = None,
    threads: int | None = None,
    per_text: bool = False,
) -> Estimate:
    """Run a few batches and scale up."""
    shapes = stack_shapes(model, settings)
    lanes, each = lanes_and_threads(shapes, model.network.device.type, threads or torch.get_num_threads())
    first = list(islice((record for record in corpus.records() if isinstance(record, Record)), 256))
    if not first:
        raise HeadscopeError(f"there are no texts in {corpus.name}", "check the input")
    batch = batch_size or measured_batch(model, settings, relations, lanes, first[:LOOKED_AT])
    before = torch.get_num_threads()
    try:
        with Worker(model, settings, relations, lanes=lanes, threads=each, per_text=per_text) as worker:
            worker.shard(first[: batch * lanes], batch)  # warm: compiled, buffers made
            taken = first[: batch * lanes * MEASURED]
            began = time.perf_counter()
            outcome = worker.shard(taken, batch)
            passed = time.perf_counter() - began
    except OutOfMemoryError as error:
        raise HeadscopeError(f"a batch of {batch} windows does not fit into memory", "name a smaller one") from error
    finally:
        torch.set_num_threads(before)
    size = shard_size or default_shard_size(survey.texts if survey.known else len(first))
    rate = len(taken) / passed
    texts = survey.texts if survey.known else None
    shards = survey.shards(size)
    disk = working = None
    if texts is not None and shards is not None:
        sums = {name: tally.variables() for name, tally in outcome.tallies.items()}
        matrix = sum(
            len(pack({s: {"similarity_sum": v["similarity_sum"]}})) for s, v in sums.items() if "similarity_sum" in v
        )
        # A table of counts fills up with the texts that are counted in it, ever more slowly.
        counts = (len(pack(sums)) - matrix) * (size / len(taken)) ** 0.4
        rows = sum(len(t) for t in tables(outcome, model.tokenizer).values()) / len(taken) * texts if per_text else 0
        working = int(shards * (matrix + counts) + rows)
        disk = int(shards * counts + 2 * matrix + rows)
    return Estimate(
        texts, survey.bad, shards, size, batch, lanes, rate, None if texts is None else texts / rate, peak_memory(),
        psutil.virtual_memory().available, disk, working,
    )  # fmt: skip
