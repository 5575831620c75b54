"""The corpus table of docs/method.md, written a second time: text by text, pair by pair, plain loops.

Nothing of headscope is used but the sentence splitter. Attention comes as the model returns it, outputs from its own
value projections: neither the tap nor a batch nor padding is involved.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from typing import Any

import numpy as np
import torch

import naive
import naive_order
from headscope.windows.text import sentence_spans
from naive_order import CONTRASTS, MAPS, RELATIONS, Pairs

CATEGORIES = ["start", "end", "stop", "punctuation", "word"]
REGIONS = ["inside", "edge", "outside"]
STEPS = [k / 20 for k in range(1, 20)]
LONGEST = 512  # tokens; in longer windows rows are not compared and pairs go by band
NEAR = 1e-5  # how near to an edge, in bins, rounding may put a level on the other side
NEAR_TOKEN = 3e-6  # the same for attention received
NEAR_LENGTH = 1e-5  # the same for the length of an output


class Window:
    """What the model reads of one text, token by token."""

    def __init__(
        self, model: Any, text: str, length: int, causal: bool, special: bool = False, by_word: bool = False,
        first: int = 0,
    ) -> None:  # fmt: skip
        tokenizer = model.tokenizer
        encoded = tokenizer(text)[0]
        where = encoded.sequence_ids
        before = where.index(0)
        after = len(where) - before - where.count(0)
        room = length - before - after
        inner = tokenizer(text, add_special_tokens=False)[0]
        sentences = sentence_spans(text)
        spans = inner.offsets
        self.total, self.room = len(spans), room  # of the text, and in a window: this one begins at token `first`
        category = naive.categories(text, spans, sentences)[first : first + room]
        spans, own = spans[first : first + room], inner.ids[first : first + room]
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


def heads_of(model: Any, ids: list[int], said: list[int] | None) -> dict[str, tuple[np.ndarray, ...]]:
    """O, A and V of every stack for one text: {stack: ((L, H, Tq, d), (L, H, Tq, Tk), (L, H, Tk, d))}."""
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
        own = []
        for v in values[stack]:
            if v.shape[1] == 3 * heads * width:  # queries, keys and values side by side
                v = v[:, 2 * heads * width :]
            groups = v.shape[1] // width  # heads of one group read the same values
            parts = [v[:, group * width : (group + 1) * width] for group in range(groups)]
            own.append([parts[h * groups // heads] for h in range(heads)])
        outputs = [[a[h] @ v[h] for h in range(heads)] for a, v in zip(weights, own, strict=True)]
        found[stack] = (np.array(outputs), weights, np.array(own))
    return found


def regions(among: dict[int, float], theta: float, places: list[tuple[int, int]]) -> list[int]:
    """The region of every pair: inside, edge or outside."""
    high = {token for token, got in among.items() if got > theta}
    return [2 - (i in high) - (j in high) for i, j in places]


def near_levels(levels: list[float]) -> int:
    """How many levels rounding may put into another bin; what is exactly 0 stays so."""
    return sum(x != 0 and abs(x * 20 - round(x * 20)) < NEAR and 0 <= round(x * 20) < 20 for x in levels)


def near_ranks(values: list[float]) -> int:
    """How many ranks may fall into another bin because rounding decides which of like values comes first."""
    every, found = np.sort(values), 0
    near = NEAR / 10 * np.abs(every).max()
    for value in values:
        below, upto = np.searchsorted(every, value - near), np.searchsorted(every, value + near, side="right")
        alike = upto - below > 1 and every[below:upto].any()
        found += alike and naive.bin_of((below + 1) / len(every)) != naive.bin_of(upto / len(every))
    return int(found)


class Corpus:
    """Sums over windows for one stack, and how many numbers stood so near an edge that rounding decides.

    `sums` has every variable but `focal_tokens`, and `distance_sum`: Σ distance of the pairs by level and relation.
    """

    def __init__(self, layers: list[int], heads: int, length: int, tau: float, theta: float, options: dict) -> None:
        self.layers, self.heads, self.tau, self.theta, self.options = layers, heads, tau, theta, options
        self.readings = tuple(options.get("readings", ("dot", "cosine")))
        self.contrasts = [*CONTRASTS, "inside"]
        self.maps = list(MAPS) if length <= LONGEST else ["direct"]
        self.length, self.bands = length, naive_order.number_of_bands(length)
        n, r, m, bands = len(layers), len(self.readings), len(self.maps), self.bands

        def count(*dims: int) -> np.ndarray:
            return np.zeros(dims, dtype=np.int64)

        def total(*dims: int) -> np.ndarray:
            return np.zeros(dims)

        one, each = (n, heads), (r, n, heads)
        self.sums: dict[str, Any] = {
            "texts": 0, "unsplit": 0, "pairless": 0, "tokens": count(5), "position_pairs": count(length, length),
            "base_pairs": count(length - 1, 8),
            "attention": total(*one, 5), "attention_even": total(n, 5), "attention_weighted": total(*one, 5),
            "attention_entropy": total(*one), "attended": count(*one, 19, 5), "attended_text": count(*one, 19, 5),
            "attention_wins": total(m, *one, 3), "contrast_weight": total(*one, 4),
            "wins": total(*each, 4), "top_pairs": count(*each, bands, 8), "top_few": count(*each),
            "top_matched": total(*each, 5, 2), "top_unique": count(r, n, heads + 1),
            "top_null": count(r, n, heads + 1), "top_mixed": total(r), "attention_correlation": total(r, m, *one),
            "norm_correlation": total(*each),
            "similarity_sum": total(*one, length, length),
            "pairs": count(*one, 21, length - 1 if length <= LONGEST else bands, 8), "distance_sum": count(*one, 21, 8),
            "matched": total(*one, 5, 2), "flat": count(*one), "diagonal": total(*one),
            "mask_sum": total(*one, 19, 3), "mask_pairs": count(*one, 19, 3),
            "focal_unique": count(n, 19, heads + 1), "focal_null": count(n, 19, heads + 1),
            "focal_share": total(*one, 19), "focal_few": count(*one, 19),
            "focal_frequency": total(*one), "focal_distance": total(*one), "focal_longest": count(*one),
        }  # fmt: skip
        if length > LONGEST:
            del self.sums["similarity_sum"]
        self.focal_tokens: dict[tuple[int, int, int], int] = defaultdict(int)
        self.doubtful = count(*one)  # pairs whose level is near an edge
        self.doubtful_tokens = count(*one)  # tokens near a threshold of attention
        self.doubtful_longest = count(*one)  # windows in which two ids have outputs of the same length
        self.doubtful_order = count(*each)  # pairs near an edge of the order
        self.doubtful_top = count(*each)  # pairs near the last edge
        self.doubtful_maps = count(m, *one)  # pairs near an edge of the order by a map
        # By how much rounding may change these sums.
        self.slack = {name: np.zeros_like(self.sums[name]) for name in ("attention_correlation", "norm_correlation")}

    def _leave_out_attention(self) -> None:
        """Drop what cross-attention has not: it reads other tokens than those that the pairs are of."""
        for name in ("mask_sum", "mask_pairs", "attention_correlation", "attention_wins"):
            self.sums.pop(name, None)
        self.maps, self.contrasts = [], list(CONTRASTS)
        for name in ("wins", "contrast_weight"):
            self.sums[name] = self.sums[name][..., : len(CONTRASTS)]
        kept = [r for r, reading in enumerate(self.readings) if reading != "values"]
        self.readings = tuple(self.readings[r] for r in kept)
        for name in ("wins", "top_pairs", "top_few", "top_matched", "top_unique", "top_null", "top_mixed",
                     "norm_correlation"):  # fmt: skip
            self.sums[name] = self.sums[name][kept]
        self.slack["norm_correlation"] = self.slack["norm_correlation"][kept]
        self.doubtful_order, self.doubtful_top = self.doubtful_order[kept], self.doubtful_top[kept]

    def add(self, queries: Window, keys: Window, outputs: np.ndarray, weights: np.ndarray, values: np.ndarray,
            may_read: np.ndarray, cross: bool) -> None:  # fmt: skip
        """Add one window: O (L, H, Tq, d), A (L, H, Tq, Tk), V (L, H, Tk, d), may_read (Tq, Tk) or (L, Tq, Tk)."""
        if cross:
            self._leave_out_attention()
        s, pairs = self.sums, Pairs(queries)
        s["texts"] += 1
        s["unsplit"] += queries.sentences == 1
        s["pairless"] += not pairs.places
        for c in keys.category:
            s["tokens"][CATEGORIES.index(c)] += 1
        for (i, j), relation in zip(pairs.places, pairs.relations, strict=True):
            s["position_pairs"][i, j] += 1
            s["base_pairs"][j - i - 1, RELATIONS.index(relation)] += 1
        n, r = len(self.layers), len(self.readings)
        chosen = {
            "focal": np.full((n, self.heads, 19), None), "null": np.full((n, self.heads, 19), None),
            "top": np.full((r, n, self.heads), None), "top_null": np.full((r, n, self.heads), None),
        }  # fmt: skip
        for k, layer in enumerate(self.layers):
            reads = np.asarray(may_read, dtype=bool)
            reads = reads[layer] if reads.ndim == 3 else reads
            self._even(k, reads, keys)
            for h in range(self.heads):
                o, a, v = outputs[layer, h], weights[layer, h], values[layer, h]
                among = self._attention(k, h, a, v, reads, keys)
                if pairs.places:
                    maps = {name: pairs.of(naive_order.attention_map(a, reads, name)) for name in self.maps}
                    masked = [] if cross else regions(among, self.theta, pairs.places)
                    self._order(k, h, pairs, o, v, maps, masked, chosen)
                    self._levels(k, h, pairs, o, v, among, cross, chosen)
        if pairs.places:
            self._unique(chosen)

    # ------------------------------------------------------------------ attention

    def _even(self, k: int, may_read: np.ndarray, keys: Window) -> None:
        readers = [row for row in may_read if row.any()]
        for row in readers:
            for j, c in enumerate(keys.category):
                self.sums["attention_even"][k, CATEGORIES.index(c)] += row[j] / row.sum() / len(readers)

    def _attention(
        self, k: int, h: int, a: np.ndarray, v: np.ndarray, may_read: np.ndarray, keys: Window
    ) -> dict[int, float]:
        """Attention received among the tokens that count, over the largest of theirs."""
        s, readers = self.sums, [i for i, row in enumerate(may_read) if row.any()]
        kinds = [CATEGORIES.index(c) for c in keys.category]
        carried = np.zeros(5)
        for j, kind in enumerate(kinds):
            s["attention"][k, h, kind] += sum(a[i, j] for i in readers) / len(readers)
            carried[kind] += sum(a[i, j] for i in readers) * np.sqrt((v[j] ** 2).sum())
        if carried.sum() > 0:
            s["attention_weighted"][k, h] += carried / carried.sum()
        spreads = []
        for i in readers:
            if may_read[i].sum() >= 2:
                spreads.append(-sum(x * math.log(x) for x in a[i] if x > 0) / math.log(may_read[i].sum()))
        s["attention_entropy"][k, h] += np.mean(spreads) if spreads else 0.0

        got = naive.received(a, may_read)
        counting = [j for j, counts in enumerate(keys.counting) if counts]
        largest = max((got[j] for j in counting), default=0.0)
        among = {j: got[j] / largest if largest > 0 else 0.0 for j in counting}
        for step, theta in enumerate(STEPS):
            for j in range(len(got)):
                s["attended"][k, h, step, kinds[j]] += got[j] > theta
                self.doubtful_tokens[k, h] += abs(got[j] - theta) < NEAR_TOKEN
            for j in counting:
                s["attended_text"][k, h, step, kinds[j]] += among[j] > theta
                self.doubtful_tokens[k, h] += abs(among[j] - theta) < NEAR_TOKEN
        return among

    # ------------------------------------------------------------------ what needs no threshold

    def _order(self, k: int, h: int, pairs: Pairs, o: np.ndarray, v: np.ndarray, maps: dict[str, list[float]],
               masked: list[int], chosen: dict[str, np.ndarray]) -> None:  # fmt: skip
        s = self.sums
        none = pairs.related(("none",))
        classes = [(pairs.related(names), none) for names in CONTRASTS.values()]
        if masked:
            inside, outside = ([p for p, region in enumerate(masked) if region == wanted] for wanted in (0, 2))
            classes.append((inside, outside))
        for m, values in enumerate(maps.values()):
            cuts = naive_order.edges(values, pairs.key)
            bins = naive_order.order(values, cuts)
            self.doubtful_maps[m, k, h] += naive_order.doubtful(values, cuts, signed=False)
            for c, (ones, zeros) in enumerate(classes[:3]):
                s["attention_wins"][m, k, h, c] += naive_order.contrast(bins, ones, zeros, pairs.bands)[0]
        norms = naive_order.lengths(o)
        norms = [float(norms[i]) for i in pairs.own]
        for r, reading in enumerate(self.readings):
            values = pairs.of(naive_order.similarity(o, v, pairs.counting, reading))
            cuts = naive_order.edges(values, pairs.key)
            bins = naive_order.order(values, cuts)
            self.doubtful_order[r, k, h] += naive_order.doubtful(values, cuts)
            self.doubtful_top[r, k, h] += naive_order.doubtful_top(values, cuts)
            for c, (ones, zeros) in enumerate(classes):
                wins, weight = naive_order.contrast(bins, ones, zeros, pairs.bands)
                s["wins"][r, k, h, c] += wins
                s["contrast_weight"][k, h, c] += weight if r == 0 else 0.0
            for m, attention in enumerate(maps.values()):
                s["attention_correlation"][r, m, k, h] += naive.pearson(values, attention)
                slack = naive_order.slack(values) + naive_order.slack(attention)
                self.slack["attention_correlation"][r, m, k, h] += slack
            top = naive_order.top_pairs(bins)
            s["top_few"][r, k, h] += not top
            if not top:
                continue
            for number in top:
                s["top_pairs"][r, k, h, pairs.bands[number], RELATIONS.index(pairs.relations[number])] += 1
            s["top_matched"][r, k, h] += naive_order.matched(top, pairs.relations, pairs.bands)
            places = [pairs.places[number] for number in top]
            chosen["top"][r, k, h] = naive.focal(places, pairs.ids, pairs.counting)[0]
            chosen["top_null"][r, k, h] = naive_order.null_focal(places, pairs, self.layers[k], h)
            degrees = Counter(token for place in places for token in place)
            s["norm_correlation"][r, k, h] += naive.pearson(norms, [degrees[i] for i in pairs.own])
            self.slack["norm_correlation"][r, k, h] += naive_order.slack(norms)

    # ------------------------------------------------------------------ levels of the main reading

    def _levels(self, k: int, h: int, pairs: Pairs, o: np.ndarray, v: np.ndarray, among: dict[int, float],
                cross: bool, chosen: dict[str, np.ndarray]) -> None:  # fmt: skip
        s, places = self.sums, pairs.places
        matrix = naive_order.similarity(o, v, pairs.counting, self.readings[0])
        values = pairs.of(matrix)
        rank = self.options.get("scale") == "rank"
        level = naive.levels(matrix.astype(np.float64), places, rank)
        bins = [0] * len(places) if level is None else [naive.bin_of(x) for x in level]
        for (i, j), relation, value, b in zip(places, pairs.relations, values, bins, strict=True):
            name = RELATIONS.index(relation)
            if self.length <= LONGEST:
                s["similarity_sum"][k, h, i, j] += value
                s["pairs"][k, h, b, j - i - 1, name] += 1
            else:
                s["pairs"][k, h, b, naive_order.band_of(j - i), name] += 1
            s["distance_sum"][k, h, b, name] += j - i
        if level is None:
            s["flat"][k, h] += 1
            return
        s["diagonal"][k, h] += np.mean([float(matrix[i, i]) for i in pairs.own]) / max(values)
        self.doubtful[k, h] += near_ranks(values) if rank else near_levels(level)
        if not cross:
            for step, theta in enumerate(STEPS):
                where = regions(among, theta, places)
                s["mask_sum"][k, h, step] += np.bincount(where, weights=level, minlength=3)
                s["mask_pairs"][k, h, step] += np.bincount(where, minlength=3)
        for step in range(19):
            numbers = [number for number, b in enumerate(bins) if b >= step + 2]
            if not numbers:
                continue
            high = [places[number] for number in numbers]
            best, share = naive.focal(high, pairs.ids, pairs.counting)
            chosen["focal"][k, h, step] = best
            chosen["null"][k, h, step] = naive_order.null_focal(high, pairs, self.layers[k], h)
            s["focal_share"][k, h, step] += share
            s["focal_few"][k, h, step] += len(high) < 10
            if step == round(20 * self.tau) - 1:
                s["matched"][k, h] += naive_order.matched(numbers, pairs.relations, pairs.bands)
                self._focal(k, h, pairs, o, high, best)

    def _focal(self, k: int, h: int, pairs: Pairs, o: np.ndarray, high: list[tuple[int, int]], best: int) -> None:
        """What is told of the focal token at the run's τ."""
        s, own = self.sums, [pairs.ids[i] for i in pairs.own]
        s["focal_frequency"][k, h] += own.count(best) / len(own)
        s["focal_distance"][k, h] += np.mean([j - i for i, j in high if best in (pairs.ids[i], pairs.ids[j])])
        self.focal_tokens[self.layers[k], h, best] += 1
        norms = naive_order.lengths(o)
        longest = max(pairs.own, key=lambda i: (norms[i], -i))
        s["focal_longest"][k, h] += pairs.ids[longest] == best
        near = {pairs.ids[i] for i in pairs.own if norms[i] >= norms[longest] * (1 - NEAR_LENGTH)}
        self.doubtful_longest[k, h] += len(near) > 1 and best in near

    # ------------------------------------------------------------------ how many focal tokens differ

    def _unique(self, chosen: dict[str, np.ndarray]) -> None:
        s = self.sums

        def different(tokens: np.ndarray) -> int:
            return len({token for token in tokens if token is not None})

        for k in range(len(self.layers)):
            for step in range(19):
                s["focal_unique"][k, step, different(chosen["focal"][k, :, step])] += 1
                s["focal_null"][k, step, different(chosen["null"][k, :, step])] += 1
            for r in range(len(self.readings)):
                s["top_unique"][r, k, different(chosen["top"][r, k])] += 1
                s["top_null"][r, k, different(chosen["top_null"][r, k])] += 1
        for r in range(len(self.readings)):
            s["top_mixed"][r] += naive_order.mixed(list(chosen["top"][r].flatten()), self.heads)
