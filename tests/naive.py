"""The method's definitions (docs/method.md) for one text, written a second time: plain loops, no torch, no headscope.

Slow and obvious on purpose. Takes O and A as arrays and the tokens as characters of a text; everything else is
worked out here, character by character.
"""

from __future__ import annotations

import unicodedata

import numpy as np

NO_SPACES = ("CJK", "HIRAGANA", "KATAKANA", "THAI", "LAO", "KHMER", "MYANMAR")


def kind(character: str) -> str:
    return unicodedata.category(character)[0]


def in_word(character: str) -> bool:
    return kind(character) in "LMN"


def first_char(text: str, span: tuple[int, int]) -> int | None:
    for place in range(*span):
        if not text[place].isspace():
            return place
    return None


def word_of(text: str, span: tuple[int, int]) -> tuple | None:
    """The (start, end) of the word a token belongs to; None where the token is a word of its own."""
    at = first_char(text, span)
    if at is None or not in_word(text[at]) or any(script in unicodedata.name(text[at], "") for script in NO_SPACES):
        return None
    a = at
    while a > 0 and in_word(text[a - 1]):
        a -= 1
    b = at
    while b < len(text) and in_word(text[b]):
        b += 1
    return a, b


def sentence_of(text: str, span: tuple[int, int], sentences: list[tuple[int, int]]) -> int:
    at = first_char(text, span)
    for number, (a, b) in enumerate(sentences):
        if at is not None and a <= at < b:
            return number
    return max([n for n, (a, _) in enumerate(sentences) if a <= span[0]], default=0)


def categories(text: str, spans: list[tuple[int, int]], sentences: list[tuple[int, int]]) -> list[str]:
    found = []
    for a, b in spans:
        found.append("word" if any(in_word(c) for c in text[a:b]) else "punctuation")
    for number in range(len(sentences)):
        own = [k for k, span in enumerate(spans) if sentence_of(text, span, sentences) == number]
        while own:
            piece = text[slice(*spans[own[-1]])].strip()
            closing = all(unicodedata.category(c) in ("Pe", "Pf", "Pi") or c in "\"'`" for c in piece)
            if not closing:  # an empty piece, white space alone, counts as passed over too
                break
            own.pop()
        if own and not any(in_word(c) for c in text[slice(*spans[own[-1]])]):
            found[own[-1]] = "stop"
    return found


def similarity(outputs: np.ndarray, cosine: bool = False) -> np.ndarray:
    size = len(outputs)
    matrix = np.zeros((size, size))
    for i in range(size):
        for j in range(size):
            if i == j:
                continue
            product = float(np.dot(outputs[i].astype(float), outputs[j].astype(float)))
            if cosine:
                lengths = np.linalg.norm(outputs[i].astype(float)) * np.linalg.norm(outputs[j].astype(float))
                product = product / lengths if lengths > 0 else 0.0
            matrix[i, j] = product
    return matrix


def received(attention: np.ndarray, may_read: np.ndarray) -> np.ndarray:
    """a, over the largest of all tokens."""
    queries, keys = attention.shape
    readable, found = [int(row.sum()) for row in may_read], []
    for j in range(keys):
        given = sum(float(attention[i, j]) for i in range(queries))
        even = sum(1 / readable[i] for i in range(queries) if may_read[i, j])
        found.append(given / even if even else 0.0)  # whom nobody may read receives nothing
    return np.array(found) / max(found)


def pairs(counting: list[bool]) -> list[tuple[int, int]]:
    size = len(counting)
    return [(i, j) for i in range(size) for j in range(i + 1, size) if counting[i] and counting[j]]


def levels(matrix: np.ndarray, places: list[tuple[int, int]], rank: bool = False) -> list[float] | None:
    """None for a flat matrix."""
    values = [matrix[i, j] for i, j in places]
    if not values or max(values) <= 0:
        return None
    if not rank:
        largest = max(values)
        return [value / largest for value in values]
    every = np.sort(values)
    found = []
    for value in values:
        below, upto = np.searchsorted(every, value), np.searchsorted(every, value, side="right")
        found.append(float((below + (upto - below + 1) / 2) / len(every)))
    return found


def bin_of(level: float) -> int:
    if level < 0:
        return 0
    for k in range(1, 21):
        if level < k / 20:
            return k
    return 20


def relation(i: int, j: int, ids: list, category: list[str], word: list, sentence: list) -> str:
    if word[i] is not None and word[i] == word[j]:
        return "word_pieces"
    if category[i] in ("stop", "punctuation") and category[j] in ("stop", "punctuation"):
        return "marks"
    if "stop" in (category[i], category[j]):
        return "stop"
    if "punctuation" in (category[i], category[j]):
        return "punctuation"
    same, again = sentence[i] is not None and sentence[i] == sentence[j], ids[i] == ids[j]
    return "both" if same and again else "sentence" if same else "repeated" if again else "none"


def focal(high: list[tuple[int, int]], ids: list[int], counting: list[bool]) -> tuple[int, float] | None:
    if not high:
        return None
    counts: dict[int, int] = {}
    for i, j in high:
        counts[ids[i]] = counts.get(ids[i], 0) + 1
        counts[ids[j]] = counts.get(ids[j], 0) + 1
    order = [ids[k] for k in range(len(ids)) if counting[k]]
    best = max(counts, key=lambda t: (counts[t], -order.index(t)))
    return best, sum(best in (ids[i], ids[j]) for i, j in high) / len(high)


def pearson(x: list[float], y: list[float]) -> float:
    """Pearson's correlation; 0 where either is constant."""
    if max(x) == min(x) or max(y) == min(y):
        return 0.0
    a, b = np.array(x, dtype=np.float64), np.array(y, dtype=np.float64)
    a, b = a - a.mean(), b - b.mean()
    return float((a * b).sum() / np.sqrt((a * a).sum() * (b * b).sum()))


# The next two are of one text's summary and rows, not of the corpus.


def correlation(matrix: np.ndarray, attention: np.ndarray, places: list[tuple[int, int]]) -> float:
    return pearson(
        [float(matrix[i, j]) for i, j in places],
        [(float(attention[i, j]) + float(attention[j, i])) / 2 for i, j in places],
    )


def preference(high: set, places: list, names: dict, one: tuple[str, str], zero: tuple[str, str]) -> float:
    """Matched ratio over strata distance × which of the two relations."""
    strata: dict = {}
    for i, j in places:
        strata.setdefault((names[i, j], j - i), []).append((i, j))
    above = below = 0.0
    for a, b in zip(one, zero, strict=True):
        for distance in {j - i for i, j in places}:
            ones, zeros = strata.get((a, distance)), strata.get((b, distance))
            if ones and zeros:
                above += sum(p in high for p in ones)
                below += len(ones) * sum(p in high for p in zeros) / len(zeros)
    return above / below if below > 0 else float("nan")


def focus(attention: np.ndarray, may_read: np.ndarray, category: list[str], wanted: str) -> float:
    queries, keys = attention.shape
    columns = [j for j in range(keys) if category[j] == wanted]
    given = np.mean([sum(float(attention[i, j]) for j in columns) for i in range(queries)])
    even = np.mean([sum(1 / may_read[i].sum() for j in columns if may_read[i, j]) for i in range(queries)])
    return float(given / even) if even > 0 else float("nan")
