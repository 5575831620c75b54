"""Control runs: the same analysis of the same texts, with one thing taken away on purpose.

An effect that stays where its cause was taken away had another cause. Three things can be taken away: what was learned
(`untrained`, fresh weights), what was learned but for the sizes of weights (`permuted`), and where sentences lie
(`rotated`). A control is declared when a model is loaded; its name, the settings of its runs and what findings make of
them follow from there. Nothing here needs torch, so that a wrong control is refused before anything is loaded.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from headscope.errors import HeadscopeError

Kind = Literal["untrained", "permuted", "rotated"]
WRITTEN = re.compile(r"(untrained|permuted):(0|[1-9][0-9]*)|rotated")
SEEDS = 2**63  # torch takes no larger ones
USUAL = ("permuted:0", "permuted:1", "untrained:0", "rotated")  # what `reproduce` compares with
FOLDER = "control-"  # and what was taken away: where `reproduce` puts control runs, beside the run
REMEDY = "use untrained:SEED, permuted:SEED or rotated, for example permuted:0"


@dataclass(frozen=True, slots=True)
class Control:
    """What was taken away. `seed` is None where nothing is drawn."""

    kind: Kind
    seed: int | None = None

    def __str__(self) -> str:
        """As it is written: in commands, keyword arguments, settings."""
        return self.kind if self.seed is None else f"{self.kind}:{self.seed}"

    @property
    def changes_model(self) -> bool:
        """Whether the model has other weights; otherwise it is the trained one, and its windows are read otherwise."""
        return self.seed is not None

    @property
    def words(self) -> str:
        """For the name of a model.

        >>> Control("permuted", 1).words, Control("rotated").words
        ('permuted weights, seed 1', 'rotated sentences')
        """
        if self.kind == "rotated":
            return "rotated sentences"
        return f"{'untrained' if self.kind == 'untrained' else 'permuted weights'}, seed {self.seed}"


def read_control(written: str | None) -> Control | None:
    """A control from how it is written; None stands for none.

    >>> read_control("permuted:0")
    Control(kind='permuted', seed=0)
    >>> read_control("shuffled")
    Traceback (most recent call last):
    headscope.errors.HeadscopeError: control='shuffled' is not possible. To fix it: use untrained:SEED, ...
    """
    if written is None:
        return None
    match = WRITTEN.fullmatch(written) if isinstance(written, str) else None
    if match is None:
        raise HeadscopeError(f"control={written!r} is not possible", REMEDY)
    kind, seed = match.groups()
    if kind is None:
        return Control("rotated")
    if int(seed) >= SEEDS:
        raise HeadscopeError(f"control={written!r} is not possible", f"use a seed below {SEEDS}")
    return Control("untrained" if kind == "untrained" else "permuted", int(seed))
