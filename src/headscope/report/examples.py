"""Texts that show a head's role, for the report: which heads, which texts, what is marked in them, and one drawn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headscope.errors import HeadscopeError
from headscope.findings.resampling import Resampling
from headscope.findings.showing import beyond_permuted
from headscope.findings.specialists import SPECIALIST
from headscope.look import SCREEN, Look
from headscope.report.marks import Mark, focal_tokens, repetitions, sentence_stops, similar_in_sentence
from headscope.result.rows import row_paths
from headscope.windows.excerpts import Excerpt, excerpt
from headscope.windows.text import in_a_line, visible

if TYPE_CHECKING:
    import pandas as pd

    from headscope.figures.style import Picture
    from headscope.inspection.inspection import Inspection
    from headscope.models.model import Model
    from headscope.result.result import Result


@dataclass(frozen=True, slots=True)
class Kind:
    """A role of heads: the score of heads that finds it, the score of texts that shows it, and what is marked."""

    role: str
    score: str
    shown_by: str
    says: str  # what the number, in braces, says of one text
    marked: str
    mark: Mark


REPETITIONS, _, _, ROUND_ONE_TOKEN = KINDS = (
    Kind(
        "finds repetitions", "repetition_preference", "repetition_share",
        "{} of its similar pairs are a word and its repetition",
        "words that the head finds similar to their repetition", repetitions,
    ),
    Kind(
        "keeps to the sentence", "sentence_preference", "sentence_share",
        "{} of its similar pairs are two words of one sentence",
        "of the sentence in which the head has most of its similar pairs, the words that are in them",
        similar_in_sentence,
    ),
    Kind(
        "reads the ends of sentences", "separator_focus_stop", "separator_focus_stop",
        "it gives the ends of sentences {} times the attention of an even spread",
        "the ends of sentences", sentence_stops,
    ),
    Kind(
        "gathers round one token", "focal_share", "focal_share",
        "{} of its similar pairs contain the focal token",
        "the focal token", focal_tokens,
    ),
)  # fmt: skip
TEXTS = 3  # to a role
LOOKED_AT = 20  # texts among which the shortest is drawn


@dataclass(frozen=True, slots=True)
class Example:
    """A text that shows a role."""

    id: str
    says: str  # what the head's number says of this text
    focal_token: str
    high_pairs: int
    excerpt: Excerpt


@dataclass(frozen=True, slots=True)
class Role:
    """The head that stands out most in one role, and the texts that show it best."""

    kind: Kind
    layer: int
    head: int
    value: float
    learned: (
        bool | None
    )  # whether it lies farther out than any head of permuted weights; None where there is no such run
    marked: bool  # whether there was a model to read the texts with
    texts: list[Example]


def roles(
    result: Result, tau: float | None = None, model: Model | None = None, controls: Sequence[Result] = ()
) -> list[Role]:
    """A head for each role, where the run kept rows per text and there is a head that stands out.

    With the model, the texts are read again, and what shows the role is marked in them.
    """
    found = []
    for kind, best in leading_heads(result, tau, controls):
        layer, head = int(best["layer"]), int(best["head"])
        rows = result.examples(layer, head, kind.shown_by, TEXTS)
        texts = [_example(dict(row), kind, (layer, head), result, tau, model) for _, row in rows.iterrows()]
        found.append(Role(kind, layer, head, float(best["value"]), beyond_permuted(best), model is not None, texts))
    return found


def leading_heads(
    result: Result, tau: float | None = None, controls: Sequence[Result] = ()
) -> list[tuple[Kind, pd.Series[Any]]]:
    """For each role the head that stands out farthest above its layer and has a text to show it.

    Heads that stand out farther than any of permuted weights come first, where there are such runs. Of heads that
    gather round one token those come last that find repetitions: their focal token is often paired with itself alone.
    """
    if row_paths(result) is None or not tells_heads_apart(result):
        return []
    table, found = result.specialists(tau=tau, controls=controls), []
    table = table[(table["what"] == SPECIALIST) & (table["out"] > 0) & (table["out_of_model"] > 0)]
    repeating = set(map(tuple, table.loc[table["score"] == REPETITIONS.score, ["layer", "head"]].to_numpy().tolist()))
    for kind in KINDS:
        own = table[table["score"] == kind.score].sort_values("out", ascending=False)
        known = repeating if kind is ROUND_ONE_TOKEN else set()
        last = {
            place: ((int(row["layer"]), int(row["head"])) in known, beyond_permuted(row) is False)
            for place, row in own.iterrows()
        }
        for place in sorted(own.index, key=last.__getitem__):  # equal ones stay in their order
            best = own.loc[place]
            if len(result.examples(int(best["layer"]), int(best["head"]), kind.shown_by, 1)):
                found.append((kind, best))
                break
    return found


def tells_heads_apart(result: Result) -> bool:
    """Whether there are enough blocks of texts to tell a head from noise."""
    return Resampling(result.blocks.windows, draws=0).enough_blocks


def _example(
    row: Mapping[Any, Any], kind: Kind, place: tuple[int, int], result: Result, tau: float | None, model: Model | None
) -> Example:
    text, score, focal = str(row["text"]), float(row[kind.shown_by]), row["focal_token"]
    spans: list[tuple[int, int]] = []
    if model is not None:
        inspection = model.inspect(text, stack=result.name, **result.inspect_options)
        spans = spans_to_mark(kind, inspection, place, result.tau(tau), ends=_unless_not(row["ends_text"]))
    return Example(
        id=in_a_line(str(row["id"])),
        says=kind.says.format(f"{score:.0%}" if kind.shown_by.endswith("_share") else f"{score:.1f}"),
        focal_token=visible(str(focal)) if isinstance(focal, str) else "–",
        high_pairs=int(row["high_pairs"]),
        excerpt=excerpt(text, spans, begins=_unless_not(row["starts_text"]), ends=_unless_not(row["ends_text"])),
    )


def spans_to_mark(
    kind: Kind, inspection: Inspection, place: tuple[int, int], tau: float, *, ends: bool
) -> list[tuple[int, int]]:
    """What is marked in a text that is read again; `ends` says whether the text ends with it, or goes on."""
    spans = kind.mark(inspection, *place, tau)
    if kind.mark is sentence_stops and not ends:  # read alone, a window seems to end with a sentence
        spans = [span for span in spans if span[1] < len(inspection.window.texts[0].rstrip())]
    return spans


def _unless_not(value: object) -> bool:
    """Whether it is so, or, in the rows of an earlier version, not known."""
    return value is None or bool(value)


def one_head(
    result: Result, tau: float | None, model: Model, look: Look = SCREEN, controls: Sequence[Result] = ()
) -> Picture:
    """The first role's head with a short text that shows it: its attention map and its similarity matrix."""
    if row_paths(result) is None:
        raise HeadscopeError("this run kept no rows per text to choose one by", "analyse the texts with --per-text")
    leading = leading_heads(result, tau, controls)
    if not leading:
        raise HeadscopeError("no head stands out with a text to show it", "analyse more texts")
    kind, best = leading[0]
    layer, head = int(best["layer"]), int(best["head"])
    texts = result.examples(layer, head, kind.shown_by, LOOKED_AT)
    shortest = texts.iloc[int(texts["text"].str.len().argmin())]
    from headscope.figures.matrix import head_figure

    inspection = model.inspect(str(shortest["text"]), stack=result.name, **result.inspect_options)
    picture = head_figure(inspection, layer, head, result.settings["theta"], look=look)
    picture.about = (
        f"The head is layer {layer}, head {head}, which {kind.role}; the text is {in_a_line(str(shortest['id']))}."
    )
    return picture
