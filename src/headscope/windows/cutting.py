"""How the texts of a run become windows, in one piece; and processes that cut them ahead of the work.

A text takes a core two milliseconds or three. Beside a forward pass on a CPU that is nothing; a graphics card would
wait for it most of the time.
"""

from __future__ import annotations

import multiprocessing
import signal
import sys
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from functools import cache
from typing import Any

from headscope.choices import Windows
from headscope.errors import HeadscopeError
from headscope.windows.making import corpus_windows
from headscope.windows.template import Template
from headscope.windows.window import Window

TOGETHER = 16  # texts that a process is given at a time
CutText = list[Window] | str  # the windows of a text, or why there are none
CutTexts = Callable[[], list[CutText]]  # waits for those of some texts


@dataclass(frozen=True, slots=True)
class Cutting:
    """Everything that decides which windows a text has."""

    tokenizer: Any
    template: Template
    length: int
    choice: Windows
    seed: int
    causal: bool
    language: str

    def windows(self, text: str) -> list[Window]:
        """The windows of one text."""
        return corpus_windows(
            text, self.tokenizer, self.template, length=self.length, choice=self.choice, seed=self.seed,
            causal=self.causal, language=self.language,
        )  # fmt: skip

    def each(self, texts: Sequence[str]) -> list[CutText]:
        """The windows of several texts."""
        return [self._windows_or_why(text) for text in texts]

    def _windows_or_why(self, text: str) -> CutText:
        try:
            return self.windows(text)
        except HeadscopeError as error:  # no token in it: a text of characters that the tokenizer drops
            return error.problem


class Cutters:
    """Cuts texts when they are wanted; or in so many processes, from the moment on when they are named.

    >>> import headscope
    >>> model = headscope.load()
    >>> cutting = Cutting(model.tokenizer, model.template, 8, "first", 0, False, "en")
    >>> cutters = Cutters(cutting, processes=0)
    >>> [[window.tokens for window in windows] for windows in cutters.begin(["It rains."])()]
    [[('[CLS]', 'it', 'rain', '##s', '.', '[SEP]')]]
    """

    def __init__(self, cutting: Cutting, processes: int) -> None:
        self.cutting = cutting
        self._pool: ProcessPoolExecutor | None = None
        if processes > 0 and sys.platform.startswith("linux"):
            forks = multiprocessing.get_context("fork")  # begin at once, and need a copy of nothing
            self._pool = ProcessPoolExecutor(processes, forks, initializer=_begin, initargs=(cutting,))

    def begin(self, texts: Sequence[str]) -> CutTexts:
        """Begin with some texts; gives a function that waits for what becomes of them."""
        if self._pool is None:
            return cache(lambda: self.cutting.each(texts))
        try:
            with warnings.catch_warnings():  # the processes use nothing that other threads might hold
                warnings.filterwarnings("ignore", message=".*fork", category=DeprecationWarning)
                parts = [self._pool.submit(_cut, texts[k : k + TOGETHER]) for k in range(0, len(texts), TOGETHER)]
        except BrokenProcessPool:  # somebody ended one; the windows are the same wherever they are cut
            return cache(lambda: self.cutting.each(texts))

        def wait() -> list[CutText]:
            try:
                return [each for part in parts for each in part.result()]
            except BrokenProcessPool:
                return self.cutting.each(texts)

        return cache(wait)

    def close(self) -> None:
        """Let the processes go."""
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)


_cutting: Cutting | None = None  # of this process, where it is one that cuts


def _begin(cutting: Cutting) -> None:
    global _cutting
    _cutting = cutting
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that began this one


def _cut(texts: Sequence[str]) -> list[CutText]:
    assert _cutting is not None
    return _cutting.each(texts)
