"""Rows per text: what each head did with each text, as Parquet tables, and the texts that show a head's role most."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from headscope.choices import FEW_PAIRS
from headscope.errors import HeadscopeError, listed
from headscope.files import OTHER_FOLDER, written_whole
from headscope.measures.columns import COLUMNS, SCORES

if TYPE_CHECKING:
    import pyarrow as pa

    from headscope.result.result import Result

HEADS, TEXTS = "heads.parquet", "texts.parquet"
FOCAL, FOCAL_NULL = "focal", "focal_null"  # columns of token ids; -1: none
# What columns were called in runs of earlier versions, by the names that they have now.
EARLIER = {
    "separator_focus_stop": "stop_focus", "separator_focus_end": "end_focus", "mean_distance": "distance",
}  # fmt: skip
WHOLE = ("starts_text", "ends_text")  # whether the window begins and ends where its text does; empty in earlier runs


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
    if paths is None:
        which = "the run, or one of those that were added," if result.selected else "the run"
        raise HeadscopeError(
            f"{which} kept no rows per text",
            "run the analysis with --per-text; a part or a sum of runs that was saved as one file has none either: "
            "headscope merge keeps them",
        )
    import pyarrow.dataset as ds

    field = ds.field
    wanted = (field("layer") == layer) & (field("stack") == result.name) & field("head").isin(list(heads))
    table = with_names_of_now(ds.dataset(paths[0]).to_table(filter=wanted)).to_pandas()
    best = {}
    for head, rows_of_head in table.groupby("head"):
        for score in scores:
            scored = rows_of_head[rows_of_head["high_pairs"] >= FEW_PAIRS] if COLUMNS[score].of_pairs else rows_of_head
            scored = scored[scored[score].notna()]
            best[int(head), score] = scored.sort_values(score, ascending=lowest, kind="stable").head(k)
    numbers = sorted({int(number) for rows in best.values() for number in rows["text"]})
    texts = with_names_of_now(ds.dataset(paths[1]).to_table(filter=field("text").isin(numbers))).to_pandas()
    frames = {}
    for head, score in product(heads, scores):
        rows = best.get((head, score), table.head(0))
        columns = dict.fromkeys(["id", score, "high_pairs", "focal_token", "focal_share", "group", "window"])
        columns |= dict.fromkeys([*WHOLE, "content"])
        merged = rows.merge(texts, on="text", how="left", validate="one_to_one")
        frames[head, score] = merged[list(columns)].rename(columns={"content": "text"}).reset_index(drop=True)
    return frames


def with_names_of_now(table: pa.Table) -> pa.Table:
    """The rows of a run, whichever version wrote them."""
    import pyarrow as pa

    now = {earlier: name for name, earlier in EARLIER.items()}
    table = table.rename_columns([now.get(name, name) for name in table.schema.names])
    for name in WHOLE:
        if "content" in table.schema.names and name not in table.schema.names:
            place = table.schema.get_field_index("content")
            table = table.add_column(place, pa.field(name, pa.bool_()), pa.nulls(len(table), pa.bool_()))
    return table


def _check(result: Result, layer: int, head: int, score: str, k: int) -> None:
    if score not in SCORES:
        raise HeadscopeError(f"there is no score {score!r}", f"use one of {', '.join(SCORES)}")
    if k < 1:
        raise HeadscopeError(f"k={k} is not possible", "ask for at least one text")
    data = result.dataset
    if layer not in data["layer"].values or head not in data["head"].values:
        raise HeadscopeError(
            f"there is no head {head} in layer {layer}",
            f"layers are {listed(data['layer'].values.tolist())}, heads 0 to {data.sizes['head'] - 1}",
        )


@dataclass(frozen=True, slots=True)
class RowSource:
    """Rows of a run that a result was made of: all of them, or those of some groups."""

    heads: Path
    texts: Path
    groups: tuple[str, ...] | None = None


def row_paths(result: Result) -> tuple[Path, Path] | None:
    """The files of the rows per text, of heads and of texts; None where there are none.

    A part or a sum of runs has its rows written beside its own file when they are first asked for.
    """
    heads, texts = (result.file.parent / name for name in (HEADS, TEXTS))
    if not (heads.exists() and texts.exists()) and result.row_sources:
        write_rows(result.row_sources, result.file.parent)
    return (heads, texts) if heads.exists() and texts.exists() else None


def sources_of(result: Result, groups: Sequence[str] | None = None) -> tuple[RowSource, ...]:
    """Where the rows of a result, or of some of its groups, are to be had; nothing where there are none."""
    chosen = None if groups is None else tuple(groups)
    if result.row_sources:
        if chosen is None:
            return result.row_sources
        within = (chosen if each.groups is None else _both(each.groups, chosen) for each in result.row_sources)
        return tuple(replace(each, groups=names) for each, names in zip(result.row_sources, within, strict=True))
    heads, texts = (result.file.parent / name for name in (HEADS, TEXTS))
    return (RowSource(heads, texts, chosen),) if heads.exists() and texts.exists() else ()


def _both(one: tuple[str, ...], other: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(name for name in one if name in other)


def write_rows(sources: Sequence[RowSource], folder: Path) -> None:
    """Write the rows of several runs one after the other, their windows numbered through; a batch at a time is held."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    begin, numbers = 0, []
    with _parquet_writer(folder / TEXTS) as write:
        for source in sources:
            table = pq.read_table(source.texts)
            kept = np.ones(len(table), dtype=bool)
            if source.groups is not None:
                kept = np.isin(table.column("group").to_numpy(zero_copy_only=False).astype(str), source.groups)
            texts = table.column("text").to_numpy()
            number = np.full(int(texts.max(initial=-1)) + 1, -1, dtype=np.int64)
            number[texts[kept]] = np.arange(begin, begin + int(kept.sum()))
            begin += int(kept.sum())
            numbers.append(number)
            write(_renumbered(with_names_of_now(table.filter(pa.array(kept))), number))
    with _parquet_writer(folder / HEADS) as write:
        for source, number in zip(sources, numbers, strict=True):
            with pq.ParquetFile(source.heads) as opened:
                for batch in opened.iter_batches(batch_size=1 << 16):
                    table = pa.Table.from_batches([batch])
                    kept = pa.array(number[table.column("text").to_numpy()] >= 0)
                    write(_renumbered(with_names_of_now(table.filter(kept)), number))


def _renumbered(table: pa.Table, number: Any) -> pa.Table:
    texts = number[table.column("text").to_numpy()]
    return table.set_column(table.schema.get_field_index("text"), "text", _numbers(texts))


@contextmanager
def _parquet_writer(target: Path) -> Iterator[Callable[[pa.Table], None]]:
    """Writes tables of one schema to a file that is whole or not there."""
    import pyarrow.parquet as pq

    writer: Any = None

    def write(table: pa.Table) -> None:
        nonlocal writer
        writer = writer or pq.ParquetWriter(partial, table.schema, compression="zstd")
        writer.write_table(table)

    with written_whole(target) as partial:
        try:
            yield write
        finally:
            if writer is not None:
                writer.close()


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
                table = with_names_of_now(table)
                writer = writer or pq.ParquetWriter(partial, table.schema, compression="zstd")
                writer.write_table(table)
        finally:
            if writer is not None:
                writer.close()


def _numbers(values: Any) -> pa.Array:
    import pyarrow as pa

    return pa.array(np.asarray(values), type=pa.int64())
