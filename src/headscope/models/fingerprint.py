"""What tells one model from another: a hash of its weights, its configuration and its tokenizer."""

from __future__ import annotations

import hashlib
import json
import platform
from importlib import metadata
from typing import TYPE_CHECKING, Any

import torch

from headscope.version import __version__

if TYPE_CHECKING:
    from headscope.models.model import Model

# Where a model came from and which program saved it say nothing about its numbers.
IGNORED_KEYS = ("_name_or_path", "transformers_version", "_attn_implementation_autoset", "torch_dtype", "dtype")
PACKAGES = ("torch", "transformers", "tokenizers", "numpy", "numba", "sentencex")


def model_fingerprint(model: Model) -> dict[str, Any]:
    """Name, shape and hashes of a loaded model.

    >>> import headscope
    >>> fingerprint = model_fingerprint(headscope.load())
    >>> fingerprint["name"], fingerprint["stacks"]["encoder"]["heads"], len(fingerprint["weights"])
    ('headscope/bert12', 12, 64)
    """
    digest = hashlib.sha256()
    for name, tensor in sorted(model.network.state_dict().items()):
        digest.update(f"{name}\x00{tuple(tensor.shape)}\x00{tensor.dtype}\x00".encode())
        flat = tensor.detach().reshape(-1).cpu()
        digest.update(flat.view(torch.uint8).numpy().data)
    config = {key: value for key, value in model.network.config.to_dict().items() if key not in IGNORED_KEYS}
    tokenizer = model.tokenizer.backend_tokenizer.to_str()
    return {
        "name": model.name,
        "architecture": type(model.network).__name__,
        "weights": digest.hexdigest(),
        "config": _hash(json.dumps(config, sort_keys=True, default=str)),
        "tokenizer": _hash(tokenizer),
        "stacks": {
            stack.name: {"layers": stack.layers, "heads": stack.heads, "width": stack.width, "causal": stack.causal}
            for stack in model.stacks.values()
        },
    }


def versions() -> dict[str, str]:
    """The versions of what the numbers depend on."""
    known = {"python": platform.python_version(), "headscope": __version__}
    return known | {name: metadata.version(name) for name in PACKAGES}


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
