"""What the tap hands over for one layer: the only type that crosses from a model into the rest of headscope."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, slots=True)
class Scores:
    """What attention is computed from: softmax over the tokens that may be read of queries · keys · scaling."""

    queries: Tensor  # (B, H, Tq, d)
    keys: Tensor  # (B, Hkv, Tk, d); Hkv divides H
    scaling: float


@dataclass(frozen=True, slots=True)
class LayerHeads:
    """What every head of one layer read and wrote, for a batch.

    `outputs` holds O = A·V of each query head, before the heads are concatenated and projected. `weights`, `values` and
    `scores` are there only when they were asked for. `readable` tells which tokens a token may read; None means all of
    them. The tensors are the model's own, not copies: copy what must outlive the forward pass.

    >>> import torch
    >>> pair = torch.tensor([1.0, 2.0]).view(1, 2, 1, 1)  # two values, shared by four query heads
    >>> heads = LayerHeads("decoder", 0, "attn", outputs=torch.zeros(1, 4, 1, 1), values=pair)
    >>> heads.values_of_heads.flatten().tolist()
    [1.0, 1.0, 2.0, 2.0]
    """

    stack: str  # "encoder", "decoder" or "cross"
    layer: int  # counted from 0 within its stack, in the order of the calls
    module: str  # the attention module's name within the model
    outputs: Tensor  # (B, H, Tq, d)
    weights: Tensor | None = None  # (B, H, Tq, Tk)
    values: Tensor | None = None  # (B, Hkv, Tk, d); Hkv divides H
    readable: Tensor | None = None  # bool, broadcasts to (B, H, Tq, Tk)
    scores: Scores | None = None

    @property
    def values_of_heads(self) -> Tensor:
        """What each query head mixes, (B, H, Tk, d): heads of a group mix the same. A copy where there are groups."""
        assert self.values is not None, "the tap was not asked for values"
        shared = self.outputs.shape[1] // self.values.shape[1]
        return self.values if shared == 1 else self.values.repeat_interleave(shared, dim=1)
