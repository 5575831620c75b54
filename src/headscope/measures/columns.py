"""The rows per text: what each head did with each window, column by column, declared once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headscope.measures.comparisons import COMPARISONS
from headscope.measures.variables import Array, Shape
from headscope.windows.window import END, STOP


@dataclass(frozen=True, slots=True)
class Column:
    """One column. Texts can be sorted by a score; one `of_pairs` says little where high pairs are few."""

    name: str
    meaning: str
    score: bool = False
    of_pairs: bool = False


_ALL = (
    Column("separator_focus_stop", "attention to sentence stops over an even spread", score=True),
    Column("separator_focus_end", "attention to closing special tokens over an even spread", score=True),
    Column("high_pairs", "number of high pairs", score=True),
    Column("mean_distance", "mean distance of the high pairs, in tokens", score=True, of_pairs=True),
    Column("sentence_share", "share of the high pairs that are two words of one sentence", score=True, of_pairs=True),
    Column("repetition_share", "share of the high pairs that are a repeated word", score=True, of_pairs=True),
    Column("focal_share", "share of the high pairs that contain the focal token", score=True, of_pairs=True),
    Column("likeness", "correlation of similarity with attention, by the map that is more like it"),
    Column("sentence_preference", "high pairs in one sentence over those across, matched", score=True, of_pairs=True),
    Column("repetition_preference", "high pairs that repeat a word over others, matched", score=True, of_pairs=True),
    Column("separator_similarity", "high pairs with a sentence stop over other pairs, matched", score=True,
           of_pairs=True),
    Column("separation_sentence", "how often a pair of one sentence lies above an unrelated one"),
    Column("separation_repeated", "how often a repeated word lies above an unrelated pair"),
    Column("separation_related", "how often a pair of either kind lies above an unrelated one"),
    Column("mask_auc", "how often a pair inside the mask of high attention lies above one outside it"),
)  # fmt: skip
COLUMNS: dict[str, Column] = {column.name: column for column in _ALL}
SCORES = tuple(column.name for column in _ALL if column.score)
# Where columns come from: high pairs at the run's τ, matched counts by comparison, wins by contrast.
ROW_COLUMNS = ("high_pairs", "mean_distance", "sentence_share", "repetition_share", "focal_share")
MATCHED_COLUMNS = {"sentence_preference": "sentence", "repetition_preference": "repetition",
                   "separator_similarity": "stop"}  # fmt: skip
CONTRAST_COLUMNS = ("separation_sentence", "separation_repeated", "separation_related", "mask_auc")
FEWEST_MATCHED = 5  # high pairs that are compared, before a text has a matched ratio of its own


class RowTable:
    """The rows of one stack: W windows, L layers, H heads."""

    def __init__(self, windows: int, layers: tuple[int, ...], heads: int) -> None:
        self.layers = layers
        shape = (windows, len(layers), heads)
        self.values: dict[str, NDArray[np.float32]] = {
            name: np.full(shape, np.nan, dtype=np.float32) for name in COLUMNS
        }
        self.focal = np.full(shape, -1, dtype=np.int32)  # ids of focal tokens; -1: none
        self.focal_null = np.full(shape, -1, dtype=np.int32)  # where ids exchanged their sums of degrees

    def put(
        self,
        first: int,
        layer: int,
        columns: Mapping[str, NDArray[np.float64]],
        focal: NDArray[np.int64],
        focal_null: NDArray[np.int64],
    ) -> None:
        """Write down one layer of a batch whose first window has the number `first`: (B, H) each.

        >>> table = RowTable(1, (4,), 2)
        >>> columns = {"high_pairs": np.array([[3.0, 0.0]]), "mean_distance": np.array([[2.0, 0.0]])}
        >>> table.put(0, 4, columns, np.array([[7, -1]]), np.array([[9, -1]]))
        >>> table.values["mean_distance"][0, 0].tolist(), table.focal[0, 0].tolist()
        ([2.0, nan], [7, -1])
        """
        k, where = self.layers.index(layer), slice(first, first + len(focal))
        none = columns["high_pairs"] == 0
        for name, values in columns.items():
            missing = none & COLUMNS[name].of_pairs
            self.values[name][where, k] = np.where(missing, np.nan, values)
        self.focal[where, k], self.focal_null[where, k] = focal, focal_null


def row_tables(windows: int | None, shapes: Mapping[str, Shape]) -> dict[str, RowTable]:
    """Empty rows of every stack for so many windows; none where rows are not wanted (None).

    >>> shapes = {"encoder": Shape((0, 1), heads=2, length=8)}
    >>> list(row_tables(3, shapes)), list(row_tables(None, shapes))
    (['encoder'], [])
    """
    if windows is None:
        return {}
    return {name: RowTable(windows, shape.layers, shape.heads) for name, shape in shapes.items()}


def text_columns(
    *, given: Array, even: Array, wins: Array, weight: Array, matched: Array, likeness: Array, without: Array,
    others: dict[str, Array],
) -> dict[str, Array]:  # fmt: skip
    """The columns of the rows per text: (B, H) each.

    From attention and even attention by category, from wins and their weights by contrast, from matched counts by
    comparison and side, and `others` as they are. Likeness is not a number where a window has no pairs, or the stack
    no maps of them (`without`).
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        focus = given / even[:, None]  # (B, H, categories); 0 / 0 where there is no such token
        auc = wins / weight  # (B, H, contrasts)
        a, b = matched[..., 0], matched[..., 1]
        preference = np.where(a + b < FEWEST_MATCHED, np.nan, (a + 0.5) / (b + 0.5))
    columns = others | {"separator_focus_stop": focus[..., STOP], "separator_focus_end": focus[..., END]}
    columns |= {name: preference[..., COMPARISONS.index(which)] for name, which in MATCHED_COLUMNS.items()}
    columns |= {name: auc[..., place] for place, name in enumerate(CONTRAST_COLUMNS)}
    columns["likeness"] = np.where(without, np.nan, likeness)
    return columns
