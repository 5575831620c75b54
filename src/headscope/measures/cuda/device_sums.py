"""The sums of one stack on a graphics card, filled layer by layer by the kernels."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from headscope.choices import BINS, FEW_PAIRS, THRESHOLDS, Choices, first_high_bin, step_of
from headscope.measures.accumulator import LayerBatch, NotFinite, fill_declared
from headscope.measures.bands import band_names
from headscope.measures.batch_index import BatchIndex
from headscope.measures.columns import text_columns
from headscope.measures.comparisons import COMPARISONS, CONTRASTED, CONTRASTS
from headscope.measures.compiled_sums import LayerRows, StackSums
from headscope.measures.cuda.arguments import (
    DTYPES,
    POINTERS,
    Constants,
    LevelMemory,
    attention_bytes,
    level_memory,
    mixed_bytes,
    order_bytes,
    packed,
)
from headscope.measures.cuda.device_batch import DeviceBatch, DeviceReadable
from headscope.measures.cuda.kernels import Kernels
from headscope.measures.order import FEWEST_FOR_TOP, LEAST_TOP
from headscope.measures.relations import RELATIONS
from headscope.measures.variables import MATRIX, Shape
from headscope.tap import LayerHeads
from headscope.windows import CATEGORIES

STEPS, REGIONS = len(THRESHOLDS), 3
NARROW, WIDE, WIDEST = 128, 256, 1024  # threads of a block
CHOSEN = ("focal", "focal_null", "top", "top_null")  # tokens, of which there may be none
Tensors = dict[str, Tensor]
Given = dict[str, Tensor | None]  # by name of a pointer; None: there is none


class DeviceLayer(NamedTuple):
    """One layer of a batch, as the kernels take it; see `POINTERS`."""

    products: Tensor
    norms: Tensor
    lengths: Tensor
    weights: Tensor
    value_norms: Tensor | None


class DeviceSums:
    """The sums of one stack: those of layers on the device, those of windows on the host."""

    def __init__(self, shape: Shape, choices: Choices) -> None:
        self.shape, self.choices = shape, choices
        self.host = StackSums(shape, choices)
        rules = self.host.rules
        self.maps = 0 if shape.cross else len(shape.maps)
        self.constants = Constants(
            tuple(rules.source.tolist()), tuple(rules.scaled.tolist()), len(self.host.sources), self.maps
        )
        self.bands = len(band_names(shape.length))
        self.table = int(np.prod(self.host.arrays["pairs"].shape[3:]))
        self._layers: dict[int, Tensors] = {}
        self._focal: dict[int, list[Tensor]] = {layer: [] for layer in shape.layers}  # ids at the run's τ: (B, H)
        self._mixed: list[Tensor] = []  # (readings,) of each batch
        self._kernels: Kernels | None = None

    # ------------------------------------------------------------------ one layer

    def add_layer(self, heads: LayerHeads, batch: DeviceBatch, read: DeviceReadable, kernels: Kernels) -> Tensors:
        """Have the kernels count one layer of a batch; gives what they filled."""
        self._kernels = kernels
        if heads.layer not in self._layers:
            self._layers[heads.layer] = self._kept(heads.outputs.device)
        kept, layer = self._layers[heads.layer], self._layer(heads, batch.queries)
        filled, numbers = self._filled(layer.weights), self._numbers(heads.layer, layer, batch.queries)
        memory = level_memory(numbers, kernels.most_shared)
        numbers |= {"table_on_chip": int(memory.table), "matrix_on_chip": int(memory.matrix)}
        given: Given = dict.fromkeys(POINTERS)
        given |= batch.tensors | read._asdict() | layer._asdict() | kept | filled
        given |= self._workspace(numbers, memory, layer.weights, kernels)
        self._launch(numbers, memory, given, layer.weights, batch, kernels)
        self._count_unique(filled, kept, batch, kernels)
        self._add(filled, kept, batch, read)
        place = self.shape.layers.index(heads.layer)
        fill_declared(self.host.declared, self.host.arrays, place, lambda: self._on_host(heads, layer, batch, read))
        tokens = _ids(filled["focal"][:, :, step_of(self.choices.tau)], batch.tensors["ids"])
        self._focal[heads.layer].append(tokens)
        return filled | {"focal_ids": tokens}

    def _layer(self, heads: LayerHeads, queries: BatchIndex) -> DeviceLayer:
        """Products and lengths of vectors, which torch makes."""
        assert heads.weights is not None
        products = torch.stack([each @ each.transpose(-1, -2) for each in self.host.vectors(heads, queries)])
        norms = products.diagonal(dim1=-2, dim2=-1).double().sqrt().float().contiguous()
        weights, values = heads.weights.float().contiguous(), heads.values
        of_values = None if values is None else torch.linalg.vector_norm(values.double(), dim=-1).contiguous()
        return DeviceLayer(products, norms, norms[self.host.outputs_source], weights, of_values)

    def _numbers(self, number: int, layer: DeviceLayer, queries: BatchIndex) -> dict[str, int]:
        """The numbers that the kernels take, but for what there is room for on the chip; see `NUMBERS`."""
        size, heads, tall, wide = layer.weights.shape
        return {
            "windows": size, "heads": heads, "tokens": tall, "keys": wide, "counting": queries.positions.shape[1],
            "most_pairs": queries.cells.shape[1], "most_ids": queries.ids.shape[1], "bands": self.bands,
            "table": self.table, "customs": len(self.shape.relations), "layer": number,
            "lowest": first_high_bin(self.choices.tau), "at_tau": step_of(self.choices.tau),
            "fewest_for_top": FEWEST_FOR_TOP, "least_top": LEAST_TOP, "by_band": int(self.host.by_band),
            "value_groups": 1 if layer.value_norms is None else layer.value_norms.shape[1],
        }  # fmt: skip

    def _workspace(self, numbers: dict[str, int], memory: LevelMemory, weights: Tensor, kernels: Kernels) -> Tensors:
        """Memory that the kernels use for a while: to compare rows, and for what the chip has no room for."""
        space = {}
        if self.host.compares_rows:
            space = {"roots": torch.empty_like(weights), "rows": torch.empty_like(weights)}
        if not memory.times:
            times = (_blocks(weights, kernels), weights.shape[1], 2, numbers["most_ids"], BINS)
            space["scratch"] = torch.empty(times, dtype=torch.int32, device=weights.device)
        return space

    def _launch(
        self,
        numbers: dict[str, int],
        memory: LevelMemory,
        given: Given,
        weights: Tensor,
        batch: DeviceBatch,
        kernels: Kernels,
    ) -> None:
        """Attention first, which says what tokens are high; then order, which finds the largest S; then levels."""
        size, heads, tall, _ = weights.shape
        struct = bytearray(packed(numbers, self.choices.theta, given))
        args = torch.frombuffer(struct, dtype=torch.uint8).to(weights.device)
        kernels.launch("attention", (heads, size), NARROW, attention_bytes(numbers), args)
        if given["roots"] is not None:
            torch.matmul(given["roots"], given["roots"].transpose(-1, -2), out=given["rows"])
        kernels.launch("by_order", (heads, size), WIDE, order_bytes(numbers, self.constants), args)
        kernels.launch("by_level", (heads, _blocks(weights, kernels)), WIDEST, memory.size, args)
        matrix = given.get(MATRIX)
        if matrix is not None:
            kernels.launch("add_matrices", (heads, tall), NARROW, 0, args, batch.tensors["counts"], size, matrix,
                           self.shape.length)  # fmt: skip

    @property
    def kinds(self) -> int:
        """Kinds of pairs: bands and relations."""
        return self.bands * len(RELATIONS)

    def _kept(self, device: torch.device) -> Tensors:
        """Empty counts and sums of one layer."""
        shape, readings = self.shape, len(self.shape.readings)
        counts = {
            "attended": (shape.heads, STEPS, len(CATEGORIES)), "attended_text": (shape.heads, STEPS, len(CATEGORIES)),
            "top_pairs": (shape.heads, readings, self.kinds), "top_few": (shape.heads, readings),
            "pairs": (shape.heads, BINS, self.table), "distance_sum": (shape.heads, BINS, len(RELATIONS)),
            "custom_pairs": (len(shape.relations), shape.heads, BINS, self.table),
            "focal_unique": (STEPS, shape.heads + 1), "focal_null_unique": (STEPS, shape.heads + 1),
            "top_unique": (readings, shape.heads + 1), "top_null_unique": (readings, shape.heads + 1),
        }  # fmt: skip
        kept = {name: torch.zeros(each, dtype=torch.int64, device=device) for name, each in counts.items()}
        kept["not_finite"] = torch.zeros(1, dtype=torch.int32, device=device)
        if MATRIX in self.host.arrays:
            sides = (shape.heads, shape.length, shape.length)
            kept[MATRIX] = torch.zeros(sides, dtype=torch.float64, device=device)
        return kept

    def _filled(self, weights: Tensor) -> Tensors:
        """Room for what the kernels fill for each head and window, all in one piece of memory: zeros, or no token."""
        size, wide, device = len(weights), weights.shape[-1], weights.device
        readings, comparisons = len(self.shape.readings), len(COMPARISONS)
        tails: dict[str, tuple[int, ...]] = {
            "given": (len(CATEGORIES),), "weighted": (len(CATEGORIES),), "entropy": (), "inside": (), "diagonal": (),
            "map_wins": (self.maps, len(CONTRASTED)), "wins": (readings, len(CONTRASTS)), "with_norms": (readings,),
            "top_matched": (readings, comparisons, 2), "correlation": (readings, self.maps),
            "matched": (comparisons, 2),
            "mask_sum": (STEPS, REGIONS), "focal_share": (STEPS,), "frequency": (), "reach": (), "row": (3,),
            "top": (readings,), "top_null": (readings,), "flat": (), "mask_pairs": (STEPS, REGIONS), "longest": (),
            "focal": (STEPS,), "focal_null": (STEPS,), "high_pairs": (STEPS,), "largest": (),
            "high": (wide,), "passed": (wide,),
        }  # fmt: skip
        dtypes = {name: DTYPES[POINTERS[name][0]] for name in tails}
        windows = size * self.shape.heads
        sizes = {name: windows * int(np.prod(tail)) * dtypes[name].itemsize for name, tail in tails.items()}
        room = torch.zeros(sum(-(-each // 16) * 16 for each in sizes.values()), dtype=torch.uint8, device=device)
        filled, begin = {}, 0
        for name, tail in tails.items():
            part = room[begin : begin + sizes[name]].view(dtypes[name])
            filled[name] = part.view(size, self.shape.heads, *tail)
            begin += -(-sizes[name] // 16) * 16
        for name in CHOSEN:
            filled[name].fill_(-1)
        return filled

    def _count_unique(self, filled: Tensors, kept: Tensors, batch: DeviceBatch, kernels: Kernels) -> None:
        """Count how many different focal tokens the heads have."""
        size = len(filled["focal"])
        for name, steps in (("focal", STEPS), ("top", len(self.shape.readings))):
            for chosen, unique in ((name, f"{name}_unique"), (f"{name}_null", f"{name}_null_unique")):
                blocks = -(-size * steps // NARROW)
                kernels.launch("count_unique", (blocks, 1), NARROW, 0, filled[chosen], batch.tensors["sizes"],
                               kept[unique], size, self.shape.heads, steps)  # fmt: skip

    def _add(self, filled: Tensors, kept: Tensors, batch: DeviceBatch, read: DeviceReadable) -> None:
        """Add up over the windows, in their order, what each head made of each."""
        few = (filled["high_pairs"] > 0) & (filled["high_pairs"] < FEW_PAIRS)
        sums = {name: filled[name].sum(0, dtype=torch.float64) for name in
                ("given", "weighted", "entropy", "map_wins", "wins", "inside", "top_matched", "correlation",
                 "with_norms", "matched", "diagonal", "mask_sum", "focal_share", "frequency", "reach")}  # fmt: skip
        counts = {name: filled[name].sum(0, dtype=torch.int64) for name in ("flat", "mask_pairs", "longest")}
        counts["focal_few"] = few.sum(0)
        for name, each in (sums | counts | {"even": read.even_by_category.sum(0)}).items():
            place = f"sum_{name}"
            kept[place] = each if place not in kept else kept[place] + each
        weight = batch.queries.contrast_weight.sum(0)  # (contrasts of relations,): the same for every head
        kept["weight"] = kept.get("weight", torch.zeros(len(weight), dtype=torch.float64)) + torch.from_numpy(weight)

    def _on_host(self, heads: LayerHeads, layer: DeviceLayer, batch: DeviceBatch, read: DeviceReadable) -> LayerBatch:
        """The layer as variables that were declared elsewhere see it."""
        own = (layer.products[self.host.outputs_source], layer.weights, read.even)
        products, weights, even = (each.cpu().numpy() for each in own)
        return LayerBatch(heads, products, weights, even, batch.queries, batch.keys)

    def add_mixed(self, top: Tensor, batch: DeviceBatch) -> None:
        """What heads drawn from all layers would have: `top` (L, B, H, readings)."""
        assert self._kernels is not None
        layers, size, heads, readings = top.shape
        drawn = torch.from_numpy(self.host.mixed).to(top.device)
        to = torch.zeros((size, readings), dtype=torch.float64, device=top.device)
        most_ids = batch.queries.ids.shape[1]
        self._kernels.launch("mixed", (size, readings), NARROW, mixed_bytes(most_ids), top, drawn,
                             batch.tensors["distinct"], to, layers, size, heads, most_ids)  # fmt: skip
        self._mixed.append(to.sum(0))

    def rows(self, filled: Tensors, batch: DeviceBatch, read: DeviceReadable) -> LayerRows:
        """What each head did with each window, for the rows per text."""
        host = {name: each.cpu().numpy() for name, each in filled.items()}
        at_tau = step_of(self.choices.tau)
        size, heads = host["flat"].shape
        weight = np.broadcast_to(batch.queries.contrast_weight[:, None], (size, heads, len(CONTRASTED)))
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
        return columns, host["focal_ids"], null

    # ------------------------------------------------------------------ in the end

    def variables(self, stack: str) -> dict[str, Any]:
        """Every sum by its name; the one place where the host waits for the device."""
        arrays, shape = self.host.arrays, self.shape
        for k, layer in enumerate(shape.layers):
            if layer not in self._layers:
                continue
            kept = {name: each.cpu().numpy() for name, each in self._layers[layer].items()}
            if kept["not_finite"][0]:
                raise NotFinite(stack, layer)
            self._put(k, kept)
            for tokens in self._focal[layer]:
                self.host.focal[k].note(tokens.cpu().numpy())
        for each in self._mixed:
            arrays["top_mixed"] += each.cpu().numpy()
        self._layers.clear()
        self._focal = {layer: [] for layer in shape.layers}
        self._mixed.clear()
        return self.host.variables()

    def _put(self, k: int, kept: dict[str, NDArray[Any]]) -> None:
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
        arrays["contrast_weight"][k, :, :-1] += kept["weight"]
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


def _blocks(weights: Tensor, kernels: Kernels) -> int:
    """How many blocks share the windows of a head, so that each processor of the card has one."""
    size, heads = weights.shape[:2]
    return min(size, -(-kernels.processors // heads))


def _ids(numbers: Tensor, ids: Tensor) -> Tensor:
    """Token ids by their number in the window, -1 for none: (B, H) and (B, K)."""
    return torch.where(numbers >= 0, ids.gather(1, numbers.clamp_min(0).long()), -1)
