"""From head outputs to the similarity of pairs: S, levels and their bins.

Shapes: H heads, T tokens, P = pairs i < j of tokens that count, in the order of `pair_places`.
"""

from __future__ import annotations

import torch
from torch import Tensor

from headscope.choices import BINS

EDGES = torch.arange(BINS - 1, dtype=torch.float64) / (BINS - 1)  # lower edges of the bins 1 to 20


def similarity(outputs: Tensor, kind: str = "dot") -> Tensor:
    """S = O·Oᵀ with a zero diagonal, for each head: (…, T, d) to (…, T, T). A zero vector's cosine is 0.

    >>> similarity(torch.tensor([[1.0, 0.0], [2.0, 2.0]])).tolist()
    [[0.0, 2.0], [2.0, 0.0]]
    """
    if kind == "cosine":
        outputs = unit(outputs)
    matrix = outputs @ outputs.transpose(-1, -2)
    matrix.diagonal(dim1=-2, dim2=-1).zero_()
    return matrix


def unit(outputs: Tensor) -> Tensor:
    """Vectors of length 1, whose products are cosines; a zero vector stays zero.

    >>> unit(torch.tensor([[0.0, 4.0], [0.0, 0.0]])).tolist()
    [[0.0, 1.0], [0.0, 0.0]]
    """
    lengths: Tensor = outputs.norm(dim=-1, keepdim=True)
    return outputs / lengths.clamp_min(torch.finfo(outputs.dtype).tiny)


def pair_places(counting: Tensor) -> tuple[Tensor, Tensor]:
    """The places i < j of all pairs of tokens that count, row by row.

    >>> [places.tolist() for places in pair_places(torch.tensor([False, True, True, True]))]
    [[1, 1, 2], [2, 3, 3]]
    """
    places = counting.nonzero()[:, 0]
    first, second = torch.triu_indices(len(places), len(places), offset=1)
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
        return values, torch.ones(len(values), dtype=torch.bool)
    largest = values.amax(1, keepdim=True)  # (H, 1)
    level = values / largest if scale == "max" else mid_ranks(values) / values.shape[1]
    flat = largest[:, 0] <= 0
    level[flat] = torch.nan
    return level, flat


def mid_ranks(values: Tensor) -> Tensor:
    """Ranks from 1, row by row; equal values share the middle of their ranks.

    >>> mid_ranks(torch.tensor([[3.0, 1.0, 3.0]])).tolist()
    [[2.5, 1.0, 2.5]]
    """
    ordered = values.sort(dim=1).values
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
