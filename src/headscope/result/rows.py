"""Rows per text: what each head did with each text, as Parquet tables, and the texts that show a head's role most."""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from headscope.choices import FEW_PAIRS
from headscope.errors import HeadscopeError
from headscope.files import OTHER_FOLDER, written_whole
from headscope.measures.columns import COLUMNS, SCORES

if TYPE_CHECKING:
    import pyarrow as pa

    from headscope.result.result import Result

HEADS, TEXTS = "heads.parquet", "texts.parquet"
FOCAL, FOCAL_NULL = "focal", "focal_null"  # columns of token ids; -1: none


def examples(result: Result, layer: int, head: int, score: str, k: int, lowest: bool) -> pd.DataFrame:
    """The k texts with the highest (or lowest) score of one head; of scores of pairs, only texts with ten of them."""
    return examples_of_layer(result, layer, [head], [score], k, lowest)[head, score]


def examples_of_layer(
    result: Result, layer: int, heads: Sequence[int], scores: Sequence[str], k: int, lowest: bool = False
) -> dict[tuple[int, str], pd.DataFrame]:
    """The same for several heads of a layer and several scores, from one reading of the tables."""
    for head, score in product(heads, scores):
        _check(result, layer, head, score, k)
    paths = row_paths(result)
    if paths is None and result.selected:
        raise HeadscopeError(
            "the rows per text are kept with the whole run, not with a part or a sum of runs",
            "ask the result of the run itself: Result.open(RUN).examples(…)",
        )
    if paths is None:
        raise HeadscopeError("the run kept no rows per text", "run the analysis with --per-text")
    import pyarrow.dataset as ds

    field = ds.field
    wanted = (field("layer") == layer) & (field("stack") == result.name) & field("head").isin(list(heads))
    table = ds.dataset(paths[0]).to_table(filter=wanted).to_pandas()
    best = {}
    for head, rows_of_head in table.groupby("head"):
        for score in scores:
            scored = rows_of_head[rows_of_head["high_pairs"] >= FEW_PAIRS] if COLUMNS[score].of_pairs else rows_of_head
            scored = scored[scored[score].notna()]
            best[int(head), score] = scored.sort_values(score, ascending=lowest, kind="stable").head(k)
    numbers = sorted({int(number) for rows in best.values() for number in rows["text"]})
    texts = ds.dataset(paths[1]).to_table(filter=field("text").isin(numbers)).to_pandas()
    frames = {}
    for head, score in product(heads, scores):
        rows = best.get((head, score), table.head(0))
        columns = dict.fromkeys(["id", score, "high_pairs", "focal_token", "focal_share", "group", "window", "content"])
        merged = rows.merge(texts, on="text", how="left", validate="one_to_one")
        frames[head, score] = merged[list(columns)].rename(columns={"content": "text"}).reset_index(drop=True)
    return frames


def _check(result: Result, layer: int, head: int, score: str, k: int) -> None:
    if score not in SCORES:
        raise HeadscopeError(f"there is no score {score!r}", f"use one of {', '.join(SCORES)}")
    if k < 1:
        raise HeadscopeError(f"k={k}", "ask for at least one text")
    data = result.dataset
    if layer not in data["layer"].values or head not in data["head"].values:
        raise HeadscopeError(
            f"there is no head {head} in layer {layer}",
            f"layers are {data['layer'].values[0]} to {data['layer'].values[-1]}, heads 0 to {data.sizes['head'] - 1}",
        )


def row_paths(result: Result) -> tuple[Path, Path] | None:
    """The files of the rows per text, of heads and of texts; None where there are none beside the result."""
    heads, texts = (result.file.parent / name for name in (HEADS, TEXTS))
    return (heads, texts) if heads.exists() and texts.exists() else None


def join_tables(parts: Iterable[bytes | Path], target: Path, *, remedy: str = OTHER_FOLDER) -> None:
    """Put the shards' tables one after the other into one file, a shard at a time."""
    import pyarrow.parquet as pq

    writer: Any = None
    begin = 0
    with written_whole(target, remedy) as partial:
        try:
            for part in parts:
                table = pq.read_table(io.BytesIO(part) if isinstance(part, bytes) else part)
                texts = table.column("text").to_numpy()
                shifted = texts + begin
                begin += int(texts.max(initial=-1)) + 1
                table = table.set_column(table.schema.get_field_index("text"), "text", _numbers(shifted))
                writer = writer or pq.ParquetWriter(partial, table.schema, compression="zstd")
                writer.write_table(table)
        finally:
            if writer is not None:
                writer.close()


def _numbers(values: Any) -> pa.Array:
    import pyarrow as pa

    return pa.array(np.asarray(values), type=pa.int64())
