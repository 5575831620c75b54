"""Which heads cut texts: the weights of all heads of a model, for topics and for sentences."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.colors import Normalize

from headscope.figures.atlas import ONE_SIDE
from headscope.figures.cells import cells
from headscope.figures.fonts import in_style, points
from headscope.figures.style import Picture, colour_bar, finish, panel_columns, panel_title, picture, whole_numbers
from headscope.look import SCREEN, Look

if TYPE_CHECKING:
    from headscope.segmentation.head_weights import HeadWeights


@in_style
def segment_heads_figure(weights: HeadWeights, *, look: Look = SCREEN) -> Picture:
    """A layer × head grid for each grain; dark is much."""
    shape = weights.model["stacks"][weights.stack]
    layers, heads = int(shape["layers"]), int(shape["heads"])
    topics, sentences = weights.topics, weights.sentences
    panels = {
        "topics": (topics.heads, topics.weights),
        "sentences without punctuation": (sentences.heads, sentences.moves),
    }
    figure = picture(look, 8.2, 1.0, "Heads that cut texts")
    columns = panel_columns(figure, 2, 2.0)
    wide = figure.get_figwidth() / columns
    high = float(np.clip((wide - 0.9) * layers / heads, 0.9, 5))
    figure.body = (high + 0.6) * (2 // columns)
    grid: Any = figure.subplots(2 // columns, columns, squeeze=False)
    for axes, (title, (chosen, values)) in zip(grid.flat, panels.items(), strict=True):
        table = np.zeros((layers, heads))
        for (layer, head), value in zip(chosen, values, strict=True):
            table[layer, head] = value
        share = 100 * table / table.sum()
        image = cells(axes, share, cmap=ONE_SIDE, norm=Normalize(0, float(share.max())), aspect="auto")
        panel_title(axes, title, wide - 0.4)
        whole_numbers(axes.yaxis, range(layers), int(high / (1.5 * points("small") / 72)))
        whole_numbers(axes.xaxis, range(heads), int((wide - 0.9) / (2.4 * points("small") / 72)))
        axes.set(xlabel="head", ylabel="layer")
        axes.tick_params(length=0)
        colour_bar(axes, image, "% of all heads together")
    return finish(
        figure,
        f"{weights.model['name']}, {weights.stack}, learned from {weights.recipe.get('passages', '?')} passages",
        "Per cent of all heads together: of weights, and for sentences of how much a head moves the odds.",
        panels=list(grid.flat), names=list(panels),
    )  # fmt: skip
