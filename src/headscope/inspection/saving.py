"""Inspections as netCDF files that open with plain xarray, every variable explained in its attributes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from headscope.files import INSPECTION, written_whole
from headscope.version import __version__

if TYPE_CHECKING:
    from headscope.inspection.capture import Captured
    from headscope.inspection.inspection import Inspection

SCHEMA = 1  # of these files
COLUMNS = {
    "token": "the tokenizer's token",
    "id": "token id",
    "category": "start, end, stop, punctuation or word",
    "sentence": "number of the sentence in the text, from 0; -1: none",
    "word": "equal for pieces of one word; -1: none",
    "start": "first character of the token in its text",
    "end": "one past the last character",
    "part": "0 or 1: which text of a pair; -1: special token",
    "unknown": "1 where the tokenizer has no token for the characters",
}


def inspection_dataset(inspection: Inspection) -> xr.Dataset:
    """All arrays and tables of an inspection in one dataset; without the matrices where maps were not kept either.

    Matrices and levels are in the inspection's reading; outputs and values are there, so that every other can be made.
    """
    arrays = [inspection.outputs, inspection.norms]
    if inspection.captured.given is not None:
        arrays.append(inspection.given)
    if inspection.values is not None:
        arrays.append(inspection.values)
    if inspection.captured.weights is not None:
        arrays += [inspection.attention, inspection.similarity, inspection.levels]
    variables: dict[str, Any] = {str(array.name): array for array in arrays}
    meaning = "what the token would receive if every query read evenly what it may read"
    variables["even"] = xr.DataArray(inspection.captured.even, dims=("layer", "key"), attrs={"description": meaning})
    if inspection.captured.weights is not None and any(each is not None for each in inspection.captured.readable):
        variables["readable"] = _readable(inspection.captured)
    for prefix, dim, table in (("token", "token", inspection.tokens), ("key", "key", inspection.key_tokens)):
        for column, meaning in COLUMNS.items():
            values = table[column].to_numpy()
            if values.dtype == bool:
                values = values.astype(np.int8)
            elif values.dtype.kind not in "iuf":
                values = np.array(["" if value is None else _storable(str(value)) for value in values], dtype=object)
            variables[f"{prefix}_{column}"] = xr.DataArray(values, dims=(dim,), attrs={"description": meaning})
    for part, text in enumerate(inspection.window.texts):
        variables[f"text_{part}"] = xr.DataArray(_storable(text), attrs={"description": "the text, uncut"})
    dataset = xr.Dataset(variables)
    for name, coordinate in dataset.coords.items():
        if coordinate.dtype == object:
            dataset = dataset.assign_coords(
                {name: (coordinate.dims, np.array([_storable(str(v)) for v in coordinate.values], dtype=object))}
            )
    return dataset.assign_attrs(_attributes(inspection))


def _readable(captured: Captured) -> xr.DataArray:
    """Which tokens each token may read, 1 or 0, of every layer."""
    size = (len(captured.queries), len(captured.keys))
    every = [np.ones(size, np.int8) if each is None else each.numpy().astype(np.int8) for each in captured.readable]
    meaning = "1 where the query may read the key"
    return xr.DataArray(np.stack(every), dims=("layer", "query", "key"), attrs={"description": meaning})


def _attributes(inspection: Inspection) -> dict[str, Any]:
    import torch
    import transformers

    settings = {name: _plain(value) for name, value in inspection.settings().items()}
    return {
        "title": INSPECTION,
        "model": inspection.model,
        "stack": inspection.stack,
        "shown": inspection.shown,
        "schema": SCHEMA,
        "depth": inspection.captured.depth,
        "first": inspection.window.first,
        "total": inspection.window.total,
        "sentences": inspection.window.sentences,
        "key_sentences": inspection.captured.keys.sentences,
        "reading": inspection.reading,
        **{f"option_{key}": value for key, value in settings.items()},
        "headscope": __version__,
        "torch": str(torch.__version__),
        "transformers": str(transformers.__version__),
        "source": "Halevi, Tzach, Gross, Rosner and Kanter, arXiv:2512.21956",
    }


def _plain(value: Any) -> Any:
    """A choice as an attribute: netCDF has neither truth values nor tuples."""
    return ", ".join(value) if isinstance(value, tuple) else int(value) if isinstance(value, bool) else value


def _storable(text: str) -> str:
    """HDF5 ends a string at a NUL character; a picture of one stands in for it."""
    return text.replace("\x00", "␀")


def write_dataset(dataset: xr.Dataset, file: Path) -> Path:
    """Write a dataset as netCDF."""
    with written_whole(file) as partial:
        dataset.to_netcdf(partial, engine="h5netcdf")
    return file
