"""The work itself: the texts of a shard go through the model, batch by batch, and leave their sums."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import torch

from headscope.choices import COMPILED
from headscope.errors import HeadscopeError
from headscope.measures.accumulator import Accumulator, NotFinite
from headscope.measures.columns import RowTable
from headscope.measures.own_relations import Labels
from headscope.measures.variables import Shape, Sums
from headscope.models.reading import OutOfMemory, Reader
from headscope.runs.clusters import too_many_windows
from headscope.runs.in_order import InOrder, Stopped
from headscope.runs.memory import Trimmer, check_tables
from headscope.runs.paths import make_accumulator
from headscope.runs.plan import MOST_WINDOWS, batch_size_of
from headscope.runs.settings import Settings
from headscope.tap import LayerHeads
from headscope.texts import Record
from headscope.windows import Window
from headscope.windows.cutting import Cutters, CutTexts, Cutting

if TYPE_CHECKING:
    from headscope.models.model import Model

AHEAD = 2  # shards


@dataclass(slots=True)
class WindowRef:
    """One window of a shard: which text it is of, and which of that text's windows."""

    record: Record
    number: int
    window: Window


@dataclass(slots=True)
class ShardResult:
    """What a shard came to: the sums of each stack, its windows in the order they were run, rows per head."""

    sums: Sums = field(default_factory=dict)
    windows: list[WindowRef] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)  # texts that no window could be made of
    rows: Mapping[str, RowTable] = field(default_factory=dict)  # of each stack, where rows per text are kept


@dataclass(frozen=True, slots=True)
class Threads:
    """How the cores are used; no number depends on it.

    On a CPU every core takes whole batches through the model. A graphics card is given two, so that it never waits for
    the windows of the next; the cores share the counting, where the card does not count itself, and cut the texts of
    the next shards in processes.
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
        self.shapes = stack_shapes(model, settings)
        check_tables(self.shapes.values())
        self.trimmer = Trimmer()
        choices = settings.choices
        self.cutting = Cutting(
            model.tokenizer, model.template, choices.window, choices.windows, choices.seed,
            model.stack().causal and not model.paired, choices.language,
        )  # fmt: skip
        self._cutters = Cutters(self.cutting, self.threads.cutting)
        self.ahead = AHEAD if self.threads.cutting else 0  # shards whose texts are cut before they are wanted
        # Kept from shard to shard, and with it the memory that threads hold.
        self._pool = ThreadPoolExecutor(self.threads.reading)

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *error: object) -> None:
        self._pool.shutdown()
        self._cutters.close()

    def windows(self, record: Record) -> list[Window]:
        """The windows of one text."""
        return self.cutting.windows(record.text)

    def cut(self, records: Sequence[Record]) -> CutTexts:
        """Begin to cut the texts of a shard, where there are processes for it; gives what `shard` waits for."""
        return self._cutters.begin([record.text for record in records])

    def shard(
        self,
        records: Sequence[Record],
        batch: int,
        on_progress: Callable[[float], None] | None = None,
        cut: CutTexts | None = None,
    ) -> ShardResult:
        """Run the texts of a shard; `on_progress` is called with how many texts were done since its last call."""
        shard = self._windows(records, cut or self.cut(records))
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
        )
        try:
            work.run(self._pool, self.threads.reading)
        finally:
            accumulator.close()
        shard.sums, shard.rows = accumulator.sums(), accumulator.rows
        return shard

    @staticmethod
    def _windows(records: Sequence[Record], cut: CutTexts) -> ShardResult:
        """The windows of the texts, in the order in which they go through the model."""
        shard = ShardResult()
        for record, windows in zip(records, cut(), strict=True):
            if isinstance(windows, str):
                shard.refused.append(f"{record.id}: {windows}")
                continue
            shard.windows += [WindowRef(record, number, window) for number, window in enumerate(windows)]
            if len(shard.windows) > MOST_WINDOWS:
                raise too_many_windows(records)
        shard.windows.sort(key=lambda each: len(each.window))  # stable: like lengths go together
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


class _ShardWork:
    """The batches of one shard, dealt out to threads; what they give is added in the order of the batches."""

    def __init__(
        self,
        worker: Worker,
        windows: Sequence[WindowRef],
        batch: int,
        accumulator: Accumulator,
        on_progress: Callable[[int], None],
    ) -> None:
        self.worker, self.accumulator, self.on_progress = worker, accumulator, on_progress
        size = batch_size_of(len(windows), batch)
        self.batches = [(begin, windows[begin : begin + size]) for begin in range(0, len(windows), size)]
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
        if model.network.device.type == "cpu":
            torch.set_num_threads(1)  # every thread takes batches of its own; and sums in one order
        try:
            with Reader(model, layers=self.worker.settings.layers) as reader:
                for number in self._deal():
                    begin, refs = self.batches[number]
                    self._read_batch(reader, number, begin, [ref.window for ref in refs])
                    self.worker.trimmer.ran(len(refs))
                    self.on_progress(len(refs))
        except BaseException:
            self.order.stop()
            raise

    def _read_batch(self, reader: Reader, number: int, begin: int, windows: list[Window]) -> None:
        batch, control = reader.batch(windows), self.worker.settings.control
        if control is not None and control.kind == "rotated":
            batch = batch.rotated(self.worker.settings.choices.special)
        try:
            with self.order.turn("begin", number):
                sink = self.accumulator.begin(batch, begin)

            def layer(heads: LayerHeads) -> None:
                with self.order.turn((heads.stack, heads.layer), number):
                    sink.layer(heads)

            reader.read(batch, layer)
            with self.order.turn("finish", number):
                sink.finish()
        except NotFinite as error:
            dtype = self.worker.settings.dtype
            raise HeadscopeError(
                f"{reader.model.name!r} gives NaN or infinite numbers in {error.stack} layer {error.layer}, in a batch "
                f"with the text that begins {windows[0].texts[0][:60]!r}",
                'run it in "float32"' if dtype != "float32" else error.remedy,
            ) from error
        except MemoryError as error:  # while the windows were indexed
            raise OutOfMemory(f"{len(windows)} windows do not fit into memory", "take a smaller batch") from error


def stack_shapes(model: Model, settings: Settings) -> dict[str, Shape]:
    """The shape of each stack's sums under these settings."""
    shapes = {}
    choices, relations = settings.choices, tuple(name for name, _ in settings.relations)
    for stack in model.stacks.values():
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
