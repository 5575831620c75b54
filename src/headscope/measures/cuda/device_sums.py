"""The sums of one stack on a graphics card, filled layer by layer by the kernels."""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from headscope.choices import BINS, THRESHOLDS, Choices, first_high_bin, step_of
from headscope.measures.accumulator import LayerBatch, NotFinite, fill_declared
from headscope.measures.bands import band_names
from headscope.measures.batch_index import TokenIndex
from headscope.measures.columns import text_columns
from headscope.measures.comparisons import COMPARISONS, CONTRASTED, CONTRASTS
from headscope.measures.compiled_sums import LayerRows, StackSums
from headscope.measures.cuda.arguments import (
    ADDED,
    MOST_CHOICES,
    MOST_SUMS,
    POINTERS,
    TILE,
    Constants,
    packed,
    packed_list,
)
from headscope.measures.cuda.chip_memory import (
    LevelMemory,
    attend_bytes,
    attention_bytes,
    level_memory,
    match_bytes,
    mixed_bytes,
    order_bytes,
    tile_bytes,
)
from headscope.measures.cuda.device_batch import DeviceBatch, DeviceReadable
from headscope.measures.cuda.device_layer import layer_attention, layer_products
from headscope.measures.cuda.kernels import Kernels, Launch
from headscope.measures.cuda.layout import Filled, Layout, Rooms
from headscope.measures.cuda.pair_sums import PairSums
from headscope.measures.cuda.put_sums import put_sums
from headscope.measures.order import FEWEST_FOR_TOP, LEAST_TOP
from headscope.measures.relations import RELATIONS
from headscope.measures.variables import MATRIX, Shape
from headscope.models.transfer import Sent, to_device
from headscope.tap import LayerHeads
from headscope.windows import CATEGORIES

STEPS, REGIONS = len(THRESHOLDS), 3
NARROW, WIDE = 128, 256  # threads of a block
MOST_BLOCKS = 2048 // WIDE  # to a processor
COUNTABLE = 2**16 - 1  # pairs in half a word
CHOSEN = ("focal_ids", "focal", "focal_null", "top", "top_null")  # tokens, of which there may be none
# What is added up over the windows of a batch: sums of floats, and counts.
SUMMED = ("given", "weighted", "entropy", "map_wins", "wins", "inside", "top_matched", "correlation", "with_norms",
          "matched", "diagonal", "mask_sum", "focal_share", "frequency", "reach")  # fmt: skip
COUNTED = ("flat", "mask_pairs", "longest", "top_kinds")
Tensors = dict[str, Tensor]
Given = dict[str, Any]  # by name of a pointer, a tensor or an address; None: there is none; others are passed over


class DeviceSums:
    """The sums of one stack: those of layers on the device, those of windows on the host."""

    def __init__(self, shape: Shape, choices: Choices) -> None:
        self.shape, self.choices = shape, choices
        self.host = StackSums(shape, choices)
        rules = self.host.rules
        self.maps = 0 if shape.cross else len(shape.maps)
        self.constants = Constants(
            tuple(rules.source.tolist()),
            tuple(rules.scaled.tolist()),
            len(self.host.sources),
            self.host.outputs_source,
            self.maps,
        )
        self.bands = len(band_names(shape.length))
        self.table = int(np.prod(self.host.arrays["pairs"].shape[3:]))
        self._numbers_of = {name: shape.heads * math.prod(tail) for name, tail in self._tails().items()}  # of a window
        self.kept = Layout(self._kept_arrays())
        self._room: Tensor | None = None  # (layers, bytes): counts and sums
        self._filled: dict[tuple[int, int], Layout] = {}  # by number of windows and of tokens that are read
        self.pairs = PairSums(shape)
        self._ran: set[int] = set()  # layers
        self._focal: list[Tensor] = []  # ids at the run's τ, of each batch: (L, B, H)
        self._mixed: list[Tensor] = []  # (readings,) of each batch
        self._sent: Sent | None = None
        self._sent_layers: set[int] = set()
        self._put_before = False

    def add_windows(self, queries: TokenIndex, keys: TokenIndex) -> None:
        """Count the windows of a batch."""
        self.host.add_windows(queries, keys)

    # ------------------------------------------------------------------ one layer

    def room_of(self, place: int, device: torch.device) -> Tensor:
        """Memory for the counts and sums of a layer, as `kept` lays it out."""
        if self._room is None:
            self._room = torch.zeros((len(self.shape.layers), self.kept.size), dtype=torch.uint8, device=device)
        self._ran.add(self.shape.layers[place])
        return self._room[place]

    def add_layer(
        self, heads: LayerHeads, batch: DeviceBatch, read: DeviceReadable, filled: Filled, kernels: Kernels
    ) -> None:
        """Have the kernels count one layer of a batch."""
        place = self.shape.layers.index(heads.layer)
        room, attention = self.room_of(place, heads.outputs.device), layer_attention(heads)
        numbers, kept = self.numbers(heads, attention.laid_out(), batch), self.kept.addresses(room)
        memory = level_memory(numbers, kernels.most_shared)
        blocks = self.blocks(numbers, memory.size, kernels)
        on_chip = self.maps > 1 and kernels.tiles and numbers["tokens"] <= TILE
        on_chip = on_chip and tile_bytes(numbers) <= kernels.most_shared
        numbers |= {"table_on_chip": int(memory.table), "rows_square": int(not on_chip)}
        given: Given = dict.fromkeys(POINTERS)
        given |= batch.tensors | read._asdict() | attention._asdict()
        given |= kept | filled.addresses | self._workspace(numbers, memory, blocks, attention.weights)
        if attention.queries is not None:
            given["computed"] = attention.weights
        reals = {"theta": self.choices.theta, "scaling": attention.scaling}
        launch, grid = kernels.launcher(), (numbers["heads"], numbers["windows"])
        self._look(packed(numbers, reals, given), numbers, given, launch, on_chip=on_chip)
        # Maps are let go of before there are products: what is freed here is used again there.
        weights = attention.weights if any(each.fill for each in self.host.declared) else None
        del attention
        given |= dict.fromkeys(("weights", "computed", "roots"))
        products = given["products"] = layer_products(heads, batch.queries, self.host)
        told = packed(numbers, reals, given)
        launch("by_order", grid, WIDE, order_bytes(numbers, self.constants), told)
        levels = "by_level" if memory.times else "by_level_of_many"
        launch(levels, (numbers["heads"], blocks), WIDE, memory.size, told)
        launch("match", (1, numbers["windows"]), WIDE, match_bytes(self.kinds), told)
        if MATRIX in self.kept.arrays:
            launch("add_matrices", (numbers["heads"], -(-numbers["tokens"] // 2)), NARROW, 0, told,
                   batch.tensors["counts"], self.kept.view(room, MATRIX), self.shape.length)  # fmt: skip
        fill_declared(
            self.host.declared,
            self.host.arrays,
            place,
            lambda: self._on_host(heads, products, weights, batch, read),
        )

    def add_up(self, rooms: Rooms, batch: DeviceBatch, kernels: Kernels) -> None:
        """Add up over heads and windows what the kernels filled of all layers of a batch."""
        assert self._room is not None
        size, heads, layers, launch = len(batch.queries.lengths), self.shape.heads, len(rooms.room), kernels.launcher()
        choices, sums = self._lists(rooms.layout)
        begins = (rooms.room.data_ptr(), self._room.data_ptr())
        steps = (rooms.layout.size, self.kept.size)
        for name, rows, most, numbers, others in (
            ("count_unique", choices, MOST_CHOICES, size * STEPS, (batch.tensors["sizes"], size, heads)),
            ("add_windows", sums, MOST_SUMS, int(sums[:, -1].max()), (size,)),
        ):
            placed = rows.copy()
            placed[:, :2] += begins
            of_layers = struct.pack("3q", len(rows), *steps)
            grid = (-(-numbers // NARROW), len(rows) * layers)
            launch(name, grid, NARROW, 0, packed_list(placed, most), of_layers, *others)

    def add_even(self, places: Sequence[int], read: DeviceReadable) -> None:
        """Add what even attention gives to categories, in the layers that may read the same tokens."""
        assert self._room is not None
        of_layers, total = self.kept.view_of_all(self._room, "sum_even"), read.even_by_category.sum(0)  # (L, C), (C,)
        if list(places) == list(range(places[0], places[-1] + 1)):
            of_layers[places[0] : places[-1] + 1] += total
            return
        for place in places:  # a list of places would have to be sent to the card, and be waited for
            of_layers[place] += total

    def numbers(self, read: LayerHeads, laid_out: dict[str, int], batch: DeviceBatch) -> dict[str, int]:
        """The numbers that the kernels take, but for what there is room for on the chip; see `NUMBERS`."""
        (size, heads, tall, _), queries = read.outputs.shape, batch.queries
        wide = batch.keys.category.shape[1]
        return {
            "windows": size, "heads": heads, "tokens": tall, "keys": wide, "counting": queries.positions.shape[1],
            "most_pairs": queries.most_pairs, "distances": self.shape.length - 1,
            "most_ids": queries.ids.shape[1], "bands": self.bands,
            "table": self.table, "customs": len(self.shape.relations), "layer": read.layer,
            "lowest": first_high_bin(self.choices.tau), "at_tau": step_of(self.choices.tau),
            "fewest_for_top": FEWEST_FOR_TOP, "least_top": LEAST_TOP, "by_band": int(self.host.by_band),
                    } | laid_out  # fmt: skip

    def _workspace(self, numbers: dict[str, int], memory: LevelMemory, blocks: int, weights: Tensor) -> Tensors:
        """Memory that the kernels use for a while: numbers of pairs, and what the chip has no room for."""
        size, heads, device = numbers["windows"], numbers["heads"], weights.device
        by_pair, by_map = (size, heads, numbers["most_pairs"]), weights.shape
        space = {"nulls": torch.empty((size, heads, numbers["most_ids"]), dtype=torch.int32, device=device)}
        if self.maps > 0:
            space["direct"] = torch.empty(by_pair, dtype=torch.float32, device=device)
        if self.maps > 1:
            rows = by_map if numbers["rows_square"] else by_pair
            space["rows"] = torch.empty(rows, dtype=torch.float32, device=device)
            if numbers["rows_square"]:
                space["roots"] = torch.empty(by_map, dtype=torch.float32, device=device)
        if not memory.times:
            times = (blocks, heads, 2, numbers["most_ids"], BINS)
            space["scratch"] = torch.empty(times, dtype=torch.int32, device=device)
        return space

    def _look(self, told: bytes, numbers: dict[str, int], given: Given, launch: Launch, *, on_chip: bool) -> None:
        """What attention says: which tokens are high, and two numbers of each pair."""
        grid = (numbers["heads"], numbers["windows"])
        if given["computed"] is not None:
            launch("attend", grid, WIDE, attend_bytes(), told)
        if on_chip:
            launch("attention_tile", grid, WIDE, tile_bytes(numbers), told)
            return
        launch("attention", grid, NARROW, attention_bytes(numbers), told)
        if self.maps > 0:
            launch("read_each_other", grid, WIDE, 0, told)
        roots, rows = given["roots"], given["rows"]
        if isinstance(roots, Tensor) and isinstance(rows, Tensor):
            torch.matmul(roots, roots.transpose(-1, -2), out=rows)

    def blocks(self, numbers: dict[str, int], memory: int, kernels: Kernels) -> int:
        """How many blocks share the windows of a head, so that the card has as many as it can run at a time.

        None has so many windows that half a word could not count their pairs of one distance.
        """
        size, heads = numbers["windows"], numbers["heads"]
        at_once = kernels.processors * max(1, min(MOST_BLOCKS, kernels.most_shared // memory))
        return min(size, max(-(-at_once // heads), -(-size * self.shape.length // COUNTABLE)))

    @property
    def kinds(self) -> int:
        """Kinds of pairs: bands and relations."""
        return self.bands * len(RELATIONS)

    def _kept_arrays(self) -> dict[str, tuple[str, tuple[int, ...]]]:
        """Counts and sums of one layer."""
        shape, readings = self.shape, len(self.shape.readings)
        counts = {
            "attended": (shape.heads, STEPS, len(CATEGORIES)), "attended_text": (shape.heads, STEPS, len(CATEGORIES)),
            "top_few": (shape.heads, readings),
            "pairs": (shape.heads, BINS, self.table), "distance_sum": (shape.heads, BINS, len(RELATIONS)),
            "custom_pairs": (len(shape.relations), shape.heads, BINS, self.table),
            "focal_unique": (STEPS, shape.heads + 1), "focal_null_unique": (STEPS, shape.heads + 1),
            "top_unique": (readings, shape.heads + 1), "top_null_unique": (readings, shape.heads + 1),
            "sum_focal_few": (shape.heads, STEPS),
        }  # fmt: skip
        sums = {f"sum_{name}": (shape.heads, *tail) for name, tail in self._tails().items() if name in SUMMED}
        sums["sum_even"] = (len(CATEGORIES),)
        if MATRIX in self.host.arrays:
            sums[MATRIX] = (shape.heads, shape.length, shape.length)
        counts |= {f"sum_{name}": (shape.heads, *tail) for name, tail in self._tails().items() if name in COUNTED}
        arrays = {name: ("double", each) for name, each in sums.items()}
        return arrays | {name: ("u64", each) for name, each in counts.items()} | {"not_finite": ("int", (1,))}

    def _tails(self) -> dict[str, tuple[int, ...]]:
        """What the kernels fill for each head and window: its dimensions beside these."""
        readings, comparisons = len(self.shape.readings), len(COMPARISONS)
        return {
            "focal_ids": (), "focal": (STEPS,), "focal_null": (STEPS,), "top": (readings,), "top_null": (readings,),
            "given": (len(CATEGORIES),), "weighted": (len(CATEGORIES),), "entropy": (), "inside": (), "diagonal": (),
            "map_wins": (self.maps, len(CONTRASTED)), "wins": (readings, len(CONTRASTS)), "with_norms": (readings,),
            "top_kinds": (readings, self.kinds), "high_kinds": (self.kinds,),
            "top_matched": (readings, comparisons, 2), "correlation": (readings, self.maps),
            "matched": (comparisons, 2), "mask_sum": (STEPS, REGIONS), "focal_share": (STEPS,), "frequency": (),
            "reach": (), "row": (3,), "flat": (), "mask_pairs": (STEPS, REGIONS), "longest": (),
            "high_pairs": (STEPS,), "largest": (),
        }  # fmt: skip

    def rooms(self, size: int, wide: int, device: torch.device) -> Rooms:
        """Room for what the kernels fill in a batch of so many windows: zeros, or no token."""
        if (size, wide) not in self._filled:
            tails = self._tails() | {"high": (wide,), "passed": (wide,)}
            assert tuple(tails)[: len(CHOSEN)] == CHOSEN
            each = {name: (POINTERS[name][0], (size, self.shape.heads, *tail)) for name, tail in tails.items()}
            self._filled[size, wide] = Layout(each)
        layout = self._filled[size, wide]
        room = torch.zeros((len(self.shape.layers), layout.size), dtype=torch.uint8, device=device)
        end = layout.begins[tuple(layout.arrays)[len(CHOSEN)]]
        room[:, :end].fill_(255)  # -1 in every int
        return Rooms(layout, room)

    @lru_cache(8)  # noqa: B019 - as many sizes as a shard has, and it ends with it
    def _lists(self, layout: Layout) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """What is added up over windows, from which byte of `layout` to which of `kept`; see CHOICE and SUM."""
        begins, kept, number = layout.begins, self.kept.begins, self._numbers_of
        steps = {"focal": STEPS, "top": len(self.shape.readings)}
        choices = [
            (begins[f"{name}{null}"], kept[f"{name}{null}_unique"], many)
            for name, many in steps.items()
            for null in ("", "_null")
        ]
        doubles, counts, few = range(len(ADDED))
        rows = [(begins[name], kept[f"sum_{name}"], doubles, number[name]) for name in SUMMED]
        rows += [(begins[name], kept[f"sum_{name}"], counts, number[name]) for name in COUNTED]
        rows.append((begins["high_pairs"], kept["sum_focal_few"], few, number["high_pairs"]))
        return np.array(choices, dtype=np.int64), np.array(rows, dtype=np.int64)

    def _on_host(
        self, heads: LayerHeads, products: Tensor, weights: Tensor | None, batch: DeviceBatch, read: DeviceReadable
    ) -> LayerBatch:
        """The layer as variables that were declared elsewhere see it."""
        assert weights is not None
        own = (products[self.host.outputs_source], weights.float(), read.even)
        similar, given, even = (each.cpu().numpy() for each in own)
        return LayerBatch(heads, similar, given, even, batch.queries, batch.keys)

    def add_chosen(self, rooms: Rooms, batch: DeviceBatch, kernels: Kernels) -> None:
        """Tokens that heads of all layers have chosen: which they are, and what heads drawn from all would have."""
        self._focal.append(rooms.every("focal_ids"))
        top = rooms.every("top")  # (L, B, H, readings)
        layers, size, heads, readings = top.shape
        drawn = to_device(self.host.mixed, top.device)
        to = torch.zeros((size, readings), dtype=torch.float64, device=top.device)
        most_ids = batch.queries.ids.shape[1]
        kernels.launcher()("mixed", (size, readings), NARROW, mixed_bytes(most_ids), top, drawn,
                             batch.tensors["distinct"], to, layers, size, heads, most_ids)  # fmt: skip
        self._mixed.append(to.sum(0))

    def rows(self, filled: Filled, batch: DeviceBatch, read: DeviceReadable) -> LayerRows:
        """What each head did with each window, for the rows per text."""
        host = filled.layout.on_host(filled.room)
        at_tau = step_of(self.choices.tau)
        size, heads = host["flat"].shape
        own_weight = batch.tensors["contrast_weight"].cpu().numpy()
        weight = np.broadcast_to(own_weight[:, None], (size, heads, len(CONTRASTED)))
        likeness = host["correlation"][:, :, 0].max(-1) if self.maps else np.zeros((size, heads))
        null = _ids(filled["focal_null"][:, :, at_tau], batch.tensors["ids"]).cpu().numpy()
        columns = text_columns(
            given=host["given"], even=read.even_by_category.cpu().numpy(), wins=host["wins"][:, :, 0],
            weight=np.concatenate([weight, host["inside"][..., None]], axis=-1), matched=host["matched"],
            likeness=likeness, without=(batch.queries.sizes < 2)[:, None] | self.shape.cross,
            others={"high_pairs": host["high_pairs"][:, :, at_tau].astype(np.float64),
                    "mean_distance": host["row"][..., 0], "sentence_share": host["row"][..., 1],
                    "repetition_share": host["row"][..., 2], "focal_share": host["focal_share"][:, :, at_tau]},
        )  # fmt: skip
        return columns, filled["focal_ids"].cpu().numpy(), null

    # ------------------------------------------------------------------ in the end

    def send(self) -> None:
        """Begin to send to the host what was counted so far, after what the card was asked for before."""
        related, weights = self.pairs.taken()
        tensors = {"rooms": self._room, "related": related, "weights": weights}
        tensors["focal"] = torch.cat(self._focal, dim=1) if self._focal else None  # (L, windows, H)
        tensors["mixed"] = torch.stack(self._mixed) if self._mixed else None
        self._sent = Sent({name: each for name, each in tensors.items() if each is not None})
        self._sent_layers = set(self._ran)
        self._room = None
        self._ran.clear()
        self._focal.clear()
        self._mixed.clear()

    def variables(self, stack: str) -> dict[str, Any]:
        """Every sum by its name; the one place where the host waits for the device."""
        if self._sent is None or self._room is not None:
            self.send()
        assert self._sent is not None
        arrays, shape, ran = self.host.arrays, self.shape, self._sent_layers
        sent = self._sent.arrived()
        self._sent = None
        if "related" in sent:
            arrays["base_pairs"] += sent["related"].numpy()
        if "rooms" in sent:
            kept = {name: self.kept.view_of_all(sent["rooms"], name).numpy() for name in self.kept.arrays}
            for layer in np.flatnonzero(kept["not_finite"][:, 0]):
                raise NotFinite(stack, shape.layers[layer])
            weight = sent["weights"].numpy().sum(0)
            weight = weight * np.isin(shape.layers, list(ran))[:, None]
            put_sums(self.host, kept, weight, maps=self.maps > 0, first=not self._put_before)
            self._put_before = True
        if "focal" in sent:
            for k, tokens in enumerate(sent["focal"].numpy()):
                self.host.focal[k].note(tokens)
        if "mixed" in sent:
            for each in sent["mixed"].numpy():
                arrays["top_mixed"] += each
        return self.host.variables()


def _ids(numbers: Tensor, ids: Tensor) -> Tensor:
    """Token ids by their number in the window, -1 for none: (B, H) and (B, K)."""
    return torch.where(numbers >= 0, ids.gather(1, numbers.clamp_min(0).long()), -1)
