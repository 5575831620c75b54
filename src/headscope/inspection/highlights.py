"""What stands out in an inspection, in sentences that need no knowledge of the method.

Each sentence gives the counts it rests on, and is left out where they are small: one text has few pairs, and the most
extreme of 144 ratios is mostly chance.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from headscope.choices import FEW_PAIRS, first_high_bin
from headscope.errors import counted
from headscope.inspection.summary import heads_of_layer
from headscope.measures.relations import BOTH, REPEATED, SAME_SENTENCE, UNRELATED

if TYPE_CHECKING:
    from headscope.inspection.inspection import Inspection

KINDS = 3  # different words that a repetition head must find


def in_words(inspection: Inspection, tau: float = 0.5) -> list[str]:
    """Sentences on separators, distance, sentences, repetition and focal tokens, as far as this text shows them.

    One text is an illustration: nothing here is a finding about the model.
    """
    count = int(inspection.counting.sum())
    if count < FEW_PAIRS:
        return [f"The text is too short to say anything about the heads: {counted(count, 'token')} to compare."]
    layers = inspection.layer_summary(tau)
    heads = list(word_pairs(inspection, tau)) if inspection.window.described else []
    sentences = [
        _separators(layers),
        _distance(layers),
        _sentence(heads),
        _repetition(heads),
        _common_token(inspection, tau),
        _different_focal(layers),
    ]
    return [sentence for sentence in sentences if sentence] + [f"Missing: {what}." for what in inspection.missing]


@dataclass(frozen=True, slots=True)
class WordPairs:
    """The high pairs of two known words of one head, and what the text would give by itself."""

    name: str
    high: int
    in_sentence: int
    by_distance: float  # how many of them would be in one sentence if only their distances mattered
    repeated: int
    kinds: int  # different words among the repeated
    base: float  # share of repeated pairs among all pairs of words


def word_pairs(inspection: Inspection, tau: float) -> Iterator[WordPairs]:
    """Count the high pairs of words of every head."""
    first, second = (place.numpy() for place in inspection.places)
    relation = inspection.relations.numpy()
    unknown = inspection.window.unknown
    known = ~(unknown[first] | unknown[second])
    words = known & np.isin(relation, (BOTH, SAME_SENTENCE, REPEATED, UNRELATED))
    same, again = np.isin(relation, (BOTH, SAME_SENTENCE)), np.isin(relation, (BOTH, REPEATED))
    share = _share_by_distance((second - first)[words], same[words], len(inspection.window))
    base = float(again[words].mean()) if words.any() else 0.0
    for k, layer in enumerate(inspection.captured.layers):
        for head, bins in enumerate(inspection.layer_pairs(k).bin.numpy()):
            high = words & (bins >= first_high_bin(tau))
            yield WordPairs(
                f"Layer {layer}, head {head}",
                int(high.sum()),
                int((high & same).sum()),
                float(share[(second - first)[high]].sum()),
                int((high & again).sum()),
                len(set(inspection.window.ids[first[high & again]].tolist())),
                base,
            )


def _share_by_distance(distance: NDArray[Any], same: NDArray[Any], longest: int) -> NDArray[np.float64]:
    """Of all pairs of words at each distance, how many are in one sentence."""
    every = np.bincount(distance, minlength=longest)
    inside = np.bincount(distance[same], minlength=longest)
    return inside / np.maximum(every, 1)


def times(ratio: float) -> str:
    """A ratio in words; beyond a hundred its size is chance.

    >>> times(3.21), times(955.0)
    ('3.2 times', 'over 100 times')
    """
    return f"{ratio:.1f} times" if ratio <= 100 else "over 100 times"


def _by_layer(layers: pd.DataFrame, column: str) -> dict[int, float]:
    """A column's numbers by layer, where there are any."""
    pairs = zip(layers.layer.tolist(), layers[column].tolist(), strict=True)
    return {layer: value for layer, value in pairs if math.isfinite(value)}


def _separators(layers: pd.DataFrame) -> str:
    focus = _by_layer(layers, "separator_focus_stop")
    if not focus:
        return ""
    best, last = max(focus, key=focus.__getitem__), max(focus)
    if focus[best] < 1.1:
        return (
            "In no layer does a typical head read the ends of sentences (full stops and the like) much more than if it "
            f"spread its attention evenly: at most {times(focus[best])} as much, in layer {best}."
        )
    rest = f"; a typical head of the last layer {times(focus[last])}" if best != last else ""
    return (
        f"A typical head of layer {best} reads the ends of sentences (full stops and the like) {times(focus[best])} as "
        f"much as if it spread its attention evenly{rest}."
    )


def _distance(layers: pd.DataFrame) -> str:
    distance = _by_layer(layers[layers.high_pairs >= FEW_PAIRS], "reach")
    if len(distance) < 2:
        return ""
    near, far = min(distance, key=distance.__getitem__), max(distance, key=distance.__getitem__)
    return (
        f"For a typical head similar tokens lie closest together in layer {near} ({distance[near]:.0%} of the distance "
        f"of any two) "
        f"and farthest apart in layer {far} ({distance[far]:.0%})."
    )


def _sentence(heads: list[WordPairs]) -> str:
    known = [h for h in heads if h.high >= FEW_PAIRS and h.in_sentence - h.by_distance > 0.1 * h.high]
    if not known:
        return ""
    best = max(known, key=lambda h: (h.in_sentence - h.by_distance) / math.sqrt(h.high))
    return (
        f"{best.name} keeps to the sentence most: {best.in_sentence} of its {best.high} high pairs of words lie in one "
        f"sentence; by their distances alone it would be {best.by_distance:.0f}."
    )


def _repetition(heads: list[WordPairs]) -> str:
    known = [h for h in heads if h.high >= FEW_PAIRS and h.kinds >= KINDS and h.repeated > 2 * h.base * h.high]
    if not known:
        return ""
    best = max(known, key=lambda h: (h.repeated - h.base * h.high) / math.sqrt(h.high))
    return (
        f"{best.name} finds repetitions: {best.repeated} of its {best.high} high pairs of words are the same word "
        f"twice ({best.kinds} different words); of all pairs of words {best.base:.1%} are."
    )


def _common_token(inspection: Inspection, tau: float) -> str:
    heads = inspection.summary(tau)
    enough = heads[heads.high_pairs >= FEW_PAIRS]
    enough = enough.sort_values(["focal_share", "high_pairs"], ascending=False, kind="stable")
    if enough.empty:
        return ""
    best: Any = next(enough.rename(columns={"head": "head_"}).itertuples(index=False))
    return (
        f"Layer {best.layer}, head {best.head_} gathers round one token: “{best.focal_token}”"
        f"{_of_word(inspection, best.focal_token)} is in "
        f"{best.focal_share:.0%} of its {best.high_pairs} high pairs."
    )


def _of_word(inspection: Inspection, label: str) -> str:
    """The word that a piece is of, where it is always the same one: "she" may be the beginning of "shed"."""
    window = inspection.window
    if not window.described:
        return ""
    words = set()
    for place in [k for k, own in enumerate(window.labels) if own == label and window.part[k] >= 0]:
        pieces = np.flatnonzero((window.word == window.word[place]) & (window.part == window.part[place]))
        text = window.texts[window.part[place]]
        words.add(text[window.span[pieces, 0].min() : window.span[pieces, 1].max()].strip() if len(pieces) > 1 else "")
    return f" (of “{words.pop()}”)" if len(words) == 1 and "" not in words else ""


def _different_focal(layers: pd.DataFrame) -> str:
    """On average over layers: what chance gives is drawn at random, so that of one layer says little."""
    unique, null = layers.focal_unique.mean(), layers.focal_null.mean()
    if not null > 0:
        return ""
    return (
        f"The heads of a layer gather round {unique:.1f} different tokens on average; it would be {null:.1f} if tokens "
        "that occur equally often changed places at random."
    )


def telling_head(inspection: Inspection, layer: int | None = None) -> tuple[int, int]:
    """The head of a layer, the last one unless named, that gathers most of its pairs round one token."""
    layers = inspection.captured.layers
    own = heads_of_layer(inspection, len(layers) - 1 if layer is None else layers.index(layer), 0.5)
    enough = own[own.high_pairs >= FEW_PAIRS]
    order = (enough if len(enough) else own).sort_values("focal_share", ascending=False, kind="stable")
    return int(order.layer.iloc[0]), int(order["head"].iloc[0])
