"""How figures look is asked for in the same words everywhere: what is asked for is measured, not compared by pixels."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import pytest
from matplotlib.figure import Figure

import headscope
from headscope import HeadscopeError
from headscope.figures.atlas import _panel
from headscope.figures.catalog import FIGURES
from headscope.figures.cells import rectangles
from headscope.figures.style import Picture
from headscope.look import Look
from headscope.measures.quantities import named
from long import first_of
from results import MadeUpResult, control_of, made_up

TEXT = "The ferryman knew the river. The river knew the ferryman, and the children feared the river."
READINGS = ("dot", "cosine", "values")
WIDTHS = {"column": 252.0, "page": 518.4}  # points
QUICK = ("findings", "atlas", "distances-of-heads", "threshold-choice", "specialists")
MADE_UP = [name for name in FIGURES if name != "mean-matrices"]  # a made up result has no matrices


@pytest.fixture(scope="module")
def short(embedded: Any) -> Any:
    return embedded.inspect(TEXT)


@pytest.fixture(scope="module")
def long_text(embedded: Any) -> Any:
    return embedded.inspect(headscope.passages("news")[3]["text"])


@pytest.fixture(scope="module")
def result() -> MadeUpResult:
    return made_up(readings=READINGS)


@pytest.fixture(scope="module")
def controls() -> list[MadeUpResult]:
    return [control_of(kind, readings=READINGS) for kind in ("permuted:0", "rotated")]


def drawn(result: MadeUpResult, controls: list[MadeUpResult], name: str, **look: Any) -> Picture:
    options = {"controls": controls} if "controls" in FIGURES[name].takes else {}
    figure: Picture = result.figure(name, **options, **look)
    return figure


def outside(figure: Picture) -> list[str]:
    """What reaches over the edge of a figure: its panels with all around them, title, caption, legend."""
    figure.set_dpi(300)  # letters take the room that they take in print
    figure.draw_without_rendering()
    renderer = figure._get_renderer()  # type: ignore[attr-defined]
    width, height = figure.get_size_inches()
    panels = figure.get_tightbbox(renderer)
    boxes = {"panels": (panels.x0, panels.y0, panels.x1, panels.y1)}
    for artist in (*figure.texts, figure._suptitle, figure._supxlabel, *figure.legends):  # type: ignore[attr-defined]
        if artist is not None:
            box = artist.get_window_extent(renderer)
            name = artist.get_text() if hasattr(artist, "get_text") else "legend"
            boxes[name] = (box.x0 / figure.dpi, box.y0 / figure.dpi, box.x1 / figure.dpi, box.y1 / figure.dpi)
    slack = 0.02  # inches
    return [
        f"{name}: {x0:.2f} {y0:.2f} {x1:.2f} {y1:.2f} of {width:.2f} {height:.2f}"
        for name, (x0, y0, x1, y1) in boxes.items()
        if x0 < -slack or y0 < -slack or x1 > width + slack or y1 > height + slack
    ]


def overlapping(labels: list[Any]) -> list[tuple[str, str]]:
    """Neighbouring labels that touch."""
    shown = [label for label in labels if label.get_text().strip() and label.get_visible()]
    boxes = [label.get_window_extent() for label in shown]
    return [
        (shown[k].get_text(), shown[k + 1].get_text())
        for k in range(len(shown) - 1)
        if boxes[k].x0 < boxes[k + 1].x1 and boxes[k + 1].x0 < boxes[k].x1
        and boxes[k].y0 < boxes[k + 1].y1 and boxes[k + 1].y0 < boxes[k].y1
    ]  # fmt: skip


# ---------------------------------------------------------------------- every figure


def check_axes_are_named(figure: Picture, name: str) -> None:
    """Every panel says what is on its axes, itself or by those that it shares them with."""
    for axes in (each for each in figure.axes if each.get_visible() and each.axison):
        if axes.get_label().startswith("<colorbar"):
            assert axes.get_ylabel() or name == "atlas"  # whose panels say above what is coloured
            continue
        shared = [
            other for other in figure.axes if other.get_visible() and axes.get_shared_x_axes().joined(axes, other)
        ]
        assert axes.get_xlabel() or any(other.get_xlabel() for other in shared)
        rows = [other for other in figure.axes if axes.get_shared_y_axes().joined(axes, other)]
        named_rows = any(label.get_text() for label in axes.get_yticklabels() if not label.get_text().isdigit())
        scaled = len(axes.get_yticks()) > 0  # in a column, claims have none, and stand above
        assert axes.get_ylabel() or any(other.get_ylabel() for other in rows) or named_rows or not scaled


@pytest.mark.parametrize("width", first_of(["column", "page"]))
@pytest.mark.parametrize("name", first_of([*QUICK, *(name for name in MADE_UP if name not in QUICK)], len(QUICK)))
def test_a_figure_is_as_wide_as_asked_and_all_vectors_and_says_what_it_shows(
    result: MadeUpResult, controls: list[MadeUpResult], tmp_path: Path, name: str, width: str
) -> None:
    figure = drawn(result, controls, name, width=width)
    assert outside(figure) == []
    for axes in figure.axes:
        if axes.get_visible() and axes.axison and not axes.get_label().startswith("<colorbar"):
            below, beside = axes.get_xticklabels(), axes.get_yticklabels()
            assert overlapping(list(below)) == []
            assert overlapping(list(beside)) == []
    check_axes_are_named(figure, name)
    root = ET.parse(figure.save(tmp_path / "figure.svg")).getroot()
    assert float(root.get("width", "").removesuffix("pt")) == pytest.approx(WIDTHS[width], abs=1e-3)
    assert not [element for element in root.iter() if element.tag.endswith("}image")]


def test_title_and_caption_can_be_left_out_and_panels_lettered(result: MadeUpResult) -> None:
    whole = result.figure("focal-tokens")
    bare = result.figure("focal-tokens", title=False, caption=False, letters="(c)")
    assert bare.caption == whole.caption
    assert "made/up" in bare.caption
    words = [text.get_text() for text in bare.findobj(matplotlib.text.Text)]
    assert {"(c)", "(d)"} <= set(words)
    assert not any(text.startswith(("Different focal", "made/up")) for text in words)
    assert bare.get_figheight() < whole.get_figheight()


def drawn_words(figure: Any) -> dict[str, Any]:
    """Where each text of a figure stands, in pixels, but those of axes' ticks."""
    figure.draw_without_rendering()
    texts = [text for text in figure.findobj(matplotlib.text.Text) if text.get_text().strip() and text.get_visible()]
    return {text.get_text(): text.get_window_extent() for text in texts}


@pytest.mark.parametrize("name", ["findings", "specialists", "stability"])
def test_a_single_panel_has_a_letter_where_one_is_named(
    result: MadeUpResult, controls: list[MadeUpResult], name: str
) -> None:
    """Among figures that are all lettered it needs none; and it lies over nothing."""
    assert "a" not in drawn_words(drawn(result, controls, name, width="column", letters=True))
    bare = drawn(result, controls, name, width="column", letters="(d)", title=False)
    letter = drawn_words(bare)["(d)"]
    others = {text: box for text, box in drawn_words(bare).items() if text != "(d)"}
    assert [text for text, box in others.items() if letter.overlaps(box)] == []
    assert any(text.startswith("(d) ") for text in drawn_words(drawn(result, controls, name, letters="(d)")))


@pytest.mark.parametrize("width", ["column", "page"])
def test_the_letter_of_a_head_does_not_lie_over_the_title(short: Any, width: str) -> None:
    words = drawn_words(short.plot_head(8, 0, width=width, letters=True))
    title = next(box for text, box in words.items() if text.startswith("What layer 8"))
    assert not title.overlaps(words["a"])
    assert not title.overlaps(words["b"])


def test_font_and_size_are_everywhere(result: MadeUpResult) -> None:
    figure = result.figure("threshold-choice", font="DejaVu Serif", font_size=11)
    figure.draw_without_rendering()
    texts = [text for text in figure.findobj(matplotlib.text.Text) if text.get_text().strip()]
    assert {text.get_fontfamily()[0] for text in texts} == {"DejaVu Serif"}
    assert figure.axes[0].xaxis.label.get_fontsize() == 11
    assert matplotlib.rcParams["font.size"] == matplotlib.rcParamsDefault["font.size"]  # nobody else's figures change
    with pytest.raises(HeadscopeError, match="no font 'Nowhere Sans'"):
        result.figure("threshold-choice", font="Nowhere Sans")


def test_dots_are_those_of_print(result: MadeUpResult, tmp_path: Path) -> None:
    from PIL import Image

    for look, dots in (({"width": "column"}, 300), ({}, 160), ({"width": 4, "dpi": 72}, 72)):
        figure = result.figure("threshold-choice", **look)
        with Image.open(figure.save(tmp_path / "figure.png")) as picture:
            assert picture.size[0] == pytest.approx(figure.get_figwidth() * dots, abs=1)


@pytest.mark.parametrize(
    "wrong", [{"width": "wide"}, {"width": 0.5}, {"font_size": 1}, {"dpi": 3}, {"letters": "first"}]
)
def test_a_look_that_cannot_be_had_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(HeadscopeError, match="To fix it"):
        Look(**wrong)


def test_panels_can_be_picked(result: MadeUpResult) -> None:
    for name in ("trajectory", "atlas"):
        figure = result.figure(name, scores=["separator_focus_stop"], width="column")
        assert len([axes for axes in figure.axes if axes.get_xlabel()]) == 1
        with pytest.raises(HeadscopeError, match="no score 'nothing'"):
            result.figure(name, scores=["nothing"])
    for name in ("findings", "sensitivity"):
        whole, some = result.figure(name), result.figure(name, claims=["9", "1a"])
        assert some.get_figheight() < 0.7 * whole.get_figheight()
        keys = [text.removeprefix("claim ").split()[0].rstrip("*") for text in drawn_words(some)]
        assert [key for key in keys if key in ("1a", "4", "8", "9")] == ["1a", "9"]
        with pytest.raises(HeadscopeError, match="no claim '10'"):
            result.figure(name, claims=["10"])


# ---------------------------------------------------------------------- tokens


@pytest.mark.parametrize(
    ("kind", "width"),
    first_of(
        [("similarity", "column"), ("head", "page"), *((kind, width) for kind in ("similarity", "attention", "head")
                                                       for width in ("page", "column", None))],
        2,
    ),
)  # fmt: skip
def test_labels_of_tokens_do_not_touch(short: Any, long_text: Any, kind: str, width: str | None) -> None:
    for seen in (short, long_text):
        figure = getattr(seen, f"plot_{kind}")(8, 0, width=width)
        assert outside(figure) == []
        for axes in figure.axes:
            for axis in (axes.xaxis, axes.yaxis):
                labels = axis.get_ticklabels()
                assert overlapping(labels) == []
                assert all(label.get_fontsize() >= 6.2 for label in labels)
    if width == "column":
        assert "one token in" in figure.caption  # of the long text not all can be named


def test_attention_and_similarity_of_a_head_stand_token_beside_token(short: Any) -> None:
    for width, beside in (("page", True), ("column", False)):
        figure = short.plot_head(8, 0, width=width)
        figure.draw_without_rendering()
        one, other = (axes.get_window_extent() for axes in figure.axes)
        if beside:
            assert (one.y0, one.y1) == pytest.approx((other.y0, other.y1), abs=0.01)
        else:
            assert (one.x0, one.x1) == pytest.approx((other.x0, other.x1), abs=0.01)
        assert one.width == pytest.approx(other.width, abs=0.01)


def test_a_matrix_is_vectors_of_a_sane_size(short: Any, long_text: Any, tmp_path: Path) -> None:
    for figure, most in (
        (long_text.plot_similarity(8, 0, width="column"), 1.5e6),
        (short.plot_grid(width="column"), 6e6),
    ):
        for kind in ("svg", "pdf"):
            raw = figure.save(tmp_path / f"figure.{kind}").read_bytes()
            assert b"<image" not in raw
            assert b"/Subtype /Image" not in raw
            assert len(raw) < (most if kind == "svg" else most / 3)


def test_cells_cover_what_they_should_and_nothing_painted_before() -> None:
    random = np.random.default_rng(0)
    indices = random.integers(-1, 5, (17, 11))
    painted = np.full((34, 22), -1)
    for number, found in rectangles(indices):
        for (x0, y0), (x1, y1) in found:
            assert (painted[y0:y1, x0:x1] <= number).all()
            under = np.repeat(np.repeat(indices, 2, 0), 2, 1)[y0:y1, x0:x1]
            assert (under >= number).all()  # only what is painted later, or the number itself
            painted[y0:y1, x0:x1] = number
    np.testing.assert_array_equal(painted[::2, ::2], indices)
    np.testing.assert_array_equal(painted[1::2, 1::2], indices)


def test_the_vectors_show_the_matrix(tmp_path: Path) -> None:
    from matplotlib.colors import ListedColormap, Normalize

    from headscope.figures.cells import cells

    values = np.array([[0.0, 1.0, 1.0], [2.0, 0.0, np.nan]])
    figure = Figure(figsize=(3, 2))
    axes = figure.add_axes((0, 0, 1, 1))
    axes.axis("off")
    cells(axes, values, cmap=ListedColormap(["#ffffff", "#ff0000", "#0000ff"]), norm=Normalize(0, 2), aspect="auto")
    file = tmp_path / "cells.svg"
    figure.savefig(file)
    group = next(element for element in ET.parse(file).iter() if element.get("id", "").startswith("cells"))
    strokes = {}
    for path in group:
        style = dict(part.split(": ") for part in path.get("style", "").split("; "))
        strokes[style["stroke"]] = [float(each) for each in re.findall(r"[\d.]+", path.get("d", ""))]
    # In points from the upper left: a cell is 72 wide and 72 high; blue is painted first and reaches under nothing.
    assert strokes == {"#ff0000": [72, 36, 216, 36], "#0000ff": [0, 108, 72, 108]}


# ---------------------------------------------------------------------- axes of somebody else's


def test_given_axes_are_drawn_into_and_nothing_else(short: Any, result: MadeUpResult) -> None:
    for draw in (
        lambda ax: short.plot_similarity(8, 0, ax=ax),
        lambda ax: short.plot_attention(8, 0, ax=ax),
        lambda ax: short.plot_grid(ax=ax),
        lambda ax: result.figure("stability", ax=ax),
        lambda ax: result.figure("specialists", ax=ax, title=False),
    ):
        figure = Figure(figsize=(8, 4), layout="constrained")
        own, other = figure.subplots(1, 2)
        before = len(other.get_children())
        assert draw(own) is own
        assert len(other.get_children()) == before
        assert not other.has_data()
        assert own.has_data() or own.images
        # A scale takes its room from the axes that were given; nothing else is added to the figure.
        assert [
            axes for axes in figure.axes if axes not in (own, other) and not axes.get_label().startswith("<color")
        ] == []
        assert figure.get_suptitle() == ""
        assert not figure.legends
    with pytest.raises(HeadscopeError, match="several panels"):
        result.figure("atlas", ax=own)


# ---------------------------------------------------------------------- scales


@pytest.mark.parametrize(
    ("values", "extend", "shown"),
    [
        ([1.2, 1.4, 1.6, 1.8], "neither", (1.0, 1.8)),  # all above no effect: no scale for what is below
        ([0.9, 1.1, *[1.3] * 60, 40.0], "max", (0.9, None)),  # a head far from all others lies beyond the end
        ([1.1, *[0.8] * 60, 0.01], "min", (None, 1.1)),
    ],
)
def test_scales_show_what_heads_have_and_mark_what_lies_beyond(
    values: list[float], extend: str, shown: tuple[float | None, float | None]
) -> None:
    figure = Figure()
    axes = figure.add_subplot()
    _panel(axes, named("sentence_preference"), np.array([values]))
    bar = axes.images[0].colorbar
    assert bar.extend == extend
    for limit, wanted in zip(bar.ax.get_ylim(), shown, strict=True):
        if wanted is not None:
            assert limit == pytest.approx(wanted)


def test_scores_of_either_sign_have_two_colours(result: MadeUpResult) -> None:
    figure = Figure()
    axes = figure.add_subplot()
    quantity = named("likeness")  # no number stands for no effect
    _panel(axes, quantity, np.array([[-0.2, 0.1, 0.6]]))
    image = axes.images[0]
    below, above = image.to_rgba(-0.2), image.to_rgba(0.2)
    assert below[2] > below[0]
    assert above[0] > above[2]


def test_few_heads_have_whole_numbers_on_their_axis() -> None:
    figure = made_up(heads=4, layers=2).figure("atlas", width="column")
    for axes in (each for each in figure.axes if each.images):
        assert [label.get_text() for label in axes.get_xticklabels()] == ["0", "1", "2", "3"]
        assert [label.get_text() for label in axes.get_yticklabels()] == ["0", "1"]


def test_heads_have_one_scale_of_shares(result: MadeUpResult) -> None:
    assert len({axes.get_ylim() for axes in result.figure("distances-of-heads").axes if axes.get_visible()}) == 1
