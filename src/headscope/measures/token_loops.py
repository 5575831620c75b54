"""What the loops over pairs need or leave of the tokens: their relations, the attention they receive, the focal ones.

Compiled like `pair_loops`, with the same shapes: B windows, H heads, T tokens with padding, N tokens that count, P
pairs. Whatever other files decide (relations, categories, thresholds) comes as an argument: numba keeps compiled code
on disk and does not notice when another file changes.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from headscope.measures.numba_options import compiled


class Tokens(NamedTuple):
    """The tokens that count, (N,) each. Equal numbers are of one word, sentence or repetition; negative: of none."""

    word: Any
    category: Any
    sentence: Any
    same: Any
    kind: Any  # token ids by number


class PairTables(NamedTuple):
    """What `relate` fills in, (P,) each."""

    cells: Any  # (distance - 1) · relations + relation
    distance: Any
    within: Any
    repeated: Any
    with_stop: Any
    stop_chance: Any
    repeats: Any  # (P, 2): pairs of one id with itself, and the id's number


@compiled
def relate(tokens: Tokens, out: PairTables, codes: Any, stop: int, punctuation: int) -> int:
    """What `relations.relations` says of the pairs, as the loops want it; returns the number of rows in `repeats`.

    `codes` are the numbers of the relations, `stop` and `punctuation` those of two categories.
    """
    relations, size = len(codes), len(tokens.word)
    # Arrays are taken out of their groups before the loops: every access to a group counts a reference.
    word, category, sentence, same, kind = tokens
    cells, distance, in_sentence, repeated, with_stop, stop_chance, repeats_out = out
    repeats = p = 0
    pairs_at = np.zeros((size + 1, relations))  # by distance and relation
    for i in range(size):
        for j in range(i + 1, size):
            within = sentence[i] == sentence[j] and sentence[i] >= 0
            again = same[i] == same[j] and same[i] >= 0
            if word[i] == word[j] and word[i] >= 0:
                relation = codes.word_pieces
            elif category[i] == stop or category[j] == stop:
                relation = codes.stop
            elif category[i] == punctuation or category[j] == punctuation:
                relation = codes.punctuation
            elif within:
                relation = codes.both if again else codes.sentence
            else:
                relation = codes.repeated if again else codes.none
            cells[p] = (j - i - 1) * relations + relation
            distance[p] = j - i
            in_sentence[p] = relation in (codes.sentence, codes.both)
            repeated[p] = relation in (codes.repeated, codes.both)
            with_stop[p] = relation == codes.stop
            pairs_at[j - i, relation] += 1
            if kind[i] == kind[j]:
                repeats_out[repeats, 0], repeats_out[repeats, 1] = p, kind[i]
                repeats += 1
            p += 1
    for p in range(cells.size):
        here, relation = pairs_at[distance[p]], cells[p] % relations
        comparable = here[codes.stop] + here[codes.sentence] + here[codes.none]
        compared = relation in (codes.stop, codes.sentence, codes.none)
        stop_chance[p] = here[codes.stop] / comparable if compared else 0.0
    return repeats


class AttentionIn(NamedTuple):
    """One layer's attention, for B windows of Tq queries and Tk keys."""

    weights: Any  # (B, H, Tq, Tk) float32
    even: Any  # (B, Tk): what each key would receive if everybody read evenly
    queries: Any  # (B,): how many tokens read
    keys: Any  # (B,): how many there are to be read
    category: Any  # (B, Tk): of the keys
    counting: Any  # (B, Tk) bool: the keys that count


class AttentionSums(NamedTuple):
    """What `attention_of_heads` adds to, under the names of the variables: one layer of each."""

    attended: Any  # (H, thresholds, categories)
    attended_text: Any  # the same among the tokens that count


class AttentionOut(NamedTuple):
    """What `attention_of_heads` leaves of the batch."""

    given: Any  # (B, H, categories): the mean weight a token that reads gives to each category
    high: Any  # (B, H, Tk) bool: high-attention tokens among those that count, at θ
    passed: Any  # (B, H, Tk) int8: how many thresholds a token that counts passes


@compiled
def attention_of_heads(
    read: AttentionIn, sums: AttentionSums, out: AttentionOut, thresholds: Any, theta: float, first: int, last: int
) -> bool:
    """Where the heads `first` to `last` - 1 look. False where a weight is not a finite number."""
    weights, even, queries, keys, category, counting = read
    given, high, passed = out
    attended, attended_text = sums
    column = np.empty(weights.shape[3])
    finite = True
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
                finite &= np.isfinite(column[j])
            for j in range(size):
                received = column[j] / most if most > 0 else 0.0
                for k in range(len(thresholds)):
                    if not received > thresholds[k]:
                        break
                    attended[h, k, category[b, j]] += 1
                if not counting[b, j] or most_text <= 0:
                    continue
                received = received / (most_text / most)
                high[b, h, j] = received > theta
                for k in range(len(thresholds)):
                    if not received > thresholds[k]:
                        break
                    attended_text[h, k, category[b, j]] += 1
                    passed[b, h, j] = k + 1
    return finite


@compiled
def focal_of_layer(chosen: Any, sizes: Any, expected: Any, unique_sum: Any, expected_sum: Any) -> None:
    """How many different focal tokens the heads of a layer have, and how many chance would give.

    `chosen` (B, H, thresholds) is each head's focal token, -1 for none; `sizes` (B,) the tokens that count;
    `expected` (B, H + 1). Adds to `unique_sum` (thresholds, H + 1) and `expected_sum` (thresholds,).
    """
    heads = chosen.shape[1]
    for b in range(len(sizes)):
        if sizes[b] < 2:
            continue
        for k in range(chosen.shape[2]):
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
