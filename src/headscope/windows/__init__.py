"""From a text to a window of tokens with their categories, words and sentences."""

from headscope.windows.batch import WindowBatch, batch_windows, padded
from headscope.windows.rotation import rotated_sentences
from headscope.windows.window import (
    CATEGORIES,
    Window,
    corpus_windows,
    shifted_window,
    window,
    window_from_ids,
)

__all__ = [
    "CATEGORIES",
    "Window",
    "WindowBatch",
    "batch_windows",
    "corpus_windows",
    "padded",
    "rotated_sentences",
    "shifted_window",
    "window",
    "window_from_ids",
]
