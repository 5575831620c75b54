"""Shards computed by a crew of workers: who gets which, what is tried again, what is put aside.

Each worker that is ready has one shard that it computes and one that waits, so that it is never idle and memory is
bounded by the number of workers; one that has not come yet keeps nobody waiting. Where a worker ends, what it had goes
to others; the shard that it was at has had one try. Three tries, and the shard is put aside, so that it cannot end one
worker after the other.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator

from headscope.errors import HeadscopeError, brief
from headscope.runs.computer import Ready, TooMuch
from headscope.runs.crew import Answer
from headscope.runs.engine import ComputedShard, EngineFacts, Work
from headscope.runs.folder import FinishedShard
from headscope.runs.roster import FACTS, PREPARE, AnyShard, Member, Roster

TRIES = 3  # of a shard, each of which ended a worker
IN_HAND = 2  # shards that a worker has: one at work, one waiting


class Shift:
    """One run of shards: what is waiting, what is tried again, who is at what."""

    def __init__(self, roster: Roster, facts: EngineFacts, work: Work, trouble: str = "") -> None:
        self.roster, self.crew, self.members = roster, roster.crew, roster.members
        self.facts, self.work = facts, work
        self.coming: Iterator[AnyShard] = work.shards(by_place=True)
        self.again: deque[AnyShard] = deque()
        self.tries: Counter[int] = Counter()
        self.exhausted = False
        self.said_trouble = False
        self._say_trouble(trouble)

    def run(self) -> None:
        """Until all shards are done or put aside, or it is to stop and what was begun is done."""
        while self._left() or any(member.shards for member in self.members.values()):
            self._give()
            for answer in self.roster.answers():
                self._take(answer)
            self.work.progress.working(sum(member.ready for member in self.members.values()))
        if self.work.stopping() and (self.again or not self.exhausted):
            raise KeyboardInterrupt

    def _left(self) -> bool:
        """Whether there is a shard to give; it then stands first in `again`."""
        if self.work.stopping():
            return False
        if not self.again and not self.exhausted:
            shard = next(self.coming, None)
            self.exhausted = shard is None
            if shard is not None:
                self.again.append(shard)
        return bool(self.again)

    def _give(self) -> None:
        """Give every worker what it can take; hire where shards are left and workers are missing."""
        for in_hand in range(IN_HAND):  # first everybody one, then everybody one to wait
            for number, member in self.members.items():
                if member.ready and len(member.shards) == in_hand and self._left():
                    shard = self.again.popleft()
                    call = self.crew.call(number, "shard", shard, self.work.batch(shard.number))
                    member.calls[call] = shard
        if self._left():
            self.roster.hire()

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
        elif asked == FACTS:
            self._check_facts(answer.value)
        elif asked == PREPARE:
            self._is_ready(member, answer.value)
        elif asked is not None and not isinstance(asked, str):
            self._shard_is_done(asked, answer.value)

    def _is_ready(self, member: Member, ready: Ready) -> None:
        member.ready = True
        self.roster.succeeded()
        self._say_trouble(ready.trouble)

    def _say_trouble(self, why: str) -> None:
        """Data then go through this process, as they do to a disk: slower, and no different."""
        if why and not self.said_trouble:
            self.said_trouble = True
            self.work.progress.say(f"note: a worker cannot put its shards away itself and hands them over here: {why}")

    def _shard_is_done(self, shard: AnyShard, value: ComputedShard | FinishedShard | TooMuch) -> None:
        if isinstance(value, TooMuch):
            if value.batch <= self.work.batch(shard.number):  # otherwise a smaller one is in use by now
                self.work.use_less(shard.number, value.batch)
            self.again.append(shard)
            return
        self.work.keep(value)
        self.work.progress.advance(shard.texts)
        self.work.progress.shard()

    def _check_facts(self, facts: EngineFacts) -> None:
        """Every worker has the same model; unlike machines are noticed and said."""
        first = self.facts
        if facts.fingerprint != first.fingerprint:
            raise HeadscopeError(
                f"workers have different models under the name {first.model.name!r}",
                "check that its folder holds the same on all machines",
            )
        if facts.model.device != first.model.device:
            raise HeadscopeError(
                f"some workers compute on {first.model.device}, others on {facts.model.device}",
                "name the device: --device cpu, or --gpus-per-worker 1",
            )
        self.work.joined(facts.machine)
        if facts.versions != first.versions:
            self.work.progress.say("note: the workers have different versions of packages; last digits may differ")

    def _lost(self, number: int, member: Member, why: str) -> None:
        """A worker has ended: the shard it was at has had a try, what waited goes to others."""
        self.roster.lost(number)
        if not member.ready:
            self.roster.failed(why)
        shards = member.shards
        if shards:
            self.tries[shards[0].number] += 1
            if self.tries[shards[0].number] >= TRIES:
                self.work.put_aside(shards.pop(0), why)
            else:
                self.work.progress.say(f"a worker ended in shard {shards[0].number} ({why}): the shard is tried again")
        self.again.extendleft(reversed(shards))
