"""How often each token is focal in each head of a layer."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

NOTED = 1 << 13  # focal tokens of a layer noted down before they are counted
TOKENS = 1 << 32  # more than any vocabulary has


class FocalCounts:
    """Counts of focal tokens, as codes of head and token.

    >>> counts = FocalCounts()
    >>> counts.note(np.array([[7, 9], [7, -1]]))  # two windows, two heads; the second head has none in the second
    >>> counts.entries(layer=3).tolist()
    [[3, 0, 7, 2], [3, 1, 9, 1]]
    """

    def __init__(self) -> None:
        self._noted, self._written = np.zeros(NOTED, dtype=np.int64), 0
        self._counted = (np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64))

    def note(self, tokens: NDArray[np.int64]) -> None:
        """Note down the focal tokens of a batch, (B, H), in a buffer made before: small arrays litter the memory."""
        head = np.broadcast_to(np.arange(tokens.shape[1]), tokens.shape)
        codes = (head * TOKENS + tokens)[tokens >= 0]
        for begin in range(0, len(codes), NOTED):
            part = codes[begin : begin + NOTED]
            if self._written + len(part) > NOTED:
                self._count()
            self._noted[self._written : self._written + len(part)] = part
            self._written += len(part)

    def entries(self, layer: int) -> NDArray[np.int64]:
        """Rows of layer, head, token and number."""
        codes, counts = self._count()
        head, token = np.divmod(codes, TOKENS)
        return np.column_stack([np.full_like(codes, layer), head, token, counts])

    def _count(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Equal codes once, with how often they were noted."""
        unique, total = np.unique(self._noted[: self._written], return_counts=True)
        if len(self._counted[0]):
            codes = np.concatenate([self._counted[0], unique])
            order = np.argsort(codes, kind="stable")
            codes, weight = codes[order], np.concatenate([self._counted[1], total])[order]
            first = np.flatnonzero(np.diff(codes, prepend=-1))  # codes are not below zero
            unique, total = codes[first], np.add.reduceat(weight, first)
        self._counted, self._written = (unique, total), 0
        return self._counted
