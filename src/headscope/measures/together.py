"""Windows with special tokens between those that count, as pairs of texts have them, for loops that know no gaps."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from headscope.measures.batch_index import BatchIndex


class Together:
    """Puts the tokens that count together where special tokens stand between them; most batches stay as they are."""

    def __init__(self, queries: BatchIndex) -> None:
        self.orders: dict[int, NDArray[np.int64]] = {}
        for b in np.flatnonzero(queries.scattered):
            self.orders[int(b)] = np.argsort(~queries.counting[b], kind="stable")

    def matrices(self, values: NDArray[np.float32]) -> NDArray[np.float32]:
        """Matrices of tokens with both sides in the new order: (…, B, H, T, T)."""
        if not self.orders:
            return values
        moved = values.copy()
        for b, order in self.orders.items():
            moved[..., b, :, :, :] = values[..., b, :, :, :][..., order, :][..., order]
        return moved

    def tokens(self, values: NDArray[np.float32]) -> NDArray[np.float32]:
        """A number for each token in the new order: (B, T)."""
        if not self.orders:
            return values
        moved = values.copy()
        for b, order in self.orders.items():
            moved[b] = values[b, order]
        return moved

    def move(self, matrices: NDArray[np.float32], first: int, last: int) -> None:
        """Put some heads' matrices into the new order, where they are."""
        for b, order in self.orders.items():
            matrices[b, first:last] = matrices[b, first:last][..., order, :][..., order]

    def move_tokens(self, tables: tuple[NDArray[np.int8], ...], first: int, last: int) -> None:
        """The same for numbers of tokens: (B, H, T) each."""
        for b, order in self.orders.items():
            for table in tables:
                table[b, first:last] = table[b, first:last][:, order]
