"""The self-check: is what the tap sees really what the heads compute?

Wrong numbers are worse than no numbers, so every model is put through these equalities when it is loaded, on a tiny
padded batch. Each one would catch a different mistake: a layer missed, heads in the wrong order, weights that belong
to another layer, padding that leaks into the texts.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from headscope import choices
from headscope.errors import HeadscopeError
from headscope.models.forward import Batch
from headscope.models.probe import Probe, probe, relative_error
from headscope.tap import LayerHeads, places

# The largest difference allowed, as a share of the largest |O| of the layer: rounding, and nothing else.
TOLERANCE = {torch.float64: 1e-10, torch.float32: 1e-4, torch.float16: 1e-2, torch.bfloat16: 5e-2}

LAYERS = "layers captured = layers declared"
HEADS = "heads captured = heads declared"
STACKS = "each stack reads its own tokens"
FINITE = "outputs are finite"
PRODUCT = "O = A·V"
VALUES = "V = output of a projection"
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
    values: bool = False  # whether the values that the tap hands over are those that O was made of


@dataclass(slots=True)
class Report:
    """What the self-check has shown; `route` is how the heads are reached."""

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
    run = probe(model, batch, route)
    report = Report(type(model).__name__, run.route, TOLERANCE[_dtype(model)])
    for stack in choices.STACKS:
        if any(layer.stack == stack for layer in run.layers):
            seen = StackCheck(run, stack, report.tolerance)
            checks = seen.all_checks()
            report.stacks[stack] = seen.shape(checks)
            report.checks += checks
    report.checks.append(Check("model", UNCHANGED, not run.changed, note=", ".join(run.changed[:3])))
    declared = choices.STACKS if getattr(run.config, "is_encoder_decoder", False) else ()
    report.checks += [Check(s, LAYERS, False, note="none captured") for s in declared if s not in report.stacks]
    return report


def _dtype(model: nn.Module) -> torch.dtype:
    """What it computes in: of a quantized model some parameters are whole numbers."""
    return next(each.dtype for each in model.parameters() if each.is_floating_point())


class StackCheck:
    """The equalities of one stack."""

    def __init__(self, run: Probe, stack: str, tolerance: float) -> None:
        self.run, self.stack, self.tolerance = run, stack, tolerance
        self.places = [k for k, layer in enumerate(run.layers) if layer.stack == stack]
        self.layers = [run.layers[k] for k in self.places]
        self.queries = run.batch if stack == "encoder" or run.decoder is None else run.decoder
        self.keys = run.decoder if stack == "decoder" and run.decoder is not None else run.batch
        self.ends = self.queries.lengths  # rows of padding hold whatever the backend leaves there

    def shape(self, checks: Iterable[Check]) -> Stack:
        """The stack as seen, and whether the checks have shown its values to be right."""
        _, heads, _, width = self.layers[0].outputs.shape
        passed = {check.name: check.passed for check in checks}
        values = passed.get(PRODUCT) is True and passed.get(VALUES) is not False
        return Stack(self.stack, len(self.layers), heads, width, self.stack == "decoder", values)

    def all_checks(self) -> list[Check]:
        """All of them; where the shapes or the numbers are wrong the rest would mean nothing."""
        checks = [self.as_many_layers(), self.as_many_heads(), self.own_tokens(), self.finite()]
        if all(check.passed is not False for check in checks[1:]):
            values, projection = self.values(), self.projection()
            if values.passed is None and projection.passed is None:  # then nothing outside the tap speaks for O
                values = self.result(VALUES, False, "neither what comes before nor what comes after could be compared")
            checks += [self.product(), values, projection, self.rows(), self.reads(), self.padded()]
        return checks

    def result(self, name: str, passed: bool | None, note: str = "", off: float | None = None) -> Check:
        """A result for this stack."""
        return Check(self.stack, name, passed, off, note)

    def within(self, name: str, errors: Iterable[float]) -> Check:
        """Whether the largest error is rounding. `max` would pass over a NaN, so that is infinite."""
        listed = list(errors)
        worst = max(listed) if all(math.isfinite(off) for off in listed) else math.inf
        return self.result(name, worst <= self.tolerance, off=worst)

    def as_many_layers(self) -> Check:
        """None was missed, none seen twice."""
        expected = places.declared_layers(self.run.config, self.stack)
        count = len(self.layers)
        return self.result(LAYERS, None if expected is None else count == expected, f"{count} of {expected}")

    def as_many_heads(self) -> Check:
        """One slot per query head, the same in every layer."""
        expected = places.declared_heads(self.run.config, self.stack)
        counts, widths = ({layer.outputs.shape[k] for layer in self.layers} for k in (1, 3))
        if len(widths) > 1 or len(counts) > 1:
            return self.result(HEADS, False, f"layers differ: {sorted(counts)} heads, {sorted(widths)} wide")
        return self.result(HEADS, None if expected is None else counts == {expected}, f"{max(counts)} of {expected}")

    def own_tokens(self) -> Check:
        """Seen by the lengths of what was read: the decoder was given one token less."""
        shapes = {tuple(weights_of(layer).shape[2:]) for layer in self.layers}
        wanted = (self.queries.ids.shape[1], self.keys.ids.shape[1])
        return self.result(STACKS, shapes == {wanted}, f"{' and '.join(map(str, sorted(shapes)))} of {wanted}")

    def finite(self) -> Check:
        """No NaN and no infinity in the rows of tokens."""
        for layer in self.layers:
            if not all(bool(layer.outputs[b, :, :end].isfinite().all()) for b, end in enumerate(self.ends)):
                return self.result(FINITE, False, f"NaN or infinite values in layer {layer.layer} ({layer.module})")
        return self.result(FINITE, True)

    def product(self) -> Check:
        """The weights, values and outputs belong together: the values are those that the tap hands to everybody."""
        worst, place = -1.0, ""
        for layer in self.layers:
            where = f"layer {layer.layer} ({layer.module})"
            if problem := unfit_values(layer):
                return self.result(PRODUCT, False, f"{where}: {problem}")
            for b, end in enumerate(self.ends):
                off = product_error(layer, b, end)
                off = off if math.isfinite(off) else math.inf  # `>` would pass over a NaN
                worst, place = (off, where) if off > worst else (worst, place)
        passed = worst <= self.tolerance
        return self.result(PRODUCT, passed, "" if passed else f"{place} is off by {worst:.1e}", worst)

    def values(self) -> Check:
        """V, seen on its own: as it left the projection, before the attention call."""
        if all(self.run.values_projected[k] for k in self.places):
            return self.result(VALUES, True)
        return self.result(VALUES, None, "the model changes its values after projecting them")

    def projection(self) -> Check:
        """The outputs are in the order and on the scale in which the model goes on with them."""
        if any(places.has_gate(self.run.modules[layer.module]) for layer in self.layers):
            return self.result(PROJECTION, None, "the model gates its outputs: O is taken before the gate")
        errors = [self.run.projected.get(k) for k in self.places]
        if None in errors:
            return self.result(PROJECTION, None, "no projection of that width follows")
        return self.within(PROJECTION, (off for off in errors if off is not None))

    def rows(self) -> Check:
        """The weights are those after the softmax."""
        sums = [
            weights_of(layer)[b, :, :end].double().sum(-1) for layer in self.layers for b, end in enumerate(self.ends)
        ]
        limit = max(1e-5, torch.finfo(self.layers[0].outputs.dtype).eps * 8)
        if any(hasattr(self.run.modules[layer.module], "sinks") for layer in self.layers):
            inside = all(bool(((row >= 0) & (row <= 1 + limit)).all()) for row in sums)
            return self.result(ROWS, inside, "the model has an attention sink: rows sum to less than one")
        worst = self.within(ROWS, (float((row - 1).abs().max()) for row in sums)).error
        return self.result(ROWS, worst is not None and worst <= limit, off=worst)

    def reads(self) -> Check:
        """What a token may read, which the base rates rest on."""
        for layer in self.layers:
            if not reads_what_it_may(layer, self.ends, self.keys.lengths):
                return self.result(READS, False, f"layer {layer.layer} ({layer.module})")
        return self.result(READS, True)

    def padded(self) -> Check:
        """Padding enters nothing."""

        def errors() -> Iterable[float]:
            for b, everything in enumerate(self.run.alone):
                single = [layer for layer in everything if layer.stack == self.stack]
                for layer, by_itself in zip(self.layers, single, strict=True):
                    yield relative_error(layer.outputs[b, :, : self.ends[b]], by_itself.outputs[0])

        return self.within(PADDED, errors())


def weights_of(layer: LayerHeads) -> Tensor:
    """The attention weights, which the probe asked for."""
    assert layer.weights is not None
    return layer.weights


def unfit_values(layer: LayerHeads) -> str:
    """Why the values cannot be multiplied with the weights of all heads, if they cannot."""
    if layer.values is None:
        return "the tap saw no values"
    (batch, heads, _, keys), width = weights_of(layer).shape, layer.outputs.shape[-1]
    shape = tuple(layer.values.shape)
    if len(shape) != 4 or heads % shape[1] or (shape[0], *shape[2:]) != (batch, keys, width):
        return f"values of shape {shape} are not those of {heads} heads, {keys} tokens, {width} wide"
    return ""


def product_error(layer: LayerHeads, row: int, end: int) -> float:
    """How far the outputs of one text are from A·V."""
    product = weights_of(layer)[row].double() @ layer.values_of_heads[row].double()  # (H, Tq, d)
    return relative_error(layer.outputs[row, :, :end], product[:, :end])


def reads_what_it_may(layer: LayerHeads, ends: list[int], key_ends: list[int]) -> bool:
    """Whether A is zero where reading is not allowed, padding is not, and a map that never looks ahead is causal."""
    weights = weights_of(layer)
    batch, heads, queries, keys = weights.shape
    every = torch.ones(1, 1, 1, 1, dtype=torch.bool, device=weights.device)
    readable = (every if layer.readable is None else layer.readable).expand(batch, heads, queries, keys)
    for b, end in enumerate(ends):
        given, may = weights[b, :, :end], readable[b, :, :end]
        if bool((given.masked_fill(may, 0) != 0).any()) or bool(may[:, :, key_ends[b] :].any()):
            return False
        ahead = torch.ones(end, keys, dtype=torch.bool, device=weights.device).triu(1)
        if queries == keys and end > 2 and bool((may & ahead).any()) and not bool((given * ahead).any()):
            return False
    return True
