"""Shards computed in this process: every core takes batches through the model."""

from __future__ import annotations

import gc
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING

import torch

from headscope.choices import Choices
from headscope.models.fingerprint import model_fingerprint, versions
from headscope.models.reading import OutOfMemory
from headscope.models.spec import facts_of
from headscope.runs.capacity import measured_capacity, threads_for
from headscope.runs.deal import Shard
from headscope.runs.engine import ComputedShard, EngineFacts, Work, WorkOrder, finishing, token_text
from headscope.runs.machine import kind_of_machine
from headscope.runs.paths import attention_lacks, choose_path
from headscope.runs.worker import ShardAhead, ShardResult, Threads, Worker
from headscope.texts import Record
from headscope.texts.pieces import Piece, PieceSurvey, survey_pieces

if TYPE_CHECKING:
    from headscope.models.model import Model


BEHIND_CARD = 3  # shards that are packed at the same time: a graphics card computes them faster than one thread packs


class LocalEngine:
    """One model in this process."""

    def __init__(self, model: Model, cores: int | None = None) -> None:
        self.model, self.cores = model, cores or torch.get_num_threads()
        self._order: WorkOrder | None = None
        self._threads = Threads()

    def facts(self) -> EngineFacts:
        """Of the model and of this machine."""
        return EngineFacts(
            facts_of(self.model), model_fingerprint(self.model), versions(), kind_of_machine(self.model.network.device)
        )

    def survey(self, pieces: Sequence[Piece], on_progress: Callable[[int], None]) -> list[PieceSurvey]:
        """One piece after the other."""
        return survey_pieces(pieces, on_progress)

    def choose_path(self, wanted: str | None, choices: Choices) -> tuple[str, str]:
        """Who counts here."""
        return choose_path(wanted, self.model.network.device, choices, lambda: attention_lacks(self.model, choices))

    def prepare(self, order: WorkOrder, first: Sequence[Record], batch: int | None) -> int | None:
        """Decide how to use the cores. Where the batch size is headscope's own choice, memory is looked at first."""
        device = self.model.network.device.type
        self._order = order
        if batch is not None or not first:
            self._threads = threads_for(device, self.cores, self.cores) if batch is not None else Threads()
            return None
        with same_threads():
            capacity = measured_capacity(self.model, order.settings, order.relations, first, None, order.path)
        self._threads = threads_for(device, self.cores, capacity.side_by_side)
        return capacity.batch

    def run(self, work: Work) -> None:
        """Compute shard after shard; each is packed and kept while the next ones are computed."""
        behind = BEHIND_CARD if self.model.network.device.type == "cuda" else 1
        waiting: deque[Future[None]] = deque()  # shards that are not kept yet
        with (
            same_threads(), self.worker() as worker,
            ThreadPoolExecutor(behind) as packing, ThreadPoolExecutor(1) as keeping,
        ):  # fmt: skip
            for shard, ahead in _begun(worker, work):
                finish = self.computed(worker, shard, ahead, work)
                _wait_for(waiting, work, behind - 1)
                waiting.append(keeping.submit(_keep, work, packing.submit(finish)))
                if work.stopping():
                    _wait_for(waiting, work, 0)
                    raise KeyboardInterrupt
            _wait_for(waiting, work, 0)

    @property
    def order(self) -> WorkOrder:
        """What is to be done."""
        if self._order is None:
            raise AssertionError("prepare comes first")
        return self._order

    def worker(self) -> Worker:
        """A worker as it was ordered."""
        order = self.order
        return Worker(
            self.model, order.settings, order.relations, threads=self._threads, per_text=order.per_text, path=order.path
        )

    def computed(
        self, worker: Worker, shard: Shard, ahead: ShardAhead | None, work: Work
    ) -> Callable[[], ComputedShard]:
        """Run a shard, with smaller batches where memory runs out."""
        while True:
            batch, before = work.batch(shard.number), work.progress.done
            try:
                result: ShardResult = worker.shard(shard.records, batch, work.progress.advance, ahead)
            except OutOfMemory:
                work.progress.settle(before)
                work.use_less(shard.number, batch)
            else:
                work.progress.settle(before + len(shard.records))
                return finishing(shard, result, self.model.tokenizer, self.order, here=True)
            gc.collect()  # the error held what the batch had taken

    def token_text(self, ids: Sequence[int]) -> list[str]:
        """The tokens' own forms."""
        return token_text(self.model.tokenizer, ids)

    def close(self) -> None:
        """Nothing is held that the model does not hold itself."""


def _begun(worker: Worker, work: Work) -> Iterator[tuple[Shard, ShardAhead]]:
    """The shards, some of them begun ahead; beside a graphics card by another thread, where texts may be read there."""
    shards = iter(work.shards(by_place=False))

    def begin() -> tuple[Shard, ShardAhead] | None:
        if (placed := next(shards, None)) is None:
            return None
        shard = placed.read()
        return shard, worker.begin(shard.records, work.batch(shard.number))

    if not worker.ahead or not work.apart:
        begun_here: deque[tuple[Shard, ShardAhead]] = deque()
        for each in iter(begin, None):
            begun_here.append(each)
            if len(begun_here) > worker.ahead:
                yield begun_here.popleft()
        yield from begun_here
        return
    beginning = ThreadPoolExecutor(1)
    try:
        waiting = deque(beginning.submit(begin) for _ in range(worker.ahead))
        while (begun := waiting.popleft().result()) is not None:
            waiting.append(beginning.submit(begin))
            yield begun
    finally:
        beginning.shutdown(cancel_futures=True)


def _keep(work: Work, packed: Future[ComputedShard]) -> None:
    work.keep(packed.result())


def _wait_for(waiting: deque[Future[None]], work: Work, left: int) -> None:
    """Wait until no more than so many shards are not kept yet, in their order."""
    while len(waiting) > left:
        waiting.popleft().result()
        work.progress.shard()


class same_threads:  # noqa: N801 - reads as a state: `with same_threads()`
    """Leaves torch's number of threads as it was: every thread that reads batches sets its own."""

    def __enter__(self) -> None:
        self._before = torch.get_num_threads()

    def __exit__(self, *error: object) -> None:
        torch.set_num_threads(self._before)
