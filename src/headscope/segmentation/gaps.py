"""Where sentences end in text without punctuation or case: what heads do on either side of each gap between words."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import regex
import torch
from numpy.typing import NDArray
from torch import Tensor

from headscope.models.reading import Reader
from headscope.segmentation.cut import Span
from headscope.segmentation.head_weights import Floats, SentenceWeights
from headscope.segmentation.parts import room
from headscope.segmentation.vectors import Heads
from headscope.tap import LayerHeads

if TYPE_CHECKING:
    from headscope.models.model import Model

SPOKEN_WORD = regex.compile(r"[\p{L}\p{M}\p{N}]+(?:['’][\p{L}\p{M}\p{N}]+)*")
BESIDE = 4  # tokens on either side
WINDOWS = 16  # in a batch
WORDS = 4_000  # that are tokenized at a time
SMALLEST = 1e-3  # added to attention before its logarithm is taken
# How each signal is read off: similarity of outputs, or attention, of two tokens; 0 is the last token before the gap,
# 1 the first one after it.
PLACES = {"0 1": (0, 1), "-1 1": (-1, 1), "0 2": (0, 2)}
SIGNALS = (
    *(f"similarity of {name}" for name in PLACES),
    "similarity across",
    *(f"attention of {name}" for name in PLACES),
    *(f"attention back of {name}" for name in PLACES),
    "attention across",
    "attention back across",
    "attention of 0 to the start",
    "attention of 1 to the start",
    "attention of 0 to the end",
    "attention of 1 to the end",
)


@dataclass(frozen=True, slots=True)
class GapWindow:
    """Tokens that are read together, and which gaps between words are judged from them."""

    ids: NDArray[np.int64]  # (T,), special ones included
    gaps: NDArray[np.int64]  # (G, 2): the token before a gap, and the word before it


def words_of(text: str) -> list[Span]:
    """The words as somebody speaks them, an apostrophe within a word included.

    >>> text = "Well, I don't: no."
    >>> [text[a:b] for a, b in words_of(text)]
    ['Well', 'I', "don't", 'no']
    """
    return [match.span() for match in SPOKEN_WORD.finditer(text)]


def gap_windows(text: str, words: Sequence[Span], model: Model) -> Iterator[GapWindow]:
    """Windows over the words alone, in lower case; each gap is judged where most stands on either side of it."""
    ids, word_of = _tokens(text, words, model)
    length, around = room(model), model.template
    quarter = length // 4
    step = length - 2 * quarter
    for start in range(0, max(len(ids) - length + step, 1), step):
        end = min(start + length, len(ids))
        first = start + quarter if start else 0
        last = end - quarter if end < len(ids) else end
        places = np.arange(first, min(last, end - 1))
        places = places[word_of[places] != word_of[places + 1]]
        if len(places):
            whole = np.array([*around.start, *ids[start:end], *around.end], dtype=np.int64)
            yield GapWindow(whole, np.stack([places - start + len(around.start), word_of[places]], axis=1))
        if end == len(ids):
            return


def _tokens(text: str, words: Sequence[Span], model: Model) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The tokens of the words, and the word that each is of."""
    ids: list[int] = []
    word_of: list[int] = []
    for first in range(0, len(words), WORDS):
        some = [text[a:b].lower() for a, b in words[first : first + WORDS]]
        ends = np.cumsum([len(word) + 1 for word in some])
        encoding = model.tokenizer(" ".join(some), add_special_tokens=False, verbose=False)[0]
        ids += encoding.ids
        lasts = np.array([max(b - 1, 0) for _, b in encoding.offsets], dtype=np.int64)
        word_of += (first + np.searchsorted(ends, lasts, side="right")).tolist()
    return np.array(ids, dtype=np.int64), np.array(word_of, dtype=np.int64)


def read_gaps(
    model: Model,
    windows: Sequence[GapWindow],
    stack: str,
    heads: Heads,
    take: Callable[[list[int], NDArray[np.int64], Tensor], None],
) -> None:
    """Read windows and hand over, layer by layer, what its heads do at their gaps.

    `take` is given the places of the layer's heads among `heads`, the words before the gaps (n,) and the signals
    (n, signals, h).
    """
    where: dict[int, list[int]] = {}
    for place, (layer, _) in enumerate(heads):
        where.setdefault(layer, []).append(place)
    device = model.network.device
    first, after = len(model.template.start), len(model.template.end)
    with Reader(model, layers=tuple(where), values=False) as reader:
        for k in range(0, len(windows), WINDOWS):
            some = windows[k : k + WINDOWS]
            rows = torch.tensor([row for row, each in enumerate(some) for _ in each.gaps], device=device)
            gaps = torch.tensor(np.concatenate([each.gaps[:, 0] for each in some]), device=device)
            last = torch.tensor([len(each.ids) - 1 - after for each in some], device=device)[rows]
            words = np.concatenate([each.gaps[:, 1] for each in some])

            def listen(
                layer: LayerHeads,
                rows: Tensor = rows,
                gaps: Tensor = gaps,
                last: Tensor = last,
                words: NDArray[np.int64] = words,
            ) -> None:
                if layer.stack != stack:
                    return
                places = where[layer.layer]
                chosen = [heads[place][1] for place in places]
                take(places, words, signals(layer, chosen, rows, gaps, first, last, after > 0))

            reader.read_ids([each.ids for each in some], listen)


def signals(
    layer: LayerHeads, chosen: list[int], rows: Tensor, gaps: Tensor, first: int, last: Tensor, closed: bool
) -> Tensor:
    """What the chosen heads of a layer do at each gap: (n, signals, h).

    `first` and `last` are a window's first and last token of its own; `closed` tells whether one of the template's
    follows.
    """
    assert layer.weights is not None
    outputs = torch.nn.functional.normalize(layer.outputs[:, chosen].float(), dim=-1).transpose(1, 2)  # (B, T, h, d)
    weights = layer.weights[:, chosen].float().permute(0, 2, 3, 1)  # (B, T, T, h)

    def at(offset: int) -> Tensor:
        return torch.minimum((gaps + offset).clamp(min=first), last)

    def alike(a: int, b: int) -> Tensor:
        return (outputs[rows, at(a)] * outputs[rows, at(b)]).sum(-1)

    def read(a: Tensor, b: Tensor) -> Tensor:
        return weights[rows, a, b]

    across = [(-a, 1 + b) for a in range(BESIDE) for b in range(BESIDE)]
    start, end = torch.zeros_like(gaps), last + 1 if closed else last
    attention = [
        *(read(at(a), at(b)) for a, b in PLACES.values()),
        *(read(at(b), at(a)) for a, b in PLACES.values()),
        torch.stack([read(at(a), at(b)) for a, b in across]).mean(0),
        torch.stack([read(at(b), at(a)) for a, b in across]).mean(0),
        read(gaps, start),
        read(at(1), start),
        read(gaps, end),
        read(at(1), end),
    ]
    similarity = [
        *(alike(a, b) for a, b in PLACES.values()),
        torch.stack([alike(a, b) for a, b in across]).mean(0),
    ]
    return torch.stack([*similarity, *((each + SMALLEST).log() for each in attention)], dim=1)


def sentence_ends(model: Model, text: str, words: Sequence[Span], stack: str, learned: SentenceWeights) -> Floats:
    """What each head says to a sentence end after each word but the last: (N - 1, H). More is more likely."""
    said = np.zeros((max(len(words) - 1, 0), len(learned.heads)))
    table = torch.tensor(learned.weights, dtype=torch.float32, device=model.network.device)  # (H, signals)

    def take(places: list[int], after: NDArray[np.int64], read: Tensor) -> None:
        sums = torch.einsum("nsh,hs->nh", read, table[places]).cpu().numpy()
        said[after[:, None], places] = sums + learned.offsets[places]

    read_gaps(model, list(gap_windows(text, words, model)), stack, learned.heads, take)
    return said


def end_probabilities(said: Floats, learned: SentenceWeights, words_each: float) -> Floats:
    """How likely a sentence ends after each word, where sentences have so many words on average: (N - 1,).

    What it was learned from had longer or shorter sentences; the odds are moved by as much.

    >>> learned = SentenceWeights(((0, 0),), np.ones((1, 1)), np.zeros(1), np.ones(1), ("a",), bias=-3.0, rate=0.05)
    >>> end_probabilities(np.array([[0.0], [3.0]]), learned, words_each=20).round(2).tolist()
    [0.05, 0.5]
    """
    rate = 1 / max(words_each, 1.5)
    moved = np.log(rate / (1 - rate)) - np.log(learned.rate / (1 - learned.rate))
    probabilities: Floats = 1 / (1 + np.exp(-(said.sum(1) + learned.bias + moved)))
    return probabilities


def best_ends(probabilities: Floats, number: int | None = None) -> NDArray[np.int64]:
    """The gaps to cut at: as many as are asked for, or those with the highest F1 that can be expected.

    >>> best_ends(np.array([0.9, 0.1, 0.6, 0.05])).tolist(), best_ends(np.array([0.9, 0.1, 0.6]), 2).tolist()
    ([0, 2], [0])
    """
    order = np.argsort(-probabilities, kind="stable")
    if number is None:
        right = probabilities[order].cumsum()  # how many of the first k can be expected to be right
        expected = 2 * right / (np.arange(1, len(order) + 1) + probabilities.sum())
        most = int(expected.argmax()) + 1 if len(order) and probabilities.sum() >= 0.5 else 0
        return np.sort(order[:most])
    return np.sort(order[: number - 1])
