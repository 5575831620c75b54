"""Cutting a text: the one way from a text to segments, for both grains."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict, Unpack

import numpy as np
from numpy.typing import NDArray

from headscope.choices import GRAINS
from headscope.errors import HeadscopeError
from headscope.segmentation.cut import Cut, Segment
from headscope.segmentation.gaps import best_ends, end_probabilities, sentence_ends, words_of
from headscope.segmentation.head_weights import Floats, HeadWeights, read_head_weights, shipped_weights
from headscope.segmentation.parts import Part, parts_of
from headscope.segmentation.search import best_cut, best_cut_into, boundary_probabilities
from headscope.segmentation.topics import segment_scores, segment_sums, similarities
from headscope.texts.one import check_characters

if TYPE_CHECKING:
    from headscope.models.model import Model

LONGEST = 128  # sentences of a segment
WORDS = 15.0  # of a sentence as people speak
MOST_CELLS = 100_000_000  # sentences × longest segment: 1.2 GB of sums
LIKELY = 0.5  # a boundary there or one sentence away is likelier than none
Tell = Callable[[int, int], None]  # how many sentences are read, of how many


class CutOptions(TypedDict, total=False):
    """The options of `Segmenter` as keyword arguments."""

    grain: str
    segments: int | None
    max_tokens: int | None
    longest: int
    words: float
    language: str


class Segmenter:
    """Cuts texts with one model, by the same rules.

    `grain` is what is looked for: "topics", where a document turns to something else, or "sentences", which are found
    by words alone in text without punctuation or case. The number of segments is found, or `segments` asks for so
    many; `max_tokens` is the most that a segment may have in tokens of the model. `longest` bounds a topic's length in
    sentences, and with it the memory that a long document needs. `weights` are those of the model's heads, a file or
    what `fit` gave; the embedded model has its own. `words` is how long sentences are on average where they are
    looked for.

    >>> import headscope
    >>> cutter = Segmenter(headscope.load(), segments=2)
    >>> text = (
    ...     "The orchestra tuned its violins. A cellist played a slow melody. The conductor raised her baton. "
    ...     "Granite forms when magma cools. Its crystals of quartz are hard. Erosion slowly wears such rock away."
    ... )
    >>> [segment.text[:22] for segment in cutter.split(text)]
    ['The orchestra tuned it', 'Granite forms when mag']
    """

    def __init__(
        self,
        model: Model,
        weights: HeadWeights | str | Path | None = None,
        *,
        grain: str = "topics",
        segments: int | None = None,
        max_tokens: int | None = None,
        longest: int = LONGEST,
        words: float = WORDS,
        language: str = "en",
    ) -> None:
        check_options(grain, segments, max_tokens, longest, words, language)
        if weights is None:
            weights = shipped_weights(model)
        elif not isinstance(weights, HeadWeights):
            weights = read_head_weights(weights)
        weights.check(model)
        self.model, self.weights, self.grain, self.segments = model, weights, grain, segments
        self.max_tokens, self.longest, self.words, self.language = max_tokens, longest, words, language

    def split(self, text: str) -> list[Segment]:
        """The segments of a text, in order. An empty text has none."""
        return self.cut(text).segments

    def cut(self, text: str, tell: Tell | None = None) -> Cut:
        """A text with its boundaries and the strength of every possible one; `tell` hears how far it has come."""
        if not isinstance(text, str):
            raise HeadscopeError(f"{type(text).__name__} is not a text", "give a str")
        check_characters(text)
        return self._topics(text, tell) if self.grain == "topics" else self._sentences(text)

    def _topics(self, text: str, tell: Tell | None) -> Cut:
        topics = self.weights.topics
        parts = list(parts_of(text, self.model, self.language, self.max_tokens))
        if not parts:
            return self._nothing(text)
        longest = self._longest(len(parts))
        read = []
        done = 0
        for some, each in similarities(self.model, parts, self.weights.stack, topics, longest):
            read.append(each)
            done += len(some)
            if tell:
                tell(done, len(parts))
        before = np.concatenate([each.before for each in read])
        counts = np.concatenate([each.counts for each in read])
        scores = segment_scores(segment_sums(before, counts), topics.numbers)
        strength, ends = chosen_ends(scores, self.segments, fitting(parts, longest, self.max_tokens))
        for_boundary = np.concatenate([each.for_boundary for each in read])
        return self._cut(text, [part.span for part in parts], strength, ends, for_boundary)

    def _longest(self, number: int) -> int:
        """How many sentences a segment may have, in a text of so many: more where few segments are asked for."""
        longest = min(self.longest, number)
        if self.segments is not None:
            longest = min(max(longest, 3 * -(-number // self.segments)), number)
        if number * longest > MOST_CELLS:
            fewer = f"{number:,} sentences cannot be cut into segments of up to {longest:,} at once"
            raise HeadscopeError(fewer, "ask for more segments, a smaller longest, or cut the text into files")
        return longest

    def _sentences(self, text: str) -> Cut:
        learned = self.weights.sentences
        words = words_of(text)
        if not words:
            return self._nothing(text)
        said = sentence_ends(self.model, text, words, self.weights.stack, learned)
        likely = end_probabilities(said, learned, self.words)
        if self.segments is not None and not 0 < self.segments <= len(words):
            problem = f"{self.segments} segments are asked for, and the text has {len(words)} words"
            raise HeadscopeError(problem, "ask for fewer")
        ends = (*best_ends(likely, self.segments).tolist(), len(words) - 1)
        strength = np.append(likely, 1.0)
        if self.max_tokens is not None:
            sizes = np.array([len(self.model.tokenizer.tokenize(text[a:b])) for a, b in words])
            ends = shortened(ends, strength, sizes, self.max_tokens)
        for_boundary = np.concatenate([said, np.zeros((1, said.shape[1]))]).astype(np.float32)
        # What stands between two words, a full stop for one, belongs to the word before it.
        starts = [a for a, _ in words]
        spans = [(a, a + len(text[a:b].rstrip())) for a, b in zip(starts, [*starts[1:], len(text)], strict=True)]
        return self._cut(text, spans, strength, ends, for_boundary)

    def _nothing(self, text: str) -> Cut:
        return self._cut(text, [], np.zeros(0), (), np.zeros((0, 0), dtype=np.float32))

    def _cut(
        self,
        text: str,
        spans: list[tuple[int, int]],
        strength: Floats,
        ends: tuple[int, ...],
        for_boundary: NDArray[np.float32],
    ) -> Cut:
        heads = self.weights.topics.heads if self.grain == "topics" else self.weights.sentences.heads
        return Cut(text, self.grain, tuple(spans), strength, ends, for_boundary, heads, self.weights)


def segment(
    text: str,
    *,
    model: Model | None = None,
    weights: HeadWeights | str | Path | None = None,
    **options: Unpack[CutOptions],
) -> list[Segment]:
    """Cut a text where the heads of a model cut it; `Segmenter` tells what the options mean.

    To cut many texts, make one `Segmenter` and call its `split`.

    >>> pieces = segment("well i saw the doctor today she said it was nothing then i went home", grain="sentences")
    >>> "".join(piece.text for piece in pieces).replace(" ", "")
    'wellisawthedoctortodayshesaiditwasnothingtheniwenthome'
    """
    check_options(**options)
    if model is None:
        from headscope.models.load import load

        model = load()
    return Segmenter(model, weights, **options).split(text)


def chosen_ends(
    scores: Floats, number: int | None = None, fits: NDArray[np.bool_] | None = None
) -> tuple[Floats, tuple[int, ...]]:
    """How strong each boundary is, and which are chosen: so many, or those of the likeliest cut that are likely.

    Where two neighbouring gaps share a boundary's probability, the likeliest cut has one of them; it stays if a
    boundary at or beside it is likelier than none. Where `fits` tells which segments are short enough, those that are
    not are cut further, and the boundaries of topics stay.
    """
    strength, rate = boundary_probabilities(scores)
    if number is not None:
        return strength, best_cut_into(scores, number, strength)
    ends = likely_ends(scores, strength, rate)
    if fits is None:
        return strength, ends
    topic = np.searchsorted(ends, np.arange(len(scores)))  # which one each sentence is of
    first = np.maximum(np.arange(len(scores))[:, None] - np.arange(scores.shape[1]), 0)
    within = topic[first] == topic[:, None]
    return strength, best_cut(np.where(fits & within, scores, -np.inf), rate)


def likely_ends(scores: Floats, strength: Floats, rate: float) -> tuple[int, ...]:
    """The boundaries of the likeliest cut without those that are weak, as long as no segment grows too long."""
    ends = best_cut(scores, rate)
    around = np.convolve(strength[:-1], np.ones(3))[1:-1] if len(strength) > 1 else strength[:-1]
    kept: list[int] = []
    start = 0
    for end, following in zip(ends, [*ends[1:], None], strict=True):
        weak = following is not None and around[end] < LIKELY
        joined = 0 if following is None else following - start  # the length of both together, less one
        if weak and joined < scores.shape[1]:
            continue
        kept.append(end)
        start = end + 1
    return tuple(kept)


def fitting(parts: list[Part], longest: int, most: int | None) -> NDArray[np.bool_] | None:
    """Which segments have no more tokens than they may; a single sentence always fits."""
    if most is None:
        return None
    sums = np.concatenate([[0], np.cumsum([len(part.ids) for part in parts])])
    end = np.arange(1, len(parts) + 1)[:, None]
    tokens = sums[end] - sums[np.maximum(end - np.arange(1, longest + 1), 0)]
    fits: NDArray[np.bool_] = tokens <= most
    fits[:, 0] = True
    return fits


def shortened(ends: tuple[int, ...], strength: Floats, sizes: NDArray[np.int64], most: int) -> tuple[int, ...]:
    """The same boundaries and, within segments that are too long, the strongest others.

    >>> shortened((3,), np.array([0.1, 0.6, 0.2, 1.0]), np.array([2, 2, 2, 2]), 4)
    (1, 3)
    """
    made: list[int] = []
    todo = [(start, end) for start, end in zip([0, *(e + 1 for e in ends[:-1])], ends, strict=True)][::-1]
    while todo:
        start, end = todo.pop()
        if start < end and sizes[start : end + 1].sum() > most:
            middle = start + int(strength[start:end].argmax())
            todo += [(middle + 1, end), (start, middle)]
        else:
            made.append(end)
    return tuple(made)


def check_options(
    grain: str = "topics",
    segments: int | None = None,
    max_tokens: int | None = None,
    longest: int = LONGEST,
    words: float = WORDS,
    language: str = "en",
) -> None:
    """Refuse what makes no sense, before a model is loaded."""
    if grain not in GRAINS:
        raise HeadscopeError(f"grain={grain!r} is not possible", f"use one of {', '.join(GRAINS)}")
    if segments is not None and segments < 1:
        raise HeadscopeError(
            f"segments={segments} is not possible", "ask for at least one, or leave it out to have their number found"
        )
    if max_tokens is not None and max_tokens < 8:
        raise HeadscopeError(f"max_tokens={max_tokens} is not possible", "allow at least 8")
    if segments is not None and max_tokens is not None:
        raise HeadscopeError("a number of segments and max_tokens are both given", "give one of them")
    if longest < 2:
        raise HeadscopeError(f"longest={longest} is not possible", "allow at least two sentences")
    if not words >= 2:
        raise HeadscopeError(f"words={words} is not possible", "sentences have two words or more on average")
    if not re.fullmatch(r"[a-z]{2,3}", language):
        raise HeadscopeError(f"language={language!r} is not a language code", "use ISO 639: en, de, zh, …")
