"""One text in one reading: the window, the matrices of its heads, levels, focal tokens, attention received."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, Self

import numpy as np
import torch

from headscope.choices import BINS, READINGS, Choices, checked_readings, first_high_bin, step_of
from headscope.errors import HeadscopeError
from headscope.inspection.capture import Captured, no_attention
from headscope.inspection.parts import FocalToken, LayerPairs, labels_of_ids
from headscope.measures import attention as attention_
from headscope.measures import focal as focal_
from headscope.measures import similarity as similarity_
from headscope.measures.order import ORDER_BINS
from headscope.measures.torch_order import has_top, order_bins
from headscope.measures.torch_window import WindowPairs, window_pairs
from headscope.windows import Window
from headscope.windows.window import NO_WORDS

Array = np.ndarray[Any, Any]


class ReadText:
    """What every head did with one text, as arrays; `Inspection` labels them and makes tables of them."""

    def __init__(self, model: str, choices: Choices, captured: Captured, pairs: WindowPairs | None = None) -> None:
        check_reading(choices.reading, captured)
        self.model, self.choices, self.captured = model, choices, captured
        self.pairs = pairs or window_pairs(captured.queries, choices, {})  # the same in every reading
        self._last_pairs: tuple[int, LayerPairs] | None = None  # the layer looked at last: one at a time is enough

    # ------------------------------------------------------------------ readings

    @property
    def reading(self) -> str:
        """How S is read here: the main reading of the choices."""
        return self.choices.reading

    @property
    def readings(self) -> tuple[str, ...]:
        """The readings that this text can be looked at in."""
        return tuple(READINGS) if has_values(self.captured) else tuple(name for name in READINGS if name != "values")

    def read_as(self, reading: str) -> Self:
        """The same text in another reading of S: the model does not run again, what it wrote is shared.

        >>> import headscope
        >>> seen = headscope.load().inspect("The cat saw the dog. The dog saw the cat.")
        >>> seen.read_as("cosine").reading, seen.read_as("cosine").outputs.equals(seen.outputs)
        ('cosine', True)
        """
        choices = replace(self.choices, readings=checked_readings((reading, *self.choices.readings)))
        return type(self)(self.model, choices, self.captured, self.pairs)

    # ------------------------------------------------------------------ the text

    @property
    def missing(self) -> list[str]:
        """What is not known of this text, and why: empty where a model has read it."""
        missing = [] if self.window.described else [NO_WORDS]
        if self.captured.given is None:
            missing.append("attention is not known: it was not given")
        elif not self.captured.has_maps:
            missing.append("attention maps, and what is made of them, are not known: they were not kept")
        return missing

    @property
    def window(self) -> Window:
        """The tokens that were similar or not: those that queried."""
        return self.captured.queries

    @property
    def stack(self) -> str:
        """Which attention stack was looked at: encoder, decoder or cross."""
        return self.captured.stack

    @property
    def shown(self) -> str:
        """Which of the text's tokens the window shows, counted from 1, special tokens not counted."""
        own = int((self.window.part >= 0).sum())
        if not own:
            return f"no tokens of {self.window.total}"
        return f"tokens {self.window.first + 1} to {self.window.first + own} of {self.window.total}"

    @cached_property
    def counting(self) -> torch.Tensor:
        """Which tokens take part in the similarity statistics."""
        return torch.from_numpy(self.window.counting(self.choices.special))

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """Each token of the window as a person reads it."""
        return self.window.labels

    # ------------------------------------------------------------------ pairs

    def matrix(self, k: int, h: int) -> torch.Tensor:
        """S of a head of the k-th kept layer, (T, T), its diagonal zero."""
        outputs, values = torch.from_numpy(self.captured.outputs[k, h])[None], None
        own = self.captured.values[k]
        if own is not None:
            values = torch.from_numpy(own[h * len(own) // self.captured.heads])[None]  # heads may share value vectors
        every = self.counting if self.counting.any() else torch.ones_like(self.counting)
        matrix = similarity_.readings(outputs, values, every, [self.reading])[0, 0]
        return matrix.fill_diagonal_(0)

    @property
    def places(self) -> tuple[torch.Tensor, torch.Tensor]:
        """The positions i < j of all pairs."""
        return self.pairs.first, self.pairs.second

    @property
    def relations(self) -> torch.Tensor:
        """The relation of each pair, as an index into `RELATIONS`."""
        return self.pairs.relation

    @property
    def same(self) -> torch.Tensor:
        """The tokens' ids numbered by where they first count; -1 for tokens that do not."""
        return self.pairs.same

    @cached_property
    def same_labels(self) -> list[str]:
        """How each of these ids is written most often."""
        return labels_of_ids(self.window, self.same)

    def order(self, values: torch.Tensor) -> torch.Tensor:
        """The bins of pairs by the order of their values, 0 to 15, the top ones in 15: (H, P) to (H, P)."""
        return order_bins(values, self.pairs.sampled, self.pairs.edge_places) if len(self.pairs) else values.long()

    def layer_pairs(self, k: int) -> LayerPairs:
        """S, level and bin of every pair of the k-th kept layer."""
        if self._last_pairs is not None and self._last_pairs[0] == k:
            return self._last_pairs[1]
        value = torch.stack([self.matrix(k, h)[self.places] for h in range(self.captured.heads)])  # (H, P)
        level, flat = similarity_.levels(value, self.choices.scale)
        pairs = LayerPairs(value, level, similarity_.bins(level), flat)
        self._last_pairs = (k, pairs)
        return pairs

    def check_head(self, layer: int, head: int) -> tuple[int, int]:
        """The place of a layer and head in the arrays, or an error that says which there are."""
        if layer not in self.captured.layers:
            raise HeadscopeError(f"there is no layer {layer}", f"name one of {_range(self.captured.layers)}")
        if not 0 <= head < self.captured.heads:
            raise HeadscopeError(f"there is no head {head}", f"name one of 0 to {self.captured.heads - 1}")
        return self.captured.layers.index(layer), head

    def focal_tokens(self, k: int, tau: float) -> list[FocalToken | None]:
        """The focal token of each head of the k-th kept layer."""
        numbers, shares = (each[step_of(tau)] for each in self.focal_at_every_tau(k))
        return self._named(numbers, shares, (self.layer_pairs(k).bin >= first_high_bin(tau)).sum(1))

    def top_focal(self, k: int) -> list[FocalToken | None]:
        """The same, taken from the top pairs."""
        return self._named(*self.focal_of_top(k), self.top(k).sum(1))

    def focal_at_every_tau(self, k: int) -> tuple[torch.Tensor, torch.Tensor]:
        """The number in `same` of each head's focal token at every τ, -1 for none, and its share: (19, H) each."""
        return focal_.focal_at_every_tau(self.layer_pairs(k).bin, *self.places, self.same)

    def focal_of_top(self, k: int) -> tuple[torch.Tensor, torch.Tensor]:
        """The same, taken from the top pairs: (H,) each."""
        as_bins = self.top(k).long() * (BINS - 1)  # as if they alone were high, at any τ
        numbers, shares = focal_.focal_at_every_tau(as_bins, *self.places, self.same)
        return numbers[0], shares[0]

    def top(self, k: int) -> torch.Tensor:
        """Which pairs of each head are top pairs: (H, P)."""
        last = self.order(self.layer_pairs(k).value) == ORDER_BINS - 1
        return last & has_top(last.sum(1), len(self.pairs))[:, None]

    def _named(self, numbers: torch.Tensor, shares: torch.Tensor, counts: torch.Tensor) -> list[FocalToken | None]:
        tokens: list[FocalToken | None] = []
        for number, share, count in zip(numbers.tolist(), shares.tolist(), counts.tolist(), strict=True):
            if number < 0:
                tokens.append(None)
                continue
            tokens.append(FocalToken(self.same_labels[number], int(self.pairs.ids[number]), share, count))
        return tokens

    # ------------------------------------------------------------------ attention

    def received_of_layer(self, k: int, text_only: bool) -> Array:
        """a of every head of the k-th kept layer: (H, Tk); with `text_only` NaN for tokens that do not count."""
        if self.captured.given is None:
            raise no_attention(received=False)
        even = torch.from_numpy(self.captured.even[k])
        share = attention_.received(torch.from_numpy(self.captured.given[k]), even)  # (H, Tk)
        if text_only:
            share = share.masked_fill(~torch.from_numpy(self.captured.keys.counting(self.choices.special)), torch.nan)
            largest = share.nan_to_num(0).amax(1, keepdim=True)
            share = share / largest.masked_fill(largest == 0, 1)
        return share.numpy()


def has_values(captured: Captured) -> bool:
    """Whether the value vectors of the tokens that were similar or not are known."""
    return captured.stack != "cross" and all(each is not None for each in captured.values)


def check_reading(reading: str, captured: Captured) -> None:
    """The reading `values` needs value vectors of the tokens that are compared."""
    if reading != "values" or has_values(captured):
        return
    if captured.stack == "cross":
        raise no_values_across()
    raise HeadscopeError(
        "this model does not show its value vectors, which the reading 'values' compares",
        "read it by dot, cosine or centred",
    )


def no_values_across() -> HeadscopeError:
    """Why cross-attention has no reading `values`."""
    return HeadscopeError(
        "cross-attention cannot be read by 'values': its value vectors are the encoder's, and the decoder's tokens, "
        "which are compared, have none",
        "read it by dot, cosine or centred",
    )


def _range(layers: Sequence[int]) -> str:
    whole = list(layers) == list(range(layers[0], layers[-1] + 1))
    return f"{layers[0]} to {layers[-1]}" if whole else ", ".join(map(str, layers))
