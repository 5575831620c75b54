"""For every test and every example in the documentation: no network, no display, few threads, a folder of its own."""

from __future__ import annotations

import os
import shutil

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ.setdefault("MPLBACKEND", "agg")
os.environ["CUDA_VISIBLE_DEVICES"] = ""  # the numbers in the documentation are a CPU's
os.environ.setdefault("OMP_NUM_THREADS", "1")  # tests run side by side

from pathlib import Path

import pytest

# The files that take longest, which begin first: a worker takes whole files, and none should be left with a long one.
LONGEST = """report view_notebook view_everyone docs runs_trouble packages findings.md view_text findings corpus_numbers
    result findings_numbers runs_same runs_resume planted view_load""".split()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Longest files first, the others in their order."""
    place = {name: k for k, name in enumerate(LONGEST)}
    items.sort(key=lambda item: place.get(item.path.name.removeprefix("test_").removesuffix(".py"), len(place)))


@pytest.fixture(autouse=True)
def examples_write_elsewhere(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An example that saves a file must not leave it in the repository; where it runs it finds a model of its own."""
    if isinstance(request.node, pytest.DoctestItem):
        folder = Path(tmp_path_factory.mktemp("example"))
        (folder / "my-model").mkdir()
        for file in (Path(__file__).parent / "src" / "headscope" / "data" / "bert12").iterdir():
            try:
                os.link(file, folder / "my-model" / file.name)
            except OSError:  # on another disk, or one without links
                shutil.copy(file, folder / "my-model" / file.name)
        monkeypatch.chdir(folder)
