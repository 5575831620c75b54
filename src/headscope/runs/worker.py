"""The work itself: the texts of a shard go through the model, batch by batch, and leave a tally."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray

from headscope.errors import HeadscopeError, brief
from headscope.measures.described import Described, Labels, describe
from headscope.measures.pair_loops import ROWS
from headscope.measures.similarity import first_high_bin, unit
from headscope.measures.tally import HeadRows, Shape, Tally, even_of_batch
from headscope.models.forward import collate, forward, pad_token, start_token
from headscope.runs.memory import Trimmer
from headscope.runs.settings import Settings
from headscope.tap import LayerHeads, tap
from headscope.texts import Record
from headscope.windows import Window, corpus_windows, shifted_window
from headscope.windows.window import END, STOP

if TYPE_CHECKING:
    from headscope.models.model import Model


LEAST = 8  # windows for each lane: adding up another lane's tables has its price
MOST_WINDOWS = 65_536  # of one shard, which are held at once: more than a gigabyte


class OutOfMemoryError(Exception):
    """A batch did not fit; half of it may."""


@dataclass(slots=True)
class Shown:
    """One window of a shard: which text it is of, and which of that text's windows."""

    record: Record
    number: int
    window: Window


class RowTable:
    """What each head of a stack did with each window of a shard: W windows, L layers, H heads."""

    COLUMNS = ("stop_focus", "end_focus", *ROWS, "focal_expected")

    def __init__(self, windows: int, layers: tuple[int, ...], heads: int) -> None:
        self.layers = layers
        self.values = np.full((windows, len(layers), heads, len(self.COLUMNS)), np.nan, dtype=np.float32)
        self.focal = np.full((windows, len(layers), heads), -1, dtype=np.int32)

    def put(self, begin: int, layer: int, found: HeadRows) -> None:
        """Write down one layer of a batch whose first window has the number `begin`."""
        k, where = self.layers.index(layer), slice(begin, begin + len(found.rows))
        with np.errstate(divide="ignore", invalid="ignore"):
            focus = found.given / found.even[:, None]  # (B, H, categories); 0 / 0 where there is no such token
        self.values[where, k, :, :2] = focus[..., [STOP, END]]
        self.values[where, k, :, 2:-1] = found.rows
        self.values[where, k, :, -1] = found.focal_expected[:, None]
        none = found.rows[..., :1] == 0
        self.values[where, k, :, 3:-1] = np.where(none, np.nan, self.values[where, k, :, 3:-1])
        self.focal[where, k] = found.focal_token


@dataclass(slots=True)
class Outcome:
    """What a shard came to: the sums of each stack, the windows in the order they were run, rows per head."""

    tallies: dict[str, Tally]
    shown: list[Shown] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)  # texts that no window could be made of
    rows: dict[str, RowTable] = field(default_factory=dict)  # of each stack, where rows per text are kept


class Worker:
    """Runs shards of texts through one model with one choice of settings.

    The batches of a shard are dealt out to lanes, threads that each take whole batches through the model on their own
    share of the cores: nobody waits for anybody until the shard is done.
    """

    def __init__(
        self,
        model: Model,
        settings: Settings,
        relations: Mapping[str, Labels],
        *,
        lanes: int = 1,
        threads: int = 1,
        per_text: bool = False,
    ) -> None:
        self.model, self.settings, self.relations = model, settings, relations
        self.lanes, self.threads, self.per_text = lanes, threads, per_text  # threads: of each lane
        self.paired = "encoder" in model.stacks and len(model.stacks) > 1  # an encoder with a decoder
        self.shapes = stack_shapes(model, settings)
        self.trimmer = Trimmer()
        self._pool = ThreadPoolExecutor(lanes)  # kept from shard to shard, and with it the memory that threads hold

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *error: object) -> None:
        self._pool.shutdown()

    def tallies(self) -> dict[str, Tally]:
        """An empty tally for each stack."""
        lowest, theta = first_high_bin(self.settings.tau), self.settings.theta
        return {
            name: Tally(shape, lowest=lowest, theta=theta, threads=self.threads) for name, shape in self.shapes.items()
        }

    def windows(self, record: Record) -> list[Window]:
        """The windows of one text."""
        model, settings = self.model, self.settings
        return corpus_windows(
            record.text,
            model.tokenizer,
            model.template,
            length=settings.window,
            choice=settings.windows,
            seed=settings.seed,
            causal=model.stack().causal and not self.paired,
            language=settings.language,
        )

    def shard(self, records: Sequence[Record], batch: int, tell: Callable[[float], None] | None = None) -> Outcome:
        """Run the texts of a shard; `tell` hears how many texts were done since it was last told."""
        outcome = Outcome({})
        for record in records:
            try:
                found = self.windows(record)
            except HeadscopeError as error:  # no token in it: a text of characters that the tokenizer drops
                outcome.refused.append(f"{record.id}: {error.problem}")
                continue
            outcome.shown += [Shown(record, number, window) for number, window in enumerate(found)]
            if len(outcome.shown) > MOST_WINDOWS:
                raise HeadscopeError(
                    f"the {len(records):,} texts of a shard have more than {MOST_WINDOWS:,} windows",
                    "make smaller shards",
                )
        outcome.shown.sort(key=lambda shown: len(shown.window))  # stable: like lengths go together
        # A small shard leaves no lane of a small machine idle; on a large one, lanes must have enough to do.
        most = min(self.lanes, max(2, len(outcome.shown) // LEAST))
        size = min(batch, max(1, -(-len(outcome.shown) // most)))
        groups = [(begin, outcome.shown[begin : begin + size]) for begin in range(0, len(outcome.shown), size)]
        if self.per_text:
            outcome.rows = {name: RowTable(len(outcome.shown), s.layers, s.heads) for name, s in self.shapes.items()}
        number = max(1, min(most, len(groups)))
        try:
            each = len(records) / max(len(outcome.shown), 1)  # texts to a window
            lanes = [Lane(self, outcome.rows, lambda n: tell(n * each) if tell else None) for _ in range(number)]
        except MemoryError as error:
            raise HeadscopeError("the tables of counts do not fit into memory", "take fewer layers or cores") from error
        waiting = [self._pool.submit(lane.run, groups[k :: len(lanes)], lanes) for k, lane in enumerate(lanes)]
        try:
            for done in waiting:
                done.result()
        except BaseException:  # Ctrl-C, for one: the lanes end with the batch they are at
            for lane in lanes:
                lane.stopped = True
            wait(waiting)
            raise
        for lane in lanes:
            for name, tally in lane.tallies.items():
                if name in outcome.tallies:
                    outcome.tallies[name].add(tally)
                else:
                    outcome.tallies[name] = tally
        return outcome


def stack_shapes(model: Model, settings: Settings) -> dict[str, Shape]:
    """The shape of each stack's sums under these settings."""
    found = {}
    own = tuple(name for name, _ in settings.relations)
    for stack in model.stacks.values():
        layers = range(stack.layers) if settings.layers is None else settings.layers
        kept = tuple(layer for layer in layers if layer < stack.layers)
        if not kept:  # a decoder may be less deep than its encoder
            continue
        found[stack.name] = Shape(kept, stack.heads, settings.window, own, cross=stack.name == "cross")
    return found


class Lane:
    """One thread's way through its share of a shard's batches."""

    def __init__(self, worker: Worker, rows: dict[str, RowTable], tell: Callable[[int], None]) -> None:
        self.worker, self.rows, self.tell = worker, rows, tell
        self.tallies = worker.tallies()
        self.stopped = False
        self._buffer = torch.empty(0)
        self._begin, self._windows = 0, list[Window]()  # the batch at hand, and the number of its first window
        self._sides: dict[str, tuple[Described, Described]] = {}
        self._even: dict[str, tuple[torch.Tensor | None, NDArray[np.float64]]] = {}

    def run(self, groups: Sequence[tuple[int, Sequence[Shown]]], lanes: Sequence[Lane]) -> None:
        """Take the batches through the model one after the other; an error in one lane stops all."""
        model = self.worker.model
        if model.network.device.type == "cpu":
            torch.set_num_threads(self.worker.threads)
        try:
            if not groups:
                return
            with tap(
                model.network,
                self._layer,
                weights=True,
                route=model.report.route,
                causal=model.stack().causal,
                layers=self.worker.settings.layers,
            ):
                for begin, group in groups:
                    if self.stopped:
                        return
                    self._begin = begin
                    self._guarded([shown.window for shown in group])
                    self.worker.trimmer.ran(len(group))
                    self.tell(len(group))
        except BaseException:
            for lane in lanes:
                lane.stopped = True
            raise
        finally:
            for tally in self.tallies.values():
                tally.close()

    def _guarded(self, windows: list[Window]) -> None:
        """One batch; running out of memory is told apart from whatever else a model may raise."""
        try:
            self._batch(windows)
        except (torch.OutOfMemoryError, MemoryError) as error:
            raise OutOfMemoryError from error
        except RuntimeError as error:
            if any(said in str(error) for said in ("not enough memory", "out of memory", "allocate memory")):
                raise OutOfMemoryError from error
            raise HeadscopeError(
                f"{self.worker.model.name!r} failed on a batch of {len(windows)} windows: {brief(error)}",
                "try a smaller window; headscope check tells whether the model works at all",
            ) from error

    def _batch(self, windows: list[Window]) -> None:
        worker, model = self.worker, self.worker.model
        config = model.network.config
        read = said = self._describe(windows)
        if worker.paired:
            start = start_token(config)
            said = self._describe([shifted_window(window, start, model.tokenizer) for window in windows])
        self._windows = windows
        self._sides = {"encoder": (read, read), "decoder": (said, said), "cross": (said, read)}
        self._even = {}
        for name, tally in self.tallies.items():
            tally.add_windows(*self._sides[name])
        batch = collate([window.ids.tolist() for window in windows], pad_token(config), model.network.device)
        forward(model.network, batch)

    def _layer(self, heads: LayerHeads) -> None:
        """Take in what one layer read and wrote."""
        tally, settings = self.tallies.get(heads.stack), self.worker.settings
        if tally is None or heads.layer not in tally.shape.layers:
            return
        queries, keys = self._sides[heads.stack]
        before = self._even.get(heads.stack)
        if before is None or not _same(before[0], heads.readable):
            even = even_of_batch(heads.readable, queries.lengths.tolist(), keys.lengths.tolist())
            before = self._even[heads.stack] = (heads.readable, even)
        assert heads.weights is not None
        weights = heads.weights.float().contiguous().cpu().numpy()
        added = tally.add_layer(
            heads.layer, self._products(heads.outputs), weights, before[1], queries, keys, settings.scale
        )
        if added is None:
            raise HeadscopeError(
                f"{self.worker.model.name!r} gives NaN or infinite numbers in {heads.stack} layer {heads.layer}, in a "
                f"batch with the text that begins {self._windows[0].texts[0][:60]!r}",
                'run it in "float32"' if settings.dtype != "float32" else "check the model's weights",
            )
        if self.rows:
            self.rows[heads.stack].put(self._begin, heads.layer, added)

    def _describe(self, windows: list[Window]) -> Described:
        settings = self.worker.settings
        heads = max(shape.heads for shape in self.worker.shapes.values())
        own = self.worker.relations
        return describe(windows, heads, repeated=settings.repeated, special=settings.special, own=own)

    def _products(self, outputs: torch.Tensor) -> NDArray[np.float32]:
        """O·Oᵀ of every head with its diagonal, in a buffer that is used again: (B, H, T, d) to (B, H, T, T)."""
        outputs = outputs.float()
        if self.worker.settings.similarity == "cosine":
            outputs = unit(outputs)
        if outputs.device.type != "cpu":
            return (outputs @ outputs.transpose(-1, -2)).cpu().numpy()
        shape = (*outputs.shape[:-1], outputs.shape[-2])
        size = math.prod(shape)
        if self._buffer.numel() < size:  # large enough for every later batch: they are ordered by length
            most = self.worker.settings.window
            self._buffer = torch.empty(max(size, math.prod(shape[:-2]) * most * most))
        return torch.matmul(outputs, outputs.transpose(-1, -2), out=self._buffer[:size].view(shape)).numpy()


def _same(one: torch.Tensor | None, other: torch.Tensor | None) -> bool:
    if one is None or other is None:
        return one is other
    return one.shape == other.shape and torch.equal(one, other)
