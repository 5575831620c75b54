"""One text, every head: what `model.inspect` returns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Unpack

import numpy as np
import pandas as pd
import xarray as xr

from headscope.choices import Choices, TextChoices, check_theta, first_high_bin, make_choices
from headscope.errors import HeadscopeError, counted
from headscope.files import disk_file
from headscope.inspection.capture import Captured, no_attention
from headscope.inspection.core import ReadText
from headscope.inspection.parts import FocalToken, token_table
from headscope.measures.relations import RELATIONS
from headscope.measures.torch_window import WindowPairs
from headscope.shortcuts import InspectionShortcuts
from headscope.windows.familiarity import familiarity

Array = np.ndarray[Any, Any]
PAIR_COLUMNS = ["i", "j", "token_i", "token_j", "distance", "relation", "similarity", "level"]


class Inspection(ReadText, InspectionShortcuts):
    """What every head did with one text. Arrays are labelled; levels and tables follow docs/method.md.

    All of it is in one reading of S, `reading`; `read_as` gives the same in another.
    """

    def __init__(self, model: str, choices: Choices, captured: Captured, pairs: WindowPairs | None = None) -> None:
        super().__init__(model, choices, captured, pairs)
        self._tables: dict[tuple[str, float, bool], pd.DataFrame] = {}  # summaries by kind, τ and whether of top pairs
        self._last_maps: tuple[int, Array] | None = None  # the maps looked at last, where they were not kept

    def __repr__(self) -> str:
        size = f"{counted(len(self.captured.layers), 'layer')} × {counted(self.captured.heads, 'head')}"
        missing = "".join(f"; {what.partition(':')[0]}" for what in self.missing)
        return f"Inspection of {self.shown} with {self.model}: {self.stack}, {size}, read by {self.reading}{missing}"

    # ------------------------------------------------------------------ without a model

    @classmethod
    def from_arrays(
        cls,
        outputs: Any,
        attention: Any = None,
        *,
        tokens: Sequence[str] | None = None,
        ids: Sequence[int] | None = None,
        text: str | None = None,
        offsets: Any = None,
        special_tokens_mask: Any = None,
        values: Any = None,
        readable: Any = None,
        causal: bool | None = None,
        layers: list[int] | None = None,
        model: str = "given arrays",
        **choices: Unpack[TextChoices],
    ) -> Inspection:
        """An inspection of arrays that any library has: what each head wrote for each token of one text.

        `outputs` are (layer, head, token, feature), what every head writes before it is projected; `attention` is
        (layer, head, query, key), after the softmax; both of one text, without padding, as NumPy arrays, tensors or
        lists of a layer each. `tokens` are strings, one for each token; `ids` their numbers, by which repetitions are
        told (equal strings, where there are none).

        Words and sentences are found in the `text` by the `offsets` of its tokens, (first character, one past the
        last). Special are the tokens that `special_tokens_mask` names, or those that stand for no character. Without
        text and offsets, or without `attention`, what needs them is NaN in tables and an error elsewhere; `missing`
        says so.

        `causal` is seen from the attention where it is given. Where tokens may read less than all (before them),
        `readable` says what, (query, key) or one for each layer. `values` (layer, head, token, feature) make the
        reading "values" possible; `layers` numbers layers that are not all from 0; `model` is a name. The other
        options are those of `model.inspect`.

        >>> import numpy as np
        >>> draw = np.random.default_rng(0)
        >>> seen = Inspection.from_arrays(draw.normal(size=(2, 4, 3, 8)), tokens=["It", "rains", "."])
        >>> seen
        Inspection of tokens 1 to 3 of 3 with given arrays: encoder, 2 layers × 4 heads, read by dot; words and ...
        >>> dict(seen.similarity.sizes)
        {'layer': 2, 'head': 4, 'i': 3, 'j': 3}
        """
        from headscope.inspection.given import captured_of, check_choices, read_given

        named: dict[str, Any] = dict(choices)
        given = read_given(
            outputs, attention, tokens=tokens, ids=ids, text=text, offsets=offsets,
            special_tokens_mask=special_tokens_mask, values=values, readable=readable, causal=causal,
            language=named.get("language") or "en",
        )  # fmt: skip
        made = make_choices({**named, "window": len(given.window)})
        check_choices(made, given.window)
        return cls(str(model), made, captured_of(given, layers))

    @classmethod
    def open(cls, file: str | Path) -> Inspection:
        """Open what `save` wrote. No model is needed: everything but reading other texts works as before."""
        from headscope.inspection.opening import open_inspection

        return open_inspection(file)

    # ------------------------------------------------------------------ the text

    @cached_property
    def tokens(self) -> pd.DataFrame:
        """A row per token of the window: token, category, sentence, word, and the characters it stands for."""
        return token_table(self.window)

    @property
    def key_tokens(self) -> pd.DataFrame:
        """The tokens that were read: in cross-attention the encoder's, else the same as `tokens`."""
        return token_table(self.captured.keys)

    # ------------------------------------------------------------------ labelled arrays

    def _labelled(self, values: Any, dims: tuple[str, ...], name: str, meaning: str) -> xr.DataArray:
        labels = {"query": self.labels, "key": self.captured.keys.labels}
        coords: dict[str, Any] = {"layer": self.captured.layers, dims[1]: np.arange(np.shape(values)[1])}
        for dim in dims[2:]:
            if not dim.endswith("feature"):
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

    @property
    def values(self) -> xr.DataArray | None:
        """The value vectors of the tokens that are read; None where a model does not show those of all layers alike."""
        own = [each for each in self.captured.values if each is not None]
        if len(own) < len(self.captured.values) or len({each.shape for each in own}) > 1:
            return None
        return self._labelled(
            np.stack(own),
            ("layer", "group", "key", "value_feature"),
            "values",
            "value vectors; heads that share theirs are a group: head h is of group h · groups // heads",
        )

    @cached_property
    def norms(self) -> xr.DataArray:
        """`|O_i|` of every token and head."""
        return self._labelled(
            np.linalg.norm(self.captured.outputs, axis=-1),
            ("layer", "head", "token"),
            "norms",
            "length of each output vector",
        )

    @cached_property
    def attention(self) -> xr.DataArray:
        """A of every head: row `query` holds the weights with which that token reads the `key` tokens."""
        if not self.captured.has_maps:
            raise no_attention(self.captured.given is not None)
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
        if self.captured.given is None:
            raise no_attention(received=False)
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
        return self.matrix(*self.check_head(layer, head)).numpy()

    @cached_property
    def similarity(self) -> xr.DataArray:
        """S of every head in this reading, its diagonal zero."""
        layers, heads = range(len(self.captured.layers)), range(self.captured.heads)
        return self._labelled(
            np.stack([[self.matrix(k, h).numpy() for h in heads] for k in layers]),
            ("layer", "head", "i", "j"),
            "similarity",
            f"context similarity matrix S, read by {self.reading}, zero diagonal",
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

    def high_pairs(self, layer: int, head: int, tau: float = 0.5) -> pd.DataFrame:
        """The pairs whose level is at least τ, strongest first, with how their tokens are related, where known."""
        k, h = self.check_head(layer, head)
        pairs = self.layer_pairs(k)
        order = np.flatnonzero((pairs.bin[h] >= first_high_bin(tau)).numpy())
        order = order[np.argsort(-pairs.value[h].numpy()[order], kind="stable")]
        i, j = (place.numpy()[order] for place in self.places)
        labels = np.array(self.labels, dtype=object)
        known = RELATIONS if self.window.described else (None,) * len(RELATIONS)
        names = np.array(known, dtype=object)[self.relations.numpy()[order]]
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

    # ------------------------------------------------------------------ attention

    def received(self, layer: int, head: int, *, text_only: bool = False) -> xr.DataArray:
        """a: the attention each token receives over its even share, as a share of the largest.

        With `text_only` special tokens are left out before the largest is taken: they are NaN.
        """
        k, h = self.check_head(layer, head)
        values = self.received_of_layer(k, text_only)[h]
        keys = self.captured.keys
        return xr.DataArray(
            values,
            dims=("key",),
            name="received",
            coords={"key": np.arange(len(keys)), "key_label": ("key", np.array(keys.labels, object))},
        )

    def attended(self, layer: int, head: int, theta: float = 0.3, *, text_only: bool = False) -> pd.DataFrame:
        """The tokens that receive more than θ of the largest attention received, most attended first."""
        check_theta(theta)
        values = self.received(layer, head, text_only=text_only).values
        table = token_table(self.captured.keys).assign(received=values)
        return table[table.received > theta].sort_values("received", ascending=False, kind="stable")

    # ------------------------------------------------------------------ summaries

    def summary(self, tau: float = 0.5, *, top: bool = False) -> pd.DataFrame:
        """A row per head: what it attends to, how far it looks, what it prefers, its focal token.

        `separator_focus_stop` and `separator_focus_end` are attention over its even share for sentence ends and for
        closing special tokens; `reach` is the mean distance of the high pairs over that of all pairs; the preferences
        and `separator_similarity` are matched ratios, 1 for none; `likeness` is the correlation of S with attention, by
        the map that it is more like. NaN: nothing to compare in this text.

        With `top` the head's top pairs stand in for the high ones: the sixteenth of all pairs that stand highest, in
        every head and reading the same number. That is how readings are compared: by cosine most pairs of most heads
        pass any usual τ.
        """
        from headscope.inspection.summary import by_head

        return self._table("head", tau, top, by_head)

    def heads(self, layer: int, tau: float = 0.5, *, top: bool = False) -> pd.DataFrame:
        """The rows of `summary` that are of one layer, without working out the others."""
        from headscope.inspection.summary import heads_of_layer

        return heads_of_layer(self, self.check_head(layer, 0)[0], tau, top)

    def layer_summary(self, tau: float = 0.5, *, top: bool = False) -> pd.DataFrame:
        """A row per layer: what its typical head does (the median), and how many different focal tokens the heads have.

        `focal_null` is that number where tokens that occur equally often have exchanged their places, drawn once.
        """
        from headscope.inspection.summary import by_layer

        return self._table("layer", tau, top, by_layer)

    def _table(
        self, kind: str, tau: float, top: bool, make: Callable[[Inspection, float, bool], pd.DataFrame]
    ) -> pd.DataFrame:
        """A summary, made once for each τ: the words, the figures and the command line all start from it."""
        if (kind, tau, top) not in self._tables:
            self._tables[kind, tau, top] = make(self, tau, top)
        return self._tables[kind, tau, top].copy()

    @property
    def unfamiliar(self) -> str:
        """A sentence that says so where the model may not know the language of the text; otherwise empty.

        >>> import headscope
        >>> headscope.load().inspect("The cat saw the dog. The dog saw the cat.").unfamiliar
        ''
        """
        found = familiarity(self.window)
        return str(found) if found.unfamiliar else ""

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

        if disk_file(file).suffix != ".nc":
            raise HeadscopeError(f"{str(file)!r} is not named like a netCDF file", "end the name in .nc")
        return write_dataset(self.to_dataset(), disk_file(file))

    def settings(self) -> dict[str, Any]:
        """The choices that matter for one text, by name."""
        return self.choices.of_text
