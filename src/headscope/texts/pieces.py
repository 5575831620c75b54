"""Pieces of a collection that can be read by themselves: a file, or one row group of a Parquet file.

Whoever has a piece reads it without anybody in front: looking through a collection and reading its shards can be done
by many at once. What is found in pieces is put together in their order, and is what one reader would have found.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from headscope.texts import readers
from headscope.texts.encodings import UTF8
from headscope.texts.finding import TextFile, format_of
from headscope.texts.options import FileOptions
from headscope.texts.records import Bad, BadRecords, Record
from headscope.texts.tables import row_groups
from headscope.texts.text_hash import TextHash, hash_of, short_hash

AT_ONCE = 16  # Parquet files whose row groups are looked up at the same time


@dataclass(frozen=True, slots=True)
class Piece:
    """A file, or a row group of one, and how its records are read."""

    file: TextFile
    how: FileOptions
    row_group: int | None = None
    first_row: int = 0

    def records(self) -> Iterator[Record | Bad]:
        """Its records, bad ones among them."""
        if self.row_group is not None:
            return readers.read_row_group(self.file, self.how, self.row_group, self.first_row)
        return readers.read_file(self.file, self.how)

    @property
    def other_encoding(self) -> str:
        """The encoding that the file was found to be in, where that is neither named nor UTF-8."""
        if self.how.encoding or not readers.may_be_other(self.how.format or format_of(self.file.file)):
            return ""
        found = readers.found_encoding(self.file.file)
        return "" if found in (None, UTF8) else str(found)


def pieces_of(files: Sequence[TextFile], how: FileOptions) -> list[Piece]:
    """The pieces of these files, in their order."""

    def of_file(file: TextFile) -> list[Piece]:
        rows = row_groups(file.file) if (how.format or format_of(file.file)) == "parquet" else []
        if len(rows) < 2:
            return [Piece(file, how)]
        begins = [sum(rows[:number]) for number in range(len(rows))]
        return [Piece(file, how, number, begin) for number, begin in enumerate(begins)]

    with ThreadPoolExecutor(AT_ONCE) as threads:
        return [piece for pieces in threads.map(of_file, files) for piece in pieces]


@dataclass(slots=True)
class PieceSurvey:
    """What a look through a piece has shown: its texts as runs of one group and one cluster."""

    runs: list[tuple[str, str, int]] = field(default_factory=list)  # group, cluster, texts that follow each other
    bad: BadRecords = field(default_factory=BadRecords)
    hash: TextHash = field(default_factory=TextHash)
    each: array[int] = field(default_factory=lambda: array("Q"))  # a hash of each text, to tell those that come again
    encoding: str = ""  # that its file was found to be in, where it is not UTF-8

    @property
    def texts(self) -> int:
        """How many texts it has."""
        return self.hash.number


def survey_records(records: Iterable[Record | Bad]) -> PieceSurvey:
    """Look through records.

    >>> survey_records([Record("a", "One."), Record("b", "Two."), Bad("c", "empty"), Record("d", "Three.", "x")]).runs
    [('', '', 2), ('x', '', 1)]
    """
    survey = PieceSurvey()
    for record in records:
        if isinstance(record, Bad):
            survey.bad.add(record)
            continue
        survey.hash.add(hash_of(record))
        survey.each.append(short_hash(record.text))
        last = survey.runs[-1] if survey.runs else None
        if last is not None and last[:2] == (record.group, record.cluster):
            survey.runs[-1] = (record.group, record.cluster, last[2] + 1)
        else:
            survey.runs.append((record.group, record.cluster, 1))
    return survey


def survey_piece(piece: Piece) -> PieceSurvey:
    """Look through a piece."""
    survey = survey_records(piece.records())
    survey.encoding = piece.other_encoding
    return survey


def survey_pieces(pieces: Sequence[Piece], on_progress: Callable[[int], None] | None = None) -> list[PieceSurvey]:
    """Look through one piece after the other; told how many texts there are so far."""
    surveys: list[PieceSurvey] = []
    texts = 0
    for piece in pieces:
        surveys.append(survey_piece(piece))
        texts += surveys[-1].texts
        if on_progress is not None:
            on_progress(texts)
    return surveys


Place = tuple[int, int]  # a piece, and a text of it, both from 0


class PieceReader:
    """Reads texts by their places. It goes on from where it is, and begins a piece again only to go back."""

    def __init__(self) -> None:
        self._piece: Piece | None = None
        self._texts: Iterator[Record] = iter(())
        self._next = 0

    def read(self, pieces: Sequence[Piece], first: int, last: int) -> Iterator[Record]:
        """The texts from number `first` of the first piece to number `last` of the last one."""
        for place, piece in enumerate(pieces):
            begin = first if place == 0 else 0
            end = last if place == len(pieces) - 1 else None
            if piece != self._piece or begin < self._next:
                self._piece, self._next = piece, 0
                self._texts = (record for record in piece.records() if isinstance(record, Record))
            while end is None or self._next <= end:
                record = next(self._texts, None)
                if record is None:
                    break
                self._next += 1
                if self._next > begin:
                    yield record
