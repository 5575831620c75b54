"""What the attention maps say: of tokens against an even spread, and of pairs, which S can be held against.

Shapes: H heads, Tq tokens that read, Tk tokens that are read, C categories, P pairs.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from headscope.measures.similarity import root


def may_read(readable: Tensor | None, batch: int, queries: int, keys: int, device: torch.device) -> Tensor:
    """Which tokens a token may read, for every window of a padded batch: (B, Tq, Tk) bool.

    `readable` broadcasts to (B, H, Tq, Tk), and all heads share it; None means all tokens.

    >>> may_read(torch.ones(2, 2).tril() > 0, 1, 2, 2, torch.device("cpu")).tolist()
    [[[True, False], [True, True]]]
    """
    if readable is None:
        return torch.ones(1, 1, 1, dtype=torch.bool, device=device).expand(batch, queries, keys)
    heads = readable.shape[1] if readable.ndim > 3 else 1
    return readable.to(device).expand(batch, heads, queries, keys)[:, 0]


def even_attention(may: Tensor) -> Tensor:
    """U: each token spreads 1 evenly over the tokens it may read: (…, Tq, Tk) bool to float64.

    >>> even_attention(torch.ones(2, 2).tril() > 0).tolist()
    [[1.0, 0.0], [0.5, 0.5]]
    """
    return may.double() / may.sum(-1, keepdim=True).clamp_min(1)


def even_received(readable: Tensor | None, queries: int, keys: int) -> Tensor:
    """What each key would receive if every query spread 1 evenly over the tokens it may read: (keys,) float64.

    >>> even_received(None, 2, 2).tolist(), even_received(torch.ones(2, 2).tril() > 0, 2, 2).tolist()
    ([1.0, 1.0], [1.5, 0.5])
    """
    if readable is None:
        return torch.full((keys,), queries / keys, dtype=torch.float64)
    return even_attention(readable.expand(queries, keys)).sum(0)


def even_of_batch(readable: Tensor | None, queries: Sequence[int], keys: Sequence[int]) -> NDArray[np.float64]:
    """The same for each window of a padded batch: (B, Tk).

    >>> even_of_batch(torch.ones(2, 2).tril() > 0, [2], [2]).tolist()
    [[1.5, 0.5]]
    """
    size, tall, wide = len(queries), max(queries), max(keys)
    rows = torch.arange(tall)[None] < torch.tensor(queries)[:, None]  # (B, Tq)
    columns = torch.arange(wide)[None] < torch.tensor(keys)[:, None]  # (B, Tk)
    may = may_read(readable, size, tall, wide, torch.device("cpu"))
    return even_attention(may & rows[:, :, None] & columns[:, None, :]).sum(1).numpy()


def received(given: Tensor, even: Tensor) -> Tensor:
    """a: attention received (the sum over queries) over its even share, divided by its largest value: (H, Tk).

    >>> received(torch.tensor([[1.5, 0.5]], dtype=torch.float64), torch.tensor([1.0, 1.0])).tolist()
    [[1.0, 0.3333333333333333]]
    """
    if not given.shape[1]:
        return given
    share = torch.where(even > 0, given / even, 0.0)  # nobody may read it: it receives nothing
    largest = share.amax(1, keepdim=True)
    return torch.where(largest > 0, share / largest, 0.0)


def attended(received: Tensor, category: Tensor, thresholds: Tensor, categories: int) -> Tensor:
    """The number of high-attention tokens, a_j > θ, of each category: (H, Tk) and (Tk,) to (H, θ, C).

    >>> n = torch.tensor
    >>> attended(n([[1.0, 0.3, 0.4]]), n([1, 0, 1]), n([0.3]), 2).tolist()
    [[[0, 2]]]
    """
    high = received[:, None] > thresholds[:, None]  # (H, θ, Tk)
    return torch.stack([(high & (category == k)).sum(-1) for k in range(categories)], dim=-1)


def to_categories(per_key: Tensor, category: Tensor, categories: int, queries: int) -> Tensor:
    """The mean weight that a token which reads gives to each category: (…, Tk) column sums to (…, categories)."""
    return by_category(per_key.double(), category, categories) / queries


def by_category(per_key: Tensor, category: Tensor, categories: int) -> Tensor:
    """Sums over the tokens of each category: (…, Tk) to (…, C).

    >>> by_category(torch.tensor([1.0, 2.0, 4.0]), torch.tensor([1, 0, 1]), 3).tolist()
    [2.0, 5.0, 0.0]
    """
    return torch.stack([per_key[..., category == k].sum(-1) for k in range(categories)], dim=-1)


def weighted_shares(given: Tensor, length: Tensor, category: Tensor, categories: int) -> Tensor:
    """The share of each category in Σ_ij A_ij·|v_j|, 0 where nothing is carried: (H, Tk) twice to (H, C).

    >>> weighted_shares(torch.tensor([[1.0, 1.0]]), torch.tensor([[3.0, 1.0]]), torch.tensor([0, 1]), 2).tolist()
    [[0.75, 0.25]]
    """
    carried = by_category(given * length, category, categories)
    total = carried.sum(-1, keepdim=True)
    return torch.where(total > 0, carried / total, 0.0)


def entropy(weights: Tensor, may: Tensor) -> Tensor:
    """The mean, over tokens that may read two or more, of the entropy of their attention over the largest: (H,).

    >>> maps = torch.tensor([[[0.5, 0.5, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]]])
    >>> entropy(maps, torch.tensor([[True, True, False], [True, True, False], [False, False, True]])).tolist()
    [0.5]
    """
    reads = may.sum(1)  # (Tq,): how many i may read
    several = reads > 1
    if not several.any():
        return torch.zeros(len(weights), dtype=torch.float64, device=weights.device)
    own: Tensor = torch.special.entr(weights[:, several].double()).sum(-1)  # (H, those)
    return (own / reads[several].double().log()).mean(1)


def direct(weights: Tensor, may: Tensor, first: Tensor, second: Tensor) -> Tensor:
    """Do two tokens read each other? The mean of A_ij / U_ij and A_ji / U_ji over the directions that may be read.

    (H, T, T), (T, T) and twice (P,) to (H, P), float32; 0 where neither may read the other.

    >>> n = torch.tensor
    >>> direct(n([[[1.0, 0.0], [0.75, 0.25]]]), torch.ones(2, 2).tril() > 0, n([0]), n([1])).tolist()
    [[1.5]]
    """
    ratio = (weights * may.sum(1, keepdim=True)).masked_fill(~may, 0.0)  # A / U
    ways = may[first, second].float() + may[second, first].float()
    return (ratio[:, first, second] + ratio[:, second, first]) / ways.clamp_min(1)


def rows(weights: Tensor, first: Tensor, second: Tensor) -> Tensor:
    """Do two tokens read the same? Σ_k √(A_ik·A_jk): (H, T, T) and twice (P,) to (H, P), float32.

    >>> rows(torch.tensor([[[1.0, 0.0], [0.25, 0.75]]]), torch.tensor([0]), torch.tensor([1])).tolist()
    [[0.5]]
    """
    roots = root(weights)
    return (roots @ roots.transpose(-1, -2))[:, first, second]


def correlation(one: Tensor, other: Tensor) -> Tensor:
    """Pearson's correlation of two tables, head by head; 0 where either is constant: (H, P) twice to (H,).

    >>> correlation(torch.tensor([[1.0, 2.0, 3.0]]), torch.tensor([[2.0, 4.0, 6.0]])).tolist()
    [1.0]
    """
    if not one.shape[1]:
        return torch.zeros(len(one), dtype=torch.float64, device=one.device)
    constant = (one == one[:, :1]).all(1) | (other == other[:, :1]).all(1)
    x, y = one.double(), other.double()
    x, y = x - x.mean(1, keepdim=True), y - y.mean(1, keepdim=True)
    correlations = (x * y).sum(1) / (x.square().sum(1) * y.square().sum(1)).sqrt()
    return correlations.masked_fill(constant, 0.0)
