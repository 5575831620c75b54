"""One head of a run over distance, at every τ and through the top pairs of each reading.

Pairs are kept by band of distance, so curves are over bands.
"""

from __future__ import annotations

from collections import OrderedDict

import numpy as np
from numpy.typing import NDArray

from headscope.choices import BINS
from headscope.findings.resampling import Resampling
from headscope.measures.block_sums import BlockSums
from headscope.measures.derived import Array, ratio
from headscope.measures.relations import REPEATED, UNRELATED
from headscope.measures.view import WITHIN

ACROSS = (REPEATED, UNRELATED)  # the relations of two words of different sentences
STEPS = BINS - 2  # thresholds: τ = 1/20, 2/20, … 19/20
LAYERS_KEPT = 2  # whose pairs are in memory


class Curves:
    """Where a head's similar pairs lie, and how likely pairs within and across sentences are to be similar.

    W ways: the 19 thresholds, then the readings. B bands.
    """

    def __init__(self, sums: BlockSums, resample: Resampling) -> None:
        self.sums, self.resample = sums, resample
        self._layers: OrderedDict[int, Array] = OrderedDict()
        self.every = _classes(sums.base[0])  # (S, B, 3)

    @property
    def base(self) -> list[float]:
        """The share of all pairs in each band: (B,)."""
        number = self.every[..., 0].sum(0)
        return [float(each) for each in number / max(float(number.sum()), 1.0)]

    def of_head(self, k: int, h: int) -> dict[str, NDArray[np.float32]]:
        """Three curves with their intervals, (3, W, B) each, for the k-th kept layer: value, low, high.

        `distance`: shares of the similar pairs. `within`, `across`: share of all such pairs that are similar.
        """
        high = self._of_layer(k)[:, h]  # (S, W, B, 3)
        shares = self.resample(_shares, high[..., 0])
        curves = {"distance": shares}
        for place, name in ((1, "within"), (2, "across")):
            every = self.every[:, None, :, place]  # (S, 1, B)
            curves[name] = self.resample(ratio, high[..., place], np.broadcast_to(every, high.shape[:-1]))
        return {
            name: np.stack([each.value, np.maximum(each.low, 0), np.minimum(each.high, 1)]).astype(np.float32)
            for name, each in curves.items()
        }

    def _of_layer(self, k: int) -> Array:
        """Similar pairs of a layer's heads in every way, by class: (S, H, W, B, 3)."""
        if k not in self._layers:
            pairs = _classes(self.sums.layer_pairs(k))  # (S, H, level, B, 3)
            from_bin = np.flip(np.flip(pairs, 2).cumsum(2), 2)  # pairs of this level or a higher one
            at_tau = from_bin[:, :, 2 : 2 + STEPS]  # τ = step/20 begins at bin step + 1
            top = np.moveaxis(_classes(self.sums.stored["top_pairs"][:, :, k]), 1, 2)  # (S, H, reading, B, 3)
            self._layers[k] = np.concatenate([at_tau, top], axis=2)
            while len(self._layers) > LAYERS_KEPT:
                self._layers.popitem(last=False)
        self._layers.move_to_end(k)
        return self._layers[k]


def _classes(pairs: NDArray[np.float64]) -> Array:
    """Pairs by relation, (…, relation), as all of them, those within and those across sentences: (…, 3)."""
    return np.stack([pairs.sum(-1), pairs[..., list(WITHIN)].sum(-1), pairs[..., list(ACROSS)].sum(-1)], axis=-1)


def _shares(pairs: Array) -> Array:
    """Shares over the last dimension; NaN where there are no pairs."""
    return ratio(pairs, np.broadcast_to(pairs.sum(-1, keepdims=True), pairs.shape))
