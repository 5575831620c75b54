"""How purely a head finds repetitions: what the atlas is sorted by, where it is sorted by repetition preference.

The preference itself compares repetitions with unrelated pairs alone. A head that also finds every comma alike may have
a large one, and one of a few pairs too. Who sorts looks for heads that find repetitions and little else, so they stand
in the order of

    ((k + m p) / (n + m)) / p

where k of a head's n similar pairs are repetitions, and p is the share of repetitions among all pairs: what the share
among similar pairs is over chance, after m pairs that fall as by chance were added to each head. With few pairs that
pulls it to 1; with many it changes nothing.
"""

from __future__ import annotations

import numpy as np

from headscope.choices import FEW_PAIRS, THRESHOLDS, first_high_bin
from headscope.measures.block_sums import BlockSums
from headscope.measures.derived import Array, ratio
from headscope.measures.relations import BOTH, REPEATED
from headscope.measures.view import View

SORTED_BY_PURITY = "repetition_preference"
REPETITIONS = [BOTH, REPEATED]
ADDED = FEW_PAIRS  # m: a head with fewer pairs than this says little


def shrunken(repeated: Array, similar: Array, usual: Array) -> Array:
    """The share of repetitions among a head's similar pairs over the `usual` share, shrunken to 1; NaN without pairs.

    A head with 3 of 3 pairs stands far behind one with 300 of 310, and one with a single pair hardly leads at all:

    >>> n = np.array
    >>> shrunken(n([3.0, 300.0, 1.0, 0.0]), n([3.0, 310.0, 1.0, 0.0]), n(0.01)).round(1)
    array([23.8, 93.8, 10. ,  nan])
    """
    share = ratio(repeated + ADDED * usual, similar + ADDED)
    return np.where(similar > 0, ratio(share, np.broadcast_to(usual, share.shape)), np.nan)


def purity(high: Array, every: Array, *, described: bool = True) -> tuple[Array, Array]:
    """The shrunken ratio, and how many similar pairs are repetitions, from numbers of pairs by relation.

    `high`: similar pairs, (…, relation); `every`: all pairs, (relation,). Without words (`described` is false)
    repetitions are not told from other pairs.
    """
    repeated = high[..., REPETITIONS].sum(-1)
    if not described:
        return np.full(repeated.shape, np.nan), repeated
    return shrunken(repeated, high.sum(-1), ratio(every[REPETITIONS].sum(), every.sum())), repeated


def of_run(view: View) -> tuple[Array, Array]:
    """Of every head of a run: (L, H) each."""
    every = view.sums.base[0].sum((0, 1))  # (relation,)
    return purity(view.pairs().sum(0).sum(-2), every, described=view.sums.described)


def of_text(sums: BlockSums, reading: str) -> tuple[Array, Array]:
    """Of every head of one layer of a text, at every τ and last from the top pairs: (19 + 1, H) each."""
    by_level = sums.layer_pairs(0)[0].sum(-2, dtype=np.float64)  # (H, level, relation)
    at_least = np.flip(np.flip(by_level, 1).cumsum(1), 1)  # pairs of this level or a higher one
    at_tau = np.moveaxis(at_least[:, [first_high_bin(tau) for tau in THRESHOLDS]], 1, 0)  # (19, H, relation)
    top = View(sums, reading=reading).pairs().sum(0).sum(-2)  # (1, H, relation)
    return purity(np.concatenate([at_tau, top]), sums.base[0].sum((0, 1)), described=sums.described)
