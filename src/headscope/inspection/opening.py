"""Opening an inspection that was saved. Files are untrusted: what does not fit together is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
import xarray as xr
from torch import Tensor

from headscope.choices import STACKS, described, make_choices
from headscope.errors import HeadscopeError, brief
from headscope.files import INSPECTION, title_of
from headscope.inspection.capture import Captured
from headscope.inspection.inspection import Inspection
from headscope.inspection.saving import SCHEMA
from headscope.windows import CATEGORIES, Window, WindowBatch

AGAIN = "inspect the text again with this version and save it"


def open_inspection(file: str | Path) -> Inspection:
    """Read a file that `Inspection.save` wrote."""
    path = Path(file)
    if not path.is_file():
        raise HeadscopeError(f"there is no file {str(file)!r}", "name a file that inspection.save wrote")
    if title_of(path) != INSPECTION:
        raise HeadscopeError(
            f"{str(file)!r} is not a saved inspection",
            "name a file that inspection.save wrote; a run or its result.nc opens with headscope.Result.open",
        )
    try:
        with xr.open_dataset(path, engine="h5netcdf") as opened:
            data = opened.load()
    except Exception as error:  # a damaged file makes the libraries below raise anything
        raise HeadscopeError(f"{str(file)!r} cannot be read: {brief(error)}", "it may be damaged") from error
    if int(data.attrs.get("schema", 0)) != SCHEMA:
        raise HeadscopeError(
            f"{str(file)!r} was saved by headscope {data.attrs.get('headscope', 'of an older version')}", AGAIN
        )
    try:
        return _inspection(data)
    except (KeyError, ValueError, TypeError, IndexError, AttributeError) as error:
        raise HeadscopeError(
            f"{str(file)!r} does not hold what it should: {type(error).__name__}: {brief(error)}", AGAIN
        ) from error


def _inspection(data: xr.Dataset) -> Inspection:
    stack = str(data.attrs["stack"])
    if stack not in STACKS:
        raise ValueError(f"stack {stack[:20]!r}")
    queries, keys = _window(data, "token", "sentences"), _window(data, "key", "key_sentences")
    batch = WindowBatch((keys,), (queries,)) if stack == "cross" else WindowBatch((queries,))
    layers = [int(layer) for layer in data["layer"].values]
    tall, wide = len(queries), len(keys)
    outputs = _array(data, "outputs", (len(layers), data.sizes["head"], tall, data.sizes["feature"]))
    shape = outputs.shape[:2]
    readable: list[Tensor | None] = [None] * len(layers)
    if "readable" in data:
        readable = list(torch.from_numpy(_array(data, "readable", (len(layers), tall, wide)) > 0))
    values = np.asarray(data["values"].values, dtype=np.float32) if "values" in data else None
    if values is not None and (values.ndim != 4 or len(values) != len(layers) or shape[1] % values.shape[1]):
        raise ValueError(f"values of shape {values.shape}")
    given = _array(data, "given", (*shape, wide)) if "given" in data else None
    captured = Captured(
        stack=stack,
        layers=layers,
        depth=max(int(data.attrs["depth"]), layers[-1] + 1),
        batch=batch,
        outputs=outputs,
        values=[None] * len(layers) if values is None else list(values),
        given=given,
        even=_array(data, "even", (len(layers), wide)),
        weights=_array(data, "attention", (*shape, tall, wide)) if "attention" in data else None,
        readable=readable,
        again=None,
    )
    return Inspection(str(data.attrs["model"]), make_choices(_choices(data)), captured)


def _choices(data: xr.Dataset) -> dict[str, Any]:
    """The choices of the inspection, as attributes have them."""
    made: dict[str, Any] = {}
    for choice in described(of_text=True):
        value = data.attrs[f"option_{choice.name}"]
        made[choice.name] = tuple(str(value).split(", ")) if choice.several else choice.kind(value)
    return made


def _array(data: xr.Dataset, name: str, shape: tuple[int, ...]) -> Any:
    values = np.ascontiguousarray(data[name].values)
    if values.shape != shape:
        raise ValueError(f"{name} are of shape {values.shape}, not {shape}")
    if values.dtype.kind == "f":
        values = values.astype(np.float64 if name in ("given", "even") else np.float32)
        if not np.isfinite(values).all():
            raise ValueError(f"{name} hold NaN or infinite numbers")
    return values


def _window(data: xr.Dataset, prefix: str, sentences: str) -> Window:
    columns = {name: data[f"{prefix}_{name}"].values for name in
               ("token", "id", "category", "sentence", "word", "start", "end", "part", "unknown")}  # fmt: skip
    texts: list[str] = []
    while f"text_{len(texts)}" in data:
        texts.append(str(data[f"text_{len(texts)}"].values))
    span = np.stack([columns["start"], columns["end"]], axis=1).astype(np.int64)
    part = columns["part"].astype(np.int64)
    if part.max(initial=-1) >= max(len(texts), 1) or (span < 0).any():
        raise ValueError("tokens lie outside the text")
    return Window(
        ids=columns["id"].astype(np.int64),
        types=np.maximum(part, 0),
        category=np.array([CATEGORIES.index(str(name) or "word") for name in columns["category"]], dtype=np.int64),
        sentence=columns["sentence"].astype(np.int64),
        word=columns["word"].astype(np.int64),
        span=span,
        part=part,
        unknown=columns["unknown"].astype(bool),
        tokens=tuple(str(token) for token in columns["token"]),
        texts=tuple(texts),
        first=int(data.attrs["first"]),
        total=int(data.attrs["total"]),
        sentences=int(data.attrs[sentences]),
    )
