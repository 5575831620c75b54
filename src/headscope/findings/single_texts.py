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
from headscope.measures.derived import Array, ratio
from headscope.result.rows import row_paths

if TYPE_CHECKING:
    from headscope.result.result import Result


class Rows:
    """The rows of one stack as columns: a text's number, a layer's place and one value of each head."""

    def __init__(self, result: Result, heads: Path, texts: Path) -> None:
        import pyarrow.dataset as ds

        self.result, self.block_sums = result, result.blocks
        self._rows = ds.dataset(heads)
        self.columns = set(self._rows.schema.names)
        lengths = ds.dataset(texts).to_table(columns=["tokens"]).column("tokens").to_numpy()
        self.texts = len(lengths)
        tokens = result.dataset["tokens"]
        special = 0.0 if result.settings["special"] else float(tokens.sel(category=["start", "end"]).sum())
        self.counting = lengths - round(special / max(int(result.dataset["texts"]), 1))  # tokens that count

    def read(self, third: str | None, *names: str) -> tuple[NDArray[np.int64], list[Array]]:
        """Columns of the layers of one third, or of all layers, with the number of each row's text."""
        import pyarrow.dataset as ds

        wanted = ds.field("stack") == self.result.name
        if third is not None:
            layers = [self.block_sums.layers[place] for place in self.block_sums.third(third)]
            wanted = wanted & ds.field("layer").isin(layers)
        table = self._rows.to_table(columns=["text", *names], filter=wanted)
        return table.column("text").to_numpy(), [table.column(n).to_numpy().astype(np.float64) for n in names]

    def sums(self, text: NDArray[np.int64], values: Array) -> Array:
        """Add up the rows of each text; what is not there adds nothing."""
        return np.bincount(text, np.nan_to_num(values), minlength=self.texts).astype(np.float64)

    def mean(self, third: str | None, name: str) -> Array:
        """A column's mean over the rows of each text."""
        text, (values,) = self.read(third, name)
        return ratio(self.sums(text, values), self.sums(text, np.isfinite(values).astype(np.float64)))

    def over(self, third: str, above: str, below: str) -> Array:
        """Σ of one column over Σ of another, each row weighing as many pairs as it has."""
        text, (one, other, pairs) = self.read(third, above, below, "high_pairs")
        return ratio(self.sums(text, one * pairs), self.sums(text, other * pairs))


def shares_of_texts(result: Result, tau: float) -> dict[str, float]:
    """By claim, the share of texts whose own statistic lies beyond the smallest effect that matters.

    Nothing where the run kept no rows, or where its rows were made at another τ. Heads' specialisation is a matter
    between texts and has no share; nor has the sentence preference: a text has too few pairs to match them by distance.
    """
    paths = row_paths(result)
    if paths is None or tau != result.settings["tau"]:
        return {}
    rows = Rows(result, *paths)
    thirds = {name: bool(result.blocks.third(name)) for name in ("early", "middle", "final")}
    statistics: dict[str, Array] = {}
    if thirds["final"]:
        statistics["1a"], statistics["1b"] = rows.mean("final", "stop_focus"), rows.mean("final", "end_focus")
        if "stop_expected" in rows.columns:
            statistics["8"] = rows.over("final", "stop_share", "stop_expected")
    if thirds["early"] and thirds["middle"]:
        statistics["3"] = (_distance(rows, "early") - _distance(rows, "middle")) / ((rows.counting + 1) / 3)
    if "focal_expected" in rows.columns and result.blocks.heads > 1:
        statistics["5"] = _focal(rows)
    if "likeness" in rows.columns and result.name != "cross":
        statistics["6"] = rows.mean(None, "mask_contrast")
        statistics["7"] = 1 - rows.mean(None, "likeness")
    shares: dict[str, float] = {}
    for key, values in statistics.items():
        known = np.isfinite(values)
        if known.any():
            shares[key] = float((values[known] > claim(key).bound).mean())
    return shares


def _distance(rows: Rows, third: str) -> Array:
    """The mean distance of all high pairs of each text."""
    text, (distance, pairs) = rows.read(third, "distance", "high_pairs")
    return ratio(rows.sums(text, distance * pairs), rows.sums(text, pairs))


def _focal(rows: Rows) -> Array:
    """Different focal tokens of a layer's heads minus those expected, mean over the layers of each text."""
    text, columns = rows.read(None, "layer", "focal_id", "focal_expected")
    layer, token, expected = columns
    heads, layers = rows.block_sums.heads, len(rows.block_sums.layers)
    order = np.lexsort((token, layer, text))
    text, layer, token = text[order], layer[order], token[order]
    first = np.ones(len(text), dtype=bool)
    first[1:] = (np.diff(text) != 0) | (np.diff(layer) != 0) | (np.diff(token) != 0)
    different: Any = rows.sums(text, (first & (token >= 0)).astype(np.float64)) / layers
    chance = rows.sums(text, expected[order]) / (heads * layers)
    return np.where(chance > 0, different - chance, np.nan)
