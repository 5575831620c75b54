"""Texts: the shipped passages, one text from a file or from standard input, and what is not a text at all."""

from __future__ import annotations

import json
import re
import unicodedata
from pathlib import Path
from typing import BinaryIO

from headscope.errors import HeadscopeError
from headscope.texts.encodings import SAMPLE, UTF8, encoding_of, known_encoding
from headscope.texts.finding import converter, is_document

EXAMPLE = "news-4"
LONGEST_TEXT = 4_000_000  # characters: a long book
LARGEST_FILE = 4 * LONGEST_TEXT  # bytes: no character of UTF-8 takes more than four
# Control characters that are not white space, and halves of characters.
NOT_TEXT = re.compile("[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\ud800-\udfff]")


def passages(group: str | None = None) -> list[dict[str, str]]:
    """The shipped passages, each with `id`, `group` and `text`; only one genre's where `group` is named.

    >>> len(passages()), [p["id"] for p in passages("law")][:2]
    (64, ['law-1', 'law-2'])
    """
    lines = (Path(__file__).parents[1] / "data" / "passages.jsonl").read_text(encoding="utf-8").splitlines()
    every = [json.loads(line) for line in lines]
    groups = {passage["group"]: None for passage in every}
    if group is not None and group not in groups:
        raise HeadscopeError(f"no passages are called {group!r}", f"the genres are {', '.join(groups)}")
    return [passage for passage in every if group in (None, passage["group"])]


def example_passage() -> dict[str, str]:
    """The passage that is shown to somebody who has given none.

    >>> example_passage()["id"]
    'news-4'
    """
    return next(passage for passage in passages() if passage["id"] == EXAMPLE)


def read_text(file: str | Path, largest: int | None = LARGEST_FILE, encoding: str | None = None) -> str:
    """The text of a file of at most so many bytes, of any size with None; in UTF-8 unless another encoding is named."""
    file = Path(file)
    try:
        with file.open("rb") as opened:
            return decode(opened, str(file), largest, encoding)
    except FileNotFoundError as error:
        raise HeadscopeError(f"there is no file {str(file)!r}", "check the path") from error
    except IsADirectoryError as error:
        raise HeadscopeError(f"{str(file)!r} is a folder", "name one text file") from error
    except OSError as error:
        raise HeadscopeError(f"{str(file)!r} cannot be read: {error.strerror}", "check its permissions") from error


def decode(stream: BinaryIO, name: str, largest: int | None = LARGEST_FILE, encoding: str | None = None) -> str:
    """The text of a stream of bytes; no more of it is read than a text may be long."""
    data = stream.read(-1 if largest is None else largest + 1)
    if largest is not None and len(data) > largest:
        raise HeadscopeError(
            f"{name!r} is larger than {largest // 1_000_000:,} MB; one window shows a few hundred tokens of a text",
            "cut out the passage you mean, for example: head -c 20000 FILE | headscope inspect",
        )
    own = known_encoding(encoding) or UTF8
    try:
        return data.decode("utf-8-sig" if own == UTF8 else own)
    except UnicodeDecodeError as error:
        found = encoding_of(data[:SAMPLE]) if own == UTF8 else None
        seems = f", it may be {found}" if found not in (None, UTF8) else ""
        byte = f"byte 0x{data[error.start]:02x} at position {error.start} does not belong there"
        remedy = f"name its encoding{seems}: --encoding {found if seems else 'cp1252'}"
        if own != UTF8:
            remedy = "name another encoding, or leave out --encoding"
        if is_document(name):
            remedy = f"take its text out first: {converter(name)}"
        raise HeadscopeError(f"{name!r} is not {'UTF-8' if own == UTF8 else own}: {byte}", remedy) from error


def check_text(text: str) -> None:
    r"""Refuse what is not a text: nothing, only white space, control characters, broken Unicode, far too much.

    >>> check_text("fine\n")
    >>> check_text("a\x00b")
    Traceback (most recent call last):
    headscope.errors.HeadscopeError: the text holds the control character U+0000 at position 1. To fix it: ...
    """
    if not text.strip():
        kind = "nothing but white space" if text else "empty"
        raise HeadscopeError(f"the text is {kind}", "give a text with at least one word")
    if len(text) > LONGEST_TEXT:
        raise HeadscopeError(
            f"the text has {len(text):,} characters, and {LONGEST_TEXT:,} is the most",
            "cut it up, into chapters say; a plain file is cut with --split paragraph",
        )
    check_characters(text)


def check_characters(text: str) -> None:
    """Refuse control characters and broken Unicode; a text may be empty, and as long as it likes."""
    match = NOT_TEXT.search(text)
    if match:
        character = match.group()
        kind = "control character" if unicodedata.category(character) == "Cc" else "half a character,"
        raise HeadscopeError(
            f"the text holds the {kind} U+{ord(character):04X} at position {match.start()}",
            "it may be a binary file or wrongly decoded; remove the character if it is neither",
        )
