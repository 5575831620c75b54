"""Where attention happens in a model: which modules, which stack, how many layers there ought to be.

The only knowledge of names in headscope is here. Names decide between the stacks of an encoder-decoder; everything
else is seen at run time. What is concluded from names is verified by the self-check.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import nn

CROSS = re.compile(r"cross|encoder_attn|encdec|enc_attn", re.IGNORECASE)
# What configurations call the depth of each stack, in the order of trust.
DEPTH = {
    "encoder": ("encoder_layers", "num_encoder_layers", "num_hidden_layers", "num_layers"),
    "decoder": ("decoder_layers", "num_decoder_layers", "num_hidden_layers", "num_layers"),
}
HEADS = {
    "encoder": ("encoder_attention_heads", "num_encoder_attention_heads", "num_attention_heads", "num_heads"),
    "decoder": ("decoder_attention_heads", "num_decoder_attention_heads", "num_attention_heads", "num_heads"),
}
NO_ATTENTION = ("linear", "mamba", "conv", "recurrent", "mlp", "moe")


def names_in_forward(module: nn.Module) -> tuple[str, ...]:
    """The global and attribute names that a module's forward uses, decorators seen through."""
    code = getattr(inspect.unwrap(type(module).forward), "__code__", None)
    return code.co_names if code else ()


def uses_interface(model: nn.Module) -> bool:
    """Whether any module of the model asks transformers' AttentionInterface for its attention function."""
    return any("get_interface" in names_in_forward(module) for module in model.modules())


def has_gate(module: nn.Module) -> bool:
    """Whether an attention module multiplies its output by a sigmoid gate before projecting it."""
    code = getattr(inspect.unwrap(type(module).forward), "__code__", None)
    if code is None or "sigmoid" not in code.co_names:
        return False
    return any("gate" in name for name in (*code.co_varnames, *code.co_names))


def stack_of(name: str, two_stacks: bool, causal: bool) -> str:
    """The stack that an attention module belongs to.

    >>> stack_of("decoder.block.0.layer.1.EncDecAttention", two_stacks=True, causal=False)
    'cross'
    >>> stack_of("model.encoder.layers.3.self_attn", two_stacks=True, causal=False)
    'encoder'
    >>> stack_of("decoder.layers.3.self_attn", two_stacks=False, causal=True)  # OPT: one stack, reads backwards
    'decoder'
    """
    parts = name.split(".")
    if any(CROSS.search(part) for part in parts):
        return "cross"
    if two_stacks:
        return next((stack for part in parts for stack in DEPTH if part.lower().startswith(stack)), "decoder")
    return "decoder" if causal else "encoder"


def stack_config(config: Any, stack: str) -> Any:
    """The part of a configuration that describes one stack of text."""
    if getattr(config, "is_encoder_decoder", False):
        nested = getattr(config, "encoder" if stack == "encoder" else "decoder", None)
        return nested if hasattr(nested, "to_dict") else config
    return config.get_text_config()


def _declared(config: Any, stack: str, table: Mapping[str, tuple[str, ...]]) -> int | None:
    side = "encoder" if stack == "encoder" else "decoder"
    part = stack_config(config, stack)
    values = (getattr(part, name, None) for name in table[side])
    return next((int(value) for value in values if isinstance(value, int)), None)


def declared_layers(config: Any, stack: str) -> int | None:
    """How many layers with attention the configuration says a stack has; None where it does not say."""
    kinds = getattr(stack_config(config, stack), "layer_types", None)
    if kinds and not getattr(config, "is_encoder_decoder", False):
        return sum(not any(word in kind for word in NO_ATTENTION) for kind in kinds)
    return _declared(config, stack, DEPTH)


def declared_heads(config: Any, stack: str) -> int | None:
    """How many query heads a layer of the stack has by the configuration; None where it varies or is not given."""
    return _declared(config, stack, HEADS)
