"""The search for boundaries: every way to cut a text into segments is weighed against all others.

A way to cut has the sum of its segments' scores, and its probability grows with e to the power of that. A segment is at
most L parts long, so that there are N × L segments to weigh, whatever the number of ways. How often a text changes its
topic is not known beforehand: several rates are tried, and each counts as much as the text makes it likely.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from headscope.errors import HeadscopeError

RATES = (1 / 4, 1 / 8, 1 / 16, 1 / 32, 1 / 64)  # boundaries a part, each as likely beforehand
MOST_CELLS = 20_000_000  # of a table of segments × parts: 80 MB
Floats = NDArray[np.float64]


def boundary_probabilities(scores: Floats) -> tuple[Floats, float]:
    """How likely a boundary is after each part, and the likeliest rate; the text's end counts as one.

    `scores[j, l]` is that of the segment of l + 1 parts that ends with part j: (N, L). Where j < l there is none.

    >>> import numpy as np
    >>> together, apart = 4.0, -4.0  # two pairs of parts that belong together
    >>> scores = np.array([[0, 0], [0, together], [0, apart], [0, together]])
    >>> boundary_probabilities(scores)[0].round(2).tolist()
    [0.0, 1.0, 0.0, 1.0]
    """
    length, longest = scores.shape
    inside, at_end = np.log1p(-np.array(RATES)), np.log(RATES)  # (R,)
    rest = np.arange(longest)[:, None] * inside  # (L, R): no boundary within
    before = np.full((length + 1, len(RATES)), -np.inf)  # ways to cut what lies before a part
    before[0] = 0
    for j in range(length):
        most = min(longest, j + 1)
        ways = before[j + 1 - most : j + 1][::-1] + scores[j, :most, None] + rest[:most]  # (l, R)
        before[j + 1] = _log_sum(ways) + (at_end if j < length - 1 else 0)
    after = np.full((length + 1, len(RATES)), -np.inf)  # ways to cut what follows
    after[length] = 0
    for i in range(length - 1, -1, -1):
        most = min(longest, length - i)
        ends = np.arange(i, i + most)
        ways = after[i + 1 : i + 1 + most] + scores[ends, np.arange(most), None] + rest[:most]
        ways[: length - 1 - i] += at_end
        after[i] = _log_sum(ways)
    evidence = before[length]
    likely = np.exp(evidence - evidence.max())
    each = np.exp(before[1:] + after[1:] - evidence)  # (N, R)
    strength = np.minimum(each @ (likely / likely.sum()), 1)
    strength[-1] = 1
    return strength, RATES[int(likely.argmax())]


def best_cut(scores: Floats, rate: float) -> tuple[int, ...]:
    """The parts that close the segments of the likeliest way to cut.

    >>> import numpy as np
    >>> best_cut(np.array([[0, 0], [0, 4], [0, -4], [0, 4.0]]), rate=1 / 8)
    (1, 3)
    """
    length, longest = scores.shape
    rest = np.arange(longest) * np.log1p(-rate)
    best, came = np.full(length + 1, -np.inf), np.zeros(length + 1, dtype=np.int64)
    best[0] = 0
    for j in range(length):
        most = min(longest, j + 1)
        ways = best[j + 1 - most : j + 1][::-1] + scores[j, :most] + rest[:most]
        at = int(ways.argmax())
        best[j + 1], came[j + 1] = ways[at] + np.log(rate), j - at
    ends = [length]
    while came[ends[-1]] > 0:
        ends.append(int(came[ends[-1]]))
    return tuple(end - 1 for end in reversed(ends))


def best_cut_into(scores: Floats, number: int, strength: Floats) -> tuple[int, ...]:
    """The same for so many segments.

    Where the table of all numbers of segments would be too large, the rate is moved until it gives about as many, and
    the strongest other boundaries make up for those that are missing.

    >>> import numpy as np
    >>> best_cut_into(np.array([[0, 0], [0, 4], [0, -4], [0, 4.0]]), 3, np.array([0.1, 0.9, 0.2, 1]))
    (1, 2, 3)
    """
    length, longest = scores.shape
    if not 0 < number <= length:
        raise HeadscopeError(
            f"{number} segments are asked for, and the text can be cut into {length} at most", "ask for fewer"
        )
    if number * length > MOST_CELLS:
        return _about_as_many(scores, number, strength)
    best = np.full((number + 1, length + 1), -np.inf)
    came = np.zeros((number + 1, length + 1), dtype=np.int32)
    best[0, 0] = 0
    rows = np.arange(number)
    for j in range(length):
        most = min(longest, j + 1)
        ways = best[:-1, j + 1 - most : j + 1][:, ::-1] + scores[j, :most]  # (K, l)
        at = ways.argmax(1)
        best[1:, j + 1], came[1:, j + 1] = ways[rows, at], j - at
    if not np.isfinite(best[number, length]):
        raise HeadscopeError(
            f"{length} sentences cannot be cut into {number} segments of at most {longest}", "ask for more segments"
        )
    ends = [length]
    for k in range(number, 0, -1):
        ends.append(int(came[k, ends[-1]]))
    return tuple(end - 1 for end in reversed(ends[:-1]))


def _about_as_many(scores: Floats, number: int, strength: Floats) -> tuple[int, ...]:
    low, high = -60.0, 60.0
    found: tuple[int, ...] = (len(scores) - 1,)
    for _ in range(24):
        middle = (low + high) / 2
        ends = best_cut(scores + middle, 0.5)
        if len(ends) <= number:
            low, found = middle, ends
        else:
            high = middle
        if len(ends) == number:
            break
    others = np.setdiff1d(np.arange(len(scores)), found)
    more = others[np.argsort(-strength[others], kind="stable")][: number - len(found)]
    return tuple(sorted({*found, *more.tolist()}))


def _log_sum(ways: Floats) -> Floats:
    """log of the sum of e to the power of each column."""
    most = ways.max(0)
    sums: Floats = np.log(np.exp(ways - np.where(np.isfinite(most), most, 0)).sum(0)) + most
    return sums
