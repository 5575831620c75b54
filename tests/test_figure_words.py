"""Legends and captions say what is drawn, and marks that mean different things look different."""

from __future__ import annotations

import math
import re
from typing import Any

import matplotlib
import numpy as np
import pytest
from matplotlib.colors import to_hex, to_rgba

import headscope
from headscope.figures.colours import CONTROL_DASHES, MASK, RECEIVES, WAYS
from headscope.figures.distances import _farthest
from headscope.findings.estimates import AT_TAU
from headscope.findings.showing import shown
from headscope.measures.quantities import ABOVE, named, shown_in
from headscope.measures.view import View
from results import MadeUpResult, control_of, made_up

TEXT = "The ferryman knew the river. The river knew the ferryman, and the children feared the river."
SMALLEST = 6.5  # points: what can be read on paper
PAGE = 7.2  # inches


@pytest.fixture(scope="module")
def result() -> MadeUpResult:
    return made_up(readings=("dot", "cosine"))


@pytest.fixture(scope="module")
def controls() -> list[MadeUpResult]:
    return [control_of(kind, readings=("dot", "cosine")) for kind in ("permuted:0", "untrained:0", "rotated")]


def keys(figure: Any) -> dict[str, Any]:
    """The legend: what is drawn for each of its words."""
    (legend,) = figure.legends
    return {text.get_text(): key for key, text in zip(legend.legend_handles, legend.get_texts(), strict=True)}


def words(figure: Any) -> list[str]:
    return [text.get_text() for text in figure.findobj(matplotlib.text.Text)]


def said(figure: Any) -> str:
    return str(figure.caption).replace("\n", " ")


def is_upright(key: Any) -> bool:
    return bool(key.get_marker() == "|" and key.get_linestyle() == "None")


# ---------------------------------------------------------------------- findings


@pytest.mark.parametrize("width", ["column", None])
def test_numbers_of_findings_stand_at_every_width(
    result: MadeUpResult, controls: list[MadeUpResult], width: str | None
) -> None:
    figure = result.figure("findings", controls=controls, width=width)
    findings, drawn = result.findings(controls=controls), words(figure)
    for finding in findings:
        for statistic in finding.statistics:
            own = shown(statistic, finding.digits)
            assert own.number in drawn
            for beside in (f"{own.heads} of the heads", f"pooled {own.pooled}"):
                assert "–" in beside or any(beside in text for text in drawn)
    assert "the share of heads" in said(figure)


def test_an_interval_stands_out_from_under_its_dot(result: MadeUpResult, controls: list[MadeUpResult]) -> None:
    figure = result.figure("findings", controls=controls)
    seen = 0
    for axes in figure.axes:
        dots = {line.get_color(): line for line in axes.lines if line.get_marker() in ("o", "s", "^")}
        for line in axes.lines:
            if line.get_marker() == "|":
                assert line.get_markersize() > dots[line.get_color()].get_markersize()
                seen += 1
    assert seen > 10


def test_upright_marks_have_upright_keys(result: MadeUpResult, controls: list[MadeUpResult]) -> None:
    findings = keys(result.figure("findings", controls=controls))
    assert is_upright(findings["no effect"])
    assert is_upright(findings["control runs"])
    specialists = keys(result.figure("specialists", controls=controls))
    assert is_upright(specialists["the median head of the layer"])
    assert is_upright(specialists["farthest head of permuted runs"])


# ---------------------------------------------------------------------- one name, one colour


def test_a_way_of_reading_has_one_name(result: MadeUpResult, controls: list[MadeUpResult]) -> None:
    names = {"top pairs by dot", "top pairs by cosine"}
    assert names <= set(keys(result.figure("findings", controls=controls)))
    assert names <= set(keys(result.figure("trajectory")))
    beyond = {
        axes.get_title(loc="left").split()[0]: [label.get_text() for label in axes.get_yticklabels()]
        for axes in result.figure("heads-beyond").axes
        if axes.images
    }
    assert beyond["4"] == [WAYS[AT_TAU].label, "top pairs by dot", "top pairs by cosine"]
    assert beyond["7a"] == ["S by dot", "S by cosine"]  # the order of all pairs
    assert [axes.get_title() for axes in result.figure("focal-tokens").axes] == [WAYS[AT_TAU].label, "top pairs by dot"]
    assert "top pairs by dot" in said(result.figure("findings", controls=controls))


def test_attention_alone_is_not_called_the_papers_way(result: MadeUpResult) -> None:
    figure = result.figure("trajectory", scores=["separator_focus_stop", "attention_spread"])
    assert "attention" in keys(figure)
    assert WAYS[AT_TAU].label not in keys(figure)
    assert "attention" not in keys(result.figure("trajectory", scores=["reach"]))


def test_the_trajectory_says_where_all_pairs_are_compared(result: MadeUpResult) -> None:
    caption = said(result.figure("trajectory"))
    listed = caption.split("The latter in: ")[1].split(". ")[0]
    for quantity in shown_in("layers", result.blocks.stored):
        assert (quantity.label in listed.split("; ")) == (quantity.read in ("order", "maps"))


def test_a_legend_names_what_the_picked_scores_have(result: MadeUpResult) -> None:
    figure = result.figure("trajectory", scores=["focal_share"])  # read at τ alone, and no number stands for no effect
    assert "no effect" not in keys(figure)
    assert "no effect" not in said(figure)
    assert "Top pairs" not in said(figure)
    whole = result.figure("trajectory")
    assert "no effect" in keys(whole)
    assert "Top pairs" in said(whole)


def test_distances_have_the_ink_of_the_papers_way(result: MadeUpResult) -> None:
    for name in ("distances-of-heads", "distances-of-layers"):
        for axes in (each for each in result.figure(name).axes if each.get_visible()):
            assert {to_hex(bar.get_edgecolor()) for bar in axes.patches[:-1]} == {WAYS[AT_TAU].colour}


def test_control_runs_are_not_dashed_as_no_effect_is(result: MadeUpResult, controls: list[MadeUpResult]) -> None:
    figure = result.figure("trajectory", controls=controls, scores=["reach"])
    drawn = keys(figure)
    patterns = {label: str(key._dash_pattern) for label, key in drawn.items() if hasattr(key, "_dash_pattern")}
    for label in ("permuted weights", "untrained", "rotated sentences"):
        assert patterns[label] != patterns["no effect"]
    assert len({str(dash) for dash in CONTROL_DASHES.values()}) == len(CONTROL_DASHES)
    assert "dotted: untrained" in said(figure)
    alone = said(result.figure("trajectory", controls=controls[2:], scores=["reach"]))
    assert "dotted" not in alone
    assert "dashes and dots: rotated sentences" in alone


def test_bands_that_overlap_are_not_both_filled(result: MadeUpResult) -> None:
    def filled(axes: Any) -> list[bool]:
        bands = [each for each in axes.collections if type(each).__name__ == "FillBetweenPolyCollection"]
        return [bool(band.get_facecolor().size) and band.get_facecolor()[0, 3] > 0 for band in bands]

    (reach,) = result.figure("trajectory", scores=["reach"]).axes
    assert filled(reach) == [False, True, True, True]  # the middle half, then τ, dot, cosine
    for axes in result.figure("focal-tokens").axes:
        assert filled(axes) == [True, False]  # what was measured, chance


# ---------------------------------------------------------------------- what is left out, what is 0


def test_sensitivity_says_which_claims_it_leaves_out(result: MadeUpResult) -> None:
    figure, swept = result.figure("sensitivity"), result.sensitivity(draws=400)
    without = [str(key) for key, over in zip(swept["claim"].values, swept["over"].values, strict=True) if not over]
    assert without == ["7a", "7b", "7c"]
    assert f"they need no threshold: {', '.join(without)}." in said(figure)
    drawn = " ".join(axes.get_title() for axes in figure.axes)
    assert not any(key in drawn for key in without)
    assert "That share is 0" in said(figure)


@pytest.mark.parametrize("width", ["column", None])
def test_every_head_is_counted_among_specialists(result: MadeUpResult, width: str | None) -> None:
    figure = result.figure("specialists", width=width)
    assert "these texts cannot tell" in keys(figure)
    assert "these texts cannot tell" in said(figure)
    counts = [text for text in words(figure) if re.match(r"\d+( stand out,| ·)", text)]
    scores = len(figure.axes[0].get_yticklabels())
    assert len(counts) == scores
    for text in counts:
        line = text.rpartition("\n")[0]  # the last one names heads
        assert sum(map(int, re.findall(r"\d+", line))) == result.blocks.heads * len(result.blocks.layers)
    assert not any("noise" in text.lower() or "unclear" in text for text in words(figure))


def test_long_range_is_said_to_be_hardly_so_where_it_is(result: MadeUpResult) -> None:
    farthest = float(np.nanmax(named("reach").of_heads(View(result.blocks))))
    caption = said(result.figure("distances-of-heads"))
    assert ("No head reaches much farther" in caption) == (farthest < ABOVE)
    assert f"{1.08:.2f} times" in _farthest(1.08)
    assert not _farthest(1.6)


# ---------------------------------------------------------------------- cells, scales, lines


@pytest.mark.parametrize("width", [2.5, 3.0, "column", "page", None])
def test_titles_keep_a_bound_with_its_word(result: MadeUpResult, width: str | float | None) -> None:
    *blocks, scale = result.figure("heads-beyond", width=width).axes
    for axes in blocks:
        assert re.search(r"beyond [\d.]+$", axes.get_title(loc="left"))
    assert scale.get_xlabel().replace("\n", " ") == "% of the layer's heads beyond the bound"
    assert ("\n" in scale.get_xlabel()) == (width in (2.5, 3.0))  # never wider than the scale


@pytest.mark.parametrize("width", ["column", "page", None])
def test_rows_of_heads_beyond_have_one_height_and_one_scale(width: str | None) -> None:
    figure = made_up(readings=("dot", "cosine"), layers=12).figure("heads-beyond", width=width)
    *blocks, scale = figure.axes
    heights = [axes.get_position().height / len(axes.get_yticklabels()) for axes in blocks]
    assert heights == pytest.approx([heights[0]] * len(blocks))
    assert (scale.get_position().x0, scale.get_position().x1) == pytest.approx(
        (blocks[0].get_position().x0, blocks[0].get_position().x1)
    )
    for axes in blocks:
        rows = len(axes.get_yticklabels())
        known = int(np.isfinite(np.ma.filled(axes.images[0].get_array(), math.nan)).sum())
        assert len(axes.texts) == known  # numbers have room in a column, too
        across, down = (len(each.get_segments()) for each in axes.collections)
        assert (across, down) == (13, rows + 1)


def test_stability_names_its_sizes_and_its_key_is_none_of_them(result: MadeUpResult) -> None:
    figure = result.figure("stability")
    sizes = sorted(set(result.stability()["texts"]))
    (bar,) = (axes for axes in figure.axes if axes.get_label() == "<colorbar>")
    assert [label.get_text() for label in bar.get_yticklabels()] == [f"{size:g}" for size in sizes]
    (key,) = (key for label, key in keys(figure).items() if label.startswith("median"))
    assert key.get_markerfacecolor() == "none"


@pytest.mark.parametrize(("layers", "marked"), [(12, ["layer 0", "layer 5", "layer 11"]), (1, ["layer 0"])])
def test_some_lines_of_thresholds_are_named(layers: int, marked: list[str]) -> None:
    figure = made_up(layers=layers).figure("threshold-choice", width="column")
    drawn = keys(figure)
    assert [label for label in drawn if label.startswith("layer")] == marked
    assert len({drawn[label].get_marker() for label in marked}) == len(marked)
    thick = [line for line in figure.axes[0].lines if line.get_marker() not in ("None", "")]
    assert [line.get_color() for line in thick] == [drawn[label].get_color() for label in marked]


# ---------------------------------------------------------------------- one head


def test_letters_of_one_head_can_be_read_on_a_page(embedded: Any) -> None:
    for text in (TEXT, headscope.passages("news")[3]["text"]):
        figure = embedded.inspect(text).plot_head(8, 0)
        shrunk = min(1.0, PAGE / figure.get_figwidth())
        figure.draw_without_rendering()
        for written in figure.findobj(matplotlib.text.Text):
            if written.get_text().strip() and written.get_visible():
                assert written.get_fontsize() * shrunk >= SMALLEST


@pytest.mark.parametrize("width", ["column", "page", None])
def test_the_scale_of_the_bars_keeps_off_the_tokens(embedded: Any, width: str | None) -> None:
    figure = embedded.inspect(headscope.passages("news")[3]["text"]).plot_head(8, 0, width=width)
    figure.draw_without_rendering()
    attention = figure.axes[0]
    zero, _ = attention.child_axes[0].get_yticklabels()
    first = attention.get_yticklabels()[0]
    assert (zero.get_text(), first.get_text()) == ("0", "[CLS]")
    assert not zero.get_window_extent().overlaps(first.get_window_extent())


def test_tokens_of_two_rules_have_two_colours(embedded: Any) -> None:
    seen = embedded.inspect(TEXT)
    figure = seen.plot_head(8, 0)
    attention, similarity = figure.axes
    received = seen.received(8, 0).values > 0.3
    assert [to_rgba(RECEIVES) == bar.get_facecolor() for bar in attention.child_axes[0].patches] == received.tolist()
    inks = {label.get_color() for label in attention.get_xticklabels()} - {"black"}
    assert inks == {RECEIVES}
    inks = {label.get_color() for label in similarity.get_xticklabels()} - {"black"}
    assert inks == {MASK} != {RECEIVES}
    text_only = len(seen.attended(8, 0, 0.3, text_only=True))
    assert f"of all tokens, the {received.sum()} that receive" in said(figure)
    assert f"of the tokens that are not special, the {text_only} that receive" in said(figure)


def test_the_tokens_that_are_shown_add_up(embedded: Any) -> None:
    seen = embedded.inspect(TEXT)
    tokens = len(seen.window)
    assert f"tokens 1 to {tokens - 2} of {tokens - 2} and 2 special" in said(seen.plot_head(8, 0))


def test_a_title_can_be_left_out_everywhere(embedded: Any, result: MadeUpResult) -> None:
    for figure in (
        embedded.inspect(TEXT).plot_head(8, 0, title=False),
        *(result.figure(name, title=False) for name in ("findings", "heads-beyond", "specialists", "stability")),
    ):
        assert figure.heading
        assert figure.heading not in [text.replace("\n", " ") for text in words(figure)]
