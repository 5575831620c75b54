"""What shows a head's role in one text: the characters of the tokens to be marked, found by the model itself."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import numpy as np

from headscope.windows.window import STOP

if TYPE_CHECKING:
    from headscope.inspection.inspection import Inspection

Spans = list[tuple[int, int]]
# Of an inspection, a layer, a head and τ: the characters to mark.
Mark = Callable[["Inspection", int, int, float], Spans]

REPEATED = ("repeated", "both")
TOGETHER = ("sentence", "both")


def repetitions(inspection: Inspection, layer: int, head: int, tau: float) -> Spans:
    """The tokens of similar pairs of a token and its repetition."""
    pairs = inspection.high_pairs(layer, head, tau)
    own = pairs[pairs["relation"].isin(REPEATED)]
    return spans_of(inspection, {*own["i"].tolist(), *own["j"].tolist()})


def similar_in_sentence(inspection: Inspection, layer: int, head: int, tau: float) -> Spans:
    """The tokens of similar pairs within a sentence, of the sentence that has most of them."""
    pairs = inspection.high_pairs(layer, head, tau)
    own = pairs[pairs["relation"].isin(TOGETHER)]
    if own.empty:
        return []
    sentence = inspection.window.sentence[own["i"].to_numpy()]
    best = own[sentence == np.bincount(sentence).argmax()]
    return spans_of(inspection, {*best["i"].tolist(), *best["j"].tolist()})


def sentence_stops(inspection: Inspection, layer: int, head: int, tau: float) -> Spans:
    """The tokens that end sentences."""
    return spans_of(inspection, np.flatnonzero(inspection.captured.keys.category == STOP).tolist())


def focal_tokens(inspection: Inspection, layer: int, head: int, tau: float) -> Spans:
    """Every occurrence of the head's focal token."""
    focal = inspection.focal_token(layer, head, tau)
    if focal is None:
        return []
    same = inspection.window.ids == focal.id
    return spans_of(inspection, np.flatnonzero(same & inspection.counting.numpy()).tolist())


def spans_of(inspection: Inspection, places: Iterable[int]) -> Spans:
    """The characters of some tokens, in the order of the text; neighbours that touch are one."""
    found: Spans = []
    window = inspection.window
    for place in sorted(places):
        start, end = (int(each) for each in window.span[place])
        if window.part[place] != 0 or start == end:
            continue
        if found and start <= found[-1][1]:
            found[-1] = (found[-1][0], max(end, found[-1][1]))
        else:
            found.append((start, end))
    return found
