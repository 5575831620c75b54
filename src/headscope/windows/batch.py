"""A batch of windows as a model reads it; a decoder beside an encoder reads the same tokens, moved right by one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headscope.windows.rotation import rotated_sentences
from headscope.windows.window import Window, shifted_window


def padded(rows: Sequence[Sequence[int] | NDArray[Any]], fill: int = 0) -> NDArray[Any]:
    """Rows of several lengths as one table, filled up on the right: (B, T).

    >>> padded([[5, 6, 7], [8]], fill=-1).tolist()
    [[5, 6, 7], [8, -1, -1]]
    """
    lengths, joined = np.array([len(row) for row in rows]), np.concatenate(rows)
    table = np.full((len(rows), lengths.max()), fill, dtype=joined.dtype)
    table[np.arange(table.shape[1]) < lengths[:, None]] = joined
    return table


@dataclass(frozen=True, slots=True)
class WindowBatch:
    """Windows that go through a model together."""

    windows: tuple[Window, ...]
    decoder: tuple[Window, ...] | None = None  # what the decoder of an encoder-decoder reads

    def of_stack(self, stack: str) -> tuple[tuple[Window, ...], tuple[Window, ...]]:
        """The windows whose tokens query in a stack, and those whose tokens are read."""
        if self.decoder is None or stack == "encoder":
            return self.windows, self.windows
        return self.decoder, self.windows if stack == "cross" else self.decoder

    def rotated(self, special: bool) -> WindowBatch:
        """The same tokens under rotated sentences, the decoder's in its own windows."""
        windows = tuple(rotated_sentences(each, special) for each in self.windows)
        if self.decoder is None:
            return WindowBatch(windows)
        return WindowBatch(windows, tuple(rotated_sentences(each, special) for each in self.decoder))


def batch_windows(windows: Sequence[Window], decoder_start: int | None, tokenizer: Any) -> WindowBatch:
    """A batch; `decoder_start` is the token that the decoder starts from, None where there is no decoder beside it."""
    if decoder_start is None:
        return WindowBatch(tuple(windows))
    return WindowBatch(tuple(windows), tuple(shifted_window(each, decoder_start, tokenizer) for each in windows))
