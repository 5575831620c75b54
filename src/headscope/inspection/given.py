"""Arrays that another library, another framework or a file has: what every head wrote, in place of a model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from headscope.choices import Choices
from headscope.errors import HeadscopeError
from headscope.inspection.capture import Captured
from headscope.measures.attention import even_received
from headscope.windows import Window, WindowBatch, given_window
from headscope.windows.window import END

ROW_SUM = 1.02  # rows of attention sum to one, or to less where a model has a sink; half precision is forgiven
LOOKS_AHEAD = 1e-3  # a weight on a later token that no rounding explains


@dataclass(frozen=True, slots=True)
class GivenText:
    """What the heads of one stack wrote for one text, checked."""

    outputs: NDArray[np.float32]  # (L, H, T, d)
    attention: NDArray[np.float32] | None  # (L, H, T, T)
    values: NDArray[np.float32] | None  # (L, Hkv, T, d)
    readable: list[Tensor | None]  # (L): which tokens each token may read, (T, T); None: all
    window: Window
    causal: bool

    @property
    def stack(self) -> str:
        """What such a stack is called."""
        return "decoder" if self.causal else "encoder"


def read_given(
    outputs: Any,
    attention: Any = None,
    *,
    tokens: Any = None,
    ids: Any = None,
    text: str | None = None,
    offsets: Any = None,
    special_tokens_mask: Any = None,
    values: Any = None,
    readable: Any = None,
    causal: bool | None = None,
    language: str = "en",
) -> GivenText:
    """Check arrays and tokens against each other; see `Inspection.from_arrays`."""
    wrote = _array("outputs", outputs, ("layer", "head", "token", "feature"))
    layers, heads, size, _ = wrote.shape
    maps = None if attention is None else _array("attention", attention, ("layer", "head", "query", "key"))
    if maps is not None:
        _fits("attention", maps.shape, (layers, heads, size, size))
        if (maps < 0).any() or maps.sum(-1).max() > ROW_SUM:
            raise HeadscopeError("rows of attention do not sum to one", "give the weights after the softmax")
    mixed = None if values is None else _array("values", values, ("layer", "head", "token", "feature"))
    if mixed is not None and (heads % mixed.shape[1] or mixed.shape != (layers, mixed.shape[1], size, wrote.shape[3])):
        raise HeadscopeError(
            f"values of shape {mixed.shape}", f"outputs are {wrote.shape}: (layer, head, token, feature)"
        )
    backwards = _reads_backwards(maps) if causal is None else bool(causal)
    if backwards and maps is not None and np.triu(maps.max((0, 1)), 1).max() > LOOKS_AHEAD:
        raise HeadscopeError(
            "attention reads later tokens, so the model does not read backwards only",
            "leave out causal=True; where texts were padded in front, cut the padding off before",
        )
    window = given_window(tokens, ids, text, offsets, special_tokens_mask, causal=backwards, language=language)
    if len(window) != size:
        raise HeadscopeError(
            f"outputs are of {size} tokens, and {len(window)} are named",
            "outputs are (layer, head, token, feature), of one text and without padding",
        )
    _check_padding(maps, window, backwards)
    return GivenText(wrote, maps, mixed, _readable(readable, backwards, layers, size), window, backwards)


def captured_of(given: GivenText, layers: list[int] | None = None) -> Captured:
    """The same as if a model had been run."""
    count, _, size, _ = given.outputs.shape
    numbers = list(range(count)) if layers is None else [int(each) for each in layers]
    if len(numbers) != count or numbers != sorted(set(numbers)) or numbers[0] < 0:
        raise HeadscopeError(
            f"layers={layers} is not possible", f"number the {count} layers of outputs, the lowest first"
        )
    maps = given.attention
    return Captured(
        stack=given.stack,
        layers=numbers,
        depth=numbers[-1] + 1,
        batch=WindowBatch((given.window,)),
        outputs=given.outputs,
        values=[None] * count if given.values is None else list(given.values),
        given=None if maps is None else maps.astype(np.float64).sum(2),
        even=np.stack([even_received(each, size, size).numpy() for each in given.readable]),
        weights=maps,
        readable=given.readable,
        again=None,
    )


def check_choices(choices: Choices, window: Window) -> None:
    """Refuse choices that need what was not given."""
    window.repeats(choices.repeated)


def _array(name: str, values: Any, dims: tuple[str, ...]) -> NDArray[np.float32]:
    """Numbers of any framework as float32: arrays, tensors on any device, lists of them."""
    if isinstance(values, (list, tuple)):
        values = np.stack([_plain(each) for each in values])
    try:
        array = np.ascontiguousarray(_plain(values), dtype=np.float32)
    except (TypeError, ValueError) as error:
        raise HeadscopeError(
            f"{name} cannot be read as numbers: {error}", f"give an array ({', '.join(dims)})"
        ) from error
    if array.ndim != len(dims) or not array.size:
        raise HeadscopeError(
            f"{name} are of shape {array.shape}", f"give ({', '.join(dims)}), of one text and without padding"
        )
    if not np.isfinite(array).all():
        raise HeadscopeError(f"{name} hold NaN or infinite numbers", "check the model, or compute in float32")
    return array


def _plain(values: Any) -> Any:
    if isinstance(values, Tensor):
        return values.detach().float().cpu().numpy()
    return np.asarray(values)


def _fits(name: str, shape: tuple[int, ...], wanted: tuple[int, ...]) -> None:
    if shape != wanted:
        raise HeadscopeError(f"{name} of shape {shape} do not go with outputs", f"give {wanted}, as outputs have it")


def _reads_backwards(maps: NDArray[np.float32] | None) -> bool:
    """Whether no head of any layer ever looks ahead."""
    if maps is None or maps.shape[-1] < 2:
        return False
    return not np.triu(maps.max((0, 1)), 1).any()


def _check_padding(maps: NDArray[np.float32] | None, window: Window, causal: bool) -> None:
    """Refuse padding at the end, which would count as special tokens.

    Padding is one token over and over, which nobody reads, not even itself, as no token of a text is; where a causal
    model ran without a mask, or attention is not known, it is a special token that stands there twice or more.
    """
    size, special = len(window), window.category == END
    others = np.flatnonzero((window.ids != window.ids[-1]) | (special != special[-1]))
    first = int(others[-1]) + 1 if others.size else 0
    why = "are the same special token again and again"
    if maps is not None:
        read = maps.max((0, 1))
        unread = max(first, int(np.flatnonzero(read.any(0))[-1]) + 1) if read.any() else size
        if unread < size and read[unread - 1, unread - 1] > 0 and (special[-1] or size - unread > 1):
            first, why = unread, "receive no attention from anyone"
        elif not causal:
            return
    if why.startswith("receive") or (special[-1] and size - first > 1):
        which = f"tokens {first} to {size - 1} {why}: they look"
        if first == size - 1:
            which = f"token {first} receives no attention from anyone: it looks"
        raise HeadscopeError(f"{which} like padding", "cut padding off before, from tokens and arrays alike")


def _readable(given: Any, causal: bool, layers: int, size: int) -> list[Tensor | None]:
    if given is None:
        shared = torch.ones(size, size, dtype=torch.bool).tril() if causal else None
        return [shared] * layers
    may = torch.from_numpy(np.ascontiguousarray(_plain(given)).astype(bool))
    if may.shape not in ((size, size), (layers, size, size)):
        raise HeadscopeError(
            f"readable of shape {tuple(may.shape)}", f"give ({size}, {size}), or one for each of {layers} layers"
        )
    return list(may.expand(layers, size, size))
