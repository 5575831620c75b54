"""What findings say: in three sentences, and one on each claim, whatever its checks came to."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

import synthetic
from headscope.findings import CLAIMS
from headscope.findings.checks import RunNumber
from headscope.findings.claims import claim
from headscope.findings.in_short import in_short
from headscope.findings.numbers import Measured, Number, Numbers
from headscope.findings.resampling import Resampling
from headscope.findings.sentences import in_words
from headscope.findings.verdicts import decided, judge, more_in_the_middle
from synthetic import findings_of

VERDICTS = ("holds", "qualified", "does not hold", "open", "no verdict")


def words(
    key: str, statistic: str, controls: dict[str, str], of_statistic: dict[str, Any] | None = None, **more: Any
) -> str:
    """The sentence of a claim whose checks came out so."""
    sums = synthetic.block_sums()
    numbers = Numbers(sums, Resampling(sums.windows, draws=10))
    found = judge(claim(key), numbers)
    own = tuple(
        replace(each, state=statistic, why="it is so" if statistic == "cannot tell" else "", **(of_statistic or {}))
        for each in found.statistics
    )
    beside = tuple(
        replace(each, state=controls.get(each.name, "passes"), why="it is so" if each.name in controls else "")
        for each in found.controls
    )
    verdict, why = decided(own, beside)
    found = replace(found, statistics=own, controls=beside, verdict=verdict, reason=why, **more)
    return in_words(claim(key), found, numbers)


def test_sentences_say_what_a_verdict_hangs_on() -> None:
    assert "every control that the claim has passes: it holds" in words("4", "passes", {})
    assert "it depends on vector length: the cosine does not show it" in words("4", "passes", {"cosine": "fails"})
    both = words("8", "passes", {"cosine": "fails", "punctuation": "fails"})
    assert "vector length" in both
    assert "commas are as good as stops" in both
    assert "controls leave it open: with sentence labels rotated: it is so" in words(
        "4", "passes", {"rotated": "not run"}
    )
    assert "By cosine, which leaves vector length out, the effect is there" in words("4", "fails", {})
    assert "By cosine" not in words("4", "fails", {"cosine": "fails"})
    assert "Open: it is so" in words("4", "cannot tell", {})
    more = "The middle layers do it more: 1.90 [1.78, 2.03]."
    assert more in words("1a", "passes", {}, middle="1.90 [1.78, 2.03]")
    assert more not in words("1a", "fails", {}, middle="1.90 [1.78, 2.03]")
    told = words("4", "fails", {}, layers_beyond=(2,), layers_short=(0, 1))
    assert "layer 2 wholly beyond 1.1, layers 0 and 1 wholly short of it" in told


@pytest.mark.parametrize(("state", "pooled", "side"), [("fails", 2.76, "beyond"), ("passes", 0.5, "short of")])
def test_a_pooled_number_on_the_other_side_of_the_bound_is_said(state: str, pooled: float, side: str) -> None:
    assert f"Pooled over heads it is {pooled:.2f}, {side} 1.1" in words("8", state, {}, of_statistic={"pooled": pooled})
    same_side = 0.5 if state == "fails" else 2.76
    assert "Pooled" not in words("8", state, {}, of_statistic={"pooled": same_side})
    assert "Pooled" not in words("8", "cannot tell", {}, of_statistic={"pooled": pooled})


def test_layers_on_both_sides_of_the_bound_are_named() -> None:
    sums = synthetic.block_sums(blocks=30, layers=6, heads=4, scale=30, rate=0.2)
    stored = {name: values.copy() for name, values in sums.stored.items()}
    stored["matched"][:, 4, :, 0] = [60, 20]  # of two final layers one does it, the other does not
    stored["matched"][:, 5, :, 0] = [20, 20]
    found = findings_of(replace(sums, stored=stored), draws=50)["4"]
    assert (found.layers_beyond, found.layers_short) == ((4,), (5,))
    assert "layer 4 wholly beyond 1.1, layer 5 wholly short of it" in found.sentence


# ---------------------------------------------------------------------- in short


def test_in_short_every_statement_is_counted_and_named() -> None:
    told = findings_of(synthetic.block_sums())
    holds, qualified, others = in_short(told)
    for each in told:
        named = f"{claim(each.key).plain} ({each.key}"  # and its reservations
        assert (named in holds) == (each.verdict == "holds")
        assert (named in qualified) == (each.verdict == "qualified")
        assert (named in others) == (each.verdict not in ("holds", "qualified"))
    counts = [int(number) for number in re.findall(r"(?:^|\. )(\d+) ", f"{holds} {qualified} {others}")]
    assert sum(counts) == len(CLAIMS)
    one_of_each = replace(told, items=tuple(replace(f, verdict=v) for f, v in zip(told, VERDICTS, strict=False)))
    assert in_short(one_of_each) == (
        "1 of 5 statements holds: the final layers attend to the marks that end sentences (1a).",
        "1 holds with a reservation: the final layers attend to the special token that closes a text (1b).",
        "1 does not hold: it is not the case that the heads of a layer have different roles (2). "
        "1 stays open: whether similar tokens lie closer together in the middle layers than in the early ones (3). "
        "1 has no verdict: whether in the final layers similarity keeps to the sentence (4).",
    )
    alike = replace(told, items=tuple(replace(f, verdict="does not hold") for f in list(told)[:3]))
    assert in_short(alike) == (
        "None of the 3 statements holds without a reservation.",
        "None holds with a reservation.",
        "3 do not hold: it is not the case that the final layers attend to the marks that end sentences (1a); that the "
        "final layers attend to the special token that closes a text (1b); or that the heads of a layer have different "
        "roles (2).",
    )
    assert in_short(replace(told, items=tuple(replace(f, verdict="holds") for f in told)))[2] == (
        "None is refuted or open."
    )
    none = in_short(findings_of(synthetic.block_sums(blocks=7)))
    assert none[0] == "None of the 12 statements has a verdict: 7 blocks of texts; a verdict needs at least 8."


def test_an_effect_that_rotated_sentences_show_too_is_said() -> None:
    told = findings_of(synthetic.block_sums())
    ninth = told["9"]
    run = RunNumber("rotated", "m (rotated sentences)", ninth.statistics[0].label, 0.3, 0.2, 0.4)
    holds = replace(ninth, verdict="holds", runs=(run,))
    assert in_short(replace(told, items=(holds,)))[0] == (
        "None of the 1 statements holds without a reservation. 1 holds by the method's rule: "
        f"{claim('9').plain} (9, but it is also there where sentence boundaries mean nothing)."
    )
    said = words("9", "passes", {}, runs=(run,))
    assert "the controls that the method asks for pass: by that rule it holds" in said
    assert "None of its controls asks whether it is about sentences, and it is not" in said
    assert "every control" not in said
    less = replace(holds, runs=(replace(run, low=0.01),))  # not certainly beyond the bound
    assert in_short(replace(told, items=(less,)))[0].endswith("(9).")


def test_both_numbers_of_a_claim_have_their_control_runs() -> None:
    told = findings_of(synthetic.block_sums())["2"]
    first, second = (each.label for each in told.statistics)
    runs = (
        RunNumber("permuted", "m (permuted weights, seed 0)", first, 0.014, 0.01, 0.02),
        RunNumber("permuted", "m (permuted weights, seed 1)", first, 0.031, 0.02, 0.04),
        RunNumber("permuted", "m (permuted weights, seed 0)", second, 0.002, 0.0, 0.01),
    )
    sums = synthetic.block_sums()
    said = in_words(claim("2"), replace(told, runs=runs), Numbers(sums, Resampling(sums.windows, draws=10)))
    assert "(with permuted weights 0.014 to 0.031 and 0.002" in said


@pytest.mark.parametrize(("value", "said"), [(0.97, True), (0.1, False)])
def test_where_networks_that_learned_nothing_pass_more_easily_it_is_said(value: float, said: bool) -> None:
    told = findings_of(synthetic.block_sums())["7a"]
    own = replace(told.statistics[0], value=0.7, low=0.6, high=0.8, state="passes")
    runs = (RunNumber("untrained", "m (untrained, seed 0)", own.label, value, value, value),)
    sums = synthetic.block_sums()
    found = replace(told, verdict="holds", statistics=(own,), runs=runs)
    sentence = in_words(claim("7a"), found, Numbers(sums, Resampling(sums.windows, draws=10)))
    assert ("no sign of learning" in sentence) == said


def test_an_effect_that_is_there_by_cosine_but_too_small_is_told() -> None:
    sums = synthetic.block_sums()
    numbers = Numbers(sums, Resampling(sums.windows, draws=10))
    found = judge(claim("7b"), numbers)
    own = tuple(replace(each, state="fails", value=-0.04, low=-0.05, high=-0.03) for each in found.statistics)
    for low, said in ((0.032, True), (-0.01, False)):
        controls = tuple(
            replace(each, state="fails", value=0.036, low=low, high=0.041) if each.reading == "cosine" else each
            for each in found.controls
        )
        told = in_words(
            claim("7b"), replace(found, statistics=own, controls=controls, verdict="does not hold"), numbers
        )
        assert ("By cosine it is on the other side of no effect (0.036 [0.032, 0.041]), though short" in told) == said


def test_the_middle_layers_are_named_where_they_certainly_do_it_more(monkeypatch: pytest.MonkeyPatch) -> None:
    sums = synthetic.block_sums()
    numbers = Numbers(sums, Resampling(sums.windows, draws=10))
    seen = numbers.measure(Number("separator_focus_stop", "middle"))
    for high, said in ((0.9, True), (1.1, False)):
        measure = partial(_measured, seen, high)
        monkeypatch.setattr(Numbers, "measure", lambda self, number, measure=measure: measure(number))
        assert bool(more_in_the_middle(claim("1a"), numbers)) == said
        assert more_in_the_middle(claim("4"), numbers) == ""  # a control asks
        assert more_in_the_middle(claim("7a"), numbers) == ""  # it is not about the final layers


def _measured(middle: Measured, high: float, number: Number) -> Measured:
    return middle if number.where == "middle" else replace(middle, value=0.8, low=0.7, high=high)


def test_in_short_has_the_reservations() -> None:
    told = findings_of(synthetic.block_sums())
    states = {"cosine": "fails", "over middle": "fails"}
    controls = tuple(replace(each, state=states.get(each.name, "passes")) for each in told["4"].controls)
    layers = {"layers_beyond": (11,), "layers_short": (7, 8)}
    qualified = replace(told["4"], verdict="qualified", controls=controls, **layers)
    assert in_short(replace(told, items=(qualified,)))[1].endswith(
        "(4, but the cosine does not show it and the final layers do it less than the middle ones)."
    )
    holds, fails = (replace(told["4"], verdict=verdict, **layers) for verdict in ("holds", "does not hold"))
    assert in_short(replace(told, items=(holds,)))[0].endswith("(4, but not in layers 7 and 8).")
    assert in_short(replace(told, items=(fails,)))[2].endswith("(4, but by dot it is so in layer 11).")
    focus = replace(told["1a"], verdict="holds", middle="1.90 [1.78, 2.03]", layers_beyond=(), layers_short=())
    assert in_short(replace(told, items=(focus,)))[0].endswith("(1a, but less than the middle ones).")
