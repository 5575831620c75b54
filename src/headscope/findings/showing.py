"""Findings as people are shown them: which controls stand in which column, and what stands beside a number.

The command line, the report and the figure make their tables of these.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headscope.findings.checks import Check, together
from headscope.findings.claims import PERMUTED, ROTATED, UNTRAINED
from headscope.findings.finding import MARKS, Finding, Findings
from headscope.findings.specialists import LEAST, SPECIALIST
from headscope.measures.quantities import named

if TYPE_CHECKING:
    import pandas as pd

OWN = "statistic"


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of check: a column of marks."""

    name: str
    heading: str
    meaning: str


KINDS = (
    Kind(OWN, "paper", "the claim's own number, S read as the paper reads it (dot, high pairs from τ on)"),
    Kind("dot", "top", "the same from the highest sixteenth of the pairs by dot, instead of those from τ on"),
    Kind("cosine", "cosine", "the same by cosine, which leaves vector length out"),
    Kind("weighted", "weighted", "attention times the length of what is read: attention that carries something"),
    Kind("over", "layers", "the claim's layers against others (1a, 1b: early ones; 3: final; 4: early and middle)"),
    Kind("punctuation", "commas", "sentence stops against other punctuation"),
    Kind(
        "permuted",
        "permuted",
        "more than in every run with permuted weights (7a: more likeness): a number that passes was learned then",
    ),
    Kind("rotated", "rotated", "the effect is gone where the ends of sentences are moved, so it is about sentences"),
)
# What is taken away in a control run, for whoever reads its name.
TAKEN_AWAY = {
    PERMUTED: "the weights of each matrix are shuffled, so that their sizes stay and nothing learned is left",
    UNTRAINED: "the weights are as before training",
    ROTATED: "the ends of sentences are moved, so that sentences keep their lengths and mean nothing",
}
LEGEND = "✓ passes, ✗ fails, ? cannot tell, – not run; empty: not part of the claim"


def state_of(finding: Finding, kind: Kind) -> str:
    """What became of a kind of check: passes, fails, cannot tell, not run; empty where the claim has none."""
    return together(each.state for each in finding.statistics) if kind.name == OWN else finding.state(kind.name)


def mark_of(finding: Finding, kind: Kind) -> str:
    """The same as one character."""
    return MARKS.get(state_of(finding, kind), "")


@dataclass(frozen=True, slots=True)
class Shown:
    """One statistic of a claim: its number with the interval, and what stands beside it, as strings."""

    label: str
    number: str  # the median over heads, with its interval
    bound: str
    none: str
    heads: str  # share of heads beyond the bound
    pooled: str  # what a typical pair does


def shown(check: Check, digits: int) -> Shown:
    """A statistic as it is shown."""
    heads = "–" if math.isnan(check.beyond) else f"{check.beyond:.0%}"
    pooled = "–" if math.isnan(check.pooled) else f"{check.pooled:z.{digits}f}"
    return Shown(check.label, check.interval(digits), f"{check.bound:.3g}", f"{check.none:g}", heads, pooled)


def run_names(findings: Findings) -> list[str]:
    """The control runs in their order, by what was taken away: "permuted weights, seed 0"."""
    return list(dict.fromkeys(taken_away(run.name) for finding in findings for run in finding.runs))


def taken_away(name: str) -> str:
    """What was taken away from a model, from its name.

    >>> taken_away("headscope/bert12 (permuted weights, seed 0)")
    'permuted weights, seed 0'
    """
    return name.rpartition(" (")[2].removesuffix(")")


def run_cells(finding: Finding, names: Iterable[str]) -> list[list[str]]:
    """What control runs give, a row for each statistic; a dash where a run has nothing to say of the claim."""
    return [[_run_cell(finding, each, name) for name in names] for each in finding.statistics]


def _run_cell(finding: Finding, statistic: Check, name: str) -> str:
    own = [run for run in finding.runs if run.statistic == statistic.label and taken_away(run.name) == name]
    if not own or math.isnan(own[0].value):
        return "–"
    run, digits = own[0], finding.digits
    value = f"{run.value:z.{digits}f}"
    return value if math.isnan(run.low) else f"{value} [{run.low:z.{digits}f}, {run.high:z.{digits}f}]"


# ---------------------------------------------------------------------- heads that stand out


@dataclass(frozen=True, slots=True)
class StandsOut:
    """A head that stands out by a score, and the medians that it stands out from."""

    score: str  # its label
    head: str  # L4H3
    value: float
    of_layer: float  # the median head of its layer
    of_model: float  # the median head of the model
    beyond_permuted: bool | None = None  # farther than any head of permuted runs; None where there are none


def standing_out(heads: pd.DataFrame, number: int) -> list[StandsOut]:
    """Of each score the specialists that lie farthest above their layer, and those farthest below it."""
    found = []
    for score, own in heads.groupby("score", sort=False):
        special = own[own["what"] == SPECIALIST].sort_values("out", ascending=False)
        above, below = special[special["out"] > 0].head(number), special[special["out"] < 0].tail(number)
        for chosen in (above, below):
            found += [_stands_out(str(score), row) for _, row in chosen.iterrows()]
    return found


def beyond_permuted(row: pd.Series[Any]) -> bool | None:
    """Whether a head stands out farther than any of permuted runs; None where there are none."""
    return abs(float(row["out"])) > float(row[PERMUTED]) if PERMUTED in row.index else None


def _stands_out(score: str, row: pd.Series[Any]) -> StandsOut:
    """Distances of ratios are of their logarithms, and are turned back into numbers."""
    which, value = named(score), float(row["value"])

    def less(distance: float) -> float:
        return math.exp(math.log(max(value, LEAST)) - distance) if which.logarithmic else value - distance

    out = float(row["out"])
    head = f"L{int(row['layer'])}H{int(row['head'])}"
    return StandsOut(which.label, head, value, less(out), less(float(row["out_of_model"])), beyond_permuted(row))
