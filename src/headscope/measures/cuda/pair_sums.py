"""What the tokens of each pair are to each other, found out on the card, and how many pairs there are of each kind."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from headscope.measures.bands import bands_of_distances
from headscope.measures.comparisons import COMPARISONS, CONTRASTED
from headscope.measures.cuda.arguments import DTYPES, NUMBERS, POINTERS, REALS, packed
from headscope.measures.cuda.chip_memory import cells_of, relate_bytes
from headscope.measures.cuda.device_batch import DeviceBatch
from headscope.measures.cuda.kernels import Kernels
from headscope.measures.order import SAMPLED
from headscope.measures.relations import RELATIONS
from headscope.measures.variables import Shape
from headscope.models.transfer import to_device

THREADS = 256  # of a block
BLOCKS = 4  # to a processor, where several share a window


class PairSums:
    """Sums over the pairs of windows that are the same for every head and layer."""

    def __init__(self, shape: Shape) -> None:
        self._bands = bands_of_distances(shape.length).astype(np.int32)  # of each distance
        self._band_of: Tensor | None = None  # the same on the card
        self._related: Tensor | None = None  # (distances, relations): number of pairs
        self._weights: list[Tensor] = []  # of the contrasts of relations, for each batch: (3,)

    def add(self, batch: DeviceBatch, kernels: Kernels, *, tiled: bool, slabs: bool) -> None:
        """Relate the tokens of each pair of a batch, and count pairs by distance and relation.

        `tiled`: kinds of pairs are laid out in tiles, too. `slabs`: they are not kept, and several blocks share a
        window.
        """
        queries, device = batch.queries, batch.device
        (size, counting), pairs, bands = queries.positions.shape, queries.most_pairs, int(self._bands[-1]) + 1
        if self._band_of is None:
            self._band_of = to_device(self._bands, device)
        if self._related is None:
            self._related = torch.zeros((len(self._bands), len(RELATIONS)), dtype=torch.int64, device=device)
        kinds = bands * len(RELATIONS)
        shapes: dict[str, tuple[int, ...]] = {"base": (kinds,)} if slabs else {"classes": (pairs,)}
        shapes |= {"samples": (SAMPLED,), "contrast_weight": (len(CONTRASTED),),
                   "match_weights": (len(COMPARISONS), 2, kinds)}  # fmt: skip
        tokens = queries.category.shape[1]
        if tiled:
            shapes["cells"] = (cells_of(tokens),)
        for name, shape in shapes.items():
            batch.tensors[name] = torch.zeros((size, *shape), dtype=DTYPES[POINTERS[name][0]], device=device)
        numbers = dict.fromkeys(NUMBERS, 0) | {
            "windows": size, "tokens": tokens, "counting": counting, "most_pairs": pairs, "bands": bands,
            "distances": len(self._bands),
        }  # fmt: skip
        table = not slabs and relate_bytes(numbers, table=True) <= kernels.most_shared
        numbers["table_on_chip"] = int(table)
        batch.tensors["band_of"] = self._band_of
        given = dict.fromkeys(POINTERS) | batch.tensors | {"related": self._related}
        told, launch = packed(numbers, dict.fromkeys(REALS, 0.0), given), kernels.launcher()
        if slabs:
            blocks = max(1, kernels.processors * BLOCKS // size)
            launch("relate_long", (size, blocks), THREADS, relate_bytes(numbers, table=False), told)
            launch("weigh_long", (size, 1), THREADS, 0, told)
        else:
            launch("relate", (size, 1), THREADS, relate_bytes(numbers, table=table), told)
        self._weights.append(batch.tensors["contrast_weight"].sum(0))

    def taken(self) -> tuple[Tensor | None, Tensor | None]:
        """Pairs by distance and relation, and weights of contrasts by batch, since they were taken last."""
        related, weights = self._related, self._weights
        self._related, self._weights = None, []
        return related, torch.stack(weights) if weights else None
