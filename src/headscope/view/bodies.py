"""What the page sends to the server: a text to read, what goes into a file, what a phone is to show."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, create_model

from headscope.choices import Choice, Reading, Stack, described

LONGEST_TYPED = 100_000  # characters of a text that is sent by the page
LONGEST_ADDRESS = 40_000  # characters of what is looked at, as the page writes it into its own address
LONGEST_IN_QR = 1_500  # … and of what a phone's camera still reads


class TextRequest(BaseModel):
    """A text to read, or with `again` one that was read already; what is left out is as the viewer was started."""

    model_config = ConfigDict(extra="forbid")

    text: str = Field("", max_length=LONGEST_TYPED)
    again: str | None = Field(
        None, pattern="^t[0-9a-f]{20}$", description="the id of a text: its other window or stack"
    )
    pair: str | None = Field(None, max_length=LONGEST_TYPED)
    stack: Stack | None = None
    start: int | None = Field(None, ge=0, le=10_000_000)


LIMITS: dict[str, dict[str, Any]] = {"window": {"ge": 1, "le": 4096}, "language": {"pattern": "^[a-z]{2,3}$"}}


def _field(choice: Choice) -> Any:
    """A choice of the method as a field of the request."""
    kind: Any = Literal[choice.allowed] if choice.allowed else choice.kind
    if choice.several:
        kind = Annotated[list[kind], Field(min_length=1, max_length=len(choice.allowed))]
    return (kind | None, Field(None, description=choice.help, **LIMITS.get(choice.name, {})))


# The text together with the method's choices, which are declared elsewhere.
InspectRequest: Any = create_model(
    "InspectRequest", __base__=TextRequest, **{c.name: _field(c) for c in described(of_text=True)}
)


class SaveRequest(BaseModel):
    """What goes into a file: texts that were read, in these readings, or the run; and what it shows at first."""

    model_config = ConfigDict(extra="forbid")

    texts: list[Annotated[str, Field(pattern="^t[0-9a-f]{20}$")]] = Field([], max_length=2)
    readings: list[Reading] = Field([], max_length=4)
    run: bool = False
    stack: Stack | None = Field(None, description="of the run; left out, as the viewer was started")
    address: str = Field("", max_length=LONGEST_ADDRESS)


class PhoneRequest(BaseModel):
    """What a phone is to show, as the page writes it into its own address."""

    model_config = ConfigDict(extra="forbid")

    address: str = Field("", max_length=LONGEST_IN_QR)
