"""What decides a run's numbers: the method's choices, the layers, the model's precision, the caller's own relations."""

from __future__ import annotations

import hashlib
import inspect
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from headscope.choices import Choices, RunChoices, make_choices
from headscope.control import Control
from headscope.errors import HeadscopeError
from headscope.measures.own_relations import Labels
from headscope.models.spec import ModelFacts


@dataclass(frozen=True, slots=True)
class Settings:
    """Results add up only where all of these are the same."""

    choices: Choices
    layers: tuple[int, ...] | None = None
    dtype: str = "float32"
    relations: tuple[tuple[str, str], ...] = ()  # the caller's own: name, and hash of the function
    control: Control | None = None  # what was taken away

    def as_dict(self) -> dict[str, Any]:
        """For JSON, the choices among the others."""
        layers = None if self.layers is None else list(self.layers)
        control = None if self.control is None else str(self.control)
        return self.choices.as_dict() | {
            "layers": layers,
            "dtype": self.dtype,
            "relations": dict(self.relations),
            "control": control,
        }


def make_settings(
    model: ModelFacts, choices: RunChoices, *, layers: Collection[int] | None = None, relations: Mapping[str, Labels]
) -> Settings:
    """Settings that this model can carry out, or an error that says what is wrong with them."""
    chosen = make_choices(choices, model.default_window)
    length = chosen.window
    if length > model.max_length:
        raise HeadscopeError(
            f"a window of {length} tokens is too long for {model.name!r}", f"its longest is {model.max_length}"
        )
    if length <= model.around:
        raise HeadscopeError(f"a window of {length} tokens has no room for text", "ask for a longer window")
    deepest = max(stack.layers for stack in model.stacks.values())
    kept = None if layers is None else tuple(sorted({int(layer) for layer in layers}))
    if kept is not None and (not kept or kept[0] < 0 or kept[-1] >= deepest):
        raise HeadscopeError(f"layers={list(kept)} is not possible", f"name layers from 0 to {deepest - 1}")
    for name in relations:
        if not re.fullmatch(r"[a-z][a-z0-9_]{0,30}", name):
            raise HeadscopeError(f"{name!r} cannot name a relation", "use small letters, digits and underscores")
    return Settings(
        chosen,
        kept,
        model.dtype,
        tuple((name, hash_of_function(function)) for name, function in relations.items()),
        model.control,
    )


def hash_of_function(function: Any) -> str:
    """A hash of a function's source and of the plain values it closes over: a changed function is another one."""
    function = inspect.unwrap(function)
    try:
        source = inspect.getsource(function if inspect.isfunction(function) else type(function))
    except (OSError, TypeError):  # typed at a prompt: its compiled code, without what holds an address
        code = getattr(function, "__code__", None)
        plain = [c for c in getattr(code, "co_consts", ()) if isinstance(c, (str, int, float, bytes, type(None)))]
        source = f"{getattr(code, 'co_code', b'').hex()} {plain!r} {type(function).__name__}"
    cells = getattr(function, "__closure__", None) or ()
    held = [c.cell_contents for c in cells if isinstance(c.cell_contents, (str, int, float, bool, tuple, frozenset))]
    return hashlib.sha256(f"{source} {held!r}".encode()).hexdigest()[:16]
