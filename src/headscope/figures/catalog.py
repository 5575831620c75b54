"""Every figure of a result by its name: what it shows, which figure of the paper it is, and how to read it."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headscope.errors import HeadscopeError
from headscope.look import FIGURES as NAMES
from headscope.look import SCREEN, Look, split_look

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from headscope.figures.style import Picture
    from headscope.result.result import Result

TAU, CONTROLS, SCORES, CLAIMS = "tau", "controls", "scores", "claims"


@dataclass(frozen=True, slots=True)
class Entry:
    """One figure: its name and title, the paper's number for it, how to read it, and how it is drawn."""

    name: str
    title: str
    paper: str
    reading: str
    draw: Callable[..., Any]  # a Picture, or the axes that were given
    takes: tuple[str, ...] = (TAU,)  # which options: "tau", "controls"; "scores" or "claims", of which it draws some
    one_panel: bool = False  # whether it can be drawn into given axes


def _findings(result: Result, *, claims: Collection[str] | None = None, look: Look = SCREEN, **options: Any) -> Picture:
    from headscope.figures.verdicts import findings_figure

    return findings_figure(result, result.findings(**options), claims, look=look)


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
        "What the paper says, and what was measured",
        "",
        "Each line is one claim on its own scale: what a typical head does. The black mark is read as the paper "
        "reads S, the coloured ones under it by top pairs of dot and of cosine, each with its 95 % interval; small "
        "grey bars are control runs. The thin line is where no effect would put it, and the grey part reaches up to "
        "the smallest effect that matters. A claim holds where the whole bar lies beyond the grey and every mark at "
        "the right is a ✓; where only a control's mark is a ✗, it is qualified.",
        _findings,
        (TAU, CONTROLS, CLAIMS),
    ),
    Entry(
        "against-attention",
        "Similarity of outputs against attention",
        "",
        "How well pairs of one sentence, and repetitions, can be told from unrelated pairs at the same distance in "
        "the same text: by the similarity of outputs in each reading, and by attention, in two ways: do two "
        "tokens read each other, and do they read the same? ½ is chance. Where the lines of S lie above both dashed "
        "lines of attention, outputs show what attention maps alone do not; where the faint lines of permuted weights "
        "reach as high, nothing learned is needed for it. Lines are medians over heads; claims 7b and 7c rest on the "
        "median of each head's own difference, which may differ from the distance of two lines.",
        _later("attention", "against_attention_figure"),
        (CONTROLS,),
    ),
    Entry(
        "heads-beyond",
        "How many heads show it",
        "",
        "For each layer, the share of heads that lie beyond the bound of a claim. Above one half, the typical head "
        "shows the effect; a small share in every layer means that a few heads do and the others do not. Rows of one "
        "block are the same number read in different ways: where they differ, the reading decides.",
        _later("beyond", "heads_beyond"),
    ),
    Entry(
        "trajectory",
        "From layer to layer",
        "",
        "Each score as the median over the heads of a layer, with its interval, and outlined the middle half of the "
        "heads. Lines of different colours are different readings of the same matrices: where they part, the "
        "score depends on vector length or on the threshold. The dashed grey line is where nothing would be preferred.",
        _later("layers", "trajectory"),
        (TAU, CONTROLS, SCORES),
    ),
    Entry(
        "distances-of-heads",
        "Long-range and short-range heads",
        "Fig. 7",
        "Bars show how far apart the tokens are that a head finds similar; the dashed line shows how far apart any "
        "two tokens of the texts are. Only the difference between the two says something about the head: far bands "
        "hold more pairs because they are wider, and the last one fewer because texts end.",
        _later("distances", "distances_of_heads"),
    ),
    Entry(
        "focal-tokens",
        "Different focal tokens",
        "Fig. 11",
        "Every head has a focal token in every text: the one found most often in its similar pairs. The line shows "
        "how many different ones a layer's heads have. The dashed line is what chance gives: tokens that occur "
        "equally often in a text have exchanged their pairs, for each head by itself. Heads favour frequent tokens, "
        "so they agree to some degree whatever they do; only a line above the dashed one means that heads share out "
        "the tokens among themselves. The dotted line: as many heads, drawn from all layers.",
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
        (),
    ),
    Entry(
        "distances-of-layers",
        "Distances of similar pairs by layer",
        "Fig. 13",
        "As for single heads, for the typical head of a layer. Bars below the dashed line on the right mean that far "
        "pairs are similar more rarely than they occur.",
        _later("distances", "distances_of_layers"),
    ),
    Entry(
        "threshold-choice",
        "The choice of thresholds",
        "Fig. A1",
        "How many pairs a typical head calls similar at each τ, and how many tokens count as attended at each θ. A "
        "threshold in a flat part of the lines would leave most numbers as they are; where lines are steep, look at "
        "the claims' numbers at other thresholds.",
        _later("thresholds", "threshold_choice"),
        (),
    ),
    Entry(
        "sensitivity",
        "The claims' numbers at other thresholds",
        "",
        "The claims' statistics at other thresholds; for claims 1a, 1b and 6 others like them, so that 1a* may be 0 "
        "where the claim holds. Where the mark changes along a line, the number depends on the choice and should be "
        "reported with it. Verdicts are given at τ = 0.5 and the run's θ only.",
        _later("thresholds", "sensitivity_figure"),
        (CLAIMS,),
    ),
    Entry(
        "atlas",
        "Head atlas",
        "",
        "Every square is a head: its layer from the top, its place in the layer from the left. Columns have no meaning "
        "across layers. Colours show one score each; single squares that stand out are candidates for specialists, and "
        "the figure on specialists says which of them other texts would confirm.",
        _later("atlas", "atlas"),
        (TAU, SCORES),
    ),
    Entry(
        "specialists",
        "Specialists: heads that stand out",
        "",
        "Every head by how far it stands out from the median head of its layer, for each score. Black dots do so for "
        "certain and by enough to matter; grey ones certainly do not; of the empty ones these texts cannot tell. A "
        "model whose weights are permuted has heads that stand out too: only those beyond its farthest are surely "
        "learned.",
        _later("agreement", "specialists_figure"),
        (TAU, CONTROLS),
        one_panel=True,
    ),
    Entry(
        "stability",
        "Would other texts single out the same heads?",
        "",
        "Heads are ranked by a score on two sets of texts that share none. Near 1, both sets rank them alike; where "
        "darker dots lie clearly to the right of lighter ones, more texts would settle the ranking further.",
        _later("agreement", "stability_figure"),
        one_panel=True,
    ),
)
FIGURES = {entry.name: entry for entry in _ALL}
assert tuple(FIGURES) == NAMES, "the command line names them without matplotlib: put the same names into look.FIGURES"


def draw(result: Result, name: str, **options: Any) -> Picture:
    """Draw a figure by its name; the options are those of its look and its own."""
    look, others = split_look(options)
    drawn: Picture = _entry(name).draw(result, look=look, **others)
    return drawn


def draw_into(result: Result, name: str, ax: Axes, **options: Any) -> Axes:
    """Draw a figure that has one panel into given axes."""
    entry = _entry(name)
    if not entry.one_panel:
        single = " or ".join(each.name for each in FIGURES.values() if each.one_panel)
        raise HeadscopeError(f"the figure {name!r} has several panels, and ax= is one", f"draw {single} into it")
    look, others = split_look(options)
    drawn: Axes = entry.draw(result, look=look, ax=ax, **others)
    return drawn


def _entry(name: str) -> Entry:
    if name not in FIGURES:
        raise HeadscopeError(f"there is no figure {name!r}", f"use one of {', '.join(FIGURES)}")
    return FIGURES[name]
