"""S against attention: which of the two tells pairs of one sentence, and repetitions, from unrelated pairs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from matplotlib.lines import Line2D

from headscope.errors import counted
from headscope.figures.colours import WAYS
from headscope.figures.fonts import in_style
from headscope.figures.parts import (
    band_handle,
    base_line,
    layer_axis,
    none_handle,
    over_layers,
    run_caption,
    shade_thirds,
    sorted_controls,
    thirds_handle,
    way_handles,
)
from headscope.figures.style import Picture, finish, panel_columns, picture, plain_axes
from headscope.look import SCREEN, Look

if TYPE_CHECKING:
    from headscope.result.result import Result

PANELS = {"sentence": "Pairs of one sentence", "repeated": "Repetitions"}
MUTED = 0.35  # how much of its colour a line of a control run keeps


@in_style
def against_attention_figure(result: Result, controls: Sequence[Result] = (), *, look: Look = SCREEN) -> Picture:
    """AUC by layer: S in each reading and both attention maps, with control runs in muted colours."""
    table = result.against_attention(controls=controls)
    ways, layers = [str(way) for way in table["way"].values], table["layer"].values
    runs = [(kind, run) for kind, run in sorted_controls(result, controls) if kind == "permuted"]
    figure = picture(look, 10.4, 1.0, "Similarity of outputs against attention")
    columns = panel_columns(figure, 2, 3.0)
    high = min(3.9, 0.85 * figure.get_figwidth() / columns)
    figure.body = high * 2 / columns
    grid: Any = figure.subplots(2 // columns, columns, squeeze=False, sharex=True, sharey=True)
    for place, (contrast, title) in enumerate(PANELS.items()):
        axes = grid.flat[place]
        shade_thirds(axes, result.blocks)
        base_line(axes, 0.5)
        for way in ways:
            style, own = WAYS[way].style(), table.sel(contrast=contrast, way=way)
            if "controls" in table:
                for values in own["controls"].values[table["kind"].values == "permuted"]:
                    axes.plot(layers, values, **style | {"alpha": MUTED, "marker": "", "linewidth": 0.9}, zorder=1.5)
            over_layers(axes, own, style)
        layer_axis(axes, list(layers))
        axes.set_title(title)
        plain_axes(axes)
    for axes in grid[-1]:
        axes.set_xlabel("layer")
    for axes in grid[:, 0]:
        axes.set_ylabel("chance that such a pair lies above\nan unrelated one (AUC)")
    faint = Line2D([], [], color="#000000", alpha=MUTED, linewidth=0.9, label="faint: the same with permuted weights")
    handles = [*way_handles(ways), none_handle("½: no difference"), band_handle("interval"), thirds_handle()]
    permuted = f" Faint lines: the same with permuted weights ({counted(len(runs), 'run')})." if runs else ""
    return finish(
        figure,
        run_caption(result),
        f"The median over a layer's heads; bands: intervals, {table.attrs['interval']}. Pairs are compared within a "
        f"text, at equal distance. Dashed: ½.{permuted}",
        panels=list(grid.flat), handles=[*handles, *([faint] if runs else [])], names=list(PANELS.values()),
    )  # fmt: skip
