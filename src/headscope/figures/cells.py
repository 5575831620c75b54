"""Matrices as vectors: in SVG and PDF every cell is a rectangle, in PNG a block of pixels.

Neighbouring cells of one colour are one rectangle, all rectangles of a colour and a height are one path, and each is a
stroke as thick as the rectangle is high, which has half the corners: all of that keeps files small.
Viewers blend the edges of neighbouring shapes with what lies behind them, which shows as hairlines between cells. So
each cell reaches half a cell under those of its neighbours that are painted after it: every edge that is seen lies on
colour, and none moves.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.backends.backend_mixed import MixedModeRenderer
from matplotlib.colors import to_rgba
from matplotlib.image import AxesImage
from matplotlib.path import Path
from matplotlib.transforms import IdentityTransform
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]
_AS_IT_IS = IdentityTransform()
BACKGROUND = -1  # the colour of a cell that is not painted: that of the axes


def cells(axes: Any, values: Any, *, cmap: Any, norm: Any, aspect: Any = "equal") -> Cells:
    """Draw a matrix, its first row at the top, as `imshow` does; cells without a number are left empty."""
    image = Cells(axes, cmap=cmap, norm=norm, interpolation="nearest", origin="upper")
    image.set_data(np.ma.masked_invalid(values))
    image.set_clip_path(axes.patch)
    axes.set_aspect(aspect)
    rows, columns = np.shape(values)
    image.set_extent((-0.5, columns - 0.5, rows - 0.5, -0.5))
    axes.add_image(image)
    return image


class Cells(AxesImage):
    """An image that is drawn as rectangles where the file holds vectors."""

    def draw(self, renderer: Any) -> None:
        """Rectangles into SVG and PDF, pixels into PNG and onto a screen."""
        if not isinstance(renderer, MixedModeRenderer):
            super().draw(renderer)
            return
        if not self.get_visible():
            return
        indices, colours = self._painted()
        to_page = self.get_transform()
        context = renderer.new_gc()
        context.set_clip_rectangle(self.axes.bbox)
        context.set_capstyle("butt")
        renderer.open_group("cells", self.get_gid())
        for index, found in rectangles(indices):
            # Corners are in half cells from the upper left; a hundredth of a point is finer than any printer.
            corners = np.round(to_page.transform(found.reshape(-1, 2) / 2 - 0.5).reshape(-1, 4), 2)
            heights = np.round(np.abs(corners[:, 1] - corners[:, 3]), 2)
            context.set_foreground(colours[index], isRGBA=True)
            for height in np.unique(heights):
                context.set_linewidth(height)
                renderer.draw_path(context, _strokes(corners[heights == height]), _AS_IT_IS)
        renderer.close_group("cells")
        context.restore()
        self.stale = False

    def _painted(self) -> tuple[Ints, Any]:
        """For each cell the number of its colour, and the colours; those that the axes have already are not painted."""
        array: Any = self.get_array()
        shown = self.to_rgba(array, bytes=True).reshape(-1, 4)
        colours, indices = np.unique(shown, axis=0, return_inverse=True)
        behind = np.round(255 * np.array(to_rgba(self.axes.get_facecolor()))).astype(int)
        plain = not self.axes.patch.get_hatch()
        unseen = ((colours == behind).all(1) & plain) | (colours[:, 3] == 0)
        indices = np.where(unseen[indices.reshape(-1)], BACKGROUND, indices.reshape(-1))
        return indices.reshape(array.shape[:2]), colours / 255


def rectangles(indices: Ints) -> list[tuple[int, Ints]]:
    """Rectangles that paint a matrix of numbers, number by number in ascending order: (number, from and to (R, 2, 2)).

    Corners are counted in half cells. -1 is not painted, and nothing reaches over what is painted before it.

    >>> [(k, len(corners)) for k, corners in rectangles(np.array([[0, 0, 1], [0, 0, 1]]))]
    [(0, 1), (1, 1)]
    >>> rectangles(np.array([[0, 1]]))[0][1][0].tolist()  # the first reaches half a cell under the second
    [[0, 0], [3, 2]]
    """
    order = np.argsort(indices, axis=None, kind="stable")
    numbers, first = np.unique(indices.reshape(-1)[order], return_index=True)
    found = []
    for number, places in zip(numbers, np.split(order, first[1:]), strict=True):
        if number == BACKGROUND:
            continue
        # Only the part of the matrix that holds the number, and what borders on it, is looked at.
        ys, xs = np.unravel_index(places, indices.shape)
        top, left = max(ys.min() - 1, 0), max(xs.min() - 1, 0)
        part = indices[top : ys.max() + 2, left : xs.max() + 2]
        found.append((int(number), _covering(part == number, part >= number) + 2 * np.array([left, top])))
    return found


def _covering(mask: Mask, allowed: Mask) -> Ints:
    """Rectangles that cover the cells of a mask and reach half a cell into neighbours that are allowed: (R, 2, 2).

    Those that touch overlap, so that no line shows between them either.
    """
    ys, begins, ends = _runs(mask)
    ready = np.pad(allowed, ((0, 0), (1, 1)))
    left, right = 2 * begins - ready[ys, begins], 2 * ends + ready[ys, ends + 1]
    # Runs along rows; equal ones of rows below each other are one.
    order = np.lexsort((ys, right, left))
    y, x0, x1 = ys[order], left[order], right[order]
    fresh = np.ones(len(y), dtype=bool)
    fresh[1:] = (np.diff(y) != 1) | (np.diff(x0) != 0) | (np.diff(x1) != 0)
    start = np.flatnonzero(fresh)
    last = np.append(start[1:], len(y)) - 1
    along = np.stack([x0[start], 2 * y[start], x1[start], 2 * y[last] + 2], 1)
    # Bridges from the middle of one row to the middle of the next, wherever these are not one rectangle already.
    named = np.full(mask.shape, -1)
    named[mask] = np.repeat(left * (2 * mask.shape[1] + 2) + right, ends - begins)
    open_ = (mask[:-1] & allowed[1:]) | (mask[1:] & allowed[:-1])
    ys, begins, ends = _runs(open_ & ~(mask[:-1] & (named[:-1] == named[1:])))
    across = np.stack([2 * begins, 2 * ys + 1, 2 * ends, 2 * ys + 3], 1)
    return np.concatenate([along, across]).reshape(-1, 2, 2)


def _runs(mask: Mask) -> tuple[Ints, Ints, Ints]:
    """Runs along the rows of a mask, row by row: row, first, one after the last."""
    edges = np.diff(np.pad(mask, ((0, 0), (1, 1))).astype(np.int8), axis=1)
    rows, begins = np.nonzero(edges == 1)
    return rows, begins, np.nonzero(edges == -1)[1]


def _strokes(corners: NDArray[np.float64]) -> Path:
    """One path with a level stroke through the middle of each rectangle: (x0, y0, x1, y1) each."""
    middle = np.round((corners[:, 1] + corners[:, 3]) / 2, 2)
    ends = np.stack([corners[:, 0], middle, corners[:, 2], middle], 1)
    path = Path(ends.reshape(-1, 2), np.tile([Path.MOVETO, Path.LINETO], len(corners)))
    path.should_simplify = False
    return path
