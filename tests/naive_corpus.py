"""The corpus table of docs/method.md, written a second time: text by text, pair by pair, plain loops.

Nothing of headscope is used but the sentence splitter. Attention comes as the model returns it, outputs from its own
value projections: neither the tap nor a batch nor padding is involved.
"""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise
from typing import Any

import numpy as np
import torch

import naive
from headscope.windows.text import sentence_spans

CATEGORIES = ["start", "end", "stop", "punctuation", "word"]
RELATIONS = ["word_pieces", "stop", "punctuation", "both", "sentence", "repeated", "none"]
REGIONS = ["inside", "edge", "outside"]
STEPS = [k / 20 for k in range(1, 20)]
NEAR = 1e-5  # how near to an edge, in bins, rounding may put a level on the other side
NEAR_TOKEN = 3e-6  # the same for attention received


class Window:
    """What the model reads of one text, token by token."""

    def __init__(
        self, model: Any, text: str, length: int, causal: bool, special: bool = False, by_word: bool = False
    ) -> None:
        tokenizer = model.tokenizer
        encoded = tokenizer(text)[0]
        where = encoded.sequence_ids
        before = where.index(0)
        after = len(where) - before - where.count(0)
        room = length - before - after
        inner = tokenizer(text, add_special_tokens=False)[0]
        sentences = sentence_spans(text)
        spans = inner.offsets
        category = naive.categories(text, spans, sentences)[:room]
        spans, own = spans[:room], inner.ids[:room]
        self.sentences = len(sentences)
        self.ids = encoded.ids[:before] + own + encoded.ids[len(where) - after :]
        self.category = ["start"] * before + category + ["end"] * after
        blank_before, blank_after = [None] * before, [None] * after
        words = [naive.word_of(text, s) for s in spans]
        written = [text[slice(*(w or s))].strip().casefold() or None for w, s in zip(words, spans, strict=True)]
        for k in range(1, len(spans)):  # a character spread over several tokens: the first stands for it
            if spans[k] == spans[k - 1]:
                written[k] = None
        self.again = [None] * before + written + [None] * after if by_word else list(self.ids)
        self.sentence = blank_before + [naive.sentence_of(text, s, sentences) for s in spans] + blank_after
        self.word = blank_before + [naive.word_of(text, s) for s in spans] + blank_after
        if causal and not before:
            self.category[0], self.sentence[0], self.word[0] = "start", None, None
        self.special = special

    def shifted(self, start: int) -> Window:
        new = object.__new__(Window)
        new.ids = [start, *self.ids[:-1]]
        new.category = ["start", *self.category[:-1]]
        new.sentence, new.word = [None, *self.sentence[:-1]], [None, *self.word[:-1]]
        new.sentences, new.special = self.sentences, self.special
        new.again = [start, *self.again[:-1]]
        return new

    @property
    def counting(self) -> list[bool]:
        return [self.special or c not in ("start", "end") for c in self.category]


def heads_of(model: Any, ids: list[int], said: list[int] | None) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """O and A of every stack for one text: {stack: ((L, H, T, d), (L, H, Tq, Tk))}."""
    network, values = model.network, defaultdict(list)

    def take(name: str) -> Any:
        def hook(module: Any, args: Any, output: torch.Tensor) -> None:
            stack = "cross" if "EncDec" in name else "decoder" if name.startswith("decoder.") else "encoder"
            values[stack].append(output[0].double().numpy())

        return hook

    ends = (".value", ".v_proj", ".v_lin", ".attn.v", ".c_attn", "Attention.v")
    hooks = [m.register_forward_hook(take(name)) for name, m in network.named_modules() if name.endswith(ends)]
    more = {} if said is None else {"decoder_input_ids": torch.tensor([said])}
    with torch.no_grad():
        returned = network(torch.tensor([ids]), output_attentions=True, **more)
    for hook in hooks:
        hook.remove()
    if said is None:
        maps = {next(iter(model.stacks)): returned.attentions}
        values = {next(iter(model.stacks)): values["encoder"]}
    else:
        maps = {"encoder": returned.encoder_attentions, "decoder": returned.decoder_attentions,
                "cross": returned.cross_attentions}  # fmt: skip
    found = {}
    for stack, layers in maps.items():
        weights = np.stack([layer[0].double().numpy() for layer in layers])
        heads, width = weights.shape[1], model.stacks[stack].width
        outputs = []
        for a, v in zip(weights, values[stack], strict=True):
            if v.shape[1] == 3 * heads * width:
                v = v[:, 2 * heads * width :]
            groups = v.shape[1] // width
            outputs.append(
                [a[h] @ v[:, h * groups // heads * width : (h * groups // heads + 1) * width] for h in range(heads)]
            )
        found[stack] = (np.array(outputs), weights)
    return found


class Corpus:
    """Sums over windows for one stack, and how many numbers stood so near an edge that rounding decides."""

    def __init__(self, layers: list[int], heads: int, length: int, tau: float, theta: float, options: dict) -> None:
        self.layers, self.heads, self.tau, self.theta, self.options = layers, heads, tau, theta, options
        n = len(layers)
        z = lambda *dims: np.zeros((n, heads, *dims))  # noqa: E731
        self.sums = {
            "texts": 0, "unsplit": 0, "pairless": 0, "tokens": np.zeros(5),
            "position_pairs": np.zeros((length, length)),
            "similarity_sum": z(length, length), "pairs": z(21, length - 1, 7), "flat": z(), "diagonal": z(),
            "attention": z(5), "attention_even": np.zeros((n, 5)), "attended": z(19, 5), "attended_text": z(19, 5),
            "attention_correlation": z(), "region_sum": z(3), "region_pairs": z(3),
            "mask_sum": z(19, 3), "mask_pairs": z(19, 3),
            "focal_unique": np.zeros((n, 19, heads + 1)), "focal_expected": np.zeros((n, 19)), "focal_share": z(19),
            "focal_few": z(19), "focal_frequency": z(), "focal_distance": z(),
        }  # fmt: skip
        self.focal_tokens = defaultdict(int)
        self.absolute = z()  # Σ |correlation|
        self.doubtful = z()  # pairs near an edge, of each head
        self.doubtful_tokens = z()  # tokens near a threshold of attention

    def add(
        self, queries: Window, keys: Window, outputs: np.ndarray, weights: np.ndarray, causal: bool, cross: bool
    ) -> None:
        s, size, wide = self.sums, len(queries.ids), len(keys.ids)
        counting = queries.counting
        places = naive.pairs(counting)
        s["texts"] += 1
        s["unsplit"] += queries.sentences == 1
        s["pairless"] += not places
        for c in keys.category:
            s["tokens"][CATEGORIES.index(c)] += 1
        for i, j in places:
            s["position_pairs"][i, j] += 1
        may_read = np.tril(np.ones((size, wide), dtype=bool)) if causal else np.ones((size, wide), dtype=bool)
        even = may_read / may_read.sum(1, keepdims=True)
        again = [object() if a is None else a for a in queries.again]  # what is nothing is repeated nowhere
        names = {
            (i, j): RELATIONS.index(naive.relation(i, j, again, queries.category, queries.word, queries.sentence))
            for i, j in places
        }
        own = [t for t, c in zip(queries.ids, counting, strict=True) if c]
        for k, layer in enumerate(self.layers):
            for j in range(wide):
                s["attention_even"][k, CATEGORIES.index(keys.category[j])] += even[:, j].sum() / size
            chosen = [[None] * 19 for _ in range(self.heads)]
            for h in range(self.heads):
                high_tokens = self._attention(k, h, weights[layer, h], may_read, keys)
                self._pairs(
                    k, h, outputs[layer, h], weights[layer, h], places, names, queries, high_tokens, cross, chosen
                )
            for step in range(19 if places else 0):
                tokens = [c[step] for c in chosen if c[step] is not None]
                s["focal_unique"][k, step, len(set(tokens))] += 1
                s["focal_expected"][k, step] += sum(
                    1 - (1 - own.count(t) / len(own)) ** len(tokens) for t in sorted(set(own))
                )

    def _attention(self, k: int, h: int, a: np.ndarray, may_read: np.ndarray, keys: Window) -> set[int]:
        s = self.sums
        for j, c in enumerate(keys.category):
            s["attention"][k, h, CATEGORIES.index(c)] += a[:, j].mean()
        got = naive.received(a, may_read)
        counting = [j for j, c in enumerate(keys.counting) if c]
        among = {j: got[j] / max(got[i] for i in counting) for j in counting}  # none: empty
        for step, theta in enumerate(STEPS):
            for j in range(len(got)):
                s["attended"][k, h, step, CATEGORIES.index(keys.category[j])] += got[j] > theta
                self.doubtful_tokens[k, h] += abs(got[j] - theta) < NEAR_TOKEN
            for j in counting:
                s["attended_text"][k, h, step, CATEGORIES.index(keys.category[j])] += among[j] > theta
                self.doubtful_tokens[k, h] += abs(among[j] - theta) < NEAR_TOKEN
        self.among = among
        return {j for j in counting if among[j] > self.theta}

    def _pairs(self, k: int, h: int, o: np.ndarray, a: np.ndarray, places: list, names: dict, window: Window,
               high_tokens: set[int], cross: bool, chosen: list) -> None:  # fmt: skip
        s, ids = self.sums, window.ids
        if not places:
            return
        matrix = naive.similarity(o, self.options.get("similarity") == "cosine")
        for i, j in places:
            s["similarity_sum"][k, h, i, j] += matrix[i, j]
        rank = self.options.get("scale") == "rank"
        level = naive.levels(matrix, places, rank)
        if level is None:
            s["flat"][k, h] += 1
            for i, j in places:
                s["pairs"][k, h, 0, j - i - 1, names[i, j]] += 1
            return
        places_own = [i for i, c in enumerate(window.counting) if c]
        largest = max(matrix[i, j] for i, j in places)
        norms = [1.0 if self.options.get("similarity") == "cosine" else float(o[i] @ o[i]) for i in places_own]
        s["diagonal"][k, h] += np.mean(norms) / largest
        bins = [naive.bin_of(x) for x in level]
        if rank:  # ranks are exact; what rounding may change is which of two like values comes first
            ordered = sorted(zip((matrix[p] for p in places), bins, strict=True))
            for (low, b), (high, c) in pairwise(ordered):
                self.doubtful[k, h] += b != c and high - low < 1e-6 * abs(largest)
        for (i, j), x, b in zip(places, level, bins, strict=True):
            s["pairs"][k, h, b, j - i - 1, names[i, j]] += 1
            if not rank:
                self.doubtful[k, h] += abs(x * 20 - round(x * 20)) < NEAR and 0 <= round(x * 20) < 20
            if not cross:
                region = 2 - (i in high_tokens) - (j in high_tokens)
                s["region_sum"][k, h, region] += x
                s["region_pairs"][k, h, region] += 1
                for step, theta in enumerate(STEPS):
                    region = 2 - (self.among[i] > theta) - (self.among[j] > theta)
                    s["mask_sum"][k, h, step, region] += x
                    s["mask_pairs"][k, h, step, region] += 1
        if not cross:
            alike = naive.correlation(matrix, a, places)
            s["attention_correlation"][k, h] += alike
            self.absolute[k, h] += abs(alike)
        for step, tau in enumerate(STEPS):
            high = [p for p, b in zip(places, bins, strict=True) if b >= step + 2]
            found = naive.focal(high, ids, window.counting)
            if found is None:
                continue
            chosen[h][step] = found[0]
            s["focal_share"][k, h, step] += found[1]
            s["focal_few"][k, h, step] += len(high) < 10
            if tau == self.tau:
                own = [ids[i] for i in places_own]
                s["focal_frequency"][k, h] += own.count(found[0]) / len(own)
                with_it = [j - i for i, j in high if found[0] in (ids[i], ids[j])]
                s["focal_distance"][k, h] += np.mean(with_it)
                self.focal_tokens[self.layers[k], h, found[0]] += 1
