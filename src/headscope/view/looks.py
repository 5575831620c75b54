"""How the page draws ways of reading and control runs: as the figures do, from the same declarations."""

from __future__ import annotations

from typing import Any

from headscope.figures.colours import CONTROL_DASHES, CONTROL_LABELS, WAYS
from headscope.findings.estimates import AT_TAU

TAU, ATTENTION = "tau", "attention"  # ways to read a quantity that are no readings
Drawn = dict[str, Any]


def ways_drawn() -> dict[str, Drawn]:
    """What a legend calls each way, its marker and its dash; colours are in the style sheet.

    A number of attention alone has a dash of its own, as attention maps do, and no colour of a way: S does not come in.

    >>> ways_drawn()["dot"], ways_drawn()["rows"]["dash"]
    ({'label': 'S by dot', 'marker': 's', 'dash': []}, [5, 2])
    """
    drawn = {
        TAU if way == AT_TAU else way: {"label": line.label, "marker": line.marker, "dash": dash(line.dash)}
        for way, line in WAYS.items()
    }
    return drawn | {ATTENTION: {"label": "attention alone: no S, no τ", "marker": "o", "dash": [5, 2]}}


def control_drawn(kind: str) -> Drawn:
    """What a legend calls a kind of control runs, and its dash."""
    return {"label": CONTROL_LABELS[kind], "dash": dash(CONTROL_DASHES[kind])}


def dash(declared: Any) -> list[float]:
    """A dash as matplotlib has it, in widths of the line; a solid line has none.

    >>> dash((0, (4, 2))), dash("-")
    ([4, 2], [])
    """
    return [] if isinstance(declared, str) else list(declared[1])
