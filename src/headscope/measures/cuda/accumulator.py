"""The accumulator of a graphics card: products by torch, everything else by kernels of our own.

Nothing waits for the card before the sums are asked for: a batch leaves tensors behind, and the next one follows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from headscope.choices import BINS, FEW_PAIRS, THRESHOLDS, Choices, first_high_bin, step_of
from headscope.errors import HeadscopeError
from headscope.measures.accumulator import LayerBatch, NotFinite, fill_declared
from headscope.measures.bands import band_names
from headscope.measures.batch_index import StackIndex
from headscope.measures.columns import row_tables, text_columns
from headscope.measures.comparisons import COMPARISONS, CONTRASTED, CONTRASTS
from headscope.measures.compiled_sums import StackSums
from headscope.measures.cuda.arguments import DTYPES, POINTERS, Constants, packed
from headscope.measures.cuda.device_batch import DeviceBatch
from headscope.measures.cuda.kernels import Kernels, cuda_kernels
from headscope.measures.order import FEWEST_FOR_TOP, LEAST_TOP, ORDER_BINS, SAMPLED
from headscope.measures.own_relations import Labels
from headscope.measures.relations import RELATIONS
from headscope.measures.variables import MATRIX, Shape, Sums
from headscope.tap import LayerHeads
from headscope.windows import CATEGORIES, WindowBatch

STEPS, REGIONS = len(THRESHOLDS), 3
NARROW, WIDE = 128, 256  # threads of a block
MakeKernels = Callable[[Constants, torch.device], Kernels]


class CudaAccumulator:
    """Sums over windows for every stack of a model; see `Accumulator`. Levels that are ranks are not its business."""

    def __init__(
        self,
        shapes: Mapping[str, Shape],
        choices: Choices,
        *,
        relations: Mapping[str, Labels] | None = None,
        rows: int | None = None,
        threads: int = 1,
        kernels: MakeKernels = cuda_kernels,
    ) -> None:
        if choices.scale != "max":
            raise HeadscopeError("levels by rank are not counted on a graphics card", 'use scale "max", or the CPU')
        self.choices, self.relations, self.threads, self.make_kernels = choices, relations or {}, threads, kernels
        self.length = max(shape.length for shape in shapes.values())
        self.stacks = {name: DeviceSums(shape, choices) for name, shape in shapes.items()}
        self.rows = row_tables(rows, shapes)

    def begin(self, batch: WindowBatch, first: int = 0) -> CudaBatch:
        """Index the windows of a batch and count what they hold, whatever the heads make of it."""
        opened = CudaBatch(self, batch, first)
        for name, stack in self.stacks.items():
            stack.host.add_windows(*opened.index.of_stack(name))
        return opened

    def sums(self) -> Sums:
        """Every variable of every stack."""
        return {name: stack.variables(name) for name, stack in self.stacks.items()}

    def close(self) -> None:
        """There is nothing to let go of."""


class CudaBatch:
    """One batch on its way through the model."""

    def __init__(self, accumulator: CudaAccumulator, batch: WindowBatch, first: int) -> None:
        self.accumulator, self.first = accumulator, first
        self.index = StackIndex(batch, accumulator.length, accumulator.choices, accumulator.relations)
        self._on_device: dict[str, DeviceBatch] = {}
        self._read: dict[str, tuple[Tensor | None, dict[str, Tensor | None]]] = {}
        self._top: dict[str, list[Tensor]] = {name: [] for name in accumulator.stacks}

    @torch.no_grad()
    def layer(self, heads: LayerHeads) -> None:
        """Add what one layer read and wrote."""
        stack = self.accumulator.stacks.get(heads.stack)
        if stack is None or heads.layer not in stack.shape.layers:
            return
        assert heads.weights is not None
        device = heads.outputs.device
        if heads.stack not in self._on_device:
            self._on_device[heads.stack] = DeviceBatch(*self.index.of_stack(heads.stack), device)
        own = self._on_device[heads.stack]
        known = self._read.get(heads.stack)
        if known is None or known[0] is not heads.readable:
            known = self._read[heads.stack] = (heads.readable, own.read_by(heads.readable, cross=stack.shape.cross))
        kernels = self.accumulator.make_kernels(stack.constants, device)
        filled = stack.add_layer(heads, own, known[1], kernels)
        self._top[heads.stack].append(filled["top"])
        if self.accumulator.rows:
            columns, tokens, null_tokens = stack.rows(filled, own, known[1])
            self.accumulator.rows[heads.stack].put(self.first, heads.layer, columns, tokens, null_tokens)

    def finish(self) -> None:
        """Add what heads drawn from all layers would have."""
        for name, top in self._top.items():
            if top:
                self.accumulator.stacks[name].add_mixed(torch.stack(top), self._on_device[name])
        self._top.clear()


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
        self._layers: dict[int, dict[str, Tensor]] = {}
        self._focal: dict[int, list[Tensor]] = {layer: [] for layer in shape.layers}  # ids at the run's τ: (B, H)
        self._mixed: list[Tensor] = []  # (readings,) of each batch
        self._kernels: Kernels | None = None

    # ------------------------------------------------------------------ one layer

    def add_layer(
        self, heads: LayerHeads, batch: DeviceBatch, read: dict[str, Tensor | None], kernels: Kernels
    ) -> dict[str, Tensor]:
        """Have the kernels count one layer of a batch; gives what they filled."""
        shape, choices, queries = self.shape, self.choices, batch.queries
        self._kernels = kernels
        device = heads.outputs.device
        kept = self._layers.get(heads.layer)
        if kept is None:
            kept = self._layers[heads.layer] = self._kept(device)
        assert heads.weights is not None
        weights = heads.weights.float().contiguous()
        size, number, tall, wide = weights.shape
        products = torch.stack([each @ each.transpose(-1, -2) for each in self.host.vectors(heads, queries)])
        norms = products.diagonal(dim1=-2, dim2=-1).double().sqrt().float().contiguous()
        values = None if heads.values is None else torch.linalg.vector_norm(heads.values.double(), dim=-1).contiguous()
        given: dict[str, Tensor | None] = dict.fromkeys(POINTERS)
        given |= batch.tensors
        given |= read
        given |= kept
        given |= {
            "products": products,
            "norms": norms,
            "lengths": norms[self.host.outputs_source],
            "weights": weights,
            "value_norms": values,
        }
        filled = self._filled(size, wide, device)
        filled["top"].fill_(-1)
        filled["top_null"].fill_(-1)
        filled["focal"].fill_(-1)
        filled["focal_null"].fill_(-1)
        most_ids, counting = queries.ids.shape[1], queries.positions.shape[1]
        compares_rows = self.host.compares_rows
        roots = torch.empty_like(weights) if compares_rows else None
        given |= filled | {"roots": roots, "rows": torch.empty_like(weights) if compares_rows else None}
        at_level = 8 * (32 + 40 + most_ids) + 4 * (20 + self.kinds + most_ids + 2)
        both = 4 * 2 * BINS * most_ids
        if at_level + both > kernels.most_shared:
            given["scratch"] = torch.empty((size, number, 2, BINS, most_ids), dtype=torch.int32, device=device)
        else:
            at_level += both
        numbers = {
            "heads": number, "tokens": tall, "keys": wide, "counting": counting, "most_pairs": queries.cells.shape[1],
            "most_ids": most_ids, "bands": self.bands, "table": self.table, "customs": len(shape.relations),
            "layer": heads.layer, "lowest": first_high_bin(choices.tau), "at_tau": step_of(choices.tau),
            "fewest_for_top": FEWEST_FOR_TOP, "least_top": LEAST_TOP, "by_band": int(self.host.by_band),
            "value_groups": 1 if heads.values is None else heads.values.shape[1],
        }  # fmt: skip
        args = torch.frombuffer(bytearray(packed(numbers, choices.theta, given)), dtype=torch.uint8).to(device)
        attention = 8 * (wide + tall + 32) + 4 * 2 * STEPS * len(CATEGORIES)
        kernels.launch("attention", (number, size), NARROW, attention, args)
        if roots is not None:
            torch.matmul(roots, roots.transpose(-1, -2), out=given["rows"])
        readings, shown = len(shape.readings), len(shape.readings) + self.maps
        contrasts = len(CONTRASTED) + 2
        by_order = 8 * (32 + shown * self.bands * contrasts + most_ids) + 4 * (
            shown * (SAMPLED + ORDER_BINS + self.kinds * ORDER_BINS) + readings * self.bands * 2 * ORDER_BINS
            + readings * (counting + most_ids) + most_ids + readings + 2
        )  # fmt: skip
        kernels.launch("by_order", (number, size), WIDE, by_order, args)
        kernels.launch("by_level", (number, size), WIDE, at_level, args)
        if MATRIX in kept:
            kernels.launch(
                "add_matrices",
                (number, tall),
                NARROW,
                0,
                args,
                batch.tensors["counts"],
                size,
                kept[MATRIX],
                shape.length,
            )
        self._unique(filled, kept, batch, size, kernels)
        self._add(filled, kept, batch, read)
        place = shape.layers.index(heads.layer)
        fill_declared(
            self.host.declared, self.host.arrays, place, lambda: self._on_host(heads, products, weights, read, batch)
        )
        tokens = _ids(filled["focal"][:, :, step_of(choices.tau)], batch.tensors["ids"])
        self._focal[heads.layer].append(tokens)
        return filled | {"focal_ids": tokens}

    @property
    def kinds(self) -> int:
        """Kinds of pairs: bands and relations."""
        return self.bands * len(RELATIONS)

    def _kept(self, device: torch.device) -> dict[str, Tensor]:
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

    def _filled(self, size: int, wide: int, device: torch.device) -> dict[str, Tensor]:
        """Zeros for what the kernels fill for each head and window, all in one piece of memory."""
        readings, comparisons = len(self.shape.readings), len(COMPARISONS)
        tails: dict[str, tuple[int, ...]] = {
            "given": (len(CATEGORIES),), "weighted": (len(CATEGORIES),), "entropy": (), "inside": (), "diagonal": (),
            "map_wins": (self.maps, len(CONTRASTED)), "wins": (readings, len(CONTRASTS)), "with_norms": (readings,),
            "top_matched": (readings, comparisons, 2), "correlation": (readings, self.maps),
            "matched": (comparisons, 2),
            "mask_sum": (STEPS, REGIONS), "focal_share": (STEPS,), "frequency": (), "reach": (), "row": (3,),
            "top": (readings,), "top_null": (readings,), "flat": (), "mask_pairs": (STEPS, REGIONS), "longest": (),
            "focal": (STEPS,), "focal_null": (STEPS,), "high_pairs": (STEPS,), "largest": (), "smallest": (),
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
        return filled

    def _unique(
        self, filled: dict[str, Tensor], kept: dict[str, Tensor], batch: DeviceBatch, size: int, kernels: Kernels
    ) -> None:
        """Count how many different focal tokens the heads have."""
        for name, steps in (("focal", STEPS), ("top", len(self.shape.readings))):
            for chosen, unique in ((name, f"{name}_unique"), (f"{name}_null", f"{name}_null_unique")):
                blocks = -(-size * steps // NARROW)
                kernels.launch("count_unique", (blocks, 1), NARROW, 0, filled[chosen], batch.tensors["sizes"],
                               kept[unique], size, self.shape.heads, steps)  # fmt: skip

    def _add(
        self, filled: dict[str, Tensor], kept: dict[str, Tensor], batch: DeviceBatch, read: dict[str, Tensor | None]
    ) -> None:
        """Add up over the windows, in their order, what each head made of each."""
        few = (filled["high_pairs"] > 0) & (filled["high_pairs"] < FEW_PAIRS)
        sums = {name: filled[name].sum(0, dtype=torch.float64) for name in
                ("given", "weighted", "entropy", "map_wins", "wins", "inside", "top_matched", "correlation",
                 "with_norms", "matched", "diagonal", "mask_sum", "focal_share", "frequency", "reach")}  # fmt: skip
        counts = {name: filled[name].sum(0, dtype=torch.int64) for name in ("flat", "mask_pairs", "longest")}
        counts["focal_few"] = few.sum(0)
        for name, each in (sums | counts | {"even": self._even(batch, read).sum(0)}).items():
            place = f"sum_{name}"
            kept[place] = each if place not in kept else kept[place] + each
        weight = batch.queries.contrast_weight.sum(0)  # (contrasts of relations,): the same for every head
        kept["weight"] = kept.get("weight", torch.zeros(len(weight), dtype=torch.float64)) + torch.from_numpy(weight)

    def _even(self, batch: DeviceBatch, read: dict[str, Tensor | None]) -> Tensor:
        """What even attention gives to each category: (B, C)."""
        even, readable = read["even"], read["readable"]
        assert even is not None
        assert readable is not None
        to = torch.zeros((len(even), len(CATEGORIES)), dtype=torch.float64, device=even.device)
        wide = torch.arange(even.shape[1], device=even.device) < batch.tensors["keys_of"][:, None]
        to.scatter_add_(1, batch.tensors["category"].long(), torch.where(wide, even, 0.0))
        return to / (readable >= 1).sum(1).clamp_min(1)[:, None]

    def _on_host(
        self, heads: LayerHeads, products: Tensor, weights: Tensor, read: dict[str, Tensor | None], batch: DeviceBatch
    ) -> LayerBatch:
        """The layer as variables that were declared elsewhere see it, on the host."""
        even = read["even"]
        assert even is not None
        return LayerBatch(
            heads, products[self.host.outputs_source].cpu().numpy(), weights.cpu().numpy(), even.cpu().numpy(),
            batch.queries, batch.keys,
        )  # fmt: skip

    def add_mixed(self, top: Tensor, batch: DeviceBatch) -> None:
        """What heads drawn from all layers would have: `top` (L, B, H, readings)."""
        assert self._kernels is not None
        layers, size, heads, readings = top.shape
        drawn = torch.from_numpy(self.host.mixed).to(top.device)
        to = torch.zeros((size, readings), dtype=torch.float64, device=top.device)
        most_ids = batch.queries.ids.shape[1]
        self._kernels.launch("mixed", (size, readings), NARROW, 8 * 32 + 4 * most_ids, top, drawn,
                             batch.tensors["distinct"], to, layers, size, heads, most_ids)  # fmt: skip
        self._mixed.append(to.sum(0))

    def rows(
        self, filled: dict[str, Tensor], batch: DeviceBatch, read: dict[str, Tensor | None]
    ) -> tuple[dict[str, NDArray[np.float64]], NDArray[np.int64], NDArray[np.int64]]:
        """What each head did with each window, for the rows per text."""
        host = {name: each.cpu().numpy() for name, each in filled.items()}
        at_tau = step_of(self.choices.tau)
        size, heads = host["flat"].shape
        weight = np.broadcast_to(batch.queries.contrast_weight[:, None], (size, heads, len(CONTRASTED)))
        likeness = host["correlation"][:, :, 0].max(-1) if self.maps else np.zeros((size, heads))
        null = _ids(filled["focal_null"][:, :, at_tau], batch.tensors["ids"]).cpu().numpy()
        columns = text_columns(
            given=host["given"], even=self._even(batch, read).cpu().numpy(), wins=host["wins"][:, :, 0],
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


def _ids(numbers: Tensor, ids: Tensor) -> Tensor:
    """Token ids by their number in the window, -1 for none: (B, H) and (B, K)."""
    return torch.where(numbers >= 0, ids.gather(1, numbers.clamp_min(0).long()), -1)
