"""What the attention maps say: how much a token receives against an even spread, and how alike A and S are."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor


def even_received(readable: Tensor | None, queries: int, keys: int) -> Tensor:
    """What each key would receive if every query spread 1 evenly over the tokens it may read: (keys,) float64.

    >>> even_received(None, 2, 2).tolist(), even_received(torch.ones(2, 2).tril() > 0, 2, 2).tolist()
    ([1.0, 1.0], [1.5, 0.5])
    """
    if readable is None:
        return torch.full((keys,), queries / keys, dtype=torch.float64)
    allowed = readable.expand(queries, keys).double()  # (Tq, Tk)
    return (allowed / allowed.sum(1, keepdim=True).clamp_min(1)).sum(0)


def even_of_batch(readable: Tensor | None, queries: Sequence[int], keys: Sequence[int]) -> NDArray[np.float64]:
    """The same for each window of a padded batch: (B, Tk).

    >>> even_of_batch(torch.ones(2, 2).tril() > 0, [2], [2]).tolist()
    [[1.5, 0.5]]
    """
    size, tall, wide = len(queries), max(queries), max(keys)
    rows = torch.arange(tall)[None] < torch.tensor(queries)[:, None]  # (B, Tq)
    columns = torch.arange(wide)[None] < torch.tensor(keys)[:, None]  # (B, Tk)
    allowed = rows[:, :, None] & columns[:, None, :]
    if readable is not None:
        while readable.ndim > 3:  # heads share what may be read
            readable = readable[:, 0]
        allowed = allowed & readable.cpu().expand(size, tall, wide)
    share = allowed.double() / allowed.sum(2, keepdim=True).clamp_min(1)
    return share.sum(1).numpy()


def received(given: Tensor, even: Tensor) -> Tensor:
    """a: attention received (the sum over queries) over its even share, divided by its largest value: (H, Tk).

    >>> received(torch.tensor([[1.5, 0.5]], dtype=torch.float64), torch.tensor([1.0, 1.0])).tolist()
    [[1.0, 0.3333333333333333]]
    """
    share = given / even
    return share / share.amax(1, keepdim=True)


def to_categories(per_key: Tensor, category: Tensor, categories: int, queries: int) -> Tensor:
    """The mean weight that a token which reads gives to each category: (…, Tk) column sums to (…, categories)."""
    table = torch.nn.functional.one_hot(category, categories).double()  # (Tk, C)
    return per_key.double() @ table / queries


def correlation(similarity: Tensor, attention: Tensor) -> Tensor:
    """Pearson's correlation of two (H, P) tables, head by head; 0 where either is constant.

    >>> correlation(torch.tensor([[1.0, 2.0, 3.0]]), torch.tensor([[2.0, 4.0, 6.0]])).tolist()
    [1.0]
    """
    if not similarity.shape[1]:
        return torch.zeros(len(similarity), dtype=torch.float64)
    constant = (similarity == similarity[:, :1]).all(1) | (attention == attention[:, :1]).all(1)
    x, y = similarity.double(), attention.double()
    x, y = x - x.mean(1, keepdim=True), y - y.mean(1, keepdim=True)
    correlations = (x * y).sum(1) / (x.square().sum(1) * y.square().sum(1)).sqrt()
    return correlations.masked_fill(constant, 0.0)
