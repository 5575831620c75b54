"""How files of texts are read: one frozen type that travels with every piece of a collection."""

from __future__ import annotations

from dataclasses import dataclass

from headscope.choices import SPLITS
from headscope.errors import HeadscopeError
from headscope.texts.encodings import known_encoding

FORMATS = {
    "text": (".txt", ".text"),
    "jsonl": (".jsonl", ".ndjson"),
    "csv": (".csv", ".tsv"),
    "parquet": (".parquet", ".pq"),
}


@dataclass(frozen=True, slots=True)
class Fields:
    """What the fields of a record are called; without `group` all texts are of one group, without `cluster` of none."""

    text: str = "text"
    group: str | None = None
    id: str = "id"
    cluster: str | None = None

    @property
    def needed(self) -> dict[str, str]:
        """The fields that every record must have, by the option that names them.

        >>> Fields(cluster="article").needed
        {'--text-field': 'text', '--cluster-field': 'article'}
        """
        named = {"--text-field": self.text, "--group-field": self.group, "--cluster-field": self.cluster}
        return {option: name for option, name in named.items() if name is not None}


@dataclass(frozen=True, slots=True)
class FileOptions:
    """How files are read. None leaves it to what is found.

    >>> FileOptions(delimiter="tab").delimiter
    '\\t'
    >>> FileOptions(encoding="klingon")
    Traceback (most recent call last):
    headscope.errors.HeadscopeError: there is no encoding 'klingon'. To fix it: name one like utf-8, cp1252 or utf-16.
    """

    fields: Fields = Fields()
    split: str | None = None  # what a text is in a plain file; None: a line, or in a folder the file
    format: str | None = None  # None: as the name says
    encoding: str | None = None  # None: UTF-8, or what is found
    delimiter: str | None = None  # of CSV; None: found
    header: bool | None = None  # whether the first row of CSV names the columns; None: found

    def __post_init__(self) -> None:
        if self.split not in (None, *SPLITS):
            raise HeadscopeError(f"split={self.split!r} is not possible", f"use one of {', '.join(SPLITS)}")
        if self.format not in (None, *FORMATS):
            raise HeadscopeError(f"format={self.format!r} is not possible", f"use one of {', '.join(FORMATS)}")
        if self.delimiter is not None:
            mark = {"tab": "\t", "\\t": "\t"}.get(self.delimiter, self.delimiter)
            if len(mark) != 1 or mark in '"\r\n':
                raise HeadscopeError(
                    f"delimiter={self.delimiter!r} is not possible", "give one character, for example ; or tab"
                )
            object.__setattr__(self, "delimiter", mark)
        object.__setattr__(self, "encoding", known_encoding(self.encoding))

    @property
    def settled(self) -> bool:
        """Whether anything was named at all."""
        return self != FileOptions()
