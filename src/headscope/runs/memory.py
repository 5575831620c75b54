"""Giving memory back: what threads free, the C library keeps for them, more and more of it in the course of a run."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable

EVERY = 128  # windows


def _trim() -> Callable[[int], int] | None:
    """glibc's malloc_trim, where this program runs on glibc."""
    if not sys.platform.startswith("linux"):
        return None
    malloc_trim: Callable[[int], int] | None = getattr(ctypes.CDLL(None), "malloc_trim", None)
    return malloc_trim


class Trimmer:
    """Gives freed memory back to the system after every so many windows, whatever the size of shards and batches."""

    def __init__(self) -> None:
        self._trim, self._since = _trim(), 0

    def ran(self, windows: int) -> None:
        """Tell that so many windows more are done."""
        self._since += windows
        if self._trim is not None and self._since >= EVERY:
            self._since = 0
            self._trim(0)
