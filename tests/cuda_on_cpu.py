"""The kernels of the graphics card, compiled for the CPU with cuda_on_cpu.h: the same source, slowly."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import tempfile
import threading
from functools import lru_cache
from pathlib import Path

import torch
from torch import Tensor

from headscope.measures.cuda.arguments import Constants
from headscope.measures.cuda.kernels import FILES, Argument, Launch, source

COMPILER = shutil.which("g++") or shutil.which("c++") or shutil.which("clang++")
MOST_THREADS = 64  # of a block: more would only wait for each other
WHOLE = ("attend", "by_tile", "level_tile", "match", "add_products", "add_parts")  # kernels that need all of theirs
HEADER = Path(__file__).parent / "cuda_on_cpu.h"
ENTRIES = Path(__file__).parent / "cuda_entries.h"


class CpuKernels:
    """Kernels on the CPU; blocks one after the other."""

    most_shared = 227 << 10
    processors = 5  # so that blocks have several windows
    tiles = True
    order = 0  # in which threads, warps and blocks take turns: as they are numbered, or drawn from this

    def __init__(self, constants: Constants) -> None:
        assert COMPILER is not None
        self._folder = tempfile.TemporaryDirectory(prefix="headscope-kernels-")  # gone when Python ends
        folder = Path(self._folder.name)
        parts = [f'#include "{HEADER}"', constants.declarations(), source(*FILES), f'#include "{ENTRIES}"\n']
        (folder / "kernels.cpp").write_text("\n".join(parts), "utf-8")
        options = ["-std=c++17", "-O1", "-ffp-contract=off", "-shared", "-fPIC"]
        command = [COMPILER, *options, "-o", "kernels.so", "kernels.cpp"]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        self._one_at_a_time = threading.Lock()
        self._library = ctypes.CDLL(str(folder / "kernels.so"))

    def launcher(self) -> Launch:
        """Nothing is to be asked for beforehand."""
        return self.launch

    def launch(self, name: str, grid: tuple[int, int], block: int, shared: int, *args: Argument) -> None:
        """Run one to its end."""
        assert shared <= self.most_shared
        own = [ctypes.c_void_p(each.data_ptr()) if isinstance(each, Tensor) else each for each in args]
        with self._one_at_a_time:
            threads = block if name in WHOLE else min(block, MOST_THREADS)
            self._library.set_order(self.order)
            wrong = getattr(self._library, f"run_{name}")(*grid, threads, shared, *own)
        assert wrong != 1, f"{name} wrote past the {shared} bytes that it was given"
        assert wrong != 2, f"{name} moves sixteen bytes that do not begin at a multiple of sixteen"


@lru_cache(8)
def _made(constants: Constants) -> CpuKernels:
    return CpuKernels(constants)


def cpu_kernels(constants: Constants, device: torch.device) -> CpuKernels:
    """The kernels for these readings, compiled once."""
    assert device.type == "cpu"
    return _made(constants)
