"""Dealing texts out into shards: in the order they come, never two groups in one shard, clusters in one piece."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain

from headscope.runs.clusters import too_many_windows
from headscope.runs.plan import LARGEST_SHARD, MOST_WINDOWS, SHARDS, default_shard_size
from headscope.texts import Bad, BadRecords, Record
from headscope.texts.corpus import check_groups
from headscope.texts.text_hash import hash_of

MOST_CHARACTERS = 64_000_000  # of a stream that are looked at before its shard size is chosen


@dataclass(frozen=True, slots=True)
class Shard:
    """Some texts of one group, and a hash that tells them from others."""

    number: int
    group: str
    records: tuple[Record, ...]

    @property
    def texts(self) -> int:
        """How many they are."""
        return len(self.records)

    @property
    def clusters(self) -> tuple[str, ...]:
        """Those that have a text in it."""
        return tuple(dict.fromkeys(record.cluster for record in self.records if record.cluster))

    def read(self) -> Shard:
        """The shard with its texts, which it has already."""
        return self

    @property
    def hash(self) -> str:
        """Of the texts in their order."""
        digest = hashlib.sha256()
        for record in self.records:
            digest.update(hash_of(record))
        return digest.hexdigest()


def deal(records: Iterable[Record | Bad], size: int, bad: BadRecords) -> Iterator[Shard]:
    """Cut a stream into shards of `size` texts; what is not a text is counted in `bad`.

    A shard that ends within a cluster goes on to the cluster's end, and so becomes larger.

    >>> texts = [Record("a", "One.", "x"), Record("b", "Two.", "y"), Record("c", "Three.", "x")]
    >>> [(shard.number, shard.group, len(shard.records)) for shard in deal(texts, 2, BadRecords())]
    [(0, 'x', 2), (1, 'y', 1)]
    >>> texts = [Record(str(k), "It rains.", cluster=cluster) for k, cluster in enumerate("abbbcd")]
    >>> ["".join(record.cluster for record in shard.records) for shard in deal(texts, 2, BadRecords())]
    ['abbb', 'cd']
    """
    waiting: dict[str, list[Record]] = {}
    number = 0
    for record in records:
        if isinstance(record, Bad):
            bad.add(record)
            continue
        in_group = waiting.setdefault(record.group, [])
        check_groups(len(waiting))
        if len(in_group) >= size and in_group[-1].cluster != record.cluster:
            yield Shard(number, record.group, tuple(in_group))
            in_group.clear()
            number += 1
        in_group.append(record)
        if len(in_group) >= size and not record.cluster:
            yield Shard(number, record.group, tuple(in_group))
            in_group.clear()
            number += 1
        elif len(in_group) > MOST_WINDOWS:
            raise too_many_windows(in_group)
    for group, rest in waiting.items():
        if rest:
            yield Shard(number, group, tuple(rest))
            number += 1


def take_first(
    records: Iterator[Record | Bad], bad: BadRecords, texts: int, characters: float = math.inf
) -> list[Record]:
    """Take the first of a stream: so many texts, or fewer once they have so many characters; count what is bad.

    >>> stream = iter([Record("a", "One."), Bad("b", "empty"), Record("c", "Two."), Record("d", "Three.")])
    >>> bad = BadRecords()
    >>> [record.id for record in take_first(stream, bad, 2)], bad.number, next(stream).id
    (['a', 'c'], 1, 'd')
    """
    first: list[Record] = []
    length = 0
    for record in records:
        if isinstance(record, Bad):
            bad.add(record)
            continue
        first.append(record)
        length += len(record.text)
        if len(first) >= texts or length >= characters:
            break
    return first


def peek(records: Iterator[Record | Bad], bad: BadRecords) -> tuple[Iterator[Record | Bad], int]:
    """A stream that passes by once, and the shard size that suits what was seen of it; bad records are counted."""
    first = take_first(records, bad, SHARDS * LARGEST_SHARD, MOST_CHARACTERS)
    return chain(first, records), default_shard_size(len(first))
