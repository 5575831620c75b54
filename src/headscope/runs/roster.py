"""The workers of a crew: who there is, what each has been asked, what all are told before their first shard."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from headscope.errors import HeadscopeError, brief
from headscope.runs.crew import Answer, Crew, CrewLost
from headscope.runs.deal import Shard
from headscope.runs.engine import WorkOrder
from headscope.runs.places import PlacedShard

AnyShard = Shard | PlacedShard
FAILED_STARTS = 3  # workers in a row that end before they are ready: the machine's fault, or the model's
WAIT = 0.5  # seconds at a time
PATIENCE = 30.0  # seconds until it is said that workers are awaited
FACTS, PREPARE = "facts", "prepare"  # what every worker is asked first


@dataclass(slots=True)
class Member:
    """One worker: whether it has come and is ready, and the shards it has."""

    calls: dict[int, str | AnyShard] = field(default_factory=dict)  # what was asked, in order
    hired: float = field(default_factory=time.monotonic)
    came: bool = False  # has answered anything
    ready: bool = False

    @property
    def shards(self) -> list[AnyShard]:
        """Those that it was given, the one that it is at first."""
        return [each for each in self.calls.values() if not isinstance(each, str)]


class Roster:
    """Hires workers and remembers what they were asked."""

    def __init__(self, crew: Crew, say: Callable[[str], None]) -> None:
        self.crew, self.say = crew, say
        self.members: dict[int, Member] = {}
        self._greetings: set[int] = set()  # calls that only show that a worker has come
        self._said_waiting = False
        self._order: tuple[WorkOrder, int | None] | None = None
        self._failed_starts = 0

    # ------------------------------------------------------------------ who there is

    def hire(self, wanted: int | None = None) -> None:
        """Hire until there are so many, or as many as the crew wants."""
        while len(self.members) < (self.crew.wanted if wanted is None else wanted):
            self.hire_one()

    def hire_one(self) -> int:
        """One more worker, told what is to be done where that is known."""
        number = self.crew.hire()
        self.members[number] = Member()
        self._greetings.add(self.crew.call(number, "process"))
        if self._order is not None:
            self._tell_order(number)
        return number

    def lost(self, number: int) -> Member | None:
        """A worker has ended; gives what it had been asked."""
        return self.members.pop(number, None)

    def failed(self, why: str) -> None:
        """A worker has ended before it was ready. Some in a row, and no more are hired."""
        self._failed_starts += 1
        if self._failed_starts >= FAILED_STARTS:
            raise HeadscopeError(
                f"{self._failed_starts} workers in a row ended before they were ready, the last one: {why}",
                "check that the model can be loaded there and fits into memory; ask for fewer workers",
            )

    def succeeded(self) -> None:
        """A worker has answered."""
        self._failed_starts = 0

    # ------------------------------------------------------------------ questions and answers

    def set_order(self, order: WorkOrder, batch: int | None, knows: int) -> None:
        """Tell all workers what is to be done, but for one who knows it; those that come later are told then.

        What fits was measured by that one; the others take it, and halve it where they have less room.
        """
        self._order = order, batch
        self.members[knows].ready = True
        for number in self.members:
            if number != knows:
                self._tell_order(number)

    def _tell_order(self, number: int) -> None:
        if self._order is None:
            raise AssertionError("set_order comes first")
        order, batch = self._order
        calls = self.members[number].calls
        calls[self.crew.call(number, FACTS)] = FACTS
        calls[self.crew.call(number, PREPARE, order, (), batch or 1)] = PREPARE

    def ask(self, method: str, *arguments: Any) -> tuple[int, Any]:
        """A worker and its answer; another one is asked where it ends before. One that has come is asked first."""
        while True:
            if not self.members:
                self.hire_one()
            number = next((each for each, member in self.members.items() if member.came), next(iter(self.members)))
            call = self.crew.call(number, method, *arguments)
            answer = self._answer_to(number, call)
            if not answer.died:
                self.succeeded()
                if answer.error is not None:
                    raise answer.error
                return number, answer.value
            self.lost(number)
            self.failed(answer.died)

    def _answer_to(self, worker: int, call: int) -> Answer:
        while True:
            for answer in self.answers():
                if answer.worker == worker and (answer.call == call or answer.died):
                    return answer
                if answer.died:
                    self.lost(answer.worker)

    def answers(self) -> list[Answer]:
        """What has come; waits a moment for the first. Where workers do not come for long, it is said why."""
        with told_if_lost():
            found = [heard for answer in self.crew.answers(WAIT) if (heard := self._heard(answer)) is not None]
            now = time.monotonic()
            late = any(not member.came and now - member.hired > PATIENCE for member in self.members.values())
            if late and not self._said_waiting and (why := self.crew.trouble()):
                self.say(why)
            self._said_waiting = late
            return found

    def _heard(self, answer: Answer) -> Answer | None:
        """An answer as it matters to others; None where it says no more than that its worker has come.

        A worker that could not load its model has failed to come; where that is the user's to fix, it is said at once.
        """
        if answer.died:
            return answer
        if answer.call in self._greetings:
            self._greetings.discard(answer.call)
            if answer.error is None:
                if answer.worker in self.members:
                    self.members[answer.worker].came = True
                return None
            if isinstance(answer.error, HeadscopeError):
                raise answer.error
            self.crew.dismiss(answer.worker)
            return Answer(answer.worker, 0, died=f"{type(answer.error).__name__}: {brief(answer.error)}")
        return answer


@contextmanager
def told_if_lost() -> Iterator[None]:
    """A crew that is out of reach becomes a sentence."""
    try:
        yield
    except CrewLost as error:
        raise HeadscopeError(
            f"the workers are out of reach: {brief(error)}",
            "every finished shard is kept, and the same command goes on from there when the workers are back",
        ) from error
