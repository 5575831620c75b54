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
from headscope.measures.bands import band_names, bands_of_distances
from headscope.measures.batch_index import TokenIndex
from headscope.measures.columns import text_columns
from headscope.measures.comparisons import COMPARISONS, CONTRASTED, CONTRASTS
from headscope.measures.compiled_sums import LayerRows, StackSums
from headscope.measures.cuda.arguments import (
    ADDED,
    DTYPES,
    MOST_CHOICES,
    MOST_SUMS,
    NUMBERS,
    POINTERS,
    REALS,
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
    relate_bytes,
    tile_bytes,
)
from headscope.measures.cuda.device_batch import DeviceBatch, DeviceReadable
from headscope.measures.cuda.device_layer import DeviceLayer, device_layer
from headscope.measures.cuda.kernels import Kernels, Launch
from headscope.measures.cuda.layout import Filled, Layout
from headscope.measures.order import FEWEST_FOR_TOP, LEAST_TOP, SAMPLED
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
Given = dict[str, Tensor | int | None]  # by name of a pointer, a tensor or an address; None: there is none


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
        self._weights: list[Tensor] = []  # of the contrasts of relations, the same for every head and layer: (3,)
        self._related: Tensor | None = None  # (distances, relations): number of pairs
        self._band_of: Tensor | None = None  # (distances,)
        self._ran: set[int] = set()  # layers
        self._focal: dict[int, list[Tensor]] = {layer: [] for layer in shape.layers}  # ids at the run's τ: (B, H)
        self._mixed: list[Tensor] = []  # (readings,) of each batch
        self._kernels: Kernels | None = None

    def add_windows(self, queries: TokenIndex, keys: TokenIndex) -> None:
        """Count the windows of a batch."""
        self.host.add_windows(queries, keys)

    def add_pairs(self, batch: DeviceBatch, kernels: Kernels) -> None:
        """Relate the tokens of each pair of a batch, and count pairs by distance and relation."""
        queries, device = batch.queries, batch.device
        (size, counting), pairs = queries.positions.shape, queries.most_pairs
        if self._related is None:
            bands = bands_of_distances(self.shape.length).astype(np.int32)
            self._band_of = to_device(bands, device)
            self._related = torch.zeros((len(bands), len(RELATIONS)), dtype=torch.int64, device=device)
        shapes = {"classes": (pairs,), "samples": (SAMPLED,), "contrast_weight": (len(CONTRASTED),),
                  "match_weights": (len(COMPARISONS), 2, self.kinds)}  # fmt: skip
        for name, shape in shapes.items():
            batch.tensors[name] = torch.zeros((size, *shape), dtype=DTYPES[POINTERS[name][0]], device=device)
        numbers = dict.fromkeys(NUMBERS, 0) | {
            "windows": size, "counting": counting, "most_pairs": pairs, "bands": self.bands,
            "distances": len(self._related),
        }  # fmt: skip
        table = relate_bytes(numbers, table=True) <= kernels.most_shared
        numbers["table_on_chip"] = int(table)
        given: Given = dict.fromkeys(POINTERS)
        given |= batch.tensors | {"band_of": self._band_of, "related": self._related}
        told = packed(numbers, dict.fromkeys(REALS, 0.0), {name: given[name] for name in POINTERS})
        kernels.launcher()("relate", (size, 1), WIDE, relate_bytes(numbers, table=table), told)
        self._weights.append(batch.tensors["contrast_weight"].sum(0))

    # ------------------------------------------------------------------ one layer

    def add_layer(self, heads: LayerHeads, batch: DeviceBatch, read: DeviceReadable, kernels: Kernels) -> Filled:
        """Have the kernels count one layer of a batch; gives what they filled."""
        self._kernels = kernels
        device, place = heads.outputs.device, self.shape.layers.index(heads.layer)
        if self._room is None:
            self._room = torch.zeros((len(self.shape.layers), self._kept.size), dtype=torch.uint8, device=device)
        self._ran.add(heads.layer)
        room, layer = self._room[place], device_layer(heads, batch.queries, self.host)
        kept, filled = self._kept.addresses(room), self._clear(layer.weights)
        numbers = self._numbers(heads.layer, layer, batch.queries)
        memory = level_memory(numbers, kernels.most_shared)
        blocks = self._blocks(numbers, memory, kernels)
        on_chip = (
            self.maps > 1 and numbers["tokens"] <= TILE and kernels.tiles and kernels.most_shared >= tile_bytes(numbers)
        )
        numbers |= {"table_on_chip": int(memory.table), "rows_square": int(not on_chip)}
        given: Given = dict.fromkeys(POINTERS)
        given |= batch.tensors | {
            name: value for name, value in (read._asdict() | layer._asdict()).items() if name in POINTERS
        }
        given |= {name: address for name, address in kept.items() if name in POINTERS} | filled.addresses
        given |= self._workspace(numbers, memory, blocks, layer.weights)
        if layer.queries is not None:
            given["computed"] = layer.weights
        told = packed(numbers, {"theta": self.choices.theta, "scaling": layer.scaling}, given)
        launch = kernels.launcher()
        self._look(told, numbers, given, launch, on_chip=on_chip)
        grid = (numbers["heads"], numbers["windows"])
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
        fill_declared(self.host.declared, self.host.arrays, place, lambda: self._on_host(heads, layer, batch, read))
        self._focal[heads.layer].append(filled["focal_ids"])
        return filled

    def _numbers(self, number: int, layer: DeviceLayer, queries: TokenIndex) -> dict[str, int]:
        """The numbers that the kernels take, but for what there is room for on the chip; see `NUMBERS`."""
        size, heads, tall, wide = layer.weights.shape
        return {
            "windows": size, "heads": heads, "tokens": tall, "keys": wide, "counting": queries.positions.shape[1],
            "most_pairs": queries.most_pairs, "distances": self.shape.length - 1,
            "most_ids": queries.ids.shape[1], "bands": self.bands,
            "table": self.table, "customs": len(self.shape.relations), "layer": number,
            "lowest": first_high_bin(self.choices.tau), "at_tau": step_of(self.choices.tau),
            "fewest_for_top": FEWEST_FOR_TOP, "least_top": LEAST_TOP, "by_band": int(self.host.by_band),
                    } | layer.laid_out()  # fmt: skip

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

    def _on_host(self, heads: LayerHeads, layer: DeviceLayer, batch: DeviceBatch, read: DeviceReadable) -> LayerBatch:
        """The layer as variables that were declared elsewhere see it."""
        own = (layer.products[self.host.outputs_source], layer.weights, read.even)
        products, weights, even = (each.cpu().numpy() for each in own)
        return LayerBatch(heads, products, weights, even, batch.queries, batch.keys)

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
            others={"high_pairs": host["high_pairs"][:, :, at_tau].astype(np.float64), "distance": host["row"][..., 0],
                    "sentence_share": host["row"][..., 1], "repetition_share": host["row"][..., 2],
                    "focal_share": host["focal_share"][:, :, at_tau]},
        )  # fmt: skip
        return columns, filled["focal_ids"].cpu().numpy(), null

    # ------------------------------------------------------------------ in the end

    def variables(self, stack: str) -> dict[str, Any]:
        """Every sum by its name; the one place where the host waits for the device."""
        arrays, shape = self.host.arrays, self.shape
        rooms = None if self._room is None else to_host(self._room)
        if self._related is not None:
            arrays["base_pairs"] += self._related.cpu().numpy()
        weight = torch.stack(self._weights).cpu().numpy().sum(0) if self._weights else np.zeros(len(CONTRASTED))
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
        self._room = self._related = None
        self._weights.clear()
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
