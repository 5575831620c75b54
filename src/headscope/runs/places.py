"""Shards by the places of their texts: whoever computes one reads it, and nobody reads in front.

The shards are those that `deal` would cut from the stream, found from runs of groups and clusters alone.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from headscope.errors import HeadscopeError
from headscope.runs.deal import Shard
from headscope.texts import Record
from headscope.texts.pieces import Piece, PieceReader, PieceSurvey, Place


class _Own(threading.local):
    """A reader for each thread: shards that follow each other are read on from where the last one ended."""

    def __init__(self) -> None:
        self.reader = PieceReader()


_own = _Own()


@dataclass(frozen=True, slots=True)
class PlacedShard:
    """The texts of one group from a first to a last place."""

    number: int
    group: str
    texts: int
    pieces: tuple[Piece, ...]  # those that have texts of it, and those between them
    first: int  # text of the first piece
    last: int  # text of the last piece
    clusters: tuple[str, ...] = ()

    def read(self) -> Shard:
        """The shard with its texts."""
        every = _own.reader.read(self.pieces, self.first, self.last)
        records: tuple[Record, ...] = tuple(record for record in every if record.group == self.group)
        if len(records) != self.texts:
            raise HeadscopeError(
                f"{str(self.pieces[0].file.file)!r} has changed while it was read: shard {self.number} had "
                f"{self.texts:,} texts and has {len(records):,}",
                "leave the texts as they are until the run is finished, or begin a new one",
            )
        return Shard(self.number, self.group, records)


@dataclass(slots=True)
class _Waiting:
    """Texts of a group that are not in a shard yet."""

    texts: int = 0
    first: Place = (0, 0)
    last: Place = (0, 0)
    cluster: str = ""  # of the last one
    clusters: dict[str, None] = field(default_factory=dict)

    def add(self, piece: int, begin: int, number: int, cluster: str) -> None:
        """Take in texts that follow each other."""
        if not self.texts:
            self.first = (piece, begin)
        self.texts += number
        self.last, self.cluster = (piece, begin + number - 1), cluster
        if cluster:
            self.clusters[cluster] = None


def deal_places(pieces: Sequence[Piece], surveys: Sequence[PieceSurvey], size: int) -> Iterator[PlacedShard]:
    """The shards of `size` texts of a collection; a shard that ends within a cluster goes on to the cluster's end."""
    waiting: dict[str, _Waiting] = {}
    numbers = iter(range(2**62))

    def closed(group: str) -> PlacedShard:
        held = waiting[group]
        waiting[group] = _Waiting()
        between = tuple(pieces[held.first[0] : held.last[0] + 1])
        return PlacedShard(next(numbers), group, held.texts, between, held.first[1], held.last[1], tuple(held.clusters))

    for piece, survey in enumerate(surveys):
        begin = 0
        for group, cluster, number in survey.runs:
            taken = 0
            while taken < number:
                held = waiting.setdefault(group, _Waiting())
                if held.texts >= size and held.cluster != cluster:
                    yield closed(group)
                    continue
                step = number - taken if cluster else min(number - taken, size - held.texts)
                held.add(piece, begin + taken, step, cluster)
                taken += step
                if not cluster and held.texts >= size:
                    yield closed(group)
            begin += number
    for group in list(waiting):
        if waiting[group].texts:
            yield closed(group)
