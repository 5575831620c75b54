"""From a text to an inspection: the window is cut, the model runs once, and what its heads wrote is kept."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from headscope.choices import Choices
from headscope.inspection.capture import capture, prepare
from headscope.inspection.inspection import Inspection
from headscope.measures.pair_loops import likeness_of_heads
from headscope.measures.similarity import similarity
from headscope.windows import Window

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
    crossing = name == "cross"  # A and S are over different tokens
    on_maps = None if maps or crossing else partial(likeness_in_passing, choices)
    return Inspection(model.name, choices, capture(model, name, window, layers=layers, maps=maps, on_maps=on_maps))


def likeness_in_passing(
    choices: Choices, read: Window, outputs: NDArray[Any], maps: NDArray[Any]
) -> NDArray[np.float64]:
    """Likeness to attention needs matrices and maps at once, so where maps are not kept it is taken as they go by."""
    places = read.counting(choices.special).nonzero()[0]
    in_a_row = len(places) == 0 or places[-1] - places[0] + 1 == len(places)
    likeness = np.zeros((len(outputs), 1))
    # A head at a time: they are large.
    for out, map_, one in zip(torch.from_numpy(outputs), maps, likeness, strict=True):
        matrix, begin = similarity(out, choices.similarity).numpy(), int(places[0]) if len(places) else 0
        if not in_a_row:  # special tokens between two texts
            inner = np.ix_(places, places)
            matrix, map_, begin = matrix[inner], np.ascontiguousarray(map_[inner]), 0
        likeness_of_heads(matrix[None, None], map_[None, None], begin, len(places), one)
    return likeness[:, 0]
