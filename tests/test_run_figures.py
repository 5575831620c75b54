"""Figures of a whole result show its numbers: every line, bar, dot and shade is held against the table behind it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from matplotlib.colors import to_hex

from headscope.errors import HeadscopeError
from headscope.figures.beyond import heads_beyond
from headscope.figures.catalog import FIGURES
from headscope.figures.colours import CONTROL, STATE_INKS, VERDICT_INKS, WAYS
from headscope.findings.estimates import AT_TAU
from headscope.findings.showing import KINDS, mark_of, shown
from headscope.measures.quantities import named, shown_in
from headscope.measures.view import View
from long import first_of
from results import MadeUpResult, control_of, made_up

READINGS = ("dot", "cosine", "values")


@pytest.fixture(scope="module")
def result() -> MadeUpResult:
    return made_up(readings=READINGS)


@pytest.fixture(scope="module")
def controls() -> list[MadeUpResult]:
    return [control_of(kind, readings=READINGS) for kind in ("permuted:0", "permuted:1", "untrained:0", "rotated")]


def panel(figure: Any, title: str) -> Any:
    return next(axes for axes in figure.axes if title in (plain(axes.get_title()), plain(axes.get_ylabel())))


def plain(text: str) -> str:
    return text.replace("\n", " ")


def lines_of(axes: Any, colour: str) -> list[Any]:
    """The lines of a colour that are lines over layers."""
    return [line for line in axes.lines if to_hex(line.get_color()) == colour and len(line.get_xdata()) > 2]


# ---------------------------------------------------------------------- over layers


def test_the_trajectory_has_a_line_for_each_reading(result: MadeUpResult, controls: list[MadeUpResult]) -> None:
    figure = result.figure("trajectory", controls=controls)
    sums = result.blocks
    for quantity in shown_in("layers", sums.stored):
        axes = panel(figure, quantity.label)
        table = result.by_readings(quantity.name)
        for way in table["way"].values:
            (line,) = lines_of(axes, WAYS[str(way)].colour)
            np.testing.assert_allclose(line.get_ydata(), table["value"].sel(way=way).values)
            assert line.get_xdata().tolist() == list(sums.layers)
        first = quantity.ways(sums)[0]
        thin = [line.get_ydata() for line in lines_of(axes, CONTROL)]
        expected = [quantity.value(View(run.blocks, 0.5, reading=first)) for run in controls]
        np.testing.assert_allclose(thin, expected)
        bands = [band.get_paths()[0].get_extents() for band in axes.collections]
        quartiles = table.isel(way=0)
        assert any(
            band.y0 == pytest.approx(float(quartiles["lower_quartile"].min()))
            and band.y1 == pytest.approx(float(quartiles["upper_quartile"].max()))
            for band in bands
        ), quantity.name
    assert "control runs" in figure.caption
    legend = [text.get_text() for text in figure.legends[0].get_texts()]
    assert {WAYS[way].called(from_pairs=True) for way in (AT_TAU, *READINGS, "direct", "rows")} <= set(legend)
    assert {"attention", "permuted weights", "untrained", "rotated sentences"} <= set(legend)


def test_s_against_attention_shows_its_table(result: MadeUpResult, controls: list[MadeUpResult]) -> None:
    figure = result.figure("against-attention", controls=controls)
    table = result.against_attention(controls=controls)
    for contrast, title in (("sentence", "Pairs of one sentence"), ("repeated", "Repetitions")):
        axes = panel(figure, title)
        assert any(line.get_linestyle() == "--" and set(line.get_ydata()) == {0.5} for line in axes.lines)
        for way in table["way"].values:
            own = table.sel(contrast=contrast, way=way)
            drawn = lines_of(axes, WAYS[str(way)].colour)
            (strong,) = [line for line in drawn if line.get_alpha() is None]
            np.testing.assert_allclose(strong.get_ydata(), own["value"].values)
            faint = [line.get_ydata() for line in drawn if line.get_alpha() is not None]
            np.testing.assert_allclose(faint, own["controls"].values[table["kind"].values == "permuted"])
    assert "2 runs" in figure.caption


def test_focal_tokens_stand_beside_their_null(result: MadeUpResult) -> None:
    figure = result.figure("focal-tokens")
    for title, way, colour in (
        ("the paper's way, at τ", None, WAYS[AT_TAU].colour),
        ("top pairs by dot", "dot", WAYS["dot"].colour),
    ):
        axes = panel(figure, title)
        drawn = {line.get_label(): line for line in axes.lines}
        measured = next(line for label, line in drawn.items() if label.startswith("measured"))
        assert to_hex(measured.get_color()) == colour
        unique, null = (result.quantity(name, reading=way)["value"] for name in ("focal_unique", "focal_null"))
        np.testing.assert_allclose(measured.get_ydata(), unique.values)
        np.testing.assert_allclose(drawn["by chance"].get_ydata(), null.values)
        mixed = drawn.get("as many heads drawn from all layers")
        assert (mixed is None) == (way is None)
        if mixed is not None:
            level = named("focal_mixed").value(View(result.blocks, reading=way), "model")
            assert mixed.get_ydata()[0] == pytest.approx(float(level))


# ---------------------------------------------------------------------- heads


def test_how_many_heads_lie_beyond_the_bound(result: MadeUpResult) -> None:
    figure = heads_beyond(result)  # type: ignore[arg-type]
    titles = {plain(axes.get_title(loc="left")): axes for axes in figure.axes if axes.images}
    for key, name in (("1a", "separator_focus_stop"), ("4", "sentence_preference"), ("7b", "repeated_beyond_maps")):
        quantity = named(name)
        axes = titles[f"{key} {quantity.label}: beyond {quantity.bound:g}"]
        ways = [way for way in quantity.ways(result.blocks) if way not in ("direct", "rows")]
        heads = [quantity.of_heads(View(result.blocks, reading=way)) for way in ways]
        shares = [100 * (each > quantity.bound).sum(1) / np.isfinite(each).sum(1) for each in heads]
        np.testing.assert_allclose(axes.images[0].get_array(), shares)
        written = [text.get_text() for text in axes.texts]
        assert written == [f"{share:.0f}" for row in shares for share in row]
    assert not any(title.startswith(("2 ", "3 ", "5 ", "9 ")) for title in titles)
    assert "τ = 0.5;" in figure.caption


def test_a_share_without_heads_is_no_share() -> None:
    figure = heads_beyond(made_up(nothing_high=True))  # type: ignore[arg-type]
    axes = next(axes for axes in figure.axes if axes.get_title(loc="left").startswith("4 "))
    shares = np.ma.filled(axes.images[0].get_array(), np.nan)
    assert np.isnan(shares[0]).all()  # at τ there are no similar pairs
    assert np.isfinite(shares[1]).all()  # there are top pairs


def test_the_atlas_shows_every_head(result: MadeUpResult) -> None:
    figure = result.figure("atlas")
    for quantity in shown_in("heads", result.blocks.stored):
        image = panel(figure, quantity.label).images[0]
        np.testing.assert_allclose(np.ma.filled(image.get_array(), np.nan), quantity.of_heads(View(result.blocks)))


def test_specialists_are_dots_with_the_farthest_of_permuted_runs(
    result: MadeUpResult, controls: list[MadeUpResult]
) -> None:
    figure = result.figure("specialists", controls=controls)
    axes, table = figure.axes[0], result.specialists(controls=controls)
    scores = list(dict.fromkeys(table["score"]))
    assert [label.get_text() for label in axes.get_yticklabels()] == [named(score).label for score in scores]
    dots = np.concatenate([np.asarray(each.get_offsets()) for each in axes.collections])
    for row, score in enumerate(scores):
        own = table[(table["score"] == score) & table["what"].notna()]
        drawn = dots[np.round(dots[:, 1]) == row, 0]
        np.testing.assert_allclose(sorted(drawn), sorted(own["out"] / named(score).smallest))
        bars = [line.get_xdata()[0] for line in axes.lines if round(float(np.mean(line.get_ydata())), 3) == row]
        reach = float(own["permuted"].iloc[0]) / named(score).smallest
        assert any(bar == pytest.approx(reach) for bar in bars)


def test_stability_shows_agreement_by_size(result: MadeUpResult) -> None:
    axes, table = result.figure("stability").axes[0], result.stability()
    for row, score in enumerate(dict.fromkeys(table["score"])):
        own = table[table["score"] == score]
        dots = np.concatenate([each.get_offsets() for each in axes.collections if len(each.get_offsets())])
        np.testing.assert_allclose(np.sort(dots[dots[:, 1] == row, 0]), np.sort(own["agreement"]))


# ---------------------------------------------------------------------- distances, thresholds


def test_distances_are_shares_of_bands(result: MadeUpResult) -> None:
    figure = result.figure("distances-of-layers")
    table, reach = result.distance_distribution(), result.quantity("reach")
    for axes, layer in zip(figure.axes, (1, 3, 5), strict=True):
        own = table.sel(layer=layer)
        np.testing.assert_allclose([bar.get_height() for bar in axes.patches[:-1]], own["value"].values)
        np.testing.assert_allclose(axes.patches[-1].get_data().values, own["base"].values)
        assert axes.get_title() == f"layer {layer}: {float(reach['value'].sel(layer=layer)):.2f}"
        tallest = max(bar.get_height() for bar in axes.patches[:-1])
        assert axes.get_ylim()[1] >= tallest  # nothing is cut off


def test_heads_are_shown_from_the_farthest_and_the_nearest(result: MadeUpResult) -> None:
    figure = result.figure("distances-of-heads")
    reach = np.sort(named("reach").of_heads(View(result.blocks)), axis=None)
    shown_first = [float(axes.get_title().split(": ")[1]) for axes in figure.axes]
    np.testing.assert_allclose(shown_first[:4], reach[::-1][:4], atol=0.005)
    np.testing.assert_allclose(shown_first[4:], reach[:4], atol=0.005)


def test_thresholds_are_those_of_the_median_head(result: MadeUpResult) -> None:
    left, right, scale = result.figure("threshold-choice").axes
    assert [label.get_text() for label in scale.get_yticklabels()] == [str(layer) for layer in result.blocks.layers]
    sums = result.blocks
    pairs = sums.stored["base_pairs"].sum()
    for k in range(len(sums.layers)):
        high = [np.median(View(sums, tau).number()[:, k].sum(0)) / pairs for tau in (0.05, 0.5, 0.95)]
        drawn = left.lines[k].get_ydata()
        np.testing.assert_allclose(np.nan_to_num(drawn[[0, 9, 18]]), high)
        attended = np.median(sums.stored["attended"][:, k].sum((0, -1)), axis=0) / sums.stored["tokens"].sum()
        np.testing.assert_allclose(np.nan_to_num(right.lines[k].get_ydata()), attended)


def test_sensitivity_marks_states(result: MadeUpResult) -> None:
    figure, swept = result.figure("sensitivity"), result.sensitivity(draws=400)
    rows = [k for k in range(swept.sizes["claim"]) if str(swept["over"].values[k])]
    for axes, k in zip(figure.axes, rows, strict=False):
        row = swept.isel(claim=k)
        marks = {float(line.get_xdata()[0]): line for line in axes.lines if line.get_marker() not in ("None", "")}
        for at, state, value in zip(row["threshold"].values, row["state"].values, row["value"].values, strict=True):
            if str(state) == "not run" or math.isnan(value):
                assert float(at) not in marks
            else:
                assert to_hex(marks[float(at)].get_color()) == STATE_INKS[str(state)]
        line = next(line for line in axes.lines if len(line.get_xdata()) > 2)
        own = swept.attrs["tau"]
        matched = str(row["claim"].values) in ("2", "4", "8")  # within each text at the run's τ, pooled elsewhere
        assert row["over_windows"].values.tolist() == [matched and at != own for at in row["threshold"].values.tolist()]
        assert (own in line.get_xdata()) == (not matched)


# ---------------------------------------------------------------------- findings


def test_the_findings_figure_shows_numbers_readings_marks_and_verdicts(
    result: MadeUpResult, controls: list[MadeUpResult]
) -> None:
    from headscope.figures.verdicts import findings_figure

    findings = result.findings(controls=controls, draws=100)
    figure = findings_figure(result, findings)  # type: ignore[arg-type]
    lines = [(f, statistic) for f in findings for statistic in f.statistics]
    grid = np.array(figure.axes).reshape(len(lines), 3)
    for (f, statistic), (scale, marks, verdict) in zip(lines, grid, strict=True):
        bars = [sorted(line.get_xdata()) for line in scale.lines if len(line.get_xdata()) == 2]
        assert any(bar == pytest.approx([statistic.low, statistic.high]) for bar in bars)
        readings = [each for each in f.controls if each.reading and not each.run]
        for each in readings if len(f.statistics) == 1 else []:
            own = [line for line in scale.lines if to_hex(line.get_color()) == WAYS[each.reading].colour]
            assert any(list(line.get_xdata()) == [each.value] for line in own)
        grey = {line.get_xdata()[0] for line in scale.lines if to_hex(line.get_color()) == CONTROL}
        assert grey == {run.value for run in f.runs if run.statistic == statistic.label and math.isfinite(run.value)}
        written = [text.get_text() for text in verdict.texts]
        assert shown(statistic, f.digits).number in written
        if statistic is f.statistics[0]:
            assert f"{VERDICT_INKS[f.verdict].sign} {f.verdict}" in written
            signs = [text.get_text() for text in marks.texts if text.get_text() not in {k.heading for k in KINDS}]
            assert signs == [mark_of(f, kind) for kind in KINDS]
    for kind in KINDS:
        assert kind.meaning in figure.caption


# ---------------------------------------------------------------------- all of them


def luminance(colour: str) -> float:
    channels = [int(colour[k : k + 2], 16) / 255 for k in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return float(np.dot(linear, [0.2126, 0.7152, 0.0722]))


def contrast(one: str, other: str) -> float:
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def test_colours_can_be_read_and_told_apart() -> None:
    for look in VERDICT_INKS.values():  # on a light page and on a dark one, in a terminal of either kind
        assert contrast(look.ink, "#ffffff") >= 4.4
        assert contrast(look.ink, "#161616") >= 3.9
    assert len({(line.colour, line.marker) for line in WAYS.values()}) == len(WAYS)
    assert len({line.colour for line in WAYS.values()}) == len(WAYS)
    known = [VERDICT_INKS[name].ink for name in ("holds", "qualified", "does not hold", "open")]
    assert len(set(known)) == 4
    assert len({look.sign for look in VERDICT_INKS.values()}) == len(VERDICT_INKS)


REFUSED = {
    ("against-attention", "cross"),  # maps and pairs are of different tokens
    ("specialists", "two blocks"),  # nothing tells a head from noise
    ("distances-of-heads", "nothing high"),
}


@pytest.mark.parametrize("name", [name for name in FIGURES if name != "mean-matrices"])
@pytest.mark.parametrize("odd", first_of(["nothing high", "cross", "one head", "two blocks"]))
@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_odd_results_are_drawn_or_refused_with_a_word(name: str, odd: str) -> None:
    options: dict[str, dict[str, Any]] = {
        "cross": {"cross": True}, "one head": {"heads": 1}, "two blocks": {"blocks": 2},
        "nothing high": {"nothing_high": True},
    }  # fmt: skip
    result = made_up(layers=3, **options[odd])
    if (name, odd) in REFUSED:
        with pytest.raises(HeadscopeError, match="To fix it"):
            result.figure(name)
    else:
        assert "made/up" in result.figure(name).caption
