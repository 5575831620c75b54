"""One forward pass over a batch of windows, the same way for every architecture.

headscope pads on the right with its own mask, whatever the tokenizer would do, so that position 0 of a window is
position 0 of the model, padded or alone.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from headscope.models.transfer import to_device
from headscope.windows import padded

Ids = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Batch:
    """Windows of one batch as tensors, padded on the right. `mask` is 1 where there is a token."""

    ids: Tensor  # (B, T)
    mask: Tensor  # (B, T)
    types: Tensor | None = None  # (B, T): which text of a pair; None where there is only one
    is_padded: bool = True  # False where every window is known to be as long as the longest

    @property
    def lengths(self) -> list[int]:
        """How many tokens each window has."""
        return [int(length) for length in self.mask.sum(1)]

    def alone(self, row: int) -> Batch:
        """One window of the batch, without its padding."""
        end = self.lengths[row]
        types = None if self.types is None else self.types[row : row + 1, :end]
        return Batch(self.ids[row : row + 1, :end], self.mask[row : row + 1, :end], types)


def collate(
    windows: Sequence[Sequence[int] | Ids], pad: int, device: Any, types: Sequence[Sequence[int] | Ids] | None = None
) -> Batch:
    """Pad token ids to a batch.

    >>> collate([[5, 6, 7], [8]], pad=0, device="cpu").mask.tolist()
    [[1, 1, 1], [1, 0, 0]]
    """
    lengths = np.array([len(window) for window in windows])
    mask = (np.arange(lengths.max()) < lengths[:, None]).astype(np.int64)
    ids, of_texts = padded(windows, pad), None if types is None else to_device(padded(types), device)
    return Batch(to_device(ids, device), to_device(mask, device), of_texts, not mask.all())


def start_token(config: Any) -> int:
    """The id that an encoder-decoder's decoder starts from."""
    text = config.get_text_config(decoder=True)
    for name in ("decoder_start_token_id", "bos_token_id", "pad_token_id"):
        for part in (config, text):
            value = getattr(part, name, None)
            if isinstance(value, int):
                return value
    return 0


def pad_token(config: Any) -> int:
    """The id to pad with: the model's own, because some models number positions by what is not that id."""
    value = getattr(config.get_text_config(), "pad_token_id", None)
    return value if isinstance(value, int) and value >= 0 else 0


def shifted_right(batch: Batch, start: int) -> Batch:
    """What a decoder reads: the text's own ids, moved right by one behind the start token."""
    first = torch.full_like(batch.ids[:, :1], start)
    return Batch(torch.cat([first, batch.ids[:, :-1]], dim=1), batch.mask)


@cache
def _parameters(function: Callable[..., Any]) -> Mapping[str, inspect.Parameter]:
    """What a function takes."""
    return inspect.signature(function).parameters


def forward(model: nn.Module, batch: Batch, decoder: Batch | None = None) -> Any:
    """Run the model on a batch, without gradients and without a key-value cache."""
    accepted = _parameters(type(model).forward)
    inputs: dict[str, Any] = {"input_ids": batch.ids, "attention_mask": batch.mask}
    config: Any = model.config
    if not batch.is_padded and config._attn_implementation == "sdpa":
        inputs["attention_mask"] = None  # which it means; given one, transformers waits for the device to look at it
    # Only to models that were made for it: GPT-2 takes types too, and adds word embeddings for them.
    if batch.types is not None and (getattr(config, "type_vocab_size", 0) or 0) > 1:
        inputs["token_type_ids"] = batch.types
    if "use_cache" in accepted:
        inputs["use_cache"] = False
    if getattr(config, "is_encoder_decoder", False):
        decoder = decoder or shifted_right(batch, start_token(config))
        inputs |= {"decoder_input_ids": decoder.ids, "decoder_attention_mask": decoder.mask}
    with torch.no_grad():
        return model(**inputs)
