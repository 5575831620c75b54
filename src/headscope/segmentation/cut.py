"""What cutting a text gives: segments, how strong each boundary is, and which heads decided it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from headscope.segmentation.head_weights import HeadWeights

Span = tuple[int, int]
NAMED = 3  # heads that are named for a boundary


@dataclass(frozen=True, slots=True)
class DecidingHead:
    """A head that speaks for a boundary, and its share of what all heads say for it."""

    layer: int
    head: int
    share: float

    def __str__(self) -> str:
        return f"{self.layer}.{self.head} {100 * self.share:.0f} %"


@dataclass(frozen=True, slots=True)
class Segment:
    """A piece of a text between two boundaries.

    `span` is where it stands in the text, in characters, and `text[slice(*span)]` is `text`. `strength` is the
    probability that a boundary is where the segment ends; the end of the whole text has 1. `why` names the heads that
    speak most for that boundary.
    """

    text: str
    span: Span
    sentences: tuple[str, ...]
    strength: float
    why: tuple[DecidingHead, ...]


@dataclass(frozen=True, slots=True)
class Cut:
    """A text with the strength of every possible boundary, and those that were chosen.

    Where a boundary may be, a part ends: a sentence where topics are looked for, a word where sentences are.
    """

    text: str
    grain: str
    parts: tuple[Span, ...]  # N of them, in order
    strength: np.ndarray  # (N,), of the boundary after each part; the last one is the text's end
    ends: tuple[int, ...]  # the parts that close a segment, the last one among them
    for_boundary: np.ndarray  # (N, H), how much each head that counts speaks for a boundary after a part
    heads: tuple[tuple[int, int], ...]  # layer and head of those, in that order
    weights: HeadWeights

    @property
    def segments(self) -> list[Segment]:
        """The pieces, in order."""
        made, first = [], 0
        for end in self.ends:
            inside = self.parts[first : end + 1]
            span = (inside[0][0], inside[-1][1])
            whole = self.text[slice(*span)]
            sentences = tuple(self.text[a:b] for a, b in inside) if self.grain == "topics" else (whole,)
            made.append(Segment(whole, span, sentences, float(self.strength[end]), self.why(end)))
            first = end + 1
        return made

    def why(self, part: int) -> tuple[DecidingHead, ...]:
        """The heads that speak most for a boundary after a part; none at the text's end."""
        if part == len(self.parts) - 1:
            return ()
        speaking = np.maximum(self.for_boundary[part], 0)
        total = float(speaking.sum())
        most = [k for k in np.argsort(-speaking)[:NAMED] if speaking[k] > 0]
        return tuple(DecidingHead(self.heads[k][0], self.heads[k][1], float(speaking[k]) / total) for k in most)
