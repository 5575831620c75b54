"""Work that takes long, done once beside everything else: whoever asks is told if it is done, and need not wait."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from threading import Lock, Thread
from typing import Generic, TypeVar

T = TypeVar("T")


class Later(Generic[T]):
    """A function's value, worked out in a thread of its own from when it is first asked for.

    >>> later = Later(lambda: 6 * 7)
    >>> later.is_ready
    False
    >>> later.value()
    42
    """

    def __init__(self, work: Callable[[], T]) -> None:
        self._work, self._future, self._lock = work, Future[T](), Lock()
        self._thread: Thread | None = None

    @property
    def is_ready(self) -> bool:
        """Whether it is done, well or not."""
        return self._future.done()

    def start(self) -> None:
        """Begin, unless it has begun. The thread keeps no program from ending."""
        with self._lock:
            if self._thread is None:
                self._thread = Thread(target=self._run, name="headscope-later", daemon=True)
                self._thread.start()

    def value(self) -> T:
        """The value, waited for; what went wrong is raised to everybody who asks."""
        self.start()
        return self._future.result()

    def _run(self) -> None:
        try:
            self._future.set_result(self._work())
        except BaseException as error:  # for whoever asks
            self._future.set_exception(error)
