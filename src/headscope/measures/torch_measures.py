"""What one layer's heads make of one window: its part of every sum, definition by definition.

Everything is computed where the tensors are. Shapes: R readings, M maps, H heads, T tokens (Tq that read, Tk that are
read), P pairs, D bands of distance, K different ids.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from headscope.choices import BINS, FEW_PAIRS, LONGEST_SUMMED, THRESHOLDS, Choices, first_high_bin, step_of
from headscope.measures import attention, focal
from headscope.measures.comparisons import CONTRASTED, CONTRASTS
from headscope.measures.order import ORDER_BINS
from headscope.measures.relations import RELATIONS, tally
from headscope.measures.similarity import bins, lengths, levels, of_query_heads, products, readings
from headscope.measures.torch_order import (
    contrast_weight,
    contrasted,
    has_top,
    matched_counts,
    order_bins,
    wins,
)
from headscope.measures.torch_window import WindowPairs, WindowTokens
from headscope.measures.variables import MATRIX, REGIONS, Shape
from headscope.windows import CATEGORIES

INSIDE, EDGE, OUTSIDE = range(len(REGIONS))
Found = dict[str, Tensor]  # a window's part of the sums, by variable, without the dimension `layer`


@dataclass(frozen=True)
class WindowHeads:
    """What the heads of one layer read and wrote in one window, without padding."""

    outputs: Tensor  # O: (H, Tq, d), float32
    weights: Tensor  # A: (H, Tq, Tk), float32; 0 for a token that may read nothing
    values: Tensor | None  # (Hkv, Tk, d), float32; Hkv divides H
    may: Tensor  # (Tq, Tk): which tokens each may read

    @property
    def finite(self) -> bool:
        """Whether all numbers are, and will be where two outputs are multiplied."""
        own = (self.outputs, self.weights, lengths(products(self.outputs)))
        each = own if self.values is None else (*own, self.values, lengths(products(self.values)))
        return all(bool(one.isfinite().all()) for one in each)


@dataclass(frozen=True)
class Measured:
    """What was found in a window. Focal tokens are numbers of its ids, -1: none."""

    sums: Found
    top_focal: Tensor  # (R, H): focal tokens taken from the top pairs
    focal: Tensor  # (H,): at the run's τ
    focal_null: Tensor  # (H,)


def measure(
    heads: WindowHeads, keys: WindowTokens, pairs: WindowPairs, shape: Shape, choices: Choices, layer: int
) -> Measured:
    """The part that one window has in every sum of a layer."""
    sums = attention_sums(heads, keys)
    if not len(pairs):
        none = torch.full((len(shape.readings) + 2, shape.heads), -1, device=heads.outputs.device)
        return Measured(sums, none[2:], none[0], none[1])
    length = lengths(products(heads.outputs))  # |O_i|: (H, T)
    counting = pairs.same >= 0
    similarity = readings(heads.outputs, heads.values, counting, shape.readings)  # S: (R, H, T, T)
    source = pairs.null_source(layer, shape.heads)
    values = similarity[:, :, pairs.first, pairs.second]  # (R, H, P)
    maps, region = [], None
    if not shape.cross:
        maps = attention_maps(heads, pairs, shape)
        among = attention_among(heads, keys)
        region = regions(among, choices.theta, pairs)
        sums |= map_sums(maps, pairs)
    sums |= contrast_weights(pairs, region, shape.heads)
    read = [reading_sums(each, maps, region, length, pairs, source) for each in values]
    sums |= {name: torch.stack([each[name] for each in read]) for name in read[0] if name != "top_focal"}
    level, flat = levels(values[0], choices.scale)
    bin_ = bins(level)  # (H, P)
    sums |= level_sums(similarity[0], bin_, flat, pairs, shape, choices)
    if not shape.cross:
        sums |= mask_sums(level, flat, among, pairs)
    own, token, null = focal_sums(bin_, length, pairs, source, choices)
    return Measured(sums | own, torch.stack([each["top_focal"] for each in read]), token, null)


# ---------------------------------------------------------------------- attention


def attention_sums(heads: WindowHeads, keys: WindowTokens) -> Found:
    """What the heads attend to, and how many tokens are high in attention."""
    number, reading = len(CATEGORIES), int(heads.may.any(1).sum())  # tokens that read
    given = heads.weights.double().sum(1)  # (H, Tk)
    even = attention.even_attention(heads.may).sum(0)  # (Tk,)
    if heads.values is None:  # what cannot be known is not a number
        weighted = given.new_full((len(given), number), torch.nan)
    else:
        carries = heads.values.double().norm(dim=-1)  # |v_j|: (Hkv, Tk)
        weighted = attention.weighted_shares(given, of_query_heads(carries, len(given)), keys.category, number)
    thresholds = given.new_tensor(THRESHOLDS)
    everybody = attention.received(given, even)  # a: (H, Tk)
    among = attention_among(heads, keys)
    return {
        "attention": attention.to_categories(given, keys.category, number, reading),
        "attention_even": attention.to_categories(even, keys.category, number, reading),
        "attention_weighted": weighted,
        "attention_entropy": attention.entropy(heads.weights, heads.may),
        "attended": attention.attended(everybody, keys.category, thresholds, number),
        "attended_text": attention.attended(among, keys.category, thresholds, number),
    }


def attention_among(heads: WindowHeads, keys: WindowTokens) -> Tensor:
    """a among the tokens that count, divided by the largest among them; 0 for the others: (H, Tk)."""
    given, even = heads.weights.double().sum(1), attention.even_attention(heads.may).sum(0)
    among = torch.zeros_like(given)
    among[:, keys.counting] = attention.received(given[:, keys.counting], even[keys.counting])
    return among


def attention_maps(heads: WindowHeads, pairs: WindowPairs, shape: Shape) -> list[Tensor]:
    """What attention says of each pair, in the order of the dimension `map`: M times (H, P), float32."""
    maps = {
        "direct": lambda: attention.direct(heads.weights, heads.may, pairs.first, pairs.second),
        "rows": lambda: attention.rows(heads.weights, pairs.first, pairs.second),
    }
    return [maps[name]() for name in shape.maps]


def regions(among: Tensor, theta: float, pairs: WindowPairs) -> Tensor:
    """The region of each pair: both of its tokens high in attention, one, neither. (H, T) to (H, P)."""
    high = (among > theta).long()
    return OUTSIDE - high[:, pairs.first] - high[:, pairs.second]


# ---------------------------------------------------------------------- order


def ordered(values: Tensor, pairs: WindowPairs) -> Tensor:
    """The order bin of each pair: (H, P) to (H, P)."""
    return order_bins(values, pairs.sampled, pairs.edge_places)


def wins_by_relation(order: Tensor, pairs: WindowPairs) -> Tensor:
    """Wins of the contrasts of relations: (H, P) to (H, 3)."""
    counts = tally((order, ORDER_BINS), (pairs.band, len(pairs.base_bands)), (pairs.relation, len(RELATIONS)))
    return torch.stack([wins(*classes) for classes in contrasted(counts.permute(3, 0, 2, 1))], dim=1)


def wins_inside(order: Tensor, region: Tensor, pairs: WindowPairs) -> Tensor:
    """Wins of pairs inside the mask over those outside it: (H, P) twice to (H, 1)."""
    counts = tally((order, ORDER_BINS), (pairs.band, len(pairs.base_bands)), (region, len(REGIONS)))
    by_region = counts.permute(3, 0, 2, 1)  # (region, H, D, 16)
    return wins(by_region[INSIDE], by_region[OUTSIDE])[:, None]


def contrast_weights(pairs: WindowPairs, region: Tensor | None, heads: int) -> Found:
    """The weights of the contrasts; `region` is None where there are no masks, and `inside` has 0."""
    weights = pairs.base_bands.new_zeros(heads, len(CONTRASTS), dtype=torch.float64)
    for k, classes in enumerate(contrasted(pairs.base_bands.T)):
        weights[:, k] = contrast_weight(*classes)
    if region is not None:
        counts = tally((region, len(REGIONS)), (pairs.band, len(pairs.base_bands)))  # (H, region, D)
        weights[:, len(CONTRASTED)] = contrast_weight(counts[:, INSIDE], counts[:, OUTSIDE])
    return {"contrast_weight": weights}


def map_sums(maps: list[Tensor], pairs: WindowPairs) -> Found:
    """Wins by each map, of the contrasts of relations."""
    found = []
    for values in maps:
        own = wins_by_relation(ordered(values, pairs), pairs)
        found.append(torch.cat([own, torch.zeros_like(own[:, :1])], dim=1))
    return {"attention_wins": torch.stack(found)}


def reading_sums(
    values: Tensor, maps: list[Tensor], region: Tensor | None, length: Tensor, pairs: WindowPairs, source: Tensor
) -> Found:
    """What is kept of every reading, from the S of its pairs, (H, P): nothing of it needs a threshold."""
    order, tokens = ordered(values, pairs), len(pairs.same)
    by_relation = wins_by_relation(order, pairs)
    inside = torch.zeros_like(by_relation[:, :1]) if region is None else wins_inside(order, region, pairs)
    last = order == ORDER_BINS - 1  # (H, P)
    top = last & has_top(last.sum(1), len(pairs))[:, None]
    counts = tally((top.long(), 2), (pairs.band, len(pairs.base_bands)), (pairs.relation, len(RELATIONS)))[:, 1]
    degree = focal.degrees(top.long(), pairs.first, pairs.second, 2, tokens)[:, 1]  # (H, T)
    sums = focal.sums_by_id(degree, pairs.same)  # (H, K)
    token, null = focal.focal(sums), focal.focal_of_null(sums, source)
    found = {
        "wins": torch.cat([by_relation, inside], dim=1),
        "top_pairs": counts,
        "top_few": (~top.any(1)).long(),
        "top_matched": matched_counts(counts, pairs.base_bands),
        "top_unique": one_hot(focal.different(token), len(token) + 1),
        "top_null": one_hot(focal.different(null), len(null) + 1),
        "norm_correlation": attention.correlation(length[:, pairs.places], degree[:, pairs.places]),
        "top_focal": token,
    }
    if maps:
        found["attention_correlation"] = torch.stack([attention.correlation(values, each) for each in maps])
    return found


# ---------------------------------------------------------------------- levels of the main reading


def level_sums(
    similarity: Tensor, bin_: Tensor, flat: Tensor, pairs: WindowPairs, shape: Shape, choices: Choices
) -> Found:
    """The pairs of the main reading by level, from S, (H, T, T), and the bins of its pairs, (H, P)."""
    values = similarity[:, pairs.first, pairs.second].double()
    relation = (pairs.relation, len(RELATIONS))
    bands = (pairs.band, len(pairs.base_bands))
    far = (pairs.distance - 1, len(pairs.base)) if shape.length <= LONGEST_SUMMED else bands
    high = tally((bin_, BINS), bands, relation)[:, first_high_bin(choices.tau) :].sum(1)  # (H, D, relation)
    diagonal = similarity.diagonal(dim1=1, dim2=2)[:, pairs.places].double().mean(1)
    found = {
        "pairs": tally((bin_, BINS), far, relation),
        "distance_sum": tally((bin_, BINS), relation, weight=pairs.distance),
        "matched": matched_counts(high, pairs.base_bands),
        "flat": flat.long(),
        "diagonal": torch.where(flat, 0.0, diagonal / values.amax(1)),
    }
    for name, related in zip(shape.relations, pairs.own, strict=True):
        far_related, relation_related = (far[0][related], far[1]), (relation[0][related], relation[1])
        found[f"pairs_{name}"] = tally((bin_[:, related], BINS), far_related, relation_related)
    if shape.length <= LONGEST_SUMMED:
        found[MATRIX] = torch.zeros_like(similarity, dtype=torch.float64)
        found[MATRIX][:, pairs.first, pairs.second] = values
    return found


def mask_sums(level: Tensor, flat: Tensor, among: Tensor, pairs: WindowPairs) -> Found:
    """Σ level and number of pairs in each region at every θ, flat matrices left out: (H, P) to (H, θ, region)."""
    high = (among[:, None] > among.new_tensor(THRESHOLDS)[:, None]).double()  # (H, θ, T)
    total = by_regions(high, level.double().masked_fill(flat[:, None], 0.0), pairs)
    number = by_regions(high, (~flat[:, None]).double().expand(level.shape), pairs)
    return {"mask_sum": total, "mask_pairs": number.long()}


def by_regions(high: Tensor, values: Tensor, pairs: WindowPairs) -> Tensor:
    """The sum of the pairs' values in each region: `high` (H, θ, T) of zeros and ones, (H, P) to (H, θ, region)."""
    low, table = 1 - high, high.new_zeros(len(high), high.shape[-1], high.shape[-1])  # (H, T, T)
    table[:, pairs.first, pairs.second] = values
    inside, outside = (high @ table * high).sum(-1), (low @ table * low).sum(-1)
    edge = (high @ table * low + low @ table * high).sum(-1)
    return torch.stack([inside, edge, outside], dim=-1)


def focal_sums(
    bin_: Tensor, length: Tensor, pairs: WindowPairs, source: Tensor, choices: Choices
) -> tuple[Found, Tensor, Tensor]:
    """The focal tokens at every τ, from the bins of the pairs; and those at the run's τ, with their null's: (H,)."""
    first, second, same, step = pairs.first, pairs.second, pairs.same, step_of(choices.tau)
    sums = focal.sums_by_id(focal.degrees(bin_, first, second, BINS, len(same)), same)  # (H, 21, K)
    holding = focal.pairs_with(sums, bin_, first, second, same)[:, 2:]  # bin 2 is the first that is high at 0.05
    number = focal.from_the_top(tally((bin_, BINS)))[:, 2:]  # (H, τ) high pairs
    token, null = focal.focal(sums)[:, 2:], focal.focal_of_null(sums, source)[:, 2:]  # (H, τ)
    own = token[:, step]  # (H,)
    frequency = pairs.times.double() / len(pairs.places)  # (K,): n_t / N
    with_it = ((same[first] == own[:, None]) | (same[second] == own[:, None])) & (bin_ >= first_high_bin(choices.tau))
    longest = same[pairs.places[length[:, pairs.places].argmax(1)]]  # the first of equals
    found = {
        "focal_unique": one_hot(focal.different(token.T), len(token) + 1),
        "focal_null": one_hot(focal.different(null.T), len(null) + 1),
        "focal_share": focal.of_focal(holding, token).double() / number.clamp_min(1),
        "focal_few": ((number > 0) & (number < FEW_PAIRS)).long(),
        "focal_frequency": focal.of_focal(frequency.expand(len(own), -1), own),
        "focal_distance": (with_it * pairs.distance).sum(1).double() / with_it.sum(1).clamp_min(1),
        "focal_longest": (longest == own).long(),
    }
    return found, own, null[:, step]
