"""The derived quantities and the claims of docs/method.md, written a second time with plain loops over labelled sums.

Takes a result's dataset (sums over all texts) and nothing of headscope's own arithmetic.
"""

from __future__ import annotations

import math
from typing import Any

WORDS = ("both", "sentence", "repeated", "none")


class Table:
    """High pairs and all pairs of one layer's or third's heads, by distance and relation."""

    def __init__(self, data: Any, layers: list[int], tau: float, heads: list[int] | None = None) -> None:
        chosen = data["pairs"].sel(layer=layers)
        if heads is not None:
            chosen = chosen.sel(head=heads)
        by_level = chosen.sum(("layer", "head"))
        first = round(tau * 20) + 1
        self.levels = by_level
        self.distances = [int(d) for d in data["distance"].values]
        names = [str(r) for r in data["relation"].values]
        high = by_level.sel(level=slice(first, None)).sum("level").values
        every = by_level.sum("level").values
        self.high = {(d, r): int(high[a, b]) for a, d in enumerate(self.distances) for b, r in enumerate(names)}
        self.every = {(d, r): int(every[a, b]) for a, d in enumerate(self.distances) for b, r in enumerate(names)}

    def matched(self, strata: list[tuple[list[str], list[str]]]) -> float:
        """Σ k1 / Σ n1·k0/n0; each stratum is (relations of class 1, relations of class 0), at every distance."""
        above = below = 0.0
        for ones, zeros in strata:
            for d in self.distances:
                k1, n1 = (sum(t[d, r] for r in ones) for t in (self.high, self.every))
                k0, n0 = (sum(t[d, r] for r in zeros) for t in (self.high, self.every))
                if n1 and n0:
                    above += k1
                    below += n1 * k0 / n0
        return above / below if below else math.nan

    def sentence_preference(self) -> float:
        return self.matched([(["sentence"], ["none"]), (["both"], ["repeated"])])

    def repetition_preference(self) -> float:
        return self.matched([(["repeated"], ["none"]), (["both"], ["sentence"])])

    def separator_similarity(self) -> float:
        return self.matched([(["stop"], ["none", "sentence"])])

    def mean(self, table: dict, relations: tuple[str, ...] | None = None) -> float:
        own = [(d, n) for (d, r), n in table.items() if relations is None or r in relations]
        number = sum(n for _, n in own)
        return sum(d * n for d, n in own) / number if number else math.nan

    def distance(self) -> float:
        return self.mean(self.high) / self.mean(self.every)

    def reach_within(self) -> float:
        return self.mean(self.high, ("sentence", "both")) / self.mean(self.every, ("sentence", "both"))

    def share(self, table: dict, relations: tuple[str, ...]) -> float:
        words = sum(n for (_, r), n in table.items() if r in WORDS)
        return sum(n for (_, r), n in table.items() if r in relations) / words if words else math.nan

    def across_rate(self) -> float:
        return self.share(self.high, ("none", "repeated")) / self.share(self.every, ("none", "repeated"))

    def noise_rate(self) -> float:
        return self.share(self.high, ("none",)) / self.share(self.every, ("none",))

    def separation(self, signal: tuple[str, ...]) -> float:
        won = weight = 0.0
        for d in self.distances:
            here = self.levels.sel(distance=d)
            mine = here.sel(relation=list(signal)).sum("relation").values.tolist()
            noise = here.sel(relation="none").values.tolist()
            if not sum(noise) or not sum(mine):
                continue
            wins = sum(
                m * n * (1 if a > b else 0.5 if a == b else 0)
                for a, m in enumerate(mine)
                for b, n in enumerate(noise)
                if m and n
            )
            won += wins / sum(noise)
            weight += sum(mine)
        return won / weight if weight else math.nan


def focus(data: Any, layers: list[int], category: str) -> float:
    """Attention given over attention spread evenly; every layer and head weighs the same."""
    above = below = 0.0
    for layer in layers:
        for head in data["head"].values:
            above += float(data["attention"].sel(layer=layer, head=head, category=category))
            even = data["attention_even"].sel(category=category)
            below += float(even.sel(layer=layer) if "layer" in even.dims else even)
    return above / below if below else math.nan


def windows(data: Any, layer: int, head: int) -> int:
    """Windows with pairs that are not flat."""
    return int(data["texts"]) - int(data["pairless"]) - int(data["flat"].sel(layer=layer, head=head))


def likeness(data: Any, layer: int) -> float:
    heads = [int(h) for h in data["head"].values]
    total = sum(float(data["attention_correlation"].sel(layer=layer, head=h)) for h in heads)
    return total / sum(windows(data, layer, h) for h in heads)


def contrast(data: Any, layer: int) -> float:
    means = []
    for region in ("inside", "outside"):
        total = float(data["region_sum"].sel(layer=layer, region=region).sum())
        means.append(total / int(data["region_pairs"].sel(layer=layer, region=region).sum()))
    return means[0] - means[1]


def focal(data: Any, layer: int, tau: float) -> tuple[float, float]:
    """Mean number of different focal tokens, and the number expected."""
    step = round(tau * 20) - 1
    by_number = data["focal_unique"].sel(layer=layer).isel(threshold=step)
    number = int(by_number.sum())
    unique = sum(int(u) * int(by_number.sel(unique=u)) for u in data["unique"].values)
    return unique / number, float(data["focal_expected"].sel(layer=layer).isel(threshold=step)) / number


def thirds(depth: int) -> list[list[int]]:
    """Early, middle and final layers."""
    if depth == 1:
        return [[], [], [0]]
    found: list[list[int]] = [[], [], []]
    for layer in range(depth):
        middle = (layer + 0.5) / depth
        found[0 if middle < 1 / 3 else 1 if middle < 2 / 3 else 2].append(layer)
    return found


def specialisation(shards: Any, tau: float) -> float:
    """Share of variance between heads, by a one-way analysis of variance over shards, mean over scores and layers."""
    shares = []
    for layer in shards["layer"].values:
        scores: list[list[list[float]]] = [[], []]  # score, head, shard
        for head in shards["head"].values:
            repetition, distance = [], []
            for s in range(shards.sizes["shard"]):
                table = Table(shards.isel(shard=s), [int(layer)], tau, [int(head)])
                above = below = 0.0
                for one, zero in (("repeated", "none"), ("both", "sentence")):
                    for d in table.distances:
                        if table.every[d, one] and table.every[d, zero]:
                            above += table.high[d, one]
                            below += table.every[d, one] * table.high[d, zero] / table.every[d, zero]
                if above + below:
                    repetition.append(math.log((above + 0.5) / (below + 0.5)))
                if sum(table.high.values()):
                    distance.append(table.distance())
            scores[0].append(repetition)
            scores[1].append(distance)
        own = [share for heads in scores if (share := between(heads)) is not None]
        if own:
            shares.append(sum(own) / len(own))
    return min(max(sum(shares) / len(shares), 0), 1)


def between(groups: list[list[float]]) -> float | None:
    """The variance component between groups over the sum of both."""
    groups = [group for group in groups if group]
    number = sum(map(len, groups))
    if len(groups) < 2 or number <= len(groups):
        return None
    mean = sum(map(sum, groups)) / number
    means = [sum(group) / len(group) for group in groups]
    outer = sum(len(g) * (m - mean) ** 2 for g, m in zip(groups, means, strict=True)) / (len(groups) - 1)
    inner = sum((x - m) ** 2 for g, m in zip(groups, means, strict=True) for x in g) / (number - len(groups))
    size = (number - sum(len(g) ** 2 for g in groups) / number) / (len(groups) - 1)
    part = (outer - inner) / size
    if part + inner <= 0:
        return None
    return part / (part + inner)
