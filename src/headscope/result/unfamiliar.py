"""Whether the model knows the language of a collection, as its run has noticed (windows/familiarity.py)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

NOTABLE = 0.01  # of the windows: a foreign quotation now and then is no matter


def unfamiliar_texts(texts: Mapping[str, Any]) -> str:
    """A sentence without its full stop where the model may not know the language; empty where it does.

    >>> unfamiliar_texts({"familiar_of": 200, "unfamiliar": 1})
    ''
    >>> unfamiliar_texts({"familiar_of": 200, "unfamiliar": 120})[:60]
    "in 60 % of the windows most words are unknown to the model's"
    """
    looked_at, unfamiliar = texts.get("familiar_of") or 0, texts.get("unfamiliar") or 0
    if unfamiliar <= NOTABLE * looked_at:
        return ""
    return (
        f"in {100 * unfamiliar / looked_at:.0f} % of the windows most words are unknown to the model's tokenizer "
        "or broken into pieces: the model may not know their language"
    )
