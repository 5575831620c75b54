"""Which files are meant: paths, folders, patterns and addresses; and what in a folder is not a text."""

from __future__ import annotations

import glob
import os
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from headscope.errors import HeadscopeError
from headscope.files import disk_path, is_url
from headscope.texts.options import FORMATS
from headscope.texts.remote import RemoteFile, find_remote

COMPRESSED_SUFFIXES = (".gz", ".zst", ".zstd", ".xz")
LONGEST_PATH = 4000  # characters
NAMED = 3  # stray files
PANDOC, PDF, OFFICE = "pandoc {} -t plain --wrap=none -o {}.txt", "pdftotext {} {}.txt", "soffice --convert-to txt {}"
# What holds text among other things, and what takes the text out of it.
CONVERTERS = dict.fromkeys((".md", ".markdown", ".html", ".htm", ".docx", ".odt", ".rtf", ".epub", ".tex"), PANDOC)
CONVERTERS |= {".pdf": PDF, ".doc": OFFICE}


@dataclass(frozen=True, slots=True)
class TextFile:
    """A file of texts, and what it is called where its texts are named: in a folder by the path within it."""

    file: Path | RemoteFile
    name: str
    in_folder: bool = False


@dataclass(slots=True)
class Found:
    """The files that names stand for, and those of folders that are no texts."""

    files: list[TextFile] = field(default_factory=list)
    strays: list[str] = field(default_factory=list)

    @property
    def note(self) -> str:
        """What is said of stray files; nothing where there are none.

        >>> Found([], ["a/b.pdf", "c.pdf", "d.png"]).note
        '3 files that are not texts were skipped (2 .pdf, 1 .png): a/b.pdf, c.pdf, d.png; to have the text of such ...
        """
        if not self.strays:
            return ""
        kinds = Counter(_suffix(name) or "without a suffix" for name in self.strays)
        listed = ", ".join(f"{number:,} {kind}" for kind, number in kinds.most_common(6))
        more = " …" if len(self.strays) > NAMED else ""
        converters = dict.fromkeys(converter(f"FILE{kind}") for kind in kinds if kind in CONVERTERS)
        remedy = f"; to have the text of such files: {'; '.join(converters)}" if converters else ""
        files = "file that is not a text was" if len(self.strays) == 1 else "files that are not texts were"
        return f"{len(self.strays):,} {files} skipped ({listed}): {', '.join(self.strays[:NAMED])}{more}{remedy}"


def is_document(name: str) -> bool:
    """Whether a file's name says that its text must be taken out first.

    >>> is_document("report.PDF"), is_document("notes.txt")
    (True, False)
    """
    return _suffix(name) in CONVERTERS


def converter(name: str) -> str:
    """The command that takes the text out of a file.

    >>> converter("report.pdf"), converter("page.html")
    ('pdftotext report.pdf report.txt', 'pandoc page.html -t plain --wrap=none -o page.txt')
    """
    return CONVERTERS[_suffix(name)].format(name, name[: -len(_suffix(name))])


def find_files(names: list[str]) -> Found:
    """The files that paths, folders and patterns stand for, in an order that does not depend on the file system.

    >>> find_files(["nowhere.txt"])
    Traceback (most recent call last):
    headscope.errors.HeadscopeError: there is no file or folder 'nowhere.txt'. To fix it: check the path.
    """
    found = Found()
    for name in names:
        if is_url(name):
            _find_remote(name, found)
            continue
        if len(name) > LONGEST_PATH:
            raise HeadscopeError(
                f"{name[:40]!r}… is not a path", "give texts as a list of strings, files by their names"
            )
        name = disk_path(name)
        if os.path.isdir(name):  # pathlib raises where a name is too long to be one
            _find_in_folder(name, found)
        elif os.path.exists(name):
            found.files.append(TextFile(Path(name), Path(name).name))
        elif glob.has_magic(name):
            matching = [Path(file) for file in sorted(glob.glob(name, recursive=True)) if os.path.isfile(file)]
            if not matching:
                raise HeadscopeError(f"no file matches {name!r}", "check the pattern")
            found.files += [TextFile(file, file.name) for file in matching]
        else:
            raise HeadscopeError(f"there is no file or folder {name!r}", "check the path")
    return found


def _find_in_folder(name: str, found: Found) -> None:
    folder, here, strays = Path(name), [], []
    for file in sorted(folder.rglob("*")):
        inside = file.relative_to(folder)
        if not file.is_file() or any(part.startswith(".") for part in inside.parts[:-1]):
            continue  # a folder whose name begins with a dot is somebody's own business
        if format_of(file) and not inside.name.startswith("."):
            here.append(TextFile(file, inside.as_posix(), in_folder=True))
        else:
            strays.append(inside.as_posix())
    found.files += here
    found.strays += strays
    if not here:
        raise _no_texts(f"the folder {name!r} holds no texts", strays)


def _find_remote(url: str, found: Found) -> None:
    listed = find_remote(url)
    if len(listed) == 1 and str(listed[0]) == url:
        found.files.append(TextFile(listed[0], listed[0].name))  # named itself, whatever it is called
        return
    prefix, folder = f"{url.rstrip('/')}/", not any(mark in url for mark in "*?[")
    texts = [file for file in listed if format_of(file)]
    strays = [file.url.removeprefix(prefix) for file in listed if not format_of(file)] if folder else []
    if not texts:
        raise _no_texts(f"there are no texts at {url!r}", strays, "check the address; the bucket and the region, too")
    found.files += [
        TextFile(file, file.url.removeprefix(prefix) if folder else file.name, in_folder=folder) for file in texts
    ]
    found.strays += strays


def _no_texts(problem: str, strays: list[str], remedy: str = "") -> HeadscopeError:
    convertible = next((name for name in strays if _suffix(name) in CONVERTERS), None)
    if convertible is not None:
        kind = _suffix(convertible)
        return HeadscopeError(
            f"{problem}; {kind} files, of which it has some, are not read",
            f"take their texts out: {converter(convertible)}",
        )
    known = " ".join(suffix for suffixes in FORMATS.values() for suffix in suffixes)
    return HeadscopeError(problem, remedy or f"it is searched for {known}")


def check_format(file: TextFile) -> str:
    """What a file holds, by its name; or an error that says what to do."""
    format_ = format_of(file.file)
    if format_ is not None:
        return format_
    if _suffix(file.file.name) in CONVERTERS:
        raise HeadscopeError(
            f"{str(file.file)!r} is not plain text, and is not read",
            f"take the text out of it: {converter(str(file.file))}; or, as it stands, --format text",
        )
    raise HeadscopeError(
        f"{str(file.file)!r} is not of a known format", "name the format: --format text, jsonl, csv or parquet"
    )


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


def _suffix(name: str) -> str:
    return os.path.splitext(name.lower())[1]
