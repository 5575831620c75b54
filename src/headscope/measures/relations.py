"""How the two tokens of a pair are related: by word, separator, sentence and repetition."""

from __future__ import annotations

import math
from functools import cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:  # the names of relations are read where no head is looked at, and torch takes a second to import
    from torch import Tensor

RELATIONS = ("word_pieces", "marks", "stop", "punctuation", "both", "sentence", "repeated", "none")
WORD_PIECES, MARKS, STOP_PAIR, PUNCTUATION_PAIR, BOTH, SAME_SENTENCE, REPEATED, UNRELATED = range(len(RELATIONS))


def relations(
    first: Tensor, second: Tensor, *, word: Tensor, stop: Tensor, punctuation: Tensor, sentence: Tensor, same: Tensor
) -> Tensor:
    """The relation of each pair (first[p], second[p]), the first that applies, as an index into RELATIONS.

    `word`, `sentence` and `same` hold a number per token: equal numbers mean the same word, sentence, repeated token.
    Negative numbers match nothing. `stop` and `punctuation` mark the tokens of these categories.

    >>> import torch
    >>> n = torch.tensor
    >>> places = n([0, 0, 1]), n([1, 2, 2])
    >>> codes = relations(*places, word=n([0, 1, 2]), stop=n([0, 0, 0]) > 0, punctuation=n([0, 0, 0]) > 0,
    ...                   sentence=n([0, 0, 1]), same=n([7, 8, 7]))
    >>> [RELATIONS[r] for r in codes]
    ['sentence', 'repeated', 'none']
    """
    import torch

    def equal(values: Tensor) -> Tensor:
        return (values[first] == values[second]) & (values[first] >= 0)

    in_sentence, repeated = equal(sentence), equal(same)
    relation = torch.full_like(first, UNRELATED)
    relation[repeated] = REPEATED
    relation[in_sentence] = SAME_SENTENCE
    relation[in_sentence & repeated] = BOTH
    mark = stop | punctuation
    relation[punctuation[first] | punctuation[second]] = PUNCTUATION_PAIR
    relation[stop[first] | stop[second]] = STOP_PAIR
    relation[mark[first] & mark[second]] = MARKS
    relation[equal(word)] = WORD_PIECES
    return relation


@cache
def relation_table() -> NDArray[np.int64]:
    """The relation of a pair by what its tokens are and have in common: (marks, marks, 8).

    A token is no mark, punctuation or a stop. Of eight, four are added for one word, two for one sentence, one for a
    repetition.

    >>> [RELATIONS[r] for r in relation_table()[0, 0]]
    ['none', 'repeated', 'sentence', 'both', 'word_pieces', 'word_pieces', 'word_pieces', 'word_pieces']
    """
    import torch

    one, other, equal = (torch.from_numpy(each.reshape(-1)) for each in np.indices((3, 3, 8)))
    marks, number = torch.cat([one, other]), len(one)

    def numbers(value: int) -> Tensor:  # equal for both tokens of a pair where they have it in common
        return torch.cat([torch.zeros(number), torch.where((equal & value) > 0, 0, 1)])

    places = torch.arange(number)
    related = relations(
        places, places + number, word=numbers(4), stop=marks == 2, punctuation=marks == 1, sentence=numbers(2),
        same=numbers(1),
    )  # fmt: skip
    return related.numpy().reshape(3, 3, 8)


def tally(*coordinates: tuple[Tensor, int], weight: Tensor | None = None) -> Tensor:
    """How many pairs of each head stand at which place: coordinates of the pairs, each with its size, to (H, *sizes).

    A coordinate is (H, P), or (P,) where it is the same for all heads; the first one must have heads. `weight` (P,) is
    a whole number that is added for each pair instead of 1.

    >>> import torch
    >>> tally((torch.tensor([[1, 0, 1]]), 2), (torch.tensor([2, 0, 2]), 3)).tolist()
    [[[1, 0, 0], [0, 0, 2]]]
    """
    import torch

    sizes = [size for _, size in coordinates]
    cell = torch.zeros_like(coordinates[0][0])
    for place, size in coordinates:
        cell = cell * size + place  # (H, P)
    each = torch.ones_like(cell) if weight is None else weight.expand_as(cell)
    counts = cell.new_zeros(len(cell), math.prod(sizes)).scatter_add_(1, cell, each)
    return counts.view(len(cell), *sizes)
