"""Stability: would other texts single out the same heads?

Heads are ranked by a score on two sets of texts that share none; where the rankings agree, the score says something
about the head and not about the texts.
"""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from headscope.errors import HeadscopeError
from headscope.findings.resampling import of_weighted_sums
from headscope.measures.block_sums import BlockSums
from headscope.measures.derived import Array
from headscope.measures.quantities import shown_in
from headscope.measures.quantity import Quantity
from headscope.measures.view import View

if TYPE_CHECKING:
    from headscope.result.result import Result

SPLITS = 60
MOST_GROUPS = 8  # compared two by two
FEW_VALUES = 3  # heads that two sets must share before their order says anything


def scores_of(sums: BlockSums, tau: float | None = None) -> list[Quantity]:
    """The scores of heads that a result can give."""
    return [each for each in shown_in("heads", sums.stored) if not each.lacking(View(sums, tau))]


def stability(result: Result, *, tau: float | None = None, splits: int = SPLITS, seed: int = 0) -> pd.DataFrame:
    """Agreement of two disjoint random halves of so many texts, for each score of heads and size of the halves.

    A row holds the score, the texts in each half, the median rank correlation over heads (Spearman's) and the middle
    95 % of it over random splits.
    """
    sums = result.blocks
    if sums.blocks < 2:
        raise HeadscopeError(
            "the texts are in one block and cannot be split", "analyse more texts, or use smaller shards"
        )
    halves_by_size = {size: _splits(sums.blocks, size, splits, seed) for size in _sizes(sums.blocks)}
    rows: list[dict[str, Any]] = []
    for score in scores_of(sums, tau):
        score_sums = score.sums(View(sums, tau))
        for size, halves in halves_by_size.items():
            one, other = (_values(score, score_sums, sums, weights) for weights in halves)
            agreement = np.array([rank_correlation(a, b) for a, b in zip(one, other, strict=True)])
            rows.append(_row(score.name, size, sums, agreement))
    return pd.DataFrame(rows)


def by_groups(result: Result, *, tau: float | None = None, draws: int = SPLITS, seed: int = 0) -> pd.DataFrame:
    """The same between groups of texts: a row for each score and each two of the (at most eight) largest groups.

    The interval is that of a bootstrap over the blocks of each group; noise in both lowers agreement, so that its
    middle may lie below the agreement of the groups as they are.
    """
    sums = result.blocks
    texts = dict.fromkeys(sums.groups, 0.0)
    for name, number in zip(sums.groups, sums.texts, strict=True):
        texts[name] += number
    names = sorted(texts, key=lambda name: -texts[name])[:MOST_GROUPS]
    rows: list[dict[str, Any]] = []
    weights = {name: _group_draws(sums, name, draws, seed) for name in names}
    for score in scores_of(sums, tau) if len(names) > 1 else []:
        score_sums = score.sums(View(sums, tau))
        values = {name: _values(score, score_sums, sums, own) for name, own in weights.items()}
        for a, b in combinations(names, 2):
            agreement = np.array([rank_correlation(x, y) for x, y in zip(values[a], values[b], strict=True)])
            known = agreement[1:][np.isfinite(agreement[1:])]
            low, high = np.quantile(known, [0.025, 0.975]) if known.size else (np.nan, np.nan)
            rows.append(
                {"score": score.name, "group": a, "other": b, "agreement": agreement[0], "low": low, "high": high}
            )
    return pd.DataFrame(rows, columns=["score", "group", "other", "agreement", "low", "high"])


def rank_correlation(one: Array, other: Array) -> float:
    """Spearman's rank correlation over the heads that both sets have a score of.

    >>> rank_correlation(np.array([1.0, 2.0, 3.0, np.nan]), np.array([10.0, 20.0, 15.0, 1.0]))
    0.5
    """
    from scipy.stats import rankdata

    known = np.isfinite(one) & np.isfinite(other)
    if known.sum() < FEW_VALUES:
        return float("nan")
    a, b = rankdata(one[known]), rankdata(other[known])
    if a.std() == 0 or b.std() == 0:
        return float("nan")
    return round(float(np.corrcoef(a, b)[0, 1]), 12)


def _values(score: Quantity, score_sums: tuple[Array, ...], sums: BlockSums, weights: Array) -> Array:
    """The scores of all heads in subsets of the blocks, given as weights: (number, S) to (number, heads)."""
    values = of_weighted_sums(score.formula, weights, score_sums)
    return score.heads_of(values, list(range(len(sums.layers))), sums)


def _sizes(blocks: int) -> list[int]:
    """Blocks in each half: 1, 2, 4, … and half of all."""
    sizes = [2**k for k in range(12) if 2**k < blocks // 2]
    return [*sizes, blocks // 2]


def _splits(blocks: int, size: int, number: int, seed: int) -> tuple[Array, Array]:
    """Random pairs of disjoint subsets, as weights: twice (number, blocks)."""
    rng = np.random.default_rng([seed, size])
    halves = np.zeros((2, number, blocks))
    for k in range(number):
        order = rng.permutation(blocks)
        halves[0, k, order[:size]] = 1
        halves[1, k, order[size : 2 * size]] = 1
    return halves[0], halves[1]


def _group_draws(sums: BlockSums, name: str, draws: int, seed: int) -> Array:
    """The blocks of a group as they are, and so many bootstrap draws of them: (1 + draws, S) weights."""
    own = np.array([group == name for group in sums.groups])
    number = int(own.sum())
    weights = np.zeros((1 + draws, sums.blocks))
    weights[0, own] = 1
    weights[1:, own] = np.random.default_rng([seed, number]).multinomial(number, np.full(number, 1 / number), draws)
    return weights


def _row(name: str, size: int, sums: BlockSums, agreement: Array) -> dict[str, Any]:
    known = agreement[np.isfinite(agreement)]
    low, middle, high = (*np.quantile(known, [0.025, 0.5, 0.975]),) if known.size else (np.nan,) * 3
    texts = round(float(sums.texts.mean()) * size)
    return {"score": name, "texts": texts, "agreement": middle, "low": low, "high": high}
