"""The accumulator in plain torch: the method's definitions, window by window, wherever the tensors are.

It is what faster ones are held to. `torch_measures` has what a layer makes of a window; here it is added up.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import comb
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from headscope.choices import Choices, first_high_bin, step_of
from headscope.measures.accumulator import LayerBatch, NotFinite, fill_declared
from headscope.measures.attention import even_of_batch, may_read
from headscope.measures.columns import COLUMNS, FEWEST_MATCHED, MATCHED_COLUMNS, row_tables
from headscope.measures.comparisons import COMPARISONS, CONTRASTED, CONTRASTS, INSIDE
from headscope.measures.own_relations import Labels
from headscope.measures.relations import BOTH, REPEATED, SAME_SENTENCE
from headscope.measures.similarity import products
from headscope.measures.torch_measures import Found, Measured, WindowHeads, measure
from headscope.measures.torch_window import WindowPairs, WindowTokens, moved, window_pairs, window_tokens
from headscope.measures.variables import FOCAL_TOKENS, Array, Shape, Sums, variables_of
from headscope.tap import LayerHeads
from headscope.windows import CATEGORIES, Window, WindowBatch, padded
from headscope.windows.window import END, STOP


class TorchAccumulator:
    """Sums over windows for every stack of a model; see `Accumulator`.

    `relations` are the caller's own, and `rows` is how many windows there will be where rows per text are wanted.
    `threads` are torch's own business: the number is taken, so that one accumulator can stand for another.
    """

    def __init__(
        self,
        shapes: Mapping[str, Shape],
        choices: Choices,
        *,
        relations: Mapping[str, Labels] | None = None,
        rows: int | None = None,
        threads: int = 1,
    ) -> None:
        self.choices, self.relations, self.threads = choices, relations or {}, threads
        self.stacks = {name: StackSums(shape) for name, shape in shapes.items()}
        self.rows = row_tables(rows, shapes)

    def begin(self, batch: WindowBatch, first: int = 0) -> TorchBatch:
        """Take in the windows of a batch and count what they hold, whatever the heads make of it."""
        opened = TorchBatch(self, batch, first)
        for name, stack in self.stacks.items():
            pairs, keys = opened.of_stack(name, torch.device("cpu"))
            for each in zip(pairs, keys, strict=True):
                stack.add_window(*each)
        return opened

    def sums(self) -> Sums:
        """Every variable of every stack."""
        return {name: stack.variables() for name, stack in self.stacks.items()}

    def close(self) -> None:
        """There is nothing to let go of."""


class TorchBatch:
    """One batch on its way through the model."""

    def __init__(self, accumulator: TorchAccumulator, batch: WindowBatch, first: int) -> None:
        self.accumulator, self.batch, self.first = accumulator, batch, first
        self._pairs: dict[tuple[int, torch.device], list[WindowPairs]] = {}
        self._tokens: dict[tuple[int, torch.device], list[WindowTokens]] = {}
        self._top_focal: dict[str, dict[int, list[Tensor]]] = {name: {} for name in accumulator.stacks}

    def of_stack(self, stack: str, device: torch.device) -> tuple[list[WindowPairs], list[WindowTokens]]:
        """The pairs of the windows whose tokens query in a stack, and the tokens that are read."""
        queries, keys = self.batch.of_stack(stack)
        return self._pairs_of(queries, device), self._tokens_of(keys, device)

    def _pairs_of(self, windows: tuple[Window, ...], device: torch.device) -> list[WindowPairs]:
        known, place, cpu = self._pairs, (id(windows), device), torch.device("cpu")
        if place not in known and device != cpu:
            known[place] = [moved(each, device) for each in self._pairs_of(windows, cpu)]
        elif place not in known:
            choices, relations = self.accumulator.choices, self.accumulator.relations
            known[place] = [window_pairs(each, choices, relations) for each in windows]
        return known[place]

    def _tokens_of(self, windows: tuple[Window, ...], device: torch.device) -> list[WindowTokens]:
        known, place = self._tokens, (id(windows), device)
        if place not in known:
            known[place] = [moved(window_tokens(each, self.accumulator.choices), device) for each in windows]
        return known[place]

    @torch.no_grad()
    def layer(self, heads: LayerHeads) -> None:
        """Add what one layer read and wrote."""
        stack = self.accumulator.stacks.get(heads.stack)
        if stack is None or heads.layer not in stack.shape.layers:
            return
        assert heads.weights is not None
        device = heads.outputs.device
        if device.type == "mps":  # it has no float64
            device = torch.device("cpu")
        batch, _, tall, wide = heads.weights.shape
        may = may_read(heads.readable, batch, tall, wide, device)
        choices, found, columns = self.accumulator.choices, [], []
        pairs, keys = self.of_stack(heads.stack, device)
        for b, (own, read) in enumerate(zip(pairs, keys, strict=True)):
            seen = window_heads(heads, b, len(own.same), len(read), may)
            if not seen.finite:
                raise NotFinite(heads.stack, heads.layer)
            found.append(measure(seen, read, own, stack.shape, choices, heads.layer))
            columns.append(row(found[-1].sums, choices, stack.shape))
        ids = [focal_ids(each, own) for each, own in zip(found, pairs, strict=True)]
        stack.add_layer(heads.layer, found, [token for token, _ in ids])
        place = stack.shape.layers.index(heads.layer)
        fill_declared(stack.declared, stack.arrays, place, lambda: self._layer_batch(heads))
        self._top_focal[heads.stack][heads.layer] = [each.top_focal for each in found]
        if self.accumulator.rows:
            of_rows = {name: _numbers([each[name] for each in columns]) for name in COLUMNS}
            focal, null = (_numbers(each) for each in zip(*ids, strict=True))
            self.accumulator.rows[heads.stack].put(self.first, heads.layer, of_rows, focal, null)

    def finish(self) -> None:
        """Add what heads drawn from all layers would have."""
        for name, by_layer in self._top_focal.items():
            stack = self.accumulator.stacks[name]
            pairs, _ = self.of_stack(name, torch.device("cpu"))
            for b, own in enumerate(pairs):
                if len(own) and by_layer:
                    stack.add_mixed(np.concatenate([each[b].cpu().numpy() for each in by_layer.values()], axis=1))
        self._top_focal.clear()

    def _layer_batch(self, heads: LayerHeads) -> LayerBatch:
        """The layer as variables that were declared elsewhere see it."""
        assert heads.weights is not None
        queries, keys = (padded_tokens(each, self.accumulator.choices) for each in self.batch.of_stack(heads.stack))
        return LayerBatch(
            heads,
            products(heads.outputs.float()).cpu().numpy(),
            heads.weights.float().cpu().numpy(),
            even_of_batch(heads.readable, queries.lengths.tolist(), keys.lengths.tolist()),
            queries,
            keys,
        )


class StackSums:
    """The sums of one stack. Those of a layer stay where its tensors are until they are asked for."""

    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        self.declared = [each for each in variables_of(shape) if each.name != FOCAL_TOKENS]
        # What no layer fills, and what other people's functions fill.
        self.arrays: dict[str, Array] = {
            each.name: each.zeros(shape) for each in self.declared if "layer" not in each.dims or each.fill is not None
        }
        self._layers: dict[int, Found] = {}
        self._focal: dict[int, list[Tensor]] = {layer: [] for layer in shape.layers}  # (H,) of each window
        every = len(shape.layers) * shape.heads
        # How likely a token that m of all heads choose is among those of H heads drawn from them: (LH + 1,)
        self._drawn = np.array([1 - comb(every - m, shape.heads) / comb(every, shape.heads) for m in range(every + 1)])

    def add_window(self, pairs: WindowPairs, keys: WindowTokens) -> None:
        """Count a window and its pairs."""
        sums = self.arrays
        sums["texts"] += 1
        sums["unsplit"] += keys.sentences == 1
        sums["pairless"] += len(pairs) == 0
        sums["tokens"] += np.bincount(keys.category.numpy(), minlength=len(CATEGORIES))
        sums["position_pairs"][pairs.first.numpy(), pairs.second.numpy()] += 1
        sums["base_pairs"][: len(pairs.base)] += pairs.base.numpy()

    def add_layer(self, layer: int, found: Sequence[Measured], focal: Sequence[Tensor]) -> None:
        """Add what was found in the windows of a batch, one after the other, and their focal ids at the run's τ."""
        for each in found:
            if layer not in self._layers:
                self._layers[layer] = self._zeros(layer, each.focal.device)
            for name, part in each.sums.items():
                corner = tuple(slice(size) for size in part.shape)  # a shorter window fills the corner alone
                self._layers[layer][name][corner] += part
        self._focal[layer] += focal

    def add_mixed(self, top_focal: NDArray[np.int64]) -> None:
        """What H heads drawn from all layers would have in a window, from the focal token of each: (R, LH)."""
        for r, chosen in enumerate(top_focal):
            _, times = np.unique(chosen[chosen >= 0], return_counts=True)
            self.arrays["top_mixed"][r] += self._drawn[times].sum()

    def _zeros(self, layer: int, device: torch.device) -> Found:
        """Empty sums of one layer, without the dimension `layer`."""
        shape = replace(self.shape, layers=(layer,))
        return {
            each.name: torch.from_numpy(each.zeros(shape)).squeeze(each.dims.index("layer")).to(device)
            for each in self.declared
            if each.name not in self.arrays
        }

    def variables(self) -> dict[str, Array]:
        """Every sum by its name."""
        sums, layers = dict(self.arrays), self.shape.layers
        for each in self.declared:
            if each.name not in sums:
                known = [self._layers.get(layer) or self._zeros(layer, torch.device("cpu")) for layer in layers]
                parts = [one[each.name].cpu().numpy() for one in known]
                sums[each.name] = np.stack(parts, axis=each.dims.index("layer"))
        return sums | {FOCAL_TOKENS: np.concatenate([self._focal_rows(k) for k in range(len(layers))])}

    def _focal_rows(self, k: int) -> NDArray[np.int64]:
        """How often each token is focal in each head of a layer: rows of layer place, head, token and number."""
        noted = self._focal[self.shape.layers[k]]
        tokens = torch.stack(noted).cpu().numpy() if noted else np.zeros((0, self.shape.heads), dtype=np.int64)
        head = np.broadcast_to(np.arange(self.shape.heads), tokens.shape)
        chosen = np.column_stack([head[tokens >= 0], tokens[tokens >= 0]])
        each, times = np.unique(chosen, axis=0, return_counts=True)
        return np.column_stack([np.full(len(each), k), each, times])


class PaddedTokens(NamedTuple):
    """The tokens of a batch of windows; see `BatchTokens`."""

    lengths: NDArray[np.int64]
    category: NDArray[np.int64]
    counting: NDArray[np.bool_]


def padded_tokens(windows: Sequence[Window], choices: Choices) -> PaddedTokens:
    """The tokens of windows, padded to the longest."""
    return PaddedTokens(
        np.array([len(each) for each in windows]),
        padded([each.category for each in windows]),
        padded([each.counting(choices.special) for each in windows]),
    )


def window_heads(heads: LayerHeads, b: int, queries: int, keys: int, may: Tensor) -> WindowHeads:
    """One window of a layer's batch, without its padding, in float32."""
    assert heads.weights is not None
    may = may[b, :queries, :keys]

    def own(tensor: Tensor) -> Tensor:
        return tensor.to(may.device).float()

    return WindowHeads(
        own(heads.outputs[b, :, :queries]),
        own(heads.weights[b, :, :queries, :keys]).masked_fill(~may.any(1, keepdim=True), 0.0),
        None if heads.values is None else own(heads.values[b, :, :keys]),
        may,
    )


def focal_ids(found: Measured, pairs: WindowPairs) -> tuple[Tensor, Tensor]:
    """The ids of the focal tokens at the run's τ, and of those of the null; -1: none. (H,) each."""
    ids = torch.cat([pairs.ids, pairs.ids.new_tensor([-1])])  # the number -1 finds the last
    return ids[found.focal], ids[found.focal_null]


def row(sums: Found, choices: Choices, shape: Shape) -> Found:
    """The columns of the rows per text, from a window's own part of the sums: (H,) each."""
    given, even = sums["attention"], sums["attention_even"]  # (H, C), (C,)
    nothing = torch.full_like(given[:, 0], torch.nan)
    columns = dict.fromkeys(COLUMNS, nothing) | {
        "separator_focus_stop": given[:, STOP] / even[STOP],  # 0 / 0 where there is no such token
        "separator_focus_end": given[:, END] / even[END],
        "high_pairs": torch.zeros_like(nothing),
    }
    if "pairs" not in sums:
        return columns
    first, step = first_high_bin(choices.tau), step_of(choices.tau)
    high = sums["pairs"][:, first:].sum((1, 2)).double()  # (H, relation)
    number = high.sum(1)
    matched, weight, won = sums["matched"], sums["contrast_weight"], sums["wins"][0]
    columns |= {
        "high_pairs": number,
        "mean_distance": sums["distance_sum"][:, first:].sum((1, 2)) / number,
        "sentence_share": high[:, [SAME_SENTENCE, BOTH]].sum(1) / number,
        "repetition_share": high[:, [REPEATED, BOTH]].sum(1) / number,
        "focal_share": sums["focal_share"][:, step],
    }
    for name, comparison in MATCHED_COLUMNS.items():
        a, b = matched[:, COMPARISONS.index(comparison)].unbind(1)
        columns[name] = torch.where(a + b < FEWEST_MATCHED, nothing, (a + 0.5) / (b + 0.5))
    for k, contrast in enumerate(CONTRASTED):
        columns[f"separation_{contrast}"] = won[:, k] / weight[:, k]  # 0 / 0 where the weight is 0
    if not shape.cross:
        columns["mask_auc"] = won[:, CONTRASTS.index(INSIDE)] / weight[:, CONTRASTS.index(INSIDE)]
        columns["likeness"] = sums["attention_correlation"][0].amax(0)
    return columns


def _numbers(each: Sequence[Tensor]) -> NDArray[Any]:
    """Windows one after the other, as an array: (H,) each to (B, H)."""
    return torch.stack(list(each)).cpu().numpy()
