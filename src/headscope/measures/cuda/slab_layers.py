"""Layers of a batch whose windows are too long for anything of the size of a map to be kept.

Rows of S and of scores are made as slabs, counted, and made anew when they are wanted again: see slabs.cu. What is kept
grows with the number of tokens, never with its square.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from headscope.choices import BINS, THRESHOLDS
from headscope.errors import HeadscopeError
from headscope.measures.attention import may_read
from headscope.measures.cuda.arguments import (
    DTYPES,
    POINTERS,
    SLAB_POINTERS,
    SLAB_ROWS,
    SLAB_THREADS,
    WARP,
    packed,
    packed_slab,
)
from headscope.measures.cuda.chip_memory import (
    end_levels_bytes,
    end_order_bytes,
    look_along_bytes,
    match_bytes,
    moments_of,
    slab_bytes,
)
from headscope.measures.cuda.device_batch import DeviceBatch, DeviceReadable
from headscope.measures.cuda.device_layer import exact_products, laid_out, vectors_of
from headscope.measures.cuda.device_sums import DeviceSums
from headscope.measures.cuda.kernels import Kernels
from headscope.measures.cuda.layout import Filled
from headscope.measures.order import ORDER_BINS, SAMPLED
from headscope.measures.relations import RELATIONS
from headscope.tap import LayerHeads, Scores

NUMBERS_OF_SLAB = 2**26  # of each product, at a time
THREADS = 256  # of a block
COLUMNS = 128  # of a block of `sum_columns`
MEETING = 32  # blocks that look for the largest S of a head
MOST_TOKENS = 32_768  # of a window: numbers of pairs are 32-bit


def in_slabs(heads: LayerHeads, sums: DeviceSums) -> bool:
    """Whether pairs are counted slab by slab.

    Attention is computed from queries and keys, its rows are not compared with each other (windows of the run may be
    long), and no variable that was declared elsewhere asks for whole maps. The same for all layers of a stack.
    """
    return heads.scores is not None and sums.maps == 1 and not any(each.fill for each in sums.host.declared)


class Slab(NamedTuple):
    """Some rows, and the columns that they are held against."""

    first: int
    rows: int
    begin: int
    columns: int


def slabs_of(tokens: int, heads: int, *, whole: bool) -> Iterator[Slab]:
    """Rows dealt out: as many at a time as there is room for, with all columns or those from their first one on.

    Each but the last has whole blocks of SLAB_ROWS.

    >>> [(slab.first, slab.rows, slab.columns) for slab in slabs_of(96, 2**20, whole=False)]
    [(0, 32, 96), (32, 32, 64), (64, 32, 32)]
    """
    first = 0
    while first < tokens:
        columns = tokens if whole else tokens - first
        rows = max(NUMBERS_OF_SLAB // (heads * columns) // SLAB_ROWS, 1) * SLAB_ROWS
        yield Slab(first, min(rows, tokens - first), tokens - columns, columns)
        first += rows


class SlabLayers:
    """Counts such layers of one batch of a stack, as long as all of them may read the same tokens."""

    def __init__(
        self, sums: DeviceSums, heads: LayerHeads, batch: DeviceBatch, read: DeviceReadable, kernels: Kernels
    ) -> None:
        self.sums, self.batch, self.read, self.kernels = sums, batch, read, kernels
        size, tokens, device = len(heads.outputs), heads.outputs.shape[2], heads.outputs.device
        self.counting = counting = batch.tensors["is_counting"].bool()  # (B, T)
        self.places = torch.where(counting, counting.cumsum(1) - 1, -1).int().contiguous()
        # (B, T, T): the model's own, seen as if every window had one.
        self.allowed = None if heads.readable is None else may_read(heads.readable, size, tokens, tokens, device)
        sources, readings = len(sums.host.sources), len(sums.shape.readings)
        self.shown = shown = readings + sums.maps
        n, ids, kinds = batch.queries.positions.shape[1], batch.queries.ids.shape[1], sums.kinds
        self.blocks = -(-tokens // SLAB_ROWS)
        self._shapes = {  # of each head and window
            "softmax": (tokens, 2), "spread": (tokens,), "column": (tokens,), "lengths": (tokens,), "largest": (),
            "sample": (shown, SAMPLED), "edges": (shown, ORDER_BINS), "histogram": (shown, kinds, ORDER_BINS),
            "regions": (readings, sums.bands, 2, ORDER_BINS), "moments": (self.blocks, moments_of(sums.constants)),
            "varies": (), "degree": (readings, n), "id_times": (readings, ids), "keys": (ids,), "null_": (ids,),
            "levels": (BINS, kinds), "distances": (BINS, len(RELATIONS)), "times": (BINS, n), "far": (n,),
            "level_times": (ids, BINS), "both": (ids, BINS), "both_far": (ids,), "norms": (sources, n),
        }  # fmt: skip

    def add(self, heads: LayerHeads, filled: Filled) -> None:
        """Have the kernels count one layer."""
        assert heads.scores is not None
        sums, batch = self.sums, self.batch
        size, many, tokens, _ = heads.outputs.shape
        device = heads.outputs.device
        queries, keys = vectors_of(heads.scores.queries), vectors_of(heads.scores.keys)
        values = None if heads.values is None else vectors_of(heads.values)
        numbers = sums.numbers(heads, laid_out(None, values, queries, keys), batch)
        numbers |= {"table_on_chip": 0, "rows_square": 0}
        memory = slab_bytes(numbers, sums.constants)
        if memory > self.kernels.most_shared:
            raise HeadscopeError(
                f"this graphics card has no room for {len(sums.shape.readings)} readings of windows of "
                f"{sums.shape.length:,} tokens", "read S in fewer ways, or in a shorter window"
            )  # fmt: skip
        room = sums.room_of(sums.shape.layers.index(heads.layer), device)
        given = dict.fromkeys(POINTERS) | batch.tensors | self.read._asdict() | sums.kept.addresses(room)
        given |= filled.addresses | {"values": values}
        given["nulls"] = torch.empty((size, many, numbers["most_ids"]), dtype=torch.int32, device=device)
        told = packed(numbers, {"theta": sums.choices.theta, "scaling": heads.scores.scaling}, given)
        tables = {
            name: torch.zeros((size, many, *shape), dtype=DTYPES[SLAB_POINTERS[name][0]], device=device)
            for name, shape in self._shapes.items()
        }
        tables["sample"].fill_(torch.inf)
        tables["places"] = self.places
        vectors = [self._vectors(source, heads) for source in sums.host.sources]  # (B, H, T, d) each
        squares = [(each.double() ** 2).sum(-1) for each in vectors]  # (B, H, T) each
        lengths = [each.float().double().sqrt().float() for each in squares]  # rounded once, on whatever device
        at = batch.tensors["positions"].long()[:, None].expand(-1, many, -1)  # (B, H, N)
        tables["norms"] = torch.stack([each.gather(2, at) for each in lengths], dim=2).contiguous()
        launch = self.kernels.launcher()
        few = (many, size)

        def begin(name: str, grid: tuple[int, int], threads: int, shared: int, slab: Slab | None = None) -> None:
            launch(name, grid, threads, shared, told, self._told(slab, tables))

        for slab in slabs_of(tokens, size * many, whole=True):
            tables["scores"] = self._scores(heads.scores, slab)
            begin("sum_rows", (size * many, slab.rows), THREADS, 8 * WARP, slab)
            begin("sum_columns", (size * many, -(-tokens // COLUMNS)), COLUMNS, 0, slab)
        begin("look_along", few, THREADS, look_along_bytes())
        tables["high_tokens"] = filled["high"].sum(-1, dtype=torch.int32)
        for counts in (False, True):
            for slab in slabs_of(tokens, size * many, whole=False):
                for name in ("similar", "scores", "turned"):
                    tables.pop(name, None)  # what was there is free for what comes
                tables |= self._products(vectors, heads.scores, slab)
                if counts:
                    begin("count_slab", (size * many, -(-slab.rows // SLAB_ROWS)), SLAB_THREADS, memory, slab)
                else:
                    begin("meet_pairs", (size * many, MEETING), THREADS, 8 * WARP, slab)
            if not counts:
                begin("find_edges_of_slabs", (size * many, self.shown), WARP, 0)
        begin("end_order", few, THREADS, end_order_bytes(numbers, sums.constants))
        begin("end_levels", few, THREADS, end_levels_bytes(numbers))
        launch("match", (1, size), THREADS, match_bytes(sums.kinds), told)
        main = sums.host.rules.source[0]
        self._sum_masks(filled, vectors[main], squares[main], lengths[main])

    def _told(self, slab: Slab | None, tables: dict[str, Tensor]) -> bytes:
        """A slab as the kernels take it."""
        allowed, own = self.allowed, slab or Slab(0, 0, 0, 0)
        strides = (0, 0, 0) if allowed is None else allowed.stride()
        names = ("allowed_batch", "allowed_row", "allowed_column")
        numbers = own._asdict() | {"blocks": self.blocks} | dict(zip(names, strides, strict=True))
        return packed_slab(numbers, tables | {"allowed": allowed})

    def _vectors(self, source: str, heads: LayerHeads) -> Tensor:
        """What is multiplied with itself: (B, H, T, d), in the model's precision where that is read."""
        return heads.outputs if source == "outputs" else self.sums.host.vectors(source, heads, self.batch.queries)

    def _scores(self, scores: Scores, slab: Slab, *, turned: bool = False) -> Tensor:
        """Queries times keys, or keys times queries: (B, H, rows, columns)."""
        queries, keys = scores.queries, scores.keys
        assert queries.shape[2] == keys.shape[2], "attention is computed where tokens read their own window"
        groups, shared = keys.shape[1], queries.shape[1] // keys.shape[1]
        keys = keys if shared == 1 else keys[:, :, None].expand(-1, groups, shared, -1, -1).flatten(1, 2)
        own, others = (keys, queries) if turned else (queries, keys)
        return exact_products(own[:, :, slab.first : slab.first + slab.rows], others[:, :, slab.begin :])

    def _products(self, vectors: Sequence[Tensor], scores: Scores, slab: Slab) -> dict[str, Tensor]:
        """S of a slab, and its scores in both directions."""
        rows, columns = slice(slab.first, slab.first + slab.rows), slice(slab.begin, None)
        similar = [exact_products(each[:, :, rows], each[:, :, columns]) for each in vectors]
        return {
            "similar": similar[0] if len(similar) == 1 else torch.stack(similar),
            "scores": self._scores(scores, slab),
            "turned": self._scores(scores, slab, turned=True),
        }

    def _sum_masks(self, filled: Filled, vectors: Tensor, squares: Tensor, norms: Tensor) -> None:
        """Σ of levels inside the mask, at its edge and outside, at every threshold; and the diagonal.

        Σ S over all pairs of a set of tokens is (|Σ v|² - Σ |v|²) / 2, so that no pair need be looked at.
        """
        sums = self.sums
        own, lengths = vectors.double(), squares  # (B, H, T, d); (B, H, T), to be taken from numbers as large
        counting = self.counting[:, None]  # (B, 1, T)
        own = own.masked_fill(~counting[..., None], 0.0)
        if sums.constants.scaled_of[0]:
            own = torch.where(norms[..., None] > 0, own / norms.double()[..., None], 0.0).masked_fill(
                ~counting[..., None], 0.0
            )
            lengths = torch.where(norms > 0, (squares.float() / (norms * norms)).double(), 0.0)
        lengths = lengths.masked_fill(~counting, 0.0)
        passed = filled["passed"][:, :, : own.shape[2]]  # (B, H, T)
        steps = torch.arange(len(THRESHOLDS) + 1, device=own.device) - 1  # the first one is of all tokens
        masks = ((passed[:, :, None] > steps[:, None]) & counting[:, :, None]).double()  # (B, H, θ + 1, T)
        added, squared, number = masks @ own, masks @ lengths[..., None], masks.sum(-1)  # (B, H, θ + 1, d | 1 | )
        within = ((added**2).sum(-1) - squared[..., 0]) / 2
        whole, inside = within[:, :, :1], within[:, :, 1:]
        edge = (added[:, :, 1:] * (added[:, :, :1] - added[:, :, 1:])).sum(-1)
        largest = filled["largest"].double()  # (B, H)
        real = (largest > 0) & (self.batch.tensors["sizes"] >= 2)[:, None]
        over = 1 / torch.where(real, largest, 1.0)[..., None]
        # Chosen, not multiplied with zero: what a window without pairs has may be no number.
        parts = torch.stack([inside, edge, whole - inside - edge], dim=-1) * over[..., None]
        filled["mask_sum"].copy_(torch.where(real[..., None, None], parts, 0.0))
        high, n = number[:, :, 1:], number[:, :, :1]
        pairs = [high * (high - 1) / 2, high * (n - high), (n - high) * (n - high - 1) / 2]
        filled["mask_pairs"].copy_(torch.where(real[..., None, None], torch.stack(pairs, dim=-1), 0.0))
        filled["diagonal"].copy_(torch.where(real, lengths.sum(-1) / n[..., 0].clamp_min(1) * over[..., 0], 0.0))
