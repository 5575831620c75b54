"""Segmentation by its definitions alone: every cut is written out, every sentence is read by itself."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

from headscope.tap import tap


def cuts(length: int, longest: int) -> Iterator[tuple[int, ...]]:
    """Every way to cut so many parts, as the parts that close a segment."""
    if length == 0:
        yield ()
        return
    for size in range(1, min(longest, length) + 1):
        for before in cuts(length - size, longest):
            yield (*before, length - 1)


def weight_of(cut: tuple[int, ...], scores: Any, rate: float) -> float:
    """The logarithm of how likely a cut is, but for a constant."""
    total, start = 0.0, 0
    for end in cut:
        total += scores[end][end - start] + (end - start) * math.log(1 - rate)
        start = end + 1
    return total + (len(cut) - 1) * math.log(rate)


def probabilities(scores: Any, rates: tuple[float, ...]) -> list[float]:
    """How likely a boundary is after each part: over every cut and every rate."""
    length, longest = len(scores), len(scores[0])
    after, total = [0.0] * length, 0.0
    for rate in rates:
        for cut in cuts(length, longest):
            likely = math.exp(weight_of(cut, scores, rate))
            total += likely
            for end in cut:
                after[end] += likely
    return [each / total for each in after]


def score(similar: Any, counts: Any, start: int, end: int, numbers: Any) -> float:
    """What speaks for the segment of sentences start to end, from all similarities, (N, N)."""
    length = len(counts)
    pairs = [(i, j) for i in range(length) for j in range(length) if i != j]
    near = sum(similar[i][j] for i, j in pairs if abs(i - j) == 1) / sum(
        counts[i] * counts[j] for i, j in pairs if abs(i - j) == 1
    )
    close = [(i, j) for i, j in pairs if abs(i - j) <= 25]
    everywhere = sum(similar[i][j] for i, j in close) / sum(counts[i] * counts[j] for i, j in close)
    level = numbers.level_near * near + numbers.level_all * everywhere
    inside = [(i, j) for i, j in pairs if start <= i <= end and start <= j <= end]
    above = sum(similar[i][j] - level * counts[i] * counts[j] for i, j in inside)
    gain = above / (sum(counts[start : end + 1]) + numbers.spread)
    cost = numbers.cost + numbers.cost_level * everywhere + numbers.cost_length * math.log(end - start + 1)
    return float(gain - cost)


def mean_output(model: Any, ids: list[int], stack: str, layer: int, head: int, counting: Any) -> Any:
    """A head's output for one sentence that is read alone, averaged over its own tokens as they count."""
    start, end = list(model.template.start), list(model.template.end)
    whole = torch.tensor([[*start, *ids, *end]])
    with tap(model.network) as tapped, torch.no_grad():
        inputs = {"decoder_input_ids": whole} if model.network.config.is_encoder_decoder else {}
        model.network(input_ids=whole, attention_mask=torch.ones_like(whole), **inputs)
    outputs = next(each.outputs for each in tapped if (each.stack, each.layer) == (stack, layer))[0, head]
    first = 1 if model.stack(stack).causal and not start and len(ids) > 1 else 0
    total, weight = np.zeros(outputs.shape[1]), 0.0
    for k, number in enumerate(ids):
        if k >= first:
            total += counting[number] * outputs[len(start) + k].double().numpy()
            weight += counting[number]
    return total / weight
