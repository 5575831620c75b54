"""Which shards are added to which block: neighbours of one group, so many to a block that the blocks are few enough.

A result keeps the sums of blocks rather than of shards, for intervals need a few dozen to a few hundred of them,
whatever the number of shards.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from headscope.measures.table_sizes import numbers_of_block
from headscope.measures.variables import Shape

MOST_BLOCKS = 256
FEWEST_BLOCKS = 32  # however large the tables
MOST_NUMBERS = 1 << 26  # in all blocks of a result together


def most_blocks(shapes: Sequence[Shape]) -> int:
    """How many blocks a result may have: 256, or fewer where they are large, so that its file stays small.

    >>> most_blocks([Shape(tuple(range(6)), 8, 128)]), most_blocks([Shape(tuple(range(12)), 12, 128)])
    (256, 145)
    """
    together = sum(map(numbers_of_block, shapes))
    return max(FEWEST_BLOCKS, min(MOST_BLOCKS, MOST_NUMBERS // max(together, 1)))


def blocks_of(groups: Sequence[str], most: int) -> list[tuple[int, ...]]:
    """Shards, given by their groups, taken together to at most so many blocks, as even as can be.

    A block never holds two groups, so there are as many blocks as groups at least.

    >>> blocks_of(["a", "b", "a", "a", "a"], 3)
    [(0, 2), (3, 4), (1,)]
    """
    members: dict[str, list[int]] = {}
    for place, group in enumerate(groups):
        members.setdefault(group, []).append(place)
    most, size = max(most, len(members)), 1
    while sum(-(-len(each) // size) for each in members.values()) > most:
        size += 1
    blocks: list[tuple[int, ...]] = []
    for each in members.values():
        number = -(-len(each) // size)
        ends = [len(each) * k // number for k in range(number + 1)]
        blocks += [tuple(each[begin:end]) for begin, end in pairwise(ends)]
    return blocks
