"""The first route: wrapping the method through which transformers' models find their attention function.

`AttentionInterface.get_interface` is a method of a class that all models share, so it is wrapped once for the whole
process, while any tap is open, and put back when the last one closes. A call is recorded only by taps that were opened
in the calling thread and that own the calling module.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from transformers.modeling_utils import AttentionInterface

from headscope.tap.records import Scores

# What masks of a forward pass allow, by mask and number of keys, and the mask itself, so that no other has its id.
KnownMasks = dict[tuple[Any, ...], tuple[Tensor | None, Tensor | None]]


class Recorder(Protocol):
    """What this route needs of an open tap."""

    thread: int
    masks: KnownMasks  # those of this forward pass

    def owns(self, module: nn.Module) -> bool:
        """Whether the module is part of the recorder's model."""

    def wants_readable(self) -> bool:
        """Whether to work out which tokens may be read."""

    def wants_scores(self) -> bool:
        """Whether to hand over queries and keys."""

    def record(
        self,
        module: nn.Module,
        outputs: Tensor,
        weights: Tensor | None,
        values: Tensor | None,
        readable: Tensor | None,
        scores: Scores | None = None,
    ) -> None:
        """Take one attention call."""


Lookup = Callable[..., Any]
_lock = threading.Lock()
_open: tuple[Recorder, ...] = ()  # replaced as a whole: other threads read it without the lock
_undo: Callable[[], None] | None = None


def start(recorder: Recorder) -> None:
    """Begin to send the recorder what its modules compute."""
    global _open, _undo
    with _lock:
        if _undo is None:
            _undo = _wrap()
        _open = (*_open, recorder)


def stop(recorder: Recorder) -> None:
    """Stop sending; the last recorder to stop leaves the class as it was."""
    global _open, _undo
    with _lock:
        _open = tuple(other for other in _open if other is not recorder)
        if not _open and _undo is not None:
            _undo()
            _undo = None


def _wrap() -> Callable[[], None]:
    """Wrap the lookup of attention functions; return what unwraps it."""
    original: Lookup = AttentionInterface.get_interface
    active = True

    def get_interface(self: AttentionInterface, attn_implementation: str, default: Lookup) -> Any:
        function = original(self, attn_implementation, default)
        here = threading.get_ident()
        recorders = [recorder for recorder in _open if recorder.thread == here] if active else []
        return functools.partial(_attend, function, attn_implementation, recorders) if recorders else function

    def undo() -> None:
        nonlocal active
        active = False  # somebody who wrapped the method after us keeps their wrapper; ours, below it, does nothing
        if AttentionInterface.get_interface is get_interface:
            AttentionInterface.get_interface = original  # type: ignore[method-assign]

    AttentionInterface.get_interface = get_interface  # type: ignore[method-assign]
    return undo


def _attend(
    function: Callable[..., Any],
    implementation: str,
    recorders: list[Recorder],
    module: nn.Module,
    query: Tensor,  # (B, H, Tq, d)
    key: Tensor,  # (B, Hkv, Tk, d)
    value: Tensor,  # (B, Hkv, Tk, d)
    attention_mask: Tensor | None,
    *args: Any,
    **kwargs: Any,
) -> Any:
    result = function(module, query, key, value, attention_mask, *args, **kwargs)
    outputs, weights = result[0], result[1]
    for recorder in recorders:
        if recorder.owns(module):
            recorder.record(
                module,
                outputs=outputs.reshape(*outputs.shape[:2], query.shape[1], -1).transpose(1, 2),  # (B, H, Tq, d)
                weights=weights,
                values=value,
                readable=_known(recorder.masks, module, implementation, query, key, attention_mask, kwargs)
                if recorder.wants_readable()
                else None,
                scores=Scores(query, key, _scaling(query, kwargs)) if recorder.wants_scores() else None,
            )
    return result


def _scaling(query: Tensor, kwargs: dict[str, Any]) -> float:
    """What products of queries and keys are multiplied with."""
    given = kwargs.get("scaling")
    return float(query.shape[-1] ** -0.5 if given is None else given)


def _known(
    masks: KnownMasks, module: nn.Module, implementation: str, query: Tensor, key: Tensor, mask: Tensor | None,
    kwargs: dict[str, Any],
) -> Tensor | None:  # fmt: skip
    """The same, and the same tensor for all layers that share a mask: what follows from it need be worked out once."""
    causal = kwargs.get("is_causal"), getattr(module, "is_causal", False)
    shared = (id(mask), implementation, query.shape[2], key.shape[2], *(causal if mask is None else ()))
    if shared not in masks:
        masks[shared] = mask, _readable(module, implementation, query, key, mask, kwargs)
    return masks[shared][1]


def _readable(
    module: nn.Module, implementation: str, query: Tensor, key: Tensor, mask: Tensor | None, kwargs: dict[str, Any]
) -> Tensor | None:
    """Which keys each query may read, from the mask in whatever form the implementation takes it."""
    if mask is None:
        causal = kwargs.get("is_causal")
        causal = getattr(module, "is_causal", False) if causal is None else causal
        # Eager functions apply the mask they are given and nothing else; sdpa reads a missing one as "causal".
        if implementation == "eager" or not causal or query.shape[2] == 1:
            return None
        return torch.ones(query.shape[2], key.shape[2], dtype=torch.bool, device=key.device).tril()
    mask = mask[..., : key.shape[2]]
    return mask if mask.dtype == torch.bool else mask > torch.finfo(mask.dtype).min / 2
