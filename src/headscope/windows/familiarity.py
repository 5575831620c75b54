"""Whether a tokenizer knows the words of a window: those of a language that it never saw fall into letters.

Looked at are words of three letters and more, but not those in capitals, with digits or with a capital inside (code,
names of genes, headlines). A word is *strange* where it is unknown to the tokenizer or holds a piece of a single
letter, and *broken* where it is unknown or in several pieces. A window is unfamiliar where more than a fifth of its
words are strange, and more than three fifths are broken. Of ten to nineteen words it takes a quarter and 65 %, and of
fewer than ten nothing is said.

Measured, as strange / broken, on windows of 128 tokens:

| text | embedded model | all-MiniLM-L6-v2 |
|---|---|---|
| German | 0.37 / 0.78 | 0.28 / 0.72 |
| Finnish | 0.71 / 1.00 | 0.49 / 0.97 |
| French | 0.46 / 0.80 | 0.20 / 0.71 (not noticed) |
| Spanish | 0.43 / 0.86 | 0.23 / 0.77 |
| Polish | 0.88 / 0.94 | 0.81 / 1.00 |
| Greek | 0.95 / 0.95 | 1.00 / 1.00 |
| Russian | 1.00 / 1.00 | 0.95 / 0.95 |
| Chinese | 1.00 / 1.00 | 0.72 / 0.72 |
| Japanese | 1.00 / 1.00 | 0.19 / 0.19 (not noticed: its vocabulary has the characters) |
| English passages, the largest of 64 | 0.20 / 0.43 | 0.07 / 0.16 |
| English Wikipedia, 99.9 % of 8,000 lie below | 0.31 / 0.54 | 0.18 / 0.37 |
| source code, 99 % of 1,000 lie below | 0.35 / 0.53 | 0.23 / 0.35 |

Of 17,971 English windows (Wikipedia, novels, contracts, questions from the web) 10 are called unfamiliar with the
embedded model, most of them full of foreign names, and none with MiniLM; of 1,013 pieces of source code 2, and none. Of
5,698 pieces of English Wikipedia with ten to nineteen words 22 are called unfamiliar with the embedded model, of eight
German and French sentences of ten words and more five.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import regex

from headscope.windows.text import stands_alone
from headscope.windows.window import WORD, Window

LEAST = 10  # words: of fewer nothing is said
BOUNDS = ((20, 0.2, 0.6), (LEAST, 0.25, 0.65))  # from so many words on, the shares of strange and of broken ones
USUAL = regex.compile(r"[\p{L}\p{M}]{3,}")
CAPITAL_INSIDE = regex.compile(r"\p{Ll}\p{Lu}")


@dataclass(frozen=True, slots=True)
class Familiarity:
    """How many words were looked at, how many of them are strange, and how many broken."""

    words: int
    strange: int
    broken: int

    @property
    def unfamiliar(self) -> bool:
        """Whether the words are those of a language that the tokenizer does not know."""
        strange, broken = next(((s, b) for least, s, b in BOUNDS if self.words >= least), (1.0, 1.0))
        return self.strange > strange * self.words and self.broken > broken * self.words

    def __str__(self) -> str:
        return (
            f"{self.broken} of {self.words} words are unknown to the model's tokenizer or broken into pieces, "
            f"{self.strange} of them unknown or broken into letters: the model may not know the language of this text."
        )


def familiarity(window: Window) -> Familiarity:
    """How well the tokenizer knows the words of a window.

    >>> import headscope
    >>> model = headscope.load()
    >>> german = "Der Fährmann kannte den Fluss seit seiner Kindheit, und die Kinder fürchteten sich vor dem tiefen "
    >>> german += "Wasser. Schon früh am Morgen hörte man das Rauschen der schönen Mühle."
    >>> found = familiarity(model.inspect(german).window)
    >>> found, found.unfamiliar
    (Familiarity(words=27, strange=9, broken=20), True)
    """
    own = np.flatnonzero((window.part >= 0) & (window.category == WORD))
    if not window.described or not len(own):
        return Familiarity(0, 0, 0)
    numbers, spans, texts = window.word[own].tolist(), window.span[own].tolist(), window.texts
    unknown, part = window.unknown[own].tolist(), window.part[own].tolist()
    words = strange = broken = first = 0
    while first < len(numbers):
        last = first + 1
        while last < len(numbers) and numbers[last] == numbers[first]:
            last += 1
        text = texts[part[first]]
        if _is_looked_at(text[spans[first][0] : spans[last - 1][1]].strip()):
            words += 1
            is_unknown = any(unknown[first:last])
            if is_unknown or last - first > 1:
                broken += 1
                strange += is_unknown or any(len(text[a:b].strip()) == 1 for a, b in spans[first:last])
        first = last
    return Familiarity(words, strange, broken)


@lru_cache(maxsize=65536)
def _is_looked_at(word: str) -> bool:
    """Whether a word tells something: in scripts without spaces each token is one, whatever its length."""
    if word and stands_alone(word[0]):
        return True
    return bool(USUAL.fullmatch(word)) and not word.isupper() and not CAPITAL_INSIDE.search(word)
