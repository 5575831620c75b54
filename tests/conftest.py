"""What the tests share: no network, few threads, the embedded model, small folders made on the spot."""

from __future__ import annotations

import os

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ.setdefault("MPLBACKEND", "agg")

import pytest
import torch

import headscope


@pytest.fixture(scope="session", autouse=True)
def few_threads() -> None:
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def embedded() -> headscope.Model:
    return headscope.load()


@pytest.fixture(scope="session")
def passage() -> str:
    return headscope.passages("news")[3]["text"]
