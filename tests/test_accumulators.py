"""What every accumulator must do, whatever it computes with: one suite, run over all implementations.

Outputs are small whole numbers, so products are exact in every precision and counts must be equal to the last one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch

import headscope
import naive_corpus
from headscope.choices import Choices
from headscope.errors import HeadscopeError
from headscope.measures import variables
from headscope.measures.accumulator import Accumulator, LayerBatch
from headscope.measures.compiled_accumulator import CompiledAccumulator
from headscope.measures.variables import Shape, Variable
from headscope.tap import LayerHeads
from headscope.windows import Window, WindowBatch, batch_windows, corpus_windows
from test_corpus_numbers import TEXTS

ACCUMULATORS: dict[str, Callable[..., Accumulator]] = {"compiled": CompiledAccumulator}
LENGTH, HEADS, WIDTH, LAYERS = 24, 3, 5, (0, 2)
START = 7  # a decoder's first token
CASES: dict[str, dict[str, Any]] = {
    "plain": {},
    "special": {"special": True, "theta": 0.6, "tau": 0.7},
    "rank": {"scale": "rank"},
    "word": {"repeated": "word"},
}
NAIVE: dict[str, naive_corpus.Corpus] = {}


@pytest.fixture(params=ACCUMULATORS)
def make(request: pytest.FixtureRequest) -> Callable[..., Accumulator]:
    return ACCUMULATORS[request.param]


class Heads:
    """Made-up layers for the windows of one stack: what the tap would yield, padded with what is not to be read."""

    def __init__(self, windows: WindowBatch, stack: str, seed: int, *, causal: bool = False) -> None:
        rng = np.random.default_rng(seed)
        self.batch, self.stack, self.causal = windows, stack, causal
        self.queries, self.keys = windows.of_stack(stack)
        self.each: list[tuple[np.ndarray, np.ndarray]] = []  # O (L, H, Tq, d) and A (L, H, Tq, Tk) of each window
        for queries, keys in zip(self.queries, self.keys, strict=True):
            outputs = rng.integers(-3, 4, size=(3, HEADS, len(queries), WIDTH)).astype(np.float64)
            outputs[1:, 0] = 0.0  # a head without any output: all its matrices are flat
            scores = rng.normal(size=(3, HEADS, len(queries), len(keys))) * 2
            if causal:
                scores[..., np.triu(np.ones(scores.shape[-2:], dtype=bool), 1)] = -np.inf
            weights = np.exp(scores) / np.exp(scores).sum(-1, keepdims=True)
            self.each.append((outputs, weights.astype(np.float32).astype(np.float64)))

    def layers(self, dtype: torch.dtype = torch.float32, padding: float = np.nan) -> Iterator[LayerHeads]:
        size, tall, wide = len(self.each), max(map(len, self.queries)), max(map(len, self.keys))
        readable = torch.ones(tall, wide, dtype=torch.bool).tril() if self.causal else None
        for layer in range(3):
            outputs = torch.full((size, HEADS, tall, WIDTH), padding, dtype=dtype)
            weights = torch.full((size, HEADS, tall, wide), padding, dtype=dtype)
            for b, (own, maps) in enumerate(self.each):
                outputs[b, :, : own.shape[2]] = torch.from_numpy(own[layer])
                weights[b, :, : maps.shape[2], : maps.shape[3]] = torch.from_numpy(maps[layer])
            yield LayerHeads(self.stack, layer, "", outputs, weights, None, readable)


def windows_of(model: headscope.Model, texts: list[str]) -> list[Window]:
    cut = [corpus_windows(text, model.tokenizer, model.template, length=LENGTH)[0] for text in texts]
    return sorted(cut, key=len)


def shapes(*stacks: str, relations: tuple[str, ...] = ()) -> dict[str, Shape]:
    return {stack: Shape(LAYERS, HEADS, LENGTH, relations, cross=stack == "cross") for stack in stacks}


def expected(model: headscope.Model, heads: Heads, choices: dict[str, Any]) -> naive_corpus.Corpus:
    """The naive implementation over the same windows and numbers."""
    chosen = {key: choices[key] for key in ("similarity", "scale") if key in choices}
    corpus = naive_corpus.Corpus(
        list(LAYERS), HEADS, LENGTH, choices.get("tau", 0.5), choices.get("theta", 0.3), chosen
    )
    by_text = {text: (q, k, each) for q, k, each in zip(heads.queries, heads.keys, heads.each, strict=True)
               for text in q.texts}  # fmt: skip
    for text, (_, _, (outputs, weights)) in by_text.items():
        read = naive_corpus.Window(
            model, text, LENGTH, False, choices.get("special", False), choices.get("repeated") == "word"
        )
        said = read.shifted(START) if heads.batch.decoder is not None else read
        queries, keys = (read, read) if heads.stack == "encoder" else (said, read if heads.stack == "cross" else said)
        corpus.add(queries, keys, outputs, weights, causal=heads.causal, cross=heads.stack == "cross")
    return corpus


def assert_equal(sums: dict[str, np.ndarray], naive: naive_corpus.Corpus, cross: bool) -> None:
    for name, theirs in naive.sums.items():
        if cross and variables.variable(name).needs_map:
            assert name not in sums
            continue
        mine = sums[name]
        assert mine.dtype == variables.variable(name).dtype, name
        if mine.dtype.kind == "i":
            np.testing.assert_array_equal(mine, theirs, err_msg=name)
        else:
            np.testing.assert_allclose(mine, theirs, rtol=1e-9, atol=1e-9, err_msg=name)
    entries = {(LAYERS[k], h, t): n for k, h, t, n in sums["focal_tokens"].tolist()}
    assert entries == dict(naive.focal_tokens)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("size", [1, 3, len(TEXTS)])
def test_sums_equal_the_naive_ones(
    case: str, size: int, make: Callable[..., Accumulator], embedded: headscope.Model
) -> None:
    windows = windows_of(embedded, TEXTS)
    whole = Heads(WindowBatch(tuple(windows)), "encoder", seed=3)
    accumulator = make(shapes("encoder"), Choices(window=LENGTH, **CASES[case]))
    for begin in range(0, len(windows), size):
        batch = WindowBatch(tuple(windows[begin : begin + size]))
        part = Heads(batch, "encoder", seed=0)
        part.each = whole.each[begin : begin + size]
        sink = accumulator.begin(batch, begin)
        for layer in part.layers():
            sink.layer(layer)
    accumulator.close()
    if case not in NAIVE:  # it is slow, and the same for every size
        NAIVE[case] = expected(embedded, whole, CASES[case])
    assert_equal(accumulator.sums()["encoder"], NAIVE[case], cross=False)


@pytest.mark.parametrize("stack", ["encoder", "decoder", "cross"])
def test_every_stack_of_an_encoder_decoder(
    stack: str, make: Callable[..., Accumulator], embedded: headscope.Model
) -> None:
    batch = batch_windows(windows_of(embedded, TEXTS), START, embedded.tokenizer)
    accumulator = make(shapes("encoder", "decoder", "cross"), Choices(window=LENGTH))
    sink = accumulator.begin(batch)
    own = None
    for place, name in enumerate(("encoder", "decoder", "cross")):
        heads = Heads(batch, name, seed=place, causal=name == "decoder")
        own = heads if name == stack else own
        for layer in heads.layers():
            sink.layer(layer)
    assert own is not None
    assert_equal(accumulator.sums()[stack], expected(embedded, own, {}), cross=stack == "cross")


def test_neither_threads_nor_batches_at_once_change_a_byte(
    make: Callable[..., Accumulator], embedded: headscope.Model
) -> None:
    windows = windows_of(embedded, TEXTS)
    halves = [WindowBatch(tuple(windows[:5])), WindowBatch(tuple(windows[5:]))]
    heads = [Heads(batch, "encoder", seed=k) for k, batch in enumerate(halves)]
    one, other = (make(shapes("encoder"), Choices(window=LENGTH), threads=n, rows=8) for n in (1, 3))
    for begin, batch, own in zip((0, 5), halves, heads, strict=True):
        sink = one.begin(batch, begin)
        for layer in own.layers():
            sink.layer(layer)
    sinks = [other.begin(batch, begin) for begin, batch in zip((0, 5), halves, strict=True)]
    for layers in zip(*(own.layers() for own in heads), strict=True):  # both on their way at once
        for sink, layer in zip(sinks, layers, strict=True):
            sink.layer(layer)
    for name, values in one.sums()["encoder"].items():
        assert values.tobytes() == other.sums()["encoder"][name].tobytes(), name
    for name, values in one.rows["encoder"].values.items():
        assert values.tobytes() == other.rows["encoder"].values[name].tobytes(), name
    one.close()
    other.close()


def test_padding_and_precision_do_not_matter(make: Callable[..., Accumulator], embedded: headscope.Model) -> None:
    batch = WindowBatch(tuple(windows_of(embedded, TEXTS)))
    heads, found = Heads(batch, "encoder", seed=1), []
    for dtype, padding in ((torch.float32, np.nan), (torch.float32, 1e30), (torch.float64, 0.0)):
        accumulator = make(shapes("encoder"), Choices(window=LENGTH))
        sink = accumulator.begin(batch)
        for layer in heads.layers(dtype, padding):
            sink.layer(layer)
        found.append(accumulator.sums()["encoder"])
    for name, values in found[0].items():
        for other in found[1:]:
            assert values.tobytes() == other[name].tobytes(), name


def test_numbers_that_are_not_finite_are_an_error(make: Callable[..., Accumulator], embedded: headscope.Model) -> None:
    batch = WindowBatch(tuple(windows_of(embedded, TEXTS)))
    for what in ("outputs", "weights"):
        sink = make(shapes("encoder"), Choices(window=LENGTH)).begin(batch)
        layer = next(Heads(batch, "encoder", seed=1).layers())
        getattr(layer, what)[-1, 1, 2, 1] = torch.inf
        with pytest.raises(HeadscopeError, match="encoder layer 0"):
            sink.layer(layer)


def test_own_relations_are_counted_beside_the_others(
    make: Callable[..., Accumulator], embedded: headscope.Model
) -> None:
    batch = WindowBatch(tuple(windows_of(embedded, TEXTS)))
    own = {"all": lambda window: [1] * len(window), "none": lambda window: [None] * len(window)}
    accumulator = make(shapes("encoder", relations=tuple(own)), Choices(window=LENGTH), relations=own)
    sink = accumulator.begin(batch)
    for layer in Heads(batch, "encoder", seed=1).layers():
        sink.layer(layer)
    sums = accumulator.sums()["encoder"]
    np.testing.assert_array_equal(sums["pairs_all"], sums["pairs"])
    assert not sums["pairs_none"].any()


def test_a_variable_declared_elsewhere_is_filled(make: Callable[..., Accumulator], embedded: headscope.Model) -> None:
    def longest(batch: LayerBatch, sums: np.ndarray) -> None:
        sums += batch.norms.max(-1).sum(0)

    def by_reading(batch: LayerBatch, sums: np.ndarray) -> None:
        sums[0] += len(batch.queries.lengths)

    variables.declare(Variable("longest", ("layer", "head"), "largest |O_i|²", kind="sum", fill=longest))
    variables.declare(Variable("read", ("reading", "layer", "head"), "windows, by reading", fill=by_reading))
    try:
        batch = WindowBatch(tuple(windows_of(embedded, TEXTS)))
        heads = Heads(batch, "encoder", seed=1)
        accumulator = make(shapes("encoder"), Choices(window=LENGTH))
        sink = accumulator.begin(batch)
        for layer in heads.layers():
            sink.layer(layer)
        sums = accumulator.sums()["encoder"]
        expected = sum((own[list(LAYERS)] ** 2).sum(-1).max(-1) for own, _ in heads.each)
        np.testing.assert_allclose(sums["longest"], expected)
        np.testing.assert_array_equal(sums["read"], np.full((1, len(LAYERS), HEADS), len(TEXTS)))
    finally:
        variables.withdraw("longest")
        variables.withdraw("read")
