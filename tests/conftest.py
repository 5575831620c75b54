"""What the tests share: the embedded model and small ones made on the spot.

What needs torch is imported where it is used: pytest-xdist's own process reads this file too, and uses none of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import headscope

if TYPE_CHECKING:
    from headscope.view.run_data import RunData
    from serving import Place
    from viewing import Tab

pytest.register_assert_rewrite("runs", "made_up_layers")  # so that they say what failed, as a test does


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


@pytest.fixture(scope="session")
def s3() -> Iterator[str]:
    """A bucket of a local S3 server, one for all tests of a process: s3fs keeps to the first address it was given."""
    from remote import s3_bucket

    with s3_bucket() as bucket:
        yield bucket


# ---------------------------------------------------------------------- the viewer's server


@pytest.fixture(scope="module")
def served(embedded: headscope.Model) -> Iterator[Place]:
    from headscope.view.desk import Desk
    from serving import serving

    with serving(Desk(lambda: embedded)) as place:
        yield place


@pytest.fixture
def place(served: Place) -> Iterator[Place]:
    """The server; whatever a test did to it, it must go on answering."""
    yield served
    assert served.answers()


def _view_run(model: headscope.Model, out: Path, **options: Any) -> headscope.Result:
    texts = headscope.passages()[:16]
    return headscope.analyze(
        model, texts, out=out, group_field="group", shard_size=2, window=64, progress=False, **options
    )


@pytest.fixture(scope="session")
def view_run(tmp_path_factory: pytest.TempPathFactory, embedded: headscope.Model) -> Path:
    out = tmp_path_factory.mktemp("run") / "run"
    _view_run(embedded, out, per_text=True)
    return out


@pytest.fixture(scope="session")
def view_rotated(tmp_path_factory: pytest.TempPathFactory, embedded: headscope.Model) -> headscope.Result:
    """A control of the same run."""
    return _view_run(embedded, tmp_path_factory.mktemp("rotated") / "run", control="rotated")


@pytest.fixture(scope="session")
def view_corpus(view_run: Path) -> RunData:
    from headscope.view.run_data import RunData

    return RunData(headscope.Result.open(view_run))


@pytest.fixture(scope="session")
def stacks_run(tmp_path_factory: pytest.TempPathFactory, tiny: Callable[[str], headscope.Model]) -> headscope.Result:
    """A run of a model with three attention stacks."""
    texts = [p["text"] for p in headscope.passages()[:16]]
    out, options = tmp_path_factory.mktemp("stacks") / "run", {"shard_size": 2, "window": 40, "per_text": True}
    return headscope.analyze(tiny("t5"), texts, out=out, progress=False, **options)


@pytest.fixture(scope="session")
def with_run(embedded: headscope.Model, view_corpus: RunData) -> Iterator[Place]:
    from headscope.view.desk import Desk
    from serving import serving

    with serving(Desk(lambda: embedded, view_corpus)) as place:
        yield place


# ---------------------------------------------------------------------- the viewer's page


@pytest.fixture(scope="session")
def hostile_run(tmp_path_factory: pytest.TempPathFactory, embedded: headscope.Model) -> headscope.Result:
    from viewing import HOSTILE

    out = tmp_path_factory.mktemp("view") / "run"
    rows = [{"id": f"<b>{p['id']}</b>", "text": p["text"], "group": p["group"]} for p in headscope.passages()[:24]]
    rows[5]["text"] = HOSTILE + " " + rows[5]["text"]
    options = {"per_text": True, "shard_size": 2, "window": 64, "progress": False, "group_field": "group"}
    return headscope.analyze(embedded, rows, out=out, **options)


@pytest.fixture(scope="session")
def address(embedded: headscope.Model, hostile_run: headscope.Result, passage: str) -> Iterator[str]:
    import viewing
    from headscope.view.desk import Desk
    from headscope.view.run_data import RunData

    desk = Desk(lambda: embedded, RunData(hostile_run), state={"layer": viewing.LAYER, "head": viewing.HEAD})
    desk.inspect(passage)
    with viewing.served(desk) as server:
        yield server.address


@pytest.fixture(scope="session")
def seen(embedded: headscope.Model, passage: str) -> headscope.Inspection:
    return embedded.inspect(passage)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    from browser import chromium

    with chromium() as opened:
        yield opened


@pytest.fixture
def tab(browser: Any) -> Iterator[Tab]:
    from viewing import Tab

    opened = Tab(browser)
    yield opened
    opened.close()
