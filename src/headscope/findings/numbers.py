"""Numbers of one result with their intervals: of heads, layers, thirds, the model, and differences of thirds.

Each quantity's heads are drawn once and kept, so that a third, its layers and the difference of two thirds come from
the same draws.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import numpy as np

from headscope.findings.resampling import Drawn, Estimate, Resampling
from headscope.findings.specialisation import specialisation, variances_of_layers
from headscope.measures import derived, heads_first
from headscope.measures.block_sums import THIRDS, BlockSums
from headscope.measures.derived import Array, ratio
from headscope.measures.quantities import named
from headscope.measures.quantity import Quantity
from headscope.measures.view import View

MEAN_OF_LAYERS, SPREAD = "mean of layers", "spread of heads"
Where = str | tuple[str, str]  # a third; two thirds, the first against the second; or one of the two above
MOST_OF_ONE = 0.1  # of a third's matched counts may come from one block …
TIMES_ITS_TEXTS = 4  # … unless it has a fourth of that share of the texts
FEWEST_HEADS = 0.5  # share of the heads that must have a number


@dataclass(frozen=True, slots=True)
class Number:
    """One number of a model: a quantity, where in the model, and how S is read for it."""

    quantity: str
    where: Where
    reading: str | None = None  # None: the paper's way, high pairs at τ


@dataclass(frozen=True, slots=True)
class Measured:
    """A number with its interval, and what stands beside it. `why` says what is wrong with it; empty: nothing."""

    value: float = math.nan
    low: float = math.nan
    high: float = math.nan
    error: float = math.nan  # standard error; of a ratio, that of its logarithm
    logarithmic: bool = False
    pooled: float = math.nan  # what a typical pair does
    lower_quartile: float = math.nan  # of the heads
    upper_quartile: float = math.nan
    heads: int = 0  # that have a number
    of_heads: int = 0
    values: tuple[float, ...] = field(default=(), repr=False)  # of the heads that have one
    why: str = ""
    missing: bool = False  # whether it cannot be had from this run at all


@dataclass(frozen=True, slots=True)
class Heads:
    """What is kept of a quantity's heads."""

    drawn: Drawn  # (L, H), (draws, L, H)
    totals: list[Array]  # the sums over blocks that they are made of: (L, H, …)
    matched: list[Array]  # a and b of each block, (S, L, H), where it is a matched ratio


@dataclass
class Numbers:
    """The numbers of one result at a τ and a θ (None: the run's own)."""

    sums: BlockSums
    resample: Resampling
    tau: float | None = None
    theta: float | None = None
    _heads: dict[tuple[str, str | None], Heads] = field(default_factory=dict, repr=False)
    _spreads: dict[tuple[str, str | None], Drawn] = field(default_factory=dict, repr=False)

    def view(self, reading: str | None = None) -> View:
        """How the sums are read."""
        return View(self.sums, self.tau, self.theta, reading)

    def heads(self, quantity: Quantity, reading: str | None = None) -> Drawn:
        """The numbers of single heads from all blocks and from each draw: (L, H) and (draws, L, H)."""
        return self._of_heads(quantity, reading).drawn

    def _of_heads(self, quantity: Quantity, reading: str | None) -> Heads:
        key = quantity.name, reading
        if key not in self._heads:
            view = self.view(reading)
            if quantity.matched and view.over_windows:  # from the pairs of all levels: large, so a layer at a time
                layers = [self.sums.layer(k) for k in range(len(self.sums.layers))]
                parts = [heads_of(quantity, replace(view, sums=one), self.resample) for one in layers]
                self.keep(quantity, parts)
            else:
                self._heads[key] = heads_of(quantity, view, self.resample)
        return self._heads[key]

    def spread(self, quantity: Quantity, reading: str | None = None) -> Estimate:
        """The spread of a layer's heads with the noise taken out, mean over layers."""
        key = quantity.name, reading
        if key not in self._spreads:
            self._spreads[key] = variances_of_layers(quantity, quantity.sums(self.view(reading)), self.resample)
        return specialisation(self._spreads[key], self.resample)

    def keep_spread(self, quantity: Quantity, layers: Drawn, reading: str | None = None) -> None:
        """Take variances of layers that were worked out elsewhere."""
        self._spreads[quantity.name, reading] = layers

    def keep(self, quantity: Quantity, layers: list[Heads], reading: str | None = None) -> None:
        """Take numbers that were worked out a layer at a time."""
        self._heads[quantity.name, reading] = Heads(
            Drawn(*(np.concatenate([getattr(one.drawn, name) for one in layers], -2) for name in ("value", "draws"))),
            _joined([one.totals for one in layers], 0),
            _joined([one.matched for one in layers], 1),
        )

    def by(self, quantity: Quantity, by: str, reading: str | None = None) -> Estimate:
        """A quantity by "head", "layer", "third" or for the "model" with its intervals."""
        drawn = self.heads(quantity, reading).then(lambda values: quantity.summarised(values, self.sums, by))
        return self.resample.interval(drawn, logarithmic=quantity.logarithmic)

    def pooled(self, quantity: Quantity, by: str, reading: str | None = None) -> Array:
        """The same of sums added up over heads, without an interval."""
        return quantity.pooled_of(self._of_heads(quantity, reading).totals, self.sums, by)

    # ------------------------------------------------------------------ one number for a claim

    def measure(self, number: Number) -> Measured:
        """One number with its interval, or why there is none."""
        quantity, view = named(number.quantity), self.view(number.reading)
        lacking = quantity.lacking(view)
        if lacking:
            return Measured(why=lacking, missing=True)
        if quantity.read != "attention" and not self.sums.windows.sum():
            return Measured(why="no window has two tokens to compare")
        if quantity.of_layers and self.sums.heads < 2:
            return Measured(why="there is one head")
        thirds = [number.where] if number.where in THIRDS else list(number.where) if _is_pair(number.where) else []
        for third in thirds:
            if not self.sums.third(str(third)):
                return Measured(why=f"no layer of the {third} third was read")
        found = self._spread(quantity, number) if number.where == SPREAD else self._median(quantity, number, thirds)
        if found.why or math.isnan(found.value):
            return found if found.why else replace(found, why=quantity.lack)
        return replace(found, why=self._doubt(quantity, number.reading, found, thirds))

    def layers(self, number: Number) -> Estimate | None:
        """The numbers of single layers, where a claim's number is made of such."""
        if _is_pair(number.where) or number.where == SPREAD:
            return None
        return self.by(named(number.quantity), "layer", number.reading)

    def _median(self, quantity: Quantity, number: Number, thirds: list[str]) -> Measured:
        """Of one third, of two compared, or the mean over layers."""
        drawn, sums = self.heads(quantity, number.reading), self.sums
        every = list(range(len(sums.layers)))
        log = quantity.logarithmic

        def one(values: Array) -> Array:
            if not thirds:
                return heads_first.mean(quantity.summarised(values, sums, "layer"))
            medians = [quantity.of_places(values, sums.third(third), sums) for third in thirds]
            if len(medians) == 1:
                return medians[0]
            return ratio(*medians) if log else medians[0] - medians[1]

        found = self.resample.interval(drawn.then(one), logarithmic=log)
        places = [sums.third(third) for third in thirds] or [every]
        groups = [quantity.heads_of(drawn.value, each, sums) for each in places]
        fullest = min(groups, key=lambda own: float(np.isfinite(own).mean()))
        single = len(groups) == 1 and not quantity.of_layers
        known = fullest[np.isfinite(fullest)]
        quartiles = [float(heads_first.quantile(known, share, logarithmic=log)) for share in (0.25, 0.75)]
        return Measured(
            float(found.value),
            float(found.low),
            float(found.high),
            float(found.error),
            logarithmic=log,
            pooled=self._pooled(quantity, number, thirds),
            lower_quartile=quartiles[0] if single else math.nan,
            upper_quartile=quartiles[1] if single else math.nan,
            heads=len(known),
            of_heads=len(fullest),
            values=tuple(known.tolist()) if single else (),
        )

    def _pooled(self, quantity: Quantity, number: Number, thirds: list[str]) -> float:
        if not thirds:
            return float(heads_first.mean(self.pooled(quantity, "layer", number.reading)))
        by_third = self.pooled(quantity, "third", number.reading)
        each = [by_third[THIRDS.index(third)] for third in thirds]
        if len(each) == 1:
            return float(each[0])
        return float(ratio(*each) if quantity.logarithmic else each[0] - each[1])

    def _spread(self, quantity: Quantity, number: Number) -> Measured:
        if self.sums.heads < 2:
            return Measured(why="there is one head")
        if self.sums.blocks < 2:
            return Measured(why="the texts are in one block: nothing tells heads from chance")
        found = self.spread(quantity, number.reading)
        heads = self.heads(quantity, number.reading).value
        return Measured(
            float(found.value),
            float(found.low),
            float(found.high),
            float(found.error),
            heads=int(np.isfinite(heads).sum()),
            of_heads=heads.size,
        )

    def _doubt(self, quantity: Quantity, reading: str | None, found: Measured, thirds: list[str]) -> str:
        """What leaves a question open, however narrow the interval."""
        if found.heads < FEWEST_HEADS * found.of_heads:
            what = "layers" if quantity.of_layers else "heads"
            return f"only {found.heads} of {found.of_heads} {what} have a number"
        for third in thirds if quantity.matched else []:
            counts = [side[:, self.sums.third(third)] for side in self._of_heads(quantity, reading).matched]
            share, texts = concentration(counts, self.sums.texts)
            if share > 0:
                return (
                    f"one block of texts supplies {share:.0%} of what the {third} layers are compared by, with "
                    f"{texts:.0%} of the texts"
                )
        if len(self.resample.weights) and math.isnan(found.low):
            return "too many draws of the texts have nothing to compare"
        return ""


def heads_of(quantity: Quantity, view: View, resample: Resampling) -> Heads:
    """A quantity's heads: their numbers, sums over blocks, and where it is a matched ratio, a and b of each block."""
    sums = [np.asarray(each, dtype=np.float64) for each in quantity.sums(view)]
    matched: list[Array] = []
    if quantity.matched:
        matched = sums if len(sums) == 2 else list(derived.matched_counts(*sums))
    return Heads(resample.draw(quantity.formula, *sums), [each.sum(0) for each in sums], matched)


def concentration(counts: list[Array], texts: Array) -> tuple[float, float]:
    """The share of a or b, (S, L, H) each, that one block supplies, and its share of the texts.

    (0, 0) where no block supplies more than a tenth and more than four times its share of the texts.
    """
    of_texts = np.nan_to_num(ratio(texts, texts.sum()))
    most = 0.0, 0.0
    for side in counts:
        own = side.sum((1, 2))
        share = np.nan_to_num(ratio(own, own.sum()))
        large = (share > MOST_OF_ONE) & (share > TIMES_ITS_TEXTS * of_texts)
        if large.any():
            worst = int(np.where(large, share, 0).argmax())
            most = max(most, (float(share[worst]), float(of_texts[worst])))
    return most


def _joined(parts: list[list[Array]], axis: int) -> list[Array]:
    """Arrays of single layers as arrays of all; what is the same for all layers too."""
    return [np.concatenate(each, axis) for each in zip(*parts, strict=True)]


def _is_pair(where: Where) -> bool:
    return isinstance(where, tuple)
