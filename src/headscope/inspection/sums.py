"""The sums of one window, made by the accumulator that those of a whole collection are made with.

They are made a layer at a time, so that memory stays bounded: from what was captured, or, where the attention maps were
not kept, while the model runs.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch

from headscope.choices import Choices
from headscope.inspection.capture import Captured
from headscope.measures.accumulator import Accumulator
from headscope.measures.variables import Array, Shape, variable
from headscope.tap import LayerHeads
from headscope.windows import WindowBatch

if TYPE_CHECKING:
    from headscope.inspection.inspection import Inspection

LayerSums = dict[str, Array]  # of one layer, by variable
SHORT = 256  # tokens; see `_accumulator`


def sums_of_layer(choices: Choices, batch: WindowBatch, heads: LayerHeads) -> LayerSums:
    """The sums of one layer in the main reading alone, of every variable that a block of texts keeps."""
    size = len(batch.of_stack(heads.stack)[0][0])
    shape = Shape(
        layers=(heads.layer,),
        heads=heads.outputs.shape[1],
        length=size,
        cross=heads.stack == "cross",
        readings=choices.readings[:1],
    )
    accumulator = _accumulator(heads.stack, shape, replace(choices, readings=choices.readings[:1]))
    sink = accumulator.begin(batch)
    sink.layer(heads)
    sink.finish()
    sums = accumulator.sums()[heads.stack]
    accumulator.close()
    # What heads drawn from all layers would have is not known from one.
    return {name: array for name, array in sums.items() if variable(name).kept == "block" and name != "top_mixed"}


def sums_without_attention(choices: Choices, batch: WindowBatch, heads: LayerHeads) -> LayerSums:
    """The same where attention is not known: what comes of it is left out."""
    (count, size), some = heads.outputs.shape[1:3], torch.ones(1, 1, 1, 1)
    even = (some / size).expand(1, count, size, size).contiguous()  # whatever it is, nothing of it is kept
    sums = sums_of_layer(choices, batch, replace(heads, weights=even))
    return {name: array for name, array in sums.items() if not variable(name).of_attention}


def _accumulator(stack: str, shape: Shape, choices: Choices) -> Accumulator:
    """Compiled loops need far less time and memory, and the better part of a minute to be compiled when first used.

    So short windows do without; the numbers are the same but for rounding.
    """
    if shape.length <= SHORT:
        from headscope.measures.torch_accumulator import TorchAccumulator

        return TorchAccumulator({stack: shape}, choices)
    from headscope.measures.compiled_accumulator import CompiledAccumulator

    return CompiledAccumulator({stack: shape}, choices, threads=torch.get_num_threads())


def has_sums(captured: Captured, reading: str) -> bool:
    """Whether a text's sums in a reading are to be had without running the model."""
    return captured.weights is not None or captured.again is None or reading in captured.passed


def sums_of(inspection: Inspection, k: int) -> LayerSums:
    """The sums of the k-th kept layer in the inspection's reading."""
    captured, reading = inspection.captured, inspection.reading
    if captured.weights is not None:
        return sums_of_layer(inspection.choices, captured.batch, captured.layer(k))
    if captured.again is None:
        return sums_without_attention(inspection.choices, captured.batch, captured.layer(k))
    if reading not in captured.passed:
        taken: dict[int, Any] = {}

        def take(heads: LayerHeads) -> None:
            taken[heads.layer] = sums_of_layer(inspection.choices, captured.batch, heads)

        captured.again(take, captured.layers)
        captured.passed[reading] = taken
    return captured.passed[reading][captured.layers[k]]
