"""How the loops are compiled.

Compiled code is kept on disk, keyed by the file that a function stands in. A compiled function therefore uses nothing
from outside its folder: constants come as arguments, and whatever it calls stands in the same folder. A test reads
every one for that. A change of one file of the folder drops the compiled code of all.

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
    drop_stale_code(Path(str(dispatcher.stats.cache_path)), Path(function.__code__.co_filename).parent)
    return dispatcher


def inner(function: Callable[..., Any]) -> Any:
    """The same for a function that only compiled ones call: what Python would need to call it is left out."""
    options: dict[str, Any] = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
    return numba.njit(nogil=True, error_model="numpy", **options)(function)


@cache
def drop_stale_code(folder: Path, sources: Path) -> None:
    """Remove the compiled code of a folder of source files of which one has changed since.

    numba would notice a change of the file itself, but not of one that it calls; and it reads the old code's
    signatures before it compares, and fails where these name a group of arguments that is not there any more.
    """
    if not folder.is_dir():
        return
    files = [Path(__file__), *sorted(sources.glob("*.py"))]  # and how they are compiled
    content = hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:16]
    mark = folder / f"{MARK}-{content}"
    if mark.exists():
        return
    with suppress(OSError):  # a folder that cannot be written to holds what was put there with the source
        old = [file for source in files for file in folder.glob(f"{source.stem}.*.nb[ci]")]
        for stale in (*old, *folder.glob(f"{MARK}-*")):
            stale.unlink(missing_ok=True)
        mark.touch()
