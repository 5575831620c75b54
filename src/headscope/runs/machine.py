"""What kind of machine computes: on equal ones a run gives the same bytes, on unlike ones last digits may differ."""

from __future__ import annotations

import platform
from pathlib import Path

import torch


def kind_of_machine(device: torch.device) -> str:
    """The processor or graphics card that a model is on, and what torch makes of it.

    >>> kind_of_machine(torch.device("cpu")).startswith(platform.machine())
    True
    """
    if device.type == "cuda":
        return f"{torch.cuda.get_device_name(device)}, CUDA {torch.version.cuda}"
    instructions = torch.backends.cpu.get_cpu_capability()
    return f"{platform.machine()}, {_processor()}, {instructions}"


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
        return next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or "an unknown processor"
