"""Files of object stores, as readers see them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, BinaryIO, cast

from headscope.errors import HeadscopeError, brief
from headscope.stores.opening import filesystem_of


@dataclass(frozen=True, slots=True)
class RemoteFile:
    """One file behind an address."""

    url: str

    def __str__(self) -> str:
        return self.url

    @property
    def name(self) -> str:
        """Its name without the path.

        >>> RemoteFile("s3://bucket/news/one.jsonl.gz").name
        'one.jsonl.gz'
        """
        return self.url.rpartition("/")[2]

    def open(self, mode: str = "rb") -> BinaryIO:
        """Its bytes, fetched as they are read."""
        files, path = filesystem_of(self.url)
        return cast(BinaryIO, files.open(path, mode))

    def is_file(self) -> bool:
        """Addresses that were found are files; they can be read again."""
        return True


def find_remote(url: str) -> list[RemoteFile]:
    """The files that an address stands for: a file, all below a folder, or those that match a pattern."""
    kind = url.partition("://")[0]
    files, path = filesystem_of(url)
    try:
        if any(mark in path for mark in "*?["):
            found = files.glob(path)
        elif files.isfile(path):
            found = [path]
        else:
            found = files.find(path)
    except FileNotFoundError:
        found = []
    except Exception as error:  # each kind of store fails in its own way: credentials, network, no such bucket
        raise HeadscopeError(f"{url!r} cannot be read: {brief(error)}", "check the address and credentials") from error
    return [RemoteFile(_address(kind, each, files)) for each in sorted(found)]


def _address(kind: str, path: str, files: Any) -> str:
    return f"{kind}://{files._strip_protocol(path).lstrip('/')}"
