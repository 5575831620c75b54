"""From a text to a window of tokens with their categories, words and sentences."""

from headscope.windows.window import (
    CATEGORIES,
    CHOICES,
    Window,
    corpus_windows,
    shifted_window,
    window,
    window_from_ids,
)

__all__ = ["CATEGORIES", "CHOICES", "Window", "corpus_windows", "shifted_window", "window", "window_from_ids"]
