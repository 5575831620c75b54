"""One text, every head: what `model.inspect` returns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
import xarray as xr

from headscope.choices import Choices, check_theta, first_high_bin
from headscope.errors import HeadscopeError
from headscope.inspection.capture import Captured
from headscope.inspection.parts import FocalToken, LayerPairs, token_table
from headscope.measures import attention as attention_
from headscope.measures import focal as focal_
from headscope.measures import relations as relations_
from headscope.measures import similarity as similarity_
from headscope.shortcuts import InspectionShortcuts
from headscope.windows import Window
from headscope.windows.window import PUNCTUATION, STOP

Array = np.ndarray[Any, Any]
PAIR_COLUMNS = ["i", "j", "token_i", "token_j", "distance", "relation", "similarity", "level"]


class Inspection(InspectionShortcuts):
    """What every head did with one text. Arrays are labelled; levels and tables follow docs/method.md."""

    def __init__(self, model: str, choices: Choices, captured: Captured) -> None:
        self.model, self.choices, self.captured = model, choices, captured
        self._tables: dict[tuple[str, float], pd.DataFrame] = {}  # summaries by kind and τ
        self._last_pairs: tuple[int, LayerPairs] | None = None  # the layer looked at last: one at a time is enough
        self._last_maps: tuple[int, Array] | None = None  # and its maps, where they were not kept

    def __repr__(self) -> str:
        size = f"{len(self.captured.layers)} layers × {self.captured.heads} heads"
        return f"Inspection of {self.shown} with {self.model}: {self.stack}, {size}"

    # ------------------------------------------------------------------ the text

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
        """Which of the text's tokens the window shows, special tokens not counted."""
        own = int((self.window.part >= 0).sum())
        return f"tokens {self.window.first} to {self.window.first + own} of {self.window.total}"

    @cached_property
    def tokens(self) -> pd.DataFrame:
        """A row per token of the window: token, category, sentence, word, and the characters it stands for."""
        return token_table(self.window)

    @property
    def key_tokens(self) -> pd.DataFrame:
        """The tokens that were read: in cross-attention the encoder's, else the same as `tokens`."""
        return token_table(self.captured.keys)

    @cached_property
    def counting(self) -> torch.Tensor:
        """Which tokens take part in the similarity statistics."""
        return torch.from_numpy(self.window.counting(self.choices.special))

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """Each token of the window as a person reads it."""
        return self.window.labels

    # ------------------------------------------------------------------ labelled arrays

    def _labelled(self, values: Any, dims: tuple[str, ...], name: str, meaning: str) -> xr.DataArray:
        labels = {"query": self.labels, "key": self.captured.keys.labels}
        coords: dict[str, Any] = {"layer": self.captured.layers, "head": np.arange(self.captured.heads)}
        for dim in dims[2:]:
            if dim != "feature":
                who = "key" if dim == "key" else "query"
                coords |= {dim: np.arange(len(labels[who])), f"{dim}_label": (dim, np.array(labels[who], dtype=object))}
        return xr.DataArray(values, dims=dims, coords=coords, name=name, attrs={"description": meaning})

    @cached_property
    def outputs(self) -> xr.DataArray:
        """O of every head."""
        return self._labelled(
            self.captured.outputs,
            ("layer", "head", "token", "feature"),
            "outputs",
            "head outputs O = A·V, before concatenation and output projection",
        )

    @cached_property
    def norms(self) -> xr.DataArray:
        """|O_i| of every token and head."""
        return self._labelled(
            np.linalg.norm(self.captured.outputs, axis=-1),
            ("layer", "head", "token"),
            "norms",
            "length of each output vector",
        )

    @cached_property
    def attention(self) -> xr.DataArray:
        """A of every head: row `query` holds the weights with which that token reads the `key` tokens."""
        if self.captured.weights is None:
            raise HeadscopeError(
                "the attention maps of all heads were not kept", "ask for one with attention_map(layer, head)"
            )
        return self._labelled(
            self.captured.weights, ("layer", "head", "query", "key"), "attention", "attention weights A"
        )

    @cached_property
    def given(self) -> xr.DataArray:
        """The attention that each token receives from all others together, of every head: the column sums of A."""
        return self._labelled(
            self.captured.given, ("layer", "head", "key"), "given", "attention received: column sums of A"
        )

    def attention_map(self, layer: int, head: int) -> Array:
        """A of one head, (query, key); where maps were not kept, the model runs once more."""
        k, h = self.check_head(layer, head)
        if self.captured.weights is not None:
            return np.asarray(self.captured.weights[k, h])
        if self._last_maps is None or self._last_maps[0] != k:
            self._last_maps = (k, self.captured.maps(k))
        return np.asarray(self._last_maps[1][h])

    def similarity_matrix(self, layer: int, head: int) -> Array:
        """S of one head, (i, j), its diagonal zero: for windows too long for those of all heads at once."""
        return self._matrix(*self.check_head(layer, head)).numpy()

    def _matrix(self, k: int, h: int) -> torch.Tensor:
        return similarity_.similarity(torch.from_numpy(self.captured.outputs[k, h]), self.choices.similarity)

    @cached_property
    def similarity(self) -> xr.DataArray:
        """S = O·Oᵀ of every head, its diagonal zero."""
        layers, heads = range(len(self.captured.layers)), range(self.captured.heads)
        return self._labelled(
            np.stack([[self._matrix(k, h).numpy() for h in heads] for k in layers]),
            ("layer", "head", "i", "j"),
            "similarity",
            f"context similarity matrix S ({self.choices.similarity}), zero diagonal",
        )

    @cached_property
    def levels(self) -> xr.DataArray:
        """The level of every pair of tokens that count, symmetric; NaN elsewhere and in flat matrices."""
        first, second = (place.numpy() for place in self.places)
        size = len(self.window)
        values = np.full((len(self.captured.layers), self.captured.heads, size, size), np.nan, dtype=np.float32)
        for k in range(len(self.captured.layers)):
            level = self.layer_pairs(k).level.numpy()
            values[k][:, first, second] = level
            values[k][:, second, first] = level
        return self._labelled(
            values,
            ("layer", "head", "i", "j"),
            "levels",
            f"level of each pair (scale {self.choices.scale}); bins are cut in float64",
        )

    # ------------------------------------------------------------------ pairs

    @cached_property
    def places(self) -> tuple[torch.Tensor, torch.Tensor]:
        """The positions i < j of all pairs."""
        return similarity_.pair_places(self.counting)

    @cached_property
    def relations(self) -> torch.Tensor:
        """The relation of each pair, as an index into `RELATIONS`."""
        window = self.window
        category = torch.from_numpy(window.category)
        return relations_.relations(
            *self.places,
            word=torch.from_numpy(window.word),
            stop=category == STOP,
            punctuation=category == PUNCTUATION,
            sentence=torch.from_numpy(window.sentence),
            same=torch.from_numpy(window.repeats(self.choices.repeated)),
        )

    @cached_property
    def same(self) -> torch.Tensor:
        """The tokens' ids numbered by where they first count; -1 for tokens that do not."""
        return focal_.by_first_place(torch.from_numpy(self.window.ids), self.counting)

    @cached_property
    def same_labels(self) -> list[str]:
        """How each of these ids is written most often: "the" and "The" may be one token."""
        written: dict[int, Counter[str]] = {}
        for number, label in zip(self.same.tolist(), self.labels, strict=True):
            if number >= 0:
                written.setdefault(number, Counter())[label] += 1
        return [written[number].most_common(1)[0][0] for number in range(len(written))]

    def layer_pairs(self, k: int) -> LayerPairs:
        """S, level and bin of every pair of the k-th kept layer."""
        if self._last_pairs is not None and self._last_pairs[0] == k:
            return self._last_pairs[1]
        value = torch.stack([self._matrix(k, h)[self.places] for h in range(self.captured.heads)])  # (H, P)
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

    def high_pairs(self, layer: int, head: int, tau: float = 0.5) -> pd.DataFrame:
        """The pairs whose level is at least τ, strongest first, with how their tokens are related."""
        k, h = self.check_head(layer, head)
        pairs = self.layer_pairs(k)
        order = np.flatnonzero((pairs.bin[h] >= first_high_bin(tau)).numpy())
        order = order[np.argsort(-pairs.value[h].numpy()[order], kind="stable")]
        i, j = (place.numpy()[order] for place in self.places)
        labels = np.array(self.labels, dtype=object)
        names = np.array(relations_.RELATIONS, dtype=object)[self.relations.numpy()[order]]
        columns = (
            i,
            j,
            labels[i],
            labels[j],
            j - i,
            names,
            pairs.value[h].numpy()[order],
            pairs.level[h].numpy()[order],
        )
        return pd.DataFrame(dict(zip(PAIR_COLUMNS, columns, strict=True)))

    def focal_token(self, layer: int, head: int, tau: float = 0.5) -> FocalToken | None:
        """The head's focal token at τ; None where it has no high pair."""
        k, h = self.check_head(layer, head)
        return self.focal_tokens(k, tau)[h]

    def focal_tokens(self, k: int, tau: float) -> list[FocalToken | None]:
        """The focal token of each head of the k-th kept layer."""
        high = self.layer_pairs(k).bin >= first_high_bin(tau)  # (H, P)
        numbers, shares = focal_.focal(high, *self.places, self.same)
        counts = high.sum(1)
        tokens: list[FocalToken | None] = []
        for number, share, count in zip(numbers.tolist(), shares.tolist(), counts.tolist(), strict=True):
            if number < 0:
                tokens.append(None)
                continue
            own = int(np.argmax(self.same.numpy() == number))
            tokens.append(FocalToken(self.same_labels[number], int(self.window.ids[own]), share, count))
        return tokens

    # ------------------------------------------------------------------ attention

    def received(self, layer: int, head: int, *, text_only: bool = False) -> xr.DataArray:
        """a: the attention each token receives over its even share, as a share of the largest.

        With `text_only` special tokens are left out before the largest is taken: they are NaN.
        """
        k, h = self.check_head(layer, head)
        values = self._received(k, text_only)[h]
        keys = self.captured.keys
        return xr.DataArray(
            values,
            dims=("key",),
            name="received",
            coords={"key": np.arange(len(keys)), "key_label": ("key", np.array(keys.labels, object))},
        )

    def _received(self, k: int, text_only: bool) -> Array:
        even = torch.from_numpy(self.captured.even[k])
        share = attention_.received(torch.from_numpy(self.captured.given[k]), even)  # (H, Tk)
        if text_only:
            share = share.masked_fill(~torch.from_numpy(self.captured.keys.counting(self.choices.special)), torch.nan)
            largest = share.nan_to_num(0).amax(1, keepdim=True)
            share = share / largest.masked_fill(largest == 0, 1)
        return share.numpy()

    def attended(self, layer: int, head: int, theta: float = 0.3, *, text_only: bool = False) -> pd.DataFrame:
        """The tokens that receive more than θ of the largest attention received, most attended first."""
        check_theta(theta)
        values = self.received(layer, head, text_only=text_only).values
        table = token_table(self.captured.keys).assign(received=values)
        return table[table.received > theta].sort_values("received", ascending=False, kind="stable")

    # ------------------------------------------------------------------ summaries

    def summary(self, tau: float = 0.5) -> pd.DataFrame:
        """A row per head: what it attends to, how far it looks, what it prefers, its focal token.

        `stop_focus` and `end_focus` are attention over its even share for sentence ends and for closing special
        tokens; `distance` is the mean distance of the high pairs over that of all pairs; the preferences are matched
        ratios, 1 for none; `likeness` is the correlation of S with attention. NaN: nothing to compare in this text.
        """
        from headscope.inspection.summary import by_head

        return self._table("head", tau, by_head)

    def layer_summary(self, tau: float = 0.5) -> pd.DataFrame:
        """A row per layer, counts pooled over its heads; also how many different focal tokens the heads have."""
        from headscope.inspection.summary import by_layer

        return self._table("layer", tau, by_layer)

    def _table(self, kind: str, tau: float, make: Callable[[Inspection, float], pd.DataFrame]) -> pd.DataFrame:
        """A summary, made once for each τ: the words, the figures and the command line all start from it."""
        if (kind, tau) not in self._tables:
            self._tables[kind, tau] = make(self, tau)
        return self._tables[kind, tau].copy()

    def in_words(self, tau: float = 0.5) -> list[str]:
        """What stands out, in sentences that need no knowledge of the method."""
        from headscope.inspection.highlights import in_words

        return in_words(self, tau)

    # ------------------------------------------------------------------ leaving

    def to_dataset(self) -> xr.Dataset:
        """Everything as one labelled dataset, the settings in its attributes."""
        from headscope.inspection.saving import inspection_dataset

        return inspection_dataset(self)

    def save(self, file: str | Path) -> Path:
        """Write the dataset as netCDF, which plain `xarray.open_dataset` reads."""
        from headscope.inspection.saving import write_dataset

        if Path(file).suffix != ".nc":
            raise HeadscopeError(f"{str(file)!r} is not named like a netCDF file", "end the name in .nc")
        return write_dataset(self.to_dataset(), Path(file))

    def settings(self) -> dict[str, Any]:
        """The choices that matter for one text, by name."""
        return self.choices.of_text


def _range(layers: Sequence[int]) -> str:
    whole = list(layers) == list(range(layers[0], layers[-1] + 1))
    return f"{layers[0]} to {layers[-1]}" if whole else ", ".join(map(str, layers))
