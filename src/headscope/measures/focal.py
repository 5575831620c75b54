"""The focal token of a head: the one that is most often in its high pairs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import torch
from torch import Tensor

from headscope.choices import BINS


def focal(high: Tensor, first: Tensor, second: Tensor, same: Tensor) -> tuple[Tensor, Tensor]:
    """Each head's focal token and its share of the high pairs.

    `high` is (H, P); `same` numbers the tokens by id, in the order of their first counting position, so that among
    equals the earliest is taken; -1 for tokens that do not count. Returns the number, -1 where a head has no high
    pair, and the share, (H,) each.

    >>> n = torch.tensor
    >>> token, share = focal(n([[True, True, False]]), n([0, 0, 1]), n([1, 2, 2]), n([0, 1, 2]))
    >>> token.tolist(), share.tolist()
    ([0], [1.0])
    """
    heads, kinds = len(high), int(same.max()) + 1 if len(same) else 0
    count = high.sum(1)  # (H,)
    if not kinds or not high.shape[1]:
        return torch.full((heads,), -1), torch.zeros(heads, dtype=torch.float64)
    weight = high.double()
    times = torch.zeros(heads, kinds, dtype=torch.float64)  # each pair counts for both of its tokens
    times.index_add_(1, same[first], weight)
    times.index_add_(1, same[second], weight)
    token = torch.where(count > 0, times.argmax(1), -1)  # argmax takes the first of equals
    holds = (same[first][None] == token[:, None]) | (same[second][None] == token[:, None])  # (H, P)
    share = (holds & high).sum(1).double() / count.clamp_min(1)
    return token, share


def focal_at_every_tau(bin_: Tensor, first: Tensor, second: Tensor, same: Tensor) -> tuple[Tensor, Tensor]:
    """The same for τ = 0.05, 0.10, … 0.95 at once, from the bins of the pairs, (H, P): (19, H) each.

    Each id is counted by bin, and by bin again where both tokens of a pair are it; a threshold is a sum over bins.

    >>> n = torch.tensor
    >>> token, share = focal_at_every_tau(n([[20, 11, 0]]), n([0, 0, 1]), n([1, 2, 2]), n([0, 1, 2]))
    >>> token[[8, 9, 10], 0].tolist(), share[9, 0].item()
    ([0, 0, 0], 1.0)
    """
    heads, kinds, steps = len(bin_), int(same.max()) + 1 if len(same) else 0, BINS - 2
    if not kinds or not bin_.shape[1]:
        return torch.full((steps, heads), -1), torch.zeros(steps, heads, dtype=torch.float64)
    first_id, second_id = same[first], same[second]  # (P,)
    row = torch.arange(heads)[:, None] * BINS + bin_  # (H, P)

    def counted(cell: Tensor) -> Tensor:
        """How often each (head, bin, id) occurs, summed from the highest bin down: (H, 19, K)."""
        times = torch.bincount(cell.flatten(), minlength=heads * BINS * kinds).view(heads, BINS, kinds)
        return times.flip(1).cumsum(1).flip(1)[:, 2:]

    twice = first_id == second_id
    times = counted(row * kinds + first_id) + counted(row * kinds + second_id)
    both = counted(row[:, twice] * kinds + first_id[twice])
    number = times.sum(-1) // 2  # (H, 19): every pair was counted for both of its tokens
    best = times.argmax(-1)  # the first of equals
    holds = (times - both).gather(-1, best[..., None])[..., 0]
    token = torch.where(number > 0, best, -1)
    return token.T, (holds.double() / number.clamp_min(1)).T


def by_first_place(ids: Tensor, counting: Tensor) -> Tensor:
    """Number the ids of the counting tokens by where they first occur; -1 elsewhere.

    >>> by_first_place(torch.tensor([9, 5, 7, 5]), torch.tensor([False, True, True, True])).tolist()
    [-1, 0, 1, 0]
    """
    order: dict[int, int] = {}
    numbers = [order.setdefault(int(i), len(order)) if c else -1 for i, c in zip(ids, counting, strict=True)]
    return torch.tensor(numbers)


def expected_unique(ids: Iterable[int], heads: int) -> float:
    """How many different focal tokens there would be if every head drew one of the counting tokens at random.

    >>> expected_unique([5, 5, 7, 8], heads=2)
    1.625
    """
    counts = Counter(int(i) for i in ids)
    total = counts.total()
    return sum(1 - (1 - count / total) ** heads for count in counts.values())
