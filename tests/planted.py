"""Synthetic heads with known effects, counted by the real accumulators.

A pool of synthetic texts is made once, each counted by itself. Corpora are then drawn from the pool with replacement,
so what is true of the pool is exactly what a corpus is a sample of, and thousands of corpora cost next to nothing.
Every text has a strength of its own: effects vary from text to text, as they do in life.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

import headscope
from headscope.choices import Choices, first_high_bin
from headscope.measures.accumulator import LayerBatch
from headscope.measures.batch_index import BatchIndex, index_batch
from headscope.measures.block_sums import BlockSums
from headscope.measures.compiled_accumulator import StackSums
from headscope.measures.relations import BOTH, PUNCTUATION_PAIR, RELATIONS, REPEATED, SAME_SENTENCE, STOP_PAIR
from headscope.measures.variables import Shape
from headscope.tap import LayerHeads
from headscope.windows import CATEGORIES, corpus_windows
from headscope.windows.window import STOP

LENGTH, LAYERS, HEADS = 64, 3, 12
RATE = 0.1  # of the pairs are high where nothing is preferred
VARIES = 0.25  # standard deviation of the logarithm of an effect over texts
WORDS = (
    "the a of and to in was he it that his on with as for had at by not but from they she which this are be have one "
    "all their so river house stone light road winter market letter garden bridge captain window village morning "
    "morning silver copper harvest lantern orchard thunder meadow whisper journey kitchen feather shadow harbour"
).split()


@dataclass(frozen=True)
class Effects:
    """What the heads prefer. 1 is nothing for factors, 0 for the others; `layers` tells which third shows it."""

    sentence: float = 1.0  # factors on the chance of a pair to be high
    repetition: float = 1.0
    separator: float = 1.0
    avoid_punctuation: float = 1.0
    near: float = 0.0  # > 0: nearer pairs are likelier
    shorter: float = 0.0  # mean distance over base, early minus middle layers
    different: float = 0.0  # share of texts in which all heads have different focal tokens
    focal: bool = False  # every head gathers round a token drawn from the text
    specialised: float = 0.0  # spread of the heads' repetition preference and reach
    stop_focus: float = 1.0  # attention to stops and closing tokens over an even spread
    end_focus: float = 1.0
    contrast: float = 0.0  # level inside the mask minus outside
    likeness: bool = False  # similarity is attention over again


def texts(number: int, seed: int) -> list[str]:
    """Sentences of common words with a comma here and there."""
    rng = np.random.default_rng(seed)
    chance = 1 / np.arange(2, len(WORDS) + 2)
    chance /= chance.sum()
    found = []
    for _ in range(number):
        sentences: list[str] = []
        while sum(len(s.split()) for s in sentences) < 48:
            words = rng.choice(WORDS, size=rng.integers(5, 16), p=chance).tolist()
            if len(words) > 7 and rng.random() < 0.5:
                words[4] += ","
            sentences.append(" ".join(words).capitalize() + ".")
        found.append(" ".join(sentences))
    return found


def pool(model: headscope.Model, effects: Effects, number: int, seed: int) -> BlockSums:
    """So many synthetic texts with planted effects, each a block of its own."""
    rng = np.random.default_rng([seed, 1])
    shape = Shape(tuple(range(LAYERS)), HEADS, LENGTH)
    found: list[dict[str, np.ndarray]] = []
    roles = rng.normal(size=(2, LAYERS, HEADS))  # the same heads in all texts
    for text in texts(number, seed):
        window = corpus_windows(
            text, model.tokenizer, model.template, length=LENGTH, choice="first", seed=0, causal=False, language="en"
        )[0]
        seen = index_batch([window], HEADS, repeated="token", special=False, relations={})
        stack = StackSums(shape, Choices())
        stack.add_windows(seen, seen)
        varies = np.exp(rng.normal(-(VARIES**2) / 2, VARIES))
        for layer in range(LAYERS):
            weights = _attention(seen, effects, rng, varies)
            products = _similarity(seen, effects, weights, layer, roles[:, layer], rng, varies)
            even = np.ones((1, len(window)))
            heads = LayerHeads("encoder", layer, "", torch.empty(0))
            read = LayerBatch(heads, products, weights, even, seen, seen)
            stack.add_layer(layer, read, lambda number, work: work(0, number))
        sums = stack.variables()
        del sums["focal_tokens"], sums["similarity_sum"], sums["position_pairs"]
        found.append(sums)
    stacked = {name: np.stack([sums[name] for sums in found]) for name in found[0]}
    heads = stacked.pop("pairs")  # (S, L, H, level, distance, relation)

    def layer_at(k: int, taus: Sequence[float]) -> list[np.ndarray]:
        return [heads[:, k, :, first_high_bin(tau) :].sum(2).astype(np.float64) for tau in taus]

    return BlockSums(
        layers=tuple(range(LAYERS)),
        depth=LAYERS,
        heads=HEADS,
        groups=("",) * number,
        shards_of=tuple((k,) for k in range(number)),
        pairs=heads.sum(2),
        stored={name: values.astype(np.float64) for name, values in stacked.items()},
        layer_at=layer_at,
    )


def corpora(counts: BlockSums, size: int, number: int, seed: int, shards: int = 32) -> list[BlockSums]:
    """Corpora of so many texts drawn from a pool, dealt into shards."""
    rng = np.random.default_rng([seed, size])
    found = []
    for _ in range(number):
        weights = np.zeros((shards, counts.blocks))
        for place, text in enumerate(rng.integers(counts.blocks, size=size)):
            weights[place * shards // size, text] += 1
        found.append(combined(counts, weights))
    return found


def combined(counts: BlockSums, weights: np.ndarray) -> BlockSums:
    """New blocks, each a weighted sum of the old ones: (new, old) weights."""

    def summed(values: np.ndarray) -> np.ndarray:
        return (weights @ values.reshape(len(values), -1)).reshape(-1, *values.shape[1:])

    return replace(
        counts,
        groups=("",) * len(weights),
        shards_of=(),
        pairs=np.rint(summed(counts.pairs.astype(np.float64))).astype(np.int64),
        stored={name: summed(values) for name, values in counts.stored.items()},
        layer_at=lambda k, taus: [summed(each) for each in counts.layer_at(k, taus)],
        high_pairs={},
        scores={},
    )


def _attention(seen: BatchIndex, effects: Effects, rng: np.random.Generator, varies: float) -> np.ndarray:
    """(1, H, T, T): an even spread with noise, and as much to stops and closing tokens as planted."""
    category = seen.category[0]
    size = len(category)
    weights = rng.gamma(4.0, size=(HEADS, size, size))
    high = rng.random((HEADS, size)) < 0.15  # tokens that attention singles out, drawn anew for each head
    weights *= np.where(high, 6.0, 1.0)[:, None]
    wanted = {STOP: effects.stop_focus, CATEGORIES.index("end"): effects.end_focus}
    share = weights / weights.sum(-1, keepdims=True)
    fixed = np.zeros(size, dtype=bool)
    for kind, focus in wanted.items():
        own = category == kind
        if not own.any():
            continue
        fixed |= own
        target = own.sum() / size * (1.0 if focus == 1 else 1 + (focus - 1) * varies)
        now = share[..., own].sum(-1, keepdims=True)
        share[..., own] *= min(target, 0.9) / now
    rest = 1 - share[..., fixed].sum(-1, keepdims=True)
    share[..., ~fixed] *= rest / share[..., ~fixed].sum(-1, keepdims=True)
    return share[None].astype(np.float32)


def _similarity(
    seen: BatchIndex,
    effects: Effects,
    weights: np.ndarray,
    layer: int,
    roles: np.ndarray,
    rng: np.random.Generator,
    varies: float,
) -> np.ndarray:
    """(1, H, T, T): each pair is high by a chance of its own."""
    size, begin, n = seen.category.shape[1], int(seen.begins[0]), int(seen.sizes[0])
    i, j = np.triu_indices(n, 1)
    distance, relation = (j - i).astype(float), seen.cells[0, : len(i)] % len(RELATIONS)
    chance = np.full((HEADS, len(i)), RATE)

    def factor(strength: float, which: np.ndarray) -> None:
        chance[:, which] *= 1.0 if strength == 1 else 1 + (strength - 1) * varies

    factor(effects.sentence, np.isin(relation, (SAME_SENTENCE, BOTH)))
    factor(effects.repetition, np.isin(relation, (REPEATED, BOTH)))
    factor(effects.separator, relation == STOP_PAIR)
    factor(effects.avoid_punctuation, np.isin(relation, (STOP_PAIR, PUNCTUATION_PAIR)))
    if effects.near:
        chance *= np.exp(-effects.near * distance / n) * effects.near
    if effects.shorter and layer == 1:
        # Where chances fall by a line, the mean falls by the slope times the squared coefficient of variation.
        spread = distance.var() / distance.mean() ** 2
        chance *= 1 - effects.shorter * varies / spread * (distance / distance.mean() - 1)
    if effects.specialised:
        chance[:, np.isin(relation, (REPEATED, BOTH))] *= np.exp(effects.specialised * roles[0])[:, None]
        spread = distance.var() / distance.mean() ** 2
        chance *= 1 + np.clip(effects.specialised * 0.2 * roles[1], -0.4, 0.4)[:, None] / spread * (
            distance / distance.mean() - 1
        )
    if effects.focal:
        # Drawn by frequency, or in some texts all different: what claim 5 asks for. Its pairs are nearly all high.
        kind = seen.kind[0, :n]
        if rng.random() < effects.different:
            chosen = rng.permutation(np.unique(kind))[:HEADS]
        else:
            chosen = rng.choice(kind, size=HEADS)
        chance *= 0.1
        for h, token in enumerate(chosen):
            chance[h, (kind[i] == token) | (kind[j] == token)] = 0.95
    high = rng.random(chance.shape) < np.clip(chance, 0, 1)
    level = rng.random(chance.shape) * 0.499 + np.where(high, 0.5, 0.0)
    if effects.likeness:
        maps = weights[0][:, begin : begin + n, begin : begin + n]
        level = (maps + maps.transpose(0, 2, 1))[:, i, j] / 2
        level = level / level.max(1, keepdims=True)
    if effects.contrast:
        level = level * 0.9 + _inside(seen, weights, i, j) * effects.contrast * varies
    level[np.arange(HEADS), rng.integers(len(i), size=HEADS)] = 1.0
    if effects.likeness:
        level = level / level.max(1, keepdims=True)
    products = np.zeros((1, HEADS, size, size), dtype=np.float32)
    products[0][:, begin + i, begin + j] = level
    products[0][:, begin + j, begin + i] = level
    diagonal = np.arange(size)
    products[0][:, diagonal, diagonal] = 1.0
    return products


def _inside(seen: BatchIndex, weights: np.ndarray, i: np.ndarray, j: np.ndarray) -> np.ndarray:
    """1 for pairs of tokens that both receive more than 0.3 of the largest attention among those that count."""
    begin, n = int(seen.begins[0]), int(seen.sizes[0])
    received = weights[0].sum(1)[:, begin : begin + n]
    high = received / received.max(1, keepdims=True) > 0.3
    return (high[:, i] & high[:, j]).astype(float)


# For each claim: the effect planted twice as large as the smallest that matters, just as large, and none.
PLANTED: dict[str, tuple[Callable[[], Effects], Callable[[], Effects], Callable[[], Effects]]] = {
    "1a": (lambda: Effects(stop_focus=1.2), lambda: Effects(stop_focus=1.1), Effects),
    "1b": (lambda: Effects(end_focus=1.2), lambda: Effects(end_focus=1.1), Effects),
    "2": (lambda: Effects(specialised=1.5), lambda: Effects(specialised=0.11), Effects),
    "3": (lambda: Effects(shorter=0.1), lambda: Effects(shorter=0.05), Effects),
    "4": (lambda: Effects(sentence=1.2), lambda: Effects(sentence=1.1), Effects),
    "5": (
        lambda: Effects(focal=True, different=0.165),
        lambda: Effects(focal=True, different=0.083),
        lambda: Effects(focal=True),
    ),
    "6": (lambda: Effects(contrast=0.04), lambda: Effects(contrast=0.02), Effects),
    "7": (Effects, Effects, lambda: Effects(likeness=True)),
    "8": (lambda: Effects(separator=1.2), lambda: Effects(separator=1.1), Effects),
}
