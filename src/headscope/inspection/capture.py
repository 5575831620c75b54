"""One window through a model: outputs and attention of the chosen stack, in preallocated arrays."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import psutil
from numpy.typing import NDArray

from headscope.errors import HeadscopeError
from headscope.measures.attention import even_received
from headscope.models.reading import Reader
from headscope.tap import LayerHeads
from headscope.windows import Window, window, window_from_ids

if TYPE_CHECKING:
    from headscope.models.model import Model

SHARE_OF_MEMORY = 0.5  # of what is free: similarity and levels, made later, need as much again


@dataclass(frozen=True, slots=True)
class Captured:
    """What one stack's heads read and wrote for one window; `layers` numbers the first dimension of the arrays."""

    stack: str
    layers: list[int]
    queries: Window
    keys: Window  # the encoder's window in cross-attention, else the same as `queries`
    outputs: NDArray[np.float32]  # (L, H, Tq, d)
    given: NDArray[np.float64]  # (L, H, Tk): the attention that each key receives from all queries
    even: NDArray[np.float64]  # (L, Tk): what each key would receive if everybody read evenly
    weights: NDArray[np.float32] | None  # (L, H, Tq, Tk); None where maps are computed again when needed
    from_maps: NDArray[np.float64] | None  # (L, H): what `on_maps` of `capture` returned as the maps went by
    rerun: Callable[[int], NDArray[np.float32]]  # a layer's maps, (H, Tq, Tk), by running the model once more

    @property
    def heads(self) -> int:
        """How many query heads each layer has."""
        return int(self.outputs.shape[1])

    def maps(self, k: int) -> NDArray[np.float32]:
        """The attention maps of the k-th kept layer: (H, Tq, Tk)."""
        return self.rerun(self.layers[k]) if self.weights is None else self.weights[k]


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
            f"its longest is {model.max_length}; move a shorter one with start=",
        )
    if not isinstance(start, (int, np.integer)):
        raise HeadscopeError(f"start={start!r}", "give the number of a token")
    causal = chosen.causal and not model.paired
    if hasattr(text, "tolist"):  # an array or a tensor of ids
        text = text.tolist()
    if isinstance(text, str):
        if pair is not None and not isinstance(pair, str):
            raise HeadscopeError(f"the pair is a {type(pair).__name__}", "give a second text")
        return chosen.name, window(
            text, pair, model.tokenizer, model.template, length=length, start=start, causal=causal, language=language
        )
    if not isinstance(text, Sequence) or isinstance(text, (bytes, bytearray)):
        raise HeadscopeError(f"the text is a {type(text).__name__}", "give a string or a list of token ids")
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
    on_maps: Callable[[Window, NDArray[np.float32], NDArray[np.float32]], NDArray[np.float64]] | None = None,
) -> Captured:
    """Run the window and keep outputs and attention of one stack's layers.

    Without `maps` only what each key received is kept of the attention, which grows with T, not with T². `on_maps` is
    called with the window, each layer's outputs and its maps as they go by; what it returns, a number per head, is
    kept as `from_maps`.
    """
    shape = model.stacks[stack]
    if layers is not None and (
        not isinstance(layers, Collection) or not all(isinstance(layer, (int, np.integer)) for layer in layers)
    ):
        raise HeadscopeError(f"layers={layers!r}", "give a list of layers, for example layers=[0, 11]")
    kept = list(range(shape.layers)) if layers is None else sorted(set(layers))
    if not kept or not set(kept) <= set(range(shape.layers)):
        raise HeadscopeError(f"layers={sorted(set(kept))}", f"name layers from 0 to {shape.layers - 1}")
    size = len(read)
    reader = Reader(model)
    batch = reader.batch([read])
    queries, keys = (windows[0] for windows in batch.of_stack(stack))
    _check_memory(len(kept) if maps else 1, shape.heads, size)
    outputs = np.empty((len(kept), shape.heads, size, shape.width), dtype=np.float32)
    weights = np.empty((len(kept), shape.heads, size, size), dtype=np.float32) if maps else None
    given, even = np.empty((len(kept), shape.heads, size)), np.empty((len(kept), size))
    from_maps = None if on_maps is None else np.empty((len(kept), shape.heads))
    filled: set[int] = set()

    def keep(heads: LayerHeads) -> None:
        if heads.stack != stack or heads.layer not in kept:
            return
        assert heads.weights is not None
        k = kept.index(heads.layer)
        filled.add(k)
        outputs[k] = heads.outputs[0].float().cpu().numpy()
        read_by = heads.weights[0].float().cpu()  # (H, Tq, Tk)
        given[k] = read_by.double().sum(1).numpy()
        if weights is not None:
            weights[k] = read_by.numpy()
        if from_maps is not None and on_maps is not None:
            from_maps[k] = on_maps(queries, outputs[k], read_by.numpy())
        readable = None if heads.readable is None else heads.readable.cpu()
        while readable is not None and readable.ndim > 2:  # one window; heads share what may be read
            readable = readable[0]
        even[k] = even_received(readable, size, size).numpy()

    with reader:
        reader.read(batch, keep)
    if len(filled) < len(kept):
        raise HeadscopeError(
            f"{model.name!r} showed {len(filled)} of {len(kept)} {stack} layers for this text",
            "please report this: it is a defect of headscope",
        )
    if not np.isfinite(outputs).all() or not np.isfinite(given).all():
        raise HeadscopeError(f"{model.name!r} gives NaN or infinite outputs for this text", 'load it in "float32"')

    def rerun(layer: int) -> NDArray[np.float32]:
        maps_again = capture(model, stack, read, layers=[layer]).weights
        assert maps_again is not None
        return np.asarray(maps_again[0])

    return Captured(stack, kept, queries, keys, outputs, given, even, weights, from_maps, rerun)


def _check_memory(layers: int, heads: int, size: int) -> None:
    need = layers * heads * size * size * 4
    free = psutil.virtual_memory().available
    if need > free * SHARE_OF_MEMORY:
        raise HeadscopeError(
            f"{layers} layers × {heads} heads × {size}² attention weights take {need / 1e9:.1f} GB, and "
            f"{free / 1e9:.1f} GB of memory are free",
            "keep fewer layers with layers=[…], or take a shorter window",
        )
