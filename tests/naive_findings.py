"""The derived numbers, intervals, controls and verdicts of docs/method.md, written a second time with plain loops.

Takes the sums of blocks as named arrays and nothing of headscope's own arithmetic.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

RELATIONS = ["word_pieces", "marks", "stop", "punctuation", "both", "sentence", "repeated", "none"]
COMPARISONS = ["sentence", "repetition", "stop", "stop_punctuation", "noise"]
STRATA: dict[str, list[tuple[list[str], list[str]]]] = {
    "sentence": [(["sentence"], ["none"]), (["both"], ["repeated"])],
    "repetition": [(["repeated"], ["none"]), (["both"], ["sentence"])],
    "stop": [(["stop"], ["none", "sentence"])],
    "stop_punctuation": [(["stop"], ["punctuation"])],
    "noise": [(["none"], ["sentence", "repeated", "both"])],
}
CONTRASTS = ["sentence", "repeated", "related", "inside"]
CATEGORIES = ["start", "end", "stop", "punctuation", "word"]
RATIOS = {"separator_focus_stop", "separator_focus_end", "separator_focus_stop_weighted",
          "separator_focus_end_weighted", "stop_among_attended", "end_among_attended",
          "sentence_preference", "repetition_preference", "separator_similarity",
          "separator_against_punctuation", "noise_rate"}  # fmt: skip
MATCHED = {"sentence_preference": "sentence", "repetition_preference": "repetition", "separator_similarity": "stop",
           "separator_against_punctuation": "stop_punctuation", "noise_rate": "noise"}  # fmt: skip
OF_LAYERS = {"focal_unique", "focal_null", "focal_excess", "focal_mixed"}
NAN = math.nan


def over(above: float, below: float) -> float:
    return above / below if below > 0 else NAN


@dataclass
class Corpus:
    """Block sums, and how often each block counts."""

    sums: Any
    times: Sequence[float]
    tau: float = 0.5
    theta: float = 0.3
    reading: str | None = None

    def add(self, name: str, *place: Any) -> Any:
        """A variable summed over blocks, at a place."""
        values = self.sums.stored[name]
        return sum(self.times[s] * values[s][place] for s in range(len(values)))

    @property
    def r(self) -> int:
        return 0 if self.reading is None else list(self.sums.readings).index(self.reading)

    def windows(self) -> float:
        return self.add("texts") - self.add("pairless")

    # ------------------------------------------------------------------ pairs

    def high(self, layer: int, head: int) -> list[list[float]]:
        """High or top pairs by band and relation."""
        if self.reading is not None:
            return self.add("top_pairs", self.r, layer, head).tolist()
        pairs = self.sums.layer_pairs(layer)
        total = 0.0
        for s in range(len(pairs)):
            for level in range(21):
                if level >= round(20 * self.tau) + 1:
                    total = total + self.times[s] * pairs[s][head][level].astype(float)
        return np.asarray(total).tolist()

    def bands(self) -> list[list[int]]:
        """The distances of each band."""
        longest = self.sums.stored["base_pairs"].shape[1]
        ends, step = [1, 2], 1
        while ends[-1] < longest:
            ends += [ends[-1] + step, ends[-1] + 2 * step] if ends[-1] > 1 else []
            step *= 2
        found, first = [], 1
        for end in ends:
            band = [d for d in range(first, end + 1) if d <= longest]
            if band:
                found.append(band)
            first = end + 1
        return found

    def base(self, relations: list[str] | None = None) -> list[tuple[float, float]]:
        """Number and Σ distance of all pairs in each band."""
        pairs = self.add("base_pairs")
        kinds = [RELATIONS.index(name) for name in (relations or RELATIONS)]
        return [
            (sum(pairs[d - 1][k] for d in band for k in kinds), sum(d * pairs[d - 1][k] for d in band for k in kinds))
            for band in self.bands()
        ]

    def matched(self, comparison: str, layer: int, head: int) -> tuple[float, float]:
        which = COMPARISONS.index(comparison)
        if self.reading is not None:
            return tuple(float(self.add("top_matched", self.r, layer, head, which, side)) for side in (0, 1))
        if self.tau == self.sums.tau:
            return tuple(float(self.add("matched", layer, head, which, side)) for side in (0, 1))
        high, a, b = self.high(layer, head), 0.0, 0.0
        for ones, zeros in STRATA[comparison]:
            n1s, n0s = self.base(ones), self.base(zeros)
            for band, row in enumerate(high):
                k1, k0 = (sum(row[RELATIONS.index(name)] for name in names) for names in (ones, zeros))
                n1, n0 = n1s[band][0], n0s[band][0]
                if n1 + n0:
                    a += k1 * n0 / (n1 + n0)
                    b += k0 * n1 / (n1 + n0)
        return a, b

    def distance(self, layer: int, head: int, relations: list[str] | None = None) -> float:
        base, kinds = self.base(relations), [RELATIONS.index(name) for name in (relations or RELATIONS)]
        every = over(sum(total for _, total in base), sum(number for number, _ in base))
        if self.reading is not None:
            counts = [sum(row[k] for k in kinds) for row in self.high(layer, head)]
            far = sum(count * total / number for count, (number, total) in zip(counts, base, strict=True) if number)
            return over(over(far, sum(counts)), every)
        number = sum(row[k] for row in self.high(layer, head) for k in kinds)
        sums = self.add("distance_sum", layer, head)
        far = sum(sums[level][k] for level in range(round(20 * self.tau) + 1, 21) for k in kinds)
        return over(over(far, number), every)

    # ------------------------------------------------------------------ the number of a head

    def number(self, name: str, layer: int, head: int) -> float:
        if name in MATCHED:
            a, b = self.matched(MATCHED[name], layer, head)
            return (a + 0.5) / (b + 0.5) if a + b >= 5 else NAN
        if "_focus" in name:
            k = CATEGORIES.index(name.removesuffix("_weighted").rpartition("_")[2])
            given = "attention_weighted" if name.endswith("weighted") else "attention"
            return over(self.add(given, layer, head, k), self.add("attention_even", layer, k))
        if name.endswith("_among_attended"):
            k, step = CATEGORIES.index(name.split("_")[0]), round(self.theta * 20) - 1
            high, tokens = self.add("attended", layer, head, step), self.add("tokens")
            return over(over(high[k], sum(high)), over(tokens[k], sum(tokens)))
        if name == "reach":
            return self.distance(layer, head)
        if name == "reach_within":
            return self.distance(layer, head, ["sentence", "both"])
        if name == "attention_spread":
            return over(self.add("attention_entropy", layer, head), self.add("texts"))
        if name in ("focal_share", "focal_frequency", "focal_distance", "focal_longest"):
            place = (layer, head, round(self.tau * 20) - 1) if name == "focal_share" else (layer, head)
            return over(self.add(name, *place), self.windows() - self.add("flat", layer, head))
        if name == "norm_correlation":
            return over(self.add(name, self.r, layer, head), self.windows())
        if name == "mask_auc":
            return self.auc("inside", layer, head)
        if name == "mask_contrast":
            step = round(self.theta * 20) - 1
            levels, pairs = (self.add(each, layer, head, step) for each in ("mask_sum", "mask_pairs"))
            return over(levels[0], pairs[0]) - over(levels[2], pairs[2])
        if name in ("likeness", "unlikeness"):
            each = [over(self.add("attention_correlation", self.r, m, layer, head), self.windows()) for m in (0, 1)]
            return max(each) if name == "likeness" else 1 - max(each)
        if name.startswith("separation_"):
            return self.auc(name.removeprefix("separation_"), layer, head)
        if name.endswith("_beyond_maps"):
            contrast = name.removesuffix("_beyond_maps")
            maps = [Corpus(self.sums, self.times, reading=m).auc(contrast, layer, head) for m in ("direct", "rows")]
            return self.auc(contrast, layer, head) - max(maps)
        if name == "high_pairs":
            return sum(map(sum, self.high(layer, head)))
        if name == "flat":
            return self.add("flat", layer, head)
        raise KeyError(f"{name}: a quantity's second implementation belongs here")

    def auc(self, contrast: str, layer: int, head: int) -> float:
        k = CONTRASTS.index(contrast)
        weight = self.add("contrast_weight", layer, head, k)
        if self.reading in ("direct", "rows"):
            return over(self.add("attention_wins", ["direct", "rows"].index(self.reading), layer, head, k), weight)
        return over(self.add("wins", self.r, layer, head, k), weight)

    def of_layer(self, name: str, layer: int) -> float:
        """Focal tokens."""
        if name == "focal_mixed":
            return over(self.add("top_mixed", self.r), self.windows())
        step = round(self.tau * 20) - 1
        means = []
        for at_tau, top in (("focal_unique", "top_unique"), ("focal_null", "top_null")):
            counts = self.add(at_tau, layer, step) if self.reading is None else self.add(top, self.r, layer)
            means.append(over(sum(u * n for u, n in enumerate(counts)), sum(counts)))
        return {"focal_unique": means[0], "focal_null": means[1]}.get(name, (means[0] - means[1]) / self.sums.heads)

    # ------------------------------------------------------------------ heads first

    def numbers(self, name: str, places: Sequence[int]) -> list[float]:
        return [self.number(name, layer, head) for layer in places for head in range(self.sums.heads)]

    def of_places(self, name: str, places: Sequence[int]) -> float:
        if name in OF_LAYERS:
            return mean([self.of_layer(name, layer) for layer in places])
        if name in ("high_pairs", "flat"):
            return sum(self.numbers(name, places))
        return median(self.numbers(name, places), name in RATIOS)

    def by(self, name: str, by: str) -> list[float]:
        layers = range(len(self.sums.layers))
        if by == "layer":
            return [self.of_places(name, [layer]) for layer in layers]
        if by == "third":
            return [self.of_places(name, places) for places in thirds(self.sums)]
        return [self.of_places(name, list(layers))]

    def mean_of_layers(self, name: str) -> float:
        return mean(self.by(name, "layer"))

    # ------------------------------------------------------------------ specialisation

    def sigma2(self, name: str) -> float:
        """The mean of the layers' σ²."""
        found = []
        for layer in range(len(self.sums.layers)):
            heads = [h for h in range(self.sums.heads) if math.isfinite(self.number(name, layer, h))]
            if len(heads) < 2:
                continue
            d = centred([self._x(name, layer, h) for h in heads])
            drawn = [s for s, times in enumerate(self.times) for _ in range(round(times))]
            without = []
            for s in drawn:
                left = list(self.times)
                left[s] -= 1
                other = Corpus(self.sums, left, self.tau, self.theta, self.reading)
                without.append(centred([other._x(name, layer, h) for h in heads]))
            size = len(drawn)
            noise = 0.0
            for h in range(len(heads)):
                middle = sum(each[h] for each in without) / size
                noise += (size - 1) / size * sum((each[h] - middle) ** 2 for each in without)
            found.append((sum(each**2 for each in d) - noise) / (len(heads) - 1))
        return mean(found)

    def _x(self, name: str, layer: int, head: int) -> float:
        if name in MATCHED:
            a, b = self.matched(MATCHED[name], layer, head)
            return math.log((a + 0.5) / (b + 0.5))
        return self.number(name, layer, head)


def centred(values: list[float]) -> list[float]:
    middle = sum(values) / len(values)
    return [value - middle for value in values]


def mean(values: list[float]) -> float:
    known = [value for value in values if not math.isnan(value)]
    return sum(known) / len(known) if known else NAN


def median(values: list[float], ratios: bool = False) -> float:
    known = sorted(value for value in values if not math.isnan(value))
    if not known:
        return NAN
    low, high = known[(len(known) - 1) // 2], known[len(known) // 2]
    if ratios:
        return math.sqrt(low * high)
    return (low + high) / 2


def thirds(sums: Any) -> list[list[int]]:
    found: list[list[int]] = [[], [], []]
    for place, layer in enumerate(sums.layers):
        found[math.floor(3 * (layer + 0.5) / sums.depth)].append(place)
    return found


# ---------------------------------------------------------------------- intervals


def draws_of(sums: Any, number: int, seed: int = 0) -> list[list[int]]:
    rng = np.random.Generator(np.random.PCG64(seed))
    blocks = len(sums.groups)
    return rng.multinomial(blocks, [1 / blocks] * blocks, size=number).tolist()


def interval(
    value: Callable[[Corpus], float], sums: Any, draws: int, ratio: bool = False, root: bool = False, **how: Any
) -> tuple[float, float, float]:
    """value ± t · √(S / (S − 1)) · sd over draws; of a ratio its logarithm, of a root its square."""
    from scipy.stats import t

    blocks = len(sums.groups)
    scale = math.log if ratio else float
    own = value(Corpus(sums, [1] * blocks, **how))
    drawn = [scale(value(Corpus(sums, times, **how))) for times in draws_of(sums, draws)]
    middle = sum(drawn) / draws
    deviation = math.sqrt(sum((each - middle) ** 2 for each in drawn) / (draws - 1))
    half = float(t.ppf(0.975, blocks - 1)) * math.sqrt(blocks / (blocks - 1)) * deviation
    low, high = scale(own) - half, scale(own) + half
    if ratio:
        return own, math.exp(low), math.exp(high)
    if root:
        return tuple(math.sqrt(max(each, 0)) for each in (own, low, high))
    return own, low, high


# ---------------------------------------------------------------------- verdicts


def state(low: float, high: float, bound: float, above: bool = True) -> str:
    if above:
        return "passes" if low > bound else "fails" if high < bound else "cannot tell"
    return "passes" if high < bound else "fails" if low > bound else "cannot tell"


def verdict(statistics: list[str], controls: list[str]) -> str:
    if "fails" in statistics:
        return "does not hold"
    if statistics.count("passes") < len(statistics):
        return "open"
    if "fails" in controls:
        return "qualified"
    return "holds" if all(each == "passes" for each in controls) else "open"


def supplied_by_one_block(sums: Any, comparison: str, places: list[int], reading: str | None = None) -> bool:
    """Whether one block supplies more than a tenth of a or b and more than four times its share of the texts."""
    which = COMPARISONS.index(comparison)
    values = sums.stored["matched"] if reading is None else sums.stored["top_matched"][:, sums.readings.index(reading)]
    texts = [float(each) for each in sums.stored["texts"]]
    for side in (0, 1):
        each = [
            sum(float(values[s][k][h][which][side]) for k in places for h in range(sums.heads))
            for s in range(len(texts))
        ]
        for own, number in zip(each, texts, strict=True):
            if own > 0.1 * sum(each) and own / sum(each) > 4 * number / sum(texts):
                return True
    return False


# For each claim: quantity, where, bound; then controls: (quantity, where, bound, reading).
CLAIMS: dict[str, tuple[list[tuple[str, Any, float]], list[tuple[str, Any, float, str | None]]]] = {
    "1a": ([("separator_focus_stop", 2, 1.1)],
           [("separator_focus_stop_weighted", 2, 1.1, None), ("separator_focus_stop", (2, 0), 1.1, None)]),
    "1b": ([("separator_focus_end", 2, 1.1)],
           [("separator_focus_end_weighted", 2, 1.1, None), ("separator_focus_end", (2, 0), 1.1, None)]),
    "2": (
        [("repetition_preference", "spread", math.log(1.25)), ("reach", "spread", 0.05)],
        [(name, "spread", bound, reading) for reading in ("dot", "cosine")
         for name, bound in (("repetition_preference", math.log(1.25)), ("reach", 0.05))],
    ),
    "3": ([("reach", (0, 1), 0.05)], [("reach", (0, 1), 0.05, "dot"), ("reach", (0, 1), 0.05, "cosine"),
                                         ("reach", (0, 2), 0.05, None)]),
    "4": ([("sentence_preference", 2, 1.1)],
          [("sentence_preference", 2, 1.1, "dot"), ("sentence_preference", 2, 1.1, "cosine"),
           ("sentence_preference", (2, 0), 1.1, None), ("sentence_preference", (2, 1), 1.0, None)]),
    "5": ([("focal_excess", "layers", 0.02)],
          [("focal_excess", "layers", 0.02, "dot"), ("focal_excess", "layers", 0.02, "cosine")]),
    "6": ([("mask_auc", "layers", 0.55)], [("mask_auc", "layers", 0.55, "cosine")]),
    "7a": ([("unlikeness", "layers", 0.5)], [("unlikeness", "layers", 0.5, "cosine")]),
    "7b": ([("repeated_beyond_maps", "layers", 0.05)], [("repeated_beyond_maps", "layers", 0.05, "cosine")]),
    "7c": ([("sentence_beyond_maps", "layers", 0.05)], [("sentence_beyond_maps", "layers", 0.05, "cosine")]),
    "8": ([("separator_similarity", 2, 1.1)],
          [("separator_similarity", 2, 1.1, "dot"), ("separator_similarity", 2, 1.1, "cosine"),
           ("separator_against_punctuation", 2, 1.1, None)]),
    "9": ([("reach_within", (2, 1), 0.05)],
          [("reach_within", (2, 1), 0.05, "dot"), ("reach_within", (2, 1), 0.05, "cosine")]),
}  # fmt: skip


def measured(sums: Any, name: str, where: Any, draws: int, **how: Any) -> tuple[float, float, float]:
    """One number of a claim with its interval."""

    def value(corpus: Corpus) -> float:
        if where == "spread":
            return corpus.sigma2(name)
        if where == "layers":
            return corpus.mean_of_layers(name)
        parts = thirds(sums)
        if isinstance(where, int):
            return corpus.of_places(name, parts[where])
        first, second = (corpus.of_places(name, parts[each]) for each in where)
        return first / second if name in RATIOS else first - second

    return interval(value, sums, draws, ratio=name in RATIOS and where not in ("spread", "layers"),
                    root=where == "spread", **how)  # fmt: skip
