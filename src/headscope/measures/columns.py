"""The rows per text: what each head did with each window, column by column, declared once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Column:
    """One column. Texts can be sorted by a score; one `of_pairs` says little where high pairs are few."""

    name: str
    meaning: str
    score: bool = False
    of_pairs: bool = False


_ALL = (
    Column("stop_focus", "attention to sentence stops over an even spread", score=True),
    Column("end_focus", "attention to closing special tokens over an even spread", score=True),
    Column("high_pairs", "number of high pairs", score=True),
    Column("distance", "mean distance of the high pairs", score=True, of_pairs=True),
    Column("sentence_share", "share of the high pairs that are two words of one sentence", score=True, of_pairs=True),
    Column("repetition_share", "share of the high pairs that are a repeated word", score=True, of_pairs=True),
    Column("focal_share", "share of the high pairs that contain the focal token", score=True, of_pairs=True),
    Column("stop_share", "share of the high pairs that contain a sentence stop", of_pairs=True),
    Column("stop_expected", "the same, if only distances mattered", of_pairs=True),
    Column("likeness", "correlation of similarity with attention"),
    Column("mask_contrast", "mean level inside minus outside the mask of high attention"),
    Column("focal_expected", "different focal tokens that chance would give the layer's heads"),
)
COLUMNS: dict[str, Column] = {column.name: column for column in _ALL}
SCORES = tuple(column.name for column in _ALL if column.score)


class RowTable:
    """The rows of one stack: W windows, L layers, H heads."""

    def __init__(self, windows: int, layers: tuple[int, ...], heads: int) -> None:
        self.layers = layers
        shape = (windows, len(layers), heads)
        self.values: dict[str, NDArray[np.float32]] = {
            name: np.full(shape, np.nan, dtype=np.float32) for name in COLUMNS
        }
        self.focal = np.full(shape, -1, dtype=np.int32)  # ids of focal tokens

    def put(self, first: int, layer: int, columns: dict[str, NDArray[np.float64]], focal: NDArray[np.int64]) -> None:
        """Write down one layer of a batch whose first window has the number `first`: (B, H) each."""
        k, where = self.layers.index(layer), slice(first, first + len(focal))
        none = columns["high_pairs"] == 0
        for name, values in columns.items():
            missing = none & COLUMNS[name].of_pairs
            self.values[name][where, k] = np.where(missing, np.nan, values)
        self.focal[where, k] = focal
