"""Findings as people are shown them: columns of marks, control runs, heads that stand out, the tables on a terminal."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from headscope.cli import show
from headscope.cli.findings_tables import print_against_attention, print_findings, print_heads, print_sensitivity
from headscope.findings.claims import CLAIMS
from headscope.findings.finding import MARKS, Findings
from headscope.findings.showing import KINDS, mark_of, run_cells, run_names, shown, standing_out, state_of
from headscope.measures.quantities import QUANTITIES
from headscope.measures.view import View
from results import MadeUpResult, control_of, made_up


@pytest.fixture(scope="module")
def result() -> MadeUpResult:
    return made_up()


@pytest.fixture(scope="module")
def controls() -> list[MadeUpResult]:
    return [control_of(kind) for kind in ("permuted:0", "permuted:1", "untrained:0", "rotated")]


@pytest.fixture(scope="module")
def findings(result: MadeUpResult, controls: list[MadeUpResult]) -> Findings:
    return result.findings(controls=controls, draws=50)


def test_every_control_has_a_column() -> None:
    known = {kind.name for kind in KINDS}
    for claim in CLAIMS:
        for control in claim.controls:
            assert control.name.split()[0] in known, control.name
    assert len({kind.heading for kind in KINDS}) == len(KINDS)
    assert all(kind.meaning for kind in KINDS)


def test_marks_are_what_became_of_the_checks(findings: Findings) -> None:
    for f in findings:
        for kind in KINDS:
            own = (
                f.statistics if kind.name == "statistic" else [c for c in f.controls if c.name.split()[0] == kind.name]
            )
            states = [each.state for each in own]
            worst = next((s for s in ("fails", "not run", "cannot tell", "passes") if s in states), "")
            assert state_of(f, kind) == worst
            assert mark_of(f, kind) == MARKS.get(worst, "")


def test_numbers_stand_beside_each_other(findings: Findings) -> None:
    own = shown(findings["4"].statistics[0], 2)
    check = findings["4"].statistics[0]
    assert own.number == f"{check.value:.2f} [{check.low:.2f}, {check.high:.2f}]"
    assert own.heads == f"{check.beyond:.0%}"
    assert own.pooled == f"{check.pooled:.2f}"
    assert shown(findings["3"].statistics[0], 3).heads == "–"  # a difference of thirds has no share of heads


def test_control_runs_have_a_column_each(findings: Findings) -> None:
    names = run_names(findings)
    assert sorted(names) == ["permuted:0", "permuted:1", "rotated", "untrained:0"]
    focus = dict(zip(names, run_cells(findings["1a"], names)[0], strict=True))
    assert focus["permuted:0"] == "–"  # attention is nearly even there: it has nothing to say
    value = next(run.value for run in findings["1a"].runs if run.kind == "untrained")
    assert focus["untrained:0"].startswith(f"{value:.2f} [")
    assert len(run_cells(findings["2"], names)) == 2


def test_heads_stand_out_from_their_layer_and_the_model(result: MadeUpResult, controls: list[MadeUpResult]) -> None:
    table = result.specialists(controls=controls)
    labels = {quantity.short_label: quantity for quantity in QUANTITIES.values()}
    found = standing_out(table, 2)
    assert found
    for each in found:
        quantity = labels[each.score]
        heads = quantity.of_heads(View(result.blocks))
        layer, head = (int(part) for part in each.head[1:].split("H"))
        assert each.value == pytest.approx(heads[layer, head])
        middle = (lambda x: float(np.exp(np.nanmedian(np.log(x))))) if quantity.logarithmic else np.nanmedian
        assert each.of_layer == pytest.approx(middle(heads[layer]))
        assert each.of_model == pytest.approx(middle(heads))
        row = table[(table["score"] == quantity.name) & (table["layer"] == layer) & (table["head"] == head)].iloc[0]
        assert each.beyond_permuted == (abs(row["out"]) > row["permuted"])
    assert all(each.beyond_permuted is None for each in standing_out(result.specialists(), 1))


def test_the_tables_on_a_terminal(
    result: MadeUpResult, controls: list[MadeUpResult], findings: Findings, capsys: pytest.CaptureFixture[str]
) -> None:
    print_findings(findings)
    printed = capsys.readouterr().out
    for f in findings:
        for statistic in f.statistics:
            assert statistic.interval(f.digits) in printed
        assert f" {f.verdict}" in printed
    for kind in KINDS:
        assert f"{kind.heading}: {kind.meaning}." in " ".join(printed.split())
    assert "permuted:1" in printed
    assert "\x1b" not in printed  # no colours where nobody sees them
    print_against_attention(result.against_attention(controls=controls, draws=0))
    printed = capsys.readouterr().out
    value = float(result.quantity("separation_sentence", reading="rows", draws=0)["value"].values[2])
    assert f"{value:.3f}" in printed
    assert "with permuted weights" in printed
    print_heads(result.specialists(controls=controls))
    assert "median of" in capsys.readouterr().out
    print_sensitivity(result.sensitivity(draws=20))
    assert "2 reach" in capsys.readouterr().out


def test_a_narrow_terminal_gets_parts_and_whole_numbers(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(show, "WIDE", 40)
    rows: list[tuple[Any, ...]] = [(k, *(1000.5 + k * c for c in range(12)), math.nan) for k in range(3)]
    show.table(["layer", *(f"column{c}" for c in range(12)), "none"], rows, text=())
    printed = capsys.readouterr().out
    assert all(len(line) <= 40 for line in printed.splitlines())
    for row in rows:
        for value in row[1:]:
            assert show.cell(value) in printed.split()
    assert printed.count("layer") > 1
    assert all(f"column{c}" in printed.split() for c in range(12))
