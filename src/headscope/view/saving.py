"""A page as one file while the server runs: written beside everything else, fetched when it is there."""

from __future__ import annotations

import secrets
from collections import OrderedDict
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock
from typing import Any

from headscope.errors import HeadscopeError
from headscope.view.desk import Desk, Gone
from headscope.view.later import Later
from headscope.view.single import check_size, write_html

KEPT = 2  # files that wait to be fetched
NAME = "view.html"


class Saving:
    """One file that is being written."""

    def __init__(self, desk: Desk) -> None:
        self.folder = TemporaryDirectory(prefix="headscope-", ignore_cleanup_errors=True)
        self.file = Path(self.folder.name) / NAME
        self._done = self._of = 0
        self._later = Later(lambda: write_html(desk, self.file, tell=self._tell))
        self._later.start()

    def _tell(self, done: int, of: int) -> None:
        self._done, self._of = done, of

    @property
    def is_ready(self) -> bool:
        """Whether it is written, or has failed."""
        return self._later.is_ready

    def state(self) -> dict[str, Any]:
        """How far it is; what went wrong is raised."""
        if self.is_ready:
            self._later.value()
        return {"ready": self.is_ready, "done": self._done, "of": self._of}


class Savings:
    """The files that were asked for: one is written at a time, the last few are kept until they are fetched."""

    def __init__(self) -> None:
        self._files: OrderedDict[str, Saving] = OrderedDict()
        self._lock = Lock()

    def begin(self, desk: Desk) -> str:
        """Begin to write; returns the file's name here."""
        check_size(desk)
        with self._lock:
            if any(not each.is_ready for each in self._files.values()):
                raise HeadscopeError("another file is being written", "save this one when it is done")
            name = secrets.token_hex(8)
            self._files[name] = Saving(desk)
            while len(self._files) > KEPT:
                self._files.popitem(last=False)[1].folder.cleanup()
        return name

    def state(self, name: str) -> dict[str, Any]:
        """How far a file is."""
        return {"name": name} | self._named(name).state()

    def take(self, name: str) -> Saving:
        """A file that is written, for the last time: whoever takes it removes it."""
        saving = self._named(name)
        saving.state()
        if not saving.is_ready:
            raise HeadscopeError("the file is not written yet", "ask for it when it is ready")
        with self._lock:
            self._files.pop(name, None)
        return saving

    def _named(self, name: str) -> Saving:
        with self._lock:
            if name not in self._files:
                raise Gone("there is no such file, or it was fetched already", "save the page again")
            return self._files[name]

    def close(self) -> None:
        """Remove what was not fetched."""
        with self._lock:
            for each in self._files.values():
                each.folder.cleanup()
            self._files.clear()
