"""From a text to a window of tokens with their categories, words and sentences."""

from headscope.windows.batch import WindowBatch, batch_windows, padded
from headscope.windows.given import given_window
from headscope.windows.making import corpus_windows, window, window_from_ids
from headscope.windows.rotation import rotated_sentences
from headscope.windows.window import CATEGORIES, Window, shifted_window

__all__ = [
    "CATEGORIES",
    "Window",
    "WindowBatch",
    "batch_windows",
    "corpus_windows",
    "given_window",
    "padded",
    "rotated_sentences",
    "shifted_window",
    "window",
    "window_from_ids",
]
