"""How the loops are compiled.

Compiled code is kept on disk, keyed by the file that a function stands in. A compiled function therefore uses nothing
of another file: constants come as arguments, and whatever it calls stands beside it. A test reads every one for that.

No fast mathematics: freedom to add in any order is used in one way by code that was just compiled and in another by
the same code from the disk, and the last digits differ. Where sums are to be vectorised, they are written side by side.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import numba

MARK = "headscope-loops"


def compiled(function: Callable[..., Any]) -> Any:
    """Compile a function when it is first called, and keep the code on disk."""
    dispatcher = numba.njit(nogil=True, cache=True, error_model="numpy")(function)
    drop_stale_code(Path(str(dispatcher.stats.cache_path)), Path(function.__code__.co_filename))
    return dispatcher


@cache
def drop_stale_code(folder: Path, source: Path) -> None:
    """Remove the compiled code of a source file that has changed since.

    numba would notice the change, but reads the old code's signatures before it compares, and fails where these name a
    group of arguments that is not there any more.
    """
    if not folder.is_dir():
        return
    mark = folder / f"{MARK}-{source.stem}-{hashlib.sha256(source.read_bytes()).hexdigest()[:16]}"
    if mark.exists():
        return
    with suppress(OSError):  # a folder that cannot be written to holds what was put there with the source
        for old in (*folder.glob(f"{source.stem}.*.nb[ci]"), *folder.glob(f"{MARK}-{source.stem}-*")):
            old.unlink(missing_ok=True)
        mark.touch()
