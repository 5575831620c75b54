"""Who counts: the compiled loops on the host, plain torch where the model is, or a graphics card's own kernels."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from headscope.choices import COMPILED, CUDA, CUDA_EAGER, LONGEST_SUMMED, TORCH, Choices
from headscope.errors import HeadscopeError
from headscope.extras import install_line, installed
from headscope.measures.accumulator import Accumulator
from headscope.measures.compiled_accumulator import CompiledAccumulator
from headscope.measures.cuda.accumulator import CudaAccumulator
from headscope.measures.cuda.arguments import TILE
from headscope.measures.cuda.chip_memory import most_order_bytes
from headscope.measures.cuda.device_layer import LOW
from headscope.measures.cuda.kernels import TILES_FROM
from headscope.measures.cuda.slab_layers import MOST_TOKENS
from headscope.measures.torch_accumulator import TorchAccumulator

if TYPE_CHECKING:
    from headscope.models.model import Model

PATHS: dict[str, Callable[..., Accumulator]] = {
    COMPILED: CompiledAccumulator,
    TORCH: TorchAccumulator,
    CUDA: CudaAccumulator,
    CUDA_EAGER: CudaAccumulator,
}
OLDEST = (7, 0)  # compute capability


def choose_path(
    wanted: str | None, device: torch.device, choices: Choices, attention_lacks: Callable[[], str] = str
) -> tuple[str, str]:
    """The path that is wanted, or the fastest that can be had; and why that is not the device's own, where it is not.

    `attention_lacks` tells why attention cannot be computed from queries and keys, where it cannot.

    >>> choose_path(None, torch.device("cpu"), Choices()), choose_path("torch", torch.device("cpu"), Choices())
    (('compiled', ''), ('torch', ''))
    """
    if wanted is not None and wanted not in PATHS:
        raise HeadscopeError(f"path={wanted!r} is not possible", f"use one of {', '.join(PATHS)}")
    lacking = cuda_lacks(device, choices)
    if wanted in (CUDA, CUDA_EAGER) and lacking:
        remedy = f"leave out --path (path=), or use {COMPILED!r} or {TORCH!r}"
        raise HeadscopeError(f"the path {wanted!r} cannot be used: {lacking}", remedy)
    if wanted == CUDA and (lacking := attention_lacks()):
        raise HeadscopeError(f"the path 'cuda' cannot be used: {lacking}", f"leave out --path, or use {CUDA_EAGER!r}")
    if wanted is not None:
        return wanted, ""
    if device.type != "cuda":
        return COMPILED, ""
    if lacking:
        return COMPILED, f"{lacking}: pairs are counted on the CPU, which takes far longer"
    return CUDA_EAGER if attention_lacks() else CUDA, ""


def cuda_lacks(device: torch.device, choices: Choices) -> str:
    """Why the kernels cannot count this; empty where they can."""
    if device.type != "cuda":
        return "the model is not on a graphics card of NVIDIA's"
    if choices.scale != "max":
        return "levels by rank are not counted on the graphics card"
    if not installed("cuda.core"):
        return f"the package cuda-core is not installed ({install_line('cuda.core')})"
    if torch.cuda.get_device_capability(device) < OLDEST:
        return "the graphics card is too old"
    about = torch.cuda.get_device_properties(device)
    own = getattr(about, "shared_memory_per_block_optin", None)  # not every version of torch tells
    needed, readings = most_order_bytes(choices.window, len(choices.readings)), len(choices.readings)
    if own is not None and choices.window <= LONGEST_SUMMED and needed > own:
        return (
            f"the graphics card lets a block have {own >> 10} KB of memory on the chip, and {readings} readings of "
            f"windows of {choices.window} tokens take up to {-(-needed >> 10)}"
        )
    return ""


def attention_lacks(model: Model, choices: Choices) -> str:
    """Why the kernels cannot compute a model's attention themselves; empty where they can."""
    device, dtype = model.network.device, model.network.dtype
    if choices.window > MOST_TOKENS:
        return f"attention is computed from queries and keys for windows of at most {MOST_TOKENS:,} tokens"
    if choices.window > LONGEST_SUMMED:
        return model.own_attention
    if choices.window > TILE:
        return (
            f"attention is computed from queries and keys for windows of at most {TILE} tokens, or of more than "
            f"{LONGEST_SUMMED}"
        )
    if dtype not in LOW:
        return f"attention is computed from queries and keys of 16 bits, not of {str(dtype).removeprefix('torch.')}"
    if torch.cuda.get_device_capability(device) < TILES_FROM:
        return "the graphics card is too old to compute attention from queries and keys"
    return model.own_attention


def make_accumulator(path: str, *args: Any, **options: Any) -> Accumulator:
    """The accumulator of a path."""
    return PATHS[path](*args, **options)
