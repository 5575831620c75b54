"""Measuring: one interface, behind which the sums of the method are made, wherever the tensors are.

An accumulator takes the windows of a batch, then the layers as the tap yields them, and in the end gives its sums.
Moving tensors, products of outputs and even attention are its own business. `compiled_accumulator` is the first
implementation; every other one passes the same tests (tests/test_accumulators.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from headscope.measures.batch_index import BatchIndex
from headscope.measures.columns import RowTable
from headscope.measures.variables import Sums
from headscope.tap import LayerHeads
from headscope.windows import WindowBatch


class LayerSink(Protocol):
    """One batch on its way through the model."""

    def layer(self, heads: LayerHeads) -> None:
        """Take in what one layer read and wrote; the tensors may be gone after the call."""


class Accumulator(Protocol):
    """Makes the sums of a shard.

    Several batches may be open at once, each in a thread of its own. Calls of `begin`, and calls of `layer` for one
    and the same layer, come one at a time and in the order of the batches: so sums of floats are the same whatever the
    number of threads.
    """

    @property
    def rows(self) -> Mapping[str, RowTable]:
        """What each head did with each window, by stack; empty unless it was asked for."""

    def begin(self, batch: WindowBatch, first: int = 0) -> LayerSink:
        """Take in the windows of the next batch; `first` is the number of its first window, for the rows."""

    def sums(self) -> Sums:
        """Every variable of every stack, under its name. `focal_tokens` comes as rows: layer, head, token, number."""

    def close(self) -> None:
        """Let go of threads and memory; the sums stay."""


@dataclass
class LayerBatch:
    """One layer of a batch, as a variable's own `fill` function sees it: B windows, H heads, T tokens with padding.

    The first `queries.lengths[b]` tokens of window b are its own, the rest is padding, whatever it holds.
    """

    heads: LayerHeads
    products: NDArray[np.float32]  # (B, H, T, T): O·Oᵀ in the run's reading, with its diagonal
    weights: NDArray[np.float32]  # (B, H, Tq, Tk)
    even: NDArray[np.float64]  # (B, Tk): what each key would receive if everybody read evenly
    queries: BatchIndex
    keys: BatchIndex

    @cached_property
    def norms(self) -> NDArray[np.float64]:
        """|O_i|² of every token, 0 for padding: (B, H, T)."""
        tokens = np.arange(self.products.shape[-1]) < self.queries.lengths[:, None]  # (B, T)
        return np.where(tokens[:, None], np.diagonal(self.products, axis1=-2, axis2=-1), 0.0).astype(np.float64)
