"""Printing: tables and paragraphs for a terminal, safe for whatever a token may hold."""

from __future__ import annotations

import math
import os
import shlex
import shutil
import sys
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from headscope.windows.text import visible

if TYPE_CHECKING:
    import pandas as pd

WIDE = 110  # columns where the output is not a terminal
FOLDED = 24  # columns that words may be folded to


def called() -> str:
    """What this program was started with, for a line to type again: its name where that is found, or its place."""
    program = sys.argv[0]
    name = os.path.basename(program)
    if name == "__main__.py":
        return "python -m headscope"
    return shlex.quote(name if shutil.which(name) else program)


class Terminal(Console):
    """A console that leaves a closed pipe to the command line, where it is not an error."""

    def on_broken_pipe(self) -> None:
        """Called while a BrokenPipeError is being handled."""
        raise


def console(stderr: bool = False) -> Console:
    """A console that wraps to the terminal, or to a fixed width in a pipe; markup in tokens is never interpreted."""
    stream = sys.stderr if stderr else sys.stdout
    return Terminal(file=stream, markup=False, highlight=False, width=None if stream.isatty() else WIDE)


def paragraph(text: str = "", *, style: str = "") -> None:
    """Print a paragraph."""
    console().print(Text(text, style=style))


def bullets(sentences: Iterable[str]) -> None:
    """Print sentences as a list."""
    for sentence in sentences:
        out = console()
        for k, line in enumerate(textwrap.wrap(sentence, out.width - 2)):
            out.print(Text(("  " if k else "• ") + line))


def table(columns: Sequence[str], rows: Iterable[Sequence[Any]], *, text: Sequence[int] = (0,)) -> None:
    """Print a table. Numbers are right-aligned; the columns whose numbers are in `text` hold words.

    A cell may be a rich Text, which keeps its colour. Where the terminal is too narrow for all columns, the table is
    printed in parts that begin with the first column: a number is never cut.
    """
    cells = [[each if isinstance(each, Text) else Text(cell(each)) for each in row] for row in rows]
    out = console()
    widths = [_width(column, [row[k] for row in cells], k in text) for k, column in enumerate(columns)]
    room = 2 if sum(widths) + 2 * (len(widths) - 1) <= out.width else 1
    for n, part in enumerate(parts_of(widths, out.width, room)):
        shown = Table(box=None, pad_edge=False, padding=(0, room, 0, 0), header_style="bold", show_edge=False)
        for k in part:
            words = k in text
            shown.add_column(
                columns[k],
                justify="left" if words else "right",
                no_wrap=not words,
                overflow="fold",
                min_width=widths[k],
            )
        for row in cells:
            shown.add_row(*(row[k] for k in part))
        if n:
            out.print()
        out.print(shown)


def _width(heading: str, cells: Sequence[Text], words: bool) -> int:
    """How wide a column must be; words may be folded."""
    lines = [*heading.split("\n"), *(line for each in cells for line in each.plain.split("\n"))]
    longest = max(map(cell_len, lines), default=0)
    return min(longest, FOLDED) if words else longest


def parts_of(widths: Sequence[int], width: int, room: int) -> list[list[int]]:
    """The columns of a table in parts that fit, each with the first column.

    >>> parts_of([4, 10, 10, 10], 30, 2)
    [[0, 1, 2], [0, 3]]
    """
    parts: list[list[int]] = [[0]]
    for k in range(1, len(widths)):
        if len(parts[-1]) > 1 and sum(widths[i] + room for i in parts[-1]) + widths[k] > width:
            parts.append([0])
        parts[-1].append(k)
    return parts


def quantities(rows: pd.DataFrame) -> None:
    """Print a table of derived quantities, a column each, under their short names."""
    from headscope.measures.quantities import QUANTITIES

    headings = {"layer": "layer", "head": "head", "focal_token": "focal\ntoken"}
    for name, quantity in QUANTITIES.items():
        headings[name] = "\n".join(quantity.short_label.split(" "))
    names = [name for name in rows.columns if name in headings and name != "flat"]
    text = [place for place, name in enumerate(names) if name == "focal_token"]
    table([headings[name] for name in names], rows[names].itertuples(index=False), text=text)


def cell(value: Any) -> str:
    """One value as it stands in a table: a dash for what is not there.

    >>> cell(0.1234), cell(123.4), cell(float("nan")), cell(7), cell(None)
    ('0.12', '123', '–', '7', '–')
    """
    if value is None:
        return "–"
    if isinstance(value, float) or (hasattr(value, "dtype") and value.dtype.kind == "f"):
        number = float(value)
        if math.isnan(number):
            return "–"
        return f"{number:.0f}" if abs(number) >= 100 else f"{number:.2f}"
    return visible(str(value)) if isinstance(value, str) and not value.isprintable() else str(value)


@contextmanager
def working(what: str) -> Iterator[None]:
    """Say what is being done while it takes its time, on a terminal only."""
    err = console(stderr=True)
    if not err.is_terminal:
        yield
        return
    with err.status(what):
        yield
