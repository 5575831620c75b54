"""A network that is already there: one that was trained, changed or loaded elsewhere is looked at as it is."""

from __future__ import annotations

import copy
import os
from typing import Any

import torch
from torch import nn

from headscope.control import Control
from headscope.errors import HeadscopeError
from headscope.models.permuting import permute_weights

NOT_TRANSFORMERS = (
    "give a transformers model; of TransformerLens, nnsight or anything else take the arrays: "
    "headscope.Inspection.from_arrays (docs/howto.md)"
)


def given_network(network: Any, control: Control | None) -> tuple[str, Any]:
    """The name and the base of a network that was handed over, with the weights that a control gives it.

    Its attention is set to "eager", the only implementation that forms the attention weights. Nothing else is changed:
    a control that needs other weights works on a copy.
    """
    if not isinstance(network, nn.Module):
        raise HeadscopeError(
            f"an object of type {type(network).__name__} is neither the name of a model nor a network",
            "give a hub id, a folder, a GGUF file, or a transformers model and its tokenizer",
        )
    if not hasattr(network, "config") or not hasattr(network, "get_input_embeddings"):
        raise HeadscopeError(f"{type(network).__name__} is not a transformers model", NOT_TRANSFORMERS)
    if network.training:
        raise HeadscopeError(
            "the network is in training mode, where dropout changes every number from call to call",
            "call network.eval() first",
        )
    base = getattr(network, "base_model", network) if _is_transformers_own(network) else network
    if control is not None and control.seed is not None:
        base = _under(control.kind, control.seed, base)
    _set_eager(base)
    return _name(network), base


def _name(network: Any) -> str:
    """The hub id that it was loaded by, the last part of a folder's path, or what kind of network it is."""
    name = str(getattr(network.config, "_name_or_path", "") or type(network).__name__)
    return os.path.basename(os.path.normpath(name)) if os.path.isdir(name) else name


def check_options(tokenizer: Any, **named: Any) -> None:
    """What decides how a name is loaded says nothing of a network that is there."""
    if tokenizer is None:
        raise HeadscopeError(
            "the network is given without its tokenizer", "give both: headscope.load(network, tokenizer)"
        )
    for option, value in named.items():
        if value not in (None, "auto"):
            raise HeadscopeError(
                f"{option}={value!r} is for a model that is loaded by name", "move or convert the network itself first"
            )


def _is_transformers_own(network: nn.Module) -> bool:
    import transformers

    return isinstance(network, transformers.PreTrainedModel)


def _set_eager(network: Any) -> None:
    if getattr(network.config, "_attn_implementation", None) in (None, "eager"):
        return
    try:
        network.set_attn_implementation("eager")
    except (AttributeError, ValueError, RuntimeError) as error:
        raise HeadscopeError(
            f"the attention of {type(network).__name__} is {network.config._attn_implementation!r}, which never forms "
            "the attention weights, and cannot be set to another",
            'load the network with attn_implementation="eager"',
        ) from error


def _under(kind: str, seed: int, network: Any) -> Any:
    """A copy with permuted weights, or the architecture with those that training would begin with."""
    if kind == "permuted":
        changed = copy.deepcopy(network).cpu()
        permute_weights(changed, seed)
    else:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            changed = type(network)._from_config(copy.deepcopy(network.config), dtype=network.dtype)
    return changed.to(network.device).eval()
