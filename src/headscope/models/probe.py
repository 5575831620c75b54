"""Running a model for the self-check: padded and alone, with an eye on what goes into and comes out of projections."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from headscope.models.forward import Batch, forward, shifted_right, start_token
from headscope.tap import LayerHeads, tap


@dataclass(slots=True)
class Probe:
    """What was seen of a model on a padded batch. Lists and tables go by the order of the attention calls."""

    config: Any
    modules: dict[str, nn.Module]
    batch: Batch
    decoder: Batch | None  # what an encoder-decoder's decoder was given
    route: str = ""
    layers: list[LayerHeads] = field(default_factory=list)
    alone: list[list[LayerHeads]] = field(default_factory=list)  # the same for each text without padding
    projected: dict[int, float] = field(default_factory=dict)  # O against the input of the projection that follows
    values_projected: list[bool] = field(default_factory=list)  # whether V is what a projection before gave
    changed: list[str] = field(default_factory=list)  # settings of the model that running it has changed


def probe(model: nn.Module, batch: Batch, route: str) -> Probe:
    """Run the batch, then each of its texts alone."""
    config: Any = model.config
    run = Probe(config, dict(model.named_modules()), batch, None)
    if getattr(config, "is_encoder_decoder", False):
        # One token shorter than the encoder's, so that the length of what they read tells the stacks apart.
        full = shifted_right(batch, start_token(config))
        run.decoder = Batch(full.ids[:, :-1], full.mask[:, :-1])
    before = _settings(model)
    tapped = tap(model, weights=True, values=True, route=route)
    run.layers, run.route = tapped.collected, tapped.route
    with tapped, _watched_projections(model, run):
        forward(model, batch, run.decoder)
    for row in range(len(batch.ids)):
        with tap(model, route=run.route) as single:
            forward(model, batch.alone(row), run.decoder.alone(row) if run.decoder else None)
        run.alone.append(single.collected)
    run.changed = sorted(name for name, value in _settings(model).items() if before.get(name) != value)
    return run


def relative_error(actual: Tensor, expected: Tensor) -> float:
    """The largest difference as a share of the largest expected value.

    >>> relative_error(torch.tensor([1.0, 2.0]), torch.tensor([1.0, 4.0]))
    0.5
    """
    actual, expected = actual.double(), expected.double()
    scale = float(expected.abs().max()) or 1.0
    return float((actual - expected).abs().max()) / scale


def _settings(model: nn.Module) -> dict[str, str]:
    """What modules remember in words. BigBird, for one, turns to another attention on short texts, for good."""
    return {
        f"{name}.{key}": value
        for name, module in model.named_modules()
        for key, value in vars(module).items()
        if isinstance(value, str)
    }


@contextmanager
def _watched_projections(model: nn.Module, run: Probe) -> Iterator[None]:
    """Compare each layer with the projections around it: those that came before with V, the next one with O."""
    outputs: list[Tensor] = []  # of projections since the attention before

    def before(module: nn.Module, args: tuple[Any, ...]) -> None:
        k = len(run.layers) - 1
        if k < 0 or not args or not isinstance(args[0], Tensor):
            return
        if len(run.values_projected) == k:
            run.values_projected.append(any(holds(output, run.layers[k].values) for output in outputs))
            outputs.clear()
        merged = run.layers[k].outputs.transpose(1, 2).flatten(2)  # (B, H, T, d) to (B, T, H·d)
        if k not in run.projected and args[0].numel() == merged.numel() and args[0].shape[-1] == merged.shape[-1]:
            run.projected[k] = relative_error(args[0].reshape(merged.shape), merged)

    def after(module: nn.Module, args: tuple[Any, ...], output: Any) -> None:
        if isinstance(output, Tensor):
            outputs.append(output)

    handles = []
    for module in model.modules():
        weight = getattr(module, "weight", None)
        if isinstance(weight, Tensor) and weight.ndim == 2 and not isinstance(module, nn.Embedding):
            handles += [module.register_forward_pre_hook(before), module.register_forward_hook(after)]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()
    run.values_projected += [False] * (len(run.layers) - len(run.values_projected))


def holds(output: Tensor, values: Tensor | None) -> bool:
    """Whether a projection's output holds, for every token, the token's values, in whatever order of heads.

    Projections often give queries, keys and values side by side, so the values are looked for among the numbers. Heads
    that share values may have been given a copy each, so there may be more values than numbers.
    """
    if values is None:
        return False
    batch, heads, length, width = values.shape
    if output.numel() % (batch * length) or output.numel() < batch * length * width:
        return False
    rows = output.reshape(batch * length, -1)
    wanted = values.transpose(1, 2).reshape(batch * length, heads * width)
    return all(bool(torch.isin(want, row).all()) for want, row in zip(wanted, rows, strict=True))
