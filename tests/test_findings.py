"""Verdicts on every kind of sums: the rules, never a division by zero, never a NaN without a reason."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import naive_findings as naive
import synthetic
from headscope.errors import HeadscopeError
from headscope.findings import CLAIMS, Check, Finding, estimates
from headscope.findings.checks import ControlRun, judged, worst
from headscope.findings.claims import claim
from headscope.findings.finding import Findings
from headscope.findings.numbers import Numbers
from headscope.findings.resampling import Resampling
from headscope.findings.trouble import signs_of_trouble
from headscope.findings.verdicts import decided, why_unread
from headscope.measures.block_sums import BlockSums
from headscope.measures.quantities import QUANTITIES
from headscope.measures.relations import PUNCTUATION_PAIR, REPEATED, SAME_SENTENCE, STOP_PAIR, UNRELATED
from synthetic import findings_of

STATES = ("passes", "fails", "cannot tell", "not run")
VERDICTS = ("holds", "qualified", "does not hold", "open", "no verdict")


def check(state: str, name: str = "statistic", **more: Any) -> Check:
    values = {"passes": (1.3, 1.2, 1.4), "fails": (1.0, 0.9, 1.05), "cannot tell": (1.1, 1.0, 1.2)}
    numbers = values.get(state, (math.nan,) * 3)
    why = "" if state in ("passes", "fails") else f"why {name}"
    return Check(name, f"label of {name}", state, *numbers, 1.1, 1.0, True, why=why, **more)


# ---------------------------------------------------------------------- the rules


@pytest.mark.parametrize(
    ("statistics", "controls", "verdict"),
    [
        (["passes"], [], "holds"),
        (["passes"], ["passes", "passes"], "holds"),
        (["passes"], ["passes", "fails"], "qualified"),
        (["passes"], ["not run", "fails"], "qualified"),
        (["passes"], ["cannot tell", "passes"], "open"),
        (["passes"], ["not run"], "open"),
        (["fails"], ["passes", "passes"], "does not hold"),
        (["fails"], ["not run"], "does not hold"),
        (["cannot tell"], ["passes"], "open"),
        (["cannot tell"], ["fails"], "open"),
        (["passes", "passes"], ["passes"], "holds"),
        (["passes", "fails"], ["passes"], "does not hold"),
        (["passes", "cannot tell"], ["fails"], "open"),
        (["cannot tell", "fails"], [], "does not hold"),
    ],
)
def test_verdicts_follow_from_states(statistics: list[str], controls: list[str], verdict: str) -> None:
    own = [check(state) for state in statistics]
    beside = [check(state, f"control {k}") for k, state in enumerate(controls)]
    found, reason = decided(own, beside)
    assert found == verdict == naive.verdict(statistics, controls)
    assert bool(reason) == (verdict == "open")
    if verdict == "open" and "cannot tell" not in statistics:
        for each in beside:
            assert (each.label in reason) == (each.state in ("cannot tell", "not run"))


@pytest.mark.parametrize("above", [True, False])
@pytest.mark.parametrize(("low", "high"), [(1.2, 1.4), (0.9, 1.05), (1.0, 1.2), (1.1, 1.3), (1.0, 1.1)])
def test_states_follow_from_intervals(low: float, high: float, above: bool) -> None:
    assert judged(low, high, 1.1, above) == naive.state(low, high, 1.1, above)


def test_of_several_control_runs_the_worst_decides() -> None:
    good, better = check("passes"), replace(check("passes"), value=1.6)
    assert worst([better, good]) is good
    assert worst([good, check("fails"), better]).state == "fails"
    assert worst([good, check("cannot tell")]).state == "cannot tell"
    under = replace(good, above=False), replace(better, above=False)
    assert worst(list(under)) is under[1]


def test_only_the_papers_reading_has_verdicts() -> None:
    assert not why_unread("dot", "max", 0.5)
    others = [("cosine", "max", 0.5, "cosine"), ("dot", "rank", 0.5, "rank"), ("dot", "max", 0.6, "0.6")]
    for reading, scale, tau, said in others:
        assert said in why_unread(reading, scale, tau)
    found = findings_of(synthetic.block_sums(readings=("cosine", "dot")))
    assert {each.verdict for each in found} == {"no verdict"}
    assert all("the main reading is cosine" in each.sentence for each in found)
    assert all(math.isfinite(each.value) for each in found)
    assert {each.verdict for each in findings_of(synthetic.block_sums(), tau=0.6)} == {"no verdict"}


def test_every_claim_is_declared_as_the_method_has_it() -> None:
    """Against the naive list, which was written from the method."""
    assert [each.key for each in CLAIMS] == list(naive.CLAIMS)
    runs = {each.key: [(c.run, c.compared, c.bound, c.above) for c in each.controls if c.run] for each in CLAIMS}
    more = ("permuted", "more", 0.0, True)
    assert {key: own for key, own in runs.items() if own} == {
        "2": [more, more], "4": [("rotated", "alone", 1.05, False)], "7a": [more], "7b": [more], "7c": [more],
    }  # fmt: skip
    assert claim("7a").controls[-1].number.quantity == "likeness"
    with pytest.raises(HeadscopeError, match="no claim '10'"):
        claim("10")


# ---------------------------------------------------------------------- odd sums

ODD = {
    "one block": {"blocks": 1},
    "seven blocks": {"blocks": 7},
    "one head": {"heads": 1},
    "one layer": {"layers": 1},
    "two layers": {"layers": 2},
    "no stop": {"without": (STOP_PAIR,)},
    "no punctuation": {"without": (PUNCTUATION_PAIR,)},
    "no sentence boundary": {"without": (UNRELATED, REPEATED)},
    "no sentence": {"without": (SAME_SENTENCE,)},
    "no pairs": {"without": tuple(range(8))},
    "nothing similar": {"nothing_high": True},
    "no top pairs": {"no_top": True},
    "cross": {"cross": True},
    "one reading": {"readings": ("dot",)},
    "few pairs": {"scale": 0.05, "length": 5},
    "short windows": {"length": 2},
}


@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize("kind", ODD)
def test_odd_sums_never_divide_by_zero_and_say_why(kind: str) -> None:
    sums = synthetic.block_sums(**ODD[kind])
    control = ControlRun.of("permuted", "a permuted run", synthetic.block_sums(**ODD[kind] | {"seed": 1}), 0.5, 20, 0)
    found = findings_of(sums, (control,))
    for each in found:
        _sound(each, sums)
    for warning in signs_of_trouble(sums):
        assert "nan" not in warning
    told = json.dumps(found.as_dict(), allow_nan=False)
    assert repr(Findings.from_dict(json.loads(told)).items) == repr(found.items)  # NaN is no equal of NaN
    assert len(found.table()) == len(CLAIMS)


def _sound(found: Finding, sums: BlockSums) -> None:
    assert found.verdict in VERDICTS
    assert bool(found.reason) == (found.verdict in ("open", "no verdict"))
    assert (found.verdict == "no verdict") == (sums.blocks < 8)
    for each in (*found.statistics, *found.controls):
        assert each.state in STATES
        assert not math.isinf(each.value)
        assert bool(each.why) == (each.state in ("cannot tell", "not run"))
        if math.isnan(each.value):
            assert each.why
        elif each.state in ("passes", "fails"):
            assert each.low <= each.value <= each.high
    assert found.sentence
    assert "nan" not in found.sentence
    assert "None" not in found.sentence


@st.composite
def some_sums(draw: st.DrawFn) -> BlockSums:
    """Sums as odd as they can be, in any combination."""
    return synthetic.block_sums(
        draw(st.integers(1, 12)),
        draw(st.integers(1, 4)),
        draw(st.integers(1, 3)),
        length=draw(st.integers(2, 9)),
        readings=draw(st.sampled_from([("dot",), ("dot", "cosine"), ("dot", "cosine", "values")])),
        cross=draw(st.booleans()),
        texts=draw(st.integers(1, 4)),
        scale=draw(st.sampled_from([0.0, 0.2, 3.0])),
        rate=draw(st.sampled_from([0.0, 0.01, 0.3, 1.0])),
        without=tuple(draw(st.sets(st.integers(0, 7)))),
        nothing_high=draw(st.booleans()),
        no_top=draw(st.booleans()),
        depth=draw(st.sampled_from([None, 12])),
        seed=draw(st.integers(0, 100)),
    )


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(sums=some_sums(), tau=st.sampled_from([0.1, 0.5, 0.95]))
@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_findings_never_divide_by_zero(sums: BlockSums, tau: float) -> None:
    for found in findings_of(sums, draws=8, tau=tau):
        for each in (*found.statistics, *found.controls):
            assert not math.isinf(each.value)
            assert bool(each.why) == (each.state in ("cannot tell", "not run"))
        assert found.sentence
    for warning in signs_of_trouble(sums, tau):
        assert "nan" not in warning


# ---------------------------------------------------------------------- reasons


def reason(key: str, **odd: Any) -> str:
    found: Finding = findings_of(synthetic.block_sums(**odd))[key]
    return found.statistics[0].why


def test_every_missing_number_says_why() -> None:
    assert reason("1a", without=(STOP_PAIR,)) == "there are no sentence stops that could be read"
    assert reason("2", heads=1) == reason("5", heads=1) == "there is one head"
    assert reason("3", layers=1) == "no layer of the early third was read"
    assert reason("4", layers=1) == "no layer of the final third was read"  # one layer of one is a middle one
    assert reason("4", without=(UNRELATED, REPEATED)).startswith("too few similar pairs can be compared")
    assert reason("3", nothing_high=True) == "there are no similar pairs"
    assert "cross-attention" in reason("6", cross=True)
    assert "cross-attention" in reason("7a", cross=True)
    found = findings_of(synthetic.block_sums(readings=("dot",)))
    cosine = [each for f in found for each in f.controls if each.reading == "cosine"]
    assert {each.state for each in cosine} == {"not run"}
    assert all("only by dot" in each.why for each in cosine)
    assert all("--reading dot --reading cosine" in each.why for each in cosine)
    rotated = found["4"].controls[-1]
    assert rotated.state == "not run"
    assert "--control rotated" in rotated.why
    sums = synthetic.block_sums()
    pairless = replace(sums, stored={**sums.stored, "pairless": sums.stored["texts"]})
    assert findings_of(pairless)["4"].statistics[0].why == "no window has two tokens to compare"
    assert math.isfinite(findings_of(pairless)["1a"].value)  # attention is there all the same


def test_under_eight_blocks_there_are_numbers_but_no_verdict() -> None:
    found = findings_of(synthetic.block_sums(blocks=7))
    assert {each.verdict for each in found} == {"no verdict"}
    assert found["1a"].reason == "7 blocks of texts; a verdict needs at least 8"
    assert math.isfinite(found["1a"].value)
    assert math.isnan(found["1a"].low)
    assert "1 block of texts" in findings_of(synthetic.block_sums(blocks=1))["1a"].reason


def test_few_heads_with_a_number_leave_a_claim_open() -> None:
    sums = synthetic.block_sums(heads=5)
    stored = {name: values.copy() for name, values in sums.stored.items()}
    stored["matched"][:, 2, :3] = 0  # three of five heads of the final layer never do it
    found = findings_of(replace(sums, stored=stored))["4"]
    assert found.statistics[0].why == "only 2 of 5 heads have a number"
    assert found.verdict == "open"
    assert math.isfinite(found.value)
    stored["matched"][:, 2, 2] = 40  # half and more of them have
    assert "heads have a number" not in findings_of(replace(sums, stored=stored))["4"].statistics[0].why


def test_control_runs_are_shown_where_they_have_something_to_say() -> None:
    sums = synthetic.block_sums()
    kinds = ("permuted", "untrained", "rotated")
    runs = tuple(
        ControlRun.of(kind, f"{kind} run", synthetic.block_sums(seed=k + 1), 0.5, 20, 0) for k, kind in enumerate(kinds)
    )
    found = findings_of(sums, runs)
    assert {run.kind for run in found["1a"].runs} == {"untrained"}  # with permuted weights attention is nearly even
    assert {run.kind for run in found["3"].runs} == {"permuted", "untrained"}
    assert {run.kind for run in found["4"].runs} == set(kinds)
    assert len(found["2"].runs) == 4  # two statistics
    shown = next(run for run in found["3"].runs if run.kind == "permuted")
    assert f"with permuted weights {shown.value:.3f}" in found["3"].sentence
    assert found["4"].state("rotated") in ("passes", "fails", "cannot tell")


def test_an_untrained_model_to_which_all_pairs_are_alike_has_nothing_to_say_of_similar_pairs() -> None:
    alike = synthetic.block_sums(rate=3.0)
    found = findings_of(synthetic.block_sums(), (ControlRun.of("untrained", "u", alike, 0.5, 20, 0),))
    assert "nearly all of its pairs are similar" in found["4"].runs[0].why
    assert math.isnan(found["4"].runs[0].value)
    assert math.isfinite(found["1a"].runs[0].value)


def test_tables() -> None:
    found = findings_of(synthetic.block_sums())
    table = found.table()
    assert list(table["verdict"]) == [each.verdict for each in found]
    assert set(table["rotated"]) == {"", "not run"}
    assert table.set_index("key")["over"]["4"] in STATES  # over early and over middle together
    assert list(found.checks()["key"]).count("2") == 8
    assert "1a Final layers" in repr(found)
    assert found["7b"] is found[8]
    with pytest.raises(KeyError):
        found["10"]


def test_quantities_as_labelled_tables() -> None:
    sums = synthetic.block_sums()
    numbers = Numbers(sums, Resampling(sums.windows, draws=20))
    table = estimates.quantity(numbers, "sentence_preference", "third", "cosine")
    assert table.sizes == {"third": 3}
    assert (table.low <= table.value).all()
    heads = estimates.quantity(numbers, "sentence_preference", "head", "cosine").value.sel(layer=2)
    assert float(table.beyond.sel(third="final")) == float((heads > 1.1).mean())
    quartiles = np.exp(np.quantile(np.log(heads), [0.25, 0.75]))
    np.testing.assert_allclose([table.lower_quartile.values[2], table.upper_quartile.values[2]], quartiles)
    ways = estimates.by_readings(numbers, "reach")
    assert list(ways["way"].values) == ["τ", "dot", "cosine"]
    shares = estimates.distances(numbers, "model", "dot")
    assert float(shares.base.sum()) == pytest.approx(1)
    for problem, name, by, reading in (
        ("not of single heads", "focal_excess", "head", None),
        ("by='word'", "reach", "word", None),
        ("not read by cosine", "separator_focus_stop", "layer", "cosine"),
        ("S was not read by values", "reach", "layer", "values"),
        ("no quantity 'size'", "size", "layer", None),
    ):
        with pytest.raises(HeadscopeError, match=problem):
            estimates.quantity(numbers, name, by, reading)
    with pytest.raises(HeadscopeError, match="cross-attention"):
        estimates.quantity(Numbers(synthetic.block_sums(cross=True), numbers.resample), "likeness")


def test_quantities_have_what_declarations_promise() -> None:
    for name, quantity in QUANTITIES.items():
        assert name == quantity.name
        assert quantity.logarithmic <= (quantity.none == 1.0)
        assert "heads" not in quantity.shown or quantity.smallest > 0
