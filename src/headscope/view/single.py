"""The viewer as one file that works from disk: every answer is in it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from headscope.errors import HeadscopeError, counted
from headscope.files import make_folder_for, page_path, write_whole
from headscope.view.desk import Answer, Desk
from headscope.view.page import single_page
from headscope.windows.text import in_a_line

LARGEST = 300_000_000  # bytes of matrices in one file


def write_html(desk: Desk, out: str | Path, *, tell: Callable[[int, int], None] | None = None) -> Path:
    """Write everything on the desk as one HTML file; `tell` hears how many answers are done, of how many."""
    page_path(out)
    check_size(desk)
    target = make_folder_for(out)
    if desk.run_data is not None:
        desk.run_data.finish()
    paths = list(desk.paths())

    def answers() -> Iterator[tuple[str, Answer]]:
        for number, path in enumerate(paths):
            if tell:
                tell(number, len(paths))
            answer = desk.answer(path)
            if path == "about" and isinstance(answer, dict):
                answer = answer | {"can_inspect": False, "example": None}
            elif path == "run" and isinstance(answer, dict):
                answer = answer | {"stacks": [answer["stack"]]}  # the others are not in the file
            yield path, answer

    return write_whole(target, single_page(answers(), f"headscope: {_title(desk)}"))


def check_size(desk: Desk) -> None:
    """Refuse texts whose matrices are too much for one file, before any of it is made."""
    for inspection in desk.texts():
        captured = inspection.captured
        readings = len(desk.readings_of(inspection))
        cells = len(captured.layers) * captured.heads * len(captured.queries) ** 2
        size = round(cells * (4 + 2.5 * readings))  # bytes: A, and for each reading half of S, and bins
        if size > LARGEST:
            raise HeadscopeError(
                f"{counted(len(captured.layers), 'layer')} × {counted(captured.heads, 'head')} of "
                f"{counted(len(captured.queries), 'token')} in {counted(readings, 'reading')} are "
                f"{size / 1e6:,.0f} MB of matrices, too much for one file",
                "take a shorter --window, fewer layers with --layers, or one --reading",
            )


def _title(desk: Desk) -> str:
    if desk.run_data is not None:
        return in_a_line(str(desk.run_data.result.model["name"]))
    return next(
        (in_a_line(inspection.window.texts[0][:60]) for inspection in desk.texts() if inspection.window.texts), "a view"
    )
