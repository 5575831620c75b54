"""Figures show what the arrays hold, in every format, for any token."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headscope import HeadscopeError
from long import first_of

TEXT = 'The cat saw the dog. "A $5 dog & a <b>cat</b>!" 你好 $x^2$ מרחב'


@pytest.fixture(scope="module")
def seen(embedded: Any) -> Any:
    return embedded.inspect(TEXT)


def test_the_similarity_figure_shows_the_matrix_tokens_sentences_and_mask(seen: Any) -> None:
    figure = seen.plot_similarity(11, 3)
    axes = figure.axes[0]
    shown = axes.images[0].get_array()
    np.testing.assert_array_equal(shown, seen.similarity.sel(layer=11, head=3).values)
    assert (np.diag(shown) == 0).all()
    labels = [label.get_text() for label in axes.get_xticklabels()]
    assert labels == [label.get_text() for label in axes.get_yticklabels()] == list(seen.window.labels)
    high = seen.attended(11, 3, 0.3, text_only=True).index
    above, beside = (strip for strip in axes.child_axes if not strip.get_xticks().size and strip.patches)
    assert [patch.get_x() + 0.5 for patch in above.patches] == list(high)
    assert [patch.get_y() + 0.5 for patch in beside.patches] == list(high)
    boundaries = len(set(seen.tokens.sentence)) - 2  # special tokens are in none
    assert len(axes.lines) == 2 * boundaries  # nothing else lies over the cells
    assert "headscope/bert12" in figure.caption


def test_the_attention_figure_shows_weights_and_what_is_received(seen: Any) -> None:
    figure = seen.plot_attention(2, 5, theta=0.4)
    np.testing.assert_array_equal(figure.axes[0].images[0].get_array(), seen.attention.sel(layer=2, head=5).values)
    bars = figure.axes[0].child_axes[0].patches
    np.testing.assert_allclose([bar.get_height() for bar in bars], seen.received(2, 5).values)


def test_the_grid_has_a_tile_for_every_head(seen: Any) -> None:
    figure = seen.plot_grid()
    mosaic = np.asarray(figure.axes[0].images[0].get_array())
    counting = seen.counting.numpy()
    size = int(counting.sum())
    step = size + max(1, round(0.06 * size))
    assert mosaic.shape == (12 * step - (step - size),) * 2
    tile = mosaic[11 * step : 11 * step + size, 3 * step : 3 * step + size]
    matrix = seen.similarity.sel(layer=11, head=3).values[np.ix_(counting, counting)]
    np.testing.assert_allclose(tile, matrix / matrix.max(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kind", first_of(["svg", "pdf", "png"]))
@pytest.mark.filterwarnings("error")
def test_every_figure_can_be_written_in_every_format(seen: Any, tmp_path: Path, kind: str) -> None:
    for name, figure in [("s", seen.plot_similarity(0, 0)), ("a", seen.plot_attention(0, 0)), ("g", seen.plot_grid())]:
        file = figure.save(tmp_path / f"{name}.{kind}")
        assert file.stat().st_size > 5000


def test_tokens_stay_text_in_svg(seen: Any, tmp_path: Path) -> None:
    """Dollar signs are no formulas, markup is escaped, every script is there to be searched."""
    file = seen.plot_similarity(0, 0).save(tmp_path / "s.svg")
    texts = {"".join(element.itertext()).strip() for element in ET.parse(file).iter() if element.tag.endswith("}text")}
    assert {"$", "[UNK]:<", "b", "[UNK]:你", "&"} <= texts


def test_a_figure_shows_itself_in_a_notebook(seen: Any) -> None:
    assert seen.plot_similarity(0, 0)._repr_png_().startswith(b"\x89PNG")


def test_other_formats_and_places_are_refused(seen: Any, tmp_path: Path) -> None:
    figure = seen.plot_similarity(0, 0)
    with pytest.raises(HeadscopeError, match="not a figure format"):
        figure.save(tmp_path / "x.bmp")
    with pytest.raises(HeadscopeError, match="cannot be written"):
        figure.save("/dev/null/x.png")
    with pytest.raises(HeadscopeError, match="no layer 99"):
        seen.plot_similarity(99, 0)


@pytest.mark.parametrize("stack", ["encoder", "decoder", "cross"])
def test_every_stack_can_be_drawn(tiny: Callable[[str], Any], tmp_path: Path, stack: str) -> None:
    seen = tiny("t5").inspect("The cat saw the dog. It ran.", stack=stack)
    seen.plot_similarity(1, 2).save(tmp_path / "s.png")
    seen.plot_attention(1, 2).save(tmp_path / "a.png")
    seen.plot_grid().save(tmp_path / "g.png")
    assert len(list(tmp_path.iterdir())) == 3


def test_the_shortest_text_can_be_drawn(embedded: Any, tmp_path: Path) -> None:
    seen = embedded.inspect("Hi")
    for name, figure in [("s", seen.plot_similarity(0, 0)), ("a", seen.plot_attention(0, 0)), ("g", seen.plot_grid())]:
        assert figure.save(tmp_path / f"{name}.png").exists()
