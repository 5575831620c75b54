"""The file of a result: its name, its version, and what it says of itself before any number is read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from headscope.errors import HeadscopeError, brief
from headscope.files import INSPECTION, title_of
from headscope.result.checksum import check_seal
from headscope.result.netcdf import attributes

FILE = "result.nc"
VERSION = 3  # of results, shards and runs' folders; 1 and 2 are the first edition of the method
FIRST_EDITION = (0, 1, 2)
AGAIN = "analyse the texts again with this version"


def check_version(version: Any, what: str, made_by: object = None) -> None:
    """Refuse what another headscope wrote: its sums are not those of this edition of the method.

    >>> check_version(2, "'old.nc'")
    Traceback (most recent call last):
    headscope.errors.HeadscopeError: 'old.nc' is of the method's first edition (schema 2); this headscope reads ...
    """
    if version == VERSION:
        return
    if not isinstance(version, (int, np.integer)):
        raise HeadscopeError(f"{what} has no known schema", AGAIN)
    if version in FIRST_EDITION:
        problem = f"{what} is of the method's first edition (schema {version}); this headscope reads schema {VERSION}"
        raise HeadscopeError(problem, AGAIN)
    raise HeadscopeError(
        f"{what} is of a newer schema, {version}; this headscope reads schema {VERSION}",
        f"use headscope {made_by or 'of that time'}, or {AGAIN}",
    )


def read_attributes(file: Path) -> dict[str, Any]:
    """What a result's file says of itself, or an error that says why it cannot be read."""
    if not file.exists():
        raise HeadscopeError(f"there is no run or result {str(file)!r}", "name a run's folder, or its result.nc")
    try:
        check_seal(file)
    except HeadscopeError as error:
        if title_of(file) == INSPECTION:
            raise HeadscopeError(
                f"{str(file)!r} is the inspection of one text, not the result of a run",
                "open it with headscope.Inspection.open, or headscope view",
            ) from error
        raise
    try:
        with h5py.File(file, "r") as opened:  # much faster than a whole dataset
            attrs = attributes(opened)
    except (OSError, ValueError, KeyError, RuntimeError, TypeError, AttributeError) as error:
        raise HeadscopeError(
            f"{str(file)!r} cannot be read: {brief(error)}", "it may be damaged or something else"
        ) from error
    if "schema" not in attrs or "settings" not in attrs:
        raise HeadscopeError(
            f"{str(file)!r} is not a result of headscope analyze", "name a result.nc or a run's folder"
        )
    check_version(attrs["schema"], repr(str(file)), attrs.get("headscope"))
    if not _is_sound(attrs):
        raise HeadscopeError(f"{str(file)!r} does not say what it holds", f"it may be damaged; {AGAIN}")
    return attrs


def _is_sound(attrs: dict[str, Any]) -> bool:
    try:
        settings, model, texts = (json.loads(attrs[name]) for name in ("settings", "model", "texts"))
    except (KeyError, ValueError, TypeError):
        return False
    return (
        all(isinstance(part, dict) for part in (settings, model, texts))
        and isinstance(attrs.get("stacks"), str)
        and {"tau", "theta", "window", "readings", "relations"} <= set(settings)
        and "name" in model
        and {"name", "texts", "bad", "refused"} <= set(texts)
    )
