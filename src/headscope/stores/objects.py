"""An object store, through fsspec: S3, Google's, Azure's, a memory of this process.

Such stores have no rename and no lock. A put is whole or not there; a put that is refused where the name is taken (a
conditional create) stands in for the lock (`claims.py`). A store that overwrites instead is refused: two runs could
work in one folder.
"""

from __future__ import annotations

import random
import secrets
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from headscope.errors import HeadscopeError, brief
from headscope.files import sha256_of
from headscope.stores.claims import ObjectClaim
from headscope.stores.store import below

TRIES, FIRST_PAUSE = 6, 0.2  # of what may pass: throttling, a lost connection; pauses double
FINAL = (FileNotFoundError, FileExistsError, PermissionError, NotImplementedError, IsADirectoryError)
PROBE = "claims/probe-"
WRITTEN = "be written"
T = TypeVar("T")


class ObjectStore:
    """What stands below one prefix of an object store."""

    def __init__(self, name: str, filesystem: Any, root: str) -> None:
        self.name, self.root, self._files = name, root.rstrip("/"), filesystem
        self._claim: ObjectClaim | None = None

    # ------------------------------------------------------------------ contents

    def read(self, name: str) -> bytes:
        """An object's bytes."""
        return bytes(self._patiently("be read", name, lambda path: self._files.cat_file(path)))

    def at_hand(self, name: str) -> bytes:
        """An object's bytes."""
        return self.read(name)

    def size(self, name: str) -> int:
        """How many bytes an object has."""
        return int(self._patiently("be read", name, lambda path: self._files.info(path)["size"]))

    def is_whole(self, name: str, size: int, hash_: str) -> bool:
        """Whether the object is there with this size; such stores check what they are given themselves."""
        try:
            return self.size(name) == size
        except FileNotFoundError:
            return False

    def write(self, name: str, content: bytes) -> None:
        """Put an object, in the place of one that is there."""
        self._patiently(WRITTEN, name, lambda path: self._files.pipe_file(path, content))

    def create(self, name: str, content: bytes) -> bool:
        """Put an object where there is none; False where there is another. Of two that try, one can."""
        try:
            self._patiently(WRITTEN, name, lambda path: self._files.pipe_file(path, content, mode="create"))
        except FileExistsError:
            return self.read(name) == content  # an earlier try may have been carried out and its answer lost
        return True

    def names(self, below_: str = "") -> list[str]:
        """What a listing shows; it may lag behind."""
        try:
            found = self._patiently("be listed", below_, lambda path: self._files.find(path))
        except FileNotFoundError:
            return []
        start = len(self._files._strip_protocol(self.root).rstrip("/")) + 1
        return below([self._files._strip_protocol(path)[start:] for path in found], below_)

    def remove(self, name: str) -> None:
        """Remove an object, where there is one."""
        try:
            self._patiently("be removed", name, lambda path: self._files.rm_file(path))
        except FileNotFoundError:
            return

    @contextmanager
    def making(self, name: str, size: int = 0) -> Iterator[Path]:
        """A path of a temporary folder; its file is put when the block ends.

        Who puts it first has made it. Where another process did so meanwhile, and its file is the same, it stays;
        another one is replaced, if the claim is still this process's.
        """
        with tempfile.TemporaryDirectory(prefix="headscope-") as folder:
            file = Path(folder) / Path(name).name
            yield file
            if self.put_file(name, file, create=True) or self._same(name, file):
                return
            if self._claim is not None:
                self._claim.check()
            self.put_file(name, file, create=False)

    def put_file(self, name: str, file: Path, *, create: bool) -> bool:
        """Put a file of this disk; with `create`, only where there is none."""
        mode = "create" if create else "overwrite"
        try:
            self._patiently(WRITTEN, name, lambda path: self._files.put_file(str(file), path, mode=mode))
        except FileExistsError:
            return False
        return True

    def _same(self, name: str, file: Path) -> bool:
        with tempfile.TemporaryDirectory(prefix="headscope-") as folder:
            there = Path(folder) / "there"
            self.fetch(name, there)
            return sha256_of(there) == sha256_of(file)

    def fetch(self, name: str, file: Path) -> None:
        """Copy an object to a file of this disk."""
        self._patiently("be read", name, lambda path: self._files.get_file(path, str(file)))

    # ------------------------------------------------------------------ the claim

    def claim(self) -> ObjectClaim:
        """Claim the prefix, if this store is one in which a claim means something."""
        if not creates_at_once(self._files):
            raise self._no_claims()
        probe = PROBE + secrets.token_hex(8)
        try:
            self.create(probe, b"1")
            second = self.create(probe, b"2")
        except (NotImplementedError, ValueError, TypeError) as error:
            raise self._no_claims() from error
        self.remove(probe)
        if second:
            raise self._no_claims()
        self._claim = ObjectClaim(self)
        return self._claim

    def _no_claims(self) -> HeadscopeError:
        return HeadscopeError(
            f"the store of {self.name!r} has no conditional create, so that two runs could work in one folder",
            "use a store with conditional puts (S3, Google Cloud Storage, Azure), or a folder of a disk",
        )

    # ------------------------------------------------------------------ patience

    def _patiently(self, what: str, name: str, call: Callable[[str], T]) -> T:
        """Try again what may pass; what stays wrong becomes a sentence. A missing or a taken name is an answer."""
        path = f"{self.root}/{name}" if name else self.root
        for attempt in range(TRIES):
            try:
                return call(path)
            except FINAL as error:
                if isinstance(error, PermissionError):
                    raise self._trouble(what, name, error, "check your credentials and rights") from error
                if isinstance(error, FileNotFoundError) and what == WRITTEN:
                    raise self._trouble(what, name, error, "name a bucket that is there, or create it") from error
                raise
            except (TypeError, ValueError):  # the package behind the address does not know such a call
                raise
            except Exception as error:  # every package has errors of its own
                if "credentials" in f"{type(error).__name__} {error}".lower():
                    raise self._trouble(what, name, error, "check your credentials and rights") from error
                if attempt == TRIES - 1:
                    kept = "every finished shard is kept, and the same command goes on from there"
                    raise self._trouble(what, name, error, kept) from error
                time.sleep(FIRST_PAUSE * 2**attempt * random.uniform(0.5, 1.5))
        raise AssertionError("the last attempt returns or raises")

    def _trouble(self, what: str, name: str, error: Exception, remedy: str) -> HeadscopeError:
        return HeadscopeError(f"'{self.name.rstrip('/')}/{name}' cannot {what}: {brief(error)}", remedy)


def creates_at_once(filesystem: Any) -> bool:
    """Whether its package has a conditional create. fsspec's own stand-in looks first and puts then: two could win.

    >>> import fsspec
    >>> [creates_at_once(fsspec.filesystem(kind)) for kind in ("memory", "file")]
    [True, False]
    """
    from fsspec import AbstractFileSystem

    own = type(filesystem)
    return own.pipe_file is not AbstractFileSystem.pipe_file or hasattr(own, "_pipe_file")
