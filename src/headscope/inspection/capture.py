"""One window through a model: outputs, values and attention of the chosen stack, in preallocated arrays."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import psutil
import torch
from numpy.typing import NDArray
from torch import Tensor

from headscope.errors import HeadscopeError
from headscope.measures.attention import even_received
from headscope.measures.variables import Array
from headscope.models.reading import Listener, Reader
from headscope.tap import LayerHeads
from headscope.windows import Window, WindowBatch, window, window_from_ids

if TYPE_CHECKING:
    from headscope.models.model import Model

SHARE_OF_MEMORY = 0.5  # of what is free: similarity and levels, made later, need as much again


@dataclass(frozen=True, slots=True)
class Captured:
    """What one stack's heads read and wrote for one window; `layers` numbers the first dimension of the arrays."""

    stack: str
    layers: list[int]
    depth: int  # layers of the stack, kept or not
    batch: WindowBatch  # of this one window
    outputs: NDArray[np.float32]  # (L, H, Tq, d)
    values: list[NDArray[np.float32] | None]  # (L): value vectors, (Hkv, Tk, d); None where a model cannot give them
    given: NDArray[np.float64] | None  # (L, H, Tk): the attention that each key receives; None: there is none
    even: NDArray[np.float64]  # (L, Tk): what each key would receive if everybody read evenly
    weights: NDArray[np.float32] | None  # (L, H, Tq, Tk); None where maps are computed again when needed
    readable: list[Tensor | None]  # (L): which keys each query may read, (Tq, Tk), None for all; kept with the maps
    again: Callable[[Listener, list[int]], None] | None  # hands over some layers, by running the model once more;
    # None where there is no model
    passed: dict[str, dict[int, dict[str, Array]]] = field(default_factory=dict)  # sums by reading and layer, where
    # maps were not kept: see `sums.py`

    @property
    def queries(self) -> Window:
        """The tokens that read."""
        return self.batch.of_stack(self.stack)[0][0]

    @property
    def keys(self) -> Window:
        """The tokens that are read: the encoder's window in cross-attention, else the same as `queries`."""
        return self.batch.of_stack(self.stack)[1][0]

    @property
    def heads(self) -> int:
        """How many query heads each layer has."""
        return int(self.outputs.shape[1])

    @property
    def size(self) -> int:
        """Bytes of what is kept."""
        sums = [array for layers in self.passed.values() for each in layers.values() for array in each.values()]
        arrays = (self.outputs, *self.values, self.given, self.even, self.weights, *sums)
        return sum(array.nbytes for array in arrays if array is not None)

    @property
    def has_maps(self) -> bool:
        """Whether attention maps are here, or can be made again."""
        return self.weights is not None or self.again is not None

    def layer(self, k: int) -> LayerHeads:
        """What the k-th kept layer's heads read and wrote, as the tap handed it over; maps where they were kept."""
        own = self.values[k]
        values = None if own is None else torch.from_numpy(own)[None]
        outputs = torch.from_numpy(self.outputs[k])[None]
        weights = None if self.weights is None else torch.from_numpy(self.weights[k])[None]
        return LayerHeads(self.stack, self.layers[k], "", outputs, weights, values, self.readable[k])

    def maps(self, k: int) -> NDArray[np.float32]:
        """The attention maps of the k-th kept layer: (H, Tq, Tk)."""
        if self.weights is not None:
            return np.asarray(self.weights[k])
        if self.again is None:
            raise no_attention(self.given is not None)
        made: list[NDArray[np.float32]] = []

        def copy(heads: LayerHeads) -> None:
            assert heads.weights is not None
            made.append(heads.weights[0].float().cpu().numpy().copy())

        self.again(copy, [self.layers[k]])
        return made[0]


def no_attention(received: bool) -> HeadscopeError:
    """What is said where attention is asked for and is not there."""
    if received:
        return HeadscopeError(
            "the attention maps were not kept in this file", "inspect a shorter window, or inspect the text again"
        )
    return HeadscopeError("attention is not known here", "give it too: Inspection.from_arrays(outputs, attention, …)")


def prepare(
    model: Model,
    text: str | Sequence[int],
    pair: str | None,
    *,
    stack: str | None,
    start: int,
    length: int,
    language: str,
) -> tuple[str, Window]:
    """The stack's name and the window that the model reads."""
    chosen = model.stack(stack)
    if length > model.max_length:
        raise HeadscopeError(
            f"a window of {length} tokens is too long for {model.name!r}",
            f"its longest is {model.max_length}; start says with which token a shorter one begins",
        )
    if not isinstance(start, (int, np.integer)):
        raise HeadscopeError(f"start={start!r} is not possible", "give the number of a token")
    causal = chosen.causal and not model.paired
    if hasattr(text, "tolist"):  # an array or a tensor of ids
        if getattr(text, "ndim", 1) > 1:
            raise HeadscopeError(
                f"the ids are a batch, of shape {tuple(np.shape(text))}", "give one row of it, without padding: ids[0]"
            )
        text = text.tolist()
    if isinstance(text, str):
        if pair is not None and not isinstance(pair, str):
            raise HeadscopeError(f"the pair is of type {type(pair).__name__}", "give a second text")
        return chosen.name, window(
            text, pair, model.tokenizer, model.template, length=length, start=start, causal=causal, language=language
        )
    if not isinstance(text, Sequence) or isinstance(text, (bytes, bytearray)):
        raise HeadscopeError(f"the text is of type {type(text).__name__}", "give a string or a list of token ids")
    if not len(text):
        raise HeadscopeError("there are no texts", "give a text, a list of texts or token ids")
    if pair is not None or start:
        raise HeadscopeError("pair= and start= go with a text, not with token ids", "leave them out")
    return chosen.name, _from_ids(model, text, causal, language)


def _from_ids(model: Model, ids: Sequence[Any], causal: bool, language: str) -> Window:
    rows = model.network.get_input_embeddings().weight.shape[0]
    wrong = next((i for i in ids if not isinstance(i, (int, np.integer)) or not 0 <= i < rows), None)
    if wrong is not None:
        raise HeadscopeError(f"{wrong!r} is not a token id of {model.name!r}", f"ids are 0 to {rows - 1}")
    if not 0 < len(ids) <= model.max_length:
        raise HeadscopeError(f"{len(ids)} token ids do not fit the model", f"give 1 to {model.max_length}")
    return window_from_ids(ids, model.tokenizer, model.template, causal=causal, language=language)


def capture(
    model: Model,
    stack: str,
    read: Window,
    *,
    layers: Collection[int] | None = None,
    maps: bool = True,
    in_passing: Callable[[WindowBatch, LayerHeads], None] | None = None,
) -> Captured:
    """Run the window and keep outputs, values and attention of one stack's layers.

    Without `maps` only what each key received is kept of the attention, which grows with T, not with T². `in_passing`
    sees each kept layer while the model runs.
    """
    shape = model.stacks[stack]
    kept = _kept(layers, shape.layers)
    size = len(read)
    batch = Reader(model).batch([read])
    _check_memory(len(kept) if maps else 1, shape.heads, size)
    outputs = np.empty((len(kept), shape.heads, size, shape.width), dtype=np.float32)
    weights = np.empty((len(kept), shape.heads, size, size), dtype=np.float32) if maps else None
    given, even = np.empty((len(kept), shape.heads, size)), np.empty((len(kept), size))
    values: list[NDArray[np.float32] | None] = [None] * len(kept)
    readable: dict[int, Tensor | None] = {}

    def keep(heads: LayerHeads) -> None:
        assert heads.weights is not None
        k = kept.index(heads.layer)
        outputs[k] = heads.outputs[0].float().cpu().numpy()
        if heads.values is not None:
            values[k] = heads.values[0].float().cpu().numpy().copy()
        read_by = heads.weights[0].float().cpu()  # (H, Tq, Tk)
        given[k] = read_by.double().sum(1).numpy()
        if weights is not None:
            weights[k] = read_by.numpy()
        own = None if heads.readable is None else heads.readable.cpu()
        while own is not None and own.ndim > 2:  # one window; heads share what may be read
            own = own[0]
        even[k] = even_received(own, size, size).numpy()
        known = next((each for each in readable.values() if _equal(each, own)), own)  # the same for most layers
        readable[k] = known if maps else None
        if in_passing is not None:
            in_passing(batch, heads)

    def run(listener: Listener, wanted: list[int]) -> None:
        def chosen(heads: LayerHeads) -> None:
            if heads.stack == stack and heads.layer in wanted:
                listener(heads if shape.values else replace(heads, values=None))

        with Reader(model) as reader:
            reader.read(batch, chosen)

    run(keep, kept)
    if len(readable) < len(kept):
        raise HeadscopeError(
            f"{model.name!r} showed {len(readable)} of {len(kept)} {stack} layers for this text",
            "please report this: it is a defect of headscope",
        )
    if not np.isfinite(outputs).all() or not np.isfinite(given).all():
        raise HeadscopeError(f"{model.name!r} gives NaN or infinite outputs for this text", 'load it in "float32"')
    may_read = [readable[k] for k in range(len(kept))]
    return Captured(stack, kept, shape.layers, batch, outputs, values, given, even, weights, may_read, run)


def _kept(layers: Collection[int] | None, number: int) -> list[int]:
    """The layers that were asked for, of so many."""
    if layers is not None and (
        not isinstance(layers, Collection) or not all(isinstance(layer, (int, np.integer)) for layer in layers)
    ):
        raise HeadscopeError(f"layers={layers!r} is not possible", "give a list of layers, for example layers=[0, 11]")
    kept = list(range(number)) if layers is None else sorted(set(layers))
    if not kept or not set(kept) <= set(range(number)):
        raise HeadscopeError(f"layers={sorted(set(kept))} is not possible", f"name layers from 0 to {number - 1}")
    return kept


def _equal(one: Tensor | None, other: Tensor | None) -> bool:
    if one is None or other is None:
        return one is other
    return torch.equal(one, other)


def _check_memory(layers: int, heads: int, size: int) -> None:
    need = layers * heads * size * size * 4
    free = psutil.virtual_memory().available
    if need > free * SHARE_OF_MEMORY:
        raise HeadscopeError(
            f"{layers} layers × {heads} heads × {size}² attention weights take {need / 1e9:.1f} GB, and "
            f"{free / 1e9:.1f} GB of memory are free",
            "keep fewer layers with layers=[…], or take a shorter window",
        )
