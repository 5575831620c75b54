"""Memory: whether the tables of counts fit, and giving back what threads free and the C library keeps for them."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Iterable

import psutil

from headscope.errors import HeadscopeError
from headscope.measures.table_sizes import table_bytes
from headscope.measures.variables import Shape

EVERY = 128  # windows
EVERY_ON_CARD = 16_384  # where little is freed, and a pause of the host is one of the card


def check_tables(shapes: Iterable[Shape]) -> None:
    """Refuse a run whose tables cannot fit, before the system ends the process for it."""
    wanted, free = sum(map(table_bytes, shapes)), psutil.virtual_memory().available
    if wanted > free:
        raise HeadscopeError(
            f"the tables of counts take {wanted / 1e9:,.1f} GB of memory, and {free / 1e9:,.1f} GB are free",
            "take fewer layers or a shorter window",
        )


def _trim() -> Callable[[int], int] | None:
    """glibc's malloc_trim, where this program runs on glibc."""
    if not sys.platform.startswith("linux"):
        return None
    malloc_trim: Callable[[int], int] | None = getattr(ctypes.CDLL(None), "malloc_trim", None)
    return malloc_trim


class Trimmer:
    """Gives freed memory back to the system after every so many windows, whatever the size of shards and batches."""

    def __init__(self, every: int = EVERY) -> None:
        self._trim, self._since, self._every = _trim(), 0, every

    def ran(self, windows: int) -> None:
        """Tell that so many windows more are done."""
        self._since += windows
        if self._trim is not None and self._since >= self._every:
            self._since = 0
            self._trim(0)
