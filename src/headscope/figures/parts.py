"""What the figures of a whole result share: the caption of the run, and how lines over layers are drawn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from headscope.figures.style import BASE, THIRD_SHADES
from headscope.findings.resampling import Estimate
from headscope.measures.block_sums import THIRDS, BlockSums
from headscope.windows.text import in_a_line

if TYPE_CHECKING:
    from headscope.result.result import Result


def run_caption(result: Result, tau: float | None = None) -> str:
    """Model, stack, texts and choices, for a caption."""
    settings = result.settings
    parts = [in_a_line(result.model["name"]), result.name, f"{int(result.dataset['texts']):,} texts"]
    if settings.get("windows") == "all":
        parts[-1] = f"{int(result.dataset['texts']):,} windows of {result.texts['texts']:,} texts"
    parts.append(f"{settings['similarity']}, levels by {'rank' if settings['scale'] == 'rank' else 'maximum'}")
    if tau is not None:
        parts.append(f"τ = {tau:g}")
    return ", ".join(parts)


def shade_thirds(axes: Any, sums: BlockSums) -> None:
    """Grey behind the early and the final layers."""
    for name in THIRDS:
        places = sums.third(name)
        if places:
            first, last = sums.layers[places[0]], sums.layers[places[-1]]
            axes.axvspan(first - 0.5, last + 0.5, color=THIRD_SHADES[name], linewidth=0, zorder=0)


def over_layers(axes: Any, sums: BlockSums, estimate: Estimate, style: dict[str, Any], label: str = "") -> None:
    """A line over layers with its interval as a band."""
    layers = np.array(sums.layers)
    axes.fill_between(layers, estimate.low, estimate.high, color=style["color"], alpha=0.22, linewidth=0)
    axes.plot(layers, estimate.value, label=label or None, **style)
    step = max(1, len(layers) // 12)
    axes.set_xticks(layers[::step])
    axes.set_xlim(layers[0] - 0.5, layers[-1] + 0.5)


def base_line(axes: Any, value: float) -> None:
    """Where there would be no effect."""
    if np.isfinite(value):
        axes.axhline(value, color=BASE, linewidth=1.0, linestyle=(0, (4, 2)), zorder=1)


def shown_layers(layers: Sequence[int]) -> list[int]:
    """An early, a middle and the last layer: 1, 6 and 11 of 12, as in the paper.

    >>> shown_layers(range(12)), shown_layers(range(6)), shown_layers([3])
    ([1, 6, 11], [1, 3, 5], [3])
    """
    places = [min(1, len(layers) - 1), len(layers) // 2, len(layers) - 1]
    return sorted({layers[place] for place in places})
