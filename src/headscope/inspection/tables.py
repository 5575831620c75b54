"""The small types and tables of an inspection: its options, its tokens, the pairs of a layer, a focal token."""

from __future__ import annotations

import re
from dataclasses import dataclass

import pandas as pd
from torch import Tensor

from headscope.errors import HeadscopeError
from headscope.measures.focal import FEW
from headscope.measures.relations import REPEATS
from headscope.measures.similarity import SCALES, SIMILARITIES
from headscope.windows import CATEGORIES, Window


@dataclass(frozen=True, slots=True)
class Options:
    """The choices that the method leaves open, as they were made for one inspection."""

    window: int = 128
    similarity: str = "dot"
    scale: str = "max"
    repeated: str = "token"
    special: bool = False
    language: str = "en"

    def __post_init__(self) -> None:
        for name, allowed in (("similarity", SIMILARITIES), ("scale", SCALES), ("repeated", REPEATS)):
            if getattr(self, name) not in allowed:
                raise HeadscopeError(f"{name}={getattr(self, name)!r}", f"use one of {', '.join(allowed)}")
        if not re.fullmatch(r"[a-z]{2,3}", self.language):
            raise HeadscopeError(f"language={self.language!r} is no language code", "use ISO 639: en, de, zh, …")
        if not isinstance(self.window, int) or self.window < 1:
            raise HeadscopeError(f"window={self.window}", "ask for at least one token")


@dataclass(frozen=True, slots=True)
class FocalToken:
    """The token found most often in a head's high pairs, and the share of these pairs that contain it."""

    token: str
    id: int
    share: float
    high_pairs: int

    @property
    def few(self) -> bool:
        """Whether there were so few high pairs that the choice says little."""
        return self.high_pairs < FEW


@dataclass(frozen=True, slots=True)
class LayerPairs:
    """S, level and bin of the pairs of one layer, (H, P) each, and which of its heads are flat, (H,)."""

    value: Tensor
    level: Tensor
    bin: Tensor
    flat: Tensor


def token_table(window: Window) -> pd.DataFrame:
    """A row per token. `part` tells the two texts of a pair apart; -1 stands for "none"."""
    return pd.DataFrame(
        {
            "token": list(window.tokens),
            "id": window.ids,
            "category": [CATEGORIES[c] for c in window.category],
            "sentence": window.sentence,
            "word": window.word,
            "start": window.span[:, 0],
            "end": window.span[:, 1],
            "part": window.part,
            "unknown": window.unknown,
            "label": list(window.labels),
        }
    )
