"""The self-check: is what the tap sees really what the heads compute?

Wrong numbers are worse than no numbers, so every model is put through these equalities when it is loaded, on a tiny
padded batch. Each one would catch a different mistake: a layer missed, heads in the wrong order, weights that belong
to another layer, padding that leaks into the texts.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from headscope.errors import HeadscopeError
from headscope.models.forward import Batch, forward, shifted_right, start_token
from headscope.tap import LayerHeads, places, tap

# The largest difference allowed, as a share of the largest |O| of the layer: rounding, and nothing else.
TOLERANCE = {torch.float64: 1e-10, torch.float32: 1e-4, torch.float16: 1e-2, torch.bfloat16: 5e-2}

LAYERS = "layers captured = layers declared"
HEADS = "heads captured = heads declared"
STACKS = "each stack reads its own tokens"
FINITE = "outputs are finite"
PRODUCT = "O = A·V"
PROJECTION = "O = input of the output projection"
ROWS = "rows of A sum to one"
PADDED = "padded = alone"
READS = "tokens read what they may"
UNCHANGED = "running leaves the model as it was"


@dataclass(frozen=True, slots=True)
class Check:
    """One equality for one stack. `passed` is None where the model gives nothing to check against: `note` says why."""

    stack: str
    name: str
    passed: bool | None
    error: float | None = None  # the largest difference over the layers, relative to the layer's largest |O|
    note: str = ""


@dataclass(frozen=True, slots=True)
class Stack:
    """The shape of one attention stack, as seen."""

    name: str
    layers: int
    heads: int
    width: int  # of one head's output
    causal: bool


@dataclass(slots=True)
class Report:
    """What the self-check found; `route` is how the heads are reached."""

    architecture: str
    route: str
    tolerance: float
    stacks: dict[str, Stack] = field(default_factory=dict)
    checks: list[Check] = field(default_factory=list)

    @property
    def failed(self) -> list[Check]:
        """The equalities that do not hold."""
        return [check for check in self.checks if check.passed is False]

    def raise_if_failed(self, remedy: str) -> None:
        """Turn a failure into an error that names every equality that does not hold."""
        if self.failed:
            what = "; ".join(
                f"{check.name} ({check.stack}: {check.note or f'off by {check.error:.1e}'})" for check in self.failed
            )
            raise HeadscopeError(f"{self.architecture} failed the self-check: {what}", remedy)


def self_check(model: nn.Module, batch: Batch, *, route: str = "auto") -> Report:
    """Run the equalities on a padded batch of at least two windows of different length."""
    config: Any = model.config
    dtype = next(model.parameters()).dtype
    decoder = None
    if getattr(config, "is_encoder_decoder", False):
        # One token shorter than the encoder's, so that the stacks can be told apart by what they read.
        full = shifted_right(batch, start_token(config))
        decoder = Batch(full.ids[:, :-1], full.mask[:, :-1])
    before = _settings(model)
    with tap(model, weights=True, values=True, route=route) as tapped, _projections(model, tapped.collected) as inputs:
        forward(model, batch, decoder)
    report = Report(type(model).__name__, tapped.route, TOLERANCE[dtype])
    alone = [_alone(model, batch, decoder, row, tapped.route) for row in range(len(batch.ids))]
    modules = dict(model.named_modules())
    for stack in ("encoder", "decoder", "cross"):
        seen = [(k, heads) for k, heads in enumerate(tapped.collected) if heads.stack == stack]
        if seen:
            _check_stack(report, model, modules, stack, seen, inputs, alone, batch, decoder)
    changed = sorted(name for name, value in _settings(model).items() if before.get(name) != value)
    report.checks.append(Check("model", UNCHANGED, not changed, note=", ".join(changed[:3])))
    for stack in _declared_stacks(config, report):
        report.checks.append(Check(stack, LAYERS, False, note="none captured"))
    return report


def _settings(model: nn.Module) -> dict[str, str]:
    """What modules remember in words. BigBird, for one, turns to another attention on short texts, for good."""
    return {
        f"{name}.{key}": value
        for name, module in model.named_modules()
        for key, value in vars(module).items()
        if isinstance(value, str)
    }


def _declared_stacks(config: Any, report: Report) -> list[str]:
    """The stacks that an encoder-decoder must show and did not."""
    wanted = ("encoder", "decoder", "cross") if getattr(config, "is_encoder_decoder", False) else ()
    return [stack for stack in wanted if stack not in report.stacks]


def _alone(model: nn.Module, batch: Batch, decoder: Batch | None, row: int, route: str) -> list[LayerHeads]:
    with tap(model, route=route) as tapped:
        forward(model, batch.alone(row), decoder.alone(row) if decoder else None)
    return tapped.collected


@contextmanager
def _projections(model: nn.Module, collected: list[LayerHeads]) -> Iterator[dict[int, float | None]]:
    """Compare each layer's outputs with what the next projection of that width is given.

    Yields, by position in `collected`, the largest difference; a layer without an entry met no projection.
    """
    errors: dict[int, float | None] = {}

    def look(module: nn.Module, args: tuple[Any, ...]) -> None:
        k = len(collected) - 1
        if k < 0 or k in errors or not args or not isinstance(args[0], Tensor):
            return
        outputs = collected[k].outputs  # (B, H, T, d)
        merged = outputs.transpose(1, 2).flatten(2)  # (B, T, H·d)
        if args[0].numel() == merged.numel() and args[0].shape[-1] == merged.shape[-1]:
            errors[k] = _error(args[0].reshape(merged.shape), merged)

    handles = [
        module.register_forward_pre_hook(look)
        for module in model.modules()
        if isinstance(getattr(module, "weight", None), Tensor)
        and module.weight.ndim == 2
        and not isinstance(module, nn.Embedding)
    ]
    try:
        yield errors
    finally:
        for handle in handles:
            handle.remove()


def _error(found: Tensor, expected: Tensor) -> float:
    """The largest difference as a share of the largest expected value."""
    found, expected = found.double(), expected.double()
    scale = float(expected.abs().max()) or 1.0
    return float((found - expected).abs().max()) / scale


def _check_stack(
    report: Report,
    model: nn.Module,
    modules: dict[str, nn.Module],
    stack: str,
    seen: list[tuple[int, LayerHeads]],
    inputs: dict[int, float | None],
    alone: list[list[LayerHeads]],
    batch: Batch,
    decoder: Batch | None,
) -> None:
    config: Any = model.config
    layers = [heads for _, heads in seen]
    queries = batch if stack == "encoder" or decoder is None else decoder
    keys = decoder if stack == "decoder" and decoder is not None else batch
    first = layers[0]
    causal = stack == "decoder"
    report.stacks[stack] = Stack(stack, len(layers), first.outputs.shape[1], first.outputs.shape[-1], causal)

    def add(name: str, passed: bool | None, error: float | None = None, note: str = "") -> None:
        report.checks.append(Check(stack, name, passed, error, note))

    def add_error(name: str, error: float, note: str = "") -> None:
        add(name, error <= report.tolerance, error, note)

    expected = places.declared_layers(config, stack)
    add(LAYERS, None if expected is None else len(layers) == expected, note=f"{len(layers)} of {expected}")
    heads = places.declared_heads(config, stack)
    counts = {layer.outputs.shape[1] for layer in layers}
    widths = {layer.outputs.shape[3] for layer in layers}
    if len(widths) > 1:
        add(HEADS, False, note=f"heads of several widths, {sorted(widths)}")
        return
    add(HEADS, None if heads is None else counts == {heads}, note=f"{sorted(counts)} of {heads}")
    reads = {(layer.outputs.shape[2], layer.weights.shape[3]) for layer in layers if layer.weights is not None}
    wanted = (queries.ids.shape[1], keys.ids.shape[1])
    add(STACKS, reads == {wanted}, note=f"{sorted(reads)} tokens of {wanted}")

    ends = queries.lengths
    finite = next(
        (
            layer
            for layer in layers
            for b, end in enumerate(ends)
            if not bool(layer.outputs[b, :, :end].isfinite().all())
        ),
        None,
    )
    if finite is not None:
        add(FINITE, False, note=f"NaN or infinite values in layer {finite.layer} ({finite.module})")
        return
    add(FINITE, True)

    add_error(PRODUCT, _worst(_product_error(layer, b, end) for layer in layers for b, end in enumerate(ends)))
    found = [inputs.get(k) for k, _ in seen]
    gated = any(places.has_gate(modules[layer.module]) for layer in layers)
    if gated:
        add(PROJECTION, None, note="the model gates its outputs: O is taken before the gate")
    elif any(error is None for error in found):
        add(PROJECTION, None, note="no projection of that width follows")
    else:
        add_error(PROJECTION, _worst(error for error in found if error is not None))
    _check_rows(layers, modules, ends, add)
    wrong = next((layer for layer in layers if not _reads_what_it_may(layer, ends, keys.lengths)), None)
    add(READS, wrong is None, note="" if wrong is None else f"layer {wrong.layer} ({wrong.module})")
    worst = _worst(
        _error(layer.outputs[b, :, : ends[b]], single.outputs[0])
        for b, singles in enumerate(alone)
        for layer, single in zip(layers, (s for s in singles if s.stack == stack), strict=True)
    )
    add_error(PADDED, worst)


def _worst(errors: Iterable[float]) -> float:
    """The largest of some errors, infinite where one of them is no number (which `max` would pass over)."""
    every = list(errors)
    return max(every) if all(math.isfinite(error) for error in every) else math.inf


def _reads_what_it_may(layer: LayerHeads, ends: list[int], key_ends: list[int]) -> bool:
    """Whether A is zero where reading is not allowed, padding is not, and a map that never looks ahead is causal."""
    assert layer.weights is not None
    batch, heads, queries, keys = layer.weights.shape
    readable = torch.ones(1, 1, 1, 1, dtype=torch.bool, device=layer.weights.device)
    readable = (readable if layer.readable is None else layer.readable).expand(batch, heads, queries, keys)
    for b, end in enumerate(ends):
        weights, may = layer.weights[b, :, :end], readable[b, :, :end]
        if bool((weights.masked_fill(may, 0) != 0).any()) or bool(may[:, :, key_ends[b] :].any()):
            return False
        ahead = torch.ones(end, keys, dtype=torch.bool, device=weights.device).triu(1)
        if queries == keys and end > 2 and bool((may & ahead).any()) and not bool((weights * ahead).any()):
            return False
    return True


def _product_error(layer: LayerHeads, row: int, end: int) -> float:
    assert layer.weights is not None
    assert layer.values is not None
    heads = layer.outputs.shape[1]
    values = layer.values[row].repeat_interleave(heads // layer.values.shape[1], dim=0)  # (H, Tk, d)
    # What a model pads the values with (to reach a width its kernels like) is no part of the output.
    product = layer.weights[row].double() @ values.double()  # (H, Tq, d)
    return _error(layer.outputs[row, :, :end], product[:, :end, : layer.outputs.shape[-1]])


def _check_rows(layers: list[LayerHeads], modules: dict[str, nn.Module], ends: list[int], add: Any) -> None:
    sums = [
        layer.weights[b, :, :end].double().sum(-1)
        for layer in layers
        for b, end in enumerate(ends)
        if layer.weights is not None
    ]
    limit = max(1e-5, torch.finfo(layers[0].outputs.dtype).eps * 8)
    if any(hasattr(modules[layer.module], "sinks") for layer in layers):
        inside = all(bool(((s > 0) & (s <= 1 + limit)).all()) for s in sums)
        add(ROWS, inside, note="the model has an attention sink: rows sum to less than one")
        return
    worst = _worst(float((s - 1).abs().max()) for s in sums)
    add(ROWS, worst <= limit, worst)
