"""From a text to an inspection: the window is cut, the model runs once, and what its heads wrote is kept."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from headscope.choices import Choices
from headscope.inspection.capture import capture, prepare
from headscope.inspection.core import no_values_across
from headscope.inspection.inspection import Inspection
from headscope.inspection.sums import LayerSums, sums_of_layer
from headscope.tap import LayerHeads
from headscope.windows import WindowBatch

if TYPE_CHECKING:
    from headscope.models.model import Model


def inspect(
    model: Model,
    text: str | Sequence[int],
    pair: str | None,
    choices: Choices,
    *,
    stack: str | None = None,
    start: int = 0,
    layers: Collection[int] | None = None,
    maps: bool = True,
) -> Inspection:
    """Run a window of a text through a model and keep what every head of one stack made of it."""
    name, window = prepare(
        model, text, pair, stack=stack, start=start, length=choices.window, language=choices.language
    )
    if name == "cross" and "values" in choices.readings:
        raise no_values_across()
    passed: dict[str, dict[int, LayerSums]] = {} if maps else {reading: {} for reading in choices.readings}

    def in_passing(batch: WindowBatch, heads: LayerHeads) -> None:
        """Sums need matrices and maps at once, so where maps are not kept they are made as these go by."""
        for reading in choices.readings:
            passed[reading][heads.layer] = sums_of_layer(replace(choices, readings=(reading,)), batch, heads)

    captured = capture(model, name, window, layers=layers, maps=maps, in_passing=None if maps else in_passing)
    captured.passed.update(passed)
    return Inspection(model.name, choices, captured)
