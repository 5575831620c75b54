"""One layer of a batch as the kernels take it: attention, or what it is computed from; products of vectors."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from headscope.measures.batch_index import TokenIndex
from headscope.measures.compiled_sums import StackSums
from headscope.measures.cuda.arguments import PRECISIONS, TILE
from headscope.models.plain import plain_attention, products
from headscope.tap import LayerHeads

LOW = (torch.bfloat16, torch.float16)  # precisions in which a product of two numbers is exact in float32


class LayerAttention(NamedTuple):
    """What one layer's heads read; see `POINTERS` in arguments.py."""

    weights: Tensor  # (B, H, T, Tk): as the model gave them, or room for what is computed
    values: Tensor | None  # (B, groups, Tk, width)
    queries: Tensor | None = None  # (B, H, T, width): where attention is computed from them
    score_keys: Tensor | None = None  # (B, groups, T, width)
    scaling: float = 0.0

    def laid_out(self) -> dict[str, int]:
        """Precisions and widths, and how far vectors lie from each other in memory; see `NUMBERS`."""
        own = laid_out(None, self.values, self.queries, self.score_keys)
        return own | {"weights_kind": PRECISIONS[self.weights.dtype]}


def laid_out(
    outputs: Tensor | None, values: Tensor | None, queries: Tensor | None, keys: Tensor | None
) -> dict[str, int]:
    """Precisions and widths of vectors, and how far they lie from each other in memory; see `NUMBERS`."""
    own = {"weights_kind": 0, "output_width": 0, "output_kind": 0, "value_groups": 1, "value_width": 0,
           "values_kind": 0, "key_groups": 1, "score_width": 0, "score_kind": 0}  # fmt: skip
    own |= _strides("output", "head", outputs) | _strides("query", "head", queries)
    own |= _strides("value", "group", values) | _strides("key", "group", keys)
    if outputs is not None:
        own |= {"output_width": outputs.shape[3], "output_kind": PRECISIONS[outputs.dtype]}
    if values is not None:
        own |= {"value_groups": values.shape[1], "value_width": values.shape[3]}
        own["values_kind"] = PRECISIONS[values.dtype]
    if keys is not None:
        own |= {"key_groups": keys.shape[1], "score_width": keys.shape[3], "score_kind": PRECISIONS[keys.dtype]}
    return own


def layer_attention(heads: LayerHeads) -> LayerAttention:
    """What the tap handed over, or room for attention that is computed."""
    values = None if heads.values is None else vectors_of(heads.values)
    if heads.weights is not None:
        return LayerAttention(_known(heads.weights).contiguous(), values)
    assert heads.scores is not None, "neither attention nor what it is computed from"
    own, keys = vectors_of(heads.scores.queries), vectors_of(heads.scores.keys)
    size, many, tokens, _ = own.shape
    if tokens > TILE or own.dtype not in LOW:  # where a variable that was declared elsewhere asks for whole maps
        weights = plain_attention(products(heads), heads.readable)
        if heads.readable is not None:  # who may read nothing reads nothing
            weights = weights.masked_fill(~heads.readable.any(-1, keepdim=True), 0.0)
        return LayerAttention(weights, values)
    assert tokens == keys.shape[2], "attention is computed where tokens read their own window"
    weights = torch.empty((size, many, tokens, tokens), dtype=torch.float32, device=own.device)
    return LayerAttention(weights, values, own, keys, heads.scores.scaling)


def layer_products(heads: LayerHeads, queries: TokenIndex, sums: StackSums) -> Tensor:
    """The product of every vector with every other: (sources, B, H, T, T), float32 whatever the model's precision."""
    parts = [_products(source, heads, queries, sums) for source in sums.sources]
    return parts[0][None] if len(parts) == 1 else torch.stack(parts)


def _products(source: str, heads: LayerHeads, queries: TokenIndex, sums: StackSums) -> Tensor:
    """Those of one source: (B, H, T, T)."""
    vectors = heads.outputs if source == "outputs" else sums.vectors(source, heads, queries)
    return exact_products(vectors, vectors)


def exact_products(left: Tensor, right: Tensor) -> Tensor:
    """Vectors times vectors in float32, whatever they are in: (B, H, rows, d) and (B, H, columns, d)."""
    if left.is_cuda and left.dtype in LOW:
        one, other = left.flatten(0, 1), right.flatten(0, 1)  # numbers with few digits: their products are exact
        product = torch.bmm(one, other.transpose(1, 2), out_dtype=torch.float32)
        return product.view(*left.shape[:3], right.shape[2])
    return left.float() @ right.float().transpose(-1, -2)


def _strides(name: str, part: str, vectors: Tensor | None) -> dict[str, int]:
    """How far vectors lie from each other, by window, head or group, and token."""
    names = (f"{name}_batch", f"{name}_{part}", f"{name}_token")
    return dict(zip(names, (0, 0, 0) if vectors is None else vectors.stride()[:3], strict=True))


def vectors_of(tensor: Tensor) -> Tensor:
    """Vectors in a precision that the kernels know, the numbers of each side by side."""
    tensor = _known(tensor)
    return tensor if tensor.stride(-1) == 1 else tensor.contiguous()


def _known(tensor: Tensor) -> Tensor:
    """A tensor in a precision that the kernels know."""
    return tensor if tensor.dtype in PRECISIONS else tensor.float()
