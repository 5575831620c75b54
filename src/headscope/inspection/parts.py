"""The small types and tables of an inspection: its tokens, the pairs of a layer, a focal token."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import pandas as pd
from torch import Tensor

from headscope.choices import FEW_PAIRS
from headscope.windows import CATEGORIES, Window
from headscope.windows.window import END


def labels_of_ids(window: Window, same: Tensor) -> list[str]:
    """How each id that `same` numbers is written most often: "the" and "The" may be one token."""
    written: dict[int, Counter[str]] = {}
    for number, label in zip(same.tolist(), window.labels, strict=True):
        if number >= 0:
            written.setdefault(number, Counter())[label] += 1
    return [written[number].most_common(1)[0][0] for number in range(len(written))]


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
        return self.high_pairs < FEW_PAIRS


@dataclass(frozen=True, slots=True)
class LayerPairs:
    """S, level and bin of the pairs of one layer, (H, P) each, and which of its heads are flat, (H,)."""

    value: Tensor
    level: Tensor
    bin: Tensor
    flat: Tensor


def token_table(window: Window) -> pd.DataFrame:
    """A row per token. `part` tells the two texts of a pair apart; -1 stands for "none".

    The category of tokens that came without their text is not known.
    """
    return pd.DataFrame(
        {
            "token": list(window.tokens),
            "id": window.ids,
            "category": [CATEGORIES[c] if window.described or c <= END else None for c in window.category],
            "sentence": window.sentence,
            "word": window.word,
            "start": window.span[:, 0],
            "end": window.span[:, 1],
            "part": window.part,
            "unknown": window.unknown,
            "label": list(window.labels),
        }
    )
