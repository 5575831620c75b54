"""A crew: workers in other processes, here or on a cluster, and the one way to talk to them.

A worker is a `ShardComputer` somewhere else. What it is asked is answered in its order, later; where it ends before it
has answered, that is the answer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol


@dataclass(frozen=True, slots=True)
class Answer:
    """What came of a call: a value, an error that was raised, or the end of the worker."""

    worker: int
    call: int
    value: Any = None
    error: BaseException | None = None
    died: str = ""  # how it ended


class Crew(Protocol):
    """Workers elsewhere. Each has a number, and so has each call."""

    wanted: int  # workers at once

    def hire(self) -> int:
        """Begin one more worker, which may take its time; gives its number."""

    def call(self, worker: int, method: str, *arguments: Any) -> int:
        """Ask a worker for a method of its `ShardComputer`; gives the number of the call."""

    def answers(self, seconds: float) -> list[Answer]:
        """Those that have come; waits for the first one, for so long at most."""

    def dismiss(self, worker: int) -> None:
        """End a worker; what it was asked remains unanswered."""

    def trouble(self) -> str:
        """Why workers that were hired do not come, where that is known."""

    def close(self) -> None:
        """End all of them."""


class CrewLost(Exception):  # noqa: N818 - an event, told by the engine in words
    """The whole crew is out of reach: the cluster is gone, for one."""
