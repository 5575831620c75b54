"""Numbers that took long, kept beside the result they are of: findings are instant the second time.

What is kept is named by everything that decides it: the result's checksum, whatever the caller names, the version of
the package, and its code that numbers come from. Nothing depends on it: a kept file that is missing, damaged or of
something else is as good as none, and where a folder cannot be written to nothing is kept.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headscope.errors import HeadscopeError
from headscope.files import write_whole
from headscope.result.checksum import checksum_of
from headscope.version import __version__

if TYPE_CHECKING:
    from headscope.result.result import Result

LARGEST = 1 << 26  # bytes: what is larger was not written here


def get(result: Result, name: str, key: Mapping[str, Any]) -> Any:
    """What was kept of this result under this name and key; None where there is nothing."""
    told = _told(result, name, key)
    file = _file(result, name, told)
    try:
        if file.stat().st_size > LARGEST:
            return None
        kept = json.loads(file.read_text(encoding="utf-8"))
        sound = kept["key"] == told and kept["hash"] == _hash(kept["data"])
        return json.loads(kept["data"]) if sound else None
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def put(result: Result, name: str, key: Mapping[str, Any], data: Any) -> None:
    """Keep plain data (what JSON has) beside the result, where its folder can be written to."""
    told = _told(result, name, key)
    text = json.dumps(data)
    content = json.dumps({"key": told, "hash": _hash(text), "data": text})
    with suppress(HeadscopeError):
        write_whole(_file(result, name, told), content)


def _told(result: Result, name: str, key: Mapping[str, Any]) -> dict[str, Any]:
    """Everything that decides what is kept, as JSON reads it back."""
    told = {"what": name, "stack": result.name, "result": checksum_of(result.file)}
    told |= {"headscope": __version__, "code": _code()}
    whole: dict[str, Any] = json.loads(json.dumps(told | {"key": dict(key)}))
    return whole


@cache
def _code() -> str:
    """A hash of the code that numbers come from, so that whoever changes a formula is not shown what it gave before."""
    whole, package = hashlib.sha256(), Path(__file__).parents[1]
    for room in ("measures", "result", "findings"):
        for file in sorted((package / room).glob("*.py")):
            whole.update(file.read_bytes())
    return whole.hexdigest()


def _file(result: Result, name: str, told: Mapping[str, Any]) -> Path:
    return result.file.parent / f"{name}-{_hash(json.dumps(told, sort_keys=True))[:16]}.json"


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
