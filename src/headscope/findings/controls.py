"""Control runs beside a result: which there are, and whether they differ from it in nothing but what was taken away."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headscope.choices import differences
from headscope.control import read_control
from headscope.errors import HeadscopeError

if TYPE_CHECKING:
    from headscope.result.result import Result

PARTS = ("architecture", "config", "tokenizer")  # of a model, which its controls share


@dataclass(frozen=True, slots=True)
class Controls:
    """Control runs by what was taken away, each kind in the order in which they were given."""

    untrained: tuple[Result, ...] = ()
    permuted: tuple[Result, ...] = ()
    rotated: tuple[Result, ...] = ()

    @property
    def names(self) -> list[str]:
        """What the models are called, which says what was taken away."""
        return [each.model["name"] for each in (*self.untrained, *self.permuted, *self.rotated)]


def check_controls(result: Result, controls: Sequence[Result]) -> Controls:
    """Sort controls by kind, seen through the result's stack, or say why one cannot be compared with it.

    A control has the result's architecture, tokenizer and settings, but for what was taken away; a rotated one its
    weights too. Each counts once: the same run given twice would pass for two that agree.
    """
    kinds: dict[str, list[Result]] = {"untrained": [], "permuted": [], "rotated": []}
    seen = {_identity(result)}
    for control in controls:
        name, taken = control.model["name"], read_control(control.settings.get("control"))
        if taken is None:
            raise HeadscopeError(
                f"the run of {name} is not a control: nothing was taken away",
                "make one with headscope analyze … --control permuted:0 (or untrained:0, or rotated)",
            )
        other = differences(_settings(result), _settings(control))
        other += [f"the models' {part}" for part in PARTS if result.model.get(part) != control.model.get(part)]
        if taken.kind == "rotated" and control.model["weights"] != result.model["weights"]:
            other.append("the models' weights")
        if other:
            raise HeadscopeError(
                f"the control {name} differs in more than what was taken away: {'; '.join(other)}",
                "make it with the same model and settings as the run",
            )
        if _identity(control) in seen:
            raise HeadscopeError(
                f"the control {name} is given twice", "give each control once; a second one needs another seed"
            )
        seen.add(_identity(control))
        kinds[taken.kind].append(control if control.name == result.name else control.stack(result.name))
    return Controls(*(tuple(kinds[kind]) for kind in ("untrained", "permuted", "rotated")))


def _settings(result: Result) -> dict[str, object]:
    return {name: value for name, value in result.settings.items() if name != "control"}


def _identity(result: Result) -> tuple[str, str | None]:
    return result.model["weights"], result.settings.get("control")
