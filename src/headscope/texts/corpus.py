"""A collection of texts as a stream: where it comes from, how much of it is taken, and what a first look finds.

Files can be read again, so they are looked through once before the work begins: that gives the number of texts, their
groups and a fingerprint. A pipe or a generator passes by only once.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from typing import Any, TypedDict, Unpack

from headscope.errors import HeadscopeError, counted
from headscope.files import is_url
from headscope.texts import readers
from headscope.texts.finding import find_files
from headscope.texts.one import passages
from headscope.texts.options import Fields, FileOptions
from headscope.texts.pieces import Piece, PieceSurvey, pieces_of, survey_pieces, survey_records
from headscope.texts.records import Bad, BadRecords, Record, from_item, storable
from headscope.texts.text_hash import TextHash

MOST_GROUPS = 100
SHIPPED = "passages:"  # stands for the passages that come with headscope
MOST_BAD = 100_000  # kept from a stream that is sampled; so many bad records mean that it is the wrong stream


@dataclass(slots=True)
class Survey:
    """What a look through all texts has shown. `known` is False for a stream that can be read only once."""

    known: bool = True
    texts: int = 0
    largest_cluster: tuple[str, int] = ("", 0)  # its name, and how many texts of a group follow each other in it
    groups: dict[str, int] = field(default_factory=dict)
    bad_records: BadRecords = field(default_factory=BadRecords)
    fingerprint: str = ""
    pieces: tuple[PieceSurvey, ...] = ()
    duplicates: int = 0  # texts that came before, word for word
    encodings: dict[str, int] = field(default_factory=dict)  # files that are not UTF-8, by what they were found to be

    @property
    def bad(self) -> int:
        """How many records were bad."""
        return self.bad_records.number

    @property
    def first_bad(self) -> list[str]:
        """The first of them, and what is wrong with them."""
        return self.bad_records.first

    @property
    def notes(self) -> list[str]:
        """What is worth knowing of the texts before they are read."""
        notes = []
        if self.encodings:
            files, listed = sum(self.encodings.values()), ", ".join(f"{n} ({k:,})" for n, k in self.encodings.items())
            are = "file is not UTF-8 and is" if files == 1 else "files are not UTF-8 and are"
            seem = "it seems" if files == 1 else "they seem"
            notes.append(f"{files:,} {are} read as what {seem} to be: {listed}; --encoding names another")
        if self.duplicates:
            notes.append(f"{self.duplicates:,} of {self.texts:,} texts came before, word for word, and count again")
        return notes

    @property
    def clustered(self) -> bool:
        """Whether any text is of a cluster."""
        return self.largest_cluster[1] > 0

    def shards(self, size: int) -> int | None:
        """How many shards of `size` texts there will be, fewer where clusters are kept together; None: not known.

        >>> Survey(texts=7, groups={"law": 5, "news": 2}).shards(2)
        4
        """
        return sum(-(-number // size) for number in self.groups.values()) if self.known else None


class Corpus:
    """A stream of records. `repeatable` tells whether it can be read more than once, always the same."""

    def __init__(
        self,
        read: Callable[[], Iterator[Record | Bad]],
        *,
        repeatable: bool,
        name: str,
        limit: int | None = None,
        sample: int | None = None,
        seed: int = 0,
        pieces: Callable[[], list[Piece]] | None = None,
        note: str = "",
    ) -> None:
        for option, number in (("limit", limit), ("sample", sample)):
            if number is not None and (not isinstance(number, int) or number < 1):
                raise HeadscopeError(f"{option}={number} is not possible", "ask for at least one text")
        self._read, self.repeatable, self.name = read, repeatable, storable(name)
        self.limit, self.sample, self.seed = limit, sample, seed
        self._pieces, self.note = pieces, note  # note: what was passed over where texts were looked for
        self._picked: list[int] | None = None  # which texts the sample takes, once the stream has been looked through

    @cached_property
    def pieces(self) -> list[Piece] | None:
        """What can be read by itself, where all texts of files are taken; otherwise None."""
        whole = self._pieces is not None and self.repeatable and self.limit is None and self.sample is None
        return self._pieces() if whole and self._pieces is not None else None

    def records(self) -> Iterator[Record | Bad]:
        """The texts that are taken, and the bad records met on the way."""
        if self.sample is None:
            return self._limited()
        if self._picked is None and not self.repeatable:
            return iter(self._reservoir(keep=True)[1])
        if self._picked is None:
            self._picked = self._reservoir(keep=False)[0]
        return self._sampled(self._picked)

    def first(self, number: int) -> Corpus:
        """The same texts, but no more than so many."""
        return Corpus(
            self.records, repeatable=self.repeatable, name=f"the first {number:,} of {self.name}", limit=number
        )

    def _narrowed(self, how: FileOptions, limit: int | None, sample: int | None, seed: int) -> Corpus:
        """The same texts, or fewer of them; how they are read was settled when they were opened."""
        if how.settled:
            raise HeadscopeError(
                f"{self.name} is open already, so its fields and format cannot be named any more",
                "name them where the texts are opened: open_texts(source, text_field=…, group_field=…)",
            )
        if limit is None and sample is None:
            return self
        return Corpus(
            self.records, repeatable=self.repeatable, name=self.name, limit=limit, sample=sample, seed=seed,
            note=self.note,
        )  # fmt: skip

    def _limited(self) -> Iterator[Record | Bad]:
        taken = 0
        for record in self._read():
            yield record
            taken += isinstance(record, Record)
            if taken == self.limit:
                return

    def _reservoir(self, keep: bool) -> tuple[list[int], list[Record | Bad]]:
        """A fair sample of the stream without knowing its length: which texts, and the texts if they must be kept."""
        draw, size = random.Random(self.seed), self.sample or 0
        reservoir: list[tuple[int, Record | None]] = []
        bad: list[Record | Bad] = []
        number = 0
        for record in self._limited():
            if isinstance(record, Bad):
                if keep:
                    bad.append(record)
                    if len(bad) > MOST_BAD:
                        raise HeadscopeError(f"more than {MOST_BAD:,} bad records, {bad[0]}", "name the right field")
                continue
            entry = (number, record if keep else None)
            if number < size:
                reservoir.append(entry)
            elif (place := draw.randrange(number + 1)) < size:
                reservoir[place] = entry
            number += 1
        reservoir.sort(key=lambda pair: pair[0])
        return [n for n, _ in reservoir], bad + [record for _, record in reservoir if record is not None]

    def _sampled(self, picked: list[int]) -> Iterator[Record | Bad]:
        wanted = iter(picked)
        following, number = next(wanted, None), 0
        for record in self._limited():
            if isinstance(record, Bad):
                yield record
                continue
            if number == following:
                yield record
                following = next(wanted, None)
            number += 1

    def check_any(self) -> None:
        """Refuse what holds no text at all, before anything that takes long is done for it. Streams pass only once."""
        if not self.repeatable:
            return
        bad = BadRecords()
        for record in self._limited():
            if isinstance(record, Record):
                return
            bad.add(record)
        raise no_texts(self.name, bad.number, bad.first)

    def survey(self, on_progress: Callable[[int], None] | None = None) -> Survey:
        """Look through all texts, where that is possible: how many, of which groups, and a hash of them all."""
        if not self.repeatable:
            return Survey(known=False)
        if self.pieces is not None:
            return survey_of(survey_pieces(self.pieces, on_progress))
        return survey_of([survey_records(_counted(self.records(), on_progress))])


def _counted(records: Iterator[Record | Bad], on_progress: Callable[[int], None] | None) -> Iterator[Record | Bad]:
    """Tells how many texts have gone by, now and then."""
    texts = 0
    for record in records:
        yield record
        texts += isinstance(record, Record)
        if on_progress is not None and texts % 1000 == 0 and isinstance(record, Record):
            on_progress(texts)


def survey_of(pieces: Sequence[PieceSurvey]) -> Survey:
    """What is known of a collection from looks through its pieces, in their order."""
    survey, hash_ = Survey(pieces=tuple(pieces)), TextHash()
    following: dict[str, tuple[str, int]] = {}  # by group: the cluster at hand, and its texts so far
    for piece in pieces:
        hash_.then(piece.hash)
        if piece.encoding:
            survey.encodings[piece.encoding] = survey.encodings.get(piece.encoding, 0) + 1
        survey.bad_records.extend(piece.bad)
        for group, cluster, number in piece.runs:
            survey.groups[group] = survey.groups.get(group, 0) + number
            check_groups(len(survey.groups))
            before, texts = following.get(group, ("", 0))
            following[group] = (cluster, texts + number if cluster == before else number)
            if cluster and following[group][1] > survey.largest_cluster[1]:
                survey.largest_cluster = following[group]
    survey.texts, survey.fingerprint = hash_.number, hash_.hexdigest()
    survey.duplicates = duplicates(pieces)
    return survey


def duplicates(pieces: Sequence[PieceSurvey]) -> int:
    """How many texts came before, word for word."""
    import numpy as np  # here, so that whoever asks for help need not wait for it

    each = [np.frombuffer(piece.each, dtype=np.uint64) for piece in pieces if len(piece.each)]
    if not each:
        return 0
    every = np.sort(np.concatenate(each))
    return int((every[1:] == every[:-1]).sum())


def no_texts(name: str, bad: int, first: Sequence[str]) -> HeadscopeError:
    """What is said where there is no text.

    >>> print(no_texts("a.jsonl", 30, ["line 1: there is no field 'text' (it has: body)"]))
    there are no texts in a.jsonl: 30 bad records, the first at line 1: there is no field 'text' (it has: body). ...
    """
    if not bad:
        return HeadscopeError(f"there are no texts in {name}", "check the input")
    fields = "name the fields that are there with --text-field and --group-field"
    return HeadscopeError(
        f"there are no texts in {name}: {counted(bad, 'bad record')}, the first at {first[0]}",
        fields if "field" in first[0] else "look at these records",
    )


def check_groups(number: int) -> None:
    """Groups are few: a field with a value of its own for every text is the wrong one."""
    if number > MOST_GROUPS:
        raise HeadscopeError(
            f"there are more than {MOST_GROUPS} groups",
            "each group has a result of its own; name a field with few values, or leave the groups out",
        )


class FileReading(TypedDict, total=False):
    """How files of texts are read, as keyword arguments."""

    text_field: str  # field or column of the text
    group_field: str | None  # field or column of the group; groups are kept apart
    cluster_field: str | None  # field or column of the cluster: texts that are not independent of each other
    id_field: str  # field or column of the id
    split: str | None  # what a text is in a plain file: "line", "paragraph" or "file"; None: the file in a folder
    format: str | None  # "text", "jsonl", "csv" or "parquet", where the name does not tell
    encoding: str | None  # of files; None: UTF-8, or what plain files and CSV are found to be in
    delimiter: str | None  # of CSV; None: found
    header: bool | None  # whether the first row of CSV names the columns; None: found


class ReadingOptions(FileReading, total=False):
    """How a collection of texts is read, and how many of them."""

    limit: int | None  # only the first so many texts
    sample: int | None  # so many texts drawn at random


def open_texts(
    source: Any,
    *,
    limit: int | None = None,
    sample: int | None = None,
    seed: int = 0,
    **options: Unpack[FileReading],
) -> Corpus:
    """A stream of texts from files, folders, patterns, or any Python iterable of texts.

    As names, "-" stands for standard input, "hf:NAME" for a data set, "passages:" for the shipped passages. A list of
    strings is a list of texts; a list of `Path` is a list of files. Texts that follow each other with the same value
    in `cluster_field` (passages of one article) are kept together where intervals are made. `ReadingOptions` has the
    other options.

    >>> corpus = open_texts(["It rains.", "", ("two", "It pours.", "wet")])
    >>> [str(record) if isinstance(record, Bad) else record.id for record in corpus.records()]
    ['item 0', 'item 1: the text is empty', 'two']
    >>> corpus.survey().texts
    2
    """
    how = file_options(**options)
    taken: dict[str, Any] = {"limit": limit, "sample": sample, "seed": seed}
    if isinstance(source, Corpus):
        return source._narrowed(how, limit, sample, seed)
    if isinstance(source, (str, os.PathLike)):
        return _from_names([source], how, taken)
    if isinstance(source, (list, tuple)) and source and all(isinstance(s, os.PathLike) for s in source):
        return _from_names(list(source), how, taken)
    if not isinstance(source, Iterable):
        raise HeadscopeError(f"{type(source).__name__} is not a collection of texts", "give a path or an iterable")
    repeatable = not isinstance(source, Iterator)

    def items() -> Iterator[Record | Bad]:
        return (from_item(f"item {number}", item, how.fields) for number, item in enumerate(source))

    kind = type(source).__name__
    article = "an" if kind[0] in "aeiouAEIOU" else "a"
    return Corpus(items, repeatable=repeatable, name=f"{article} {kind} of texts", **taken)


def file_options(
    *, text_field: str = "text", group_field: str | None = None, cluster_field: str | None = None, id_field: str = "id",
    **others: Any,
) -> FileOptions:  # fmt: skip
    """How files are read, from the options' own names."""
    known = FileReading.__annotations__
    unknown = next((name for name in others if name not in known), None)
    if unknown is not None:
        raise HeadscopeError(f"there is no option {unknown!r}", f"use some of {', '.join(known)}")
    return FileOptions(Fields(text_field, group_field, id_field, cluster_field), **others)


def open_paths(names: Iterable[str], **options: Any) -> Corpus:
    """The same for a list of paths, as a command line gives it."""
    from pathlib import Path

    paths = list(names)
    if len(paths) == 1:
        return open_texts(paths[0], **options)
    if any(name in ("-", SHIPPED) or name.startswith("hf:") for name in paths):
        raise HeadscopeError("standard input and data sets are read alone", "name nothing else beside them")
    if any(is_url(name) for name in paths):
        taken = {name: options.pop(name, None) for name in ("limit", "sample")} | {"seed": options.pop("seed", 0)}
        return _from_names(paths, file_options(**options), taken)
    return open_texts([Path(name) for name in paths], **options)


def _shipped_passages(fields: Fields) -> Iterator[Record | Bad]:
    return (from_item(passage["id"], passage, fields) for passage in passages())


def _from_names(names: list[Any], how: FileOptions, options: dict[str, Any]) -> Corpus:
    name, fields = str(names[0]), how.fields
    if name == "-":
        return Corpus(lambda: readers.standard_input(how), repeatable=False, name="standard input", **options)
    if name == SHIPPED:
        return Corpus(lambda: _shipped_passages(fields), repeatable=True, name="the shipped passages", **options)
    if name.startswith("hf:"):
        return Corpus(lambda: readers.hugging_face(name[3:], fields), repeatable=True, name=name, **options)
    found = find_files([str(n) for n in names])
    files = found.files

    def records() -> Iterator[Record | Bad]:
        for file in files:
            yield from readers.read_file(file, how)

    listed = ", ".join(str(f.file) for f in islice(files, 3)) + (
        f" and {len(files) - 3:,} more" if len(files) > 3 else ""
    )
    repeatable = all(each.file.is_file() for each in files)  # a pipe passes by once, whatever its name
    return Corpus(
        records, repeatable=repeatable, name=listed, pieces=lambda: pieces_of(files, how), note=found.note, **options
    )
