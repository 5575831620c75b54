"""Measuring: one interface, behind which the sums of the method are made, wherever the tensors are.

An accumulator takes the windows of a batch, then the layers as the tap yields them, and in the end gives its sums.
Moving tensors, products of outputs and even attention are its own business. `torch_accumulator` reads like the
method's definitions, `compiled_accumulator` is fast on a CPU; all pass the same tests (tests/test_accumulators.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from headscope.errors import HeadscopeError
from headscope.measures.columns import RowTable
from headscope.measures.variables import Array, Sums, Variable
from headscope.tap import LayerHeads
from headscope.windows import WindowBatch


class LayerSink(Protocol):
    """One batch on its way through the model."""

    def layer(self, heads: LayerHeads) -> None:
        """Take in what one layer read and wrote; the tensors may be gone after the call."""

    def finish(self) -> None:
        """All layers were taken in: add what needs them all. Called once, one batch at a time and in their order."""


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
        """Every variable of every stack, under its name. `focal_tokens` comes as rows: layer, head, token, number.

        Numbers that are not finite are an error (`NotFinite`): in `layer`, or here at the latest.
        """

    def close(self) -> None:
        """Let go of threads and memory; the sums stay."""


class NotFinite(HeadscopeError):  # noqa: N818 - it says what the numbers are
    """A model gave NaN or infinite numbers: nothing of the sums can be trusted."""

    def __init__(self, stack: str, layer: int) -> None:
        super().__init__(f"there are NaN or infinite numbers in {stack} layer {layer}", "check the model's weights")
        self.stack, self.layer = stack, layer


class BatchTokens(Protocol):
    """The tokens of a batch of windows, padded to the longest, as a variable's own `fill` function sees them."""

    @property
    def lengths(self) -> NDArray[np.int64]:
        """How many tokens each window has: (B,)."""

    @property
    def category(self) -> NDArray[np.int64]:
        """Category of each token, a place in CATEGORIES: (B, T)."""

    @property
    def counting(self) -> NDArray[np.bool_]:
        """Which tokens count: (B, T)."""


@dataclass
class LayerBatch:
    """One layer of a batch, as a variable's own `fill` function sees it: B windows, H heads, T tokens with padding.

    The first `queries.lengths[b]` tokens of window b are its own, the rest is padding, whatever it holds.
    """

    heads: LayerHeads
    products: NDArray[np.float32]  # (B, H, T, T): O·Oᵀ, with its diagonal, whatever the readings
    weights: NDArray[np.float32]  # (B, H, Tq, Tk)
    even: NDArray[np.float64]  # (B, Tk): what each key would receive if everybody read evenly
    queries: BatchTokens
    keys: BatchTokens

    @cached_property
    def norms(self) -> NDArray[np.float64]:
        """|O_i|² of every token, 0 for padding: (B, H, T)."""
        tokens = np.arange(self.products.shape[-1]) < self.queries.lengths[:, None]  # (B, T)
        return np.where(tokens[:, None], np.diagonal(self.products, axis1=-2, axis2=-1), 0.0).astype(np.float64)


def fill_declared(
    declared: Iterable[Variable], sums: Mapping[str, Array], k: int, read: Callable[[], LayerBatch]
) -> None:
    """Have variables filled that were declared elsewhere, in the k-th layer of a stack's sums.

    `read` makes the layer as they see it; it is called only where there are any, for it may have to move tensors.
    """
    own = [(each, each.fill) for each in declared if each.fill is not None]
    if not own:
        return
    batch = read()
    for each, fill in own:
        fill(batch, np.moveaxis(sums[each.name], each.dims.index("layer"), 0)[k])
