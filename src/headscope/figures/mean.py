"""The mean matrix of a layer: where in a text similarity lies, whatever the text says."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.colors import Normalize

from headscope.errors import HeadscopeError
from headscope.figures.cells import cells
from headscope.figures.fonts import in_style, points
from headscope.figures.parts import run_caption, shown_layers
from headscope.figures.style import SIMILARITY, Picture, dressed, finish, panel_columns, picture
from headscope.look import SCREEN, Look

if TYPE_CHECKING:
    from headscope.result.result import Result

STEPS = 64  # of colour: there are many cells
SEEN = 0.05  # of the texts must be long enough to have a pair there


@in_style
def mean_matrices(result: Result, *, look: Look = SCREEN) -> Picture:
    """Mean S of an early, a middle and the last layer, over all its heads, each on its own scale."""
    layers = shown_layers([int(layer) for layer in result.dataset["layer"].values])
    matrix = result.mean_matrix()
    seen = result.dataset["position_pairs"].values >= SEEN * max(int(result.dataset["texts"]), 1)
    if not seen.any():
        raise HeadscopeError("no place in the window is reached by enough texts", "the texts have no pairs of tokens")
    size = int(np.flatnonzero(seen.any(0)).max()) + 1
    figure = picture(look, 3.3 * len(layers) + 0.8, 1.0, "Mean context similarity by place in the text")
    columns = panel_columns(figure, len(layers), 2.2)
    rows = -(-len(layers) // columns)
    wide = figure.get_figwidth() / columns
    figure.body = rows * (wide - 0.1) + (rows > 1) * 4 * points("small") / 72
    grid: Any = figure.subplots(rows, columns, squeeze=False)
    for axes in grid.flat[len(layers) :]:
        axes.set_visible(False)
    least = 0.0
    for axes, layer in zip(grid.flat, layers, strict=False):
        values = np.where(seen, matrix.sel(layer=layer).mean("head").values, np.nan)[:size, :size]
        limit = float(np.nanmax(np.abs(values))) or 1.0
        both = np.where(np.isnan(values), values.T, values) / limit
        image = cells(axes, both, cmap=SIMILARITY.resampled(STEPS), norm=Normalize(-1, 1))
        least = min(least, float(np.nanmin(both)))
        axes.set_title(f"layer {layer} (largest {limit:.3g})")
        axes.set(xlabel="place in the window (tokens)", ylabel="place in the window (tokens)")
        axes.locator_params(nbins=max(2, int(wide / (4.5 * points("small") / 72))), integer=True)
    shown = list(grid.flat)[: len(layers)]
    # Beside one row it is as high as that; beside one of several it would seem to belong to that one, and stands below.
    where: Any = {"location": "right", "aspect": 25} if rows == 1 else {"location": "bottom", "aspect": 30}
    bar = dressed(figure.colorbar(image, ax=shown, pad=0.01, fraction=0.04, **where), "mean S over its largest")
    (bar.ax.set_ylim if rows == 1 else bar.ax.set_xlim)(least, 1)
    return finish(
        figure, run_caption(result), "Mean over texts and heads; white on the diagonal and where few texts reach.",
        panels=shown, names=[f"layer {layer}" for layer in layers],
    )  # fmt: skip
