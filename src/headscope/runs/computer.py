"""What stands in every worker process, one of this machine's or of Ray's: a model, and shards that go through it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

from headscope.choices import Choices
from headscope.models.reading import OutOfMemory
from headscope.models.spec import ModelSpec
from headscope.runs.deal import Shard
from headscope.runs.engine import ComputedShard, EngineFacts, WorkOrder, finishing
from headscope.runs.local_engine import LocalEngine, same_threads
from headscope.runs.places import PlacedShard
from headscope.runs.worker import Worker
from headscope.texts import Record
from headscope.texts.pieces import Piece, PieceSurvey, survey_piece


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

    def facts(self) -> EngineFacts:
        """Of the model as it is loaded here, and of this machine."""
        return self.engine.facts()

    def choose_path(self, wanted: str | None, choices: Choices) -> tuple[str, str]:
        """Who counts here."""
        return self.engine.choose_path(wanted, choices)

    def prepare(self, order: WorkOrder, first: Sequence[Record], batch: int | None) -> int | None:
        """Get ready for shards."""
        self.close()
        fits = self.engine.prepare(order, first, batch)
        self._worker = self.engine.worker()
        return fits

    def survey(self, piece: Piece) -> PieceSurvey:
        """Look through one piece of the collection."""
        return survey_piece(piece)

    def shard(self, placed: Shard | PlacedShard, batch: int) -> ComputedShard | TooMuch:
        """Read and compute one shard."""
        worker, shard = self._worker, placed.read()
        if worker is None:
            raise AssertionError("prepare comes first")
        try:
            with same_threads():
                result = worker.shard(shard.records, batch)
                return finishing(shard, result, self.engine.model.tokenizer, worker.per_text)()
        except OutOfMemory:
            return TooMuch(batch)

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
