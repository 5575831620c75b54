"""Every head of every layer at a glance."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from headscope.figures.style import SIMILARITY, Picture, caption, picture, scale_bar

if TYPE_CHECKING:
    from headscope.inspection.inspection import Inspection

FINEST = 64  # pixels a side for one head: finer detail cannot be seen at this size
GAP = 0.06  # of a tile's side


def grid_figure(inspection: Inspection) -> Picture:
    """S of every head, each on its own scale (its largest pair), as one mosaic: a row per layer."""
    layers, heads = inspection.captured.layers, inspection.captured.heads
    tiles = [_tiles(inspection, k) for k in range(len(layers))]  # L × (H, n, n)
    size = tiles[0].shape[-1]
    step = size + max(1, round(GAP * size))
    mosaic = np.full((len(layers) * step, heads * step), np.nan, dtype=np.float32)
    for row, layer in enumerate(tiles):
        for column, tile in enumerate(layer):
            mosaic[row * step : row * step + size, column * step : column * step + size] = tile
    inch = float(np.clip(16 / max(len(layers), heads), 0.35, 1.1))
    figure = picture(heads * inch + 1.0, len(layers) * inch + 0.9, "Context similarity of every head")
    axes = figure.add_subplot()
    image = axes.imshow(mosaic, cmap=SIMILARITY, vmin=-1, vmax=1, interpolation="none")
    centre = (size - 1) / 2
    axes.set_xticks(np.arange(heads) * step + centre, [str(head) for head in range(heads)])
    axes.set_yticks(np.arange(len(layers)) * step + centre, [str(layer) for layer in layers])
    axes.set(xlabel="head", ylabel="layer")
    axes.tick_params(length=0, labelsize=8)
    for spine in axes.spines.values():
        spine.set_visible(False)
    scale_bar(figure, image, axes, "S over the head's largest pair")
    left_out = "" if inspection.choices.special else "; special tokens left out"
    pooled = int(inspection.counting.sum()) > FINEST
    caption(
        figure,
        f"{inspection.model}, {inspection.stack}, {inspection.shown}, read by {inspection.reading}{left_out}",
        "a pixel shows the most similar of the neighbouring pairs it stands for" if pooled else "",
    )
    return figure


def _tiles(inspection: Inspection, k: int) -> np.ndarray[Any, np.dtype[np.float32]]:
    """One layer's matrices over the tokens that count, scaled by each head's largest pair: (H, n, n)."""
    own = inspection.counting.nonzero()[:, 0]
    heads = range(inspection.captured.heads)
    matrix = torch.stack([inspection.matrix(k, h)[own[:, None], own] for h in heads])  # (H, N, N)
    if not matrix.shape[-1]:
        return np.zeros((len(matrix), 1, 1), dtype=np.float32)
    largest = matrix.amax((-1, -2), keepdim=True)
    scaled = matrix / torch.where(largest > 0, largest, matrix.abs().amax((-1, -2), keepdim=True).clamp_min(1e-30))
    if scaled.shape[-1] > FINEST:
        # A pixel shows the most similar of the pairs it stands for: a mean would wash single pairs out.
        scaled = torch.nn.functional.adaptive_max_pool2d(scaled, FINEST)
    return scaled.numpy()
