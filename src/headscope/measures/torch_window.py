"""What is known of a window's tokens and pairs before any head has looked at them, as tensors.

Shapes: T tokens, N of which count, P pairs of these, K different ids among them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from headscope.choices import Choices
from headscope.measures import order
from headscope.measures.bands import bands_of_distances
from headscope.measures.focal import by_first_place
from headscope.measures.own_relations import Labels, label_numbers
from headscope.measures.relations import RELATIONS, relations, tally
from headscope.measures.similarity import pair_places
from headscope.windows import Window
from headscope.windows.window import PUNCTUATION, STOP


@dataclass(frozen=True)
class WindowTokens:
    """The tokens of one window, as those who are read."""

    category: Tensor  # (T,)
    counting: Tensor  # (T,) bool
    sentences: int  # in the whole text

    def __len__(self) -> int:
        return len(self.category)


@dataclass(frozen=True)
class WindowPairs:
    """The pairs of one window, i < j, in the order of (i, j), and what is drawn for it."""

    places: Tensor  # (N,): the tokens that count
    first: Tensor  # (P,): i
    second: Tensor  # (P,): j
    band: Tensor  # (P,)
    relation: Tensor  # (P,)
    base: Tensor  # (T - 1, relation): how many pairs there are, by distance
    base_bands: Tensor  # (D, relation): the same by band
    own: Tensor  # (relations of the caller's own, P) bool
    sampled: Tensor  # (m,): the numbers of the pairs that set the edges of order
    edge_places: Tensor  # (15,): where the edges stand in the sorted sample
    same: Tensor  # (T,): ids numbered by first counting position; -1 for tokens that do not count
    ids: Tensor  # (K,): the ids themselves
    times: Tensor  # (K,): how often each occurs
    first_places: np.ndarray[Any, np.dtype[np.int64]]  # (K,)
    number: np.uint64  # w

    @property
    def distance(self) -> Tensor:
        """j - i: (P,)."""
        return self.second - self.first

    def __len__(self) -> int:
        return len(self.first)

    def null_source(self, layer: int, heads: int) -> Tensor:
        """Whose sum of degrees each id takes over in the null, by head: (H, K)."""
        keys = order.null_keys(self.number, layer, heads, self.first_places)
        times = self.times.cpu().numpy()
        each = [order.null_order(self.first_places, times, own) for own in keys]
        return torch.from_numpy(np.stack(each)).to(self.times.device)


Known = TypeVar("Known", WindowTokens, WindowPairs)


def window_tokens(window: Window, choices: Choices) -> WindowTokens:
    """The tokens of a window."""
    counting = torch.from_numpy(window.counting(choices.special))
    return WindowTokens(torch.from_numpy(window.category), counting, window.sentences)


def window_pairs(window: Window, choices: Choices, own: Mapping[str, Labels]) -> WindowPairs:
    """The pairs of a window; `own` are the caller's relations."""
    counting = torch.from_numpy(window.counting(choices.special))
    first, second = pair_places(counting)
    category = torch.from_numpy(window.category)
    relation = relations(
        first,
        second,
        word=torch.from_numpy(window.word),
        stop=category == STOP,
        punctuation=category == PUNCTUATION,
        sentence=torch.from_numpy(window.sentence),
        same=torch.from_numpy(window.repeats(choices.repeated)),
    )
    bands = bands_of_distances(len(window))  # (T - 1,)
    band = torch.from_numpy(bands)[second - first - 1]
    number = order.window_numbers([window.ids])[0]
    sampled = order.sampled_pairs(len(first), number)
    same = by_first_place(torch.from_numpy(window.ids), counting)
    _, first_places, times = np.unique(same[counting].numpy(), return_index=True, return_counts=True)
    first_places = counting.nonzero()[:, 0].numpy()[first_places]  # in the window
    return WindowPairs(
        places=counting.nonzero()[:, 0],
        first=first,
        second=second,
        band=band,
        relation=relation,
        base=tally(((second - first - 1)[None], len(bands)), (relation, len(RELATIONS)))[0],
        base_bands=tally((band[None], int(bands[-1]) + 1), (relation, len(RELATIONS)))[0],
        own=_labelled(window, own, first, second),
        sampled=torch.from_numpy(sampled),
        edge_places=torch.from_numpy(order.edge_places(len(sampled))),
        same=same,
        ids=torch.from_numpy(window.ids[first_places]),
        times=torch.from_numpy(times),
        first_places=first_places,
        number=number,
    )


def _labelled(window: Window, own: Mapping[str, Labels], first: Tensor, second: Tensor) -> Tensor:
    """Which pairs have two tokens of the same label, for each of the caller's relations."""
    related = torch.zeros(len(own), len(first), dtype=torch.bool)
    for k, (name, labels) in enumerate(own.items()):
        number = torch.from_numpy(label_numbers(name, window, labels))
        related[k] = (number[first] == number[second]) & (number[first] >= 0)
    return related


def moved(known: Known, device: torch.device) -> Known:
    """The same on another device."""
    every: dict[str, Any] = {each.name: getattr(known, each.name) for each in fields(known)}
    tensors = {name: value.to(device) for name, value in every.items() if isinstance(value, Tensor)}
    return replace(known, **(every | tensors))
