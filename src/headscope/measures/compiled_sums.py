"""The sums of one attention stack, filled layer by layer by the compiled loops."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from headscope.choices import BINS, FEW_PAIRS, LONGEST_SUMMED, THRESHOLDS, Choices, first_high_bin, step_of
from headscope.errors import HeadscopeError
from headscope.measures.accumulator import LayerBatch, fill_declared
from headscope.measures.bands import band_names
from headscope.measures.batch_index import BatchIndex, TokenIndex
from headscope.measures.columns import ROW_COLUMNS, text_columns
from headscope.measures.comparisons import COMPARISONS, CONTRASTED, CONTRASTS
from headscope.measures.focal_counts import FocalCounts
from headscope.measures.loops import attention, by_level, by_order, focal, groups, levels
from headscope.measures.loops import order as order_loops
from headscope.measures.order import FEWEST_FOR_TOP, LEAST_TOP, ORDER_BINS, SAMPLED, edge_places
from headscope.measures.position_pairs import PositionPairs
from headscope.measures.relations import BOTH, RELATIONS, REPEATED, SAME_SENTENCE, UNRELATED
from headscope.measures.similarity import EDGES
from headscope.measures.together import Together
from headscope.measures.variables import FOCAL_TOKENS, Array, Shape, variables_of
from headscope.tap import LayerHeads
from headscope.windows import CATEGORIES

# What a reading is the product of, and whether it is over the lengths of the two vectors.
SOURCES = {"dot": ("outputs", False), "cosine": ("outputs", True), "centred": ("centred", True),
           "values": ("values", True)}  # fmt: skip
EachPart = Callable[[int, Callable[[int, int], bool]], bool]
LayerRows = tuple[dict[str, NDArray[np.float64]], NDArray[np.int64], NDArray[np.int64]]


def _logarithm() -> NDArray[np.float32]:
    """A polynomial for ln(1.5 + t), |t| ≤ ½, highest power first: good to 1e-7."""
    fitted = np.polynomial.Chebyshev.interpolate(lambda t: np.log(1.5 + t), 8, domain=[-0.5, 0.5])
    return np.asarray(fitted.convert(kind=np.polynomial.Polynomial).coef[::-1], dtype=np.float32)


LOGARITHM = _logarithm()


@dataclass(slots=True)
class LayerTensors:
    """One layer of a batch, as the loops take it."""

    read: LayerBatch
    products: NDArray[np.float32]  # (sources, B, H, T, T)
    queries: BatchIndex
    keys: BatchIndex
    readable: NDArray[np.float32]  # (B, Tq): how many tokens each may read
    directions: NDArray[np.float32]  # (B, P): 1 over the directions in which a pair may be read
    roots: Tensor | None  # (B, H, T, T): memory for square roots of the attention
    rows: Tensor | None  # (B, H, T, T): memory for their products


class StackSums:
    """The sums of one stack."""

    def __init__(self, shape: Shape, choices: Choices) -> None:
        self.shape, self.choices = shape, choices
        self.declared = [each for each in variables_of(shape) if each.name != FOCAL_TOKENS]
        self.arrays: dict[str, Array] = {}
        self._by_layer: dict[str, Array] = {}  # the same memory with the layers first: a layer of it is in one piece
        for each in self.declared:
            zeros, dims = each.zeros(shape), each.dims_of(shape)
            if "layer" in dims:
                place = dims.index("layer")
                zeros = self._by_layer[each.name] = np.ascontiguousarray(np.moveaxis(zeros, place, 0))
                self.arrays[each.name] = np.moveaxis(zeros, 0, place)
            else:
                self.arrays[each.name] = zeros
        self.by_band = shape.length > LONGEST_SUMMED
        self.compares_rows = not shape.cross and len(shape.maps) > 1
        self.focal = [FocalCounts() for _ in shape.layers]
        self._position_pairs = PositionPairs(shape.length)
        self.thresholds = np.array(THRESHOLDS)
        self.sources = list(dict.fromkeys(SOURCES[reading][0] for reading in shape.readings) | {"outputs": None})
        self.outputs_source = self.sources.index("outputs")
        layers = len(shape.layers)
        pairs = self.arrays["pairs"].shape
        self._custom_pairs = np.zeros((layers, len(shape.relations), *pairs[1:]), dtype=np.int64)
        for place, name in enumerate(shape.relations):
            self.arrays[f"pairs_{name}"] = self._custom_pairs[:, place]
        self.rules = groups.Rules(
            edges=EDGES.numpy(),
            lowest=first_high_bin(choices.tau),
            few=FEW_PAIRS,
            fewest_for_top=FEWEST_FOR_TOP,
            least_top=LEAST_TOP,
            contrasted=np.array([np.isin(np.arange(len(RELATIONS)), kinds) for kinds in CONTRASTED.values()]),
            unrelated=UNRELATED,
            in_sentence=np.isin(np.arange(len(RELATIONS)), (SAME_SENTENCE, BOTH)),
            repeated=np.isin(np.arange(len(RELATIONS)), (REPEATED, BOTH)),
            source=np.array([self.sources.index(SOURCES[reading][0]) for reading in shape.readings]),
            scaled=np.array([SOURCES[reading][1] for reading in shape.readings]),
        )
        number = layers * shape.heads
        # What one of `number` heads adds to the different focal tokens of H that are drawn, by how many choose it.
        self.mixed = np.array(
            [1 - math.comb(number - m, shape.heads) / math.comb(number, shape.heads) for m in range(number + 1)]
        )

    def vectors(self, source: str, read: LayerHeads, queries: BatchIndex | TokenIndex) -> Tensor:
        """What a source multiplies with itself: (B, H, T, d)."""
        if source == "outputs":
            return read.outputs.float()
        if source == "centred":
            return _centred(read.outputs.float(), torch.from_numpy(queries.counting))
        if read.values is None:
            raise HeadscopeError("the value vectors of this model cannot be read", "leave out the reading 'values'")
        return read.values.float().repeat_interleave(self.shape.heads // read.values.shape[1], dim=1)

    def add_windows(self, queries: BatchIndex | TokenIndex, keys: BatchIndex | TokenIndex) -> None:
        """Count the windows of a batch and their tokens; their pairs are counted by who has related them."""
        sums = self.arrays
        sums["texts"] += len(queries.lengths)
        sums["unsplit"] += int((queries.sentences == 1).sum())
        sums["pairless"] += int((queries.sizes < 2).sum())
        own = np.arange(keys.category.shape[1]) < keys.lengths[:, None]  # what is no padding
        sums["tokens"] += np.bincount(keys.category[own], minlength=len(CATEGORIES))
        self._position_pairs.add(queries.positions, queries.sizes)

    def no_top(self, windows: int) -> NDArray[np.int32]:
        """Room for the focal tokens from top pairs of all layers: (L, R, B, H)."""
        shape = self.shape
        return np.full((len(shape.layers), len(shape.readings), windows, shape.heads), -1, dtype=np.int32)

    def add_mixed(self, queries: BatchIndex, top: NDArray[np.int32]) -> None:
        """Add how many different focal tokens heads drawn from all layers would have: `top` (L, R, B, H)."""
        for r in range(top.shape[1]):
            for b in np.flatnonzero(queries.sizes > 1):
                chosen = top[:, r, b]
                counts = np.bincount(chosen[chosen >= 0])
                self.arrays["top_mixed"][r] += self.mixed[counts[counts > 0]].sum()

    def add_layer(
        self, layer: int, tensors: LayerTensors, top: NDArray[np.int32], each_part: EachPart
    ) -> LayerRows | None:
        """Add one layer of a batch; gives what its rows per text are made of, None where a number is not finite."""
        k, shape, queries, keys = self.shape.layers.index(layer), self.shape, tensors.queries, tensors.keys
        size, read = len(queries.lengths), tensors.read
        together = Together(queries)
        products = together.matrices(tensors.products)
        norms = _lengths(products)
        values = read.heads.values
        value_norms = (
            np.full((size, 1, keys.category.shape[1]), np.nan)
            if values is None
            else torch.linalg.vector_norm(values, dim=-1, dtype=torch.float64).cpu().numpy()
        )
        own_keys = np.broadcast_to(np.arange(value_norms.shape[2]) < keys.lengths[:, None, None], value_norms.shape)
        nothing = np.zeros((0, 0, 0, 0), dtype=np.float32)
        seen = attention.AttentionOut(
            given=np.zeros((size, shape.heads, len(CATEGORIES))),
            high=np.zeros((size, shape.heads, keys.category.shape[1]), dtype=np.int8),
            passed=np.zeros((size, shape.heads, keys.category.shape[1]), dtype=np.int8),
            roots=nothing if tensors.roots is None else tensors.roots.numpy(),
        )
        attention_in = attention.AttentionIn(
            weights=read.weights,
            bits=read.weights.view(np.int32),
            even=read.even,
            readable=tensors.readable,
            value_norms=value_norms,
            queries=queries.lengths,
            keys=keys.lengths,
            category=keys.category,
            counting=keys.counting,
        )
        attention_sums = attention.AttentionSums(*(self.arrays[name][k] for name in attention.AttentionSums._fields))
        shown = len(shape.readings) + (0 if shape.cross else len(shape.maps))
        pairs_in = groups.PairsIn(
            products=products,
            norms=norms,
            lengths=norms[self.outputs_source],
            levels=self._ranks(products, norms, queries),
            weights=nothing if shape.cross else together.matrices(read.weights),
            readable=together.tokens(tensors.readable),
            directions=tensors.directions,
            rows=nothing if tensors.rows is None else tensors.rows.numpy(),
            high=seen.high,
            passed=seen.passed,
            edges=np.empty((size, shape.heads, shown, ORDER_BINS - 1), dtype=np.float32),
        )
        steps = len(THRESHOLDS)
        chosen = groups.Chosen(
            focal=np.full((size, shape.heads, steps), -1, dtype=np.int32),
            focal_null=np.full((size, shape.heads, steps), -1, dtype=np.int32),
            top=top[k],
            top_null=np.full_like(top[k], -1),
            null=np.zeros((size, shape.heads, queries.ids.shape[1]), dtype=np.int64),
        )
        order_rows, level_rows = self._rows(groups.OrderRows, size), self._rows(groups.LevelRows, size)
        order_sums, level_sums = self._pair_sums(groups.OrderSums, k), self._pair_sums(groups.LevelSums, k)

        def work(first: int, last: int) -> bool:
            finite: bool = attention.attention_of_heads(
                attention_in, attention_sums, seen, self.thresholds, self.choices.theta, LOGARITHM, first, last
            )
            if not finite:
                return False
            if tensors.roots is not None and tensors.rows is not None:
                own = tensors.roots[:, first:last]
                if last - first == shape.heads:
                    torch.matmul(own, own.transpose(-1, -2), out=tensors.rows)
                else:
                    tensors.rows[:, first:last] = own @ own.transpose(-1, -2)
                together.move(tensors.rows.numpy(), first, last)
            together.move_tokens((seen.high, seen.passed), first, last)
            self._find_edges(pairs_in, queries, first, last)
            finite = by_order.pairs_by_order(
                pairs_in, queries, self.rules, order_sums, chosen, order_rows, layer, first, last
            )
            if finite:
                by_level.pairs_by_level(pairs_in, queries, self.rules, level_sums, chosen, level_rows, first, last)
            return finite

        if not (np.isfinite(value_norms[own_keys]).all() or values is None) or not each_part(shape.heads, work):
            return None
        return self._finish_layer(k, tensors, seen.given, chosen, order_rows, level_rows)

    def _find_edges(self, pairs_in: groups.PairsIn, queries: BatchIndex, first: int, last: int) -> None:
        """The edges of the order bins: the samples of all heads are sorted at once, which is far faster."""
        size, shown = len(queries.lengths), pairs_in.edges.shape[2]
        samples = np.empty((size, last - first, shown, SAMPLED), dtype=np.float32)
        order_loops.sample_heads(
            pairs_in, self.rules, queries.begins, queries.sampled, queries.samples, samples, first, last
        )
        samples.sort(axis=-1)
        for b, number in enumerate(queries.sampled):
            if number:
                pairs_in.edges[b, first:last] = samples[b][..., edge_places(int(number))]

    def _ranks(
        self, products: NDArray[np.float32], norms: NDArray[np.float32], queries: BatchIndex
    ) -> NDArray[np.float64]:
        """Levels as mid-ranks of the main reading, where levels are ranks; else nothing."""
        if self.choices.scale != "rank":
            return np.zeros((0, 0, 0, 0))
        source = self.rules.source[0]
        matrix = products[source]
        if self.rules.scaled[0]:
            size = norms[source][..., :, None] * norms[source][..., None, :]
            with np.errstate(divide="ignore", invalid="ignore"):
                matrix = np.where(size > 0, matrix / size, np.float32(0))
        return ranks(matrix, queries)

    def _rows(self, kind: Any, size: int) -> Any:
        """An empty group of what the loops leave for the rows per text."""
        shape = (size, self.shape.heads)
        tables = {"matched": (len(COMPARISONS), 2), "wins": (len(CONTRASTS),), "weight": (len(CONTRASTS),)}
        return kind(*(np.zeros((*shape, *tables.get(name, ()))) for name in kind._fields))

    def _pair_sums(self, kind: Any, k: int) -> Any:
        """One layer of the variables that the loops over pairs fill; empty arrays for those that a stack lacks."""
        shape, contrasts = self.shape, len(CONTRASTS)
        readings, number, kinds = len(shape.readings), shape.heads, len(band_names(shape.length)) * len(RELATIONS)
        table = math.prod(self.arrays["pairs"].shape[3:])  # a head's pairs of one level
        views = {
            "pairs": self.arrays["pairs"][k].reshape(number, BINS, table),
            "custom_pairs": self._custom_pairs[k].reshape(len(shape.relations), number, BINS, table),
            "top_pairs": self._by_layer["top_pairs"][k].reshape(readings, number, kinds),
        }
        if not self.by_band:
            views["distance_sum"] = np.zeros((0, BINS, len(RELATIONS)), dtype=np.int64)  # follows from the pairs
        empty = {
            "similarity_sum": np.zeros((number, 0, 0)),
            "attention_wins": np.zeros((0, number, contrasts)),
            "attention_correlation": np.zeros((readings, 0, number)),
            "mask_sum": np.zeros((number, 0, 3)),
            "mask_pairs": np.zeros((number, 0, 3), dtype=np.int64),
        }

        def layer_of(name: str) -> Array:
            own = views.get(name)
            if own is None:
                own = self._by_layer[name][k] if name in self._by_layer else empty[name]
            return own

        return kind(*(layer_of(name) for name in kind._fields))

    def _finish_layer(
        self,
        k: int,
        tensors: LayerTensors,
        given: NDArray[np.float64],
        chosen: groups.Chosen,
        order_rows: groups.OrderRows,
        level_rows: groups.LevelRows,
    ) -> LayerRows:
        """What the loops leave to be added: even attention, focal tokens, and the variables declared elsewhere."""
        sums, queries, keys, read = self.arrays, tensors.queries, tensors.keys, tensors.read
        focal.count_unique(chosen.focal, queries.sizes, sums["focal_unique"][k])
        focal.count_unique(chosen.focal_null, queries.sizes, sums["focal_null"][k])
        for name, tokens in (("top_unique", chosen.top), ("top_null", chosen.top_null)):  # (R, B, H) each
            for r, own in enumerate(tokens):
                focal.count_unique(own[:, :, None], queries.sizes, sums[name][r, k][None])
        even = np.zeros((len(queries.lengths), len(CATEGORIES)))
        for b, length in enumerate(keys.lengths):
            even[b] = np.bincount(keys.category[b, :length], read.even[b, :length], len(CATEGORIES))
        even /= np.maximum((tensors.readable >= 1).sum(1), 1)[:, None]
        sums["attention"][k] += given.sum(0)
        sums["attention_even"][k] += even.sum(0)
        at_tau = step_of(self.choices.tau)
        tokens, null_tokens = (_ids_of(each[:, :, at_tau], queries) for each in (chosen.focal, chosen.focal_null))
        self.focal[k].note(tokens)
        fill_declared(self.declared, sums, k, lambda: read)
        columns = text_columns(
            given=given, even=even, wins=order_rows.wins, weight=order_rows.weight, matched=level_rows.matched,
            likeness=order_rows.likeness, without=(queries.sizes < 2)[:, None] | self.shape.cross,
            others={name: getattr(level_rows, name) for name in ROW_COLUMNS},
        )  # fmt: skip
        return columns, tokens, null_tokens

    def variables(self) -> dict[str, Array]:
        """Every sum by its name."""
        if not self.by_band:
            distances = np.arange(1, self.arrays["pairs"].shape[3] + 1)
            self.arrays["distance_sum"] = np.einsum("lhbdr,d->lhbr", self.arrays["pairs"], distances)
        self.arrays["position_pairs"] = self._position_pairs.table()
        entries = [counted.entries(k) for k, counted in enumerate(self.focal)]
        return self.arrays | {FOCAL_TOKENS: np.concatenate(entries)}


def _centred(outputs: Tensor, counting: Tensor) -> Tensor:
    """Outputs without the mean of those that count: (B, H, T, d) and (B, T)."""
    counting = counting.to(outputs.device)[:, None, :, None]
    mean = torch.where(counting, outputs, 0.0).sum(2, keepdim=True) / counting.sum(2, keepdim=True).clamp_min(1)
    return outputs - mean


def _lengths(products: NDArray[np.float32]) -> NDArray[np.float32]:
    """Lengths of the vectors, from the diagonal of their products: (sources, B, H, T, T) to (sources, B, H, T)."""
    diagonal = np.diagonal(products, axis1=-2, axis2=-1)
    with np.errstate(invalid="ignore"):  # padding may hold anything
        return np.sqrt(np.ascontiguousarray(diagonal))


def _ids_of(numbers: NDArray[np.int32], queries: BatchIndex) -> NDArray[np.int64]:
    """Token ids by their number in the window, -1 for none: (B, H)."""
    tokens = np.take_along_axis(queries.ids, np.maximum(numbers, 0).astype(np.int64), 1)
    return np.where(numbers >= 0, tokens, -1)


def ranks(matrix: NDArray[np.float32], windows: BatchIndex) -> NDArray[np.float64]:
    """Levels as mid-ranks of S among the pairs of its head, over their number: (B, H, T, T), both halves filled."""
    ranked_levels = np.zeros(matrix.shape)
    for b, (begin, size) in enumerate(zip(windows.begins, windows.sizes, strict=True)):
        if size < 2:
            continue
        i, j = (place + begin for place in np.triu_indices(size, 1))
        values = matrix[b][:, i, j] + np.float32(0)  # (H, P); -0 becomes 0, which it equals
        bits = values.view(np.uint32)
        order = np.where(bits >> 31, ~bits, bits | np.uint32(1 << 31)).astype(np.uint64)  # as the numbers are ordered
        packed = np.sort(order << np.uint64(32) | np.arange(len(i), dtype=np.uint64), axis=1)
        ranked = np.empty(values.shape)
        levels.rank_levels(packed, ranked)
        ranked_levels[b][:, i, j] = ranked
        ranked_levels[b][:, j, i] = ranked
    return ranked_levels
