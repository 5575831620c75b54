"""Rows per text as Parquet: one table of what each head did with each window, one of the windows themselves."""

from __future__ import annotations

import io
from typing import Any

import numpy as np

from headscope.measures.columns import COLUMNS
from headscope.result.rows import FOCAL, FOCAL_NULL, HEADS, TEXTS
from headscope.runs.worker import ShardResult


def row_files(shard: ShardResult, tokenizer: Any) -> dict[str, bytes]:
    """Both tables of a shard as the bytes of Parquet files, by name; `text` numbers the shard's windows from 0."""
    import pyarrow as pa

    parts: list[dict[str, Any]] = []
    for stack, table in shard.rows.items():
        number, layer, head = np.indices(table.focal.shape)
        values = {name: table.values[name].reshape(-1) for name in COLUMNS}
        focal = table.focal.reshape(-1)
        unique, place = np.unique(focal, return_inverse=True)
        words = [None if i < 0 else str(tokenizer.convert_ids_to_tokens(int(i))) for i in unique]
        parts.append(
            {
                "text": pa.array(number.reshape(-1).astype(np.int64)),
                "stack": pa.DictionaryArray.from_arrays(np.zeros(focal.size, np.int32), [stack]).cast(pa.string()),
                "layer": pa.array(np.array(table.layers, dtype=np.int16)[layer.reshape(-1)]),
                "head": pa.array(head.reshape(-1).astype(np.int16)),
                **{name: pa.array(values[name], from_pandas=True) for name in values if name != "high_pairs"},
                "high_pairs": pa.array(values["high_pairs"].astype(np.int32)),
                FOCAL: pa.array(focal),
                FOCAL_NULL: pa.array(table.focal_null.reshape(-1)),
                "focal_token": pa.DictionaryArray.from_arrays(
                    place.reshape(-1).astype(np.int32), pa.array(words, pa.string())
                ).cast(pa.string()),
            }
        )
    heads_table = pa.concat_tables([pa.table(part) for part in parts])
    refs = shard.windows
    texts = {
        "text": pa.array(np.arange(len(refs), dtype=np.int64)),
        "id": pa.array([each.record.id for each in refs], pa.string()),
        "group": pa.array([each.record.group for each in refs], pa.string()),
        "cluster": pa.array([each.record.cluster for each in refs], pa.string()),
        "window": pa.array([each.number for each in refs], pa.int32()),
        "tokens": pa.array([len(each.window) for each in refs], pa.int32()),
        "sentences": pa.array([each.window.sentences for each in refs], pa.int32()),
        "starts_text": pa.array([each.window.first == 0 for each in refs], pa.bool_()),
        "ends_text": pa.array([_ends_text(each.window) for each in refs], pa.bool_()),
        "content": pa.array([_content(each.window) for each in refs], pa.string()),
    }
    return {HEADS: _bytes(heads_table), TEXTS: _bytes(pa.table(texts))}


def _ends_text(window: Any) -> bool:
    """Whether the text ends with the window."""
    return bool(window.first + np.count_nonzero(window.part >= 0) >= window.total)


def _content(window: Any) -> str:
    """The characters that the window shows."""
    spans = window.span[window.part == 0]
    return str(window.texts[0][spans[:, 0].min() : spans[:, 1].max()]) if len(spans) else ""


def _bytes(table: Any) -> bytes:
    import pyarrow.parquet as pq

    buffer = io.BytesIO()
    pq.write_table(table, buffer, compression="zstd")
    return buffer.getvalue()
