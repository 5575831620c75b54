"""A record: one text with its name and group; and what stands in its place where there is none."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from headscope.errors import HeadscopeError
from headscope.texts.one import check_text
from headscope.texts.options import Fields

LONGEST_NAME = 200  # characters of an id or a group that are kept
UNDECODED = re.compile("[\udc80-\udcff]")  # what stands for bytes that are not UTF-8
NAMED = 5  # bad records that are named one by one
MOST_KEPT = 100_000  # bad records that are written down


@dataclass(frozen=True, slots=True)
class Record:
    """One text of a collection. `group` is empty where texts have none, and so is `cluster`.

    Texts of one cluster are not independent of each other: passages of one article, say.
    """

    id: str
    text: str
    group: str = ""
    cluster: str = ""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a record stands: a file, and a line or a row of it.

    >>> str(Place("a.txt", line=3)), str(Place("b.csv", line=9, row=4)), str(Place("c.txt"))
    ('a.txt:3', 'b.csv:row 4', 'c.txt')
    """

    file: str
    line: int | None = None
    row: int | None = None
    path: str = ""  # of the file, where `file` is but its name

    def __str__(self) -> str:
        if self.row is not None:
            return f"{self.file}:row {self.row}"
        return self.file if self.line is None else f"{self.file}:{self.line}"


@dataclass(frozen=True, slots=True)
class Bad:
    """A record without a usable text: where it stands and what is wrong with it."""

    where: Place | str
    why: str

    def __str__(self) -> str:
        return storable(f"{self.where}: {self.why}", 400)

    def found_in(self, path: str) -> Bad:
        """The same with the path of its file."""
        return replace(self, where=replace(self.where, path=path)) if isinstance(self.where, Place) else self

    def as_dict(self) -> dict[str, Any]:
        """For JSON: the file, the line, the row, as far as there are any.

        >>> Bad(Place("a.txt", line=3), "the text is empty").as_dict()
        {'file': 'a.txt', 'line': 3, 'why': 'the text is empty'}
        """
        place = self.where
        known: dict[str, Any] = {"where": place}
        if isinstance(place, Place):
            known = {"file": place.path or place.file, "line": place.line, "row": place.row}
        told = {name: value for name, value in known.items() if value is not None}
        return {name: storable(value, 400) if isinstance(value, str) else value for name, value in told.items()} | {
            "why": storable(self.why, 400)
        }


@dataclass(slots=True)
class BadRecords:
    """How many records were bad, the first of them, and all of them, as far as they fit into memory.

    >>> bad = BadRecords()
    >>> bad.add(Bad("line 3", "the text is empty"))
    >>> bad.number, bad.first
    (1, ['line 3: the text is empty'])
    """

    number: int = 0
    first: list[str] = field(default_factory=list)
    kept: list[dict[str, Any]] = field(default_factory=list)

    def add(self, bad: Bad) -> None:
        """Count one."""
        self.number += 1
        if len(self.kept) < MOST_KEPT:
            self.kept.append(bad.as_dict())
        if len(self.first) < NAMED:
            self.first.append(str(bad))

    def extend(self, other: BadRecords) -> None:
        """Count those of another part of the collection, after these."""
        self.number += other.number
        self.first = [*self.first, *other.first][:NAMED]
        self.kept += other.kept[: MOST_KEPT - len(self.kept)]


def to_record(where: Place | str, text: Any, group: Any = "", id: Any = None, cluster: Any = "") -> Record | Bad:
    """A record if the text is one.

    >>> to_record("line 3", "It rains.").id
    'line 3'
    >>> print(to_record("line 4", 7))
    line 4: the text is not a string but int
    """
    if not isinstance(text, str):
        return Bad(where, f"the text is not a string but {'missing' if text is None else type(text).__name__}")
    for what, value in (("group", group), ("cluster", cluster)):
        if not isinstance(value, (str, int)) or isinstance(value, bool):
            return Bad(where, f"the {what} is not a string but {'missing' if value is None else type(value).__name__}")
    if UNDECODED.search(text, 0, 1000):
        return Bad(where, "the text is not UTF-8")
    try:
        check_text(text)
    except HeadscopeError as error:
        return Bad(where, error.problem)
    name = str(id) if isinstance(id, (str, int)) and str(id).strip() else str(where)
    return Record(storable(name), text, storable(str(group)), told_apart(str(cluster)))


def from_mapping(where: Place | str, row: Mapping[str, Any], fields: Fields) -> Record | Bad:
    """A record from named values, as JSON, CSV and Parquet have them.

    >>> print(from_mapping("line 1", {"body": "It rains."}, Fields()))
    line 1: there is no field 'text' (it has: body)
    """
    for name in fields.needed.values():
        if name not in row:
            names = ", ".join(str(key)[:40] for key in list(row)[:12]) or "none"
            return Bad(where, f"there is no field {name!r} (it has: {names})")
    group, cluster = (row[name] if name is not None else "" for name in (fields.group, fields.cluster))
    return to_record(where, row[fields.text], group, row.get(fields.id), cluster)


def from_item(where: Place | str, item: Any, fields: Fields) -> Record | Bad:
    """A record from whatever a Python iterable yields: a string, (id, text), (id, text, group), a mapping.

    >>> from_item("item 0", ("a", "It rains.", "weather"), Fields())
    Record(id='a', text='It rains.', group='weather', cluster='')
    """
    if isinstance(item, Record):
        return to_record(where, item.text, item.group, item.id, item.cluster)
    if isinstance(item, str):
        return to_record(where, item)
    if isinstance(item, Mapping):
        return from_mapping(where, item, fields)
    if isinstance(item, Sequence) and not isinstance(item, (bytes, bytearray)) and len(item) in (2, 3):
        return to_record(where, item[1], item[2] if len(item) == 3 else "", item[0])
    return Bad(where, f"{type(item).__name__} is not a text: give strings, (id, text, group) or mappings")


def told_apart(name: str) -> str:
    """A storable name; of one that is too long, addresses of pages for instance, the end becomes a hash of it.

    >>> told_apart("x" * 200 + "a") == told_apart("x" * 200 + "b")
    False
    """
    if len(name) <= LONGEST_NAME:
        return storable(name)
    end = hashlib.sha256(name.encode("utf-8", "replace")).hexdigest()[:16]
    return f"{storable(name, LONGEST_NAME - len(end) - 1)}…{end}"


def storable(name: str, most: int = LONGEST_NAME) -> str:
    """A name that can be written to any file: no halves of characters, no NUL, not endless."""
    return name.encode("utf-8", "replace").decode("utf-8").replace("\x00", "␀")[:most]
