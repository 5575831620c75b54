"""Rows per text as Parquet: one table of what each head did with each window, one of the windows themselves."""

from __future__ import annotations

import io
from typing import Any

import numpy as np

from headscope.runs.worker import Outcome
from headscope.windows import CATEGORIES

STOP, END = CATEGORIES.index("stop"), CATEGORIES.index("end")


def tables(outcome: Outcome, tokenizer: Any) -> dict[str, bytes]:
    """Both tables of a shard as the bytes of Parquet files; `text` numbers the shard's windows from 0."""
    import pyarrow as pa

    columns: dict[str, list[Any]] = {name: [] for name in COLUMNS}
    stacks: list[str] = []
    begin = 0
    for batch in outcome.rows:
        size = 0
        for stack, layers in batch.items():
            for rows in layers:
                size, heads = rows.high_pairs.shape
                number = size * heads
                stacks += [stack] * number
                with np.errstate(divide="ignore", invalid="ignore"):
                    focus = rows.given / rows.even[:, None]  # (B, H, categories); no such token: 0 / 0
                some = rows.high_pairs > 0
                values = {
                    "text": np.repeat(np.arange(begin, begin + size), heads),
                    "layer": np.full(number, rows.layer),
                    "head": np.tile(np.arange(heads), size),
                    "stop_focus": focus[..., STOP],
                    "end_focus": focus[..., END],
                    "high_pairs": rows.high_pairs,
                    "distance": np.where(some, rows.distance, np.nan),
                    "sentence_share": np.where(some, rows.sentence_share, np.nan),
                    "repetition_share": np.where(some, rows.repetition_share, np.nan),
                    "focal_id": rows.focal_token,
                    "focal_share": np.where(some, rows.focal_share, np.nan),
                }
                for name, value in values.items():
                    columns[name].append(np.asarray(value).reshape(-1))
        begin += size
    joined = {
        name: pa.array(np.concatenate(parts).astype(COLUMNS[name]) if parts else np.zeros(0, COLUMNS[name]))
        for name, parts in columns.items()
    }
    ids = joined["focal_id"].to_numpy()
    unique, place = np.unique(ids, return_inverse=True)
    words = [None if i < 0 else str(tokenizer.convert_ids_to_tokens(int(i))) for i in unique]
    joined["focal_token"] = pa.array([words[k] for k in place], pa.string())
    joined["stack"] = pa.array(stacks, pa.string())
    shown = outcome.shown
    texts = {
        "text": pa.array(np.arange(len(shown), dtype=np.int64)),
        "id": pa.array([each.record.id for each in shown], pa.string()),
        "group": pa.array([each.record.group for each in shown], pa.string()),
        "window": pa.array([each.number for each in shown], pa.int32()),
        "tokens": pa.array([len(each.window) for each in shown], pa.int32()),
        "sentences": pa.array([each.window.sentences for each in shown], pa.int32()),
        "content": pa.array([_content(each.window) for each in shown], pa.string()),
    }
    return {"heads.parquet": _bytes(pa.table(joined)), "texts.parquet": _bytes(pa.table(texts))}


COLUMNS: dict[str, Any] = {
    "text": np.int64,
    "layer": np.int16,
    "head": np.int16,
    "stop_focus": np.float32,
    "end_focus": np.float32,
    "high_pairs": np.int32,
    "distance": np.float32,
    "sentence_share": np.float32,
    "repetition_share": np.float32,
    "focal_id": np.int32,
    "focal_share": np.float32,
}


def _content(window: Any) -> str:
    """The characters that the window shows."""
    own = window.span[window.part == 0]
    return str(window.texts[0][own[:, 0].min() : own[:, 1].max()]) if len(own) else ""


def _bytes(table: Any) -> bytes:
    import pyarrow.parquet as pq

    held = io.BytesIO()
    pq.write_table(table, held, compression="zstd")
    return held.getvalue()
