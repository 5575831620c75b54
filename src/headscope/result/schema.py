"""What a result holds: every variable with its dimensions and what it means."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headscope.measures.relations import RELATIONS
from headscope.measures.similarity import BINS
from headscope.measures.tally import REGIONS, THRESHOLDS, Shape
from headscope.windows import CATEGORIES

VERSION = 1  # of the files; a file of another version is refused by name


@dataclass(frozen=True, slots=True)
class Variable:
    """One variable: its dimensions and its meaning."""

    dims: tuple[str, ...]
    meaning: str


_HEADS = ("layer", "head")
_PAIRS = (*_HEADS, "level", "distance", "relation")
VARIABLES: dict[str, Variable] = {
    "texts": Variable((), "number of windows"),
    "unsplit": Variable((), "number of windows of texts in which one sentence was found"),
    "pairless": Variable((), "number of windows with fewer than two tokens that count"),
    "tokens": Variable(("category",), "number of tokens"),
    "similarity_sum": Variable((*_HEADS, "i", "j"), "sum of S over windows, filled for i < j"),
    "position_pairs": Variable(("i", "j"), "number of windows in which i < j is a pair"),
    "pairs": Variable(_PAIRS, "number of pairs"),
    "flat": Variable(_HEADS, "number of flat matrices: the largest S is not positive"),
    "diagonal": Variable(_HEADS, "sum over windows, not flat, of mean |O_i|² over largest S"),
    "attention": Variable(
        (*_HEADS, "category"),
        "sum over windows of the mean, over tokens that read, of the weight given to the category",
    ),
    "attention_even": Variable(("category",), "the same for attention spread evenly: the base rate"),
    "attended": Variable((*_HEADS, "attention_threshold", "category"), "number of high-attention tokens"),
    "attended_text": Variable(
        (*_HEADS, "attention_threshold", "category"), "number of high-attention tokens among those that count"
    ),
    "attention_correlation": Variable(
        _HEADS,
        "sum over windows, not flat, of the correlation over pairs between S_ij and (A_ij + A_ji) / 2",
    ),
    "region_sum": Variable((*_HEADS, "region"), "sum of levels of pairs, not flat, at the run's θ"),
    "region_pairs": Variable((*_HEADS, "region"), "number of pairs, not flat, at the run's θ"),
    "mask_sum": Variable((*_HEADS, "attention_threshold", "region"), "sum of levels of pairs, not flat, at every θ"),
    "mask_pairs": Variable((*_HEADS, "attention_threshold", "region"), "number of pairs, not flat, at every θ"),
    "focal_unique": Variable(
        ("layer", "threshold", "unique"), "number of windows in which the heads have so many different focal tokens"
    ),
    "focal_expected": Variable(
        ("layer", "threshold"), "sum over windows of the number of different focal tokens expected by chance"
    ),
    "focal_share": Variable((*_HEADS, "threshold"), "sum over windows of the focal token's share"),
    "focal_few": Variable((*_HEADS, "threshold"), "number of windows with one to nine high pairs"),
    "focal_frequency": Variable(_HEADS, "sum over windows of the focal token's frequency, at the run's τ"),
    "focal_distance": Variable(
        _HEADS, "sum over windows of the mean distance of the pairs with the focal token, at the run's τ"
    ),
    "focal_tokens": Variable((*_HEADS, "token"), "number of windows in which the token id is focal, at the run's τ"),
}
OWN = Variable(_PAIRS, "number of pairs whose two tokens have the same label; a part of `pairs`")
# Kept for each shard, too, so that intervals can be had; the mean matrix would take most of the disk.
ONLY_TOTAL = ("similarity_sum",)
COORDINATES = {
    "layer": "layer, from 0",
    "head": "head, from 0",
    "i": "position of the first token in the window, special tokens included",
    "j": "position of the second token",
    "level": "bin of the pair's level: 0 negative, k for [(k-1)/20, k/20), the maximum in 20",
    "distance": "j - i",
    "relation": "relation of the two tokens, the first that applies",
    "category": "category of the token",
    "region": "both tokens of the pair high in attention, one, none",
    "threshold": "τ: a pair is high when its level is at least τ",
    "attention_threshold": "θ: a token is high when it receives more than θ of the most attended one's attention",
    "unique": "number of different focal tokens",
    "token": "token id",
}


def variable(name: str) -> Variable:
    """What a variable is; the caller's own relations are called pairs_NAME.

    >>> variable("flat").dims
    ('layer', 'head')
    """
    return VARIABLES.get(name, OWN)


def coordinates(shape: Shape) -> dict[str, NDArray[np.generic]]:
    """The coordinates of one stack's dataset, the tokens left out: only a finished run knows which occur."""
    names: dict[str, NDArray[np.generic]] = {
        "layer": np.array(shape.layers, dtype=np.int64),
        "head": np.arange(shape.heads),
        "i": np.arange(shape.length),
        "j": np.arange(shape.length),
        "level": np.arange(BINS),
        "distance": np.arange(1, max(shape.length, 2)),
        "relation": np.array(RELATIONS, dtype=object),
        "category": np.array(CATEGORIES, dtype=object),
        "threshold": np.array(THRESHOLDS),
        "attention_threshold": np.array(THRESHOLDS),
        "unique": np.arange(shape.heads + 1),
    }
    if not shape.cross:
        names["region"] = np.array(REGIONS, dtype=object)
    return names
