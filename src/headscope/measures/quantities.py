"""What is derived: every quantity of docs/method.md, declared once, with its formula, its labels and where it is shown.

Summaries, figures, findings, the report, the viewer and the reference all read these declarations. One of your own is
declared in the same way:

>>> from headscope.measures.derived import ratio
>>> _ = declare(Quantity("diagonal_share", "diagonal over largest S", "how far the diagonal dominates",
...                      lambda view: view.windows("diagonal"), ratio, smallest=0.1, shown=SUMMARY | HEADS))
>>> "diagonal_share" in [each.name for each in shown_in("heads")]
True
>>> withdraw("diagonal_share")
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from dataclasses import dataclass

import numpy as np

from headscope.errors import HeadscopeError
from headscope.measures import derived
from headscope.measures.block_sums import Sums, View
from headscope.measures.derived import Array, ratio

# Where a quantity is shown.
SUMMARY = frozenset({"summary"})  # tables of layers and heads of a run, in Python and on the command line
TEXT = frozenset({"text"})  # the same for a single text, and the viewer's atlas of it
HEADS = frozenset({"heads"})  # scores of heads: atlas, specialists, stability, the viewer's atlas of a run
LAYERS = frozenset({"layers"})  # the figure that goes from layer to layer
EVERYWHERE = SUMMARY | TEXT | HEADS | LAYERS
NOWHERE: frozenset[str] = frozenset()
TENTH = math.log(1.1)  # of a ratio: a tenth more or less

Classes = Callable[[Array, Array], tuple[Array, Array, Array, Array]]


@dataclass(frozen=True, slots=True)
class Quantity:
    """A derived quantity: what it is called, how it comes from sums over blocks, and what no effect would be."""

    name: str
    label: str  # on axes and in tables
    meaning: str  # one sentence, without its subject
    sums: Callable[[View], Sums]  # arrays with the blocks as their first dimension
    formula: Callable[..., Array]  # of those sums
    none: float = math.nan  # without any effect; NaN where there is no such number
    none_formula: Callable[..., Array] | None = None  # of the same sums, where no effect depends on the texts
    smallest: float = math.nan  # difference between heads that matters
    logarithmic: bool = False  # whether heads are compared by its logarithm, and `smallest` is one
    shown: frozenset[str] = NOWHERE
    short: str = ""  # where there is little room
    needs: tuple[str, ...] = ()  # variables that not every result has
    heads: bool = True  # whether a single head has it
    whole: bool = False  # a whole number
    column: str = ""  # the column of the rows per text that shows it best
    matched: Classes | None = None  # the classes of pairs that it compares, where it is a matched ratio

    @property
    def is_ratio(self) -> bool:
        """Whether 1 is no effect, so that it is drawn by its logarithm."""
        return self.none == 1.0

    @property
    def short_label(self) -> str:
        """The label where there is little room."""
        return self.short or self.label

    def value(self, view: View) -> Array:
        """The quantity over all blocks together."""
        return self.formula(*(np.asarray(each, dtype=np.float64).sum(0) for each in self.sums(view)))

    def is_in(self, variables: Collection[str]) -> bool:
        """Whether it can be had from these variables."""
        return all(need in variables for need in self.needs)


# By the view's own methods: a view may be of another kind, as that of a single text at every τ is.
def _pairs(view: View) -> Sums:
    return view.pairs()


def _levels(view: View) -> Sums:
    return view.levels()


def _focal(view: View) -> Sums:
    return view.focal()


def _shares(view: View) -> Sums:
    return view.shares()


def _regions(view: View) -> Sums:
    return view.regions()


def _matched(
    name: str,
    meaning: str,
    formula: Callable[[Array, Array], Array],
    classes: Classes,
    shown: frozenset[str],
    column: str = "",
) -> Quantity:
    label = name.replace("_", " ")
    return Quantity(
        name, label, meaning, _pairs, formula, 1.0, smallest=TENTH, logarithmic=True, shown=shown, column=column,
        matched=classes,
    )  # fmt: skip


def _separation(signal: str, label: str, shown: frozenset[str] = NOWHERE) -> Quantity:
    def formula(pairs: Array) -> Array:
        return derived.separation(pairs, signal)

    meaning = "probability that such a pair has a higher level than an unrelated one at the same distance"
    return Quantity(f"separation_{signal}", label, meaning, _levels, formula, 0.5, heads=False, shown=shown)


def _contrast(inside: Array, pairs_inside: Array, outside: Array, pairs_outside: Array) -> Array:
    return ratio(inside, pairs_inside) - ratio(outside, pairs_outside)


_ALL = (
    Quantity(
        "stop_focus", "focus on sentence stops", "attention to the ends of sentences, over an even spread",
        lambda view: view.focus("stop"), ratio, 1.0, smallest=TENTH, logarithmic=True, shown=EVERYWHERE,
        short="stop focus", column="stop_focus",
    ),
    Quantity(
        "end_focus", "focus on closing special tokens", "attention to closing special tokens, over an even spread",
        lambda view: view.focus("end"), ratio, 1.0, smallest=TENTH, logarithmic=True, shown=EVERYWHERE,
        short="end focus", column="end_focus",
    ),
    Quantity(
        "distance", "distance of similar pairs over that of all",
        "mean distance of similar pairs, over that of all pairs", _pairs, derived.distance_over_base, 1.0,
        smallest=0.05, shown=EVERYWHERE, short="distance", column="distance",
    ),
    _matched(
        "sentence_preference",
        "how much likelier two words of one sentence are to be similar, at equal distance and repetition",
        derived.sentence_preference, derived.sentence_classes, EVERYWHERE, column="sentence_share",
    ),
    _matched(
        "repetition_preference",
        "how much likelier a repeated token is to be similar to itself, at equal distance and sentence",
        derived.repetition_preference, derived.repetition_classes, EVERYWHERE, column="repetition_share",
    ),
    _matched(
        "separator_similarity",
        "how much likelier a sentence stop and another token are to be similar than two words, at equal distance",
        derived.separator_similarity, derived.separator_classes, HEADS | LAYERS,
    ),
    Quantity(
        "reach_within", "reach within the sentence",
        "mean distance of similar pairs of one sentence, over that of all pairs of one sentence", _pairs,
        derived.reach_within, 1.0, shown=LAYERS,
    ),
    Quantity(
        "across_rate", "similar pairs across sentences",
        "similar pairs across sentences, over their number if they fell evenly on pairs of words", _pairs,
        derived.across_rate, 1.0, shown=LAYERS,
    ),
    Quantity(
        "noise_rate", "noise rate", "share of unrelated pairs among the similar pairs of words, over that among all",
        _pairs, derived.noise_rate, 1.0,
    ),
    Quantity(
        "focal_unique", "different focal tokens", "number of different focal tokens among the heads of a layer",
        _focal, lambda number, expected, windows: ratio(number, windows),
        none_formula=lambda number, expected, windows: ratio(expected, windows), shown=SUMMARY, short="focal tokens",
        heads=False,
    ),
    Quantity(
        "focal_expected", "different focal tokens by chance",
        "number of different focal tokens if every head drew a token of the text", _focal,
        lambda number, expected, windows: ratio(expected, windows), shown=SUMMARY, short="by chance", heads=False,
    ),
    Quantity(
        "focal_excess", "different focal tokens beyond chance",
        "number of different focal tokens, less that expected by chance", _focal,
        lambda number, expected, windows: ratio(number, windows) - ratio(expected, windows), 0.0, heads=False,
    ),
    Quantity(
        "focal_share", "common-token score", "share of similar pairs that contain the focal token", _shares, ratio,
        smallest=0.05, shown=EVERYWHERE, short="focal share", column="focal_share",
    ),
    Quantity(
        "focal_frequency", "frequency of the focal token", "share of the window's tokens that are the focal one",
        lambda view: view.windows("focal_frequency"), ratio,
    ),
    Quantity(
        "focal_distance", "distance of the focal token's pairs", "mean distance of similar pairs with the focal token",
        lambda view: view.windows("focal_distance"), ratio,
    ),
    Quantity(
        "mask_contrast", "mask contrast", "mean level inside less that outside the mask of high attention",
        _regions, _contrast, 0.0, smallest=0.02, shown=HEADS | LAYERS, needs=("region_sum",),
    ),
    Quantity(
        "likeness", "likeness to attention", "correlation of similarity with attention",
        lambda view: view.windows("attention_correlation"), ratio, smallest=0.1,
        shown=EVERYWHERE, needs=("attention_correlation",),
    ),
    _separation("sentence", "separation of sentence pairs from noise"),
    _separation("repeated", "separation of repeated pairs from noise"),
    _separation("all", "separation of all related pairs from noise", LAYERS),
    Quantity(
        "high_pairs", "number of similar pairs", "number of pairs whose level is at least τ", _pairs,
        lambda high, every: high.sum((-2, -1)), shown=SUMMARY | TEXT, short="high pairs", whole=True,
    ),
    Quantity(
        "flat", "flat matrices", "number of matrices without a positive similarity",
        lambda view: (view.variable("flat"),), lambda flat: flat, shown=SUMMARY, whole=True,
    ),
)  # fmt: skip
QUANTITIES: dict[str, Quantity] = {quantity.name: quantity for quantity in _ALL}


def declare(quantity: Quantity) -> Quantity:
    """Add a quantity of your own; from then on it stands wherever it says that it is shown."""
    if quantity.name in QUANTITIES or not quantity.name.isidentifier():
        raise HeadscopeError(f"a quantity cannot be called {quantity.name!r}", "use a new name of letters and digits")
    if "heads" in quantity.shown and not quantity.smallest > 0:
        raise HeadscopeError(
            f"{quantity.name!r} is a score of heads without a smallest difference that matters", "give smallest="
        )
    QUANTITIES[quantity.name] = quantity
    return quantity


def withdraw(name: str) -> None:
    """Take back a quantity of your own."""
    if QUANTITIES.get(name) in (None, *_ALL):
        raise HeadscopeError(f"{name!r} is not a quantity of yours", "withdraw what you declared")
    del QUANTITIES[name]


def shown_in(place: str, variables: Collection[str] | None = None) -> list[Quantity]:
    """The quantities that are shown in a place: "summary", "text", "heads" or "layers"; of those that can be had."""
    return [
        each for each in QUANTITIES.values() if place in each.shown and (variables is None or each.is_in(variables))
    ]
