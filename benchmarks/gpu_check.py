"""The graphics card's accumulator: is it right?

    python benchmarks/gpu_check.py [all | slabs | tiles]

Its sums are compared with the CPU's on made-up heads whose products are exact, so that every count must be equal; and
those of pairs in tiles, and of long windows slab by slab, with those of whole maps.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from dataclasses import replace

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import numpy as np
import torch
import transformers
from gpu import DEVICE, bert

import headscope
from headscope.choices import Choices
from headscope.measures.compiled_accumulator import CompiledAccumulator
from headscope.measures.cuda.accumulator import CudaAccumulator
from headscope.measures.variables import Shape
from headscope.models.plain import plain_attention, products
from headscope.tap import LayerHeads, Scores
from headscope.windows import WindowBatch, corpus_windows


def layers(
    batch: WindowBatch, heads: int, groups: int, width: int, number: int, causal: bool, seed: int
) -> Iterator[LayerHeads]:
    """Made-up layers whose products are exact: small whole numbers, attention in steps of 2⁻²² by squares."""
    rng = np.random.default_rng(seed)
    size, tall = len(batch.windows), max(map(len, batch.windows))
    may = np.tri(tall, dtype=bool) if causal else np.ones((tall, tall), dtype=bool)
    for layer in range(number):
        outputs = rng.integers(-3, 4, size=(size, heads, tall, width)).astype(np.float32)
        scores = np.where(may, np.exp(2 * rng.normal(size=(size, heads, tall, tall))), 0.0)
        for b, window in enumerate(batch.windows):
            scores[b, :, :, len(window) :] = 0
        weights = scores / scores.sum(-1, keepdims=True)
        weights = ((np.round(np.sqrt(weights) * 2**11) / 2**11) ** 2).astype(np.float32)
        values = rng.integers(-2, 3, size=(size, groups, tall, width)).astype(np.float32)
        readable = torch.from_numpy(may) if causal else None
        yield LayerHeads("encoder", layer, "", *map(torch.from_numpy, (outputs, weights, values)), readable)


def moved(heads: LayerHeads) -> LayerHeads:
    assert heads.weights is not None
    assert heads.values is not None
    readable = None if heads.readable is None else heads.readable.to(DEVICE)
    return LayerHeads(heads.stack, heads.layer, "", heads.outputs.to(DEVICE), heads.weights.to(DEVICE),
                      heads.values.to(DEVICE), readable)  # fmt: skip


def check(which: str) -> None:
    model = bert(transformers.BertConfig(hidden_size=32, num_hidden_layers=1, num_attention_heads=2), "cpu", "float32")
    texts = [p["text"] for p in headscope.passages()]
    every = ("dot", "cosine", "centred", "values")
    cases = [
        ("usual", 128, {}, 12, 12, 64, False), ("causal", 128, {}, 8, 2, 16, True),
        ("every reading", 96, {"readings": every}, 6, 3, 32, False),
        ("special", 64, {"special": True, "tau": 0.7}, 4, 4, 16, False),
        ("short", 5, {}, 4, 4, 16, False), ("two tokens", 4, {}, 3, 3, 16, True), ("long", 512, {}, 2, 2, 64, False),
        ("longer", 1000, {}, 2, 1, 64, True), ("wide heads", 128, {"readings": ("dot",)}, 4, 4, 256, False),
    ]  # fmt: skip
    own = {"first letter": lambda window: [text[:1] or None for text in window.tokens]}
    for name, length, chosen, heads, groups, width, causal in cases if which == "all" else ():
        choices = Choices(window=length, **chosen)
        whole = [f"{texts[k]} {texts[k + 9]} " * (1 + length // 128) for k in range(10)] + ["One.", "Two words here."]
        cut = [corpus_windows(text, model.tokenizer, model.template, length=length)[0] for text in whole]
        windows = sorted(cut, key=len)
        shape = {"encoder": Shape((0, 1), heads, length, ("first_letter",), readings=choices.readings)}
        relations = {"first_letter": own["first letter"]}
        one = CompiledAccumulator(shape, choices, relations=relations)
        other = CudaAccumulator(shape, choices, relations=relations)
        for begin in (0, 5):
            batch = WindowBatch(tuple(windows[begin : begin + 7 - begin // 2]))
            for accumulator in (one, other):
                sink = accumulator.begin(batch)
                for layer in layers(batch, heads, groups, width, 2, causal, begin):
                    sink.layer(layer if accumulator is one else moved(layer))
                sink.finish()
        print(f"{name:14s} {compared(other.sums()['encoder'], one.sums()['encoder'])}")
    if which != "slabs":
        check_tiles(model, texts)
    if which != "tiles":
        check_slabs(model, texts)


def compared(mine: dict[str, np.ndarray], theirs: dict[str, np.ndarray], near: float = 1e-6) -> str:
    """What differs, or how near the sums are where nothing does."""
    wrong, far = [], 0.0
    for variable, expected in theirs.items():
        if expected.dtype.kind == "i":
            if not np.array_equal(mine[variable], expected):
                wrong.append(f"{variable} ({np.sum(mine[variable] != expected)} of {expected.size})")
            continue
        away = np.abs(mine[variable] - expected) / np.maximum(np.abs(expected), 1)
        if np.nanmax(away) > near or not np.array_equal(np.isnan(mine[variable]), np.isnan(expected)):
            wrong.append(f"{variable} by {np.nanmax(away):.1e}")
        far = max(far, float(np.nanmax(away)))
    return f"WRONG: {', '.join(wrong)}" if wrong else f"counts equal, sums within {far:.0e}"


def check_tiles(model: headscope.Model, texts: list[str]) -> None:
    """Windows whose attention is computed from 16-bit queries and keys, pairs in tiles, against kernels of whole maps.

    What S says must be equal, as its products are exact; the map is rounded otherwise, so that its bins may differ.
    """
    cases = [
        ("tiles", 64, torch.bfloat16, False, {}), ("tiles, causal", 64, torch.bfloat16, True, {}),
        ("tiles, narrow", 24, torch.float16, False, {"readings": ("dot",)}),
        ("tiles, wide", 136, torch.bfloat16, False, {"readings": ("cosine", "dot"), "tau": 0.7}),
    ]  # fmt: skip
    for name, width, dtype, causal, chosen in cases:
        choices = Choices(window=128, **chosen)
        whole = [f"{texts[k % 64]} {texts[(k + 9) % 64]}" for k in range(150)] + [texts[3][:90], "Two words here."]
        cut = [corpus_windows(text, model.tokenizer, model.template, length=128)[0] for text in whole]
        batch, heads, groups = WindowBatch(tuple(sorted(cut, key=len))), 6, 3
        lengths = torch.tensor([len(window) for window in batch.windows])
        size, tokens = len(lengths), int(lengths.max())
        own = torch.Generator().manual_seed(width)
        outputs, values = (
            torch.randint(-3, 4, (size, n, tokens, width), generator=own).to(dtype) for n in (heads, groups)
        )
        queries, keys = (torch.randn(size, n, tokens, width, generator=own).to(dtype) for n in (heads, groups))
        readable = (torch.arange(tokens) < lengths[:, None])[:, None, None].expand(-1, 1, tokens, -1)
        readable = readable & torch.ones(tokens, tokens, dtype=torch.bool).tril() if causal else readable
        layer = LayerHeads("encoder", 0, "", outputs, None, values, readable, Scores(queries, keys, width**-0.5))
        sums = computed_and_given(layer, batch, choices)
        of_map = ("attention", "attended", "mask", "contrast", "wins")
        mine, theirs = ({k: v for k, v in each.items() if not k.startswith(of_map)} for each in sums)
        far = {k: np.abs(sums[0][k] - v).sum() / max(np.abs(v).sum(), 1) for k, v in sums[1].items() if k not in theirs}
        print(
            f"{name:14s} {compared(mine, theirs)}; of the map within {max(far.values()):.0e} ({max(far, key=far.get)})"
        )


def check_slabs(model: headscope.Model, texts: list[str]) -> None:
    """Long windows whose attention is computed from queries and keys, slab by slab, against the kernels of whole maps.

    The map is rounded otherwise there, so that its bins (wins and correlations of maps) may differ a little.
    """
    for name, length, causal, readings in (
        ("slabs", 2000, False, ("dot", "cosine")), ("slabs, causal", 1500, True, ("dot", "cosine")),
        ("slabs, every", 700, True, ("cosine", "centred", "values", "dot")),
    ):  # fmt: skip
        choices = Choices(window=length, readings=readings)
        whole = [" ".join(texts[k:] * 2) for k in (0, 7)] + [texts[3], "Two words here."]
        cut = [corpus_windows(text, model.tokenizer, model.template, length=length)[0] for text in whole]
        batch, heads, groups, width = WindowBatch(tuple(sorted(cut, key=len))), 4, 2, 64
        size, tokens = len(batch.windows), max(map(len, batch.windows))
        own = torch.Generator().manual_seed(length)
        outputs = torch.randint(-3, 4, (size, heads, tokens, width), generator=own).float()
        values = torch.randint(-2, 3, (size, groups, tokens, width), generator=own).float()
        queries = torch.randn(size, heads, tokens, width, generator=own).bfloat16()
        keys = torch.randn(size, groups, tokens, width, generator=own).bfloat16()
        lengths = torch.tensor([len(window) for window in batch.windows])
        readable = (torch.arange(tokens) < lengths[:, None])[:, None, None].expand(-1, 1, tokens, -1)
        readable = readable & torch.ones(tokens, tokens, dtype=torch.bool).tril() if causal else readable
        layer = LayerHeads("encoder", 0, "", outputs, None, values, readable, Scores(queries, keys, width**-0.5))
        print(f"{name:14s} {compared(*computed_and_given(layer, batch, choices), near=1e-4)}")


def computed_and_given(layer: LayerHeads, batch: WindowBatch, choices: Choices) -> list[dict[str, np.ndarray]]:
    """The sums of a layer whose attention the kernels compute, and of the same with its attention given."""
    weights = plain_attention(products(layer), layer.readable)
    shape = {"encoder": Shape((0,), layer.outputs.shape[1], choices.window, (), readings=choices.readings)}
    sums = []
    for each in (on_card(layer), replace(on_card(layer), weights=weights.to(DEVICE), scores=None)):
        accumulator = CudaAccumulator(shape, choices)
        sink = accumulator.begin(batch)
        sink.layer(each)
        sink.finish()
        sums.append(accumulator.sums()["encoder"])
    return sums


def on_card(layer: LayerHeads) -> LayerHeads:
    """A layer with what its attention is computed from."""
    assert layer.scores is not None
    assert layer.values is not None
    assert layer.readable is not None
    scores = Scores(layer.scores.queries.to(DEVICE), layer.scores.keys.to(DEVICE), layer.scores.scaling)
    return replace(
        layer, outputs=layer.outputs.to(DEVICE), values=layer.values.to(DEVICE), readable=layer.readable.to(DEVICE),
        scores=scores,
    )  # fmt: skip


if __name__ == "__main__":
    check(sys.argv[1] if len(sys.argv) > 1 else "all")
