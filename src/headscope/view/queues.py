"""Where work waits for its turn: so many at work, so many in line, and everybody else is told to come back."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TypeVar

T = TypeVar("T")


class Busy(Exception):  # noqa: N818 - an answer
    """The line is full, or the turn did not come in time."""


class WorkQueue:
    """Threads with a bounded line before them.

    >>> queue = WorkQueue("sums", workers=1, waiting=0)
    >>> asyncio.run(queue.run(sum, [1, 2]))
    3
    """

    def __init__(self, name: str, *, workers: int, waiting: int, seconds: float = 60.0) -> None:
        self.most, self.seconds, self.inside = workers + waiting, seconds, 0
        self._pool = ThreadPoolExecutor(workers, thread_name_prefix=f"headscope-{name}")

    async def run(self, function: Callable[..., T], *arguments: object) -> T:
        """Do it in a thread. Work that has begun goes on to its end and keeps its place, even if nobody waits."""
        if self.inside >= self.most:
            raise Busy("too many requests at once; try again in a moment")
        self.inside += 1
        try:
            work = self._pool.submit(function, *arguments)
        except BaseException:
            self.inside -= 1
            raise
        loop = asyncio.get_running_loop()

        def left(_: object) -> None:
            self.inside -= 1

        def done(finished: object) -> None:
            with suppress(RuntimeError):  # the loop has ended meanwhile
                loop.call_soon_threadsafe(left, finished)

        work.add_done_callback(done)
        try:
            return await asyncio.wait_for(asyncio.wrap_future(work), self.seconds)
        except TimeoutError as error:
            raise Busy("the turn did not come in time; try again in a moment") from error

    def close(self) -> None:
        """Let nothing more begin; what is at work ends."""
        self._pool.shutdown(wait=False, cancel_futures=True)
