"""Printing: tables and paragraphs for a terminal, safe for whatever a token may hold."""

from __future__ import annotations

import math
import sys
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from headscope.windows.text import visible

if TYPE_CHECKING:
    import pandas as pd

WIDE = 110  # columns where the output is not a terminal


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
    """Print a table. Numbers are right-aligned; the columns whose numbers are in `text` hold words."""
    shown = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold", show_edge=False)
    for k, column in enumerate(columns):
        shown.add_column(column, justify="left" if k in text else "right", no_wrap=k not in text, overflow="fold")
    for row in rows:
        shown.add_row(*(Text(cell(value)) for value in row))
    console().print(shown)


def quantities(rows: pd.DataFrame) -> None:
    """Print a table of derived quantities, a column each, under their short names."""
    from headscope.measures.quantities import QUANTITIES

    headings = {"layer": "layer", "head": "head", "focal_token": "focal\ntoken"}
    for name, quantity in QUANTITIES.items():
        headings[name] = "\n".join(quantity.short_label.rsplit(" ", 1))
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
