"""What stands out in an inspection, in sentences that need no knowledge of the method."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

if TYPE_CHECKING:
    from headscope.inspection.core import Inspection

ENOUGH = 10  # high pairs that a head must have before anything is said of it


def in_words(inspection: Inspection, tau: float = 0.5) -> list[str]:
    """Sentences on separators, distance, sentences, repetition and focal tokens, as far as this text shows them.

    One text is an illustration: nothing here is a finding about the model.
    """
    layers, heads = inspection.layer_summary(tau), inspection.summary(tau)
    told = heads[heads.high_pairs >= ENOUGH]
    found = [
        _separators(layers),
        _distance(layers),
        _sentence(told),
        _repetition(told),
        _common_token(told),
        _different_focal(layers),
    ]
    return [sentence for sentence in found if sentence]


def times(ratio: float) -> str:
    """A ratio in words; beyond a hundred its size is chance.

    >>> times(3.21), times(955.0)
    ('3.2 times', 'over 100 times')
    """
    return f"{ratio:.1f} times" if ratio <= 100 else "over 100 times"


def _top(heads: pd.DataFrame, column: str) -> Any:
    """The row with the largest value in a column."""
    order = heads.sort_values(column, ascending=False, kind="stable")
    return next(order.rename(columns={"head": "head_"}).itertuples(index=False))


def _by_layer(layers: pd.DataFrame, column: str) -> dict[int, float]:
    """A column's numbers by layer, where there are any."""
    pairs = zip(layers.layer.tolist(), layers[column].tolist(), strict=True)
    return {layer: value for layer, value in pairs if math.isfinite(value)}


def _separators(layers: pd.DataFrame) -> str:
    focus = _by_layer(layers, "stop_focus")
    if not focus:
        return ""
    best, last = max(focus, key=focus.__getitem__), max(focus)
    if focus[best] < 1.1:
        return "No layer reads the ends of sentences more than any other token."
    rest = f", the last layer {times(focus[last])}" if best != last else ""
    return (
        f"Layer {best} reads the ends of sentences (full stops and the like) {times(focus[best])} as much as if it "
        f"spread its attention evenly{rest}."
    )


def _distance(layers: pd.DataFrame) -> str:
    distance = _by_layer(layers, "distance")
    if not distance:
        return ""
    near, far = min(distance, key=distance.__getitem__), max(distance, key=distance.__getitem__)
    return (
        f"Similar words lie closest together in layer {near} ({distance[near]:.0%} of the distance of any two words) "
        f"and farthest apart in layer {far} ({distance[far]:.0%})."
    )


def _sentence(heads: pd.DataFrame) -> str:
    known = heads[np.isfinite(heads.sentence_preference)]
    if known.empty:
        return ""
    best = _top(known, "sentence_preference")
    if best.sentence_preference < 1.1:
        return "No head finds words of the same sentence more alike than words as far apart in two sentences."
    return (
        f"Layer {best.layer}, head {best.head_} keeps to the sentence most: two words of one sentence are "
        f"{times(best.sentence_preference)} as likely to be similar as two words as far apart in different ones."
    )


def _repetition(heads: pd.DataFrame) -> str:
    known = heads[np.isfinite(heads.repetition_preference)]
    if known.empty:
        return ""
    best = _top(known, "repetition_preference")
    if best.repetition_preference < 1.1:
        return "No head finds a repeated word more like itself than like others."
    return (
        f"Layer {best.layer}, head {best.head_} finds repetitions: a word and its repetition are "
        f"{times(best.repetition_preference)} as likely to be similar as two different words that far apart."
    )


def _common_token(heads: pd.DataFrame) -> str:
    if heads.empty:
        return ""
    best = _top(heads, "focal_share")
    return (
        f"Layer {best.layer}, head {best.head_} gathers round one token: “{best.focal_token}” is in "
        f"{best.focal_share:.0%} of its {best.high_pairs} high pairs."
    )


def _different_focal(layers: pd.DataFrame) -> str:
    if not layers.focal_expected.max() > 0:
        return ""
    first, last = layers.iloc[0], layers.iloc[-1]
    return (
        f"The heads of the first layer gather round {first.focal_unique:.0f} different tokens, those of the last round "
        f"{last.focal_unique:.0f}; by chance alone it would be about {last.focal_expected:.0f}."
    )
