"""Reading records out of files, one at a time: however large a file is, only one line or one block of it is held."""

from __future__ import annotations

import csv
import glob
import gzip
import io
import json
import lzma
import os
import sys
import zlib
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import IO, Any, BinaryIO, cast

from headscope.errors import HeadscopeError, brief
from headscope.files import disk_path, is_url
from headscope.texts.one import LARGEST_FILE
from headscope.texts.records import Bad, Fields, Record, from_mapping, to_record
from headscope.texts.remote import RemoteFile, find_remote

FORMATS = {
    "text": (".txt", ".text", ".md"),
    "jsonl": (".jsonl", ".ndjson"),
    "csv": (".csv", ".tsv"),
    "parquet": (".parquet", ".pq"),
}
COMPRESSED = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd", b"\xfd7zXZ\x00": "xz"}
COMPRESSED_SUFFIXES = (".gz", ".zst", ".zstd", ".xz")
SPLITS = ("line", "paragraph", "file")
LONGEST_LINE = 16 << 20  # bytes; a record of JSON may hold much beside its text
LONGEST_PATH = 4000  # characters
BLOCK = 256  # rows of a Parquet file held at once

Records = Iterator[Record | Bad]


def find_files(names: list[str]) -> list[Path | RemoteFile]:
    """The files that paths, folders and patterns stand for, in an order that does not depend on the file system.

    >>> find_files(["nowhere.txt"])
    Traceback (most recent call last):
    headscope.errors.HeadscopeError: there is no file or folder 'nowhere.txt'. To fix it: check the path.
    """
    files: list[Path | RemoteFile] = []
    for name in names:
        if is_url(name):
            files += _found_remote(name)
            continue
        if len(name) > LONGEST_PATH:
            raise HeadscopeError(
                f"{name[:40]!r}… is not a path", "give texts as a list of strings, files by their names"
            )
        name = disk_path(name)
        path = Path(name)
        if os.path.isdir(name):  # pathlib raises where a name is too long to be one
            inside = [file for file in sorted(path.rglob("*")) if file.is_file() and format_of(file)]
            if not inside:
                known = " ".join(suffix for suffixes in FORMATS.values() for suffix in suffixes)
                raise HeadscopeError(f"the folder {name!r} holds no texts", f"it is searched for {known}")
            files += [f for f in inside if not any(part.startswith(".") for part in f.relative_to(path).parts)]
        elif os.path.exists(name):
            files.append(path)
        elif glob.has_magic(name):
            matching = [Path(file) for file in sorted(glob.glob(name, recursive=True)) if os.path.isfile(file)]
            if not matching:
                raise HeadscopeError(f"no file matches {name!r}", "check the pattern")
            files += matching
        else:
            raise HeadscopeError(f"there is no file or folder {name!r}", "check the path")
    return files


def _found_remote(url: str) -> list[RemoteFile]:
    found = find_remote(url)
    if len(found) == 1 and str(found[0]) == url:
        return found  # named itself, whatever it is called
    texts = [file for file in found if format_of(file)]
    if not texts:
        raise HeadscopeError(f"there are no texts at {url!r}", "check the address; the bucket and the region, too")
    return texts


def format_of(file: Path | RemoteFile) -> str | None:
    """What a file's name says it holds.

    >>> format_of(Path("a.jsonl.gz")), format_of(Path("b.TXT")), format_of(Path("c.png"))
    ('jsonl', 'text', None)
    """
    name = file.name.lower()
    for suffix in COMPRESSED_SUFFIXES:
        name = name.removesuffix(suffix)
    for format_, suffixes in FORMATS.items():
        if name.endswith(suffixes):
            return format_
    return None


def read_file(file: Path | RemoteFile, fields: Fields, split: str, format_: str | None) -> Records:
    """The records of one file."""
    format_ = format_ or format_of(file)
    if format_ is None:
        raise HeadscopeError(
            f"{str(file)!r} is not of a known format",
            "name the format: --format text, jsonl, csv or parquet",
        )
    with _readable(file):
        if format_ == "parquet":
            yield from _parquet(file, fields)
            return
        with file.open("rb") as opened, decompressed(opened, str(file)) as stream:
            yield from read_stream(stream, file.name, fields, split, format_, tabs=".tsv" in file.name.lower())


@contextmanager
def _readable(file: Path | RemoteFile) -> Iterator[None]:
    """Whatever keeps a file from being read becomes a sentence."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or brief(error)
        raise HeadscopeError(f"{str(file)!r} cannot be read: {reason}", "check the file and its permissions") from error


def read_stream(stream: BinaryIO, name: str, fields: Fields, split: str, format_: str, tabs: bool = False) -> Records:
    """The records of an open stream of bytes."""
    if format_ == "jsonl":
        return _jsonl(stream, name, fields)
    if format_ == "csv":
        return _csv(stream, name, fields, "\t" if tabs else ",")
    if format_ == "parquet":
        raise HeadscopeError("Parquet cannot be read from a stream", "name the file")
    return _plain(stream, name, split)


@contextmanager
def decompressed(opened: BinaryIO, name: str) -> Iterator[BinaryIO]:
    """The stream itself or what it is a compressed form of, recognised by its first bytes."""
    buffered = opened if isinstance(opened, io.BufferedReader) else io.BufferedReader(cast(io.RawIOBase, opened))
    head = buffered.peek(8)[:8]
    method = next((method for magic, method in COMPRESSED.items() if head.startswith(magic)), None)
    try:
        if method is None:
            yield buffered
        elif method == "gzip":
            with gzip.GzipFile(fileobj=buffered) as stream:
                yield cast(BinaryIO, stream)
        elif method == "xz":
            with lzma.LZMAFile(buffered) as stream:
                yield cast(BinaryIO, stream)
        else:
            with closing(_Zstandard(buffered)) as raw:
                yield io.BufferedReader(raw, 1 << 16)
    except (EOFError, zlib.error, lzma.LZMAError, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:  # the disk's fault, not the file's
            raise
        raise HeadscopeError(f"{name!r} is damaged: {brief(error)}", "fetch or make the file again") from error


class _Zstandard(io.RawIOBase):
    """A zstd stream as a raw file; the decoder is Arrow's, which reads Parquet too."""

    def __init__(self, compressed: IO[bytes]) -> None:
        import pyarrow as pa

        self._stream = pa.CompressedInputStream(pa.PythonFile(compressed, "r"), "zstd")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._stream.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)


# ---------------------------------------------------------------------- the formats of files


def _lines(stream: BinaryIO, name: str) -> Iterator[tuple[str, str | Bad]]:
    """Each line's place and text; a line that is too long or not UTF-8 is bad."""
    number = 0
    while line := stream.readline(LONGEST_LINE + 1):
        number += 1
        where = f"{name}:{number}"
        if len(line) > LONGEST_LINE:
            while line and not line.endswith(b"\n"):
                line = stream.readline(LONGEST_LINE)
            yield where, Bad(where, f"the line has more than {LONGEST_LINE >> 20} MB")
            continue
        try:
            yield where, line.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError as error:
            yield where, Bad(where, f"the line is not UTF-8: byte 0x{line[error.start]:02x} does not belong there")


def _plain(stream: BinaryIO, name: str, split: str) -> Records:
    if split == "file":
        yield _whole(stream, name)
        return
    if split == "line":
        for where, line in _lines(stream, name):
            if isinstance(line, Bad):
                yield line
            elif line.strip():  # an empty line separates; it is not a record
                yield to_record(where, line.strip())
        return
    paragraph: list[str] = []
    start, size = "", 0

    def close() -> Record | Bad:
        if size > LARGEST_FILE:  # its lines were not held
            return Bad(start, f"the paragraph has more than {LARGEST_FILE:,} characters, too much for one text")
        return to_record(start, "".join(paragraph).strip())

    for where, line in _lines(stream, name):
        if isinstance(line, Bad):
            yield line
        elif line.strip():
            start = start if size else where
            size += len(line)
            if size <= LARGEST_FILE:
                paragraph.append(line)
        elif size:
            yield close()
            paragraph, size = [], 0
    if size:
        yield close()


def _whole(stream: BinaryIO, name: str) -> Record | Bad:
    data = stream.read(LARGEST_FILE + 1)
    if len(data) > LARGEST_FILE:
        return Bad(name, f"the file has more than {LARGEST_FILE // 1000:,} kB, too much for one text")
    try:
        return to_record(name, data.decode("utf-8-sig").strip())
    except UnicodeDecodeError as error:
        return Bad(
            name, f"the file is not UTF-8: byte 0x{data[error.start]:02x} at {error.start} does not belong there"
        )


def _jsonl(stream: BinaryIO, name: str, fields: Fields) -> Records:
    for where, line in _lines(stream, name):
        if isinstance(line, Bad):
            yield line
        elif line.strip():
            try:
                row = json.loads(line)
            except (ValueError, RecursionError) as error:
                yield Bad(where, f"the line is not JSON: {brief(error, 80)}")
                continue
            if isinstance(row, str):
                yield to_record(where, row)
            elif isinstance(row, dict):
                yield from_mapping(where, row, fields)
            else:
                yield Bad(where, f"the line holds {type(row).__name__}, not an object")


def _csv(stream: BinaryIO, name: str, fields: Fields, delimiter: str) -> Records:
    def lines() -> Iterator[str]:
        first = True
        while line := stream.readline(LONGEST_LINE):  # a longer one is cut, and is not a row then
            yield line.decode("utf-8-sig" if first else "utf-8", "surrogateescape")
            first = False

    reader = csv.DictReader(lines(), delimiter=delimiter)
    try:
        names = list(reader.fieldnames or [])
    except csv.Error as error:
        raise HeadscopeError(f"{name!r} is not CSV: {brief(error)}", "check the file, or name its format") from error
    check_columns(name, names, fields)
    number = 0
    while True:
        number += 1
        where = f"{name}:row {number}"
        try:
            row = next(reader, None)
        except csv.Error as error:
            yield Bad(where, f"the row cannot be read: {brief(error)}")
            continue
        if row is None:
            return
        yield from_mapping(where, {key: value for key, value in row.items() if isinstance(key, str)}, fields)


def _parquet(file: Path | RemoteFile, fields: Fields, groups: list[int] | None = None, first: int = 0) -> Records:
    """The records of a Parquet file, or of some of its row groups, the first row of which is the file's `first`."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with file.open("rb") as raw, pq.ParquetFile(raw) as opened:
            names = opened.schema_arrow.names
            check_columns(file.name, names, fields)
            wanted = [name for name in (*fields.needed.values(), fields.id) if name in names]
            number, columns_read = first, list(dict.fromkeys(wanted))
            for block in opened.iter_batches(batch_size=BLOCK, row_groups=groups, columns=columns_read):
                columns = {name: _values(block.column(name)) for name in block.schema.names}
                for row in zip(*columns.values(), strict=True):
                    number += 1
                    yield from_mapping(f"{file.name}:row {number}", dict(zip(columns, row, strict=True)), fields)
    except (pa.ArrowException, ValueError, OverflowError) as error:
        raise HeadscopeError(
            f"{str(file)!r} is damaged or not a Parquet file: {brief(error)}", "check the file"
        ) from error


def read_row_group(file: Path | RemoteFile, fields: Fields, group: int, first_row: int) -> Records:
    """The records of one row group of a Parquet file."""
    with _readable(file):
        yield from _parquet(file, fields, [group], first_row)


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


def check_columns(name: str, columns: list[str], fields: Fields) -> None:
    """A table without the column is one mistake, not one in every row."""
    for option, field in fields.needed.items():
        if field not in columns:
            raise HeadscopeError(
                f"{name!r} has no column {field!r}",
                f"name one with {option}: {', '.join(map(str, columns[:20])) or 'it has none'}",
            )


def standard_input(fields: Fields, split: str, format_: str | None) -> Records:
    """The records of standard input, plain text unless `format_` says otherwise."""
    try:
        with decompressed(sys.stdin.buffer, "standard input") as stream:
            yield from read_stream(stream, "stdin", fields, split, format_ or "text")
    except OSError as error:
        raise HeadscopeError(f"standard input cannot be read: {brief(error)}", "check what is piped in") from error


def hugging_face(name: str, fields: Fields) -> Records:
    """The records of a data set by name, `NAME[/CONFIG][@SPLIT]`, streamed."""
    try:
        import datasets
    except ImportError as error:
        raise HeadscopeError("reading data sets needs the package `datasets`", "pip install datasets") from error
    path, _, part = name.partition("@")
    owner_and_name, config = path, None
    if path.count("/") == 2 and not os.path.exists(path):
        owner_and_name, _, config = path.rpartition("/")
    try:
        rows = datasets.load_dataset(owner_and_name, config, split=part or "train", streaming=True)
        if rows.column_names:
            check_columns(name, rows.column_names, fields)
        for number, row in enumerate(rows):
            yield from_mapping(f"{name}:row {number}", row, fields)
    except HeadscopeError:
        raise
    except Exception as error:  # the hub, the network, the data set's files: whatever went wrong, say it
        raise HeadscopeError(
            f"the data set {name!r} cannot be read: {type(error).__name__}: {brief(error)}",
            "check the name (hf:OWNER/NAME/CONFIG@SPLIT) and the network",
        ) from error
