"""Block sums made up on the spot: plausible, small, and as odd as a test wants them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from headscope.findings import CLAIMS
from headscope.findings.checks import ControlRun
from headscope.findings.finding import Findings
from headscope.findings.numbers import Numbers
from headscope.findings.resampling import Resampling
from headscope.findings.sentences import in_words
from headscope.findings.verdicts import judge, why_unread
from headscope.measures.bands import by_band
from headscope.measures.block_sums import BlockSums
from headscope.measures.comparisons import COMPARED, CONTRASTS
from headscope.measures.relations import RELATIONS, STOP_PAIR
from headscope.measures.variables import MAPS

R = len(RELATIONS)


def block_sums(
    blocks: int = 12,
    layers: int = 3,
    heads: int = 4,
    *,
    length: int = 20,
    readings: tuple[str, ...] = ("dot", "cosine"),
    cross: bool = False,
    texts: int = 6,
    scale: float = 4.0,
    rate: float = 0.1,
    without: tuple[int, ...] = (),
    nothing_high: bool = False,
    no_top: bool = False,
    tau: float = 0.5,
    depth: int | None = None,
    seed: int = 0,
) -> BlockSums:
    """Sums of some blocks of texts. `without` names relations that do not occur."""
    rng = np.random.default_rng(seed)
    number = rng.integers(1, 2 * texts, size=blocks).astype(float)  # windows of each block
    base = rng.poisson(scale, size=(blocks, length - 1, R)) * number[:, None, None].astype(int)
    base[..., list(without)] = 0
    taste = rng.normal(size=(layers, heads, R)) * 0.5  # heads have their ways
    levels = np.zeros((blocks, layers, heads, 21, length - 1, R), dtype=np.int64)
    for k in range(layers):
        for h in range(heads):
            high = rng.binomial(base, np.clip(rate * np.exp(taste[k, h]), 0, 1)) * (not nothing_high)
            at = rng.integers(11, 21)
            levels[:, k, h, at] += high
            levels[:, k, h, rng.integers(0, 11)] += base - high
    distance = np.arange(1, length)
    pairs = by_band(levels, axis=4)  # (S, L, H, level, band, relation)
    base_band = by_band(base, axis=1)
    tops = [rng.binomial(base_band[:, None, None], 0.06 * np.exp(taste)[None, :, :, None]) for _ in readings]
    top_pairs = np.stack(tops, 1) * (not no_top)  # (S, reading, L, H, band, relation)

    def matched(high: np.ndarray) -> np.ndarray:
        """As if every block were one window: (…, band, relation) to (…, comparison, side)."""
        sides = []
        for strata in COMPARED.values():
            a = b = 0
            for ones, zeros in strata:
                k1, k0 = (high[..., list(kinds)].sum(-1) for kinds in (ones, zeros))
                n1, n0 = (base_band[..., list(kinds)].sum(-1) for kinds in (ones, zeros))
                n1, n0 = (n.reshape(blocks, *[1] * (high.ndim - 3), -1) for n in (n1, n0))
                a = a + (k1 * n0 / np.maximum(n1 + n0, 1)).sum(-1)
                b = b + (k0 * n1 / np.maximum(n1 + n0, 1)).sum(-1)
            sides.append(np.stack([np.asarray(a), np.asarray(b)], -1))
        return np.stack(sides, -2)

    first_high = round(tau * 20) + 1
    heads_shape, read_shape = (blocks, layers, heads), (blocks, len(readings), layers, heads)
    per_text = number[:, None, None]
    flat = np.minimum(rng.poisson(0.2, size=heads_shape), per_text - 1)
    if nothing_high:
        flat = np.broadcast_to(per_text, heads_shape)

    def unique(*lead: int) -> np.ndarray:
        """Windows by the number of different focal tokens."""
        counts = np.zeros((blocks, *lead, heads + 1))
        for s in range(blocks):
            for place in np.ndindex(*lead):
                drawn = rng.integers(0 if nothing_high else 1, 1 if nothing_high else heads + 1, size=int(number[s]))
                counts[s][place] = np.bincount(drawn, minlength=heads + 1)
        return counts

    weight = rng.random((*heads_shape, len(CONTRASTS))) * 50 * number[:, None, None, None]
    if cross:
        weight[..., -1] = 0
    wins = np.stack([weight * rng.beta(6, 4, size=weight.shape) for _ in readings], 1)
    attention = rng.dirichlet(np.full(5, 2.0), size=heads_shape) * number[:, None, None, None]
    even = rng.dirichlet(np.full(5, 5.0), size=(blocks, layers)) * number[:, None, None]
    if STOP_PAIR in without:  # no stop in the texts: nobody reads one
        attention[..., 2], even[..., 2] = 0, 0
    attended = rng.poisson(3.0, size=(*heads_shape, 19, 5)) * per_text[..., None, None]
    stored: dict[str, Any] = {
        "texts": number, "unsplit": np.minimum(number, 1), "pairless": np.zeros(blocks),
        "tokens": rng.poisson(8.0, size=(blocks, 5)) * number[:, None], "base_pairs": base,
        "attention": attention, "attention_even": even,
        "attention_weighted": attention * rng.uniform(0.5, 1.5, size=attention.shape),
        "attention_entropy": rng.random(heads_shape) * per_text, "attended": attended, "attended_text": attended,
        "contrast_weight": weight, "wins": wins, "top_pairs": top_pairs,
        "top_few": np.zeros(read_shape) + no_top * number[:, None, None, None], "top_matched": matched(top_pairs),
        "top_unique": unique(len(readings), layers), "top_null": unique(len(readings), layers),
        "top_mixed": rng.random((blocks, len(readings))) * heads * number[:, None],
        "norm_correlation": rng.uniform(-1, 1, size=read_shape) * number[:, None, None, None],
        "distance_sum": (levels * distance[:, None]).sum(4), "matched": matched(pairs[:, :, :, first_high:].sum(3)),
        "flat": flat, "diagonal": rng.random(heads_shape) * per_text, "focal_unique": unique(layers, 19),
        "focal_null": unique(layers, 19), "focal_share": rng.random((*heads_shape, 19)) * per_text[..., None],
        "focal_few": np.zeros((*heads_shape, 19)), "focal_frequency": rng.random(heads_shape) * per_text,
        "focal_distance": rng.random(heads_shape) * per_text * 5,
        "focal_longest": rng.binomial(per_text.astype(int), 0.3, size=heads_shape),
    }  # fmt: skip
    if not cross:
        correlations = rng.uniform(-0.5, 1, size=(blocks, len(readings), len(MAPS), layers, heads))
        regions = rng.poisson(20.0, size=(*heads_shape, 19, 3)) * per_text[..., None, None]
        stored |= {
            "attention_wins": np.stack([weight * rng.beta(5, 5, size=weight.shape) for _ in MAPS], 1),
            "attention_correlation": correlations * number[:, None, None, None, None],
            "mask_pairs": regions, "mask_sum": regions * rng.random(regions.shape),
        }  # fmt: skip
    return BlockSums(
        layers=tuple(range(layers)),
        depth=depth or layers,
        heads=heads,
        readings=readings,
        tau=tau,
        theta=0.3,
        groups=tuple("ab"[k % 2] for k in range(blocks)),
        stored={name: np.asarray(values, dtype=np.float64) for name, values in stored.items()},
        layer_pairs=lambda k: pairs[:, k],
    )


def findings_of(sums: BlockSums, runs: tuple[ControlRun, ...] = (), draws: int = 20, tau: float = 0.5) -> Findings:
    """Findings as a result would give them."""
    numbers = Numbers(sums, Resampling(sums.windows, draws=draws), tau)
    unread = why_unread(sums.readings[0], "max", tau)
    items = []
    for each in CLAIMS:
        finding = judge(each, numbers, runs, unread)
        items.append(replace(finding, sentence=in_words(each, finding, numbers)))
    how = numbers.resample.how
    return Findings("model", "encoder", int(sums.texts.sum()), sums.blocks, how, tau, 0.3, tuple(items), unread=unread)
