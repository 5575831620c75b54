"""What the kernels take and fill, declared once: the struct in C, and how tensors become its pointers.

Shapes: B windows, H heads, T tokens that query and Tk that are read, N that count, P pairs of these, K different ids;
R readings, M attention maps, C categories; a kind of pair is a band of distances and a relation.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from headscope.choices import FEW_PAIRS, THRESHOLDS
from headscope.measures.comparisons import COMPARED, COMPARISONS, CONTRASTED
from headscope.measures.relations import BOTH, RELATIONS, REPEATED, SAME_SENTENCE, UNRELATED, relation_table
from headscope.measures.similarity import EDGES
from headscope.windows import CATEGORIES

NUMBERS = {
    "windows": "B",
    "heads": "H",
    "tokens": "T",
    "keys": "Tk",
    "counting": "N, the largest of the batch",
    "most_pairs": "P, likewise",
    "most_ids": "K, likewise",
    "bands": "bands of distances",
    "table": "cells of a level: distances or bands, times relations",
    "distances": "that a pair may have, the largest of the run",
    "customs": "relations of the caller's own",
    "layer": "number of the layer",
    "lowest": "the first level bin that is high at the run's τ",
    "at_tau": "the place of the run's τ among the thresholds",
    "fewest_for_top": "pairs of a window that has top pairs",
    "least_top": "no top pairs where fewer than one in so many is in the last bin",
    "by_band": "whether cells are bands",
    "table_on_chip": "whether `by_level` has room for pairs by level",
    "rows_square": "whether `rows` is a square; else a number for each pair",
    "weights_kind": "the precision of attention; see PRECISIONS",
    "values_kind": "the precision of value vectors; likewise",
    "value_groups": "heads that share value vectors make a group",
    "value_width": "numbers of a value vector",
    "value_batch": "numbers from window to window of them",
    "value_group": "… from group to group",
    "value_token": "… from token to token",
    "output_kind": "the precision of outputs; see PRECISIONS",
    "output_width": "numbers of an output",
    "output_batch": "numbers from window to window of them",
    "output_head": "… from head to head",
    "output_token": "… from token to token",
    "score_kind": "the precision of queries and keys; see PRECISIONS",
    "score_width": "numbers of a query or a key",
    "query_batch": "numbers from window to window of queries",
    "query_head": "… from head to head",
    "query_token": "… from token to token",
    "key_groups": "heads that share keys make a group",
    "key_batch": "numbers from window to window of keys",
    "key_group": "… from group to group",
    "key_token": "… from token to token",
}
REALS = {"theta": "θ", "scaling": "what products of queries and keys are multiplied with"}
POINTERS = {  # name: type in C, shape and meaning
    # windows, before any head has looked at them
    "sizes": ("int", "(B,): tokens that count"),
    "queries_of": ("int", "(B,): tokens that query"),
    "keys_of": ("int", "(B,): tokens that are read"),
    "positions": ("int", "(B, N): of the tokens that count"),
    "category": ("int", "(B, Tk)"),
    "is_counting": ("int", "(B, Tk)"),
    "readable": ("int", "(B, T): how many tokens each may read"),
    "readers": ("int", "(B, 2): tokens that may read any, and several"),
    "evenness": ("double", "(B, T): 1 over ln of how many each may read; 0 below two"),
    "even": ("double", "(B, Tk): what each would receive if all read evenly"),
    "directions": (
        "float",
        "(B, T, T): 1 over the directions in which a pair may be read, or 0; none where nobody asks",
    ),
    "custom": ("int", "(own relations, B, P): whether the pair has it"),
    "word": ("int", "(B, N): equal numbers for tokens of one word; negative: of none"),
    "sentence": ("int", "(B, N): likewise"),
    "same": ("int", "(B, N): likewise of repetitions"),
    "mark": ("int", "(B, N): 0: none, 1: punctuation, 2: a stop"),
    "band_of": ("int", "(distances,): the band of each"),
    "sampled": ("int", "(B,): pairs that set the edges of order bins"),
    "id_number": ("int", "(B, N): ids numbered by first occurrence"),
    "id_at": ("int", "(B, T): the same at positions; -1 where the token does not count"),
    "distinct": ("int", "(B,): how many there are"),
    "ids": ("i64", "(B, K): the ids themselves"),
    "firsts": ("int", "(B, K): where each id first counts, in the order of `by_count`"),
    "by_count": ("int", "(B, K): ids by how often they occur, then by first position"),
    "class_begins": ("int", "(B, K): for each place there, where the ids that occur as often begin"),
    "class_ends": ("int", "(B, K): … and end"),
    "number": ("u64", "(B,): w, from which everything is drawn"),
    # the layer
    "products": ("float", "(sources, B, H, T, T): vectors times vectors"),
    "weights": ("void", "(B, H, T, Tk): attention"),
    "queries": ("void", "(B, H, T, width): what attention is computed from, where the model did not give it"),
    "score_keys": ("void", "(B, groups, T, width): likewise"),
    "allowed": ("u8", "(B, T, T): whether a token may read another; none where all may"),
    "outputs": ("void", "(B, H, T, width): what heads wrote, where their products are not"),
    "values": ("void", "(B, groups, Tk, width): value vectors; none where they are not known"),
    # what is filled before heads are looked at
    "base": ("int", "(B, kinds): pairs of each kind, where several blocks count those of a window; else none"),
    "classes": ("short", "(B, P): kind of the pair, times sixteen; none of long windows"),
    "cells": (
        "short",
        "(B, tiles, 2, 32, 4): the same in tiles, see relate.cu; none where windows are long",
    ),
    "samples": ("unsigned", "(B, 512): first and second token of sampled pairs, in the upper and lower half"),
    "match_weights": ("double", "(B, comparisons, 2, kinds): what a high pair of each kind adds to a and b"),
    "contrast_weight": ("double", "(B, 3): of the contrasts of relations"),
    "related": ("u64", "(distances, relations): number of pairs"),
    # what is filled: for each head and window, or counts over windows
    "given": ("double", "(B, H, C): the mean weight a token that reads gives to each category"),
    "weighted": ("double", "(B, H, C): the same by the length of what is read"),
    "entropy": ("double", "(B, H)"),
    "attended": ("u64", "(H, θ, C): counts of tokens that pass so many θ and no more"),
    "attended_text": ("u64", "(H, θ, C): likewise"),
    "high": ("i8", "(B, H, Tk): tokens that count and are high in attention"),
    "passed": ("i8", "(B, H, Tk): how many θ they pass"),
    "computed": ("float", "(B, H, T, T): attention from queries and keys; it is `weights`"),
    "roots": ("float", "(B, H, T, Tk): square roots of the weights; none where rows are compared on the chip, or not"),
    "direct": ("float", "(B, H, P): how much the tokens of a pair read each other"),
    "rows": ("float", "(B, H, P) or (B, H, T, T): rows of attention compared with rows"),
    "similar": ("float", "(B, H, tiles, 2, 32, 4): outputs times outputs in tiles; see relate.cu"),
    "squares": ("float", "(B, H, T): of the lengths of outputs"),
    "nulls": ("int", "(B, H, K): ids in the order of the null"),
    "largest": ("float", "(B, H): the largest S of the main reading"),
    "map_wins": ("double", "(B, H, M, 3)"),
    "wins": ("double", "(B, H, R, 4)"),
    "inside": ("double", "(B, H): the weight of the contrast of the mask"),
    "top_kinds": ("int", "(B, H, R, kinds): top pairs of each kind; zeros where the window has none"),
    "top_few": ("u64", "(H, R): counts"),
    "top_matched": ("double", "(B, H, R, comparisons, 2)"),
    "correlation": ("double", "(B, H, R, M): with the attention maps"),
    "with_norms": ("double", "(B, H, R): of top pairs with lengths"),
    "top": ("int", "(B, H, R): focal tokens from top pairs, by number; -1: none"),
    "top_null": ("int", "(B, H, R)"),
    "pairs": ("u64", "(H, levels, table): counts"),
    "custom_pairs": ("u64", "(own relations, H, levels, table): counts"),
    "distance_sum": ("u64", "(H, levels, relations): counts"),
    "high_kinds": ("int", "(B, H, kinds): pairs of each kind that are high at the run's τ"),
    "matched": ("double", "(B, H, comparisons, 2): at the run's τ"),
    "flat": ("int", "(B, H)"),
    "diagonal": ("double", "(B, H)"),
    "mask_sum": ("double", "(B, H, θ, 3)"),
    "mask_pairs": ("int", "(B, H, θ, 3)"),
    "focal": ("int", "(B, H, τ): focal tokens, by number; -1: none"),
    "focal_null": ("int", "(B, H, τ)"),
    "focal_ids": ("i64", "(B, H): ids at the run's τ; -1: none"),
    "focal_share": ("double", "(B, H, τ)"),
    "high_pairs": ("int", "(B, H, τ)"),
    "frequency": ("double", "(B, H): at the run's τ, as what follows"),
    "reach": ("double", "(B, H)"),
    "longest": ("int", "(B, H)"),
    "row": ("double", "(B, H, 3): mean distance, share in one sentence, share of repetitions of the high pairs"),
    "not_finite": ("int", "(1,): set where a number is not"),
    "scratch": ("int", "(blocks, H, 2, K, levels) where the chip has no room for it; else none"),
}
SUM = {  # of one array over the windows, by `add_windows`
    "from": "(B, number): what is added up",
    "to": "(number,): what it is added to",
    "kind": "see ADDED",
    "number": "how many numbers there are of each window",
}
CHOICE = {  # of which `count_unique` counts the different ones
    "from": "(B, H, steps): tokens by number; -1: none",
    "to": "(steps, H + 1): in how many windows there are so many",
    "steps": "thresholds or readings",
}
SLAB_NUMBERS = {  # of some rows of long windows; see slabs.cu
    "first": "the first token of its rows",
    "rows": "how many",
    "begin": "the first token of its columns",
    "columns": "how many",
    "blocks": "blocks that count pairs, of all rows of a window",
    "allowed_batch": "bytes from window to window of `allowed`",
    "allowed_row": "… from token to token that reads",
    "allowed_column": "… that is read",
}
SLAB_POINTERS = {  # name: type in C, shape and meaning; S sources of products
    "allowed": ("u8", "whether a token may read another; none where all may"),
    "places": ("int", "(B, T): the number of each token among those that count, or -1"),
    "norms": ("float", "(B, H, S, N): lengths of the vectors of tokens that count"),
    "high_tokens": ("int", "(B, H): how many tokens are high in attention"),
    "similar": ("float", "(S, B, H, rows, columns): vectors times vectors"),
    "scores": ("float", "(B, H, rows, columns): queries times keys"),
    "turned": ("float", "(B, H, rows, columns): keys times queries"),
    "softmax": ("float", "(B, H, T, 2): of each row the largest score, to the base of two, and 1 over the sum"),
    "spread": ("double", "(B, H, T): the entropy of each row"),
    "column": ("double", "(B, H, T): sums of columns of the map"),
    "lengths": ("double", "(B, H, T): of the value vectors"),
    "largest": ("unsigned", "(B, H): the largest S, as bits in the order of numbers"),
    "sample": ("float", "(B, H, R + M, 512): values of sampled pairs"),
    "edges": ("float", "(B, H, R + M, 16)"),
    "histogram": ("int", "(B, H, R + M, kinds, 16): pairs by order bin"),
    "regions": ("int", "(B, H, R, bands, 2, 16): those at the edge of the mask, and wholly in it or out of it"),
    "moments": ("double", "(B, H, blocks, moments)"),
    "varies": ("int", "(B, H): a bit for each reading or map whose values are not all the same"),
    "degree": ("int", "(B, H, R, N): top pairs of each token"),
    "id_times": ("int", "(B, H, R, K): and of each id"),
    "keys": ("u64", "(B, H, K): keys of the null"),
    "null_": ("int", "(B, H, K): ids in the order of the null"),
    "levels": ("int", "(B, H, levels, kinds): pairs by level"),
    "distances": ("u64", "(B, H, levels, relations): the sums of their distances"),
    "times": ("int", "(B, H, levels, N): pairs of each token by level"),
    "far": ("u64", "(B, H, N): the sum of the distances of its high pairs"),
    "level_times": ("int", "(B, H, K, levels): pairs of each id by level"),
    "both": ("int", "(B, H, K, levels): and with itself"),
    "both_far": ("u64", "(B, H, K): the sum of the distances of these, where they are high"),
}
MOST_SUMS, MOST_CHOICES = 24, 4
WARP = 32  # threads
ADDED = ("doubles", "counts", "few")  # int as counts; or windows in which it is above zero and below FEW_PAIRS
READ_ONLY = tuple(POINTERS)[: tuple(POINTERS).index("base")]
DTYPES = {
    "int": torch.int32, "unsigned": torch.int32, "short": torch.int16, "i8": torch.int8, "u8": torch.uint8,
    "u64": torch.int64, "i64": torch.int64, "float": torch.float32, "double": torch.float64,
}  # fmt: skip
PRECISIONS = {torch.float32: 0, torch.bfloat16: 1, torch.float16: 2}
CHIP = {  # how blocks divide up their work and the memory on the chip: the kernels are told these, too
    "TILE": (128, "tokens of a map that fits on the chip"),
    "PITCH": (132, "words from row to row of such a map: the lanes that load a fragment hit different banks"),
    "STRIDE": (36, "words from vector to vector on the chip: likewise"),
    "TILE_WARPS": (12, "of `by_tile`"),
    "SLOTS": (16, "numbers that lanes of `by_tile` add up together, one more than there are moments"),
    "ROW": (68, "words from row to row of 16-bit floats"),
    "ROW_PARTS": (3, "of a row of scores, each by another warp"),
    "MOST_BANDS": (14, "bands of distances there is room for in `by_tile` and `level_tile`"),
    "LEVEL_WARPS": (8, "of `level_tile`"),
    "THETAS": (24, "columns of its masks: thresholds, one for all tokens, and none"),
    "MASK": (68, "words from threshold to threshold of them"),
    "COMING": (3, "stretches of vectors that are on their way while `add_products` multiplies one"),
    "SLAB_ROWS": (32, "rows of a block of `count_slab`"),
    "SLAB_THREADS": (384, "of it: columns that it looks at side by side"),
}
(
    TILE, PITCH, STRIDE, TILE_WARPS, SLOTS, ROW, ROW_PARTS, MOST_BANDS, LEVEL_WARPS, THETAS, MASK,
    COMING, SLAB_ROWS, SLAB_THREADS,
) = (number for number, _ in CHIP.values())  # fmt: skip


@dataclass(frozen=True)
class Constants:
    """What is fixed when the kernels are compiled: the readings, by source and whether they are over two lengths."""

    source_of: tuple[int, ...]
    scaled_of: tuple[bool, ...]
    sources: int
    outputs: int  # the source that is O
    maps: int

    def declarations(self) -> str:
        """What stands before the kernels: types, constants and the struct that they take."""
        defined = {
            "READINGS": len(self.source_of), "MAPS": self.maps, "SOURCES": self.sources, "OUTPUTS": self.outputs,
            "RELATIONS": len(RELATIONS),
            "UNRELATED": UNRELATED, "COMPARISONS": len(COMPARISONS), "CATEGORIES": len(CATEGORIES),
            "STEPS": len(THRESHOLDS), "IN_SENTENCE": 1 << SAME_SENTENCE | 1 << BOTH,
            "REPEATED": 1 << REPEATED | 1 << BOTH,
            "FEW_PAIRS": FEW_PAIRS, "STRATA": sum(map(len, COMPARED.values())),
        } | {f"ADD_{name.upper()}": place for place, name in enumerate(ADDED)}  # fmt: skip
        strata = [
            (place, _bits(ones), _bits(zeros))
            for place, compared in enumerate(COMPARED.values())
            for ones, zeros in compared
        ]
        contrasted = [_bits(ones) for ones in CONTRASTED.values()]
        lists = {
            "int relation_of": relation_table().reshape(-1).tolist(), "int comparison_of": [c for c, _, _ in strata],
            "unsigned stratum_ones": [ones for _, ones, _ in strata],
            "unsigned stratum_zeros": [zeros for _, _, zeros in strata], "int source_of": self.source_of,
            "int scaled_of": [int(each) for each in self.scaled_of],
            "unsigned contrasted": contrasted, "double thresholds": THRESHOLDS, "double level_edges": EDGES.tolist(),
        }  # fmt: skip
        numbers = [f"    i64 {name}; // {what}" for name, what in NUMBERS.items()]
        reals = [f"    double {name}; // {what}" for name, what in REALS.items()]
        pointers = [
            f"    {'const ' if name in READ_ONLY else ''}{kind} *{name}; // {what}"
            for name, (kind, what) in POINTERS.items()
        ]
        return "\n".join(
            [
                "typedef unsigned long long u64; typedef long long i64;",
                "typedef signed char i8; typedef unsigned char u8;",
                *(f"#define {name} {value}" for name, value in defined.items()),
                *(f"#define {name} {value} /* {what} */" for name, (value, what) in CHIP.items()),
                *(f"__device__ constexpr {name}[] = {{{', '.join(map(repr, each))}}};" for name, each in lists.items()),
                "struct Args {", *numbers, *reals, *pointers, "};",
                *_slab_declaration(), *_list_of("Sum", SUM, MOST_SUMS), *_list_of("Choice", CHOICE, MOST_CHOICES), "",
            ]
        )  # fmt: skip


def _bits(relations: Sequence[int]) -> int:
    """Relations as bits."""
    return sum(1 << relation for relation in relations)


def _slab_declaration() -> list[str]:
    """The struct of a slab."""
    numbers = [f"    i64 {name}; // {what}" for name, what in SLAB_NUMBERS.items()]
    read = ("allowed", "places", "high_tokens", "similar", "scores", "turned")
    pointers = [
        f"    {'const ' if name in read else ''}{kind} *{name}; // {what}"
        for name, (kind, what) in SLAB_POINTERS.items()
    ]
    return ["struct Slab {", *numbers, *pointers, "};"]


def packed_slab(numbers: Mapping[str, int], given: Mapping[str, Tensor | None]) -> bytes:
    """That struct; pointers that are not given are none."""
    own = [given.get(name) for name in SLAB_POINTERS]
    assert set(given) <= set(SLAB_POINTERS)
    addresses = [0 if each is None else each.data_ptr() for each in own]
    return struct.pack(f"{len(SLAB_NUMBERS)}q{len(own)}Q", *(numbers[name] for name in SLAB_NUMBERS), *addresses)


def _list_of(name: str, fields: Mapping[str, str], most: int) -> list[str]:
    """A struct of whole numbers, and a list of at most so many."""
    each = [f"    i64 {field}; // {what}" for field, what in fields.items()]
    return [f"struct {name} {{", *each, "};", f"struct {name}s {{ {name} row[{most}]; }};"]


def packed_list(rows: NDArray[np.int64], most: int) -> bytes:
    """Such a list, what is left of it as zeros."""
    assert len(rows) <= most
    return rows.tobytes().ljust(most * rows[0].nbytes, b"\0")


def packed(numbers: Mapping[str, int], reals: Mapping[str, float], given: Mapping[str, Any]) -> bytes:
    """The struct: every number and pointer in its place, tensors or addresses; None where there is nothing.

    A tensor of another type, or not in one piece, is refused.
    """
    pointers = []
    for name, (kind, _) in POINTERS.items():
        tensor = given[name]
        if tensor is None or isinstance(tensor, int):  # an address
            pointers.append(tensor or 0)
            continue
        if tensor.numel() == 0:
            pointers.append(0)
            continue
        if kind != "void":  # of the model's own precision, and laid out as the numbers tell
            assert tensor.dtype == DTYPES[kind], f"{name} is {tensor.dtype}, not {DTYPES[kind]}"
            assert tensor.is_contiguous(), f"{name} is not in one piece"
        pointers.append(tensor.data_ptr())
    layout = f"{len(NUMBERS)}q{len(REALS)}d{len(pointers)}Q"
    return struct.pack(layout, *(numbers[name] for name in NUMBERS), *(reals[name] for name in REALS), *pointers)


FIELDS = {name: place for place, name in enumerate((*NUMBERS, *REALS, *POINTERS))}  # eight bytes each
