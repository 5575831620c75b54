"""The kernels in CUDA C++, compiled for the card at hand when they are first wanted."""

from __future__ import annotations

import ctypes
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor

from headscope.measures.cuda.arguments import Constants

TILES_FROM = (8, 0)  # compute capability
Argument = Tensor | int | bytes
INSTRUCTIONS = "card.cu"  # what a card does by itself
FILES = ("threads.cu", "relate.cu", "attention.cu", "attend.cu", "heads.cu", "order.cu", "tiles.cu",
         "tile_maps.cu", "tile_order.cu", "tile_sums.cu", "levels.cu", "batches.cu", "tile_masks.cu",
         "level_tiles.cu", "level_found.cu", "slabs.cu")  # fmt: skip
NAMES = ("relate", "attend", "attention", "attention_tile", "read_each_other", "by_order", "by_tile", "by_level",
         "by_level_of_many", "level_tile", "match", "count_unique", "add_windows", "mixed", "add_matrices",
         "add_products", "add_parts", "relate_long", "weigh_long", "sum_rows", "sum_columns", "look_along",
         "meet_pairs", "find_edges_of_slabs", "count_slab", "end_order", "end_levels")  # fmt: skip


def source(*files: str) -> str:
    """Files of this folder, one after the other."""
    return "\n".join((Path(__file__).parent / name).read_text("utf-8") for name in files)


class Launch(Protocol):
    """Has one kernel done: tensors go as pointers, numbers as int, bytes as a struct."""

    def __call__(self, name: str, grid: tuple[int, int], block: int, shared: int, *args: Argument) -> None:
        """After what was asked for before."""


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

    def launcher(self) -> Launch:
        """What has kernels done, each after what was asked for before, in the calling thread."""


class CudaKernels:
    """Kernels on a graphics card, through NVRTC."""

    def __init__(self, constants: Constants, device: torch.device) -> None:
        from cuda.bindings import driver
        from cuda.core import Device, Program, ProgramOptions

        self._driver = driver
        self._device = Device(device.index or 0)
        self._device.set_current()
        major, minor = self._device.compute_capability
        # No fused multiply-add: numbers are rounded as they are elsewhere, and so fall into the same bins.
        options = ProgramOptions(std="c++17", arch=f"sm_{major}{minor}", fma=False)
        whole = constants.declarations() + source(INSTRUCTIONS, *FILES)
        compiled = Program(whole, code_type="c++", options=options).compile("cubin", name_expressions=NAMES)
        kernels = {name: compiled.get_kernel(name) for name in NAMES}
        self.most_shared = int(self._device.properties.max_shared_memory_per_block_optin)
        self.processors = int(self._device.properties.multiprocessor_count)
        self.tiles = (major, minor) >= TILES_FROM
        for kernel in kernels.values():
            _allow_shared(kernel, self.most_shared)
        self._kernels = kernels  # which hold the compiled code
        self._functions = {name: _checked(driver.cuKernelGetFunction(each.handle)) for name, each in kernels.items()}

    def launcher(self) -> Launch:
        """Launches on torch's current stream, which takes a while to ask for."""
        stream, functions, begin = torch.cuda.current_stream().cuda_stream, self._functions, self._driver.cuLaunchKernel

        def launch(name: str, grid: tuple[int, int], block: int, shared: int, *args: Argument) -> None:
            held = [_argument(each) for each in args]
            addresses = (ctypes.c_void_p * len(held))(*(ctypes.addressof(each) for each in held))
            where = ctypes.addressof(addresses)
            (error,) = begin(functions[name], *grid, 1, block, 1, 1, shared, stream, where, 0)
            if error:
                raise RuntimeError(f"the graphics card did not take {name}: {error}")

        return launch


def _argument(value: Argument) -> Any:
    """What a kernel takes, as the driver wants it."""
    if isinstance(value, Tensor):
        return ctypes.c_void_p(value.data_ptr())
    return ctypes.c_int(value) if isinstance(value, int) else ctypes.create_string_buffer(value, len(value))


def _allow_shared(kernel: Any, size: int) -> None:
    """Let a kernel have more memory on the chip than is usual."""
    from cuda.bindings import driver

    attribute = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
    (error,) = driver.cuKernelSetAttribute(attribute, size, kernel.handle, driver.cuCtxGetDevice()[1])
    assert error == driver.CUresult.CUDA_SUCCESS, error


def _checked(answer: tuple[Any, Any]) -> Any:
    """What the driver answers, where it is no error."""
    error, value = answer
    if error:
        raise RuntimeError(f"the graphics card refuses the kernels: {error}")
    return value


@lru_cache(8)
def cuda_kernels(constants: Constants, device: torch.device) -> CudaKernels:
    """The kernels for these readings, compiled once."""
    return CudaKernels(constants, device)
