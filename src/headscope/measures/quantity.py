"""A derived quantity: what it is called, which sums it is made of, by which formula, and what no effect would be."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Literal

import numpy as np

from headscope.errors import HeadscopeError
from headscope.measures import heads_first
from headscope.measures.block_sums import THIRDS, BlockSums
from headscope.measures.derived import Array, ratio
from headscope.measures.variables import variable
from headscope.measures.view import Sums, View
from headscope.windows.window import NO_WORDS

BY = ("head", "layer", "third", "model")

# Where a quantity is shown.
SUMMARY = frozenset({"summary"})  # tables of layers and heads of a run, in Python and on the command line
TEXT = frozenset({"text"})  # the same for a single text, and the viewer's atlas of it
HEADS = frozenset({"heads"})  # scores of heads: atlas, specialists, stability, the viewer's atlas of a run
LAYERS = frozenset({"layers"})  # the figure that goes from layer to layer
EVERYWHERE = SUMMARY | TEXT | HEADS | LAYERS
NOWHERE: frozenset[str] = frozenset()

# How S is read for a quantity. "attention": S does not come in. "pairs": from the high pairs at τ in the main reading,
# or from the top pairs of any. "order": in any reading, without a threshold. "maps": so too, or by an attention map.
# "main": in the main reading only.
Read = Literal["attention", "pairs", "order", "maps", "main"]


@dataclass(frozen=True, slots=True)
class Quantity:
    """A derived quantity of heads, or of layers.

    `sums` gives arrays with the dimensions (block, layer, head, …), `formula` makes of their sums over blocks the
    numbers of heads, (…, layer, head). Those of layers, thirds and the model follow (heads_first.py).
    """

    name: str
    label: str  # on axes and in tables
    meaning: str  # one sentence, without its subject
    sums: Callable[[View], Sums]
    formula: Callable[..., Array]
    read: Read = "main"
    none: float = math.nan  # without any effect; NaN where there is no such number
    bound: float = math.nan  # a head beyond it shows the effect; NaN where no claim rests on it
    smallest: float = math.nan  # difference between heads that matters; of logarithms where it is logarithmic
    logarithmic: bool = False  # a ratio: medians and intervals are those of its logarithm
    of_layers: bool = False  # a number of a layer, not of single heads: thirds and the model have the mean over layers
    adds_up: bool = False  # a count: layers have the sum over heads
    needs: tuple[str, ...] = ()  # variables that it is made of
    top_needs: tuple[str, ...] = ()  # where it is read from top pairs: these instead
    lack: str = "there is nothing to compare"  # why there may be no number
    matched: str = ""  # the comparison, where it is a matched ratio
    of_words: bool = False  # rests on words and sentences
    shown: frozenset[str] = NOWHERE
    short: str = ""  # where there is little room
    column: str = ""  # the column of the rows per text that shows it best

    @property
    def short_label(self) -> str:
        """The label where there is little room."""
        return self.short or self.label

    # ------------------------------------------------------------------ what it can be had from

    def ways(self, sums: BlockSums) -> tuple[str | None, ...]:
        """How it can be read: None for the paper's way, then readings, then attention maps."""
        if self.read in ("attention", "main"):
            return (None,)
        if self.read == "pairs":
            return (None, *sums.readings)
        return (*sums.readings, *(sums.maps if self.read == "maps" else ()))

    def lacking(self, view: View) -> str:
        """Why it cannot be had from this view; empty where it can."""
        reading, sums = view.reading, view.sums
        if reading is not None and reading not in self.ways(sums):
            if self.read in ("attention", "main"):
                return f"{self.label} is not read by {reading}"
            kept = ", ".join(str(each) for each in self.ways(sums) if each is not None)
            return f"S was not read by {reading} in this run, only by {kept}"
        if self.of_words and not sums.described:
            return NO_WORDS
        needs = self.top_needs if reading is not None and self.top_needs else self.needs
        missing = next((need for need in needs if need not in sums.stored), None)
        if missing is None:
            return ""
        if variable(missing).of_attention and "attention" not in sums.stored:
            return "attention is not known"
        if variable(missing).needs_map:
            return "in cross-attention maps and pairs are of different tokens"
        return f"{missing} was not kept for this model"

    def is_in(self, variables: Collection[str]) -> bool:
        """Whether it can be had from these variables."""
        return all(need in variables for need in self.needs)

    def check(self, view: View) -> None:
        """Refuse a view that it cannot be had from."""
        problem = self.lacking(view)
        if problem:
            ways = ", ".join(str(each) for each in self.ways(view.sums) if each is not None)
            raise HeadscopeError(
                f"there is no {self.name} here: {problem}",
                f"use one of {ways}, or analyse again with --reading" if ways else "ask for another quantity or stack",
            )

    # ------------------------------------------------------------------ its numbers over all blocks

    def of_heads(self, view: View) -> Array:
        """The numbers of heads over all blocks together: (L, H); (L, 1) where it is a quantity of layers."""
        return self.formula(*(np.asarray(each, dtype=np.float64).sum(0) for each in self.sums(view)))

    def value(self, view: View, by: str = "layer") -> Array:
        """The quantity over all blocks together by "head", "layer", "third" of the depth, or for the "model"."""
        return self.summarised(self.of_heads(view), view.sums, by)

    # ------------------------------------------------------------------ from heads to layers, thirds and the model

    def summarised(self, values: Array, sums: BlockSums, by: str) -> Array:
        """Numbers of heads, (…, L, H), as those of "head", "layer", "third" or "model": the median over heads."""
        if by == "head":
            return np.broadcast_to(values, (*values.shape[:-2], len(sums.layers), values.shape[-1]))
        if by not in BY:
            raise HeadscopeError(f"by={by!r} is not possible", f"use one of {', '.join(BY)}")
        each = np.stack([self.of_places(values, places, sums) for places in places_of(sums, by)], axis=-1)
        return each[..., 0] if by == "model" else each

    def of_places(self, values: Array, places: list[int], sums: BlockSums) -> Array:
        """The number of some layers, by their places: (…, L, H) to (…)."""
        own = self.heads_of(values, places, sums)
        if self.adds_up:
            return np.asarray(own.sum(-1)) if own.shape[-1] else np.full(own.shape[:-1], np.nan)
        return heads_first.mean(own) if self.of_layers else heads_first.median(own, logarithmic=self.logarithmic)

    def heads_of(self, values: Array, places: list[int], sums: BlockSums) -> Array:
        """The numbers of the heads of some layers in one dimension: (…, L, H) to (…, heads)."""
        every = np.broadcast_to(values, (*values.shape[:-2], len(sums.layers), values.shape[-1]))
        return heads_first.together(every[..., places, :])

    def pooled(self, view: View, by: str = "layer") -> Array:
        """What a typical pair does: sums added up over heads before the formula. No verdict rests on it."""
        return self.pooled_of([np.asarray(each, dtype=np.float64).sum(0) for each in self.sums(view)], view.sums, by)

    def pooled_of(self, totals: list[Array], sums: BlockSums, by: str = "layer") -> Array:
        """The same from sums over blocks, (L, H, …) each."""
        shape = (len(sums.layers), 1 if self.of_layers else sums.heads)
        every = [np.broadcast_to(each, (*shape, *each.shape[2:])) for each in totals]
        if by == "head":
            return self.formula(*every)
        found = [
            self.formula(*(each[places].sum((0, 1), keepdims=True) for each in every))[0, 0]
            for places in places_of(sums, by)
        ]
        return np.array(found).reshape(() if by == "model" else -1)


def places_of(sums: BlockSums, by: str) -> list[list[int]]:
    """The places of the layers that are taken together, for each number of a view."""
    every = list(range(len(sums.layers)))
    return {"layer": [[k] for k in every], "third": [sums.third(name) for name in THIRDS], "model": [every]}[by]


def contrast_of_means(total1: Array, number1: Array, total0: Array, number0: Array) -> Array:
    """One mean less another."""
    return ratio(total1, number1) - ratio(total0, number0)


def share_over_base(part: Array, whole: Array, base_part: Array, base_whole: Array) -> Array:
    """One share over another."""
    return ratio(ratio(part, whole), ratio(base_part, base_whole))
