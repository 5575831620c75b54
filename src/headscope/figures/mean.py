"""The mean matrix of a layer: where in a text similarity lies, whatever the text says."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from headscope.errors import HeadscopeError
from headscope.figures.parts import run_caption, shown_layers
from headscope.figures.style import SIMILARITY, Picture, caption, picture, scale_bar

if TYPE_CHECKING:
    from headscope.result.result import Result

SEEN = 0.05  # of the texts must be long enough to have a pair there


def mean_matrices(result: Result) -> Picture:
    """Mean S of an early, a middle and the last layer, over all its heads, each on its own scale."""
    layers = shown_layers([int(layer) for layer in result.dataset["layer"].values])
    matrix = result.mean_matrix()
    seen = result.dataset["position_pairs"].values >= SEEN * max(int(result.dataset["texts"]), 1)
    if not seen.any():
        raise HeadscopeError("no place in the window is reached by enough texts", "the texts have no pairs of tokens")
    size = int(np.flatnonzero(seen.any(0)).max()) + 1
    figure = picture(3.3 * len(layers) + 0.8, 4.3, "Mean context similarity by place in the text")
    row: Any = figure.subplots(1, len(layers), squeeze=False)[0]
    for axes, layer in zip(row, layers, strict=True):
        values = np.where(seen, matrix.sel(layer=layer).mean("head").values, np.nan)[:size, :size]
        limit = float(np.nanmax(np.abs(values))) or 1.0
        both = np.where(np.isnan(values), values.T, values) / limit
        image = axes.imshow(both, cmap=SIMILARITY, vmin=-1, vmax=1, interpolation="nearest")
        axes.set_title(f"layer {layer} (largest {limit:.3g})", fontsize=10)
        axes.tick_params(labelsize=8)
        axes.set_xlabel("place in the window", fontsize=9)
    row[0].set_ylabel("place in the window", fontsize=9)
    scale_bar(figure, image, row, "mean S over its largest")
    caption(figure, run_caption(result), "Mean over texts and heads; white on the diagonal and where few texts reach.")
    return figure
