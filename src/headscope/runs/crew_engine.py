"""An engine over a crew: questions go to one worker, the survey and the shards to all of them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

from headscope.choices import Choices
from headscope.runs.computer import Ready
from headscope.runs.crew import Crew
from headscope.runs.engine import EngineFacts, Work, WorkOrder
from headscope.runs.roster import Roster, told_if_lost
from headscope.runs.shift import Shift
from headscope.texts import Record
from headscope.texts.pieces import Piece, PieceSurvey


class CrewEngine:
    """Runs shards on a crew."""

    def __init__(self, crew: Crew, say: Callable[[str], None]) -> None:
        self.crew, self.roster = crew, Roster(crew, say)
        self._facts: EngineFacts | None = None
        self._trouble = ""  # of the worker that was prepared first

    def facts(self) -> EngineFacts:
        """As the first worker tells it."""
        if self._facts is None:
            _, self._facts = self.roster.ask("facts")
        return self._facts

    def choose_path(self, wanted: str | None, choices: Choices) -> tuple[str, str]:
        """Who counts there."""
        path: tuple[str, str]
        _, path = self.roster.ask("choose_path", wanted, choices)
        return path

    def prepare(self, order: WorkOrder, first: Sequence[Record], batch: int | None) -> int | None:
        """Have one worker measure what fits, while the others load their models."""
        self.roster.hire()
        ready: Ready
        knows, ready = self.roster.ask("prepare", order, first, batch)
        self._trouble = ready.trouble
        self.roster.set_order(order, batch, knows)
        return ready.batch

    def token_text(self, ids: Sequence[int]) -> list[str]:
        """The tokens' own forms."""
        text: list[str]
        _, text = self.roster.ask("token_text", list(ids))
        return text

    def survey(self, pieces: Sequence[Piece], on_progress: Callable[[int], None]) -> list[PieceSurvey]:
        """Pieces are dealt out to all workers; of one that ends, the others take what it had."""
        found: dict[int, PieceSurvey] = {}
        asked: dict[tuple[int, int], int] = {}  # by worker and call: the piece
        waiting = deque(range(len(pieces)))
        while len(found) < len(pieces):
            self.roster.hire(min(self.crew.wanted, len(pieces)))
            for number, member in self.roster.members.items():
                if waiting and member.came and not any(worker == number for worker, _ in asked):
                    piece = waiting.popleft()
                    asked[number, self.crew.call(number, "survey", pieces[piece])] = piece
            for answer in self.roster.answers():
                if answer.died:
                    self.roster.lost(answer.worker)
                    lost = [key for key in asked if key[0] == answer.worker]
                    waiting.extend(asked.pop(key) for key in lost)
                    self.roster.failed(answer.died)
                elif answer.error is not None:
                    raise answer.error
                elif (answer.worker, answer.call) in asked:
                    found[asked.pop((answer.worker, answer.call))] = answer.value
                    self.roster.succeeded()
                    on_progress(sum(each.texts for each in found.values()))
        return [found[place] for place in range(len(pieces))]

    def run(self, work: Work) -> None:
        """Compute all shards; they are kept as they come, in any order."""
        with told_if_lost():
            Shift(self.roster, self.facts(), work, self._trouble).run()

    def close(self) -> None:
        """End the workers."""
        self.crew.close()
