"""Executing: shards that are missing go to an engine, and what comes back is kept at once."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from headscope.errors import HeadscopeError
from headscope.runs.added import AddedShards
from headscope.runs.clusters import ClusterCount
from headscope.runs.deal import Shard, deal
from headscope.runs.engine import ComputedShard
from headscope.runs.folder import FinishedShard, RunFolder
from headscope.runs.manifest import Manifest
from headscope.runs.places import PlacedShard, deal_places
from headscope.runs.planning import Texts
from headscope.runs.progress import Progress

NAMED = 3  # texts of a shard that is put aside


class Execution:
    """The work of one run, as an engine sees it (`engine.Work`)."""

    def __init__(self, manifest: Manifest, texts: Texts, folder: RunFolder, progress: Progress) -> None:
        self.manifest, self.texts, self.folder, self.progress = manifest, texts, folder, progress
        self.clusters = ClusterCount()
        self.stopping: Callable[[], bool] = lambda: False
        self.number = 0  # of shards that there are, once all have been seen
        self.added: AddedShards | None = None
        self.finished: dict[int, FinishedShard] = {}
        self._aside: list[str] = []

    @property
    def apart(self) -> bool:
        """Whether another thread may read the texts."""
        return self.texts.corpus.pieces is not None

    def shards(self, by_place: bool) -> Iterator[Shard | PlacedShard]:
        """The shards that are not finished yet."""
        found = self.folder.found_shards(self.manifest.key)
        for shard in self._dealt(by_place):
            self.clusters.add(shard.clusters)
            self.number = shard.number + 1
            before = found.get(shard.number)
            if before is None:
                if shard.number in found:
                    self.progress.say(f"shard {shard.number} is damaged or of another run, and is computed again")
                yield shard
                continue
            # Of placed shards the texts are not at hand here; that they are the same follows from the fingerprint.
            same = before.hash == shard.hash if isinstance(shard, Shard) else before.texts == shard.texts
            if not same:
                raise other_texts(f"the texts of shard {shard.number}", self.folder)
            self.finished[shard.number] = before
            self.progress.skip(before.texts)

    def _dealt(self, by_place: bool) -> Iterator[Shard | PlacedShard]:
        size, survey, pieces = self.manifest.plan.shard_size, self.texts.survey, self.texts.corpus.pieces
        if by_place and survey.known and pieces is not None:
            return iter(deal_places(pieces, survey.pieces, size))
        return iter(deal(self.texts.records, size, self.texts.bad))

    def batch(self, number: int) -> int:
        """How many windows go through the model at once in this shard."""
        return self.manifest.plan.batch(number)

    def use_less(self, number: int, batch: int) -> None:
        """Halve the batches from this shard on; it is noted down before it is done."""
        if batch == 1:
            raise HeadscopeError("a single window does not fit into memory", "take a smaller window, or fewer layers")
        self.manifest.plan.batches = [*self.manifest.plan.batches, [number, batch // 2]]
        self.folder.write_manifest(self.manifest)
        self.progress.say(f"out of memory with {batch} windows in a batch: going on with {batch // 2}")

    def keep(self, done: ComputedShard | FinishedShard) -> None:
        """Write a shard to the folder, unless its worker has done so."""
        if isinstance(done, ComputedShard):
            sums, done = done.sums, self.folder.writer.put(done.about, done.data, done.tables)
            if self.added is not None and sums is not None:
                self.added.take(done.number, done.group, sums)
        self.finished[done.number] = done

    def joined(self, machine: str) -> None:
        """Unlike machines are said and written down."""
        machines = self.manifest.machines
        if machine not in machines:
            machines.append(machine)
            self.folder.write_manifest(self.manifest)
            self.progress.say(
                f"note: the workers' machines are of different kinds ({'; '.join(machines)}); last digits depend on "
                "which one computed a shard"
            )

    def put_aside(self, shard: Shard | PlacedShard, why: str) -> None:
        """Go on without a shard, for now."""
        ids = [record.id for record in shard.read().records]
        named = ", ".join(ids[:NAMED]) + (f" … {ids[-1]}" if len(ids) > NAMED else "")
        self._aside.append(f"shard {shard.number} ({len(ids):,} texts: {named}), {why}")
        self.progress.say(f"put aside: {self._aside[-1]}")

    def check_all(self) -> list[FinishedShard]:
        """All shards in their order; an error where some are put aside, or where the folder has more of them."""
        if self._aside:
            raise HeadscopeError(
                f"the run in {self.folder.name!r} is incomplete: workers end again and again in "
                f"{'; '.join(self._aside)}",
                "look at these texts, or give workers more memory; the other shards are kept, and the same command "
                "tries these again",
            )
        if any(number >= self.number for number in self.folder.numbers()):
            raise other_texts(f"the texts end after {self.number} shards and so", self.folder)
        return [self.finished[number] for number in range(self.number)]

    def check_stream(self) -> None:
        """A stream has no fingerprint: its texts are compared with those of the finished run, shard by shard."""
        if self.texts.survey.known:
            return
        dealt = deal(self.texts.records, self.manifest.plan.shard_size, self.texts.bad)
        if [shard.hash for shard in dealt] != self.manifest.shards:
            raise other_texts("the texts", self.folder)


def other_texts(which: str, folder: RunFolder) -> HeadscopeError:
    """What is said where texts are not those of the run."""
    return HeadscopeError(
        f"{which} are not those that the run in {folder.name!r} was started with",
        "give the same texts in the same order, or name another folder",
    )


@contextmanager
def stoppable(progress: Progress) -> Iterator[Callable[[], bool]]:
    """Ctrl-C once: finish the shard. Twice: stop at once."""
    requested = False

    def handle(number: int, frame: FrameType | None) -> None:
        nonlocal requested
        if requested:
            raise KeyboardInterrupt
        requested = True
        progress.say("stopping after this shard; Ctrl-C again stops at once")

    if threading.current_thread() is not threading.main_thread():
        yield lambda: False
        return
    before = signal.signal(signal.SIGINT, handle)
    try:
        yield lambda: requested
    finally:
        signal.signal(signal.SIGINT, before)
