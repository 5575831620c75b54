"""Made-up layers of made-up heads, and what the naive implementation makes of them.

Numbers are such that products are exact in every precision: so are counts, and all must be equal to the last one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

import headscope
import naive_corpus
from headscope.choices import Choices, first_high_bin, step_of
from headscope.measures import variables
from headscope.measures.accumulator import Accumulator
from headscope.measures.relations import RELATIONS
from headscope.measures.variables import Shape
from headscope.tap import LayerHeads
from headscope.windows import CATEGORIES, Window, WindowBatch, corpus_windows

LENGTH, HEADS, GROUPS, WIDTH, LAYERS = 24, 4, 2, 5, (0, 2)
MASKS: dict[str, Callable[[int, int], np.ndarray]] = {  # which keys each query may read, by layer and length
    "causal": lambda layer, size: np.tri(size, dtype=bool),
    "sliding": lambda layer, size: np.tri(size, dtype=bool) & ~np.tri(size, k=-6, dtype=bool),
    "mixed": lambda layer, size: np.tri(size, dtype=bool) & (~np.tri(size, k=-4, dtype=bool) | (layer < 2)),
    "blind": lambda layer, size: np.tri(size, dtype=bool) & (np.arange(size) % 5 != 3)[:, None],  # some read nothing
}


class Heads:
    """Made-up layers for the windows of one stack: what the tap would yield, padded with what is not to be read.

    Outputs and values are small whole numbers, and so is the mean output of the tokens that count. Attention is such
    that its square roots are whole multiples of 2⁻¹¹: sums of products of them are exact in float32.
    """

    def __init__(
        self, windows: WindowBatch, stack: str, seed: int, *, mask: str | None = None, special: bool = False,
        heads: int = HEADS, layers: int = 3,
    ) -> None:  # fmt: skip
        rng = np.random.default_rng(seed)
        self.batch, self.stack, self.mask, self.heads, self.number = windows, stack, mask, heads, layers
        self.queries, self.keys = windows.of_stack(stack)
        self.each: list[tuple[np.ndarray, ...]] = []  # O (L, H, Tq, d), A (L, H, Tq, Tk), V (L, Hkv, Tk, d)
        for queries, keys in zip(self.queries, self.keys, strict=True):
            outputs = rng.integers(-3, 4, size=(layers, heads, len(queries), WIDTH)).astype(np.float64)
            counting = np.flatnonzero(queries.counting(special))
            more = outputs[:, :, counting].sum(2, keepdims=True) % max(len(counting), 1)  # than a whole mean has
            outputs[:, :, counting] -= np.arange(len(counting))[:, None] < more
            outputs[1:, 0] = 0.0  # a head without any output: all its matrices are flat
            scores = rng.normal(size=(layers, heads, len(queries), len(keys))) * 2
            for layer in range(layers):
                scores[layer][:, ~self.readable(layer, len(queries), len(keys))] = -np.inf
            scores[np.isneginf(scores).all(-1)] = 0.0  # who may read nothing reads evenly in most models; it counts not
            weights = np.exp(scores) / np.exp(scores).sum(-1, keepdims=True)
            weights = (np.round(np.sqrt(weights) * 2**11) / 2**11) ** 2
            values = rng.integers(-2, 3, size=(layers, GROUPS, len(keys), WIDTH)).astype(np.float64)
            self.each.append((outputs, weights, values))

    def readable(self, layer: int, queries: int, keys: int) -> np.ndarray:
        return np.ones((queries, keys), dtype=bool) if self.mask is None else MASKS[self.mask](layer, queries)

    def layers(self, dtype: torch.dtype = torch.float32, padding: float = np.nan) -> Iterator[LayerHeads]:
        size, tall, wide = len(self.each), max(map(len, self.queries)), max(map(len, self.keys))
        for layer in range(self.number):
            outputs = torch.full((size, self.heads, tall, WIDTH), padding, dtype=dtype)
            weights = torch.full((size, self.heads, tall, wide), padding, dtype=dtype)
            values = torch.full((size, GROUPS, wide, WIDTH), padding, dtype=dtype)
            for b, (own, maps, carried) in enumerate(self.each):
                outputs[b, :, : own.shape[2]] = torch.from_numpy(own[layer])
                weights[b, :, : maps.shape[2], : maps.shape[3]] = torch.from_numpy(maps[layer])
                values[b, :, : carried.shape[2]] = torch.from_numpy(carried[layer])
            readable = None if self.mask is None else torch.from_numpy(self.readable(layer, tall, wide))
            if self.mask == "sliding" and readable is not None:  # as models with padding give it
                readable = readable.expand(size, 1, tall, wide)
            yield LayerHeads(self.stack, layer, "", outputs, weights, values, readable)


def windows_of(model: headscope.Model, texts: list[str]) -> list[Window]:
    cut = [corpus_windows(text, model.tokenizer, model.template, length=LENGTH)[0] for text in texts]
    return sorted(cut, key=len)


def cut_to(window: Window, length: int) -> Window:
    columns = ("ids", "types", "category", "sentence", "word", "span", "part", "unknown", "tokens")
    return replace(window, **{name: getattr(window, name)[:length] for name in columns})


def shapes(*stacks: str, relations: tuple[str, ...] = (), **choices: Any) -> dict[str, Shape]:
    readings = Choices(**choices).readings
    own = {"cross": tuple(each for each in readings if each != "values")}
    return {
        stack: Shape(LAYERS, HEADS, LENGTH, relations, cross=stack == "cross", readings=own.get(stack, readings))
        for stack in stacks
    }


def feed(accumulator: Accumulator, batch: WindowBatch, *heads: Heads, first: int = 0) -> None:
    """A batch from its beginning to its end."""
    sink = accumulator.begin(batch, first)
    for stack in heads:
        for layer in stack.layers():
            sink.layer(layer)
    sink.finish()


def facts(window: Window, choices: dict[str, Any]) -> SimpleNamespace:
    """A window as the naive implementation takes it."""

    def known(numbers: np.ndarray) -> list[int | None]:
        return [None if number < 0 else int(number) for number in numbers]

    return SimpleNamespace(
        ids=window.ids.tolist(),
        category=[CATEGORIES[c] for c in window.category],
        word=known(window.word),
        sentence=known(window.sentence),
        again=known(window.repeats(choices.get("repeated", "token"))),
        sentences=window.sentences,
        counting=window.counting(choices.get("special", False)).tolist(),
    )  # fmt: skip


def expected(heads: Heads, choices: dict[str, Any], shape: Shape) -> naive_corpus.Corpus:
    """The naive implementation over the same windows and numbers."""
    chosen = {key: choices[key] for key in ("readings", "scale") if key in choices}
    tau, theta = choices.get("tau", 0.5), choices.get("theta", 0.3)
    corpus = naive_corpus.Corpus(list(shape.layers), shape.heads, shape.length, tau, theta, chosen)
    for queries, keys, (outputs, weights, values) in zip(heads.queries, heads.keys, heads.each, strict=True):
        readable = np.stack([heads.readable(layer, len(queries), len(keys)) for layer in range(heads.number)])
        corpus.add(
            facts(queries, choices),
            facts(keys, choices),
            outputs,
            np.where(readable.any(-1)[:, None, :, None], weights, 0.0),
            values.repeat(shape.heads // GROUPS, axis=1),
            readable,
            cross=shape.cross,
        )
    return corpus


def assert_equal(sums: dict[str, np.ndarray], naive: naive_corpus.Corpus, shape: Shape) -> None:
    """Every variable, and no other; what a stack has not of a dimension is 0."""
    filled = {each.name for each in variables.variables_of(shape)} - {"focal_tokens"}
    assert filled == set(naive.sums)
    for name, theirs in naive.sums.items():
        mine, theirs = sums[name], np.asarray(theirs)
        assert mine.dtype == variables.variable(name).dtype, name
        assert mine.shape == variables.variable(name).zeros(shape).shape, name
        own = mine[tuple(slice(size) for size in theirs.shape)]  # the naive one has no contrast where it means nothing
        assert np.count_nonzero(mine) == np.count_nonzero(own), name
        if mine.dtype.kind == "i":
            np.testing.assert_array_equal(own, theirs, err_msg=name)
        else:
            near = 1e-6 if name == "attention_entropy" else 1e-9  # logarithms may be polynomials
            np.testing.assert_allclose(own, theirs, rtol=near, atol=near, err_msg=name)
    entries = {(shape.layers[k], h, t): n for k, h, t, n in sums["focal_tokens"].tolist()}
    assert entries == dict(naive.focal_tokens)


def naive_row(naive: naive_corpus.Corpus, choices: Choices) -> dict[str, np.ndarray]:
    """The columns of one window, (L, H), from its naive sums."""
    sums, first = naive.sums, first_high_bin(choices.tau)
    high = sums["pairs"][:, :, first:].sum((2, 3))  # (L, H, relation)
    number = high.sum(-1)
    columns = {"high_pairs": number.astype(float)}
    with np.errstate(invalid="ignore", divide="ignore"):
        for name, category in (("separator_focus_stop", "stop"), ("separator_focus_end", "end")):
            k = CATEGORIES.index(category)
            columns[name] = sums["attention"][..., k] / sums["attention_even"][:, None, k]
        columns["mean_distance"] = sums["distance_sum"][:, :, first:].sum((2, 3)) / number
        for name, relation in (("sentence_share", "sentence"), ("repetition_share", "repeated")):
            columns[name] = high[..., [RELATIONS.index(relation), RELATIONS.index("both")]].sum(-1) / number
        columns["focal_share"] = np.where(number > 0, sums["focal_share"][..., step_of(choices.tau)], np.nan)
        for name, k in (("sentence_preference", 0), ("repetition_preference", 1), ("separator_similarity", 2)):
            a, b = np.moveaxis(sums["matched"][..., k, :], -1, 0)
            columns[name] = np.where(a + b < 5, np.nan, (a + 0.5) / (b + 0.5))
        separations = ("separation_sentence", "separation_repeated", "separation_related", "mask_auc")
        for k, name in enumerate(separations):
            columns[name] = sums["wins"][0, ..., k] / sums["contrast_weight"][..., k]
        columns["likeness"] = sums["attention_correlation"][0].max(0)
    if sums["pairless"]:
        columns["likeness"] = np.full_like(columns["likeness"], np.nan)
    return columns
