"""The viewer: one page, written once, shown by a local server, in a single file and in notebooks."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headscope.extras import require

if TYPE_CHECKING:
    from headscope.inspection import Inspection
    from headscope.result import Result
    from headscope.view.desk import Desk


def show_inspection(inspection: Inspection, layer: int | None, head: int | None, tau: float) -> Any:
    """An inspection as a notebook's widget."""
    from headscope.choices import first_high_bin

    require("the view in a notebook", "anywidget")
    desk = _with(inspection, layer, head)
    desk.state["tau"] = first_high_bin(tau) - 1
    return _viewer(desk)


def save_inspection(
    inspection: Inspection,
    out: str | Path,
    layer: int | None,
    head: int | None,
    readings: str | Sequence[str] | None,
) -> Path:
    """An inspection as one HTML file; `readings` are in it, else those of the inspection's choices."""
    from headscope.choices import checked_readings
    from headscope.view.single import write_html

    desk = _with(inspection, layer, head)
    desk.readings = checked_readings(inspection.choices.readings if readings is None else readings)
    for name in desk.readings:
        inspection.read_as(name)  # so that one which this text does not have is refused before anything is written
    return write_html(desk, out)


def show_result(result: Result, controls: Sequence[Result]) -> Any:
    """A result as a notebook's widget."""
    require("the view in a notebook", "anywidget")
    from headscope.view.desk import Desk
    from headscope.view.run_data import RunData

    return _viewer(Desk(run_data=RunData(result, list(controls))))


def _with(inspection: Inspection, layer: int | None, head: int | None) -> Desk:
    from headscope.view.desk import Desk

    desk = Desk()
    desk.add(inspection)
    desk.state |= first_look(inspection, layer, head)
    return desk


def first_look(inspection: Inspection, layer: int | None, head: int | None) -> dict[str, Any]:
    """Where the view begins: at the head that is named, or at one that gathers round a token."""
    from headscope.inspection.highlights import telling_head

    if layer is not None or head is not None:
        inspection.check_head(inspection.captured.layers[-1] if layer is None else layer, head or 0)
    if layer is None or head is None:
        layer, telling = telling_head(inspection, layer)
        head = telling if head is None else head
    return {"layer": layer, "head": head}


def _viewer(desk: Desk) -> Any:
    from headscope.view.widget import Viewer

    return Viewer(desk)
