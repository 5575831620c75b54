"""A result made up of synthetic sums: what figures, findings and tables ask of one, without a model or a file."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

import synthetic
from headscope.choices import Choices
from headscope.measures.block_sums import BlockSums
from headscope.shortcuts import ResultShortcuts


class MadeUpResult(ResultShortcuts):
    """Synthetic sums that pass for a result."""

    def __init__(self, sums: BlockSums, control: str | None = None, name: str = "made/up") -> None:
        self.blocks, self.name, self.kept, self.selected, self.row_sources = sums, "encoder", {}, False, ()
        self._folder = tempfile.TemporaryDirectory()  # what is kept beside a result goes there
        self.file = Path(self._folder.name) / "result.nc"
        self.file.write_bytes(repr((control, sums.layers, sums.stored["wins"].tobytes())).encode())
        self.settings: dict[str, Any] = Choices(readings=sums.readings).as_dict() | {  # type: ignore[arg-type]
            "layers": None, "dtype": "float32", "relations": {}, "control": control,
        }  # fmt: skip
        words = "" if control is None else f" ({control})"
        trained = control in (None, "rotated")
        self.model = {"name": f"{name}{words}", "weights": "trained" if trained else str(control), "config": "2"}
        self.texts = {"name": "texts", "texts": int(sums.texts.sum()), "bad": 0, "refused": 0}
        self.attrs = {"headscope": "0"}
        self.readings, self.groups = sums.readings, list(dict.fromkeys(sums.groups))
        layers, heads = list(sums.layers), np.arange(sums.heads)
        self.dataset = xr.Dataset({"texts": float(sums.texts.sum())}, {"layer": layers, "head": heads})

    def tau(self, tau: float | None) -> float:
        return 0.5 if tau is None else tau


def made_up(**options: Any) -> MadeUpResult:
    """A small result; options are those of `synthetic.block_sums`."""
    return MadeUpResult(synthetic.block_sums(**{"blocks": 12, "layers": 6, "heads": 5, "length": 24} | options))


def control_of(control: str, **options: Any) -> MadeUpResult:
    """A control run beside it."""
    options = {"blocks": 10, "layers": 6, "heads": 5, "length": 24, "seed": len(control) + ord(control[-1])} | options
    return MadeUpResult(synthetic.block_sums(**options), control)
