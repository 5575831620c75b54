"""Threads that take turns: whoever computes a batch, its numbers are added after those of the batches before it."""

from __future__ import annotations

import threading
from collections.abc import Hashable, Iterator
from contextlib import contextmanager


class Stopped(Exception):  # noqa: N818 - no error of its own: another batch failed
    """Another batch failed, so nothing more is to be added."""


class InOrder:
    """Lets batches pass every place (a layer, say) one at a time and in the order of their numbers.

    The batches before go through the same places just ahead, so hardly anybody ever waits for long.

    >>> order = InOrder()
    >>> with order.turn("layer 0", 0):
    ...     pass
    >>> with order.turn("layer 0", 1):
    ...     print("after batch 0")
    after batch 0
    """

    def __init__(self) -> None:
        self._next: dict[Hashable, int] = {}  # the batch whose turn it is, by place
        self._changed = threading.Condition()
        self._stopped = False

    @contextmanager
    def turn(self, place: Hashable, number: int) -> Iterator[None]:
        """Wait until the batches before `number` have passed the place, then hold it."""
        with self._changed:
            while self._next.get(place, 0) != number and not self._stopped:
                self._changed.wait()
            if self._stopped:
                raise Stopped
        try:
            yield
        except BaseException:
            self.stop()
            raise
        with self._changed:
            self._next[place] = number + 1
            self._changed.notify_all()

    def stop(self) -> None:
        """Let no batch pass any more."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()

    @property
    def stopped(self) -> bool:
        """Whether a batch has failed."""
        return self._stopped
