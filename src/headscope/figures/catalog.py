"""Every figure of a result by its name: what it shows, which figure of the paper it is, and how to read it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headscope.errors import HeadscopeError
from headscope.figures.style import Picture

if TYPE_CHECKING:
    from headscope.result.result import Result


@dataclass(frozen=True, slots=True)
class Entry:
    """One figure: its name and title, the paper's number for it, how to read it, and how it is drawn."""

    name: str
    title: str
    paper: str
    reading: str
    draw: Callable[..., Picture]


def _findings(result: Result, **options: Any) -> Picture:
    from headscope.figures.verdicts import findings_figure

    return findings_figure(result, result.findings(**options))


def _later(module: str, function: str) -> Callable[..., Picture]:
    """Drawing needs matplotlib, which is imported only for a figure that is asked for."""

    def draw(result: Result, **options: Any) -> Picture:
        from importlib import import_module

        drawn: Picture = getattr(import_module(f"headscope.figures.{module}"), function)(result, **options)
        return drawn

    return draw


_ALL = (
    Entry(
        "findings",
        "The findings at a glance",
        "",
        "Each line is one claim on its own scale. The mark is what was measured, the bar its 95 % interval; the thin "
        "line is where it would be without any effect, and the grey part reaches up to the smallest effect that "
        "matters. A claim holds where the whole bar lies beyond the grey, and does not hold where all of it lies "
        "within.",
        _findings,
    ),
    Entry(
        "distances-of-heads",
        "Long-range and short-range heads",
        "Fig. 7",
        "Bars show how far apart the tokens are that a head finds similar; the dashed line shows how far apart any two "
        "tokens of the texts are. Only the difference between the two says something about the head: by itself, every "
        "histogram of distances falls, because a text has fewer far pairs than near ones.",
        _later("distances", "distances_of_heads"),
    ),
    Entry(
        "focal-tokens",
        "Different focal tokens",
        "Fig. 11",
        "Every head has a focal token in every text: the one found most often in its similar pairs. The line shows how "
        "many different ones a layer's heads have; the dashed line how many they would have if each drew a token of "
        "the text at random. Twelve heads that merely draw have nearly as many different ones as the paper reports, so "
        "only a line above the dashed one means that heads part the tokens among themselves.",
        _later("layers", "focal_tokens"),
    ),
    Entry(
        "mean-matrices",
        "Mean context similarity",
        "Fig. 12",
        "The mean of S over all texts, for an early, a middle and the last layer. Dark near the diagonal means that "
        "neighbours are similar; an even colour, that places do not matter; a dark band at the border, that the first "
        "tokens of a text are similar to all others.",
        _later("mean", "mean_matrices"),
    ),
    Entry(
        "distances-of-layers",
        "Distances of similar pairs by layer",
        "Fig. 13",
        "As for single heads, pooled over the heads of a layer. Bars below the dashed line on the right mean that far "
        "pairs are similar more rarely than they occur.",
        _later("distances", "distances_of_layers"),
    ),
    Entry(
        "threshold-choice",
        "The choice of thresholds",
        "Fig. A1",
        "How many pairs are called similar at each τ, and how many tokens count as attended at each θ. A threshold in "
        "a flat part of the lines would leave most numbers as they are; where lines are steep, look at the sensitivity "
        "of the findings.",
        _later("thresholds", "threshold_choice"),
    ),
    Entry(
        "atlas",
        "Head atlas",
        "",
        "Every square is a head: its layer from the top, its place in the layer from the left. Columns have no meaning "
        "across layers. Colours show one score each; single squares that stand out are candidates for specialists, and "
        "the figure on specialists says which of them other texts would confirm.",
        _later("atlas", "atlas"),
    ),
    Entry(
        "trajectory",
        "From layer to layer",
        "",
        "Each score pooled over the heads of a layer, with its interval. Read from left to right it tells what changes "
        "on the way through the model; the dashed line is where nothing would be preferred.",
        _later("layers", "trajectory"),
    ),
    Entry(
        "sensitivity",
        "Findings at other thresholds",
        "",
        "The same findings for other thresholds. Where the mark changes along a line, the finding depends on the "
        "choice and should be reported with it.",
        _later("thresholds", "sensitivity_figure"),
    ),
    Entry(
        "stability",
        "Agreement of different texts",
        "",
        "Heads are ranked by a score on two sets of texts that share none. Near 1, both sets rank them alike; where a "
        "line still rises at its right end, more texts would settle the ranking further.",
        _later("agreement", "stability_figure"),
    ),
    Entry(
        "specialists",
        "Specialists and noise",
        "",
        "How many heads stand out from the typical one in each score, for certain and by more than matters; how many "
        "certainly do not; and of how many these texts cannot tell.",
        _later("agreement", "specialists_figure"),
    ),
)
FIGURES = {entry.name: entry for entry in _ALL}


def draw(result: Result, name: str, **options: Any) -> Picture:
    """Draw a figure by its name."""
    if name not in FIGURES:
        raise HeadscopeError(f"there is no figure {name!r}", f"use one of {', '.join(FIGURES)}")
    return FIGURES[name].draw(result, **options)
