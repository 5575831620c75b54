"""From a text to an inspection: the window is cut, the model runs once, and what its heads wrote is kept."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from headscope.choices import Choices
from headscope.errors import HeadscopeError
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


def is_list(text: Any) -> bool:
    """Whether several texts were given, not one or its ids; an array of strings is several too.

    >>> is_list(["It rains.", "It pours."]), is_list([[5, 6], [7]]), is_list([5, 6]), is_list("It rains.")
    (True, True, False, False)
    """
    if isinstance(text, np.ndarray) and text.dtype.kind in "UO":
        return text.ndim == 1
    several = isinstance(text, Sequence) and not isinstance(text, (str, bytes, bytearray))
    return several and len(text) > 0 and not hasattr(text[0], "__index__")


def inspect_each(model: Model, texts: Sequence[Any], pairs: Any, choices: Choices, **options: Any) -> list[Inspection]:
    """The same for several texts, one after the other; an error says which of them it is about."""
    if pairs is not None and (isinstance(pairs, str) or len(pairs) != len(texts)):
        raise HeadscopeError(
            "there are several texts, and not a second text for each", "give a list with a second text for each"
        )
    made = []
    for number, text in enumerate(texts.tolist() if isinstance(texts, np.ndarray) else texts):
        try:
            made.append(inspect(model, text, None if pairs is None else pairs[number], choices, **options))
        except HeadscopeError as error:
            raise HeadscopeError(f"text {number}: {error.problem}", error.remedy) from error
    return made
