"""How large the sums of a stack are, from the declarations alone: before anything is made."""

from __future__ import annotations

from math import prod

from headscope.measures.variables import DIMENSIONS, Shape, variables_of

BYTES = 8  # of an int64 or a float64


def table_bytes(shape: Shape) -> int:
    """What the sums of a shard take in memory, focal tokens aside, which are few.

    >>> round(table_bytes(Shape(tuple(range(12)), 12, 128)) / 1e6)
    45
    """
    sizes = _sizes(shape)
    return BYTES * sum(prod(sizes[dim] for dim in each.dims_of(shape)) for each in variables_of(shape))


def numbers_of_block(shape: Shape) -> int:
    """How many numbers a result keeps for a block.

    >>> numbers_of_block(Shape(tuple(range(12)), 12, 128))
    462678
    """
    sizes = _sizes(shape)
    kept = [each for each in variables_of(shape) if each.kept == "block"]
    return sum(prod(sizes[dim] for dim in each.dims_of_block) for each in kept)


def _sizes(shape: Shape) -> dict[str, int]:
    return {name: len(dimension.values(shape)) for name, dimension in DIMENSIONS.items()}
