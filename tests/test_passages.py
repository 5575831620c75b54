"""The shipped corpus is what its description says."""

from __future__ import annotations

import pytest

import headscope
from headscope.windows.text import sentence_spans

GROUPS = ["encyclopedia", "news", "story", "dialogue", "manual", "law", "science", "letters"]


def test_sixty_four_passages_of_eight_genres() -> None:
    every = headscope.passages()
    assert [p["group"] for p in every] == [group for group in GROUPS for _ in range(8)]
    assert len({p["id"] for p in every}) == 64
    assert all(list(p) == ["id", "group", "text"] for p in every)
    assert [p["id"] for p in headscope.passages("law")] == [f"law-{k}" for k in range(1, 9)]


@pytest.mark.parametrize("passage", headscope.passages(), ids=lambda p: p["id"])
def test_each_is_a_paragraph_of_prose(passage: dict[str, str]) -> None:
    text = passage["text"]
    assert 90 <= len(text.split()) <= 130
    assert 4 <= len(sentence_spans(text)) <= 8
    assert text == " ".join(text.split())
    words = [word.strip(".,;:!?\"'()").lower() for word in text.split()]
    assert len(set(words)) < len(words)  # prose repeats itself
