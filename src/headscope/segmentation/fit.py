"""Learning which heads cut texts, from any collection of texts: no boundary has to be known.

Sentences of one passage belong together, those of another do not. From that each head's weight is learned; then
passages are put together to documents, and what a segment costs is learned from where these are known to change.
Sentence ends are learned from the texts' own punctuation, which is taken away.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from headscope.errors import HeadscopeError
from headscope.extras import require
from headscope.segmentation.fit_gaps import fit_sentences
from headscope.segmentation.fit_numbers import fit_numbers
from headscope.segmentation.head_weights import Floats, HeadWeights, TopicWeights, fingerprint
from headscope.segmentation.parts import Part, parts_of
from headscope.segmentation.topics import directions
from headscope.segmentation.vectors import Counting, Heads, Vectors, all_heads, counting_of, mean_outputs
from headscope.texts import Bad, open_texts

if TYPE_CHECKING:
    from headscope.models.model import Model

PASSAGES = 4_000  # that are read where there are as many
SENTENCES = (2, 12)  # of a passage; what is longer gives several
FROM_ONE = 8  # passages that one text may give
FEWEST = 60  # passages from which anything can be learned
MEMORY = 1_500_000_000  # bytes of what heads made of sentences
TRIPLES = 60_000  # a sentence, one of its passage, one of another: at most, and
TRIPLES_EACH = 10  # so many for each sentence
SAME_SOURCE = 1 / 3  # of these, where there are some: the other passage is of the same text
COMMON_SHARE = 1e-4  # of all tokens, from which on a token is noted as common
RELIABLE = 10.0  # tokens, common ones hardly counted, at which a sentence counts half
SPARSE = 4e-3  # what a unit of weight costs: the more, the fewer heads
LEAST_WEIGHT = 0.002  # of all weights together; heads below are left out
Tell = Callable[[str, int, int], None]  # what is being done, how much of it is done, of how much


@dataclass(frozen=True, slots=True)
class Passage:
    """Some sentences that stand together, and the text that they are from."""

    source: str
    text: str
    parts: tuple[Part, ...]


def fit(
    model: Model,
    texts: Any,
    *,
    passages: int = PASSAGES,
    seed: int = 0,
    language: str = "en",
    tell: Tell | None = None,
    **reading: Any,
) -> HeadWeights:
    """Learn which heads of a model cut texts.

    `texts` is whatever `analyze` takes, and `reading` its options for it: `text_field`, `cluster_field`, … Texts of
    one cluster are one source: passages that are told apart although they are about the same. The weights are of the
    model's first stack. With the same texts and seed the result is the same.
    """
    require("learning which heads cut texts", "scipy")
    stack = model.stack().name
    heads = all_heads(model, stack)
    tell = tell or (lambda *_: None)
    size = 2 * len(heads) * model.stack(stack).width * 5  # bytes of a passage, about
    wanted = min(passages, MEMORY // size)
    corpus = open_texts(texts, **reading)
    found = some_passages(model, corpus.records(), wanted, seed, language, tell)
    sources = len({each.source for each in found})
    if len(found) < FEWEST or sources < FEWEST // 4:
        raise HeadscopeError(
            f"{corpus.name} has {len(found)} passages of {sources} texts, too few to learn from",
            f"give at least {FEWEST} passages of two sentences or more, from {FEWEST // 4} texts or more",
        )
    common = common_tokens(model, found)
    counting = counting_of(model, common)
    read = _read(model, found, stack, heads, counting, tell)
    topics = fit_from_vectors(read, found, heads, common, counting, seed, tell)
    sentences = fit_sentences(model, [each.text for each in found], stack, heads, seed, language, tell)
    recipe = {"texts": corpus.name, "passages": len(found), "seed": seed, "language": language}
    return HeadWeights(fingerprint(model), stack, topics, sentences, recipe)


def some_passages(
    model: Model, records: Iterable[Any], wanted: int, seed: int, language: str, tell: Tell
) -> list[Passage]:
    """So many passages of as many texts, drawn at random from all; in the texts' order."""
    chosen: list[tuple[int, Passage]] = []
    drawn = np.random.default_rng(seed)
    for seen, passage in enumerate(_all_passages(model, records, language)):
        if len(chosen) < wanted:
            chosen.append((seen, passage))
        elif (place := int(drawn.integers(seen + 1))) < wanted:
            chosen[place] = (seen, passage)
        tell("finding passages", seen + 1, 0)
    return [passage for _, passage in sorted(chosen, key=lambda each: each[0])]


def _all_passages(model: Model, records: Iterable[Any], language: str) -> Iterator[Passage]:
    least, most = SENTENCES
    for record in records:
        if isinstance(record, Bad):
            continue
        parts = [part for part in parts_of(record.text, model, language) if len(part.ids)]
        pieces = min(-(-len(parts) // most), FROM_ONE)
        for some in np.array_split(np.arange(len(parts)), pieces) if pieces else ():
            inside = tuple(parts[k] for k in some[:most])
            if len(inside) >= least:
                text = record.text[inside[0].span[0] : inside[-1].span[1]]
                yield Passage(record.cluster or record.id, text, inside)


def common_tokens(model: Model, passages: Iterable[Passage]) -> dict[str, float]:
    """The tokens that are a good part of all, with their share, the most common first."""
    counted = Counter(int(number) for passage in passages for part in passage.parts for number in part.ids)
    total = counted.total()
    names = model.tokenizer.convert_ids_to_tokens(list(counted))
    shares = {name: number / total for name, number in zip(names, counted.values(), strict=True)}
    ordered = sorted(shares.items(), key=lambda each: (-each[1], each[0]))
    return {name: float(f"{share:.4g}") for name, share in ordered if share >= COMMON_SHARE}


def _read(
    model: Model, passages: list[Passage], stack: str, heads: Heads, counting: Counting, tell: Tell
) -> NDArray[np.float16]:
    """What every head makes of every sentence: (N, H, d)."""
    parts = [part for passage in passages for part in passage.parts]
    made = np.zeros((len(parts), len(heads), model.stack(stack).width), dtype=np.float16)
    for start in range(0, len(parts), 2048):
        some = parts[start : start + 2048]
        made[start : start + len(some)] = mean_outputs(model, some, stack, heads, counting)
        tell("reading sentences", start + len(some), len(parts))
    return made


def fit_from_vectors(
    vectors: NDArray[Any],
    passages: list[Passage],
    heads: Heads,
    common: dict[str, float],
    counting: Counting,
    seed: int,
    tell: Tell,
) -> TopicWeights:
    """Learn weights and numbers from what is known of each sentence of the passages, one after the other: (N, H, d)."""
    means = vectors.mean(0, dtype=np.float64)  # (H, d)
    tell("comparing sentences", 0, 0)
    drawn = np.random.default_rng(seed)
    differences = _differences(vectors, means, passages, drawn)
    tell("weighing heads", 0, 0)
    weights = weigh(differences)
    kept = np.flatnonzero(weights > LEAST_WEIGHT * weights.sum())
    relied = np.array([counting[part.ids].sum() for passage in passages for part in passage.parts])
    counts = relied / (relied + RELIABLE)
    pointing = directions(vectors[:, kept].astype(np.float32), means[kept]) * counts[:, None, None].astype(np.float32)
    share = weights[kept] / weights[kept].sum()
    tell("weighing boundaries", 0, 0)
    scale, numbers = fit_numbers(pointing, counts, share, [(each.source, len(each.parts)) for each in passages], seed)
    chosen = tuple(heads[int(k)] for k in kept)
    return TopicWeights(chosen, scale * share, means[kept], common, RELIABLE, numbers)


def _differences(
    vectors: NDArray[Any], means: Floats, passages: list[Passage], drawn: np.random.Generator
) -> NDArray[np.float32]:
    """How much more similar each head finds a sentence of the same passage than one of another: (triples, H)."""
    starts = np.concatenate([[0], np.cumsum([len(each.parts) for each in passages])])
    of_source: dict[str, list[int]] = {}
    for number, each in enumerate(passages):
        of_source.setdefault(each.source, []).append(number)
    triples = np.zeros((min(TRIPLES, TRIPLES_EACH * len(vectors)), 3), dtype=np.int64)
    for k in range(len(triples)):
        own = int(drawn.integers(len(passages)))
        siblings = of_source[passages[own].source]
        if len(siblings) > 1 and drawn.random() < SAME_SOURCE:
            other = int(drawn.choice([each for each in siblings if each != own]))
        else:
            other = int(drawn.integers(len(passages)))
            while passages[other].source == passages[own].source:
                other = int(drawn.integers(len(passages)))
        first, second = drawn.choice(np.arange(starts[own], starts[own + 1]), 2, replace=False)
        triples[k] = first, second, drawn.integers(starts[other], starts[other + 1])
    made = np.zeros((len(triples), vectors.shape[1]), dtype=np.float32)
    for head in range(vectors.shape[1]):  # a head at a time: all of them in float32 would be twice the memory
        pointing: Vectors = directions(vectors[:, head : head + 1].astype(np.float32), means[head : head + 1])[:, 0]
        one, same, another = (pointing[triples[:, k]] for k in range(3))
        made[:, head] = (one * (same - another)).sum(1)
    return made


def weigh(differences: NDArray[np.float32], steps: int = 600) -> Floats:
    """Weights of 0 or more under which sentences of a passage are the more similar ones, of as few heads as do.

    >>> drawn = np.random.default_rng(0)
    >>> useful, useless = drawn.normal(0.3, 0.2, 2000), drawn.normal(0, 0.3, 2000)
    >>> weigh(np.stack([useful, useless], axis=1).astype(np.float32)).round(1).tolist()
    [8.2, 0.0]
    """
    rows = torch.from_numpy(differences)
    weights = torch.full((rows.shape[1],), 1 / rows.shape[1], requires_grad=True)
    improve = torch.optim.Adam([weights], lr=0.05)
    slower = torch.optim.lr_scheduler.CosineAnnealingLR(improve, steps)
    for _ in range(steps):
        loss = torch.nn.functional.softplus(-(rows @ weights)).mean() + SPARSE * weights.sum()
        improve.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        improve.step()
        slower.step()
        with torch.no_grad():
            weights.clamp_(min=0)
    return weights.detach().double().numpy()
