"""What a text of a run is an example of, marked in it as the report does: the model reads the text again and says."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headscope.errors import HeadscopeError
from headscope.windows.excerpts import excerpt

if TYPE_CHECKING:
    from headscope.models.model import Model
    from headscope.view.run_data import RunData

# Scores that texts show by what the report marks for another one.
LIKE = {"separator_similarity": "separator_focus_stop"}
MARKED = ("repetition_preference", "sentence_preference", "separator_focus_stop", "focal_share")
KEPT = 512  # answers, a few hundred bytes each


def can_be_marked(score: str) -> bool:
    """Whether there is something to mark in texts that show a score.

    >>> can_be_marked("separator_similarity"), can_be_marked("mean_distance")
    (True, False)
    """
    return LIKE.get(score, score) in MARKED


class Marks:
    """The marked texts of a run, each made when it is asked for."""

    def __init__(self) -> None:
        self._made: dict[tuple[str, int, int, str, int], dict[str, Any]] = {}

    def of(self, run: RunData, model: Model, place: tuple[int, int], score: str, number: int) -> dict[str, Any]:
        """The text at this place of those that show a score of a head, in pieces, and what is marked in them.

        The head is seen as the run saw it, at the run's own τ.
        """
        key = (run.result.name, *place, score, number)
        if key not in self._made:
            made = _marked(run, model, place, score, number)
            if len(self._made) >= KEPT:
                self._made.clear()
            self._made[key] = made
        return self._made[key]


def _marked(run: RunData, model: Model, place: tuple[int, int], score: str, number: int) -> dict[str, Any]:
    # The report loads torch, which the page of a run does not wait for.
    from headscope.report.examples import KINDS, spans_to_mark

    texts = run.examples(*place, score)
    if number >= len(texts) or not can_be_marked(score):
        raise HeadscopeError(f"there is no text {number} to mark by {score!r}", "ask for one of the examples")
    kind = next(each for each in KINDS if each.score == LIKE.get(score, score))
    text, result, layer = texts[number], run.result, place[0]
    seen = model.inspect(text["text"], stack=result.name, layers=[layer], **result.inspect_options)
    spans = spans_to_mark(kind, seen, place, run.sums.tau, ends=text["ends"])
    shown = excerpt(text["text"], spans, begins=text["begins"], ends=text["ends"])
    return {"marked": kind.marked, "pieces": [list(piece) for piece in shown.pieces]}
