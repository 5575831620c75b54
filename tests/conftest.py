"""What the tests share: the embedded model and small ones made on the spot."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import headscope

pytest.register_assert_rewrite("runs")  # so that it says what failed, as a test does


@pytest.fixture(scope="session")
def embedded() -> headscope.Model:
    return headscope.load()


@pytest.fixture(scope="session")
def passage() -> str:
    return headscope.passages("news")[3]["text"]


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], headscope.Model]:
    """Tiny models by kind, each made and loaded once."""
    from folders import make_folder

    made: dict[str, headscope.Model] = {}

    def get(kind: str) -> headscope.Model:
        if kind not in made:
            made[kind] = headscope.load(make_folder(kind, tmp_path_factory.mktemp(kind)))
        return made[kind]

    return get


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny model in a folder, for tests that start a process."""
    from folders import make_folder

    return make_folder("gpt2", tmp_path_factory.mktemp("gpt2"))
