"""A claim on an object store: numbered, each number taken by one process alone, the highest the one that counts.

Whoever wants to work there creates the object of the next number, which only one can. The holder writes to its object
every few seconds, so that others see it is alive; whether it is they find out by watching it, not by comparing clocks
of different machines. A holder that was away for too long learns it from the next number being taken, before
it writes anything that counts.
"""

from __future__ import annotations

import json
import platform
import secrets
import threading
import time
from typing import Any, Protocol

import psutil

from headscope.errors import HeadscopeError
from headscope.stores.disk import this_process
from headscope.stores.store import ClaimLost, Permit

FOLDER = "claims"
BEAT = 5.0  # seconds between two signs of life
SILENCE = 30.0  # seconds without one after which a holder counts as gone


class _Objects(Protocol):
    name: str

    def read(self, name: str) -> bytes: ...
    def write(self, name: str, content: bytes) -> None: ...
    def create(self, name: str, content: bytes) -> bool: ...
    def names(self, below_: str = "") -> list[str]: ...


class ObjectClaim:
    """The newest claim on a store, held by this process."""

    def __init__(self, store: _Objects) -> None:
        self.store, self.stale, self._beats = store, "", 0
        self.token = secrets.token_hex(8)
        self._about = this_process() | {"token": self.token}
        before = newest(store)
        if before:
            self._wait_for_the_end_of(before)
        self.number = before + 1
        if not store.create(_object(self.number), self._content()):
            raise self._taken(self.number)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._live, daemon=True)
        self._thread.start()

    @property
    def permit(self) -> Permit:
        """What lets workers write under this claim."""
        return Permit(self.store.name, self.number, self.token)

    def check(self) -> None:
        """Raise `ClaimLost` where the next number is taken."""
        _check_newest(self.store, self.number)

    def release(self) -> None:
        """Say that this process is done."""
        if not self._ended.is_set():
            self._ended.set()
            self._thread.join()
            self.store.write(_object(self.number), self._content(released=True))

    def _live(self) -> None:
        while not self._ended.wait(BEAT):
            self._beats += 1
            try:
                self.store.write(_object(self.number), self._content())
            except HeadscopeError:  # the store is away: whoever writes next is told, and others may take over
                continue

    def _content(self, released: bool = False) -> bytes:
        return json.dumps(self._about | {"beat": self._beats, "released": released}).encode()

    def _wait_for_the_end_of(self, number: int) -> None:
        """Return where the holder has given it back, is dead, or gives no sign of life; refuse where it lives."""
        first = _read(self.store, number) or {}
        if first.get("released"):
            return
        self.stale = _whose(first)
        if _is_dead(first):
            return
        until = time.monotonic() + SILENCE
        while time.monotonic() < until:
            time.sleep(min(BEAT, SILENCE) / 5)
            now = _read(self.store, number) or {}
            if now.get("released"):
                self.stale = ""
                return
            if now.get("beat") != first.get("beat"):
                raise self._taken(number)

    def _taken(self, number: int) -> HeadscopeError:
        holder = _whose(_read(self.store, number) or {})
        return HeadscopeError(
            f"another process is working in {self.store.name!r}: {holder}", "wait for it, or stop it first"
        )


class PermittedClaim:
    """The claim of the process that sent a permit, as one of its workers sees it."""

    def __init__(self, store: _Objects, permit: Permit) -> None:
        held = _read(store, permit.number)
        if held is None or held.get("token") != permit.token:
            raise HeadscopeError(f"{store.name!r} is another store here", "use one that all machines reach")
        self.store, self.number = store, permit.number

    def check(self) -> None:
        """Raise `ClaimLost` where the next number is taken."""
        _check_newest(self.store, self.number)


def _check_newest(store: _Objects, number: int) -> None:
    after = _read(store, number + 1)
    if after is not None:
        raise ClaimLost(
            f"{_whose(after)} has taken over the run in {store.name!r}, because the process that had it gave no sign "
            f"of life for {SILENCE:.0f} seconds",
            "let it finish; what was finished before is kept",
        )


def newest(store: _Objects) -> int:
    """The highest number that is taken; a listing may lag, so the numbers after it are looked for by name."""
    listed = [name.removeprefix(f"{FOLDER}/").removesuffix(".json") for name in store.names(FOLDER)]
    number = max((int(each) for each in listed if each.isdigit()), default=0)
    while _read(store, number + 1) is not None:
        number += 1
    return number


def _object(number: int) -> str:
    return f"{FOLDER}/{number:06d}.json"


def _read(store: _Objects, number: int) -> dict[str, Any] | None:
    """What a claim says; None where there is none. One that makes no sense is somebody's all the same."""
    try:
        content = json.loads(store.read(_object(number)))
        return content if isinstance(content, dict) else {}
    except FileNotFoundError:
        return None
    except ValueError:
        return {}


def _whose(claim: dict[str, Any]) -> str:
    known = isinstance(claim.get("pid"), int) and isinstance(claim.get("host"), str)
    return f"process {claim['pid']} on {claim['host'][:100]}" if known else "an unknown process"


def _is_dead(claim: dict[str, Any]) -> bool:
    """Whether the process was of this machine and is no more."""
    if claim.get("host") != platform.node() or not isinstance(claim.get("pid"), int):
        return False
    try:
        return bool(psutil.Process(claim["pid"]).create_time() != claim.get("since"))
    except psutil.Error:
        return True
