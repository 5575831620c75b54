"""What is derived: every quantity of docs/method.md, declared once, with its formula, its labels and where it is shown.

Summaries, figures, findings, the report, the viewer and the reference all read these declarations. One of your own is
declared in the same way:

>>> from headscope.measures.derived import ratio
>>> _ = declare(Quantity("diagonal_share", "diagonal over largest S", "how far the diagonal dominates",
...                      lambda view: (view.head("diagonal"), view.not_flat()), ratio, smallest=0.1,
...                      shown=SUMMARY | HEADS))
>>> "diagonal_share" in [each.name for each in shown_in("heads")]
True
>>> withdraw("diagonal_share")
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection

import numpy as np

from headscope.errors import HeadscopeError
from headscope.measures import derived
from headscope.measures.derived import Array, ratio
from headscope.measures.quantity import (
    EVERYWHERE,
    HEADS,
    LAYERS,
    NOWHERE,
    SUMMARY,
    TEXT,
    Quantity,
    contrast_of_means,
    share_over_base,
)
from headscope.measures.view import WITHIN

TENTH = math.log(1.1)  # of a ratio: a tenth more or less
ABOVE = 1.1  # where a ratio shows an effect
_PAIRS = ("base_pairs", "distance_sum")
_WINS = ("wins", "contrast_weight")


def _focus(category: str, whom: str, shown: frozenset[str]) -> Quantity:
    return Quantity(
        f"separator_focus_{category}", f"separator focus, {whom}", f"attention to {whom}, over an even spread",
        lambda view: view.focus(category), ratio, "attention", 1.0, ABOVE, TENTH, logarithmic=True,
        needs=("attention", "attention_even"), lack=f"there are no {whom} that could be read", shown=shown,
        of_words=category == "stop",
        short=f"separator focus {category}", column=f"separator_focus_{category}",
    )  # fmt: skip


def _weighted(category: str, whom: str) -> Quantity:
    return Quantity(
        f"separator_focus_{category}_weighted", f"weighted separator focus, {whom}",
        f"attention to {whom} that carries something: weighed by the length of what is read, over an even spread",
        lambda view: view.focus(category, "attention_weighted"), ratio, "attention", 1.0, ABOVE, TENTH,
        logarithmic=True, needs=("attention_weighted", "attention_even"), of_words=category == "stop",
        lack=f"there are no {whom} that could be read, or the model's value vectors are not known",
    )  # fmt: skip


def _among_attended(category: str, whom: str) -> Quantity:
    return Quantity(
        f"{category}_among_attended", f"{whom} among attended tokens",
        f"share of {whom} among the tokens that receive more than θ, over their share of all tokens",
        lambda view: view.attended(category), share_over_base, "attention", 1.0, ABOVE, TENTH, logarithmic=True,
        needs=("attended", "tokens"), of_words=category == "stop", lack=f"there are no {whom}, or no token passes θ",
    )  # fmt: skip


def _matched(
    name: str, comparison: str, label: str, meaning: str, classes: str, shown: frozenset[str] = NOWHERE, short: str = ""
) -> Quantity:
    return Quantity(
        name, label, meaning, lambda view: view.matched(comparison), derived.matched_ratio, "pairs", 1.0, ABOVE, TENTH,
        logarithmic=True, needs=("base_pairs",), top_needs=("top_matched",), matched=comparison, shown=shown,
        of_words=True,
        lack=f"too few similar pairs can be compared: {classes}", short=short, column=name if shown else "",
    )  # fmt: skip


def _separation(contrast: str, pairs: str, shown: frozenset[str]) -> tuple[Quantity, Quantity]:
    """How well such pairs are told from unrelated ones: by S or by a map; and by S beyond the better map."""
    lack = f"no window has {pairs} and unrelated pairs at the same distance"
    by_any = Quantity(
        f"separation_{contrast}", f"separation of {pairs}",
        f"probability that one of the {pairs} lies above an unrelated pair at the same distance in the same text",
        lambda view: view.order(contrast), ratio, "maps", 0.5, smallest=0.05, needs=_WINS, lack=lack, shown=shown,
        of_words=True,
        column=f"separation_{contrast}",
    )  # fmt: skip
    beyond = Quantity(
        f"{contrast}_beyond_maps", f"separation of {pairs}, beyond attention's",
        f"how much better S tells {pairs} from unrelated ones than the better of the attention maps",
        lambda view: view.order_and_maps(contrast), derived.auc_beyond_maps, "order", 0.0, 0.05, 0.05,
        needs=(*_WINS, "attention_wins"), lack=lack, of_words=True, shown=shown - HEADS - SUMMARY - TEXT,
    )  # fmt: skip
    return by_any, beyond


def _focal(
    name: str, label: str, meaning: str, formula: Callable[[Array, Array], Array], shown: frozenset[str], short: str,
    none: float = math.nan, bound: float = math.nan,
) -> Quantity:  # fmt: skip
    return Quantity(
        name, label, meaning, lambda view: view.focal(), formula, "pairs", none, bound, of_layers=True,
        needs=("focal_unique", "focal_null"), top_needs=("top_unique", "top_null"), lack="no window has pairs",
        shown=shown, short=short,
    )  # fmt: skip


def _excess(unique: Array, null: Array) -> Array:
    """Different focal tokens less those of the null, over the number of heads."""
    heads = max(unique.shape[-1] - 1, 1)
    difference: Array = (derived.mean_of_counts(unique) - derived.mean_of_counts(null)) / heads
    return difference


_ALL = (
    _focus("stop", "sentence stops", EVERYWHERE),
    _focus("end", "closing special tokens", EVERYWHERE),
    _weighted("stop", "sentence stops"),
    _weighted("end", "closing special tokens"),
    _among_attended("stop", "sentence stops"),
    _among_attended("end", "closing special tokens"),
    Quantity(
        "attention_spread", "spread of attention", "entropy of attention over the largest possible: 1 is even",
        lambda view: (view.head("attention_entropy"), view.texts()), ratio, "attention", 1.0, smallest=0.05,
        needs=("attention_entropy",), shown=SUMMARY | LAYERS, short="spread",
    ),
    Quantity(
        "reach", "reach of similar pairs", "mean distance of similar pairs, over that of all pairs",
        lambda view: view.distances(), derived.distance_over_base, "pairs", 1.0, smallest=0.05, needs=_PAIRS,
        top_needs=("base_pairs", "top_pairs"), lack="there are no similar pairs", shown=EVERYWHERE, short="reach",
        column="mean_distance",
    ),
    _matched(
        "sentence_preference", "sentence", "sentence preference",
        "how much likelier two words of one sentence are to be similar, at equal distance and repetition",
        "of one sentence and across sentences", EVERYWHERE,
    ),
    _matched(
        "repetition_preference", "repetition", "repetition preference",
        "how much likelier a repeated token is to be similar to itself, at equal distance and sentence",
        "of a repeated token and of two different ones", EVERYWHERE,
    ),
    _matched(
        "separator_similarity", "stop", "separator similarity",
        "how much likelier a sentence stop and a word are to be similar than two words, at equal distance",
        "of a stop and a word, and of two words", EVERYWHERE,
    ),
    _matched(
        "separator_against_punctuation", "stop_punctuation", "separator similarity against punctuation",
        "how much likelier a sentence stop and a word are to be similar than other punctuation and a word, at equal "
        "distance", "of a stop and a word, and of other punctuation and a word",
    ),
    _matched(
        "noise_rate", "noise", "noise rate",
        "how much likelier two unrelated words are to be similar than two related ones, at equal distance",
        "of unrelated words and of related ones",
    ),
    Quantity(
        "reach_within", "reach within the sentence",
        "mean distance of similar pairs of one sentence, over that of all pairs of one sentence",
        lambda view: view.distances(WITHIN), derived.distance_over_base, "pairs", 1.0, smallest=0.05, needs=_PAIRS,
        top_needs=("base_pairs", "top_pairs"), lack="there are no similar pairs of one sentence", shown=LAYERS,
        of_words=True,
    ),
    _focal(
        "focal_unique", "different focal tokens", "number of different focal tokens among the heads of a layer",
        lambda unique, null: derived.mean_of_counts(unique), SUMMARY, "focal tokens",
    ),
    _focal(
        "focal_null", "different focal tokens by chance",
        "the same number where tokens that occur equally often have exchanged their places",
        lambda unique, null: derived.mean_of_counts(null), SUMMARY, "by chance",
    ),
    _focal(
        "focal_excess", "different focal tokens beyond chance",
        "number of different focal tokens minus that by chance, over the number of heads", _excess, LAYERS,
        "focal excess", 0.0, 0.02,
    ),
    Quantity(
        "focal_mixed", "different focal tokens of mixed heads",
        "number of different focal tokens among as many heads drawn from all layers", lambda view: view.mixed(), ratio,
        "order", of_layers=True, needs=("top_mixed",), lack="no window has pairs",
    ),
    Quantity(
        "focal_share", "focal share", "common-token score: share of similar pairs that contain the focal token",
        lambda view: view.shares(), ratio, smallest=0.05, needs=("focal_share", "flat"), shown=EVERYWHERE,
        column="focal_share", lack="all matrices are flat",
    ),
    Quantity(
        "focal_frequency", "frequency of the focal token", "share of the window's tokens that are the focal one",
        lambda view: (view.head("focal_frequency"), view.not_flat()), ratio, needs=("focal_frequency", "flat"),
    ),
    Quantity(
        "focal_distance", "distance of the focal token's pairs", "mean distance of similar pairs with the focal token",
        lambda view: (view.head("focal_distance"), view.not_flat()), ratio, needs=("focal_distance", "flat"),
    ),
    Quantity(
        "focal_longest", "focal tokens with the longest output",
        "share of windows in which the focal token is the one with the longest output",
        lambda view: (view.head("focal_longest"), view.not_flat()), ratio, needs=("focal_longest", "flat"),
    ),
    Quantity(
        "norm_correlation", "norm dependence",
        "dependence on vector length: correlation over tokens between the length of the output and the number of top "
        "pairs a token is in",
        lambda view: (view.head("norm_correlation"), view.windows()), ratio, "order", 0.0, smallest=0.1,
        needs=("norm_correlation",), lack="no window has pairs", shown=LAYERS,
    ),
    Quantity(
        "mask_auc", "mask AUC",
        "probability that a pair of two tokens with high attention lies above one of two without, at the same distance",
        lambda view: view.order("inside"), ratio, "order", 0.5, 0.55, 0.05, needs=(*_WINS, "mask_pairs"),
        lack="no window has pairs both inside and outside the mask", shown=HEADS | LAYERS,
        column="mask_auc",
    ),
    Quantity(
        "mask_contrast", "mean level inside the mask minus outside",
        "mean level of pairs of two tokens with high attention, minus that of two without, at θ",
        lambda view: view.mask(), contrast_of_means, "main", 0.0, needs=("mask_sum", "mask_pairs"),
        lack="no pair lies inside the mask, or none outside",
    ),
    Quantity(
        "likeness", "likeness to attention",
        "correlation of similarity with attention, by the map that it is more like", lambda view: view.correlations(),
        derived.larger_mean, "order", smallest=0.1, needs=("attention_correlation",), lack="no window has pairs",
        shown=EVERYWHERE, column="likeness",
    ),
    Quantity(
        "unlikeness", "1 minus likeness to attention", "what is left of similarity beside attention",
        lambda view: view.correlations(), lambda *sums: 1 - derived.larger_mean(*sums), "order", 0.0, 0.5,
        needs=("attention_correlation",), lack="no window has pairs",
    ),
    *_separation("sentence", "pairs of one sentence", HEADS | LAYERS),
    *_separation("repeated", "repetitions", HEADS | LAYERS),
    *_separation("related", "related pairs", NOWHERE),
    Quantity(
        "high_pairs", "number of similar pairs", "number of pairs whose level is at least τ",
        lambda view: (view.number(),), np.asarray, "pairs", adds_up=True, needs=("base_pairs",),
        top_needs=("top_pairs",), shown=SUMMARY | TEXT, short="high pairs",
    ),
    Quantity(
        "flat", "flat matrices", "number of matrices without a positive similarity",
        lambda view: (view.head("flat"),), np.asarray, adds_up=True, needs=("flat",), shown=SUMMARY,
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


def named(name: str) -> Quantity:
    """A quantity by its name.

    >>> named("mask_auc").none
    0.5
    """
    if name not in QUANTITIES:
        raise HeadscopeError(f"there is no quantity {name!r}", f"use one of {', '.join(QUANTITIES)}")
    return QUANTITIES[name]


def shown_in(place: str, variables: Collection[str] | None = None) -> list[Quantity]:
    """The quantities that are shown in a place: "summary", "text", "heads" or "layers"; of those that can be had."""
    return [
        each for each in QUANTITIES.values() if place in each.shown and (variables is None or each.is_in(variables))
    ]
