"""A loaded model: the network, its tokenizer and what the self-check saw of them."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import Any

from torch import nn

from headscope.choices import DEFAULT_WINDOW
from headscope.control import Control, read_control
from headscope.errors import HeadscopeError
from headscope.models.check import Report, Stack
from headscope.models.spec import ModelSpec
from headscope.shortcuts import ModelShortcuts
from headscope.windows.template import Template

UNBOUNDED = 1_000_000  # tokenizers write a huge number where there is no limit


class Model(ModelShortcuts):
    """What `headscope.load` returns. `network` and `tokenizer` are the transformers objects.

    Hooks of your own on modules of `network` run whenever the model reads a text, and what they change is seen.
    `control` is what was taken away from it, None for a model as it is; `name` says so too. `spec` tells how it is
    loaded again, where it was loaded by name.
    """

    def __init__(
        self,
        name: str,
        network: Any,
        tokenizer: Any,
        template: Template,
        report: Report,
        control: Control | None = None,
        spec: ModelSpec | None = None,
    ) -> None:
        self.name = name if control is None else f"{name} ({control.words})"
        self.network, self.tokenizer, self.template, self.report = network, tokenizer, template, report
        self.control, self.spec = control, spec

    def __repr__(self) -> str:
        stacks = ", ".join(f"{s.name} {s.layers} layers × {s.heads} heads" for s in self.report.stacks.values())
        dtype = str(self.network.dtype).removeprefix("torch.")
        return f"Model({self.name!r}, {type(self.network).__name__}, {stacks}, {self.network.device.type}, {dtype})"

    def under(self, control: str) -> Model:
        """The same network under a control that leaves it as it is; others take a model of their own.

        >>> import headscope
        >>> headscope.load().under("rotated")
        Model('headscope/bert12 (rotated sentences)', BertModel, encoder 12 layers × 12 heads, cpu, float32)
        """
        wanted = read_control(control)
        if wanted is None or wanted == self.control:
            return self
        if wanted.changes_model or self.control is not None:
            raise HeadscopeError(
                f"{self.name!r} is loaded already, and control={control!r} would be another model",
                f"load that one: headscope.load(NAME, control={control!r})",
            )
        spec = replace(self.spec, control=control) if self.spec is not None else None
        return Model(self.name, self.network, self.tokenizer, self.template, self.report, wanted, spec)

    @property
    def stacks(self) -> dict[str, Stack]:
        """The attention stacks by name: encoder, decoder, cross."""
        return self.report.stacks

    def stack(self, name: str | None = None) -> Stack:
        """One stack; the first one (the encoder, where there is one) when no name is given."""
        if name is None:
            return next(iter(self.stacks.values()))
        if name not in self.stacks:
            raise HeadscopeError(f"{self.name!r} has no stack {name!r}", f"it has {', '.join(self.stacks)}")
        return self.stacks[name]

    @property
    def paired(self) -> bool:
        """Whether it is an encoder with a decoder beside it."""
        return "encoder" in self.stacks and len(self.stacks) > 1

    @cached_property
    def own_attention(self) -> str:
        """Why attention must be asked of the model's own function; empty where queries and keys tell it."""
        from headscope.models.plain import own_attention

        return own_attention(self.network, self.report)

    @cached_property
    def max_length(self) -> int:
        """The longest window in tokens, special tokens included."""
        config = self.network.config.get_text_config()
        limits = [getattr(self.tokenizer, "model_max_length", None)]
        positions = getattr(config, "max_position_embeddings", None) or getattr(config, "max_seq_len", None)
        if isinstance(positions, int) and positions > 0:
            limits.append(positions - _reserved_positions(self.network, positions))
        known = [int(limit) for limit in limits if isinstance(limit, int) and 0 < limit < UNBOUNDED]
        return min(known, default=UNBOUNDED)

    @property
    def default_window(self) -> int:
        """The window in tokens where none is asked for: 128, or the model's longest where that is shorter."""
        return min(DEFAULT_WINDOW, self.max_length)


def _reserved_positions(network: nn.Module, positions: int) -> int:
    """Position embeddings that no token ever uses: RoBERTa's kind starts counting after the padding index."""
    for name, module in network.named_modules():
        if not isinstance(module, nn.Embedding) or not name.endswith("position_embeddings"):
            continue
        if module.num_embeddings == positions and module.padding_idx is not None:
            return module.padding_idx + 1
    return 0
