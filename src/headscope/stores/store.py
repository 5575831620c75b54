"""The few operations that a run's folder needs, whatever keeps it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from headscope.errors import HeadscopeError


@dataclass(frozen=True, slots=True)
class Permit:
    """What lets a worker elsewhere write under the claim of the process that sent it (`open_permitted`)."""

    url: str  # of the store
    number: int  # of the claim
    token: str  # by which the worker knows that its store of this name is the same one


class Claim(Protocol):
    """The right to work in a store, which one process has at a time."""

    @property
    def stale(self) -> str:
        """Who had it before and ended without giving it back; empty where nobody did."""

    @property
    def permit(self) -> Permit | None:
        """For workers on any machine; None where only this machine has the store."""

    def check(self) -> None:
        """Raise `ClaimLost` where another process has it by now."""

    def release(self) -> None:
        """Give it back."""


class Store(Protocol):
    """Named contents. Names have slashes; a content is there as a whole or not at all."""

    name: str  # as the user wrote it

    def read(self, name: str) -> bytes:
        """A content; FileNotFoundError where there is none."""

    def at_hand(self, name: str) -> bytes | Path:
        """A content in the form in which it is at hand: a file of this disk, or its bytes."""

    def size(self, name: str) -> int:
        """How many bytes a content has."""

    def is_whole(self, name: str, size: int, hash_: str) -> bool:
        """Whether a content is there and has this SHA-256; a store that checks what it is given is trusted."""

    def write(self, name: str, content: bytes) -> None:
        """Keep a content, in the place of one that is there."""

    def names(self, below: str = "") -> list[str]:
        """The names there are, or those that begin with `below/`. A listing may lag: it proves nothing missing."""

    def remove(self, name: str) -> None:
        """Remove a content, where there is one."""

    def making(self, name: str, size: int = 0) -> AbstractContextManager[Path]:
        """A path on this disk for a large file of about so many bytes, which is kept when the block ends."""

    def claim(self) -> Claim:
        """Claim the store for this process; an error tells who has it."""


class ClaimLost(HeadscopeError):  # noqa: N818 - reads as what happened
    """Another process works in the store by now."""


def below(names: Iterator[str] | list[str], folder: str) -> list[str]:
    """Names of a folder, sorted.

    >>> below(["run.json", "shards/1.json", "shardsmith"], "shards")
    ['shards/1.json']
    """
    return sorted(name for name in names if not folder or name.startswith(f"{folder}/"))
