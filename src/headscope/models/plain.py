"""Whether attention can be computed from queries and keys, so that the model need not form it.

Most models have the plain kind: softmax of scaled products over the tokens that may be read. Where a model adds
something to it (a bias by position, a cap, a sink), only its own function knows its weights.
"""

from __future__ import annotations

from threading import Lock
from typing import Any

import torch
from torch import Tensor

from headscope.errors import brief
from headscope.models.check import TOLERANCE, Report
from headscope.models.forward import collate, forward, pad_token
from headscope.models.probe import relative_error
from headscope.tap import LayerHeads, tap

SDPA, EAGER = "sdpa", "eager"
LENGTHS = (9, 6)  # of the windows that are tried: one is padded


class attention_by:  # noqa: N801 - reads as a state: `with attention_by(network, "sdpa")`
    """Has a network compute attention in another of transformers' ways for a while."""

    def __init__(self, network: Any, way: str) -> None:
        self.network, self.way = network, way

    def __enter__(self) -> None:
        self.before = self.network.config._attn_implementation
        if self.before != self.way:
            self.network.set_attn_implementation(self.way)

    def __exit__(self, *error: object) -> None:
        if self.before != self.way:
            self.network.set_attn_implementation(self.before)


class without_plans:  # noqa: N801 - reads as a state: `with without_plans(wanted)`
    """Has torch go without cuDNN's attention for a while, in all threads.

    cuDNN makes a plan for every shape, which takes longer than a batch does; padded batches have many. Batches of
    whole windows have few, and there it is the fastest.

    >>> with without_plans(True), without_plans(True):
    ...     torch.backends.cuda.cudnn_sdp_enabled()
    False
    >>> torch.backends.cuda.cudnn_sdp_enabled()
    True
    """

    _lock, _inside, _before = Lock(), 0, True

    def __init__(self, wanted: bool) -> None:
        self.wanted = wanted

    def __enter__(self) -> None:
        own = without_plans
        with own._lock:
            if self.wanted and own._inside == 0:
                own._before = bool(torch.backends.cuda.cudnn_sdp_enabled())  # type: ignore[no-untyped-call]
                torch.backends.cuda.enable_cudnn_sdp(False)
            own._inside += self.wanted

    def __exit__(self, *error: object) -> None:
        own = without_plans
        with own._lock:
            own._inside -= self.wanted
            if self.wanted and own._inside == 0:
                torch.backends.cuda.enable_cudnn_sdp(own._before)


def plain_attention(scores: Tensor, readable: Tensor | None) -> Tensor:
    """Softmax over the tokens that may be read, in float32: (B, H, T, T)."""
    scores = scores.float()
    return (scores if readable is None else scores.masked_fill(~readable, -torch.inf)).softmax(-1)


def products(layer: LayerHeads) -> Tensor:
    """Queries times keys, scaled: (B, H, T, T). Heads of a group share their keys."""
    assert layer.scores is not None
    queries, keys = layer.scores.queries.float(), layer.scores.keys.float()
    keys = keys.repeat_interleave(queries.shape[1] // keys.shape[1], dim=1)
    return queries @ keys.transpose(-1, -2) * layer.scores.scaling


def own_attention(network: Any, report: Report) -> str:
    """Why the weights must come from the model's own function; empty where queries and keys tell them.

    Both ways are tried on two short windows: outputs and weights must be the same but for rounding.

    >>> import headscope
    >>> model = headscope.load()
    >>> own_attention(model.network, model.report)
    ''
    """
    if report.route != "interface":
        return "its attention does not go through transformers' interface"
    if len(report.stacks) > 1:
        return "it has several attention stacks"
    if not getattr(network, "_supports_sdpa", False):
        return "transformers has no other attention for it than its own"
    vocabulary = network.config.get_text_config().vocab_size
    ids = [[(7 * k + 3) % vocabulary for k in range(length)] for length in LENGTHS]
    batch = collate(ids, pad_token(network.config), network.device)
    causal = next(iter(report.stacks.values())).causal
    with tap(network, weights=True, route="interface", causal=causal) as given:
        forward(network, batch)
    computed = tap(network, scores=True, route="interface", causal=causal)
    try:
        with attention_by(network, SDPA), computed:
            forward(network, batch)
    except (ValueError, NotImplementedError, RuntimeError) as error:  # a cap on scores, for one
        return f"transformers has no plain attention for it: {brief(error)}"
    tolerance = TOLERANCE[network.dtype]
    for own, other in zip(given, computed, strict=True):
        assert own.weights is not None
        weights = plain_attention(products(other), other.readable)
        for row, end in enumerate(LENGTHS):
            off = max(
                relative_error(other.outputs[row, :, :end], own.outputs[row, :, :end]),
                relative_error(weights[row, :, :end], own.weights[row, :, :end]),
            )
            if not off <= tolerance:
                return f"the attention of layer {own.layer} is not the plain kind"
    return ""
