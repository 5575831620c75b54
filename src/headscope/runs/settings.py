"""What a run was asked for: the choices that decide its numbers, and how the work is cut up."""

from __future__ import annotations

import hashlib
import inspect
import re
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from headscope.errors import HeadscopeError
from headscope.measures.attention import check_theta
from headscope.measures.described import Labels
from headscope.measures.similarity import first_high_bin
from headscope.windows import CHOICES

if TYPE_CHECKING:
    from headscope.models.model import Model

SHARDS = 32  # of a small collection; large ones have more, of the largest size
LARGEST_SHARD = 1024  # texts


@dataclass(frozen=True, slots=True)
class Settings:
    """The choices that decide the numbers. Results add up only where all of them are the same."""

    window: int
    windows: str = "first"
    similarity: str = "dot"
    scale: str = "max"
    repeated: str = "token"
    special: bool = False
    language: str = "en"
    tau: float = 0.5
    theta: float = 0.3
    layers: tuple[int, ...] | None = None
    dtype: str = "float32"
    seed: int = 0
    relations: tuple[tuple[str, str], ...] = ()  # the caller's own: name, and hash of the function

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        found = asdict(self)
        found["layers"] = None if self.layers is None else list(self.layers)
        found["relations"] = dict(self.relations)
        return found


@dataclass(slots=True)
class Plan:
    """How the work is cut up. `batches` tells the batch size from each shard on: running out of memory changes it."""

    shard_size: int
    lanes: int  # batches that go through the model side by side
    threads: int  # of each
    device: str
    batches: list[list[int]]  # [first shard, windows in a batch]
    per_text: bool = False
    cores: int = 1  # asked for; lanes · threads may be fewer

    def batch(self, shard: int) -> int:
        """How many windows go through the model at once in this shard.

        >>> Plan(8, 2, 1, "cpu", [[0, 32], [5, 16]]).batch(5)
        16
        """
        return min(size for first, size in self.batches if first <= shard)


def make_settings(
    model: Model,
    *,
    window: int | None,
    windows: str,
    similarity: str,
    scale: str,
    repeated: str,
    special: bool,
    language: str,
    tau: float,
    theta: float,
    layers: Collection[int] | None,
    seed: int,
    relations: Mapping[str, Labels],
) -> Settings:
    """Settings that this model can carry out, or an error that says what is wrong with them."""
    from headscope.inspection.tables import Options

    length = model.default_window if window is None else window
    Options(length, similarity, scale, repeated, special, language)  # refuses what is no choice
    if length > model.max_length:
        raise HeadscopeError(
            f"a window of {length} tokens is too long for {model.name!r}", f"its longest is {model.max_length}"
        )
    if length <= len(model.template.start) + len(model.template.end):
        raise HeadscopeError(f"a window of {length} tokens has no room for text", "ask for a longer window")
    if windows not in CHOICES:
        raise HeadscopeError(f"windows={windows!r}", f"use one of {', '.join(CHOICES)}")
    check_theta(theta)
    first_high_bin(tau)
    deepest = max(stack.layers for stack in model.stacks.values())
    kept = None if layers is None else tuple(sorted({int(layer) for layer in layers}))
    if kept is not None and (not kept or kept[0] < 0 or kept[-1] >= deepest):
        raise HeadscopeError(f"layers={list(kept)}", f"name layers from 0 to {deepest - 1}")
    for name in relations:
        if not re.fullmatch(r"[a-z][a-z0-9_]{0,30}", name):
            raise HeadscopeError(f"{name!r} is no name for a relation", "use small letters, digits and underscores")
    return Settings(
        length, windows, similarity, scale, repeated, special, language, float(tau), float(theta), kept,
        str(model.network.dtype).removeprefix("torch."), seed,
        tuple((name, hash_of_function(function)) for name, function in relations.items()),
    )  # fmt: skip


def hash_of_function(function: Any) -> str:
    """A hash of a function's source and of the plain values it closes over: a changed function is another one."""
    try:
        told = inspect.getsource(function if inspect.isfunction(function) else type(function))
    except (OSError, TypeError):  # typed at a prompt: its compiled code, without what holds an address
        code = getattr(function, "__code__", None)
        plain = [c for c in getattr(code, "co_consts", ()) if isinstance(c, (str, int, float, bytes, type(None)))]
        told = f"{getattr(code, 'co_code', b'').hex()} {plain!r} {type(function).__name__}"
    cells = getattr(function, "__closure__", None) or ()
    held = [c.cell_contents for c in cells if isinstance(c.cell_contents, (str, int, float, bool, tuple, frozenset))]
    return hashlib.sha256(f"{told} {held!r}".encode()).hexdigest()[:16]


def default_shard_size(texts: int) -> int:
    """A thirty-second of the texts, 1,024 at most: few enough to lose, many enough for intervals.

    >>> default_shard_size(20_000), default_shard_size(64), default_shard_size(5), default_shard_size(10**6)
    (625, 2, 1, 1024)
    """
    return max(1, min(-(-texts // SHARDS), LARGEST_SHARD))


def _short(value: Any) -> Any:
    """Of a hash the first digits are enough."""
    return f"{value[:8]}…" if isinstance(value, str) and re.fullmatch(r"[0-9a-f]{16,64}", value) else value


def differences(ours: Mapping[str, Any], theirs: Mapping[str, Any], prefix: str = "") -> list[str]:
    """What differs between two sets of settings, a line each.

    >>> differences({"tau": 0.5, "seed": 0}, {"tau": 0.6, "seed": 0})
    ['tau: 0.5, and 0.6']
    """
    found: list[str] = []
    for name in sorted({*ours, *theirs}):
        a, b = ours.get(name), theirs.get(name)
        if isinstance(a, Mapping) and isinstance(b, Mapping):
            found += differences(a, b, f"{prefix}{name}.")
        elif a != b:
            found.append(f"{prefix}{name}: {_short(a)}, and {_short(b)}")
    return found
