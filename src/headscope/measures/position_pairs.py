"""In how many windows the tokens at two positions are a pair.

A table of all positions costs more than everything else of a long window (8,192 tokens: 67 million numbers), so that
windows are only counted by where their tokens begin and end, and the table is made once, in the end.
"""

from __future__ import annotations

from collections import Counter

import numpy as np
from numpy.typing import NDArray


class PositionPairs:
    """Counts windows, given by the positions of their tokens that count.

    >>> pairs = PositionPairs(4)
    >>> pairs.add(np.array([[1, 2, 3], [0, 2, 0]]), np.array([3, 2]))
    >>> pairs.table().tolist()
    [[0, 0, 1, 0], [0, 0, 1, 1], [0, 0, 0, 1], [0, 0, 0, 0]]
    """

    def __init__(self, length: int) -> None:
        self.length = length
        self._spans: Counter[tuple[int, int]] = Counter()  # windows by their first position, and the one after the last
        self._scattered: NDArray[np.int64] | None = None  # (T, T): of windows with others in between

    def add(self, positions: NDArray[np.int64], sizes: NDArray[np.int64]) -> None:
        """Count the windows of a batch: (B, N), of which each has so many, and (B,)."""
        several = np.flatnonzero(sizes >= 2)
        firsts, ends = positions[several, 0], positions[several, sizes[several] - 1] + 1
        whole = ends - firsts == sizes[several]
        self._spans.update(zip(firsts[whole].tolist(), ends[whole].tolist(), strict=True))
        scattered = several[~whole]
        if not len(scattered):
            return
        if self._scattered is None:
            self._scattered = np.zeros((self.length, self.length), dtype=np.int64)
        end = int(ends.max())
        counting = np.zeros((len(scattered), end), dtype=np.float32)  # exact: there are fewer windows than it can count
        for row, b in zip(counting, scattered, strict=True):
            row[positions[b, : sizes[b]]] = 1
        self._scattered[:end, :end] += np.triu(counting.T @ counting, 1).astype(np.int64)

    def table(self) -> NDArray[np.int64]:
        """The number of windows for each i < j: (T, T)."""
        table = np.zeros((self.length, self.length), dtype=np.int64)
        reach = np.zeros(self.length, dtype=np.int64)  # windows that have begun, by the positions before their end
        spans = sorted(self._spans.items(), reverse=True)
        for i in range(self.length - 1):
            while spans and spans[-1][0][0] == i:
                (_, end), number = spans.pop()
                reach[:end] += number
            table[i, i + 1 :] = reach[i + 1 :]
        return table if self._scattered is None else table + self._scattered
