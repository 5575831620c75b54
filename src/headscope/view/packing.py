"""Arrays on their way to the page: names, types and shapes in front, then the numbers as they are (safetensors)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save


def pack(arrays: dict[str, NDArray[Any]]) -> bytes:
    """Arrays by name as one block of bytes.

    >>> len(pack({"a": np.zeros(2, np.float32)})) % 8
    0
    """
    return bytes(save({name: np.ascontiguousarray(array) for name, array in arrays.items()}))
