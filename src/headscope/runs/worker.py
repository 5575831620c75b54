"""The work itself: the texts of a shard go through the model, batch by batch, and leave their sums."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import torch

from headscope.choices import COMPILED, CUDA, CUDA_EAGER, TORCH
from headscope.errors import HeadscopeError, counted
from headscope.measures.accumulator import Accumulator, NotFinite
from headscope.measures.batch_index import index_of, indexed
from headscope.measures.columns import RowTable
from headscope.measures.cuda.device_batch import arrays_of
from headscope.measures.own_relations import Labels
from headscope.measures.variables import Shape, Sums
from headscope.models.plain import SDPA, attention_by, without_plans
from headscope.models.reading import OutOfMemory, Reader, make_batch
from headscope.runs.clusters import too_many_windows
from headscope.runs.in_order import InOrder, Stopped
from headscope.runs.memory import EVERY, EVERY_ON_CARD, Trimmer, check_tables
from headscope.runs.paths import make_accumulator
from headscope.runs.plan import MOST_WINDOWS, batch_size_of
from headscope.runs.settings import Settings
from headscope.tap import LayerHeads
from headscope.texts import Record
from headscope.windows import Window, WindowBatch
from headscope.windows.cutting import Cutters, CutTexts, Cutting

if TYPE_CHECKING:
    from headscope.models.check import Stack
    from headscope.models.model import Model

AHEAD = 2  # shards
INDEXED_AHEAD = 8  # batches of a shard
INDEXING = 1  # threads: several would wait for each other, and keep the one waiting that gives the card its work
SWITCHED = 0.0005  # seconds after which a thread that indexes lets the one go on that gives the card its work


@dataclass(slots=True)
class WindowRef:
    """One window of a shard: which text it is of, and which of that text's windows."""

    record: Record
    number: int
    window: Window


@dataclass(slots=True)
class ShardResult:
    """What a shard came to: the sums of each stack, its windows in the order they were run, rows per head."""

    sums: Callable[[], Sums] = dict  # of each stack; a graphics card may still be at work, and is waited for
    windows: list[WindowRef] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)  # texts that no window could be made of
    rows: Mapping[str, RowTable] = field(default_factory=dict)  # of each stack, where rows per text are kept


@dataclass(frozen=True, slots=True)
class Threads:
    """How the cores are used; no number depends on it.

    On a CPU every core takes whole batches through the model. A graphics card is given one after the other by one
    thread, which does not wait for it; the cores share the counting, where the card does not count itself, and cut the
    texts of the next shards in processes.
    """

    reading: int = 1
    counting: int = 1
    cutting: int = 0  # processes


class Worker:
    """Runs shards of texts through one model with one choice of settings."""

    def __init__(
        self,
        model: Model,
        settings: Settings,
        relations: Mapping[str, Labels],
        *,
        threads: Threads | None = None,
        per_text: bool = False,
        path: str = COMPILED,
    ) -> None:
        self.model, self.settings, self.relations, self.per_text = model, settings, relations, per_text
        self.path = path
        self.threads = threads or Threads()
        self._attention = attention_by(model.network, SDPA)
        self._switched = sys.getswitchinterval()
        self.shapes = stack_shapes(model.stacks, settings)
        check_tables(self.shapes.values())
        self.trimmer = Trimmer(EVERY_ON_CARD if path in (CUDA, CUDA_EAGER) else EVERY)
        choices = settings.choices
        self.cutting = Cutting(
            model.tokenizer, model.template, choices.window, choices.windows, choices.seed,
            model.stack().causal and not model.paired, choices.language,
        )  # fmt: skip
        self._cutters = Cutters(self.cutting, self.threads.cutting)
        self.ahead = AHEAD if self.threads.cutting else 0  # shards that are begun before they are wanted
        # Kept from shard to shard, and with it the memory that threads hold.
        self._pool = ThreadPoolExecutor(self.threads.reading)
        self.indexing = ThreadPoolExecutor(INDEXING) if self.ahead else None
        self.begun, self.under_way = False, threading.Event()  # there is a first batch; the card has been given it

    def __enter__(self) -> Worker:
        if self.path == CUDA:
            self._attention.__enter__()
        if self.path in (CUDA, CUDA_EAGER):
            sys.setswitchinterval(min(SWITCHED, self._switched))
        return self

    def __exit__(self, *error: object) -> None:
        self.under_way.set()
        if self.indexing is not None:
            self.indexing.shutdown(cancel_futures=True)
        self._pool.shutdown()
        self._cutters.close()
        sys.setswitchinterval(self._switched)
        if self.path == CUDA:
            self._attention.__exit__(*error)

    def windows(self, record: Record) -> list[Window]:
        """The windows of one text."""
        return self.cutting.windows(record.text)

    def begin(self, records: Sequence[Record], batch: int) -> ShardAhead:
        """Begin with a shard, where processes cut texts ahead; gives what `shard` goes on from."""
        return ShardAhead(self, records, batch, self._cutters.begin([record.text for record in records]))

    def batch(self, windows: Sequence[Window]) -> WindowBatch:
        """Windows as the model reads them and as they are counted, indexed."""
        batch, settings = make_batch(self.model, windows), self.settings
        if settings.control is not None and settings.control.kind == "rotated":
            batch = batch.rotated(settings.choices.special)
        if self.path == TORCH:
            return batch
        length = max(shape.length for shape in self.shapes.values())
        pairs = self.path == COMPILED  # a card relates pairs itself
        batch = indexed(batch, length, settings.choices, self.relations, pairs=pairs)
        if self.path in (CUDA, CUDA_EAGER):
            index = index_of(batch, length, settings.choices, self.relations)
            for stack in self.shapes:
                index.prepared(stack, arrays_of)
        return batch

    def shard(
        self,
        records: Sequence[Record],
        batch: int,
        on_progress: Callable[[float], None] | None = None,
        ahead: ShardAhead | None = None,
    ) -> ShardResult:
        """Run the texts of a shard; `on_progress` is called with how many texts were done since its last call."""
        ahead = ahead or self.begin(records, batch)
        shard = ahead.shard
        try:
            accumulator = self._accumulator(len(shard.windows))
        except MemoryError as error:
            raise HeadscopeError("the tables of counts do not fit into memory", "take fewer layers") from error
        texts_per_window = len(records) / max(len(shard.windows), 1)
        work = _ShardWork(
            self,
            shard.windows,
            batch,
            accumulator,
            lambda n: on_progress(n * texts_per_window) if on_progress else None,
            ahead if ahead.batch == batch else None,
        )
        try:
            work.run(self._pool, self.threads.reading)
        finally:
            accumulator.close()
        shard.sums, shard.rows = accumulator.sums, accumulator.rows
        return shard

    def _accumulator(self, windows: int) -> Accumulator:
        return make_accumulator(
            self.path,
            self.shapes,
            self.settings.choices,
            relations=self.relations,
            rows=windows if self.per_text else None,
            threads=self.threads.counting,
        )


class ShardAhead:
    """A shard before it is run: its texts are cut and its next batches indexed while others run, where there is time.

    Elsewhere both is done when it is asked for, in the thread that asks.
    """

    def __init__(self, worker: Worker, records: Sequence[Record], batch: int, cut: CutTexts) -> None:
        self.worker, self.records, self.batch, self.cut = worker, records, batch, cut
        self._lock, self._dealing = threading.Lock(), threading.Lock()
        self._indexed: dict[int, Future[WindowBatch]] = {}
        self._submitted = 0  # batches
        self._first: int | None = None  # the batch that the card is to have before others are indexed
        if records:
            self._submit(worker.threads.reading)

    def _submit(self, number: int) -> None:
        """Have batches indexed up to this one."""
        indexing = self.worker.indexing
        with self._dealing:
            while indexing is not None and self._submitted < number:
                if not self.worker.begun:
                    self.worker.begun, self._first = True, self._submitted
                task = self._index if self._submitted == self._first else self._index_later
                self._indexed[self._submitted] = indexing.submit(task, self._submitted)
                self._submitted += 1

    def batch_of(self, number: int) -> WindowBatch:
        """One batch, indexed; those that come next are begun with."""
        self._submit(number + INDEXED_AHEAD)
        with self._dealing:
            begun = self._indexed.pop(number, None)
        if number != self._first:
            self.worker.under_way.set()  # it is wanted now
        return self._index(number) if begun is None else begun.result()

    @cached_property
    def _shard(self) -> ShardResult:
        shard = ShardResult()
        for record, windows in zip(self.records, self.cut(), strict=True):
            if isinstance(windows, str):
                shard.refused.append(f"{record.id}: {windows}")
                continue
            shard.windows += [WindowRef(record, number, window) for number, window in enumerate(windows)]
            if len(shard.windows) > MOST_WINDOWS:
                raise too_many_windows(self.records)
        shard.windows.sort(key=lambda each: len(each.window))  # stable: like lengths go together
        return shard

    @property
    def shard(self) -> ShardResult:
        """The windows of the texts, in the order in which they go through the model."""
        with self._lock:
            return self._shard

    def _index_later(self, number: int) -> WindowBatch:
        """When the card has its first work: threads that index would keep the one waiting that gives it."""
        self.worker.under_way.wait()
        return self._index(number)

    def _index(self, number: int) -> WindowBatch:
        parts = batches_of(self.shard.windows, self.batch)
        refs = parts[number][1] if number < len(parts) else ()
        return self.worker.batch([ref.window for ref in refs]) if refs else WindowBatch(())


def batches_of(windows: Sequence[WindowRef], batch: int) -> list[tuple[int, Sequence[WindowRef]]]:
    """The windows of a shard batch by batch, each with the number of its first."""
    size = batch_size_of(len(windows), batch)
    return [(begin, windows[begin : begin + size]) for begin in range(0, len(windows), size)]


class _ShardWork:
    """The batches of one shard, dealt out to threads; what they give is added in the order of the batches."""

    def __init__(
        self,
        worker: Worker,
        windows: Sequence[WindowRef],
        batch: int,
        accumulator: Accumulator,
        on_progress: Callable[[int], None],
        ahead: ShardAhead | None,
    ) -> None:
        self.worker, self.accumulator, self.on_progress, self.ahead = worker, accumulator, on_progress, ahead
        self.batches = batches_of(windows, batch)
        self.order = InOrder()
        self._numbers = iter(range(len(self.batches)))
        self._numbers_lock = threading.Lock()

    def run(self, pool: ThreadPoolExecutor, threads: int) -> None:
        """Run all batches; an error in one stops the others with the batch they are at."""
        waiting = [pool.submit(self._read) for _ in range(min(threads, len(self.batches)))]
        try:
            failures = [error for done in waiting if (error := done.exception()) is not None]
        except BaseException:  # Ctrl-C, for one
            self.order.stop()
            wait(waiting)
            raise
        for error in failures:
            if not isinstance(error, Stopped):
                raise error

    def _deal(self) -> Iterator[int]:
        """The numbers of batches that no thread has taken yet."""
        while not self.order.stopped:
            with self._numbers_lock:
                number = next(self._numbers, None)
            if number is None:
                return
            yield number

    def _read(self) -> None:
        """One thread's share of the work."""
        model = self.worker.model
        # On a CPU every thread takes batches of its own, and sums in one order. Beside a card torch has next to nothing
        # to do on the host, and threads that wait for more of it would take the cores of those that cut texts.
        torch.set_num_threads(1)
        try:
            computed = self.worker.path == CUDA  # attention, from queries and keys
            with Reader(model, layers=self.worker.settings.layers, weights=not computed, scores=computed) as reader:
                for number in self._deal():
                    begin, refs = self.batches[number]
                    self._read_batch(reader, number, begin, [ref.window for ref in refs])
                    self.worker.trimmer.ran(len(refs))
                    self.on_progress(len(refs))
        except BaseException:
            self.order.stop()
            raise

    def _read_batch(self, reader: Reader, number: int, begin: int, windows: list[Window]) -> None:
        try:
            batch = self.worker.batch(windows) if self.ahead is None else self.ahead.batch_of(number)
            with self.order.turn("begin", number):
                sink = self.accumulator.begin(batch, begin)

            def layer(heads: LayerHeads) -> None:
                with self.order.turn((heads.stack, heads.layer), number):
                    sink.layer(heads)

            # Of several threads one would decide for the others, so that all of them go without.
            many_shapes = self.worker.threads.reading > 1 or len({len(window) for window in batch.windows}) > 1
            with without_plans(many_shapes and reader.model.network.device.type == "cuda"):
                reader.read(batch, layer)
            with self.order.turn("finish", number):
                sink.finish()
            self.worker.under_way.set()
        except NotFinite as error:
            dtype = self.worker.settings.dtype
            raise HeadscopeError(
                f"{reader.model.name!r} gives NaN or infinite numbers in {error.stack} layer {error.layer}, in a batch "
                f"with the text that begins {windows[0].texts[0][:60]!r}",
                'run it in "float32"' if dtype != "float32" else error.remedy,
            ) from error
        except MemoryError as error:  # while the windows were indexed
            raise OutOfMemory(
                f"a batch of {counted(len(windows), 'window')} does not fit into memory", "take a smaller batch"
            ) from error


def stack_shapes(stacks: Mapping[str, Stack], settings: Settings) -> dict[str, Shape]:
    """The shape of each stack's sums under these settings."""
    shapes = {}
    choices, relations = settings.choices, tuple(name for name, _ in settings.relations)
    for stack in stacks.values():
        layers = range(stack.layers) if settings.layers is None else settings.layers
        kept = tuple(layer for layer in layers if layer < stack.layers)
        if not kept:  # a decoder may be less deep than its encoder
            continue
        cross = stack.name == "cross"  # its values are the encoder's, its pairs the decoder's
        readings = tuple(name for name in choices.readings if not (cross and name == "values"))
        if not readings:
            raise HeadscopeError("cross-attention has no reading 'values'", "name another reading beside it")
        shapes[stack.name] = Shape(kept, stack.heads, choices.window, relations, cross, readings)
    return shapes
