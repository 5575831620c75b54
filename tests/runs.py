"""What the tests of runs share: texts, a short way to run, results held against each other, a run that stops."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import headscope
from headscope.runs.progress import Progress

PASSAGES = headscope.passages()
TEXTS = [p["text"][: 60 + 7 * k] for k, p in enumerate(PASSAGES[:24])]  # ragged
Tiny = Callable[[str], headscope.Model]


def run(model: Any, texts: Any, **options: Any) -> headscope.Result:
    return headscope.analyze(model, texts, **({"progress": False, "threads": 2, "batch_size": 4} | options))


def same_bytes(one: headscope.Result, other: headscope.Result) -> None:
    assert one.stacks == other.stacks
    for stack in one.stacks:
        a, b = one.stack(stack), other.stack(stack)
        for left, right in ((a.dataset, b.dataset), (a.by_block, b.by_block), (a.by_group, b.by_group)):
            assert set(left.variables) == set(right.variables)
            for name in left.variables:
                x, y = left[name].values, right[name].values
                assert x.dtype == y.dtype, name
                assert x.shape == y.shape, name
                assert (x.tolist() == y.tolist()) if x.dtype.kind not in "iufb" else x.tobytes() == y.tobytes(), name


def pairs_moved(one: headscope.Result, other: headscope.Result) -> tuple[int, int]:
    """How many pairs lie in different bins, and of how many."""
    a, b = (r.dataset.pairs.values for r in (one, other))
    # A pair that moves leaves one bin of its distance and relation and enters another.
    return int(np.abs(a - b).sum()) // 2, int(a.sum())


class Counting(Progress):
    def __init__(self) -> None:
        super().__init__()
        self.said: list[str] = []

    def say(self, message: str) -> None:
        self.said.append(message)


class StopAfter(Progress):
    """Fails after some shards, as a crash would."""

    def __init__(self, shards: int) -> None:
        super().__init__()
        self.after, self.said = shards, []

    def shard(self) -> None:
        super().shard()
        if self.shards_done == self.after:
            raise InterruptedError("stopped by the test")

    def say(self, message: str) -> None:
        self.said.append(message)


def stop_after(model: Any, texts: Any, out: Path, *, shards: int, **options: Any) -> None:
    with pytest.raises(InterruptedError):
        run(model, texts, out=out, progress=StopAfter(shards), **options)
