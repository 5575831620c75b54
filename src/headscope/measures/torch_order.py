"""The order of pairs within a window, and what is read from it: top pairs, contrasts, matched counts.

Shapes: H heads, P pairs, D bands of distance, 16 bins of order. Whatever has no heads is the same for all of them.
"""

from __future__ import annotations

import torch
from torch import Tensor

from headscope.measures.comparisons import COMPARED, CONTRASTED
from headscope.measures.order import FEWEST_FOR_TOP, LEAST_TOP
from headscope.measures.relations import UNRELATED


def order_bins(values: Tensor, sampled: Tensor, edge_places: Tensor) -> Tensor:
    """The bin of each pair by its order in the window: the number of edges below its value. (H, P) float32 to (H, P).

    `sampled` are the numbers of the pairs that set the edges, `edge_places` where the edges stand in their order.

    >>> n = torch.tensor
    >>> order_bins(n([[5.0, 1.0, 3.0, 3.0, 9.0]]), n([0, 1, 2]), n([1, 2])).tolist()
    [[1, 0, 0, 0, 2]]
    """
    edges = values[:, sampled].sort(1).values[:, edge_places].contiguous()  # (H, 15)
    return torch.searchsorted(edges, values.contiguous(), right=False)


def has_top(in_last: Tensor, pairs: int) -> Tensor:
    """Which heads have top pairs, given how many of a window's pairs are in the last bin of each: (H,).

    >>> has_top(torch.tensor([10, 4]), 160).tolist(), has_top(torch.tensor([10]), 159).tolist()
    ([True, False], [False])
    """
    return (in_last * LEAST_TOP >= pairs) & (pairs >= FEWEST_FOR_TOP)


def wins(one: Tensor, zero: Tensor) -> Tensor:
    """Wins of class 1 over class 0, from how many pairs of each are in which band and bin: (…, D, bins) to (…).

    In each band the share of comparisons in which the pair of class 1 is in the higher bin, ties half, times the weight
    n1·n0 / (n1 + n0).

    >>> wins(torch.tensor([[0, 1, 1]]), torch.tensor([[1, 1, 0]])).item()  # 3½ of 4 comparisons, with weight 1
    0.875
    """
    lower = zero.cumsum(-1) - zero  # pairs of class 0 in the bins below
    won = (one * lower).sum(-1).double() + (one * zero).sum(-1).double() / 2  # (…, D)
    return (won / (one + zero).sum(-1).clamp_min(1)).sum(-1)


def contrast_weight(one: Tensor, zero: Tensor) -> Tensor:
    """The sum over bands of n1·n0 / (n1 + n0): (…, D) twice to (…).

    >>> contrast_weight(torch.tensor([2, 0]), torch.tensor([2, 3])).item()
    1.0
    """
    return ((one * zero).double() / (one + zero).clamp_min(1)).sum(-1)


def contrasted(counts: Tensor) -> list[tuple[Tensor, Tensor]]:
    """Class 1 and class 0 of each contrast of relations, out of counts by relation: (relation, …) to twice (…).

    >>> [(one.item(), zero.item()) for one, zero in contrasted(torch.arange(8))]
    [(5, 7), (6, 7), (15, 7)]
    """
    return [(counts[list(ones)].sum(0), counts[UNRELATED]) for ones in CONTRASTED.values()]


def matched_counts(high: Tensor, pairs: Tensor) -> Tensor:
    """a and b of each comparison, after Mantel and Haenszel: (H, D, relation), (D, relation) to (H, comparison, 2).

    `high` are the high (or top) pairs of each head, `pairs` all pairs of the window.

    >>> high, pairs = torch.zeros(1, 1, 8), torch.zeros(1, 8)
    >>> high[0, 0, 5], pairs[0, 5], high[0, 0, 7], pairs[0, 7] = 2, 4, 1, 4  # 2 of 4 of one sentence, 1 of 4 unrelated
    >>> matched_counts(high, pairs)[0, 0].tolist()
    [1.0, 0.5]
    """
    high, pairs = high.double(), pairs.double()
    found = []
    for strata in COMPARED.values():
        sides = torch.zeros(len(high), 2, dtype=torch.float64, device=high.device)
        for ones, zeros in strata:
            n1, n0 = pairs[:, list(ones)].sum(-1), pairs[:, list(zeros)].sum(-1)  # (D,)
            k1, k0 = high[..., list(ones)].sum(-1), high[..., list(zeros)].sum(-1)  # (H, D)
            every = (n1 + n0).clamp_min(1)
            sides += torch.stack([(k1 * n0 / every).sum(-1), (k0 * n1 / every).sum(-1)], dim=-1)
        found.append(sides)
    return torch.stack(found, dim=1)
