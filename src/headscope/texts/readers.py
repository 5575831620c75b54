"""Reading records out of files, one at a time: however large a file is, only one line or one block of it is held."""

from __future__ import annotations

import gzip
import io
import json
import lzma
import os
import sys
import zlib
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import lru_cache
from pathlib import Path
from typing import IO, Any, BinaryIO, cast

from headscope.errors import HeadscopeError, brief
from headscope.extras import require
from headscope.texts.encodings import SAMPLE, UTF8, as_utf8, encoding_of
from headscope.texts.finding import TextFile, check_format
from headscope.texts.one import LARGEST_FILE
from headscope.texts.options import Fields, FileOptions
from headscope.texts.records import Bad, Place, Record, from_mapping, to_record
from headscope.texts.remote import RemoteFile
from headscope.texts.tables import LONGEST_LINE, check_columns, read_csv, read_parquet

COMPRESSED = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd", b"\xfd7zXZ\x00": "xz"}

Records = Iterator[Record | Bad]


def read_file(file: TextFile, how: FileOptions) -> Records:
    """The records of one file."""
    return _found_in(file, _read_file(file, how))


def _found_in(file: TextFile, records: Records) -> Records:
    """Bad records with the path of their file."""
    path = str(file.file)
    return (record.found_in(path) if isinstance(record, Bad) else record for record in records)


def _read_file(file: TextFile, how: FileOptions) -> Records:
    format_ = how.format or check_format(file)
    with _readable(file.file):
        if format_ == "parquet":
            yield from read_parquet(file.file, file.name, how.fields)
            return
        with file.file.open("rb") as opened, decompressed(opened, str(file.file)) as stream:
            split = how.split or ("file" if file.in_folder else "line")
            encoding = how.encoding or (found_encoding(file.file) if may_be_other(format_) else UTF8)
            yield from read_stream(
                stream, file.name, how, format_, split, encoding or UTF8, tabs=".tsv" in file.file.name.lower()
            )


def may_be_other(format_: str | None) -> bool:
    """Whether files of a format are looked at for their encoding: JSON is always in UTF-8."""
    return format_ in ("text", "csv")


def found_encoding(file: Path | RemoteFile) -> str | None:
    """The encoding that a file's first bytes are in; None where none fits, or it can be read only once."""
    if not file.is_file():
        return UTF8  # a pipe passes by once
    known = file.stat() if isinstance(file, Path) else None
    return _found_encoding(file, (known.st_size, known.st_mtime_ns) if known else (0, 0))


@lru_cache(maxsize=1 << 16)
def _found_encoding(file: Path | RemoteFile, changed: tuple[int, int]) -> str | None:
    with file.open("rb") as opened, decompressed(opened, str(file)) as stream:
        return encoding_of(stream.read(SAMPLE))


def read_row_group(file: TextFile, how: FileOptions, group: int, first_row: int) -> Records:
    """The records of one row group of a Parquet file."""

    def records() -> Records:
        with _readable(file.file):
            yield from read_parquet(file.file, file.name, how.fields, [group], first_row)

    return _found_in(file, records())


@contextmanager
def _readable(file: Path | RemoteFile) -> Iterator[None]:
    """Whatever keeps a file from being read becomes a sentence."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or brief(error)
        raise HeadscopeError(f"{str(file)!r} cannot be read: {reason}", "check the file and its permissions") from error


def read_stream(
    stream: BinaryIO, name: str, how: FileOptions, format_: str, split: str, encoding: str, tabs: bool = False
) -> Records:
    """The records of an open stream of bytes."""
    if format_ == "parquet":
        raise HeadscopeError("Parquet cannot be read from a stream", "name the file")
    readable = as_utf8(stream, encoding)
    if format_ == "jsonl":
        return _jsonl(readable, name, how.fields)
    if format_ == "csv":
        return read_csv(readable, name, how, tabs=tabs)
    return _plain(readable, name, split, encoding)


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


def _lines(stream: BinaryIO, name: str, encoding: str = UTF8) -> Iterator[tuple[Place, str | Bad]]:
    """Each line's place and text; a line that is too long or not of the encoding is bad."""
    number = 0
    while line := stream.readline(LONGEST_LINE + 1):
        number += 1
        where = Place(name, line=number)
        if len(line) > LONGEST_LINE:
            while line and not line.endswith(b"\n"):
                line = stream.readline(LONGEST_LINE)
            yield where, Bad(where, f"the line has more than {LONGEST_LINE >> 20} MB")
            continue
        try:
            yield where, line.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError as error:
            yield where, Bad(where, f"the line {_not_decoded(line, error, encoding)}")


def _not_decoded(data: bytes, error: UnicodeDecodeError, encoding: str) -> str:
    if encoding != UTF8:
        return f"holds bytes that are no characters of {encoding}"
    return f"is not UTF-8: byte 0x{data[error.start]:02x} does not belong there, and --encoding names another"


def _plain(stream: BinaryIO, name: str, split: str, encoding: str) -> Records:
    if split == "file":
        yield _whole(stream, name, encoding)
        return
    if split == "line":
        for where, line in _lines(stream, name, encoding):
            if isinstance(line, Bad):
                yield line
            elif line.strip():  # an empty line separates; it is not a record
                yield to_record(where, line.strip())
        return
    paragraph: list[str] = []
    start, size = Place(name), 0

    def close() -> Record | Bad:
        if size > LARGEST_FILE:  # its lines were not held
            return Bad(start, f"the paragraph has more than {LARGEST_FILE:,} characters, too much for one text")
        return to_record(start, "".join(paragraph).strip())

    for where, line in _lines(stream, name, encoding):
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


def _whole(stream: BinaryIO, name: str, encoding: str) -> Record | Bad:
    data, where = stream.read(LARGEST_FILE + 1), Place(name)
    if len(data) > LARGEST_FILE:
        return Bad(where, f"the file has more than {LARGEST_FILE // 1000:,} kB, too much for one text")
    try:
        return to_record(where, data.decode("utf-8-sig").strip())
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        return Bad(Place(name, line=line), f"the file {_not_decoded(data, error, encoding)}")


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


def standard_input(how: FileOptions) -> Records:
    """The records of standard input, plain text unless a format is named."""
    try:
        with decompressed(sys.stdin.buffer, "standard input") as stream:
            format_ = how.format or "text"
            yield from read_stream(stream, "stdin", how, format_, how.split or "line", how.encoding or UTF8)
    except OSError as error:
        raise HeadscopeError(f"standard input cannot be read: {brief(error)}", "check what is piped in") from error


def hugging_face(name: str, fields: Fields) -> Records:
    """The records of a data set by name, `NAME[/CONFIG][@SPLIT]`, streamed."""
    require("reading a data set of the hub", "datasets")
    import datasets

    path, _, part = name.partition("@")
    owner_and_name, config = path, None
    if path.count("/") == 2 and not os.path.exists(path):
        owner_and_name, _, config = path.rpartition("/")
    try:
        rows = datasets.load_dataset(owner_and_name, config, split=part or "train", streaming=True)
        if rows.column_names:
            check_columns(name, rows.column_names, fields)
        for number, row in enumerate(rows):
            yield from_mapping(Place(name, row=number), row, fields)
    except HeadscopeError:
        raise
    except Exception as error:  # the hub, the network, the data set's files: whatever went wrong, say it
        raise HeadscopeError(
            f"the data set {name!r} cannot be read: {type(error).__name__}: {brief(error)}",
            "check the name (hf:OWNER/NAME/CONFIG@SPLIT) and the network",
        ) from error
