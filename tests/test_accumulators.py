"""What every accumulator must do, whatever it computes with: one suite, run over all implementations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch

import headscope
import naive_corpus
from cuda_on_cpu import cpu_kernels
from headscope.choices import Choices, step_of
from headscope.errors import HeadscopeError
from headscope.measures import variables
from headscope.measures.accumulator import Accumulator, LayerBatch
from headscope.measures.columns import COLUMNS
from headscope.measures.compiled_accumulator import CompiledAccumulator
from headscope.measures.cuda.accumulator import CudaAccumulator
from headscope.measures.relations import RELATIONS
from headscope.measures.torch_accumulator import TorchAccumulator
from headscope.measures.variables import Shape, Variable
from headscope.windows import Window, WindowBatch, batch_windows
from headscope.windows import window as text_window
from headscope.windows.window import END
from long import first_of
from made_up_layers import (
    HEADS,
    LAYERS,
    LENGTH,
    MASKS,
    Heads,
    assert_equal,
    cut_to,
    expected,
    feed,
    naive_row,
    shapes,
    windows_of,
)
from test_corpus_numbers import TEXTS

ACCUMULATORS: dict[str, Callable[..., Accumulator]] = {
    "compiled": CompiledAccumulator,
    "torch": TorchAccumulator,
    "cuda": partial(CudaAccumulator, kernels=cpu_kernels),
}
START = 7  # a decoder's first token
CASES: dict[str, dict[str, Any]] = {
    "plain": {},
    "special": {"special": True, "theta": 0.6, "tau": 0.7},
    "rank": {"scale": "rank"},
    "word": {"repeated": "word", "readings": ("dot",)},
    "every-reading": {"readings": ("cosine", "centred", "values", "dot")},
    "centred-rank": {"readings": ("centred", "values"), "scale": "rank"},
    "values": {"readings": ("values",), "tau": 0.85},
}
NAIVE: dict[str, naive_corpus.Corpus] = {}
# A card's kernels are slow where there is no card: these tests have them in the long tests alone.
cuda_when_long = pytest.mark.parametrize(
    "make", ["compiled", "torch", pytest.param("cuda", marks=pytest.mark.long)], indirect=True
)


@pytest.fixture(params=ACCUMULATORS)
def make(request: pytest.FixtureRequest) -> Callable[..., Accumulator]:
    return ACCUMULATORS[request.param]


SIZES = (3, len(TEXTS), 1)  # windows of a batch
MADE_AND_SIZES = [
    *(each for name in ("compiled", "torch") for each in first_of([(name, size) for size in SIZES], 2)),
    *first_of([("cuda", size) for size in SIZES]),
]


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize(("make", "size"), MADE_AND_SIZES, indirect=["make"])
def test_sums_equal_the_naive_ones(
    case: str, size: int, make: Callable[..., Accumulator], embedded: headscope.Model
) -> None:
    choices = CASES[case]
    windows = windows_of(embedded, TEXTS)
    whole = Heads(WindowBatch(tuple(windows)), "encoder", seed=3, special=choices.get("special", False))
    shape = shapes("encoder", **choices)
    if make is ACCUMULATORS["cuda"] and choices.get("scale") == "rank":  # another one takes its place there
        with pytest.raises(HeadscopeError, match="rank"):
            make(shape, Choices(window=LENGTH, **choices))
        return
    accumulator = make(shape, Choices(window=LENGTH, **choices))
    for begin in range(0, len(windows), size):
        batch = WindowBatch(tuple(windows[begin : begin + size]))
        part = Heads(batch, "encoder", seed=0)
        part.each = whole.each[begin : begin + size]
        feed(accumulator, batch, part, first=begin)
    accumulator.close()
    if case not in NAIVE:  # it is slow, and the same for every size
        NAIVE[case] = expected(whole, choices, shape["encoder"])
    assert_equal(accumulator.sums()["encoder"], NAIVE[case], shape["encoder"])


@cuda_when_long
@pytest.mark.parametrize("mask", [*MASKS][1:])
def test_what_may_be_read_in_other_masks(
    mask: str, make: Callable[..., Accumulator], embedded: headscope.Model
) -> None:
    what_may_be_read(mask, make, embedded)


def test_what_may_be_read(make: Callable[..., Accumulator], embedded: headscope.Model) -> None:
    what_may_be_read("causal", make, embedded)


def what_may_be_read(mask: str, make: Callable[..., Accumulator], embedded: headscope.Model) -> None:
    batch = WindowBatch(tuple(windows_of(embedded, TEXTS)))
    heads, shape = Heads(batch, "decoder", seed=5, mask=mask), shapes("decoder")
    accumulator = make(shape, Choices(window=LENGTH))
    feed(accumulator, batch, heads)
    assert_equal(accumulator.sums()["decoder"], expected(heads, {}, shape["decoder"]), shape["decoder"])


@pytest.mark.parametrize(
    "readings", [("cosine", "values", "centred"), pytest.param(("dot", "cosine"), marks=pytest.mark.long)]
)
@cuda_when_long
def test_every_stack_of_an_encoder_decoder(
    readings: tuple[str, ...], make: Callable[..., Accumulator], embedded: headscope.Model
) -> None:
    batch = batch_windows(windows_of(embedded, TEXTS), START, embedded.tokenizer)
    shape = shapes("encoder", "decoder", "cross", readings=readings)
    accumulator = make(shape, Choices(window=LENGTH, readings=readings))
    every = {
        name: Heads(batch, name, seed=place, mask="causal" if name == "decoder" else None)
        for place, name in enumerate(shape)
    }
    feed(accumulator, batch, *every.values())
    sums = accumulator.sums()
    for stack, heads in every.items():
        assert_equal(sums[stack], expected(heads, {"readings": readings}, shape[stack]), shape[stack])


def test_pairs_of_texts_have_special_tokens_in_between(
    make: Callable[..., Accumulator], embedded: headscope.Model
) -> None:
    cut = [text_window(one, two, embedded.tokenizer, embedded.template, length=LENGTH) for one, two in pairwise(TEXTS)]
    counting = cut[0].counting(False)
    assert np.diff(np.flatnonzero(counting)).max() > 1
    batch = WindowBatch(tuple(cut))
    heads, shape = Heads(batch, "encoder", seed=6), shapes("encoder")
    accumulator = make(shape, Choices(window=LENGTH))
    feed(accumulator, batch, heads)
    assert_equal(accumulator.sums()["encoder"], expected(heads, {}, shape["encoder"]), shape["encoder"])


def test_long_windows(make: Callable[..., Accumulator], embedded: headscope.Model) -> None:
    """Past 512 tokens: pairs by band, one map, no sum of matrices. Few tokens count, so that it is quick."""
    length, sides = 520, 2
    cut = text_window(" ".join(TEXTS * 12), None, embedded.tokenizer, embedded.template, length=length)
    far = np.arange(len(cut)) % 11 > 0
    thin = replace(cut, category=np.where(far, END, cut.category), sentence=np.where(far, -1, cut.sentence))
    assert len(cut) == length
    batch = WindowBatch((cut_to(thin, 300), thin))
    shape = {"encoder": Shape((0,), sides, length)}
    heads = Heads(batch, "encoder", seed=8, heads=sides, layers=1)
    accumulator = make(shape, Choices(window=length))
    feed(accumulator, batch, heads)
    sums = accumulator.sums()["encoder"]
    assert sums["pairs"].shape[-2] == len(variables.coordinates(shape["encoder"])["band"])
    assert sums["top_few"].max() == 0
    assert_equal(sums, expected(heads, {}, shape["encoder"]), shape["encoder"])


def test_rows_hold_what_each_head_did_with_each_window(
    make: Callable[..., Accumulator], embedded: headscope.Model
) -> None:
    windows = windows_of(embedded, TEXTS)
    choices = Choices(window=LENGTH, tau=0.3)
    accumulator = make(shapes("encoder"), choices, rows=len(windows))
    halves = [WindowBatch(tuple(windows[:3])), WindowBatch(tuple(windows[3:]))]
    every = [Heads(batch, "encoder", seed=k) for k, batch in enumerate(halves)]
    for first, batch, heads in zip((0, 3), halves, every, strict=True):
        feed(accumulator, batch, heads, first=first)
    rows = accumulator.rows["encoder"]
    assert set(rows.values) == set(COLUMNS)
    seen = dict.fromkeys(COLUMNS, 0)
    for number, window in enumerate(windows):
        heads = every[number >= 3]
        one = Heads(WindowBatch((window,)), "encoder", seed=0)
        one.each = [heads.each[number - 3 * (number >= 3)]]
        naive = expected(one, {"tau": choices.tau}, shapes("encoder")["encoder"])
        for name, theirs in naive_row(naive, choices).items():
            np.testing.assert_allclose(rows.values[name][number], theirs, rtol=1e-6, err_msg=name)
            seen[name] += int(np.isfinite(theirs).sum())
        focal = {(k, h): rows.focal[number, k, h] for k in range(len(LAYERS)) for h in range(HEADS)}
        assert {(LAYERS[k], h, t) for (k, h), t in focal.items() if t >= 0} == set(naive.focal_tokens)
        null = rows.focal_null[number]
        np.testing.assert_array_equal(null >= 0, rows.focal[number] >= 0)
        assert set(null[null >= 0].tolist()) <= set(window.ids[window.counting(False)].tolist())
        for k in range(len(LAYERS)):
            different = len({t for t in null[k].tolist() if t >= 0})
            assert naive.sums["focal_null"][k, step_of(choices.tau), different] == (not naive.sums["pairless"])
    assert min(seen.values()) > 0


@cuda_when_long
def test_neither_threads_nor_batches_at_once_change_a_byte(
    make: Callable[..., Accumulator], embedded: headscope.Model
) -> None:
    windows = windows_of(embedded, TEXTS)
    halves = [WindowBatch(tuple(windows[:5])), WindowBatch(tuple(windows[5:]))]
    heads = [Heads(batch, "encoder", seed=k) for k, batch in enumerate(halves)]
    one, other = (make(shapes("encoder"), Choices(window=LENGTH), threads=n, rows=8) for n in (1, 3))
    for begin, batch, own in zip((0, 5), halves, heads, strict=True):
        feed(one, batch, own, first=begin)
    sinks = [other.begin(batch, begin) for begin, batch in zip((0, 5), halves, strict=True)]
    for layers in zip(*(own.layers() for own in heads), strict=True):  # both on their way at once
        for sink, layer in zip(sinks, layers, strict=True):
            sink.layer(layer)
    for sink in sinks:
        sink.finish()
    for name, values in one.sums()["encoder"].items():
        assert values.tobytes() == other.sums()["encoder"][name].tobytes(), name
    for name, values in one.rows["encoder"].values.items():
        assert values.tobytes() == other.rows["encoder"].values[name].tobytes(), name
    one.close()
    other.close()


@cuda_when_long
def test_padding_and_precision_do_not_matter(make: Callable[..., Accumulator], embedded: headscope.Model) -> None:
    batch = WindowBatch(tuple(windows_of(embedded, TEXTS)))
    heads, found = Heads(batch, "encoder", seed=1), []
    readings = ("dot", "centred", "values")
    for dtype, padding in ((torch.float32, np.nan), (torch.float32, 1e30), (torch.float64, 0.0)):
        accumulator = make(shapes("encoder", readings=readings), Choices(window=LENGTH, readings=readings))
        sink = accumulator.begin(batch)
        for layer in heads.layers(dtype, padding):
            sink.layer(layer)
        sink.finish()
        found.append(accumulator.sums()["encoder"])
    for name, values in found[0].items():
        for other in found[1:]:
            assert values.tobytes() == other[name].tobytes(), name


def test_torch_computes_where_the_tensors_are(embedded: headscope.Model) -> None:
    """What a layer makes without saying where is made on another device, and cannot be mixed with the layer's own."""
    batch = WindowBatch(tuple(windows_of(embedded, TEXTS)))
    readings = ("dot", "cosine", "centred", "values")
    choices = Choices(window=LENGTH, readings=readings, scale="rank")
    own = {"all": lambda window: [1] * len(window)}
    accumulator = TorchAccumulator(
        shapes("decoder", readings=readings, relations=tuple(own)), choices, relations=own, rows=len(TEXTS)
    )
    sink = accumulator.begin(batch)
    layers = list(Heads(batch, "decoder", seed=1, mask="causal").layers())
    with torch.device("meta"):
        for layer in layers:
            sink.layer(layer)
    sink.finish()
    assert accumulator.sums()["decoder"]["pairs"].any()


@pytest.mark.parametrize("what", ["outputs", "weights", "values"])
def test_numbers_that_are_not_finite_are_an_error(
    what: str, make: Callable[..., Accumulator], embedded: headscope.Model
) -> None:
    batch = WindowBatch(tuple(windows_of(embedded, TEXTS)))
    accumulator = make(shapes("encoder"), Choices(window=LENGTH))
    sink = accumulator.begin(batch)
    layer = next(Heads(batch, "encoder", seed=1).layers())
    getattr(layer, what)[-1, 1, 2, 1] = torch.inf

    def whole() -> None:
        sink.layer(layer)
        accumulator.sums()  # at the latest

    with pytest.raises(HeadscopeError, match="encoder layer 0"):
        whole()


def test_without_values_nothing_is_said_of_them(make: Callable[..., Accumulator], embedded: headscope.Model) -> None:
    batch = WindowBatch(tuple(windows_of(embedded, TEXTS)))
    layer = replace(next(Heads(batch, "encoder", seed=1).layers()), values=None)
    accumulator = make(shapes("encoder"), Choices(window=LENGTH))
    sink = accumulator.begin(batch)
    sink.layer(layer)
    sink.finish()
    sums = accumulator.sums()["encoder"]
    assert np.isnan(sums["attention_weighted"][0]).all()
    assert np.isfinite(sums["attention"]).all()
    readings = ("dot", "values")
    sink = make(shapes("encoder", readings=readings), Choices(window=LENGTH, readings=readings)).begin(batch)
    with pytest.raises(HeadscopeError, match="values"):
        sink.layer(layer)


@pytest.mark.parametrize("length", [LENGTH, 600])
def test_own_relations_are_counted_beside_the_others(
    length: int, make: Callable[..., Accumulator], embedded: headscope.Model
) -> None:
    batch = WindowBatch(tuple(windows_of(embedded, TEXTS)))
    own = {
        "all": lambda window: [1] * len(window),
        "none": lambda window: [None] * len(window),
        "sentence": lambda window: [int(s) if s >= 0 else None for s in window.sentence],
    }
    shape = replace(shapes("encoder", relations=tuple(own))["encoder"], length=length)
    accumulator = make({"encoder": shape}, Choices(window=LENGTH), relations=own)
    feed(accumulator, batch, Heads(batch, "encoder", seed=1))
    sums = accumulator.sums()["encoder"]
    np.testing.assert_array_equal(sums["pairs_all"], sums["pairs"])
    assert not sums["pairs_none"].any()
    within = [RELATIONS.index(name) for name in ("sentence", "both")]
    np.testing.assert_array_equal(sums["pairs_sentence"][..., within], sums["pairs"][..., within])
    assert not sums["pairs_sentence"][..., [RELATIONS.index(name) for name in ("repeated", "none")]].any()


@pytest.mark.parametrize(
    ("labels", "problem"),
    [
        (lambda window: 1 / 0, "failed: ZeroDivisionError"),
        (lambda window: [1], "gave 1 labels for a window of"),
        (lambda window: None, "gave NoneType"),
        (lambda window: [[]] * len(window), "cannot be compared"),
    ],
)
def test_a_relation_that_fails_says_so(
    labels: Callable[[Window], Sequence[Any]],
    problem: str,
    make: Callable[..., Accumulator],
    embedded: headscope.Model,
) -> None:
    accumulator = make(
        shapes("encoder", relations=("mine",)), Choices(window=LENGTH), relations={"mine": labels}
    )  # fmt: skip
    with pytest.raises(HeadscopeError, match=f"'mine' {problem}"):
        accumulator.begin(WindowBatch(tuple(windows_of(embedded, TEXTS))))


def test_a_variable_declared_elsewhere_is_filled(make: Callable[..., Accumulator], embedded: headscope.Model) -> None:
    def longest(batch: LayerBatch, sums: np.ndarray) -> None:
        sums += batch.norms.max(-1).sum(0)

    def by_reading(batch: LayerBatch, sums: np.ndarray) -> None:
        sums[0] += len(batch.queries.lengths)
        sums[1] += (batch.keys.counting & (batch.keys.category > END)).sum()

    readings = ("cosine", "dot")  # |O_i| is what it is, however S is read
    variables.declare(Variable("longest", ("layer", "head"), "largest |O_i|²", kind="sum", fill=longest))
    variables.declare(Variable("read", ("reading", "layer", "head"), "windows, tokens", fill=by_reading))
    try:
        batch = WindowBatch(tuple(windows_of(embedded, TEXTS)))
        heads = Heads(batch, "encoder", seed=1)
        accumulator = make(shapes("encoder", readings=readings), Choices(window=LENGTH, readings=readings))
        feed(accumulator, batch, heads)
        sums = accumulator.sums()["encoder"]
        largest = sum((own[list(LAYERS)] ** 2).sum(-1).max(-1) for own, *_ in heads.each)
        np.testing.assert_allclose(sums["longest"], largest)
        counting = sum(int(window.counting(False).sum()) for window in batch.windows)
        for place, number in enumerate((len(TEXTS), counting)):
            np.testing.assert_array_equal(sums["read"][place], np.full((len(LAYERS), HEADS), number))
    finally:
        variables.withdraw("longest")
        variables.withdraw("read")
