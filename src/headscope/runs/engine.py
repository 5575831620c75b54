"""Who computes shards: this process (`local_engine`), several (`crew_engine` over `process_crew`), or Ray (`ray_crew`).

An engine knows nothing of folders and collections. It is given `Work`: shards to compute, and where to hand over
each one's bytes as it is finished.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from headscope.choices import Choices
from headscope.measures.own_relations import Labels
from headscope.measures.variables import Sums
from headscope.models.spec import ModelFacts
from headscope.result.shards import pack
from headscope.runs.deal import Shard
from headscope.runs.folder import FinishedShard
from headscope.runs.places import PlacedShard
from headscope.runs.progress import Progress
from headscope.runs.row_files import row_files
from headscope.runs.settings import Settings
from headscope.runs.worker import ShardResult
from headscope.stores import Permit
from headscope.texts import Record
from headscope.texts.pieces import Piece, PieceSurvey
from headscope.windows.familiarity import familiarity

LOOKED_AT = 64  # windows of a shard, about, of which it is asked whether the model knows their language


@dataclass(frozen=True, slots=True)
class EngineFacts:
    """What is to be known of whoever computes."""

    model: ModelFacts
    fingerprint: dict[str, Any]  # of the model
    versions: dict[str, str]
    machine: str  # its kind: results of unlike machines may differ in their last digits


@dataclass(frozen=True, slots=True)
class WorkOrder:
    """What decides the sums of a shard, beside its texts and its batch size, and where workers may put it."""

    settings: Settings
    relations: Mapping[str, Labels]
    per_text: bool
    path: str
    plan: str  # `Manifest.key`
    permit: Permit | None = None  # None: data are handed back to the process that asked


@dataclass(frozen=True, slots=True)
class ComputedShard:
    """What a shard came to, not kept yet."""

    about: FinishedShard
    data: bytes  # its sums, packed
    tables: dict[str, bytes]  # rows per text, where they are kept
    sums: Sums | None = None  # unpacked, where they need not go to another process


class Work(Protocol):
    """What an engine is given to do: shards by one thread, what becomes of them by one thread at a time."""

    progress: Progress

    @property
    def apart(self) -> bool:
        """Whether another thread may read the texts: those of files. An iterable may be bound to its own."""

    def shards(self, by_place: bool) -> Iterator[Shard | PlacedShard]:
        """The shards that are missing, in their order; by the places of their texts, where these can be told."""

    def batch(self, number: int) -> int:
        """How many windows go through the model at once in this shard."""

    def use_less(self, number: int, batch: int) -> None:
        """Memory ran out in this shard with so many windows in a batch."""

    def keep(self, done: ComputedShard | FinishedShard) -> None:
        """Keep a shard that is computed; of one that its worker has kept, take note."""

    def joined(self, machine: str) -> None:
        """A worker on this kind of machine has come."""

    def stopping(self) -> bool:
        """Whether no more shards are to be begun."""

    def put_aside(self, shard: Shard | PlacedShard, why: str) -> None:
        """This shard cannot be computed; the others are."""


class Engine(Protocol):
    """Runs shards, whoever computes them."""

    def survey(self, pieces: Sequence[Piece], on_progress: Callable[[int], None]) -> list[PieceSurvey]:
        """Look through the pieces of a collection; told how many texts there are so far."""

    def facts(self) -> EngineFacts:
        """Of the model as it is loaded, and of the machine."""

    def choose_path(self, wanted: str | None, choices: Choices) -> tuple[str, str]:
        """Who counts there, and why that is not the fastest, where it is not."""

    def prepare(self, order: WorkOrder, first: Sequence[Record], batch: int | None) -> int | None:
        """Get ready; gives the batch size that memory allows, measured with these texts, unless one is given."""

    def run(self, work: Work) -> None:
        """Compute the shards; KeyboardInterrupt where it was stopped before all were done."""

    def token_text(self, ids: Sequence[int]) -> list[str]:
        """The tokens' own forms."""

    def close(self) -> None:
        """Let go of everything."""


def finishing(
    shard: Shard, computed: ShardResult, tokenizer: Any, order: WorkOrder, *, here: bool = False
) -> Callable[[], ComputedShard]:
    """How to make what is kept of a shard. A graphics card may still be at work: whoever calls this waits for it.

    `here`: it is added up in this process.
    """

    def finish() -> ComputedShard:
        tables = row_files(computed, tokenizer) if order.per_text else {}
        looked_at = computed.windows[:: 1 + len(computed.windows) // LOOKED_AT]
        about = FinishedShard(
            shard.number, shard.group, len(shard.records), len(computed.windows), shard.hash, order.plan,
            list(computed.refused),
            tokens=sum(each.window.total for each in computed.windows if each.number == 0),
            tokens_read=sum(int((each.window.part >= 0).sum()) for each in computed.windows),
            familiar_of=len(looked_at),
            unfamiliar=sum(familiarity(each.window).unfamiliar for each in looked_at),
        )  # fmt: skip
        computed.windows = []  # which take more room than all else, and are not asked for any more
        own = computed.sums()
        return ComputedShard(about, pack(own), tables, own if here else None)

    return finish


def token_text(tokenizer: Any, ids: Sequence[int]) -> list[str]:
    """The tokens' own forms, without what cannot be stored."""
    return [str(tokenizer.convert_ids_to_tokens(int(each))).replace("\x00", "␀") for each in ids]
