"""The kernels in CUDA C++, compiled for the card at hand when they are first wanted."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from headscope.measures.cuda.arguments import Constants

INSTRUCTIONS = "card.cu"  # what a card does by itself
FILES = ("threads.cu", "attention.cu", "order.cu", "levels.cu", "batches.cu")
NAMES = ("attention", "attention_tile", "read_each_other", "by_order", "by_level", "count_unique", "add_windows",
         "mixed", "add_matrices")  # fmt: skip


def source(*files: str) -> str:
    """Files of this folder, one after the other."""
    return "\n".join((Path(__file__).parent / name).read_text("utf-8") for name in files)


class Kernels(Protocol):
    """Kernels for one choice of readings."""

    @property
    def most_shared(self) -> int:
        """Bytes of memory on the chip that a block may have."""

    @property
    def processors(self) -> int:
        """How many blocks that take all memory of the chip run at a time."""

    @property
    def tiles(self) -> bool:
        """Whether it multiplies tiles of 16-bit floats."""

    def launch(self, name: str, grid: tuple[int, int], block: int, shared: int, *args: Tensor | int) -> None:
        """Have one done, after what was asked for before; tensors are passed as pointers, numbers as int."""


class CudaKernels:
    """Kernels on a graphics card, through NVRTC."""

    def __init__(self, constants: Constants, device: torch.device) -> None:
        from cuda.core import Device, Program, ProgramOptions

        self._device = Device(device.index or 0)
        self._device.set_current()
        major, minor = self._device.compute_capability
        # No fused multiply-add: numbers are rounded as they are elsewhere, and so fall into the same bins.
        options = ProgramOptions(std="c++17", arch=f"sm_{major}{minor}", fma=False)
        whole = constants.declarations() + source(INSTRUCTIONS, *FILES)
        compiled = Program(whole, code_type="c++", options=options).compile("cubin", name_expressions=NAMES)
        self._kernels = {name: compiled.get_kernel(name) for name in NAMES}
        self.most_shared = int(self._device.properties.max_shared_memory_per_block_optin)
        self.processors = int(self._device.properties.multiprocessor_count)
        self.tiles = (major, minor) >= (8, 0)
        for kernel in self._kernels.values():
            _allow_shared(kernel, self.most_shared)

    def launch(self, name: str, grid: tuple[int, int], block: int, shared: int, *args: Tensor | int) -> None:
        """Launch one on torch's current stream."""
        from cuda.core import LaunchConfig, launch

        own: list[Any] = [each.data_ptr() if isinstance(each, Tensor) else np.int32(each) for each in args]
        config = LaunchConfig(grid=(*grid, 1), block=(block, 1, 1), shmem_size=shared)
        launch(_Stream(torch.cuda.current_stream().cuda_stream), config, self._kernels[name], *own)


class _Stream:
    """Torch's stream, as other libraries of CUDA take it."""

    def __init__(self, handle: int) -> None:
        self.handle = handle

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self.handle


def _allow_shared(kernel: Any, size: int) -> None:
    """Let a kernel have more memory on the chip than is usual."""
    from cuda.bindings import driver

    attribute = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
    (error,) = driver.cuKernelSetAttribute(attribute, size, kernel.handle, driver.cuCtxGetDevice()[1])
    assert error == driver.CUresult.CUDA_SUCCESS, error


@lru_cache(8)
def cuda_kernels(constants: Constants, device: torch.device) -> CudaKernels:
    """The kernels for these readings, compiled once."""
    return CudaKernels(constants, device)
