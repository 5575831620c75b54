"""Records out of tables: CSV, whose delimiter and header are found where they are not named, and Parquet."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from headscope.errors import HeadscopeError, brief
from headscope.texts.options import Fields, FileOptions
from headscope.texts.records import Bad, Place, Record, from_mapping
from headscope.texts.remote import RemoteFile

LONGEST_LINE = 16 << 20  # bytes; a record may hold much beside its text
BLOCK = 256  # rows of a Parquet file held at once
DELIMITERS = (",", ";", "\t", "|")
LOOKED_AT = 20  # lines, for the delimiter and the header
LONGEST_NAME = 60  # characters of a column's name: what is longer is a text

Records = Iterator[Record | Bad]


def read_csv(stream: BinaryIO, name: str, how: FileOptions, *, tabs: bool = False) -> Records:
    """The records of CSV in UTF-8."""
    csv.field_size_limit(LONGEST_LINE)  # of this process; cells may be whole documents
    lines = _decoded(stream)
    first = [line for _, line in zip(range(LOOKED_AT), lines, strict=False)]
    delimiter = how.delimiter or ("\t" if tabs else find_delimiter(first, how.fields))

    def every() -> Iterator[str]:
        yield from first
        yield from lines

    reader = csv.reader(every(), delimiter=delimiter)
    try:
        top = next(reader, [])
    except csv.Error as error:
        raise HeadscopeError(f"{name!r} is not CSV: {brief(error)}", "check the file, or name its format") from error
    named = has_header(top, how.fields) if how.header is None else how.header
    columns = [cell.strip() for cell in top] if named else [str(k + 1) for k in range(len(top))]
    fields = _of_columns(name, columns, how.fields, named)
    rows = _rows(reader, None if named else top)
    for number, (line, row) in enumerate(rows, 1):
        where = Place(name, line=line, row=number)
        if isinstance(row, str):
            yield Bad(where, row)
        else:
            cells = dict(
                zip(columns, row, strict=False)
            )  # what a short row lacks is missing, what a long one has is not read
            yield from_mapping(where, dict.fromkeys(columns) | cells, fields)


def _rows(reader: Any, first: list[str] | None) -> Iterator[tuple[int, list[str] | str]]:
    """Each row with the line that it begins in, or why it cannot be read; empty lines are none."""
    if first:
        yield 1, first
    while True:
        line = reader.line_num + 1
        try:
            row = next(reader, None)
        except csv.Error as error:
            yield line, f"the row cannot be read: {brief(error)}"
            continue
        if row is None:
            return
        if row:
            yield line, row


def _decoded(stream: BinaryIO) -> Iterator[str]:
    first = True
    while line := stream.readline(LONGEST_LINE):  # a longer one is cut, and is not a row then
        yield line.decode("utf-8-sig" if first else "utf-8", "surrogateescape")
        first = False


def find_delimiter(lines: list[str], fields: Fields) -> str:
    r"""What parts the cells: what makes a header of the first line, or else as many cells of every line.

    >>> find_delimiter(["id;text\n", "1;One, two.\n"], Fields()), find_delimiter(["a\tb\n", "c\td\n"], Fields())
    (';', '\t')
    """
    best, most = ",", 1
    for mark in DELIMITERS:
        try:
            rows = list(csv.reader(lines, delimiter=mark))[: max(1, len(lines) - 1)]  # the last one may go on
        except csv.Error:
            continue
        if rows and set(fields.needed.values()) <= {cell.strip() for cell in rows[0]} and len(rows[0]) > 1:
            return mark
        sizes = {len(row) for row in rows if row}
        if len(sizes) == 1 and max(sizes) > most:
            best, most = mark, max(sizes)
    return best


def has_header(row: list[str], fields: Fields) -> bool:
    """Whether a first row names columns: it has a field that is asked for, or its cells are all short and different.

    >>> has_header(["id", "body"], Fields()), has_header(["1", "It rains. It pours."], Fields())
    (True, False)
    """
    cells = [cell.strip() for cell in row]
    if any(name in cells for name in fields.needed.values()):
        return True
    names = all(cell and len(cell) <= LONGEST_NAME and not cell.isdigit() and ". " not in cell for cell in cells)
    return names and len(set(cells)) == len(cells) and not any(cell.endswith((".", "!", "?")) for cell in cells)


def _of_columns(name: str, columns: list[str], fields: Fields, named: bool) -> Fields:
    """The fields by the columns that there are; without a header a single column is the text."""
    if not named and len(columns) == 1 and fields.text == "text":
        return Fields("1", fields.group, fields.id, fields.cluster)
    if not named and fields.text not in columns:
        raise HeadscopeError(
            f"{name!r} has no header: its first row is not one of names",
            f"name the column of the text by its number, --text-field 1 to {len(columns)}, or say --header",
        )
    check_columns(name, columns, fields, ", or --no-header where the first row is a text" if named else "")
    return fields


def check_columns(name: str, columns: list[str], fields: Fields, more: str = "") -> None:
    """A table without the column is one mistake, not one in every row."""
    for option, field in fields.needed.items():
        if field not in columns:
            raise HeadscopeError(
                f"{name!r} has no column {field!r}",
                f"name one with {option}: {', '.join(str(each)[:60] for each in columns[:20]) or 'it has none'}{more}",
            )


# ---------------------------------------------------------------------- Parquet


def read_parquet(
    file: Path | RemoteFile, name: str, fields: Fields, groups: list[int] | None = None, first: int = 0
) -> Records:
    """The records of a Parquet file, or of some of its row groups, the first row of which is the file's `first`."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with file.open("rb") as raw, pq.ParquetFile(raw) as opened:
            names = opened.schema_arrow.names
            check_columns(name, names, fields)
            wanted = [each for each in (*fields.needed.values(), fields.id) if each in names]
            number, columns_read = first, list(dict.fromkeys(wanted))
            for block in opened.iter_batches(batch_size=BLOCK, row_groups=groups, columns=columns_read):
                columns = {each: _values(block.column(each)) for each in block.schema.names}
                for row in zip(*columns.values(), strict=True):
                    number += 1
                    yield from_mapping(Place(name, row=number), dict(zip(columns, row, strict=True)), fields)
    except (pa.ArrowException, ValueError, OverflowError) as error:
        raise HeadscopeError(
            f"{str(file)!r} is damaged or not a Parquet file: {brief(error)}", "check the file"
        ) from error


def row_groups(file: Path | RemoteFile) -> list[int]:
    """How many rows each row group of a Parquet file has; none where it cannot be read, which its reader then tells."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with file.open("rb") as raw, pq.ParquetFile(raw) as opened:
            return [opened.metadata.row_group(k).num_rows for k in range(opened.metadata.num_row_groups)]
    except (pa.ArrowException, ValueError, OverflowError, OSError):
        return []


def _values(column: Any) -> list[Any]:
    """A column's values; strings are decoded here, because Arrow does not check that they are UTF-8."""
    import pyarrow as pa

    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        raw = column.view(pa.binary() if pa.types.is_string(column.type) else pa.large_binary())
        return [None if v is None else v.decode("utf-8", "surrogateescape") for v in raw.to_pylist()]
    return list(column.to_pylist())
