"""The claims of the paper as declarations: for each its statistic, the bound it must lie beyond, and its controls."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal

from headscope.errors import HeadscopeError
from headscope.findings.numbers import MEAN_OF_LAYERS, SPREAD, Number

PERMUTED, ROTATED, UNTRAINED = "permuted", "rotated", "untrained"


@dataclass(frozen=True, slots=True)
class Test:
    """A number and the bound that it must lie beyond (or short of): a claim's statistic, or one of its controls.

    With a `run`, it is asked of control runs of that kind: "alone" of each run itself, "more" how far the trained
    model's number lies above each run's.
    """

    name: str  # for programs: "statistic", "dot", "cosine", "weighted", …
    label: str  # for people
    number: Number
    bound: float
    none: float
    above: bool = True  # passes beyond the bound; otherwise short of it
    run: str = ""
    compared: Literal["", "alone", "more"] = ""
    without: str = ""  # what the claim depends on where this control fails, in plain words
    __test__ = False  # nothing for pytest


@dataclass(frozen=True, slots=True)
class Claim:
    """One claim. It holds where its statistics and all controls pass."""

    key: str
    paper: str  # the claim in a few words
    says: str  # what the paper says
    statistics: tuple[Test, ...]  # all of which must pass; one, but for claim 2
    controls: tuple[Test, ...]
    plain: str  # the claim as a clause for a reader who knows neither the paper nor its words
    thresholds: str = ""  # "tau" or "theta" where the statistic depends on one
    digits: int = 2
    spoken_to: tuple[str, ...] = (PERMUTED, UNTRAINED)  # kinds of control runs that have something to say of it

    @property
    def statistic(self) -> str:
        """What is measured, in words."""
        return " and ".join(each.label for each in self.statistics)


_TOP = {
    "dot": ("from the top pairs", "on where the threshold stands: the top sixteenth of the pairs does not show it"),
    "cosine": ("from the top pairs by cosine", "on vector length: the cosine does not show it"),
}
_COSINE = {"cosine": ("by cosine", "on vector length: the cosine does not show it")}


def _by_readings(statistics: tuple[Test, ...], how: dict[str, tuple[str, str]]) -> tuple[Test, ...]:
    """The same numbers in other readings."""
    return tuple(
        replace(
            each, name=reading if len(statistics) == 1 else f"{reading} {each.number.quantity}",
            label=f"{each.label}, {label}" if len(statistics) > 1 else label,
            number=replace(each.number, reading=reading), without=without,
        )
        for reading, (label, without) in how.items()
        for each in statistics
    )  # fmt: skip


def _statistic(label: str, number: Number, bound: float, none: float) -> tuple[Test, ...]:
    return (Test("statistic", label, number, bound, none),)


def _learned(number: Number, label: str, what: str) -> Test:
    return Test(
        PERMUTED, label, number, 0.0, 0.0, run=PERMUTED, compared="more",
        without=f"on nothing that was learned: with its weights permuted the model {what}",
    )  # fmt: skip


def _focus(key: str, category: str, whom: str, paper: str, says: str, plain: str) -> Claim:
    focus, weighted = f"separator_focus_{category}", f"separator_focus_{category}_weighted"
    return Claim(
        key, paper, says,
        _statistic(f"separator focus, {whom}, final layers", Number(focus, "final"), 1.1, 1.0),
        (
            Test("weighted", "weighed by the length of what is read", Number(weighted, "final"), 1.1, 1.0,
                 without="on attention that carries nothing: weighed by the length of what is read, it is not there"),
            Test("over early", "final over early layers", Number(focus, ("final", "early")), 1.1, 1.0,
                 without="on what all layers do: the final layers do it no more than the early ones"),
        ),
        plain=plain, thresholds="theta", spoken_to=(UNTRAINED,),
    )  # fmt: skip


_REPETITION = Test(
    "statistic", "σ of log repetition preference", Number("repetition_preference", SPREAD), math.log(1.25), 0.0
)
_REACH_OF_HEADS = Test("statistic", "σ of reach", Number("reach", SPREAD), 0.05, 0.0)
_SHORTER = _statistic(
    "reach of similar pairs, early minus middle layers", Number("reach", ("early", "middle")),
    0.05, 0.0,
)  # fmt: skip
_SENTENCE = _statistic("sentence preference, final layers", Number("sentence_preference", "final"), 1.1, 1.0)
_FOCAL = _statistic(
    "different focal tokens minus those by chance, over heads, mean over layers",
    Number("focal_excess", MEAN_OF_LAYERS), 0.02, 0.0,
)  # fmt: skip
_MASK = _statistic(
    "probability that similarity is higher inside the mask of high attention, mean over layers",
    Number("mask_auc", MEAN_OF_LAYERS), 0.55, 0.5,
)  # fmt: skip
_UNLIKE = _statistic(
    "1 minus the correlation of similarity with attention, mean over layers", Number("unlikeness", MEAN_OF_LAYERS),
    0.5, 0.0,
)  # fmt: skip
_REPEATED = _statistic(
    "separation of repetitions by similarity, minus that by the better attention map, mean over layers",
    Number("repeated_beyond_maps", MEAN_OF_LAYERS), 0.05, 0.0,
)  # fmt: skip
_TOGETHER = _statistic(
    "separation of pairs of one sentence by similarity, minus that by the better attention map, mean over layers",
    Number("sentence_beyond_maps", MEAN_OF_LAYERS), 0.05, 0.0,
)  # fmt: skip
_SEPARATOR = _statistic("separator similarity, final layers", Number("separator_similarity", "final"), 1.1, 1.0)
_REACH = _statistic(
    "reach within the sentence, final minus middle layers", Number("reach_within", ("final", "middle")), 0.05, 0.0
)

CLAIMS = (
    _focus("1a", "stop", "sentence stops", "Final layers focus on sentence stops",
           "The attention of the last layers turns to the marks that separate sentences.",
           "the final layers attend to the marks that end sentences"),
    _focus("1b", "end", "closing special tokens", "Final layers focus on closing special tokens",
           "… and to the special tokens that close a text.",
           "the final layers attend to the special token that closes a text"),
    Claim(
        "2", "Heads specialise",
        "Heads have roles of their own: some find repetitions, others gather round one common token.",
        (_REPETITION, _REACH_OF_HEADS),
        (
            *_by_readings((_REPETITION, _REACH_OF_HEADS), _TOP),
            replace(_learned(_REPETITION.number, "σ of log repetition preference, more than permuted", "does as much"),
                    name=f"{PERMUTED} repetition_preference"),
            replace(_learned(_REACH_OF_HEADS.number, "σ of reach, more than permuted", "does as much"),
                    name=f"{PERMUTED} reach"),
        ),
        thresholds="tau", digits=3,
        plain="the heads of a layer have different roles",
    ),
    Claim(
        "3", "Long range becomes short range", "Similarity reaches far in early layers and less far in later ones.",
        _SHORTER,
        (
            *_by_readings(_SHORTER, _TOP),
            Test("over final", "early minus final layers", Number("reach", ("early", "final")), 0.05, 0.0,
                 without="on the middle layers: the final ones reach as far as the early ones"),
        ),
        thresholds="tau", digits=3,
        plain="similar tokens lie closer together in the middle layers than in the early ones",
    ),
    Claim(
        "4", "Final layers keep within the sentence", "In the last layers similarity stays within the sentence.",
        _SENTENCE,
        (
            *_by_readings(_SENTENCE, _TOP),
            Test("over early", "final over early layers", Number("sentence_preference", ("final", "early")), 1.1, 1.0,
                 without="on what all layers do: the final layers do it no more than the early ones"),
            Test("over middle", "final over middle layers", Number("sentence_preference", ("final", "middle")), 1.0,
                 1.0, without="on what comes before: the final layers do it less than the middle ones"),
            Test(ROTATED, "with sentence labels rotated", Number("sentence_preference", "final"), 1.05, 1.0,
                 above=False, run=ROTATED, compared="alone",
                 without="on something else than sentences: with their labels rotated it is there as well"),
        ),
        thresholds="tau", spoken_to=(PERMUTED, UNTRAINED, ROTATED),
        plain="in the final layers similarity keeps to the sentence",
    ),
    Claim(
        "5", "Heads pick different focal tokens",
        "Each head picks a focal token of its own: 9 to 10 different ones among 12 heads.", _FOCAL,
        _by_readings(_FOCAL, _TOP), thresholds="tau", digits=3,
        plain="each head of a layer gathers its similar pairs round a token of its own",
    ),
    Claim(
        "6", "Similarity is higher where attention is",
        "Similarity is high among the tokens that attention singles out.", _MASK, _by_readings(_MASK, _COSINE),
        thresholds="theta", digits=3, spoken_to=(UNTRAINED,),
        plain="tokens that receive much attention are similar to each other",
    ),
    Claim(
        "7a", "Similarity is not attention over again",
        "The similarity of outputs shows what attention maps alone do not.", _UNLIKE,
        (
            *_by_readings(_UNLIKE, _COSINE),
            _learned(Number("likeness", MEAN_OF_LAYERS), "likeness more than permuted", "is as like its attention"),
        ),
        plain="similarity is more than a copy of the attention map",
    ),
    Claim(
        "7b", "Similarity tells repetitions better", "… such as repetitions.", _REPEATED,
        (*_by_readings(_REPEATED, _COSINE), _learned(_REPEATED[0].number, "more than permuted", "tells them as well")),
        digits=3,
        plain="similarity finds repeated words better than attention does",
    ),
    Claim(
        "7c", "Similarity tells pairs of one sentence better", "… and which words stand in one sentence.", _TOGETHER,
        (*_by_readings(_TOGETHER, _COSINE), _learned(_TOGETHER[0].number, "more than permuted", "tells them as well")),
        digits=3, spoken_to=(PERMUTED, UNTRAINED, ROTATED),
        plain="similarity finds words of one sentence better than attention does",
    ),
    Claim(
        "8", "Separators are centres of similarity", "High similarity gathers round the separators.", _SEPARATOR,
        (
            *_by_readings(_SEPARATOR, _TOP),
            Test("punctuation", "against other punctuation", Number("separator_against_punctuation", "final"), 1.1, 1.0,
                 without="on punctuation of any kind: commas are as good as stops"),
        ),
        thresholds="tau",
        plain="in the final layers the marks that end sentences are similar to the words around them",
    ),
    Claim(
        "9", "Within the sentence, reach widens again",
        "In the last layers similarity reaches farther again, but within the sentence.", _REACH,
        _by_readings(_REACH, _TOP), thresholds="tau", digits=3, spoken_to=(PERMUTED, UNTRAINED, ROTATED),
        plain="within a sentence, similarity reaches farther again in the final layers",
    ),
)  # fmt: skip


def claim(key: str) -> Claim:
    """A claim by its key.

    >>> claim("5").statistics[0].bound
    0.02
    """
    for each in CLAIMS:
        if each.key == key:
            return each
    raise HeadscopeError(f"there is no claim {key!r}", f"use one of {', '.join(each.key for each in CLAIMS)}")
