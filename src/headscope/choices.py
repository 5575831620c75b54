"""The method's choices: everything that docs/method.md leaves open, declared once.

The flags of the command line, the options of the page, the keyword arguments in Python and the table in the reference
are made from `Choices`. Nothing here needs torch, so that a wrong choice is refused before anything is loaded.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Literal, TypedDict, get_args, get_type_hints

from headscope.errors import HeadscopeError

BINS = 21  # of levels; bin 0: negative; bin k: [(k-1)/20, k/20); the maximum in bin 20
THRESHOLDS = tuple(k / (BINS - 1) for k in range(1, BINS - 1))  # 0.05, 0.10, … 0.95: of τ and of θ
FEW_PAIRS = 10  # with fewer high pairs than this, a focal token says little
LONGEST_SUMMED = 512  # tokens; the mean matrix of longer windows is not kept
DEFAULT_WINDOW = 128  # tokens, the paper's
# Who counts: compiled loops on the CPU, plain torch, a graphics card's kernels. These compute attention from queries
# and keys, or are given it by the model's own function. No choice of the method: numbers are the same but for rounding.
COMPILED, TORCH, CUDA, CUDA_EAGER = PATH_NAMES = ("compiled", "torch", "cuda", "cuda-eager")
# Who computes shards: this machine, in one process or several, or a Ray cluster. No number depends on it.
LOCAL, RAY = ENGINE_NAMES = ("local", "ray")

# What a text is in a plain file.
SPLITS = ("line", "paragraph", "file")
# What a text is cut into, the usual first.
GRAINS = ("topics", "sentences")

Stack = Literal["encoder", "decoder", "cross"]
STACKS: tuple[Stack, ...] = get_args(Stack)  # of attention layers that a model may have

Reading = Literal["dot", "cosine", "centred", "values"]
Scale = Literal["max", "rank"]
Repeated = Literal["token", "word"]
Windows = Literal["first", "all", "random"]
# What each reading of S is, for whoever chooses one.
READINGS: dict[Reading, str] = {
    "dot": "the product of the two outputs: alike where they point the same way and are long",
    "cosine": "the cosine of the two outputs: only where they point, however long they are",
    "centred": "the cosine after the text's mean output is subtracted: what sets its tokens apart",
    "values": "the cosine of the two value vectors: what was there before attention mixed it",
}


def _choice(default: Any, help: str, *, of_text: bool = True, label: str = "") -> Any:
    """A field of `Choices`: what it is for, and whether it matters for a single text that is inspected."""
    return field(default=default, metadata={"help": help, "of_text": of_text, "label": label})


@dataclass(frozen=True, slots=True, kw_only=True)
class Choices:
    """The choices that the method leaves open, as they were made.

    >>> Choices(tau=0.6).readings
    ('dot', 'cosine')
    >>> Choices(readings=("manhattan",))
    Traceback (most recent call last):
    headscope.errors.HeadscopeError: readings='manhattan' is not possible. To fix it: use some of dot, cosine, ...
    """

    window: int = _choice(DEFAULT_WINDOW, "tokens in a window, special tokens included", label="tokens in the window")
    readings: tuple[Reading, ...] = _choice(
        ("dot", "cosine"),
        "how S is read, the main reading first: product of outputs, cosine, cosine of outputs without their mean, or "
        "cosine of value vectors",
        label="reading",
    )
    scale: Scale = _choice(
        "max", "what a level is: a share of the window's largest S, or a rank among its pairs", label="levels by"
    )
    repeated: Repeated = _choice("token", "what makes a repetition: the same token, or the same word")
    special: bool = _choice(False, "let special tokens take part in the pairs", label="special tokens count")
    language: str = _choice("en", "language for splitting sentences, as in ISO 639")
    windows: Windows = _choice("first", "which windows to read of a text that is longer than one", of_text=False)
    tau: float = _choice(0.5, "τ: the level from which a pair is high, in steps of 0.05", of_text=False)
    theta: float = _choice(
        0.3, "θ: the share of the largest attention above which a token is a high-attention token", of_text=False
    )
    seed: int = _choice(0, "seed of what is drawn at random: a sample of the texts, random windows", of_text=False)

    def __post_init__(self) -> None:
        for name, values in allowed_values().items():
            if name != "readings" and getattr(self, name) not in values:
                raise HeadscopeError(
                    f"{name}={getattr(self, name)!r} is not possible", f"use one of {', '.join(values)}"
                )
        object.__setattr__(self, "readings", checked_readings(self.readings))
        if not isinstance(self.language, str) or not re.fullmatch(r"[a-z]{2,3}", self.language):
            raise HeadscopeError(f"language={self.language!r} is not a language code", "use ISO 639: en, de, zh, …")
        if not isinstance(self.window, int) or self.window < 1:
            raise HeadscopeError(f"window={self.window} is not possible", "ask for at least one token")
        first_high_bin(self.tau)
        check_theta(self.theta)

    @property
    def reading(self) -> str:
        """The main reading."""
        return self.readings[0]

    @property
    def of_text(self) -> dict[str, Any]:
        """Those that matter for a single text, as `Model.inspect` takes them."""
        return {each.name: getattr(self, each.name) for each in described(of_text=True)}

    def as_dict(self) -> dict[str, Any]:
        """All of them, for JSON, which has lists alone."""
        return {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()}


class TextChoices(TypedDict, total=False):
    """The choices as keyword arguments, for one text. `window` is None where the model's usual one is meant."""

    window: int | None
    readings: str | Sequence[str]
    scale: Scale
    repeated: Repeated
    special: bool
    language: str


class RunChoices(TextChoices, total=False):
    """The same for a collection of texts."""

    windows: Windows
    tau: float
    theta: float
    seed: int


def make_choices(given: Mapping[str, Any], usual_window: int = DEFAULT_WINDOW) -> Choices:
    """The choices that were named, and the usual ones for the rest; None stands for the usual one, too.

    >>> make_choices({"window": None, "tau": 0.6}, usual_window=64).window
    64
    >>> make_choices({"thau": 0.6})
    Traceback (most recent call last):
    headscope.errors.HeadscopeError: there is no option 'thau'. To fix it: use some of window, readings, …
    """
    names = [each.name for each in fields(Choices)]
    unknown = next((name for name in given if name not in names), None)
    if unknown is not None:
        raise HeadscopeError(f"there is no option {unknown!r}", f"use some of {', '.join(names)}")
    named = {name: value for name, value in given.items() if value is not None}
    return Choices(**({"window": usual_window} | named))


@dataclass(frozen=True, slots=True)
class Choice:
    """One choice, described for whoever shows it: a flag, a form field, a row of the reference."""

    name: str
    kind: type  # int, float, bool or str
    default: Any
    allowed: tuple[str, ...]  # empty where any value of the kind may do
    several: bool  # whether more than one may be named
    help: str
    of_text: bool
    label: str


def described(of_text: bool | None = None) -> list[Choice]:
    """Every choice, or only those that matter for a single text.

    >>> [choice.name for choice in described(of_text=True)]
    ['window', 'readings', 'scale', 'repeated', 'special', 'language']
    """
    allowed, hints = allowed_values(), get_type_hints(Choices)
    return [
        Choice(
            each.name,
            str if each.name in allowed else hints[each.name],
            each.default,
            allowed.get(each.name, ()),
            isinstance(each.default, tuple),
            each.metadata["help"],
            each.metadata["of_text"],
            each.metadata["label"] or each.name,
        )
        for each in fields(Choices)
        if of_text is None or each.metadata["of_text"] == of_text
    ]


def allowed_values() -> dict[str, tuple[str, ...]]:
    """The choices among a few words, and the words."""
    return {"readings": get_args(Reading), "scale": get_args(Scale), "repeated": get_args(Repeated),
            "windows": get_args(Windows)}  # fmt: skip


def checked_readings(named: str | Sequence[str]) -> tuple[Any, ...]:
    """Readings as they were named, each once; the first is the main one.

    >>> checked_readings("cosine")
    ('cosine',)
    """
    each = (named,) if isinstance(named, str) else tuple(dict.fromkeys(named))
    known = get_args(Reading)
    unknown = next((one for one in each if one not in known), None)
    if unknown is not None or not each:
        raise HeadscopeError(f"readings={unknown!r} is not possible", f"use some of {', '.join(known)}")
    return each


def first_high_bin(tau: float) -> int:
    """The lowest bin that is high at τ, which must be a multiple of 0.05.

    >>> first_high_bin(0.5)
    11
    """
    steps = round(tau * (BINS - 1)) if math.isfinite(tau) else 0
    if not 0 < steps < BINS - 1 or abs(tau * (BINS - 1) - steps) > 1e-9:
        raise HeadscopeError(f"τ = {tau} is not possible", "use a multiple of 0.05 from 0.05 to 0.95")
    return steps + 1


def step_of(tau: float) -> int:
    """The place of τ among `THRESHOLDS`.

    >>> THRESHOLDS[step_of(0.5)]
    0.5
    """
    return first_high_bin(tau) - 2


def check_theta(theta: float) -> None:
    """θ is a share of the largest attention received."""
    if not 0 <= theta < 1:
        raise HeadscopeError(f"θ = {theta} is not possible", "use a number from 0 up to but not including 1")


def differences(ours: Mapping[str, Any], theirs: Mapping[str, Any], prefix: str = "") -> list[str]:
    """What differs between two sets of settings, a line each.

    >>> differences({"tau": 0.5, "seed": 0}, {"tau": 0.6, "seed": 0})
    ['tau: 0.5, and 0.6']
    """
    lines: list[str] = []
    for name in sorted({*ours, *theirs}):
        a, b = ours.get(name), theirs.get(name)
        if isinstance(a, Mapping) and isinstance(b, Mapping):
            lines += differences(a, b, f"{prefix}{name}.")
        elif a != b:
            lines.append(f"{prefix}{name}: {_short(a)}, and {_short(b)}")
    return lines


def _short(value: Any) -> Any:
    """Of a hash the first digits are enough."""
    return f"{value[:8]}…" if isinstance(value, str) and re.fullmatch(r"[0-9a-f]{16,64}", value) else value
