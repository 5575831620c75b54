"""Synthetic heads with known effects, counted by the real accumulator.

A pool of synthetic texts is made once, each counted by itself. Corpora are then drawn from the pool with replacement,
so what is true of the pool is exactly what a corpus is a sample of, and thousands of corpora cost next to nothing.
Every text has a strength of its own: effects vary from text to text, as they do in life.

A pair's similarity is a normal number plus what is planted; the highest tenth is high where nothing is planted. Outputs
are vectors whose products are those similarities, all of one length unless lengths are planted, so that the dot
product and the cosine agree but for that.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import torch
from scipy.stats import norm

import headscope
from headscope.choices import Choices
from headscope.measures.bands import by_band
from headscope.measures.block_sums import BlockSums
from headscope.measures.compiled_accumulator import CompiledAccumulator
from headscope.measures.relations import BOTH, PUNCTUATION_PAIR, REPEATED, SAME_SENTENCE, STOP_PAIR, relations
from headscope.measures.similarity import pair_places
from headscope.measures.variables import Shape, variable
from headscope.tap import LayerHeads
from headscope.windows import CATEGORIES, Window, WindowBatch, corpus_windows
from headscope.windows.window import PUNCTUATION, STOP

LENGTH, LAYERS, HEADS = 64, 3, 8
EARLY, MIDDLE, FINAL = range(LAYERS)
RATE = 0.1  # of the pairs are high where nothing is preferred
VARIES = 0.25  # standard deviation of the logarithm of an effect over texts
WIDE = 8.0  # squared length of outputs: enough for any similarities to be products of vectors
WORDS = (
    "the a of and to in was he it that his on with as for had at by not but from they she which this are be have one "
    "all their so river house stone light road winter market letter garden bridge captain window village morning "
    "morning silver copper harvest lantern orchard thunder meadow whisper journey kitchen feather shadow harbour"
).split()


@dataclass(frozen=True)
class Effects:
    """What the heads do. 1 is nothing for factors, 0 for the others. Most is done by the final layer alone."""

    sentence: float = 1.0  # factors on the chance of a pair to be high
    separator: float = 1.0
    stop_focus: float = 1.0  # attention to stops and closing tokens over an even spread
    end_focus: float = 1.0
    shorter: float = 0.0  # mean distance over base, early less later layers
    reach: float = 0.0  # mean distance of pairs of one sentence over base, final less middle layers
    specialised: float = 0.0  # spread of the heads' log repetition preference, and of their reach
    inside: float = 0.0  # how far pairs inside the attention mask lie above those outside, in standard deviations
    apart: float = 0.0  # the same for pairs of one sentence, and for repetitions, in all layers
    reads: float = 0.0  # by so much more such tokens read each other
    alike: float = 0.0  # the same for pairs that read each other, by their attention
    likeness: bool = False  # similarity is attention over again
    focal: bool = False  # every head gathers round a token of its own choice
    different: float = 0.0  # share of texts in which all heads have different focal tokens
    near: float = 0.0  # nearer pairs are more similar, in all layers
    avoid_punctuation: float = 0.0  # pairs with a stop or other punctuation are less similar
    long_stops: float = 1.0  # outputs of stops are so much longer
    long_sentences: float = 1.0  # … of every other sentence
    one_head: bool = False  # one head of the final layer has most of the similar pairs, round stops; others avoid them


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


class Text:
    """One window and its pairs."""

    def __init__(self, window: Window) -> None:
        self.window = window
        self.places = np.flatnonzero(window.counting(False))
        first, second = pair_places(torch.from_numpy(window.counting(False)))
        category, own = torch.from_numpy(window.category), torch.from_numpy
        self.relation = relations(
            first, second, word=own(window.word), stop=category == STOP, punctuation=category == PUNCTUATION,
            sentence=own(window.sentence), same=own(window.ids),
        ).numpy()  # fmt: skip
        self.first, self.second = first.numpy(), second.numpy()
        distance = (self.second - self.first).astype(float)
        self.far = distance / distance.mean() - 1
        self.within = np.isin(self.relation, (SAME_SENTENCE, BOTH))
        self.repeated = np.isin(self.relation, (REPEATED, BOTH))
        self.far_within = np.where(self.within, distance / distance[self.within].mean() - 1, 0)


def pool(model: headscope.Model, effects: Effects, number: int, seed: int, *, rotated: bool = False) -> BlockSums:
    """So many synthetic texts with planted effects, each a block of its own; or with sentence labels rotated."""
    rng = np.random.default_rng([seed, 1])
    roles = rng.normal(size=(2, LAYERS, HEADS))  # the same heads in all texts
    roles -= roles.mean(-1, keepdims=True)
    roles /= roles.std(-1, ddof=1, keepdims=True)
    choices, shape = Choices(window=LENGTH), Shape(tuple(range(LAYERS)), HEADS, LENGTH)
    found: list[dict[str, np.ndarray]] = []
    for text in texts(number, seed):
        window = corpus_windows(text, model.tokenizer, model.template, length=LENGTH)[0]
        batch = WindowBatch((window,))
        accumulator = CompiledAccumulator({"encoder": shape}, choices)
        sink = accumulator.begin(batch.rotated(False) if rotated else batch)
        varies = np.exp(rng.normal(-(VARIES**2) / 2, VARIES))
        own = Text(window)
        for layer in range(LAYERS):
            weights = _attention(own, effects, layer, rng, varies)
            outputs = _outputs(own, effects, weights, layer, roles[:, layer], rng, varies)
            values = torch.ones((1, HEADS, len(window), 1))
            sink.layer(LayerHeads("encoder", layer, "", outputs[None], torch.from_numpy(weights)[None], values))
        sink.finish()
        found.append(_kept(accumulator.sums()["encoder"]))
    stacked = {name: np.stack([sums[name] for sums in found]) for name in found[0]}
    pairs = stacked.pop("pairs")  # (S, L, H, level, band, relation)
    return BlockSums(
        layers=tuple(range(LAYERS)),
        depth=LAYERS,
        heads=HEADS,
        readings=shape.readings,
        tau=choices.tau,
        theta=choices.theta,
        groups=("",) * number,
        stored={name: values.astype(np.float64) for name, values in stacked.items()},
        layer_pairs=lambda k: pairs[:, k],
    )


def _kept(sums: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """What a block keeps."""
    kept = {name: values for name, values in sums.items() if variable(name).kept == "block"}
    return kept | {"pairs": by_band(kept["pairs"], axis=3).astype(np.int32)}


def _attention(text: Text, effects: Effects, layer: int, rng: np.random.Generator, varies: float) -> np.ndarray:
    """(H, T, T): an even spread with noise, and as much to stops and closing tokens as planted."""
    category, size = text.window.category, len(text.window)
    weights = rng.gamma(4.0, size=(HEADS, size, size))
    high = rng.random((HEADS, size)) < 0.15  # tokens that attention singles out, drawn anew for each head
    share = weights * np.where(high, 6.0, 1.0)[:, None]
    for one, other in ((text.first, text.second), (text.second, text.first)):
        share[:, one, other] *= 1 + effects.reads * (text.within | text.repeated)
    share /= share.sum(-1, keepdims=True)
    fixed = np.zeros(size, dtype=bool)
    for kind, focus in ((STOP, effects.stop_focus), (CATEGORIES.index("end"), effects.end_focus)):
        own = category == kind
        if own.any():
            fixed |= own
            target = own.sum() / size * (1 + (focus - 1) * varies * (layer == FINAL))
            share[..., own] *= min(target, 0.9) / share[..., own].sum(-1, keepdims=True)
    rest = 1 - share[..., fixed].sum(-1, keepdims=True)
    share[..., ~fixed] *= rest / share[..., ~fixed].sum(-1, keepdims=True)
    return share.astype(np.float32)


def _outputs(
    text: Text, effects: Effects, weights: np.ndarray, layer: int, roles: np.ndarray, rng: np.random.Generator,
    varies: float,
) -> torch.Tensor:  # fmt: skip
    """(H, T, d): vectors whose products are the planted similarities."""
    number, size = len(text.first), len(text.window)
    z = rng.normal(size=(HEADS, number)) + _planted(text, effects, layer, roles, varies)
    read = (weights[:, text.first, text.second] + weights[:, text.second, text.first]) / 2  # (H, P)
    z += effects.alike * varies * (read - read.mean(-1, keepdims=True)) / read.std(-1, keepdims=True)
    if effects.inside:
        received = weights.sum(1)[:, text.places]
        high = np.zeros((HEADS, size), dtype=bool)
        high[:, text.places] = received / received.max(-1, keepdims=True) > 0.3
        z += effects.inside * varies * (high[:, text.first] & high[:, text.second])
    if effects.focal:
        z += 4 * _round_focal(text, effects, rng) - 1
    share = norm.cdf(z)
    level = np.where(share < 1 - RATE, share / (1 - RATE), 1 + (share - 1 + RATE) / RATE) / 2
    if effects.likeness:
        level = read / read.max(-1, keepdims=True)
    level[np.arange(HEADS), level.argmax(-1)] = 1.0
    products = np.zeros((HEADS, size, size))
    products[:, text.first, text.second] = products[:, text.second, text.first] = level
    vectors = np.linalg.cholesky(products + WIDE * np.eye(size))
    lengths = np.ones(size)
    if layer == FINAL:
        lengths[text.window.category == STOP] *= effects.long_stops
        lengths[text.window.sentence % 2 == 1] *= effects.long_sentences
    return torch.from_numpy((vectors * lengths[:, None]).astype(np.float32))


def _planted(text: Text, effects: Effects, layer: int, roles: np.ndarray, varies: float) -> np.ndarray:
    """What is added to the similarity of each pair: (H, P), or the same for all heads."""
    added = np.zeros((HEADS, len(text.first)))
    added += effects.apart * varies * (text.within | text.repeated)
    added -= effects.near * text.far + effects.avoid_punctuation * np.isin(text.relation, (STOP_PAIR, PUNCTUATION_PAIR))
    if layer != EARLY:
        added -= _slope(effects.shorter) * varies * text.far
    if layer == FINAL:
        added += _shift(1 + (effects.sentence - 1) * varies) * text.within
        added += _shift(1 + (effects.separator - 1) * varies) * (text.relation == STOP_PAIR)
        added += _slope(effects.reach) * varies * text.far_within
    added += (effects.specialised * roles[0] / HAZARD)[:, None] * text.repeated
    added += np.array([_slope(each) for each in effects.specialised * REACH * roles[1]])[:, None] * text.far
    if effects.one_head and layer == FINAL:
        stops = text.relation == STOP_PAIR
        added[0] += 0.8 + 1.3 * stops
        added[1:] -= 0.6 + 0.4 * stops
    return added


REACH = 0.23  # spread of the heads' reach, over that of their log repetition preference
HAZARD = norm.pdf(norm.ppf(1 - RATE)) / RATE  # how fast the logarithm of a chance of RATE grows with what is added


def _shift(factor: float) -> float:
    """What must be added for a pair to be so many times as likely to be high."""
    return float(norm.ppf(1 - RATE) - norm.ppf(1 - min(RATE * factor, 0.95)))


def _slope(distance: float) -> float:
    """How steeply similarity must rise with distance for the mean distance to move by so much of itself."""
    return distance / (HAZARD * 0.5)  # ½: the squared coefficient of variation of distances in a window


def _round_focal(text: Text, effects: Effects, rng: np.random.Generator) -> np.ndarray:
    """Which pairs contain the head's focal token: (H, P). Tokens are drawn among those that occur once."""
    ids = text.window.ids
    kinds, counts = np.unique(ids[text.places], return_counts=True)
    once = kinds[counts == 1]
    different = rng.random() < effects.different and len(once) >= HEADS
    chosen = rng.permutation(once)[:HEADS] if different else rng.choice(once, size=HEADS)
    return (ids[text.first] == chosen[:, None]) | (ids[text.second] == chosen[:, None])


# ---------------------------------------------------------------------- corpora


def corpora(counts: BlockSums, size: int, number: int, seed: int, blocks: int = 32) -> list[BlockSums]:
    """Corpora of so many texts drawn from a pool, dealt into blocks."""
    rng = np.random.default_rng([seed, size])
    found = []
    for _ in range(number):
        weights = np.zeros((blocks, counts.blocks))
        for place, text in enumerate(rng.integers(counts.blocks, size=size)):
            weights[place * blocks // size, text] += 1
        found.append(combined(counts, weights))
    return found


def combined(counts: BlockSums, weights: np.ndarray) -> BlockSums:
    """New blocks, each a weighted sum of the old ones: (new, old) weights."""

    def summed(values: np.ndarray) -> np.ndarray:
        return (weights @ values.reshape(len(values), math.prod(values.shape[1:]))).reshape(-1, *values.shape[1:])

    return replace(
        counts,
        groups=("",) * len(weights),
        stored=_Summed(counts.stored, summed),
        layer_pairs=lambda k: summed(counts.layer_pairs(k).astype(np.float64)),
    )


class _Summed(dict):  # type: ignore[type-arg]
    """Variables of new blocks, each made when it is asked for."""

    def __init__(self, old: object, summed: object) -> None:
        super().__init__(old)  # type: ignore[call-overload]
        self.summed, self.made = summed, set[str]()

    def __getitem__(self, name: str) -> np.ndarray:
        if name not in self.made:
            self[name] = self.summed(super().__getitem__(name))  # type: ignore[operator]
            self.made.add(name)
        return super().__getitem__(name)
