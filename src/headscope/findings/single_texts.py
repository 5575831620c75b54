"""The share of texts that show an effect on their own, from the rows per text, where a run kept them.

A whole corpus may show an effect that hardly any of its texts shows, and the other way round. Single texts are noisy,
so no verdict rests on them.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from headscope.findings.claims import claim
from headscope.measures import heads_first
from headscope.measures.derived import Array
from headscope.result.rows import EARLIER, FOCAL, FOCAL_NULL, row_paths

if TYPE_CHECKING:
    from headscope.result.result import Result

OF_FINAL_LAYERS = {
    "1a": "separator_focus_stop",
    "1b": "separator_focus_end",
    "4": "sentence_preference",
    "8": "separator_similarity",
}  # by claim, the column whose median over the final layers' heads is the text's own statistic


class Rows:
    """The rows of one stack as tables: a text's number, a layer's place and a head's number to a value."""

    def __init__(self, result: Result, heads: Path, texts: Path) -> None:
        import pyarrow.dataset as ds

        self.stack, self.sums = result.name, result.blocks
        self._rows = ds.dataset(heads)
        lengths = ds.dataset(texts).to_table(columns=["tokens"]).column("tokens").to_numpy()
        self.texts = len(lengths)
        tokens = result.dataset["tokens"]
        special = 0.0 if result.settings["special"] else float(tokens.sel(category=["start", "end"]).sum())
        self.counting = lengths - round(special / max(int(result.dataset["texts"]), 1))  # tokens that count
        self._places: tuple[NDArray[np.int64], ...] | None = None

    def has(self, *names: str) -> bool:
        """Whether there are such columns."""
        return set(names) <= set(self._rows.schema.names)

    def table(self, name: str) -> Array:
        """A column as (texts, L, H); NaN where there is no row."""
        import pyarrow.dataset as ds

        own = ds.field("stack") == self.stack
        if not self.has(name):
            name = EARLIER[name]  # of a run of an earlier version
        if self._places is None:
            where = self._rows.to_table(columns=["text", "layer", "head"], filter=own)
            text, layer, head = (where.column(each).to_numpy() for each in ("text", "layer", "head"))
            self._places = text, np.searchsorted(self.sums.layers, layer), head
        values = self._rows.to_table(columns=[name], filter=own).column(name).to_numpy().astype(np.float64)
        table = np.full((self.texts, len(self.sums.layers), self.sums.heads), np.nan)
        table[self._places] = values
        return table

    def of_third(self, name: str, third: str, *, logarithmic: bool = False) -> Array:
        """The median over the heads of a third, of each text; NaN where fewer than half of them have a number."""
        own = heads_first.together(self.table(name)[:, self.sums.third(third)])
        enough = np.isfinite(own).mean(-1) >= 0.5
        return np.where(enough, heads_first.median(own, logarithmic=logarithmic), np.nan)

    def over_layers(self, name: str) -> Array:
        """The mean over layers of the median over heads, of each text."""
        return heads_first.mean(heads_first.median(self.table(name)))


def shares_of_texts(result: Result, tau: float) -> dict[str, float]:
    """By claim, the share of texts whose own statistic lies beyond the smallest effect that matters.

    Nothing where the run kept no rows, or where its rows were made at another τ. Heads' specialisation is a matter
    between texts and has no share; nor have reach within sentences and the comparison with attention maps, of which no
    rows are kept.
    """
    paths = row_paths(result)
    if paths is None or tau != result.settings["tau"]:
        return {}
    rows = Rows(result, *paths)
    shares: dict[str, float] = {}
    for key, values in _statistics(rows).items():
        known = np.isfinite(values)
        if known.any():
            shares[key] = float((values[known] > claim(key).statistics[0].bound).mean())
    return shares


def _statistics(rows: Rows) -> dict[str, Array]:
    """The statistic of each claim in each text: (texts,) each."""
    thirds = {name: bool(rows.sums.third(name)) for name in ("early", "middle", "final")}
    found: dict[str, Array] = {}
    if thirds["final"]:
        for key, column in OF_FINAL_LAYERS.items():
            found[key] = rows.of_third(column, "final", logarithmic=True)
    if thirds["early"] and thirds["middle"]:
        early, middle = (rows.of_third("mean_distance", third) for third in ("early", "middle"))
        found["3"] = (early - middle) / ((rows.counting + 1) / 3)  # the mean distance of all pairs of a text
    if rows.sums.heads > 1 and rows.has(FOCAL, FOCAL_NULL):
        unique, null = (different(rows.table(name)) for name in (FOCAL, FOCAL_NULL))  # (texts, L)
        found["5"] = heads_first.mean((unique - null) / rows.sums.heads)
    if rows.sums.maps:
        found["6"], found["7a"] = rows.over_layers("mask_auc"), 1 - rows.over_layers("likeness")
    return found


def different(ids: Array) -> Array:
    """The number of different ids over the last dimension, those below 0 left out; NaN where there is no row.

    >>> different(np.array([[7.0, 7.0, 3.0, -1.0], [np.nan] * 4]))
    array([ 2., nan])
    """
    ordered: Any = np.sort(np.where(ids < 0, np.nan, ids), axis=-1)  # NaN last
    number = np.isfinite(ordered[..., :1]).sum(-1) + (np.diff(ordered, axis=-1) > 0).sum(-1)
    return np.where(np.isnan(ids).all(-1), np.nan, number)
