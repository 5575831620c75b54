"""What the loops over pairs need or leave of the tokens: their relations, the attention they receive, the focal ones.

Compiled like `pair_loops`, with the same shapes: B windows, H heads, T tokens with padding, N tokens that count.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from headscope.measures.compiled import EDGES, STEPS, compiled
from headscope.measures.relations import (
    BOTH,
    PUNCTUATION_PAIR,
    RELATIONS,
    REPEATED,
    SENTENCE,
    STOP_PAIR,
    UNRELATED,
    WORD_PIECES,
)
from headscope.windows.window import PUNCTUATION, STOP

RELATED = len(RELATIONS)


@compiled
def relate(
    word: Any,  # (N,) of the tokens that count: numbers that are equal for pieces of one word, …
    category: Any,
    sentence: Any,  # … tokens of one sentence, …
    same: Any,  # … repeated tokens; negative numbers match nothing
    kind: Any,  # token ids by number
    cells: Any,  # out (P,): (distance - 1) · relations + relation
    traits: Any,  # out (4, P): distance, in one sentence, repeated, with a stop
    chances: Any,  # out (2, P): how likely a pair of words at this distance is of one sentence; one, to have a stop
    repeats: Any,  # out (P, 2): pairs of one id with itself, and the id's number
) -> int:
    """What `relations.relations` says of the pairs, as the loops want it; returns the number of rows in `repeats`."""
    found = p = 0
    at = np.zeros((len(word) + 1, RELATED))  # pairs by distance and relation
    for i in range(len(word)):
        for j in range(i + 1, len(word)):
            within = sentence[i] == sentence[j] and sentence[i] >= 0
            again = same[i] == same[j] and same[i] >= 0
            if word[i] == word[j] and word[i] >= 0:
                relation = WORD_PIECES
            elif category[i] == STOP or category[j] == STOP:
                relation = STOP_PAIR
            elif category[i] == PUNCTUATION or category[j] == PUNCTUATION:
                relation = PUNCTUATION_PAIR
            elif within:
                relation = BOTH if again else SENTENCE
            else:
                relation = REPEATED if again else UNRELATED
            cells[p] = (j - i - 1) * RELATED + relation
            traits[0, p] = j - i
            traits[1, p] = relation in (SENTENCE, BOTH)
            traits[2, p] = relation in (REPEATED, BOTH)
            traits[3, p] = relation == STOP_PAIR
            at[j - i, relation] += 1
            if kind[i] == kind[j]:
                repeats[found, 0], repeats[found, 1] = p, kind[i]
                found += 1
            p += 1
    for p in range(cells.size):
        here, relation = at[traits[0, p]], cells[p] % RELATED
        words = here[SENTENCE] + here[BOTH] + here[REPEATED] + here[UNRELATED]
        plain = here[STOP_PAIR] + here[SENTENCE] + here[UNRELATED]
        of_words = relation in (SENTENCE, BOTH, REPEATED, UNRELATED)
        chances[0, p] = (here[SENTENCE] + here[BOTH]) / words if of_words else 0.0
        chances[1, p] = here[STOP_PAIR] / plain if relation in (STOP_PAIR, SENTENCE, UNRELATED) else 0.0
    return found


@compiled
def attention_of_heads(
    weights: Any,  # (B, H, Tq, Tk) float32
    even: Any,  # (B, Tk): what each key would receive if everybody read evenly
    queries: Any,  # (B,): how many tokens read
    keys: Any,  # (B,): how many there are to be read
    category: Any,  # (B, Tk): of the keys
    counting: Any,  # (B, Tk) bool: the keys that count
    theta: float,
    first: int,  # the heads first … last - 1 are done here
    last: int,
    given: Any,  # out (B, H, categories): the mean weight a token that reads gives to each category
    attended: Any,  # sums (H, STEPS, categories): high-attention tokens
    attended_text: Any,  # the same among the tokens that count
    high: Any,  # out (B, H, Tk) bool: high-attention tokens among those that count, at θ
    passed: Any,  # out (B, H, Tk) int8: how many thresholds a token that counts passes
) -> bool:
    """Where the heads look. False where a weight is no finite number."""
    column = np.empty(weights.shape[3])
    fine = True
    for h in range(first, last):
        for b in range(len(queries)):
            size = keys[b]
            column[:size] = 0.0
            for i in range(queries[b]):
                for j in range(size):
                    column[j] += weights[b, h, i, j]
            most = most_text = 0.0
            for j in range(size):
                given[b, h, category[b, j]] += column[j] / queries[b]
                column[j] /= even[b, j]
                most = max(most, column[j])
                if counting[b, j]:
                    most_text = max(most_text, column[j])
                fine &= np.isfinite(column[j])
            for j in range(size):
                received = column[j] / most if most > 0 else 0.0
                for k in range(STEPS):
                    if not received > EDGES[k + 1]:
                        break
                    attended[h, k, category[b, j]] += 1
                if not counting[b, j] or most_text <= 0:
                    continue
                received = received / (most_text / most)
                high[b, h, j] = received > theta
                for k in range(STEPS):
                    if not received > EDGES[k + 1]:
                        break
                    attended_text[h, k, category[b, j]] += 1
                    passed[b, h, j] = k + 1
    return fine


@compiled
def focal_of_layer(
    chosen: Any,  # (B, H, STEPS): each head's focal token, -1 for none
    sizes: Any,  # (B,): tokens that count
    expected: Any,  # (B, H + 1)
    unique_sum: Any,  # sums (STEPS, H + 1): windows with so many different focal tokens
    expected_sum: Any,  # sums (STEPS,)
) -> None:
    """How many different focal tokens the heads of a layer have, and how many chance would give."""
    heads = chosen.shape[1]
    for b in range(len(sizes)):
        if sizes[b] < 2:
            continue
        for k in range(STEPS):
            unique = drawing = 0
            for h in range(heads):
                token = chosen[b, h, k]
                if token < 0:
                    continue
                drawing += 1
                new = 1
                for other in range(h):
                    if chosen[b, other, k] == token:
                        new = 0
                        break
                unique += new
            unique_sum[k, unique] += 1
            expected_sum[k] += expected[b, drawing]
