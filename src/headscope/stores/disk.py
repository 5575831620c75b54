"""A folder of this disk. Files are written under another name, flushed and renamed; a file lock is the claim."""

from __future__ import annotations

import errno
import json
import os
import platform
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
from filelock import FileLock, Timeout

from headscope.errors import HeadscopeError
from headscope.files import file_error, partial_name, sha256_of, writable, write_whole
from headscope.stores.store import below

LOCK = ".lock"
KEPT_REMEDY = (
    "make room or check the permissions; every finished shard is kept, and the same command goes on from there"
)


class DiskStore:
    """A folder, made where it is missing."""

    def __init__(self, path: str | Path) -> None:
        self.path, self.name = Path(path), str(path)
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except (FileExistsError, NotADirectoryError) as error:
            raise HeadscopeError(f"{self.name!r} is not a folder", "name a folder for the run") from error
        except OSError as error:
            raise file_error(self.path, "be used for a run", error, KEPT_REMEDY) from error

    def read(self, name: str) -> bytes:
        """A file's content."""
        return (self.path / name).read_bytes()

    def at_hand(self, name: str) -> Path:
        """The file itself."""
        return self.path / name

    def size(self, name: str) -> int:
        """How many bytes a file has."""
        return (self.path / name).stat().st_size

    def is_whole(self, name: str, size: int, hash_: str) -> bool:
        """Whether the file's content has this hash: disks forget."""
        try:
            return self.size(name) == size and sha256_of(self.path / name) == hash_
        except FileNotFoundError:
            return False

    def write(self, name: str, content: bytes) -> None:
        """Write a file as a whole."""
        write_whole(self.path / name, content, KEPT_REMEDY)

    def names(self, below_: str = "") -> list[str]:
        """The files there are, without those that are still being written."""
        folder = self.path / below_
        files = (file for file in folder.rglob("*") if file.is_file() and not file.name.startswith("."))
        return below([file.relative_to(self.path).as_posix() for file in files], below_)

    def remove(self, name: str) -> None:
        """Remove a file, and its folder with the last of them."""
        file = self.path / name
        file.unlink(missing_ok=True)
        if file.parent != self.path:
            with suppress(OSError):  # it is not empty, or gone
                file.parent.rmdir()

    @contextmanager
    def making(self, name: str, size: int = 0) -> Iterator[Path]:
        """The file's own path: who writes large files writes them as a whole. Room for them is made sure of first."""
        if size:
            _reserve(self.path / name, size)
        yield self.path / name

    def claim(self) -> DiskClaim:
        """Lock the folder."""
        return DiskClaim(self.path)


class DiskClaim:
    """A lock that ends with its process, and a note beside it that says whose it is."""

    def __init__(self, path: Path) -> None:
        self.owner, self.stale = path / f"{LOCK}.json", ""
        self.lock = FileLock(str(path / LOCK))
        try:
            self.lock.acquire(timeout=0)
        except Timeout as error:
            raise HeadscopeError(
                f"another process is working in {str(path)!r}: {_owner(self.owner)}", "wait for it, or stop it first"
            ) from error
        except OSError as error:
            raise file_error(path, "be used for a run", error, KEPT_REMEDY) from error
        if self.owner.exists():
            self.stale = _owner(self.owner)  # the lock itself ends with its process, so this one is dead
        write_whole(self.owner, json.dumps(this_process()), KEPT_REMEDY)

    @property
    def permit(self) -> None:
        """Other machines have other disks."""

    def check(self) -> None:
        """Nobody can take a lock away."""

    def release(self) -> None:
        """Give the folder back."""
        if self.lock.is_locked:
            self.owner.unlink(missing_ok=True)
            self.lock.release()  # the file stays: somebody may be about to lock it


def this_process() -> dict[str, object]:
    """Who holds a claim."""
    return {"pid": os.getpid(), "host": platform.node(), "since": psutil.Process().create_time()}


def _owner(file: Path) -> str:
    try:
        owner = json.loads(file.read_text(encoding="utf-8"))
        return f"process {int(owner['pid'])} on {owner['host']}"
    except (OSError, ValueError, KeyError, TypeError):
        return "unknown process"


def _reserve(file: Path, size: int) -> None:
    """Find out that a file will fit before it is written: HDF5 does not survive a disk that fills up under it."""
    partial = partial_name(file)
    with writable(file, KEPT_REMEDY):
        try:
            handle = os.open(partial, os.O_CREAT | os.O_WRONLY)
            try:
                if hasattr(os, "posix_fallocate"):
                    os.posix_fallocate(handle, 0, size)
                elif shutil.disk_usage(file.parent).free < size:
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            finally:
                os.close(handle)
        finally:
            partial.unlink(missing_ok=True)
