"""Rows per text as Parquet: one table of what each head did with each window, one of the windows themselves."""

from __future__ import annotations

import io
from typing import Any

import numpy as np

from headscope.measures.columns import COLUMNS
from headscope.result.rows import FOCAL, FOCAL_NULL, HEADS, TEXTS
from headscope.runs.worker import ShardResult
from headscope.windows.text import visible
from headscope.windows.window import spellings


def row_files(shard: ShardResult, tokenizer: Any) -> dict[str, bytes]:
    """Both tables of a shard as the bytes of Parquet files, by name; `text` numbers the shard's windows from 0."""
    import pyarrow as pa

    parts: list[dict[str, Any]] = []
    written = [spellings(each.window) for each in shard.windows]
    for stack, table in shard.rows.items():
        number, layer, head = np.indices(table.focal.shape)
        values = {name: table.values[name].reshape(-1) for name in COLUMNS}
        focal = table.focal.reshape(-1)
        words, place = _focal_words(table.focal, written, tokenizer)
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
                    place.astype(np.int32), pa.array(words, pa.string())
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


def _focal_words(focal: Any, written: list[dict[int, str]], tokenizer: Any) -> tuple[list[str | None], Any]:
    """How the focal tokens (W, L, H) are written, each in its own window; and, flat, which of these each is."""
    numbers: dict[str | None, int] = {}
    place = np.empty(focal.shape, dtype=np.int64)
    for own, spelled, out in zip(focal, written, place, strict=True):
        unique, inverse = np.unique(own, return_inverse=True)
        words = [None if i < 0 else spelled.get(i) or visible(_name(tokenizer, i)) for i in unique.tolist()]
        out[:] = np.array([numbers.setdefault(word, len(numbers)) for word in words])[inverse].reshape(own.shape)
    return list(numbers), place.reshape(-1)


def _name(tokenizer: Any, token: int) -> str:
    """The tokenizer's own name of a token that its window does not have: a decoder's start token, say."""
    return str(tokenizer.convert_ids_to_tokens(token))


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
