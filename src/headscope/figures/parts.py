"""What the figures of a whole result share: the caption of the run, lines over layers, control runs, legends."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from headscope.errors import HeadscopeError, counted
from headscope.figures.colours import BASE, CONTROL, CONTROL_DASHES, CONTROL_LABELS, MISSING, THIRDS_SHADE, WAYS
from headscope.measures.block_sums import THIRDS, BlockSums
from headscope.windows.text import in_a_line

if TYPE_CHECKING:
    import xarray as xr

    from headscope.result.result import Result

OUTLINE = 0.45  # points: the line round a band that is not filled
Runs = list[tuple[str, "Result"]]  # control runs: the kind of each, and its result


def run_caption(result: Result, tau: float | None = None) -> str:
    """Model, stack, texts and choices, for a caption."""
    settings = result.settings
    parts = [in_a_line(result.model["name"]), result.name, counted(int(result.dataset["texts"]), "text")]
    if settings.get("windows") == "all":
        parts[-1] = f"{counted(int(result.dataset['texts']), 'window')} of {counted(result.texts['texts'], 'text')}"
    if tau is not None:
        parts.append(f"S by {result.readings[0]}, τ = {tau:g}" + " by rank" * (settings["scale"] == "rank"))
    return ", ".join(parts)


def chosen_claims(known: Iterable[str], wanted: Collection[str] | None) -> list[str]:
    """The claims that are asked for by their keys, in the order of the claims; all of them without.

    >>> chosen_claims(["1a", "2", "9"], ["9", "1a"])
    ['1a', '9']
    """
    keys = list(dict.fromkeys(known))
    if wanted is None:
        return keys
    wanted = [wanted] if isinstance(wanted, str) else list(wanted)
    for key in wanted:
        if key not in keys:
            raise HeadscopeError(f"there is no claim {key!r} in this figure", f"use some of {', '.join(keys)}")
    return [key for key in keys if key in wanted]


def sorted_controls(result: Result, controls: Sequence[Result]) -> Runs:
    """Control runs with their kinds; one that cannot be compared with the result is refused."""
    from headscope.findings.controls import check_controls

    beside = check_controls(result, controls)
    kinds = {"permuted": beside.permuted, "untrained": beside.untrained, "rotated": beside.rotated}
    return [(kind, run) for kind, runs in kinds.items() for run in runs]


def shade_thirds(axes: Any, sums: BlockSums) -> None:
    """A tint behind the early and the final layers."""
    for name in (THIRDS[0], THIRDS[-1]):
        places = sums.third(name)
        if places:
            first, last = sums.layers[places[0]], sums.layers[places[-1]]
            axes.axvspan(first - 0.5, last + 0.5, color=THIRDS_SHADE, linewidth=0, zorder=0)


def over_layers(
    axes: Any, estimated: xr.Dataset, style: dict[str, Any], label: str = "", *, outlined: bool = False
) -> None:
    """A line over layers with its interval as a band, or as an outline where it lies over another band."""
    layers = estimated["layer"].values
    low, high = estimated["low"].values, estimated["high"].values
    if outlined:
        outline(axes, layers, low, high, style["color"])
    else:
        axes.fill_between(layers, low, high, color=style["color"], alpha=0.25, linewidth=0, zorder=2.5)
    axes.plot(layers, estimated["value"].values, label=label or None, zorder=3, **style)


def outline(axes: Any, layers: Any, low: Any, high: Any, colour: str) -> None:
    """A band that is only outlined, so that it can be told from a filled one behind it."""
    axes.fill_between(layers, low, high, facecolor="none", edgecolor=colour, linewidth=OUTLINE, zorder=2.6)


def layer_axis(axes: Any, layers: Sequence[int], most: int = 12) -> None:
    """The layers on the axis below, at most so many of them named."""
    step = max(1, -(-len(layers) // most))
    axes.set_xticks(list(layers)[::step])
    axes.set_xlim(layers[0] - 0.5, layers[-1] + 0.5)


def control_line(axes: Any, layers: Sequence[int], values: Any, kind: str) -> None:
    """What a control run gives, layer by layer: thin and grey."""
    axes.plot(layers, values, color=CONTROL, linestyle=CONTROL_DASHES[kind], linewidth=0.9, zorder=1.5)


def base_line(axes: Any, value: float) -> None:
    """Where there would be no effect."""
    if np.isfinite(value):
        axes.axhline(value, color=BASE, linewidth=1.0, linestyle=(0, (4, 2)), zorder=1)


def way_handles(ways: Iterable[str], from_pairs: bool = False) -> list[Any]:
    """A legend's entries for ways of reading, in their fixed order; `from_pairs` where they read top pairs."""
    known = set(ways)
    return [Line2D([], [], label=line.called(from_pairs), **line.style()) for way, line in WAYS.items() if way in known]


def control_handles(runs: Runs) -> list[Any]:
    """A legend's entries for kinds of control runs."""
    return [
        Line2D([], [], color=CONTROL, linestyle=CONTROL_DASHES[kind], linewidth=0.9, label=CONTROL_LABELS[kind])
        for kind in dict.fromkeys(kind for kind, _ in runs)
    ]


def band_handle(label: str, colour: str = "#000000", alpha: float = 0.25) -> Any:
    """A legend's entry for a band."""
    return Patch(color=colour, alpha=alpha, linewidth=0, label=label)


def outline_handle(label: str, colour: str = "#000000") -> Any:
    """A legend's entry for a band that is only outlined."""
    return Patch(facecolor="none", edgecolor=colour, linewidth=OUTLINE, label=label)


def upright_handle(label: str, colour: str, width: float) -> Any:
    """A legend's entry for an upright line or bar: a level one would be looked for in vain."""
    return Line2D([], [], marker="|", linestyle="", color=colour, markersize=8, markeredgewidth=width, label=label)


def thirds_handle() -> Any:
    """A legend's entry for the tint behind early and final layers."""
    return Patch(color=THIRDS_SHADE, linewidth=0, label="early and final thirds of the layers")


def none_handle(label: str = "no effect") -> Any:
    """A legend's entry for where there would be no effect."""
    return Line2D([], [], color=BASE, linewidth=1.0, linestyle=(0, (4, 2)), label=label)


def hatch_missing(axes: Any) -> None:
    """Hatch what has no number: what is drawn above covers the rest."""
    axes.patch.set(facecolor="white", hatch="/////", edgecolor=MISSING, linewidth=0)


def shown_layers(layers: Sequence[int]) -> list[int]:
    """An early, a middle and the last layer: 1, 6 and 11 of 12, as in the paper.

    >>> shown_layers(range(12)), shown_layers(range(6)), shown_layers([3])
    ([1, 6, 11], [1, 3, 5], [3])
    """
    places = [min(1, len(layers) - 1), len(layers) // 2, len(layers) - 1]
    return sorted({layers[place] for place in places})
