"""Who counts: the compiled loops on the host, plain torch where the model is, or a graphics card's own kernels."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import torch

from headscope.choices import COMPILED, CUDA, TORCH, Choices
from headscope.errors import HeadscopeError
from headscope.measures.accumulator import Accumulator
from headscope.measures.compiled_accumulator import CompiledAccumulator
from headscope.measures.cuda.accumulator import CudaAccumulator
from headscope.measures.torch_accumulator import TorchAccumulator

PATHS: dict[str, Callable[..., Accumulator]] = {
    COMPILED: CompiledAccumulator,
    TORCH: TorchAccumulator,
    CUDA: CudaAccumulator,
}
OLDEST = (7, 0)  # compute capability


def choose_path(wanted: str | None, device: torch.device, choices: Choices) -> tuple[str, str]:
    """The path that is wanted, or the fastest that can be had; and why that is not the device's own, where it is not.

    >>> choose_path(None, torch.device("cpu"), Choices()), choose_path("torch", torch.device("cpu"), Choices())
    (('compiled', ''), ('torch', ''))
    """
    if wanted is not None and wanted not in PATHS:
        raise HeadscopeError(f"path={wanted!r}", f"use one of {', '.join(PATHS)}")
    lacking = cuda_lacks(device, choices)
    if wanted == CUDA and lacking:
        remedy = f"leave out --path (path=), or use {COMPILED!r} or {TORCH!r}"
        raise HeadscopeError(f"the path 'cuda' cannot be taken: {lacking}", remedy)
    if wanted is not None:
        return wanted, ""
    if device.type != "cuda":
        return COMPILED, ""
    return (COMPILED, f"{lacking}: pairs are counted on the CPU, which takes far longer") if lacking else (CUDA, "")


def cuda_lacks(device: torch.device, choices: Choices) -> str:
    """Why the kernels cannot count this; empty where they can."""
    if device.type != "cuda":
        return "the model is not on a graphics card of NVIDIA's"
    if choices.scale != "max":
        return "levels by rank are not counted on the graphics card"
    if find_spec("cuda") is None or find_spec("cuda.core") is None:
        return "the package cuda-core is missing (pip install 'headscope[cuda]')"
    if torch.cuda.get_device_capability(device) < OLDEST:
        return "the graphics card is too old"
    return ""


def make_accumulator(path: str, *args: Any, **options: Any) -> Accumulator:
    """The accumulator of a path."""
    return PATHS[path](*args, **options)
