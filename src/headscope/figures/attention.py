"""S against attention: which of the two tells pairs of one sentence, and repetitions, from unrelated pairs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from headscope.errors import counted
from headscope.figures.colours import WAYS
from headscope.figures.parts import (
    base_line,
    layer_axis,
    legend_row,
    over_layers,
    run_caption,
    shade_thirds,
    sorted_controls,
    way_handles,
)
from headscope.figures.style import Picture, caption, picture, plain_axes

if TYPE_CHECKING:
    from headscope.result.result import Result

PANELS = {"sentence": "Pairs of one sentence", "repeated": "Repetitions"}
MUTED = 0.35  # how much of its colour a line of a control run keeps


def against_attention_figure(result: Result, controls: Sequence[Result] = ()) -> Picture:
    """AUC by layer: S in each reading and both attention maps, with control runs in muted colours."""
    table = result.against_attention(controls=controls)
    ways, layers = [str(way) for way in table["way"].values], table["layer"].values
    runs = [(kind, run) for kind, run in sorted_controls(result, controls) if kind == "permuted"]
    figure = picture(10.4, 5.4, "Similarity of outputs against attention")
    grid = figure.add_gridspec(2, 2, height_ratios=[0.16, 1])
    panels: list[Any] = []
    for column, (contrast, title) in enumerate(PANELS.items()):
        axes = figure.add_subplot(grid[1, column], sharey=panels[0] if panels else None)
        panels.append(axes)
        shade_thirds(axes, result.blocks)
        base_line(axes, 0.5)
        for way in ways:
            style, own = WAYS[way].style(), table.sel(contrast=contrast, way=way)
            if "controls" in table:
                for values in own["controls"].values[table["kind"].values == "permuted"]:
                    axes.plot(layers, values, **style | {"alpha": MUTED, "marker": "", "linewidth": 0.9}, zorder=1.5)
            over_layers(axes, own, style)
        layer_axis(axes, list(layers))
        axes.set_title(title, fontsize=10)
        axes.set_xlabel("layer")
        plain_axes(axes)
    panels[0].set_ylabel("chance that such a pair lies above an\nunrelated one (AUC; ½: no difference)")
    panels[1].tick_params(labelleft=False)
    legend_row(figure.add_subplot(grid[0, :]), way_handles(ways))
    permuted = f" Faint lines: the same with permuted weights ({counted(len(runs), 'run')})." if runs else ""
    caption(
        figure,
        run_caption(result),
        f"The median over a layer's heads; bands: intervals, {table.attrs['interval']}. Pairs are compared within a "
        f"text, at equal distance. Dashed: ½.{permuted}",
        panels=list(PANELS.values()),
    )
    return figure
