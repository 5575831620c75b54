"""Moving arrays to where the model is, without waiting for what it is doing there, and back."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor


def to_device(values: NDArray[Any], device: torch.device | str) -> Tensor:
    """An array as a tensor on a device.

    A graphics card reads ordinary memory only when it has nothing else to do, and the host waits for it meanwhile; so
    the array goes by way of memory that the card can read by itself.

    >>> to_device(np.arange(3), "cpu").tolist()
    [0, 1, 2]
    """
    tensor = torch.from_numpy(np.ascontiguousarray(values))
    if torch.device(device).type == "cuda":
        return tensor.pin_memory().to(device, non_blocking=True)
    return tensor.to(device)


def to_host(tensor: Tensor, *, wait: bool = True) -> Tensor:
    """A tensor on the host; from a graphics card by way of pinned memory, which is many times as fast.

    Without `wait` its numbers are there when the card has done all that it was asked for before.

    >>> to_host(torch.ones(2)).tolist()
    [1.0, 1.0]
    """
    if not tensor.is_cuda:
        return tensor.cpu()
    return torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True).copy_(tensor, non_blocking=not wait)


@lru_cache
def _beside(device: torch.device) -> torch.cuda.Stream:
    """Where a card copies to the host while it goes on with its work."""
    return torch.cuda.Stream(device)  # type: ignore[no-untyped-call]


class Sent:
    """Tensors on their way to the host, by name; a graphics card goes on with its work meanwhile.

    >>> Sent({"sum": torch.ones(2)}).arrived()["sum"].tolist()
    [1.0, 1.0]
    """

    def __init__(self, tensors: Mapping[str, Tensor]) -> None:
        self._event: torch.cuda.Event | None = None
        devices = {each.device for each in tensors.values() if each.is_cuda}
        for device in devices:
            _beside(device).wait_stream(torch.cuda.current_stream(device))
        assert len(devices) < 2, "tensors of several cards"
        with torch.cuda.stream(_beside(device)) if devices else nullcontext():
            self._tensors = {name: to_host(each, wait=False) for name, each in tensors.items()}
            if devices:
                self._event = torch.cuda.Event()  # type: ignore[no-untyped-call]
                self._event.record()
                for each in tensors.values():  # its memory is not used for anything else before it was copied
                    each.record_stream(_beside(device))

    def arrived(self) -> dict[str, Tensor]:
        """The tensors, when they are there. Waits for nothing that the card was asked for later."""
        if self._event is not None:
            self._event.synchronize()
        return self._tensors
