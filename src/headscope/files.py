"""Files of this disk and their names; they are whole or not there: written under another name, then renamed."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from headscope.errors import HeadscopeError, brief

INSPECTION = "headscope inspection of one text"  # the title of a saved inspection
INSPECTION_FILE = "inspection.nc"  # its name in a folder of headscope inspect --save
OTHER_FOLDER = "name a folder that can be written to and has room"
URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")
OF_THIS_DISK = re.compile(r"(file|local)://(?=.)", re.IGNORECASE)


def is_url(name: object) -> bool:
    """Whether a name is of a store, and not of this disk.

    >>> is_url("s3://bucket/run"), is_url("runs/one"), is_url(Path("s3://bucket")), is_url("file:///runs/one")
    (True, False, False, False)
    """
    return isinstance(name, str) and URL.match(name) is not None and OF_THIS_DISK.match(name) is None


def disk_path(name: str | os.PathLike[str]) -> str:
    """A path of this disk, which may be written as an address.

    >>> disk_path("file:///runs/one"), disk_path("runs/one")
    ('/runs/one', 'runs/one')
    """
    return OF_THIS_DISK.sub("", name, count=1) if isinstance(name, str) else os.fspath(name)


def disk_file(name: str | os.PathLike[str]) -> Path:
    """The path of what is to be written: pages, figures and the like go to this disk.

    >>> disk_file("s3://bucket/report.html")
    Traceback (most recent call last):
    headscope.errors.HeadscopeError: 's3://bucket/report.html' is not a path on this disk, and only runs ...
    """
    if is_url(name):
        raise HeadscopeError(
            f"{name!r} is not a path on this disk, and only runs can be written elsewhere",
            "name a path on this disk, and copy it from there",
        )
    return Path(disk_path(name))


@contextmanager
def writable(target: str | Path, remedy: str = OTHER_FOLDER) -> Iterator[None]:
    """Turn whatever keeps a file from being written into a sentence: which file, what is wrong, what to do.

    >>> with writable("/proc/nowhere/a.txt"):
    ...     raise PermissionError(13, "Permission denied")
    Traceback (most recent call last):
    headscope.errors.HeadscopeError: '/proc/nowhere/a.txt' cannot be written: Permission denied. ...
    """
    try:
        yield
    except OSError as error:
        raise file_error(target, "be written", error, remedy) from error


@contextmanager
def written_whole(target: Path, remedy: str = OTHER_FOLDER) -> Iterator[Path]:
    """A path to write to, which becomes `target` when the block ends without an error.

    Whoever reads `target` finds a whole file or none, even after a crash. What was written so far is removed where
    the block fails: on a full disk it takes the room that is missing.

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> with written_whole(folder / "new" / "a.txt") as partial:
    ...     _ = partial.write_text("all of it")
    >>> [file.name for file in (folder / "new").iterdir()]
    ['a.txt']
    """
    partial = partial_name(target)
    try:
        with writable(target, remedy):
            target.parent.mkdir(parents=True, exist_ok=True)
        yield partial
        with writable(target, remedy):
            with partial.open("rb+") as written:
                os.fsync(written.fileno())
            os.replace(partial, target)
            flush_folder(target.parent)
    except (OSError, RuntimeError) as error:  # HDF5 reports a full disk as a RuntimeError, too
        raise file_error(target, "be written", error, remedy) from error
    finally:
        with suppress(OSError):  # it is not there after a success, and cannot be there where nothing can be written
            partial.unlink()


def write_whole(target: Path, content: str | bytes, remedy: str = OTHER_FOLDER) -> Path:
    """Write a text or bytes as a whole file; returns its path."""
    with written_whole(target, remedy) as partial:
        partial.write_bytes(content.encode("utf-8") if isinstance(content, str) else content)
    return target


def partial_name(file: Path) -> Path:
    """Where a file is written before it has its name."""
    return file.with_name(f".{file.name}.partial")


def flush_folder(folder: Path) -> None:
    """Make a rename last: it is an entry of the folder, which has to reach the disk too."""
    if os.name == "nt":  # Windows cannot open folders, and keeps its own order of entries
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def file_error(file: str | Path, what: str, error: OSError | RuntimeError, remedy: str) -> HeadscopeError:
    """The error for a file that cannot be written, locked or made."""
    reason = getattr(error, "strerror", None) or brief(error)
    return HeadscopeError(f"{str(file)!r} cannot {what}: {reason}", remedy)


def sha256_of(file: Path) -> str:
    """The SHA-256 of a file's content, in hexadecimal digits."""
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


# ---------------------------------------------------------------------- web pages


def page_path(out: str | Path) -> Path:
    """The path of a page that is to be written, refused where it is not named like one.

    >>> page_path("report.txt")
    Traceback (most recent call last):
    headscope.errors.HeadscopeError: 'report.txt' is not named like a web page. To fix it: end the name in .html.
    """
    target = disk_file(out)
    if target.suffix.lower() not in (".html", ".htm"):
        raise HeadscopeError(f"{str(out)!r} is not named like a web page", "end the name in .html")
    return target


def make_folder_for(out: str | Path) -> Path:
    """The path of a page with its folder made: before the minutes that the page itself takes."""
    target = page_path(out)
    with writable(target):
        target.parent.mkdir(parents=True, exist_ok=True)
    return target


def title_of(file: str | Path) -> str:
    """What a netCDF file of headscope's says that it is; empty where it says nothing, or is something else."""
    import h5py

    try:
        with h5py.File(file, "r") as opened:
            return str(opened.attrs.get("title", ""))
    except (OSError, KeyError, ValueError, RuntimeError, TypeError):
        return ""
