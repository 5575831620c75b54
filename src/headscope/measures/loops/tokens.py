"""What the two tokens of each pair have to do with each other."""

from __future__ import annotations

from typing import Any, NamedTuple

from headscope.measures.numba_options import compiled


class Tokens(NamedTuple):
    """The tokens that count, (N,) each. Equal numbers are of one word, sentence or repetition; negative: of none."""

    position: Any  # in the window
    word: Any
    category: Any
    sentence: Any
    same: Any
    id_number: Any  # token ids by number


class PairTables(NamedTuple):
    """What `relate` fills in, (P,) each."""

    cells: Any  # (distance - 1, or band) · relations + relation
    classes: Any  # (band · relations + relation) · 16
    bands: Any
    distance: Any
    repeats: Any  # (P, 2): pairs of one id with itself, and the id's number


@compiled
def relate(
    tokens: Tokens, out: PairTables, band_of: Any, by_band: bool, codes: Any, stop: int, punctuation: int, bins: int
) -> int:
    """What `relations.relations` says of the pairs, as the loops want it; returns the number of rows in `repeats`.

    `band_of` is the band of each distance, `codes` are the numbers of the relations, `stop` and `punctuation` those of
    two categories, `bins` the number of order bins.
    """
    position, word, category, sentence, same, id_number = tokens
    cells, classes, bands, distance, repeats_out = out
    relations, size = len(codes), len(word)
    repeats = p = 0
    for i in range(size):
        mark = category[i] == stop or category[i] == punctuation
        for j in range(i + 1, size):
            other_mark = category[j] == stop or category[j] == punctuation
            within = sentence[i] == sentence[j] and sentence[i] >= 0
            again = same[i] == same[j] and same[i] >= 0
            if word[i] == word[j] and word[i] >= 0:
                relation = codes.word_pieces
            elif mark and other_mark:
                relation = codes.marks
            elif category[i] == stop or category[j] == stop:
                relation = codes.stop
            elif mark or other_mark:
                relation = codes.punctuation
            elif within:
                relation = codes.both if again else codes.sentence
            else:
                relation = codes.repeated if again else codes.none
            apart = position[j] - position[i]
            band = band_of[apart - 1]
            cells[p] = (band if by_band else apart - 1) * relations + relation
            classes[p] = (band * relations + relation) * bins
            bands[p] = band
            distance[p] = apart
            if id_number[i] == id_number[j]:
                repeats_out[repeats, 0], repeats_out[repeats, 1] = p, id_number[i]
                repeats += 1
            p += 1
    return repeats
