"""From head outputs to the similarity of pairs: S, levels and their bins.

Shapes: R readings, H heads, T tokens, P = pairs i < j of tokens that count, in the order of `pair_places`.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from headscope.choices import BINS
from headscope.errors import HeadscopeError

EDGES = torch.arange(BINS - 1, dtype=torch.float64) / (BINS - 1)  # lower edges of the bins 1 to 20


def readings(outputs: Tensor, values: Tensor | None, counting: Tensor, names: Sequence[str]) -> Tensor:
    """S of every head in each reading, in float32, with what would stand on its diagonal: (R, H, T, T).

    `outputs` are (H, T, d). `values` are (Hkv, T, d), where Hkv divides H; None where no reading needs them. `counting`
    (T,) are the tokens whose mean is taken from the outputs in the reading `centred`.

    >>> n = torch.tensor
    >>> readings(n([[[3.0, 0.0], [4.0, 4.0]]]), None, n([True, True]), ["dot", "cosine"])[:, 0, 0].tolist()
    [[9.0, 12.0], [1.0, 0.707...]]
    """
    outputs = outputs.float()

    def read(name: str) -> Tensor:
        if name == "dot":
            return products(outputs)
        if name == "cosine":
            return cosines(outputs)
        if name == "centred":
            return cosines(outputs - outputs[:, counting].sum(1, keepdim=True) / counting.sum())
        if values is None:
            raise HeadscopeError("the reading 'values' needs value vectors, and there are none", "leave it out")
        return of_query_heads(cosines(values.float()), len(outputs))

    return torch.stack([read(name) for name in names])


def products(vectors: Tensor) -> Tensor:
    """The product of every vector with every other: (…, T, d) to (…, T, T).

    >>> products(torch.tensor([[1.0, 0.0], [2.0, 2.0]])).tolist()
    [[1.0, 2.0], [2.0, 8.0]]
    """
    return vectors @ vectors.transpose(-1, -2)


def lengths(product: Tensor) -> Tensor:
    """n_i, the length of each vector, from its product with itself: (…, T, T) to (…, T)."""
    return root(product.diagonal(dim1=-2, dim2=-1))


def root(values: Tensor) -> Tensor:
    """Square roots in float32, rounded as they should be, which torch's own are not on every processor.

    >>> root(torch.tensor([9.0, 2.0])).tolist()
    [3.0, 1.4142135381698608]
    """
    return values.double().sqrt().float()


def cosines(vectors: Tensor) -> Tensor:
    """The cosine of every vector with every other, 0 for a zero vector: (…, T, d) to (…, T, T).

    >>> cosines(torch.tensor([[0.0, 4.0], [0.0, 0.0], [2.0, 2.0]])).tolist()
    [[1.0, 0.0, 0.707...], [0.0, 0.0, 0.0], [0.707..., 0.0, ...]]
    """
    product = products(vectors)
    n = lengths(product)
    both = n[..., :, None] * n[..., None, :]
    return torch.where(both == 0, torch.zeros_like(product), product / both)


def of_query_heads(grouped: Tensor, heads: int) -> Tensor:
    """What several query heads share, once for each of them: (Hkv, …) to (H, …).

    >>> of_query_heads(torch.tensor([5, 7]), 4).tolist()
    [5, 5, 7, 7]
    """
    return grouped.repeat_interleave(heads // len(grouped), dim=0)


def similarity(outputs: Tensor, kind: str = "dot") -> Tensor:
    """S by product or cosine with a zero diagonal, as it is looked at: (…, T, d) to (…, T, T).

    >>> similarity(torch.tensor([[1.0, 0.0], [2.0, 2.0]])).tolist()
    [[0.0, 2.0], [2.0, 0.0]]
    """
    matrix = cosines(outputs) if kind == "cosine" else products(outputs)
    matrix.diagonal(dim1=-2, dim2=-1).zero_()
    return matrix


def pair_places(counting: Tensor) -> tuple[Tensor, Tensor]:
    """The places i < j of all pairs of tokens that count, row by row.

    >>> [places.tolist() for places in pair_places(torch.tensor([False, True, True, True]))]
    [[1, 1, 2], [2, 3, 3]]
    """
    places = counting.nonzero()[:, 0]
    first, second = torch.triu_indices(len(places), len(places), offset=1, device=counting.device)
    return places[first], places[second]


def levels(pairs: Tensor, scale: str = "max") -> tuple[Tensor, Tensor]:
    """The level of each pair of each head, (H, P) float64, and which heads are flat, (H,).

    A flat head (its largest S is not positive, or it has no pairs) has no levels: NaN.

    >>> level, flat = levels(torch.tensor([[4.0, 2.0, -1.0], [-1.0, -2.0, -3.0]]))
    >>> level.tolist(), flat.tolist()
    ([[1.0, 0.5, -0.25], [nan, nan, nan]], [False, True])
    """
    values = pairs.double()
    if not values.shape[1]:
        return values, torch.ones(len(values), dtype=torch.bool, device=values.device)
    largest = values.amax(1, keepdim=True)  # (H, 1)
    # A graphics card divides by a tensor, but by a plain number it multiplies with the inverse, which rounds twice.
    level = values / largest if scale == "max" else mid_ranks(values) / values.new_tensor(values.shape[1])
    flat = largest[:, 0] <= 0
    level[flat] = torch.nan
    return level, flat


def mid_ranks(values: Tensor) -> Tensor:
    """Ranks from 1, row by row; equal values share the middle of their ranks.

    >>> mid_ranks(torch.tensor([[3.0, 1.0, 3.0]])).tolist()
    [[2.5, 1.0, 2.5]]
    """
    ordered = values.sort(dim=1).values.contiguous()
    below = torch.searchsorted(ordered, values, right=False)
    up_to = torch.searchsorted(ordered, values, right=True)
    return (below + up_to + 1).double() / 2


def bins(level: Tensor) -> Tensor:
    """The bin of each level, 0 to 20; a flat head's pairs (NaN) all go to bin 0.

    >>> bins(torch.tensor([-0.1, 0.0, 0.049, 0.05, 0.5, 1.0, float("nan")])).tolist()
    [0, 1, 1, 2, 11, 20, 0]
    """
    bin_ = torch.bucketize(level.double(), EDGES.to(level.device), right=True)
    return bin_.masked_fill(level.isnan(), 0)
