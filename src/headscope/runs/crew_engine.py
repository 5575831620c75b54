"""Shards computed by a crew of workers: who gets which, what is tried again, what is put aside.

Each worker has one shard that it computes and one that waits, so that it is never idle and memory is bounded by the
number of workers. Where a worker ends, what it had goes to others; the shard that it was at has had one try. Three
tries, and the shard is put aside, so that it cannot end one worker after the other.
"""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from headscope.choices import Choices
from headscope.errors import HeadscopeError, brief
from headscope.runs.computer import TooMuch
from headscope.runs.crew import Answer, Crew, CrewLost
from headscope.runs.deal import Shard
from headscope.runs.engine import ComputedShard, EngineFacts, Work, WorkOrder
from headscope.runs.places import PlacedShard
from headscope.texts import Record
from headscope.texts.pieces import Piece, PieceSurvey

AnyShard = Shard | PlacedShard
TRIES = 3  # of a shard, each of which ended a worker
IN_HAND = 2  # shards that a worker has: one at work, one waiting
FAILED_STARTS = 3  # workers in a row that end before they are ready: the machine's fault, or the model's
PATIENCE = 30.0  # seconds until it is said that workers are awaited
WAIT = 0.5  # seconds at a time


@dataclass(slots=True)
class _Member:
    """One worker: whether it is ready, and the shards it has."""

    calls: dict[int, str | AnyShard] = field(default_factory=dict)  # what was asked, in order
    ready: bool = False

    @property
    def shards(self) -> list[AnyShard]:
        return [each for each in self.calls.values() if not isinstance(each, str)]


class CrewEngine:
    """Runs shards on a crew."""

    def __init__(self, crew: Crew) -> None:
        self.crew = crew
        self._members: dict[int, _Member] = {}
        self._order: tuple[WorkOrder, int | None] | None = None
        self._facts: EngineFacts | None = None
        self._failed_starts = 0
        self.machines: list[str] = []  # kinds of machines that answered

    # ------------------------------------------------------------------ one question to one worker

    def facts(self) -> EngineFacts:
        """As the first worker tells it."""
        if self._facts is None:
            self._facts = self._ask("facts")
            self.machines.append(self._facts.machine)
        return self._facts

    def choose_path(self, wanted: str | None, choices: Choices) -> tuple[str, str]:
        """Who counts there."""
        path: tuple[str, str] = self._ask("choose_path", wanted, choices)
        return path

    def prepare(self, order: WorkOrder, first: Sequence[Record], batch: int | None) -> int | None:
        """Have one worker measure what fits, while the others load their models."""
        while len(self._members) < self.crew.wanted:
            self._hire()
        fits: int | None = self._ask("prepare", order, first, batch)
        self._order = order, batch
        asked, *others = self._members
        self._members[asked].ready = True
        for number in others:
            self._tell_order(number)
        return fits

    def token_text(self, ids: Sequence[int]) -> list[str]:
        """The tokens' own forms."""
        text: list[str] = self._ask("token_text", list(ids))
        return text

    def survey(self, pieces: Sequence[Piece], on_progress: Callable[[int], None]) -> list[PieceSurvey]:
        """Pieces are dealt out to all workers; of one that ends, the others take what it had."""
        found: dict[int, PieceSurvey] = {}
        asked: dict[tuple[int, int], int] = {}  # by worker and call: the piece
        waiting = deque(range(len(pieces)))
        while len(found) < len(pieces):
            while len(self._members) < min(self.crew.wanted, len(pieces)):
                self._hire()
            for number in self._members:
                if waiting and not any(worker == number for worker, _ in asked):
                    piece = waiting.popleft()
                    asked[number, self.crew.call(number, "survey", pieces[piece])] = piece
            for answer in self._answers():
                if answer.died:
                    self._members.pop(answer.worker, None)
                    lost = [key for key in asked if key[0] == answer.worker]
                    waiting.extend(asked.pop(key) for key in lost)
                    self._failed(answer.died)
                elif answer.error is not None:
                    raise answer.error
                elif (answer.worker, answer.call) in asked:
                    found[asked.pop((answer.worker, answer.call))] = answer.value
                    self._failed_starts = 0
                    on_progress(sum(each.texts for each in found.values()))
        return [found[place] for place in range(len(pieces))]

    def _ask(self, method: str, *arguments: Any) -> Any:
        """One worker's answer; another is asked where it ends before."""
        while True:
            number = next(iter(self._members), None)
            if number is None:
                number = self._hire()
            call = self.crew.call(number, method, *arguments)
            answer = self._answer_to(number, call)
            if not answer.died:
                self._failed_starts = 0
                if answer.error is not None:
                    raise answer.error
                return answer.value
            del self._members[number]
            self._failed(answer.died)

    def _answer_to(self, worker: int, call: int) -> Answer:
        while True:
            for answer in self._answers():
                if answer.worker == worker and (answer.call == call or answer.died):
                    return answer
                if answer.died:
                    self._members.pop(answer.worker, None)

    def _answers(self) -> list[Answer]:
        with told_if_lost():
            return self.crew.answers(WAIT)

    # ------------------------------------------------------------------ shards

    def run(self, work: Work) -> None:
        """Compute all shards; they are kept as they come, in any order."""
        with told_if_lost():
            _Shift(self, work).run()

    def _hire(self) -> int:
        number = self.crew.hire()
        self._members[number] = _Member()
        if self._order is not None:
            self._tell_order(number)
        return number

    def _tell_order(self, number: int) -> None:
        """What fits was measured by the first worker; the others take that, and halve it where they have less room."""
        if self._order is None:
            raise AssertionError("prepare comes first")
        order, batch = self._order
        calls = self._members[number].calls
        calls[self.crew.call(number, "facts")] = "facts"
        calls[self.crew.call(number, "prepare", order, (), batch or 1)] = "prepare"

    def _failed(self, why: str) -> None:
        self._failed_starts += 1
        if self._failed_starts >= FAILED_STARTS:
            raise HeadscopeError(
                f"{self._failed_starts} workers in a row ended before they were ready, the last one: {why}",
                "see that the model can be loaded there and fits into memory; ask for fewer workers",
            )

    def close(self) -> None:
        """End the workers."""
        self.crew.close()


@contextmanager
def told_if_lost() -> Iterator[None]:
    """A crew that is out of reach becomes a sentence."""
    try:
        yield
    except CrewLost as error:
        raise HeadscopeError(
            f"the workers are out of reach: {brief(error)}",
            "every finished shard is kept, and the same command goes on from there once they are back",
        ) from error


class _Shift:
    """One run of shards: what is waiting, what is tried again, who is at what."""

    def __init__(self, engine: CrewEngine, work: Work) -> None:
        self.engine, self.crew, self.work = engine, engine.crew, work
        self.members = engine._members
        self.coming: Iterator[AnyShard] = work.shards(by_place=True)
        self.again: deque[AnyShard] = deque()
        self.tries: Counter[int] = Counter()
        self.exhausted = False
        self.heard = time.monotonic()  # when a worker last answered
        self.said_waiting = False

    def run(self) -> None:
        """Until all shards are done or put aside, or it is to stop and what was begun is done."""
        self._give()
        while any(member.shards for member in self.members.values()):
            answers = self.crew.answers(WAIT)
            for answer in answers:
                self._take(answer)
            if answers:
                self.heard, self.said_waiting = time.monotonic(), False
            elif time.monotonic() - self.heard > PATIENCE and not self.said_waiting:
                self.said_waiting = True
                why = self.crew.trouble()
                if why:
                    self.work.progress.say(why)
            self._give()
            self.work.progress.working(sum(member.ready for member in self.members.values()))
        if self.work.stopping() and not (self.exhausted and not self.again):
            raise KeyboardInterrupt

    def _next(self) -> AnyShard | None:
        """The next shard to compute."""
        if self.work.stopping():
            return None
        if self.again:
            return self.again.popleft()
        shard = None if self.exhausted else next(self.coming, None)
        self.exhausted = shard is None
        return shard

    def _give(self) -> None:
        """Give every worker what it can take; hire where shards are left that nobody has."""
        for in_hand in range(IN_HAND):  # first everybody one, then everybody one to wait
            for number, member in list(self.members.items()):
                if len(member.shards) == in_hand:
                    self._give_to(number, member)
        while len(self.members) < self.crew.wanted:
            shard = self._next()
            if shard is None:
                return
            number = self.engine._hire()
            self._hand(number, self.members[number], shard)

    def _give_to(self, number: int, member: _Member) -> None:
        shard = self._next()
        if shard is not None:
            self._hand(number, member, shard)

    def _hand(self, number: int, member: _Member, shard: AnyShard) -> None:
        call = self.crew.call(number, "shard", shard, self.work.batch(shard.number))
        member.calls[call] = shard

    # ------------------------------------------------------------------ answers

    def _take(self, answer: Answer) -> None:
        member = self.members.get(answer.worker)
        if member is None:
            return  # of a worker that was dismissed
        if answer.died:
            self._lost(answer.worker, member, answer.died)
            return
        asked = member.calls.pop(answer.call, None)
        if answer.error is not None:
            if isinstance(answer.error, HeadscopeError):
                raise answer.error
            self.crew.dismiss(answer.worker)  # who knows what else is wrong there
            member.calls = {answer.call: asked, **member.calls} if asked is not None else member.calls
            self._lost(answer.worker, member, f"{type(answer.error).__name__}: {brief(answer.error)}")
        elif asked == "facts":
            self._check_facts(answer.value)
        elif asked == "prepare":
            member.ready, self.engine._failed_starts = True, 0
        elif asked is not None and not isinstance(asked, str):
            self._shard_is_done(asked, answer.value)

    def _shard_is_done(self, shard: AnyShard, value: ComputedShard | TooMuch) -> None:
        if isinstance(value, TooMuch):
            if value.batch <= self.work.batch(shard.number):  # otherwise a smaller one is in use by now
                self.work.use_less(shard.number, value.batch)
            self.again.append(shard)
            return
        self.work.keep(value)
        self.work.progress.advance(value.about.texts)
        self.work.progress.shard()

    def _check_facts(self, facts: EngineFacts) -> None:
        """Every worker has the same model; unlike machines are noticed and said."""
        first = self.engine.facts()
        if facts.fingerprint != first.fingerprint:
            raise HeadscopeError(
                f"workers have different models under the name {first.model.name!r}",
                "see that its folder holds the same on all machines",
            )
        if facts.model.device != first.model.device:
            raise HeadscopeError(
                f"some workers compute on {first.model.device}, others on {facts.model.device}",
                "name the device: --device cpu, or --gpus-per-worker 1",
            )
        if facts.machine not in self.engine.machines:
            self.engine.machines.append(facts.machine)
            self.work.progress.say(
                f"note: the workers' machines are of different kinds ({'; '.join(self.engine.machines)}); last digits "
                "depend on which one computed a shard"
            )
        if facts.versions != first.versions:
            self.work.progress.say("note: the workers have different versions of packages; last digits may differ")

    def _lost(self, number: int, member: _Member, why: str) -> None:
        """A worker has ended: the shard it was at has had a try, what waited goes to others."""
        del self.members[number]
        if not member.ready:
            self.engine._failed(why)
        shards = member.shards
        if shards and member.ready:
            self.tries[shards[0].number] += 1
            if self.tries[shards[0].number] >= TRIES:
                self.work.put_aside(shards.pop(0), why)
            else:
                self.work.progress.say(f"a worker ended in shard {shards[0].number} ({why}): the shard is tried again")
        self.again.extendleft(reversed(shards))
