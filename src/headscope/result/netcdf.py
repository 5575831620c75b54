"""netCDF-4 files, which are HDF5 with names for dimensions, by h5py alone.

A result has some hundred variables, and h5netcdf looks up every dimension again for each of them: this writes and opens
the same files ten times as fast. Anything that reads netCDF reads them.
"""

from __future__ import annotations

import os
import zlib
from collections import ChainMap
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import count, product
from pathlib import Path
from typing import Any, NamedTuple

import h5py
import numpy as np
import xarray as xr
from numpy.typing import NDArray
from xarray.backends import BackendArray
from xarray.core import indexing

from headscope.version import __version__

NO_VARIABLE = b"This is a netCDF dimension but not a netCDF variable."
NUMBER, NUMBERS = "_Netcdf4Dimid", "_Netcdf4Coordinates"  # of a dimension, and of a variable's dimensions
SCALE = "NAME"  # an attribute that dimensions have, and nothing else
BY_THREADS = 2**20  # bytes; what is larger is compressed by several threads
OF_SCALES = ("CLASS", SCALE, "REFERENCE_LIST", "DIMENSION_LIST")  # by which HDF5 ties dimensions and variables


class Dimension(NamedTuple):
    """A dimension of a new file."""

    scale: h5py.Dataset
    size: int
    number: int


class Group:
    """A group of a new file. What lies along a dimension comes after it; a group sees the dimensions around it.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with create(Path(folder, "a.nc")) as file:
    ...         file.coordinate("layer", np.array([4, 7]), "layer, counted from 0")
    ...         file.variable("texts", ("layer",), np.int64, "number of texts")[...] = [3, 5]
    ...     with open_group(Path(folder, "a.nc")) as data:
    ...         data["texts"].sel(layer=7).item(), data["texts"].attrs["description"]
    (5, 'number of texts')
    """

    def __init__(
        self, group: h5py.Group, dimensions: ChainMap[str, Dimension], dimension_numbers: Iterator[int]
    ) -> None:
        self.attrs, self.groups, self.variables = group.attrs, dict[str, Group](), dict[str, h5py.Dataset]()
        self._group, self._dimensions, self._numbers = group, dimensions, dimension_numbers

    def group(self, name: str) -> Group:
        """A new group inside this one."""
        made = Group(self._group.create_group(name, track_order=True), self._dimensions.new_child(), self._numbers)
        self.groups[name] = made
        return made

    def dimension(self, name: str, size: int) -> None:
        """A new dimension whose places have no values of their own."""
        scale = self._group.create_dataset(name, (size,), dtype=">f4")
        self._add_dimension(name, scale, f"{NO_VARIABLE.decode()}{size:10d}")

    def coordinate(self, name: str, values: NDArray[Any], meaning: str) -> None:
        """A new dimension, and the values of its places."""
        scale = self._dataset(name, values.shape, values.dtype, meaning, {})
        if values.size:
            scale[...] = values
        self._add_dimension(name, scale, name)

    def variable(self, name: str, dims: tuple[str, ...], dtype: Any, meaning: str, **storage: Any) -> h5py.Dataset:
        """A new variable along known dimensions, to be filled; `storage`: h5py's chunks and compression."""
        along = [self._dimensions[dim] for dim in dims]
        made = self._dataset(name, tuple(each.size for each in along), dtype, meaning, storage)
        for place, each in enumerate(along):
            h5py.h5ds.attach_scale(made.id, each.scale.id, place)
        if dims:
            made.attrs[NUMBERS] = np.array([each.number for each in along], dtype=np.int32)
        self.variables[name] = made
        return made

    def _dataset(
        self, name: str, shape: tuple[int, ...], dtype: Any, meaning: str, storage: Mapping[str, Any]
    ) -> h5py.Dataset:
        kind = h5py.string_dtype() if np.dtype(dtype).kind == "O" else dtype
        made = self._group.create_dataset(name, shape, dtype=kind, **storage)
        made.attrs["description"] = meaning
        return made

    def _add_dimension(self, name: str, scale: h5py.Dataset, label: str) -> None:
        scale.make_scale(label)
        number = scale.attrs[NUMBER] = np.int32(next(self._numbers))
        self._dimensions[name] = Dimension(scale, scale.shape[0], int(number))


@contextmanager
def create(file: Path) -> Iterator[Group]:
    """A new file, closed at the end of the block."""
    with h5py.File(file, "w", track_order=True) as opened:
        made_by = f"version=2,headscope={__version__},hdf5={h5py.version.hdf5_version},h5py={h5py.__version__}"
        opened.attrs["_NCProperties"] = made_by
        yield Group(opened, ChainMap(), count())


def fill(target: h5py.Dataset, values: NDArray[Any], where: tuple[int, ...] = ()) -> None:
    """Write values to a variable, or to one place of its first dimensions.

    Compressing is what takes the time of a file, and HDF5 does it in one thread: large variables are compressed here,
    a thread to a piece, and handed over as HDF5 would store them.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder, h5py.File(Path(folder, "a.h5"), "w") as file:
    ...     stored = {"chunks": (1, 300, 256), "compression": "gzip", "shuffle": True}
    ...     made = file.create_dataset("a", (2, 1000, 512), dtype="u2", **stored)
    ...     fill(made, np.arange(512_000).reshape(1000, 512) % 7001, (1,))
    ...     made[1, 999, :3].tolist(), int(made[0].max()), made.id.get_num_chunks()
    ([415, 416, 417], 0, 8)
    """
    compressed = target.compression == "gzip" and target.shuffle and target.chunks[: len(where)] == (1,) * len(where)
    if not compressed or values.nbytes < BY_THREADS:
        target[(*where, ...)] = values
        return
    if target.dtype.kind in "iu" and values.max() > np.iinfo(target.dtype).max:
        raise OverflowError(f"{target.name} has numbers up to {values.max()}, which {target.dtype} does not hold")
    sizes, level = target.chunks[len(where) :], target.compression_opts
    begins = list(product(*(range(0, whole, size) for whole, size in zip(values.shape, sizes, strict=True))))

    def packed(begin: tuple[int, ...]) -> bytes:
        own = values[tuple(slice(at, at + size) for at, size in zip(begin, sizes, strict=True))]
        piece = np.zeros(sizes, dtype=target.dtype)  # what reaches over the end is stored whole
        piece[tuple(slice(size) for size in own.shape)] = own
        # First bytes together, then second bytes: HDF5's shuffle.
        shuffled = np.ascontiguousarray(piece.reshape(-1).view(np.uint8).reshape(piece.size, -1).T)
        return zlib.compress(shuffled.data, level)

    with ThreadPoolExecutor(min(len(begins), os.cpu_count() or 1)) as threads:
        for begin, piece in zip(begins, threads.map(packed, begins), strict=True):
            target.id.write_direct_chunk((*where, *begin), piece)


# ---------------------------------------------------------------------- reading


def open_group(file: Path, group: str = "/") -> xr.Dataset:
    """The variables of one group of a file, each read when it is used; close the dataset to close the file."""
    opened = h5py.File(file, "r")
    try:
        inside, names = opened[group], dict[int, str]()
        for part in [inside, *_around(inside)]:
            names |= {int(each.attrs[NUMBER]): name for name, each in _datasets(part) if SCALE in each.attrs}
        variables = {
            name: xr.Variable(_dims(name, each, names), indexing.LazilyIndexedArray(Stored(each)), attributes(each))
            for name, each in _datasets(inside)
            if not _is_bare_dimension(each)
        }
        dataset = xr.Dataset(variables, attrs=attributes(inside))
    except BaseException:
        opened.close()
        raise
    dataset.set_close(opened.close)
    return dataset


def attributes(stored: h5py.Dataset | h5py.Group) -> dict[str, Any]:
    """The attributes that are the user's business. One number by itself and a list of one are the same to netCDF."""
    own = {name: stored.attrs[name] for name in stored.attrs if not name.startswith("_") and name not in OF_SCALES}
    return {
        name: value[0] if isinstance(value, np.ndarray) and value.size == 1 else value for name, value in own.items()
    }


class Stored(BackendArray):
    """An array in a file, of which xarray reads what it is asked for."""

    def __init__(self, dataset: h5py.Dataset) -> None:
        text = h5py.check_string_dtype(dataset.dtype) is not None
        self.shape, self.dtype = dataset.shape, np.dtype(object) if text else dataset.dtype
        self._values = dataset.asstr() if text else dataset

    def __getitem__(self, key: indexing.ExplicitIndexer) -> Any:
        return indexing.explicit_indexing_adapter(key, self.shape, indexing.IndexingSupport.OUTER_1VECTOR, self._read)

    def _read(self, key: tuple[Any, ...]) -> NDArray[Any]:
        return np.asarray(self._values[key])


def _around(group: h5py.Group) -> list[h5py.Group]:
    """The groups around a group."""
    return [] if group.name == "/" else [group.parent, *_around(group.parent)]


def _datasets(group: h5py.Group) -> Iterator[tuple[str, h5py.Dataset]]:
    return ((name, each) for name, each in group.items() if isinstance(each, h5py.Dataset))


def _dims(name: str, stored: h5py.Dataset, names: Mapping[int, str]) -> list[str]:
    """The names of a variable's dimensions, by their numbers; a coordinate is its own dimension."""
    if NUMBERS in stored.attrs:
        return [names[int(number)] for number in stored.attrs[NUMBERS]]
    return [name] * stored.ndim


def _is_bare_dimension(stored: h5py.Dataset) -> bool:
    return SCALE in stored.attrs and stored.attrs[SCALE].startswith(NO_VARIABLE)
