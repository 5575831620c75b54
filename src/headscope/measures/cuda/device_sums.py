"""The sums of one stack on a graphics card, filled layer by layer by the kernels."""

from __future__ import annotations

import math
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
    LevelMemory,
    attend_bytes,
    attention_bytes,
    level_memory,
    mixed_bytes,
    order_bytes,
    packed,
    packed_list,
    tile_bytes,
)
from headscope.measures.cuda.device_batch import DeviceBatch, DeviceReadable
from headscope.measures.cuda.device_layer import LayerAttention, layer_attention, layer_products
from headscope.measures.cuda.kernels import Kernels, Launch
from headscope.measures.cuda.layout import Filled, Layout
from headscope.measures.cuda.pair_sums import PairSums
from headscope.measures.order import FEWEST_FOR_TOP, LEAST_TOP
from headscope.measures.relations import RELATIONS
from headscope.measures.variables import MATRIX, Shape
from headscope.models.transfer import to_device, to_host
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
COUNTED = ("flat", "mask_pairs", "longest")
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
        self._kept = Layout(self._kept_arrays())
        self._room: Tensor | None = None  # (layers, bytes): counts and sums
        self._filled: dict[tuple[int, int], Layout] = {}  # by number of windows and of tokens that are read
        self.pairs = PairSums(shape)
        self._ran: set[int] = set()  # layers
        self._focal: dict[int, list[Tensor]] = {layer: [] for layer in shape.layers}  # ids at the run's τ: (B, H)
        self._mixed: list[Tensor] = []  # (readings,) of each batch
        self._kernels: Kernels | None = None

    def add_windows(self, queries: TokenIndex, keys: TokenIndex) -> None:
        """Count the windows of a batch."""
        self.host.add_windows(queries, keys)

    # ------------------------------------------------------------------ one layer

    def add_layer(self, heads: LayerHeads, batch: DeviceBatch, read: DeviceReadable, kernels: Kernels) -> Filled:
        """Have the kernels count one layer of a batch; gives what they filled."""
        self._kernels = kernels
        device, place = heads.outputs.device, self.shape.layers.index(heads.layer)
        if self._room is None:
            self._room = torch.zeros((len(self.shape.layers), self._kept.size), dtype=torch.uint8, device=device)
        self._ran.add(heads.layer)
        room, attention = self._room[place], layer_attention(heads)
        kept, filled = self._kept.addresses(room), self._clear(attention.weights)
        numbers = self._numbers(heads.layer, attention, batch.queries)
        memory = level_memory(numbers, kernels.most_shared)
        blocks = self._blocks(numbers, memory, kernels)
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
        if MATRIX in self._kept.arrays:
            launch("add_matrices", (numbers["heads"], -(-numbers["tokens"] // 2)), NARROW, 0, told,
                   batch.tensors["counts"], self._kept.view(room, MATRIX), self.shape.length)  # fmt: skip
        choices, sums = self._choices(filled, kept), self._sums(filled, kept, read)
        many = -(-numbers["windows"] * STEPS // NARROW)
        launch("count_unique", (many, len(choices)), NARROW, 0, packed_list(choices, MOST_CHOICES),
               batch.tensors["sizes"], numbers["windows"], numbers["heads"])  # fmt: skip
        many = -(-max(row[-1] for row in sums) // NARROW)
        launch("add_windows", (many, len(sums)), NARROW, 0, packed_list(sums, MOST_SUMS), numbers["windows"])
        fill_declared(
            self.host.declared,
            self.host.arrays,
            place,
            lambda: self._on_host(heads, products, weights, batch, read),
        )
        self._focal[heads.layer].append(filled["focal_ids"])
        return filled

    def _numbers(self, number: int, attention: LayerAttention, queries: TokenIndex) -> dict[str, int]:
        """The numbers that the kernels take, but for what there is room for on the chip; see `NUMBERS`."""
        size, heads, tall, wide = attention.weights.shape
        return {
            "windows": size, "heads": heads, "tokens": tall, "keys": wide, "counting": queries.positions.shape[1],
            "most_pairs": queries.most_pairs, "distances": self.shape.length - 1,
            "most_ids": queries.ids.shape[1], "bands": self.bands,
            "table": self.table, "customs": len(self.shape.relations), "layer": number,
            "lowest": first_high_bin(self.choices.tau), "at_tau": step_of(self.choices.tau),
            "fewest_for_top": FEWEST_FOR_TOP, "least_top": LEAST_TOP, "by_band": int(self.host.by_band),
                    } | attention.laid_out()  # fmt: skip

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

    def _blocks(self, numbers: dict[str, int], memory: LevelMemory, kernels: Kernels) -> int:
        """How many blocks share the windows of a head, so that the card has as many as it can run at a time.

        None has so many windows that half a word could not count their pairs of one distance.
        """
        size, heads = numbers["windows"], numbers["heads"]
        at_once = kernels.processors * max(1, min(MOST_BLOCKS, kernels.most_shared // memory.size))
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
            "top_pairs": (shape.heads, readings, self.kinds), "top_few": (shape.heads, readings),
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
            "top_matched": (readings, comparisons, 2), "correlation": (readings, self.maps),
            "matched": (comparisons, 2), "mask_sum": (STEPS, REGIONS), "focal_share": (STEPS,), "frequency": (),
            "reach": (), "row": (3,), "flat": (), "mask_pairs": (STEPS, REGIONS), "longest": (),
            "high_pairs": (STEPS,), "largest": (),
        }  # fmt: skip

    def _clear(self, weights: Tensor) -> Filled:
        """Room for what the kernels fill: zeros, or no token."""
        size, wide = len(weights), weights.shape[-1]
        if (size, wide) not in self._filled:
            tails = self._tails() | {"high": (wide,), "passed": (wide,)}
            assert tuple(tails)[: len(CHOSEN)] == CHOSEN
            each = {name: (POINTERS[name][0], (size, self.shape.heads, *tail)) for name, tail in tails.items()}
            self._filled[size, wide] = Layout(each)
        layout = self._filled[size, wide]
        room = torch.empty(layout.size, dtype=torch.uint8, device=weights.device)
        end = layout.begins[tuple(layout.arrays)[len(CHOSEN)]]
        room[:end].fill_(255)  # -1 in every int
        room[end:].zero_()
        return Filled(layout, room)

    def _sums(self, filled: Filled, kept: dict[str, int], read: DeviceReadable) -> list[tuple[int, ...]]:
        """What is added up over the windows, a row each; see `SUM`."""
        doubles, counts, few = range(len(ADDED))
        number = self._numbers_of
        rows: list[tuple[int, ...]]
        rows = [(filled.addresses[name], kept[f"sum_{name}"], doubles, number[name]) for name in SUMMED]
        rows += [(filled.addresses[name], kept[f"sum_{name}"], counts, number[name]) for name in COUNTED]
        rows.append((filled.addresses["high_pairs"], kept["sum_focal_few"], few, number["high_pairs"]))
        rows.append((read.even_by_category.data_ptr(), kept["sum_even"], doubles, len(CATEGORIES)))
        return rows

    def _choices(self, filled: Filled, kept: dict[str, int]) -> list[tuple[int, ...]]:
        """Of which chosen tokens the different ones are counted, a row each; see `CHOICE`."""
        steps = {"focal": STEPS, "top": len(self.shape.readings)}
        return [
            (filled.addresses[f"{name}{null}"], kept[f"{name}{null}_unique"], many)
            for name, many in steps.items()
            for null in ("", "_null")
        ]

    def _on_host(
        self, heads: LayerHeads, products: Tensor, weights: Tensor | None, batch: DeviceBatch, read: DeviceReadable
    ) -> LayerBatch:
        """The layer as variables that were declared elsewhere see it."""
        assert weights is not None
        own = (products[self.host.outputs_source], weights.float(), read.even)
        similar, given, even = (each.cpu().numpy() for each in own)
        return LayerBatch(heads, similar, given, even, batch.queries, batch.keys)

    def add_mixed(self, top: Tensor, batch: DeviceBatch) -> None:
        """What heads drawn from all layers would have: `top` (L, B, H, readings)."""
        assert self._kernels is not None
        layers, size, heads, readings = top.shape
        drawn = to_device(self.host.mixed, top.device)
        to = torch.zeros((size, readings), dtype=torch.float64, device=top.device)
        most_ids = batch.queries.ids.shape[1]
        self._kernels.launcher()("mixed", (size, readings), NARROW, mixed_bytes(most_ids), top, drawn,
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

    def variables(self, stack: str) -> dict[str, Any]:
        """Every sum by its name; the one place where the host waits for the device."""
        arrays, shape = self.host.arrays, self.shape
        rooms = None if self._room is None else to_host(self._room)
        related, weight = self.pairs.taken()
        arrays["base_pairs"] += related
        for k, layer in enumerate(shape.layers):
            if rooms is None or layer not in self._ran:
                continue
            kept = self._kept.on_host(rooms[k])
            if kept["not_finite"][0]:
                raise NotFinite(stack, layer)
            self._put(k, kept, weight)
        for k, tokens in enumerate(_together([self._focal[layer] for layer in shape.layers])):
            self.host.focal[k].note(tokens.reshape(-1, shape.heads))
        if self._mixed:
            for each in torch.stack(self._mixed).cpu().numpy():
                arrays["top_mixed"] += each
        self._room = None
        self._ran.clear()
        self._focal = {layer: [] for layer in shape.layers}
        self._mixed.clear()
        return self.host.variables()

    def _put(self, k: int, kept: dict[str, NDArray[Any]], weight: NDArray[np.float64]) -> None:
        """One layer's sums into the arrays of the whole."""
        arrays, shape, readings = self.host.arrays, self.shape, len(self.shape.readings)
        same = ("flat", "diagonal", "focal_share", "focal_few", "matched", "mask_sum", "mask_pairs")
        for name in same:
            if name in arrays:
                arrays[name][k] += kept[f"sum_{name}"]
        renamed = {"attention": "given", "attention_weighted": "weighted", "attention_entropy": "entropy",
                   "focal_frequency": "frequency", "focal_distance": "reach", "focal_longest": "longest",
                   "attention_even": "even"}  # fmt: skip
        for name, own in renamed.items():
            arrays[name][k] += kept[f"sum_{own}"]
        for name in ("attended", "attended_text"):
            arrays[name][k] += kept[name]
        arrays["pairs"][k] += kept["pairs"].reshape(arrays["pairs"].shape[1:])
        if self.host.by_band:
            arrays["distance_sum"][k] += kept["distance_sum"]
        for place, name in enumerate(shape.relations):
            arrays[f"pairs_{name}"][k] += kept["custom_pairs"][place].reshape(arrays["pairs"].shape[1:])
        if MATRIX in arrays:
            arrays[MATRIX][k] += kept[MATRIX]
        arrays["contrast_weight"][k, :, :-1] += weight
        arrays["contrast_weight"][k, :, -1] += kept["sum_inside"]
        arrays["focal_unique"][k] += kept["focal_unique"]
        arrays["focal_null"][k] += kept["focal_null_unique"]
        for r in range(readings):
            arrays["wins"][r, k] += kept["sum_wins"][:, r]
            arrays["top_pairs"][r, k] += kept["top_pairs"][:, r].reshape(arrays["top_pairs"].shape[2:])
            arrays["top_few"][r, k] += kept["top_few"][:, r]
            arrays["top_matched"][r, k] += kept["sum_top_matched"][:, r]
            arrays["norm_correlation"][r, k] += kept["sum_with_norms"][:, r]
            arrays["top_unique"][r, k] += kept["top_unique"][r]
            arrays["top_null"][r, k] += kept["top_null_unique"][r]
            for m in range(self.maps):
                arrays["attention_correlation"][r, m, k] += kept["sum_correlation"][:, r, m]
        for m in range(self.maps):
            arrays["attention_wins"][m, k, :, :-1] += kept["sum_map_wins"][:, m]


def _together(parts: list[list[Tensor]]) -> list[NDArray[np.int64]]:
    """Tensors of each layer one after the other, moved to the host in one piece."""
    every = [each.flatten() for part in parts for each in part]
    if not every:
        return [np.zeros(0, dtype=np.int64) for _ in parts]
    moved = torch.cat(every).cpu().numpy()
    ends = np.cumsum([sum(each.numel() for each in part) for part in parts])
    return np.split(moved, ends[:-1])


def _ids(numbers: Tensor, ids: Tensor) -> Tensor:
    """Token ids by their number in the window, -1 for none: (B, H) and (B, K)."""
    return torch.where(numbers >= 0, ids.gather(1, numbers.clamp_min(0).long()), -1)
