"""The texts that ship with the package: 64 passages of 8 genres, to try things on."""

from __future__ import annotations

import json
from pathlib import Path


def passages(group: str | None = None) -> list[dict[str, str]]:
    """The shipped passages, each with `id`, `group` and `text`; only one genre's where `group` is named.

    >>> len(passages()), [p["id"] for p in passages("law")][:2]
    (64, ['law-1', 'law-2'])
    """
    lines = (Path(__file__).parent / "data" / "passages.jsonl").read_text(encoding="utf-8").splitlines()
    every = [json.loads(line) for line in lines]
    return [passage for passage in every if group in (None, passage["group"])]
