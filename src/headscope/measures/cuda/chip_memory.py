"""How much memory on the chip a block of each kernel divides up at its beginning, in bytes.

Doubles and u64 take 8 bytes, int and float 4.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from headscope.choices import BINS, THRESHOLDS
from headscope.measures.bands import band_names
from headscope.measures.comparisons import COMPARISONS, CONTRASTED
from headscope.measures.cuda.arguments import (
    COMING,
    LEVEL_WARPS,
    MASK,
    MOST_BANDS,
    PITCH,
    ROW,
    ROW_PARTS,
    SLAB_ROWS,
    SLOTS,
    STRIDE,
    THETAS,
    TILE,
    TILE_WARPS,
    WARP,
    Constants,
)
from headscope.measures.order import ORDER_BINS, SAMPLED
from headscope.measures.relations import RELATIONS
from headscope.windows import CATEGORIES

ROOM = 32  # doubles, one for each warp of a block: what threads tell each other


def relate_bytes(numbers: Mapping[str, int], *, table: bool) -> int:
    """Of `relate`, with or without pairs by distance and relation."""
    return 4 * len(RELATIONS) * (numbers["bands"] + table * numbers["distances"])


def attention_bytes(numbers: Mapping[str, int]) -> int:
    """Of `attention`."""
    return 8 * (ROOM + 2 * numbers["keys"]) + 4 * 2 * len(THRESHOLDS) * len(CATEGORIES)


def tile_bytes(numbers: Mapping[str, int]) -> int:
    """Of `attention_tile`."""
    rows, begin = -(-numbers["tokens"] // 16) * 16, -(-attention_bytes(numbers) // 16) * 16
    return begin + 4 * rows * PITCH + 8 * 2 * TILE + 4 * 3 * TILE


def attend_bytes() -> int:
    """Of `attend`."""
    return 4 * 2 * TILE * STRIDE


def tiles_of(tokens: int) -> int:
    """Tiles of 16 by 16 pairs of a window; see relate.cu.

    >>> tiles_of(128), tiles_of(17)
    (36, 3)
    """
    strips = -(-tokens // 16)
    return strips * (strips + 1) // 2


def cells_of(tokens: int) -> int:
    """Pairs of tokens in these tiles, those that are none included."""
    return 256 * tiles_of(tokens)


def by_tile_bytes(constants: Constants) -> int:
    """Of `by_tile`: the same for all windows of at most TILE tokens."""
    kinds, bands = MOST_BANDS * len(RELATIONS), MOST_BANDS
    readings, shown = len(constants.source_of), len(constants.source_of) + constants.maps
    looks = 10 * TILE  # sums of columns, lengths and entropies
    looks += max(shown * SAMPLED, (3 * ROW_PARTS + 2) * TILE)  # samples; before, parts of rows and even attention
    words = max(4 * TILE * STRIDE, 2 * TILE * ROW, constants.maps * cells_of(TILE))
    words += max(shown * (kinds + 1) * ORDER_BINS, looks)
    words += (
        4 * TILE + shown * (4 + ORDER_BINS) + TILE_WARPS * SLOTS + 4
    )  # tokens, quarters, edges, middles, the window
    words += max(2 * TILE, readings * 2 * tiles_of(TILE) * 4)  # keys, or top pairs
    words += 4 * TILE + readings * ((2 * bands + 2) * ORDER_BINS + TILE)  # by token; regions, times
    return 4 * (words + readings + 3)


def level_tile_bytes() -> int:
    """Of `level_tile`: the same for all windows of at most TILE tokens."""
    kinds, pairs = MOST_BANDS * len(RELATIONS), -(-BINS // 2) * (len(RELATIONS) * (TILE - 1) + 16)
    found = 2 * (32 + 16 * len(THRESHOLDS))  # at the run's τ, and at every threshold; of two windows
    words = THETAS * MASK + 2 * TILE + kinds + (BINS + 2) * TILE + WARP + pairs
    return 8 * (LEVEL_WARPS * 3 * THETAS + 8) + found + 16 * TILE + 4 * words


def add_products_bytes() -> int:
    """Of `add_products`: vectors that are multiplied, and those that come."""
    return 4 * (COMING + 1) * TILE * STRIDE


def moments_of(constants: Constants) -> int:
    """What is known of the pairs of a head together: sums, squares, products, the largest."""
    readings, maps = len(constants.source_of), constants.maps
    return 2 * (readings + maps) + readings * maps + 1


def order_bytes(numbers: Mapping[str, int], constants: Constants) -> int:
    """Of `by_order`."""
    bands, counting, ids = numbers["bands"], numbers["counting"], numbers["most_ids"]
    readings, maps = len(constants.source_of), constants.maps
    shown = readings + maps
    moments = moments_of(constants)
    wins = 2 * shown * bands * (len(CONTRASTED) + 1)
    by_shown = ORDER_BINS + SAMPLED + bands * len(RELATIONS) * ORDER_BINS  # edges, samples, histograms
    by_reading = bands * 2 * ORDER_BINS + counting + ids  # regions, degrees, times
    by_token = constants.sources + 2  # lengths, positions, whether high
    return 8 * (ROOM * moments + wins + ids) + 4 * (
        shown * by_shown + readings * by_reading + by_token * counting + ids + readings + 2
    )


class LevelMemory(NamedTuple):
    """Memory of `by_level`: what it needs, and which tables there is room for, in the order of what they save."""

    size: int
    times: bool  # how often ids occur in each level; else it is `scratch`
    table: bool  # pairs by level; else they are counted in the memory of the card


def level_memory(numbers: Mapping[str, int], most: int) -> LevelMemory:
    """How `by_level` divides up at most so many bytes."""
    tokens, ids, kinds = numbers["counting"], numbers["most_ids"], numbers["bands"] * len(RELATIONS)
    size = 8 * (ROOM + 2 + 4 * tokens) + 4 * (4 * tokens + ids + kinds + 2)
    pairs = BINS if numbers["by_band"] else -(-BINS // 2)  # two levels to a word
    room = []
    for table in (2 * BINS * ids, pairs * numbers["table"]):
        room.append(size + 4 * table <= most)
        size += 4 * table * room[-1]
    return LevelMemory(size, *room)


def look_along_bytes() -> int:
    """Of `look_along`: that of `attention` without what there is of each token."""
    return attention_bytes({"keys": 0})


def slab_bytes(numbers: Mapping[str, int], constants: Constants) -> int:
    """Of `count_slab`."""
    readings, shown = len(constants.source_of), len(constants.source_of) + constants.maps
    kinds = numbers["bands"] * len(RELATIONS)
    moments = moments_of(constants)
    tables = (shown * kinds + readings * numbers["bands"] * 2 + shown) * ORDER_BINS + BINS * kinds
    row = 4 + constants.sources + 6 + readings + 1 + BINS
    return 8 * (ROOM * moments + BINS * len(RELATIONS)) + 4 * (tables + SLAB_ROWS * row)


def most_order_bytes(window: int, readings: int) -> int:
    """Of `by_order`, at most: of windows of so many tokens, all of them different.

    >>> most_order_bytes(128, 2) <= 99 * 1024 < most_order_bytes(512, 4) <= 227 * 1024
    True
    """
    numbers = {"bands": len(band_names(window)), "counting": window, "most_ids": window}
    return order_bytes(numbers, Constants((0,) * readings, (False,) * readings, readings, 0, 2))


def end_order_bytes(numbers: Mapping[str, int], constants: Constants) -> int:
    """Of `end_order`: that of `by_order` without what there is of each token and id."""
    none = dict(numbers) | {"counting": 0, "most_ids": 0}
    return order_bytes(none, constants)


def match_bytes(kinds: int) -> int:
    """Of `match`: what pairs of each kind weigh."""
    return 8 * 2 * len(COMPARISONS) * kinds


def end_levels_bytes(numbers: Mapping[str, int]) -> int:
    """Of `end_levels`."""
    return 8 * ROOM + 4 * (2 + numbers["bands"] * len(RELATIONS))


def mixed_bytes(most_ids: int) -> int:
    """Of `mixed`."""
    return 8 * ROOM + 4 * most_ids
