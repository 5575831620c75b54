"""What a training run leaves on disk: the state from which it goes on, and its log.

RUN/state.pt  weights, optimizer, and how far training is
RUN/log.csv   the loss curve
"""

import csv
import os
import pickle
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch

from conventions import InputError
from model import Bert

COLUMNS = (
    "step",
    "tokens",
    "epochs",
    "train_seconds",
    "lr",
    "train_loss",
    "grad_norm",
    "valid_loss",
    "valid_accuracy",
    "tokens_per_second",
)


@dataclass
class Progress:
    """How far a run is."""

    step: int = 0
    spent: float = 0.0  # seconds in training steps
    kept: list[float] = field(default_factory=list)  # checkpoints written, in per cent of training


def save_state(path: Path, model: Bert, optimizer: torch.optim.Optimizer, progress: Progress) -> None:
    """Write the state beside its place, then move it there: a kill meanwhile leaves the old state whole."""
    state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), **asdict(progress)}
    temporary = path.with_name(f"{path.name}.tmp")
    torch.save(state, temporary)
    os.replace(temporary, path)


def load_state(path: Path, model: Bert, optimizer: torch.optim.Optimizer, device: str) -> Progress:
    """Put a saved state into model and optimizer. Only tensors and plain values are read, never code."""
    try:
        state = torch.load(path, map_location=device, weights_only=True)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        return Progress(state["step"], state["spent"], state["kept"])
    except (pickle.UnpicklingError, RuntimeError, EOFError, KeyError, ValueError) as error:
        reason = " ".join(str(error).split())[:200]  # some of these messages fill a page
        raise InputError(f"{path}: not the state of a run with these arguments ({reason})") from error


class Log:
    """The loss curve, a row per report.

    Rows beyond the step of the saved state come from a call that was killed before it saved. They are
    dropped: those steps are trained again.
    """

    def __init__(self, path: Path, step: int) -> None:
        rows: list[dict[str, Any]] = []
        if step > 0 and path.exists():
            with path.open(newline="", encoding="utf-8") as file:
                rows = [row for row in csv.DictReader(file) if int(row["step"]) <= step]
        self._path = path
        with path.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)

    def write(self, **row: int | str) -> None:
        with self._path.open("a", newline="", encoding="utf-8") as file:
            csv.DictWriter(file, COLUMNS, lineterminator="\n").writerow(row)
