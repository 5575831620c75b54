"""A shard on disk: the sums of every stack as one small HDF5 file, made in memory and checked by its hash."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from headscope.measures.variables import MATRIX, Sums
from headscope.result.schema import VERSION, check_version

SMALL = 4096  # numbers; less is not worth compressing
Largest = dict[str, dict[str, int]]  # by stack and variable: the largest of its counts


def pack(sums: Mapping[str, Mapping[str, NDArray[Any]]]) -> bytes:
    """The sums as the bytes of a file. Of the mean matrix only the half that is filled is kept.

    >>> packed = pack({"encoder": {"texts": np.array(3), "similarity_sum": np.triu(np.ones((1, 1, 3, 3)), 1)}})
    >>> unpack(packed)["encoder"]["similarity_sum"].tolist()
    [[[[0.0, 1.0, 1.0], [0.0, 0.0, 1.0], [0.0, 0.0, 0.0]]]]
    """
    buffer = io.BytesIO()
    with h5py.File(buffer, "w") as file:
        file.attrs["schema"] = VERSION
        for stack, variables in sums.items():
            group = file.create_group(stack)
            for name, values in variables.items():
                if name == MATRIX:
                    group.create_dataset(name, data=_half_of(values)).attrs["size"] = values.shape[-1]
                    continue
                stored = smallest(values)
                compression: dict[str, Any] = {"compression": "lzf", "shuffle": True} if stored.size > SMALL else {}
                target = group.create_dataset(name, data=stored, **compression)
                if stored.dtype.kind != "f":
                    target.attrs["largest"] = int(stored.max(initial=0))
    return buffer.getvalue()


def unpack(source: bytes | Path, wanted: Callable[[str], bool] = lambda name: True) -> Sums:
    """The sums of a shard's file, or only those of the wanted names."""
    sums: Sums = {}
    with _opened(source) as file:
        for stack, group in file.items():
            sums[stack] = {}
            for name in filter(wanted, group):
                stored = group[name]
                values = stored[()]
                if name == MATRIX:
                    sums[stack][name] = _matrix_of(values, int(stored.attrs["size"]))
                else:
                    array = np.asarray(values)
                    sums[stack][name] = array if array.dtype.kind == "f" else array.astype(np.int64)
    return sums


def _half_of(matrix: NDArray[Any]) -> NDArray[Any]:
    """The half of a matrix above its diagonal, row by row: far faster than a list of places."""
    size = matrix.shape[-1]
    half = np.empty((*matrix.shape[:-2], size * (size - 1) // 2), dtype=matrix.dtype)
    for i, row in _rows_of_half(size):
        half[..., row] = matrix[..., i, i + 1 :]
    return half


def _matrix_of(half: NDArray[Any], size: int) -> NDArray[Any]:
    """The matrix of which `pack` kept the half that is filled, row by row."""
    whole = np.zeros((*half.shape[:-1], size, size))
    for i, row in _rows_of_half(size):
        whole[..., i, i + 1 :] = half[..., row]
    return whole


def _rows_of_half(size: int) -> Iterator[tuple[int, slice]]:
    """Each row of a matrix, and where what stands after its diagonal lies in the half.

    >>> [(i, row.start, row.stop) for i, row in _rows_of_half(4)]
    [(0, 0, 3), (1, 3, 5), (2, 5, 6)]
    """
    first = 0
    for i in range(size - 1):
        yield i, slice(first, first + size - 1 - i)
        first += size - 1 - i


def largest_of(sums: Mapping[str, Mapping[str, NDArray[Any]]]) -> Largest:
    """The largest count of each variable; see `largest_counts`."""
    return {
        stack: {name: int(values.max(initial=0)) for name, values in of_stack.items() if values.dtype.kind != "f"}
        for stack, of_stack in sums.items()
    }


def largest_counts(source: bytes | Path) -> Largest:
    """The largest count of each variable, which says how small the whole numbers of a result may be.

    >>> largest_counts(pack({"encoder": {"texts": np.array(3), "attention": np.array([0.5])}}))
    {'encoder': {'texts': 3}}
    """
    with _opened(source) as file:
        return {
            stack: {name: int(stored.attrs["largest"]) for name, stored in group.items() if "largest" in stored.attrs}
            for stack, group in file.items()
        }


def _opened(source: bytes | Path) -> Any:
    file = h5py.File(io.BytesIO(source) if isinstance(source, bytes) else source, "r")
    try:
        check_version(file.attrs.get("schema"), "a shard" if isinstance(source, bytes) else repr(str(source)))
    except BaseException:
        file.close()
        raise
    return file


def smallest(values: NDArray[Any]) -> NDArray[Any]:
    """Counts as the smallest whole numbers that hold them; anything else as it is.

    >>> smallest(np.array([3, 300])).dtype, smallest(np.array([0.5])).dtype
    (dtype('uint16'), dtype('float64'))
    """
    if values.dtype.kind == "f":
        return values
    return values.astype(np.min_scalar_type(int(values.max(initial=0))), order="C")
