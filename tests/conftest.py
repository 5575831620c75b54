"""What the tests share: the embedded model and small ones made on the spot."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import headscope


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
