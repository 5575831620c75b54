"""Rotated sentences: a control in which sentences keep their lengths and their order, and mean nothing."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from headscope.windows.window import Window

SHARE = 382  # thousandths of the tokens: about the golden section, so that few sentences come to lie on themselves


def rotated_sentences(window: Window, special: bool) -> Window:
    """The window with sentence numbers moved round among the tokens that count; all else stays with its token.

    >>> import headscope
    >>> from headscope.windows import window
    >>> model = headscope.load()
    >>> read = window("One two three. Four five.", None, model.tokenizer, model.template)
    >>> read.sentence.tolist()
    [-1, 0, 0, 0, 0, 1, 1, 1, -1]
    >>> rotated_sentences(read, special=False).sentence.tolist()
    [-1, 0, 0, 1, 1, 1, 0, 0, -1]
    """
    places = np.flatnonzero(window.counting(special))
    sentence = window.sentence.copy()
    sentence[places] = np.roll(window.sentence[places], -(SHARE * len(places) // 1000))
    return replace(window, sentence=sentence)
