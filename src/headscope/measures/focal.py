"""The focal token of a head: the id that is most often in its high pairs; and its null.

Shapes: H heads, P pairs, T tokens, K different ids among those that count, numbered by where they first occur.
"""

from __future__ import annotations

import torch
from torch import Tensor

from headscope.choices import BINS
from headscope.measures.relations import tally


def from_the_top(counts: Tensor) -> Tensor:
    """Counts by bin added up from the last bin down, so that entry b has what is in bin b or higher: (H, bins, …).

    >>> from_the_top(torch.tensor([[1, 2, 4]])).tolist()
    [[7, 6, 4]]
    """
    return counts.flip(1).cumsum(1).flip(1)


def degrees(bin_: Tensor, first: Tensor, second: Tensor, bins: int, tokens: int) -> Tensor:
    """How many pairs in bin b or higher each token is in, for every b: (H, P) and twice (P,) to (H, bins, T).

    >>> n = torch.tensor
    >>> degrees(n([[2, 1, 0]]), n([0, 0, 1]), n([1, 2, 2]), 3, 3)[0].tolist()
    [[2, 2, 2], [2, 1, 1], [1, 1, 0]]
    """
    return from_the_top(tally((bin_, bins), (first, tokens)) + tally((bin_, bins), (second, tokens)))


def sums_by_id(degree: Tensor, same: Tensor) -> Tensor:
    """The degrees of each id's tokens added up: (…, T) to (…, K).

    `same` (T,) numbers the tokens by id; -1 for tokens that do not count.

    >>> sums_by_id(torch.tensor([9, 1, 2, 4]), torch.tensor([-1, 0, 1, 0])).tolist()
    [5, 2]
    """
    counting = same >= 0
    kinds = int(same.max()) + 1 if len(same) else 0
    sums = degree.new_zeros(*degree.shape[:-1], kinds)
    return sums.index_add_(-1, same[counting], degree[..., counting])


def focal(sums: Tensor) -> Tensor:
    """The number of the id with the largest sum of degrees, the earliest among equals; -1 without high pairs.

    (…, K) to (…).

    >>> focal(torch.tensor([[1, 3, 3], [0, 0, 0]])).tolist()
    [1, -1]
    """
    if not sums.shape[-1]:
        return sums.sum(-1) - 1
    return sums.argmax(-1).masked_fill(sums.amax(-1) == 0, -1)  # argmax takes the first of equals


def focal_of_null(sums: Tensor, source: Tensor) -> Tensor:
    """The focal token where ids that occur equally often have exchanged their sums: (H, …, K) to (H, …).

    `source` (H, K) tells for each id whose sum it takes over.

    >>> focal_of_null(torch.tensor([[1, 3, 2]]), torch.tensor([[1, 0, 2]])).tolist()
    [0]
    """
    source = source.view(len(source), *(1,) * (sums.ndim - 2), -1)
    return focal(sums.gather(-1, source.expand(sums.shape)))


def pairs_with(sums: Tensor, bin_: Tensor, first: Tensor, second: Tensor, same: Tensor) -> Tensor:
    """How many pairs in bin b or higher contain each id: its sum of degrees, less the pairs that hold it twice.

    `sums` (H, bins, K) are those of every b.

    >>> n = torch.tensor
    >>> pairs_with(n([[[3, 1], [2, 0]]]), n([[1, 0]]), n([0, 0]), n([1, 2]), n([0, 0, 1])).tolist()
    [[[2, 1], [1, 0]]]
    """
    bins, kinds = sums.shape[1:]
    twice = same[first] == same[second]
    return sums - from_the_top(tally((bin_[:, twice], bins), (same[first[twice]], kinds)))


def of_focal(by_id: Tensor, number: Tensor) -> Tensor:
    """An entry of each row, that of the focal id; 0 where there is none: (…, K) and (…) to (…).

    >>> of_focal(torch.tensor([[5, 6], [7, 8]]), torch.tensor([1, -1])).tolist()
    [6, 0]
    """
    if not by_id.shape[-1]:
        return torch.zeros_like(number)
    return by_id.gather(-1, number.clamp_min(0)[..., None])[..., 0].masked_fill(number < 0, 0)


def different(numbers: Tensor) -> Tensor:
    """How many different focal tokens the heads have: (…, H) to (…).

    >>> different(torch.tensor([[4, 2, 4], [-1, -1, 0]])).tolist()
    [2, 1]
    """
    ordered = numbers.sort(-1).values
    new = torch.ones_like(ordered, dtype=torch.bool)
    new[..., 1:] = ordered[..., 1:] != ordered[..., :-1]
    return (new & (ordered >= 0)).sum(-1)


def focal_at_every_tau(bin_: Tensor, first: Tensor, second: Tensor, same: Tensor) -> tuple[Tensor, Tensor]:
    """Each head's focal token and its share of the high pairs at τ = 0.05, 0.10, … 0.95, from the pairs' bins, (H, P).

    Gives the number of the token in `same`, -1 where a head has no high pair, and the share: (19, H) each.

    >>> n = torch.tensor
    >>> token, share = focal_at_every_tau(n([[20, 11, 0]]), n([0, 0, 1]), n([1, 2, 2]), n([0, 1, 2]))
    >>> token[[8, 9, 10], 0].tolist(), share[9, 0].item()
    ([0, 0, 0], 1.0)
    """
    sums = sums_by_id(degrees(bin_, first, second, BINS, len(same)), same)  # (H, 21, K)
    number = from_the_top(tally((bin_, BINS)))[:, 2:]  # (H, 19) high pairs
    token = focal(sums)[:, 2:]
    holds = of_focal(pairs_with(sums, bin_, first, second, same)[:, 2:], token)
    return token.T, (holds.double() / number.clamp_min(1)).T


def by_first_place(ids: Tensor, counting: Tensor) -> Tensor:
    """Number the ids of the counting tokens by where they first occur; -1 elsewhere.

    >>> by_first_place(torch.tensor([9, 5, 7, 5]), torch.tensor([False, True, True, True])).tolist()
    [-1, 0, 1, 0]
    """
    order: dict[int, int] = {}
    numbers = [order.setdefault(i, len(order)) if c else -1 for i, c in zip(ids.tolist(), counting, strict=True)]
    return torch.tensor(numbers)
