"""What stands in every worker process, one of this machine's or of Ray's: a model, and shards that go through it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

from headscope.choices import Choices
from headscope.errors import HeadscopeError
from headscope.models.reading import OutOfMemory
from headscope.models.spec import ModelSpec
from headscope.runs.deal import Shard
from headscope.runs.engine import ComputedShard, EngineFacts, WorkOrder, finishing
from headscope.runs.folder import FinishedShard, ShardWriter
from headscope.runs.local_engine import LocalEngine, same_threads
from headscope.runs.places import PlacedShard
from headscope.runs.worker import Worker
from headscope.stores import open_permitted
from headscope.texts import Record
from headscope.texts.pieces import Piece, PieceSurvey, survey_piece


@dataclass(frozen=True, slots=True)
class Ready:
    """A worker can be given shards."""

    batch: int | None  # windows that fit, where that was measured
    trouble: str = ""  # why it cannot put its shards into the run's folder itself, where it was to


@dataclass(frozen=True, slots=True)
class TooMuch:
    """A batch of so many windows did not fit into memory."""

    batch: int


class ShardComputer:
    """Loads a model once, then computes whatever shards it is given."""

    def __init__(self, spec: ModelSpec, cores: int) -> None:
        os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
        self.engine = LocalEngine(spec.load(), cores)
        self._worker: Worker | None = None
        self._writer: ShardWriter | None = None  # where this worker keeps its shards itself

    def facts(self) -> EngineFacts:
        """Of the model as it is loaded here, and of this machine."""
        return self.engine.facts()

    def choose_path(self, wanted: str | None, choices: Choices) -> tuple[str, str]:
        """Who counts here."""
        return self.engine.choose_path(wanted, choices)

    def prepare(self, order: WorkOrder, first: Sequence[Record], batch: int | None) -> Ready:
        """Get ready for shards."""
        self.close()
        fits = self.engine.prepare(order, first, batch)
        self._worker, self._writer = self.engine.worker().__enter__(), None
        if order.permit is None:
            return Ready(fits)
        try:
            self._writer = ShardWriter(*open_permitted(order.permit))
        except HeadscopeError as error:
            return Ready(fits, error.problem)
        return Ready(fits)

    def survey(self, piece: Piece) -> PieceSurvey:
        """Look through one piece of the collection."""
        return survey_piece(piece)

    def shard(self, placed: Shard | PlacedShard, batch: int) -> FinishedShard | ComputedShard | TooMuch:
        """Read and compute one shard, and keep it where that can be done from here."""
        worker, shard = self._worker, placed.read()
        if worker is None:
            raise AssertionError("prepare comes first")
        try:
            with same_threads():
                result = worker.shard(shard.records, batch)
                computed = finishing(shard, result, self.engine.model.tokenizer, self.engine.order)()
        except OutOfMemory:
            return TooMuch(batch)
        if self._writer is None:
            return computed
        return self._writer.put(computed.about, computed.data, computed.tables)

    def token_text(self, ids: Sequence[int]) -> list[str]:
        """The tokens' own forms."""
        return self.engine.token_text(ids)

    def process(self) -> int:
        """The number of this process, by which tests and people find it."""
        return os.getpid()

    def close(self) -> None:
        """Let go of threads and processes."""
        if self._worker is not None:
            self._worker.__exit__()
            self._worker = None
