"""Every head of every layer at a glance."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from matplotlib.colors import Normalize

from headscope.figures.cells import cells
from headscope.figures.fonts import in_style, points, text_width
from headscope.figures.style import SIMILARITY, Picture, dressed, finish, place, placed_picture, whole_numbers
from headscope.look import SCREEN, Look

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from headscope.inspection.inspection import Inspection

TITLE = "Context similarity of every head"
FINEST = 32  # cells a side for one head: finer detail cannot be seen at this size, and makes files of many megabytes
FINEST_PRINTED = 0.01  # inches: cells smaller than this cannot be seen in print
GAP = 0.06  # of a tile's side
STEPS = 32  # of colour


@in_style
def grid_figure(inspection: Inspection, *, look: Look = SCREEN, ax: Axes | None = None) -> Picture | Axes:
    """S of every head, each on its own scale (its largest pair), as one mosaic: a row per layer."""
    layers, heads = inspection.captured.layers, inspection.captured.heads
    line, small = points("medium") / 72, points("small") / 72
    left = 1.7 * line + text_width(str(max(layers)), points("small")) + 0.08
    below, bar = 1.7 * line + small + 0.1, 0.05 + 0.09 + 3.2 * small + 1.6 * line
    figure: Picture | None = None
    if ax is not None:
        width = _side_of(ax)
    else:
        inch = float(np.clip(16 / max(len(layers), heads), 0.35, 1.1))
        page = look.inches(max(heads * inch, 2.4) + left + bar)
        width = page - left - bar
        figure = placed_picture(look, page, width * len(layers) / heads + below + 0.03, TITLE)
    tile = width / heads  # inches
    finest = int(np.clip(tile * (1 - GAP) / FINEST_PRINTED, 8, FINEST))
    mosaic, size, step = _mosaic(inspection, finest)
    axes: Any = ax if figure is None else place(figure, left, below, width, width * len(layers) / heads)
    image = cells(axes, mosaic, cmap=SIMILARITY.resampled(STEPS), norm=Normalize(-1, 1))
    centre = (size - 1) / 2
    for axis, numbers in ((axes.xaxis, range(heads)), (axes.yaxis, layers)):
        most = int(width / heads * len(numbers) / (2.2 * small))
        whole_numbers(axis, list(numbers), most)
        axis.set_ticks(np.asarray(axis.get_ticklocs()) * step + centre, [t.get_text() for t in axis.get_ticklabels()])
    axes.set(xlabel="head", ylabel="layer")
    axes.tick_params(length=0)
    for spine in axes.spines.values():
        spine.set_visible(False)
    half = min(0.5, 0.9 * heads / (width * len(layers)))  # a scale of at most 1.8 inches
    beside = axes.inset_axes((1 + 0.05 / width, 0.5 - half, 0.09 / width, 2 * half))
    scale = dressed(axes.figure.colorbar(image, cax=beside), "S over the head's largest pair")
    scale.ax.set_ylim(max(-1.0, float(np.nanmin(mosaic))), 1)
    if figure is None:
        if look.title:
            axes.set_title(TITLE)
        given: Axes = axes
        return given
    left_out = "" if inspection.choices.special else "; special tokens left out"
    pooled = int(inspection.counting.sum()) > finest
    return finish(
        figure,
        f"{inspection.model}, {inspection.stack}, {inspection.shown}, read by {inspection.reading}{left_out}",
        "A cell shows the most similar of the neighbouring pairs it stands for." if pooled else "",
        panels=[axes],
    )


def _side_of(axes: Axes) -> float:
    figure: Any = axes.figure
    return float(axes.get_window_extent().width / figure.dpi)


def _mosaic(inspection: Inspection, finest: int) -> tuple[np.ndarray[Any, np.dtype[np.float32]], int, int]:
    """All tiles with gaps between them, the size of a tile, and from one tile to the next."""
    layers, heads = inspection.captured.layers, inspection.captured.heads
    tiles = [_tiles(inspection, k, finest) for k in range(len(layers))]  # L × (H, n, n)
    size = tiles[0].shape[-1]
    step = size + max(1, round(GAP * size))
    mosaic = np.full((len(layers) * step - (step - size), heads * step - (step - size)), np.nan, dtype=np.float32)
    for row, layer in enumerate(tiles):
        for column, tile in enumerate(layer):
            mosaic[row * step : row * step + size, column * step : column * step + size] = tile
    return mosaic, size, step


def _tiles(inspection: Inspection, k: int, finest: int) -> np.ndarray[Any, np.dtype[np.float32]]:
    """One layer's matrices over the tokens that count, scaled by each head's largest pair: (H, n, n)."""
    own = inspection.counting.nonzero()[:, 0]
    heads = range(inspection.captured.heads)
    matrix = torch.stack([inspection.matrix(k, h)[own[:, None], own] for h in heads])  # (H, N, N)
    if not matrix.shape[-1]:
        return np.zeros((len(matrix), 1, 1), dtype=np.float32)
    largest = matrix.amax((-1, -2), keepdim=True)
    scaled = matrix / torch.where(largest > 0, largest, matrix.abs().amax((-1, -2), keepdim=True).clamp_min(1e-30))
    if scaled.shape[-1] > finest:
        # A cell shows the most similar of the pairs it stands for: a mean would wash single pairs out.
        scaled = torch.nn.functional.adaptive_max_pool2d(scaled, finest)
    return scaled.numpy()
