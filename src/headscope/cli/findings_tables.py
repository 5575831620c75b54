"""Findings on a terminal: numbers, marks, control runs, heads that stand out, S against attention."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any

from rich.text import Text

from headscope.cli import show
from headscope.errors import counted
from headscope.figures.colours import STATE_INKS, VERDICT_INKS, WAYS
from headscope.findings.finding import MARKS
from headscope.findings.showing import KINDS, LEGEND, run_cells, run_names, shown, standing_out, state_of
from headscope.measures.quantities import named
from headscope.windows.text import in_a_line

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

    from headscope.findings import Findings

NUMBERS = (
    "number: of a typical head (the median over heads), with its 95 % interval. bound: the smallest effect that "
    "matters. heads: share of heads beyond it. pooled: the same for a typical pair, with counts added up over "
    "heads; no verdict rests on it."
)
OF_TEXTS = " of texts: share of texts whose own number, from that text alone, lies beyond the bound."
NAMED = 2  # heads above their layer that are named for each score, and as many below


def print_findings(findings: Findings) -> None:
    """The tables, the sentences, the signs of trouble."""
    show.paragraph(
        f"{in_a_line(findings.model)}: {findings.stack}, {counted(findings.windows, 'window')}, τ = {findings.tau:g}",
        style="bold",
    )
    show.paragraph(f"intervals: {findings.interval}")
    if findings.unread:
        show.paragraph(f"no verdicts: {findings.unread}")
    show.paragraph()
    _numbers(findings)
    texts = OF_TEXTS if any(f.texts is not None for f in findings) else ""
    show.paragraph(f"\n{NUMBERS}{texts}", style="dim")
    show.paragraph("\nWhat the readings and controls say", style="bold")
    _marks(findings)
    show.paragraph(f"\n{LEGEND}.", style="dim")
    for kind in KINDS:
        show.paragraph(f"{kind.heading}: {kind.meaning}.", style="dim")
    if run_names(findings):
        show.paragraph("\nThe same numbers in control runs", style="bold")
        _runs(findings)
    show.paragraph("\nIn words", style="bold")
    show.bullets(f"{f.key}: {f.sentence}" for f in findings)
    if findings.warnings:
        show.paragraph("\nSigns of trouble", style="bold")
        show.bullets(f"{warning[0].upper()}{warning[1:]}." for warning in findings.warnings)


def verdict(name: str) -> Text:
    """A verdict in its colour."""
    return Text(f"{VERDICT_INKS[name].sign} {name}", style=f"bold {VERDICT_INKS[name].ink}")


def mark(state: str) -> Text:
    """The mark of a state in its colour; empty where there is no state."""
    return Text(MARKS[state], style=STATE_INKS[state]) if state in MARKS else Text("")


def _numbers(findings: Findings) -> None:
    texts = any(f.texts is not None for f in findings)
    rows = []
    for f in findings:
        for place, statistic in enumerate(f.statistics):
            own = shown(statistic, f.digits)
            name = f"{f.key} {f.claim}" if len(f.statistics) == 1 else f"{f.key} {f.claim}: {own.label}"
            row: list[Any] = [name, own.number, own.bound, own.heads, own.pooled]
            row += ["–" if f.texts is None else f"{f.texts:.0%}"] * texts
            rows.append([*row, Text("") if place else verdict(f.verdict)])
    columns = ["claim", "number", "bound", "heads", "pooled", *["of\ntexts"] * texts, "verdict"]
    show.table(columns, rows, text=(0, len(columns) - 1))


def _marks(findings: Findings) -> None:
    rows = [[f.key, *(mark(state_of(f, kind)) for kind in KINDS), verdict(f.verdict)] for f in findings]
    show.table(["", *(kind.heading for kind in KINDS), "verdict"], rows, text=(0, len(KINDS) + 1))


def _runs(findings: Findings) -> None:
    names = run_names(findings)
    rows = []
    for f in findings:
        for statistic, cells in zip(f.statistics, run_cells(f, names), strict=True):
            name = f.claim if len(f.statistics) == 1 else statistic.label
            values = [cell.partition(" ")[0] for cell in cells]  # intervals are in the report
            rows.append([f"{f.key} {name}", f"{statistic.value:z.{f.digits}f}", *values])
    columns = ["claim", "as\ntrained", *("\n".join(textwrap.wrap(name, 12)) for name in names)]
    show.table(columns, rows, text=(0,))


def print_sensitivity(swept: xr.Dataset) -> None:
    """Whether each statistic passes at other thresholds."""
    show.paragraph(
        "\nThe claims' numbers at other thresholds (✓ beyond the bound, ✗ short of it, ? cannot tell)", style="bold"
    )
    show.paragraph(
        "1a, 1b and 6 are measured in another way here, by the tokens that receive more than θ: the share of stops "
        "(closing tokens) among them over their share of all tokens, and the mean level of pairs of such tokens minus "
        "that of other pairs."
    )
    at = [f"{threshold:g}" for threshold in swept["threshold"].values[::2]]
    rows = [
        (str(key), {"tau": "τ", "theta": "θ"}.get(str(over), ""), *(mark(str(state)) for state in line[::2]))
        for key, over, line in zip(swept["claim"].values, swept["over"].values, swept["state"].values, strict=True)
    ]
    show.table(["claim", "over", *at], rows, text=(0, 1))


def print_heads(heads: pd.DataFrame) -> None:
    """Heads that stand out, with the medians that they stand out from."""
    from headscope.findings.specialists import NOISE, ORDINARY, SPECIALIST

    show.paragraph("\nHeads that stand out from their layer, at most 5 % of them by chance", style="bold")
    counts = []
    for score, own in heads.groupby("score", sort=False):
        number = own["what"].value_counts()
        each_kind = (int(number.get(what, 0)) for what in (SPECIALIST, ORDINARY, NOISE))
        counts.append((named(str(score)).short_label, *each_kind))
    show.table(["score", "stand out", "do not", "unclear"], counts)
    show.paragraph("\nThe farthest above and below their layer", style="bold")
    permuted = "permuted" in heads
    columns = ["score", "head", "number", "median of\nits layer", "median of\nthe model"]
    rows = []
    for each in standing_out(heads, NAMED):
        row: list[Any] = [each.score, each.head, each.value, each.of_layer, each.of_model]
        rows.append(row + [mark("passes" if each.beyond_permuted else "fails")] * permuted)
    show.table(columns + ["farther than any\npermuted head"] * permuted, rows)


def print_against_attention(table: xr.Dataset) -> None:
    """AUC by layer for S in each reading and both attention maps."""
    for contrast, what in (("sentence", "pairs of one sentence"), ("repeated", "repetitions")):
        show.paragraph(f"\nChance that S, or attention, puts one of the {what} above an unrelated pair", style="bold")
        own = table.sel(contrast=contrast)
        _by_layer(own["value"])
        if "controls" in own and (own["kind"].values == "permuted").any():
            show.paragraph("\nthe same with permuted weights, mean over runs", style="bold")
            _by_layer(own["controls"][own["kind"].values == "permuted"].mean("run"))
    show.paragraph(
        "\nThe median over a layer's heads, pairs compared at equal distance within a text; 0.5 is no difference.",
        style="dim",
    )


def _by_layer(values: xr.DataArray) -> None:
    ways = [str(way) for way in values["way"].values]
    rows = [
        (int(layer), *(f"{float(values.sel(way=way, layer=layer)):.3f}" for way in ways))
        for layer in values["layer"].values
    ]
    show.table(["layer", *("\n".join(textwrap.wrap(WAYS[way].label, 12)) for way in ways)], rows, text=())
