"""Which heads cut texts: the weights of all heads of a model, for topics and for sentences."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from headscope.figures.style import Picture, caption, picture

if TYPE_CHECKING:
    from headscope.segmentation.head_weights import HeadWeights


def segment_heads_figure(weights: HeadWeights) -> Picture:
    """A layer × head grid for each grain; dark is much."""
    shape = weights.model["stacks"][weights.stack]
    layers, heads = int(shape["layers"]), int(shape["heads"])
    topics, sentences = weights.topics, weights.sentences
    panels = {
        "topics": (topics.heads, topics.weights),
        "sentences without punctuation": (sentences.heads, sentences.moves),
    }
    figure = picture(8.2, float(np.clip(0.2 * layers + 1.4, 2.4, 7)), "Heads that cut texts")
    grid: Any = figure.subplots(1, 2)
    for axes, (title, (chosen, values)) in zip(grid, panels.items(), strict=True):
        table = np.zeros((layers, heads))
        for (layer, head), value in zip(chosen, values, strict=True):
            table[layer, head] = value
        image = axes.imshow(100 * table / table.sum(), cmap="Purples", vmin=0, aspect="auto", interpolation="nearest")
        axes.set_title(title, fontsize=9)
        axes.set_yticks(range(0, layers, max(1, layers // 6)))
        axes.set_xlabel("head", fontsize=8)
        axes.tick_params(labelsize=7, length=0)
        bar = figure.colorbar(image, ax=axes, fraction=0.05, pad=0.02)
        bar.ax.tick_params(labelsize=7)
    grid[0].set_ylabel("layer", fontsize=9)
    caption(
        figure,
        f"{weights.model['name']}, {weights.stack}, learned from {weights.recipe.get('passages', '?')} passages",
        "Per cent of all heads together: of weights, and for sentences of how much a head moves the odds.",
        panels=list(panels),
    )
    return figure
