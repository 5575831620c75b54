"""What the attention maps say: how much a token receives against an even spread, and how alike A and S are."""

from __future__ import annotations

import torch
from torch import Tensor

from headscope.errors import HeadscopeError


def even_received(readable: Tensor | None, queries: int, keys: int) -> Tensor:
    """What each key would receive if every query spread 1 evenly over the tokens it may read: (keys,) float64.

    >>> even_received(None, 2, 2).tolist(), even_received(torch.ones(2, 2).tril() > 0, 2, 2).tolist()
    ([1.0, 1.0], [1.5, 0.5])
    """
    if readable is None:
        return torch.full((keys,), queries / keys, dtype=torch.float64)
    allowed = readable.expand(queries, keys).double()  # (Tq, Tk)
    return (allowed / allowed.sum(1, keepdim=True).clamp_min(1)).sum(0)


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
    found = (x * y).sum(1) / (x.square().sum(1) * y.square().sum(1)).sqrt()
    return found.masked_fill(constant, 0.0)


def check_theta(theta: float) -> None:
    """θ is a share of the largest attention received."""
    if not 0 <= theta < 1:
        raise HeadscopeError(f"θ is {theta}", "use a number from 0 up to but not including 1")
