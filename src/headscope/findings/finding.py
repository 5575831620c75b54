"""A finding: what was found about one claim, with its controls; and all findings of a result."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import TYPE_CHECKING, Any, TypeVar

from headscope.errors import counted
from headscope.findings.checks import CANNOT_TELL, FAILS, NOT_RUN, PASSES, Check, RunNumber, together

if TYPE_CHECKING:
    import pandas as pd

HOLDS, QUALIFIED, DOES_NOT_HOLD, OPEN, NONE = "holds", "qualified", "does not hold", "open", "no verdict"
VERDICTS = (HOLDS, QUALIFIED, DOES_NOT_HOLD, OPEN, NONE)
MARKS = {PASSES: "✓", FAILS: "✗", CANNOT_TELL: "?", NOT_RUN: "–"}
Kind = TypeVar("Kind", bound=Any)


@dataclass(frozen=True)
class Finding:
    """What was found about one claim."""

    key: str
    claim: str
    says: str  # the paper
    statistic: str
    verdict: str
    statistics: tuple[Check, ...]  # all of which must pass; one, but for claim 2
    controls: tuple[Check, ...]
    runs: tuple[RunNumber, ...]  # what control runs give for the statistics
    layers_beyond: tuple[int, ...]  # layers whose whole interval lies beyond the bound
    layers_short: tuple[int, ...]  # … short of it
    digits: int
    thresholds: str
    reason: str = ""  # why there is no verdict, or why it is open
    sentence: str = ""
    texts: float | None = None  # share of texts that show the effect on their own, where rows per text were kept
    middle: str = ""  # the middle layers' number, where they certainly do it more and no control asks

    @property
    def value(self) -> float:
        """The (first) statistic; NaN where `reason` says why there is none."""
        return self.statistics[0].value

    @property
    def low(self) -> float:
        """The lower end of its interval."""
        return self.statistics[0].low

    @property
    def high(self) -> float:
        """The upper end of its interval."""
        return self.statistics[0].high

    @property
    def none(self) -> float:
        """The statistic where there is no effect."""
        return self.statistics[0].none

    @property
    def bound(self) -> float:
        """The smallest effect that matters."""
        return self.statistics[0].bound

    @property
    def can_tell(self) -> bool:
        """Whether an effect twice the smallest that matters would be seen, in the statistics and all controls."""
        # Where the bound is no effect at all, there is no such thing as twice the smallest.
        own = [each for each in (*self.statistics, *self.controls) if not each.run and each.bound != each.none]
        return self.verdict != NONE and all(each.detectable <= 2 * each.bound - each.none for each in own)

    def state(self, name: str) -> str:
        """What became of a control, or of all whose name begins so: "cosine", "permuted", …; "" where it has none."""
        own = [each.state for each in self.controls if each.name.split()[0] == name or each.name == name]
        return together(own) if own else ""

    def interval(self) -> str:
        """The number with its interval, as one string; of claim 2, both."""
        return "; ".join(each.interval(self.digits) for each in self.statistics)

    def as_dict(self) -> dict[str, Any]:
        """For JSON: numbers that are not there become None."""
        first = {name: getattr(self, name) for name in ("value", "low", "high", "none", "bound", "can_tell")}
        told: dict[str, Any] = plain(asdict(self) | first)
        return told


@dataclass(frozen=True)
class Findings(Sequence[Finding]):
    """All findings of one result, in the order of the claims, with warnings about signs of trouble."""

    model: str
    stack: str
    windows: int
    blocks: int
    interval: str
    tau: float
    theta: float
    items: tuple[Finding, ...] = field(repr=False)
    warnings: tuple[str, ...] = ()
    unread: str = ""  # why there are no verdicts, where S was not read as the paper reads it
    over_windows: bool = False  # matched counts were pooled over windows: τ is not the run's own
    about: dict[str, Any] = field(default_factory=dict, repr=False)  # settings, model and texts of the run

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, str):
            for finding in self.items:
                if finding.key == key:
                    return finding
            raise KeyError(key)
        return self.items[key]

    def __len__(self) -> int:
        return len(self.items)

    def __iter__(self) -> Iterator[Finding]:
        return iter(self.items)

    def __repr__(self) -> str:
        head = f"{self.model}, {self.stack}, {counted(self.windows, 'window')}, τ = {self.tau:g}"
        rows = [f"{f.key:<3}{f.claim:<46}{f.interval():<44}{f.verdict}" for f in self.items]
        return "\n".join([head, *rows])

    @property
    def control_names(self) -> list[str]:
        """The kinds of controls, in the order of the claims: "weighted", "over", "dot", "cosine", …."""
        return list(dict.fromkeys(each.name.split()[0] for f in self.items for each in f.controls))

    def table(self) -> pd.DataFrame:
        """A row per claim, with a column for each kind of control: passes, fails, cannot tell, not run, or empty."""
        import pandas as pd

        rows = []
        for f in self.items:
            first = f.statistics[0]
            row: dict[str, Any] = {
                "key": f.key, "claim": f.claim, "statistic": f.statistic, "value": f.value, "low": f.low,
                "high": f.high, "none": f.none, "bound": f.bound, "heads_beyond": first.beyond, "pooled": first.pooled,
                "verdict": f.verdict,
            }  # fmt: skip
            row |= {name: f.state(name) for name in self.control_names}
            rows.append(row | {"texts": f.texts, "sentence": f.sentence})
        return pd.DataFrame(rows)

    def checks(self) -> pd.DataFrame:
        """A row for each statistic and control of each claim."""
        import pandas as pd

        return pd.DataFrame(
            [{"key": f.key} | asdict(each) for f in self.items for each in (*f.statistics, *f.controls)]
        )

    def as_dict(self) -> dict[str, Any]:
        """For JSON: numbers that are not there become None."""
        told: dict[str, Any] = plain(
            {each.name: getattr(self, each.name) for each in fields(self) if each.name != "items"}
        )
        return told | {"findings": [finding.as_dict() for finding in self.items]}

    @classmethod
    def from_dict(cls, told: Mapping[str, Any]) -> Findings:
        """What `as_dict` told, as it was."""
        items = []
        for each in told["findings"]:
            checks = {name: tuple(_restored(Check, one) for one in each[name]) for name in ("statistics", "controls")}
            runs = tuple(_restored(RunNumber, one) for one in each["runs"])
            layers = {name: tuple(each[name]) for name in ("layers_beyond", "layers_short")}
            items.append(_restored(Finding, dict(each) | checks | layers | {"runs": runs}))
        return _restored(cls, dict(told) | {"items": tuple(items), "warnings": tuple(told["warnings"])})


def _restored(kind: type[Kind], told: Mapping[str, Any]) -> Kind:
    """A dataclass from what JSON kept of it: numbers that are not there are NaN again."""
    own = {each.name: each.type for each in fields(kind)}
    values = {name: value for name, value in told.items() if name in own}
    restored: Kind = kind(
        **{name: math.nan if value is None and own[name] == "float" else value for name, value in values.items()}
    )
    return restored


def plain(value: Any) -> Any:
    """For JSON, which has no NaN: numbers that are not there become None, however deep they stand.

    >>> plain({"a": [1.0, math.nan]})
    {'a': [1.0, None]}
    """
    if isinstance(value, dict):
        return {key: plain(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
