"""Stability: would other texts single out the same heads?

Heads are ranked by a score on two sets of texts that share none; where the rankings agree, the score says something
about the head and not about the texts.
"""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from headscope.errors import HeadscopeError
from headscope.findings.resampling import of_weighted_sums
from headscope.measures.block_sums import BlockSums, View
from headscope.measures.derived import Array, ratio
from headscope.measures.quantities import QUANTITIES, shown_in

if TYPE_CHECKING:
    from headscope.result.result import Result

SPLITS = 60
MOST_GROUPS = 8  # compared two by two
AT_ONCE = 8  # subsets whose sums are kept in memory at a time
FEW_VALUES = 3  # heads that two sets must share before their order says anything


def scores_of(sums: BlockSums) -> list[str]:
    """The scores of heads that a result can give."""
    return [quantity.name for quantity in shown_in("heads", sums.stored)]


def head_sums(sums: BlockSums, name: str, tau: float) -> list[Array]:
    """What a score of heads is made of, with the blocks first."""
    view = View(sums, "head", tau)
    return [np.asarray(each, dtype=np.float64) for each in QUANTITIES[name].sums(view)]


def stability(result: Result, *, tau: float | None = None, splits: int = SPLITS, seed: int = 0) -> pd.DataFrame:
    """Agreement of two disjoint random halves of so many texts, for each score of heads and size of the halves.

    A row holds the score, the texts in each half, the median rank correlation over heads (Spearman's) and the middle
    95 % of it over random splits. "focal_token" gives the share of heads whose most frequent focal token is the same
    in both halves instead.
    """
    sums, at = result.blocks, result.tau(tau)
    if sums.blocks < 2:
        raise HeadscopeError("the texts are in one block and cannot be split", "analyse more texts, or smaller shards")
    pairs_of_subsets = {size: _splits(sums.blocks, size, splits, seed) for size in _sizes(sums.blocks)}
    rows: list[dict[str, Any]] = []
    for name in scores_of(sums):
        score_sums = head_sums(sums, name, at)
        for size, subsets in pairs_of_subsets.items():
            halves = [_score(name, score_sums, subset).reshape(len(subset), -1) for subset in subsets]
            agreement = np.array([rank_correlation(a, b) for a, b in zip(*halves, strict=True)])
            rows.append(_row(name, size, sums, agreement))
    best = focal_of_subsets(result, [subset for subsets in pairs_of_subsets.values() for subset in subsets])
    for place, size in enumerate(pairs_of_subsets):
        rows.append(_row("focal_token", size, sums, same_token(*best[2 * place : 2 * place + 2])))
    return pd.DataFrame(rows)


def by_groups(result: Result, *, tau: float | None = None, draws: int = SPLITS, seed: int = 0) -> pd.DataFrame:
    """The same between groups of texts: a row for each score and each two of the (at most eight) largest groups.

    The interval is that of a bootstrap over the blocks of each group; noise in both lowers agreement, so that its
    middle may lie below the agreement of the groups as they are.
    """
    sums, at = result.blocks, result.tau(tau)
    texts = dict.fromkeys(sums.groups, 0.0)
    for name, number in zip(sums.groups, sums.stored["texts"], strict=True):
        texts[name] += number
    names = sorted(texts, key=lambda name: -texts[name])[:MOST_GROUPS]
    if len(names) < 2:
        return pd.DataFrame(columns=["score", "group", "other", "agreement", "low", "high"])
    weights = {name: _group_draws(sums, name, draws, seed) for name in names}
    rows: list[dict[str, Any]] = []

    def add(score: str, a: str, b: str, agreement: Array) -> None:
        known = agreement[1:][np.isfinite(agreement[1:])]
        low, high = np.quantile(known, [0.025, 0.975]) if known.size else (np.nan, np.nan)
        rows.append({"score": score, "group": a, "other": b, "agreement": agreement[0], "low": low, "high": high})

    for score in scores_of(sums):
        score_sums = head_sums(sums, score, at)
        values = {name: _score(score, score_sums, own).reshape(len(own), -1) for name, own in weights.items()}
        for a, b in combinations(names, 2):
            pairs = zip(values[a], values[b], strict=True)
            add(score, a, b, np.array([rank_correlation(x, y) for x, y in pairs]))
    best = dict(zip(names, focal_of_subsets(result, list(weights.values())), strict=True))
    for a, b in combinations(names, 2):
        add("focal_token", a, b, same_token(best[a], best[b]))
    return pd.DataFrame(rows)


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


def focal_of_subsets(result: Result, subsets: list[Array]) -> list[NDArray[np.int64]]:
    """Each head's most frequent focal token, at the run's τ, in subsets of the blocks given as weights.

    (number, S) weights each to (number, heads) places among the result's tokens; -1 where there is none.
    """
    shards, blocks = result.shards, result.blocks.shards_of
    tokens_by_layer: list[list[NDArray[np.int64]]] = [[] for _ in subsets]
    for k in range(shards.sizes["layer"]):
        tokens = shards["focal_tokens"].isel(layer=k)
        counts = np.stack([tokens.isel(shard=list(block)).values.sum(0, dtype=np.float32) for block in blocks])
        for place, weights in enumerate(subsets):
            tokens_by_layer[place].append(of_weighted_sums(_most, weights.astype(np.float32), [counts], AT_ONCE))
    return [np.concatenate(parts, axis=1) for parts in tokens_by_layer]


def same_token(one: NDArray[np.int64], other: NDArray[np.int64]) -> Array:
    """The share of heads with the same token, line by line, of those that have one in both."""
    known = (one >= 0) & (other >= 0)
    return ratio(((one == other) & known).sum(-1), known.sum(-1))


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


def _score(name: str, sums: list[Array], weights: Array) -> Array:
    # A few at a time: they stay where the processor has them at hand.
    return of_weighted_sums(QUANTITIES[name].formula, weights, sums, AT_ONCE)


def _most(total: NDArray[Any]) -> NDArray[np.int64]:
    """The most frequent token of each head: (…, heads, tokens) to (…, heads)."""
    if not total.shape[-1]:
        return np.full(total.shape[:-1], -1)
    return np.where(total.any(-1), total.argmax(-1), -1)


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
    texts = round(float(sums.stored["texts"].mean()) * size)
    return {"score": name, "texts": texts, "agreement": middle, "low": low, "high": high}
