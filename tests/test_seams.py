"""What the inside promises to those who build on it: imports go one way, and a statistic is declared in one place."""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, get_type_hints

import numpy as np
import pytest
from numba.core.registry import CPUDispatcher

import headscope
from headscope.choices import Choices, RunChoices, TextChoices, described
from headscope.errors import HeadscopeError
from headscope.figures.atlas import atlas
from headscope.measures import loops, quantities, variables
from headscope.measures.accumulator import LayerBatch
from headscope.measures.derived import ratio
from headscope.measures.quantities import HEADS, LAYERS, SUMMARY, Quantity
from headscope.measures.variables import Variable
from headscope.report import write_report
from headscope.report.writing import draw_all
from headscope.view.run_data import RunData

ROOT = Path(headscope.__file__).parent.parent.parent


# ---------------------------------------------------------------------- imports


def lint_imports(folder: Path) -> subprocess.CompletedProcess[str]:
    lint = Path(sys.executable).with_name("lint-imports")
    return subprocess.run([lint, "--no-cache"], cwd=folder, capture_output=True, text=True, env={"PYTHONPATH": "src"})


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    """The sources and the contract, to put something wrong in."""
    shutil.copytree(ROOT / "src", tmp_path / "src", ignore=shutil.ignore_patterns("__pycache__", "data"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return tmp_path


UPWARD = {
    "at the top": "from headscope.findings import CLAIMS\n",
    "in a function": "def later():\n    from headscope.view import desk\n    return desk\n",
    "for types": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from headscope.runs import folder\n",
    "by the front door": "import headscope\n",
}


@pytest.mark.parametrize("how", ["", *UPWARD])
def test_the_import_contract_is_kept_and_can_be_broken(how: str, copied: Path) -> None:
    file = copied / "src" / "headscope" / "windows" / "template.py"
    file.write_text(file.read_text(encoding="utf-8") + "\n\n" + UPWARD.get(how, ""), encoding="utf-8")
    done = lint_imports(copied)
    assert (done.returncode == 0) == (how == ""), done.stdout + done.stderr
    assert ("1 kept, 0 broken" if how == "" else "0 kept, 1 broken") in done.stdout


def test_a_room_that_is_not_in_the_contract_is_noticed(copied: Path) -> None:
    room = copied / "src" / "headscope" / "attic"
    room.mkdir()
    (room / "__init__.py").write_text("")
    assert lint_imports(copied).returncode != 0


# ---------------------------------------------------------------------- one declaration


def spread(batch: LayerBatch, sums: np.ndarray) -> None:
    """Σ over windows of the largest |O_i|² over the mean one."""
    lengths = batch.queries.lengths[:, None]
    sums += (batch.norms.max(-1) / (batch.norms.sum(-1) / lengths)).sum(0)


@pytest.fixture(scope="module")
def toy() -> Iterator[None]:
    variables.declare(Variable("norm_spread", ("layer", "head"), "sum of how uneven |O_i|² are", "sum", fill=spread))
    quantities.declare(
        Quantity(
            "unevenness", "toy unevenness of lengths", "how much longer the longest output is than the mean one",
            lambda view: (view.head("norm_spread"), view.windows()), ratio, smallest=0.1,
            shown=SUMMARY | HEADS | LAYERS, needs=("norm_spread",),
        )
    )  # fmt: skip
    yield
    variables.withdraw("norm_spread")
    quantities.withdraw("unevenness")


@pytest.fixture(scope="module")
def toy_result(toy: None, embedded: headscope.Model, tmp_path_factory: pytest.TempPathFactory) -> headscope.Result:
    texts = [p["text"] for p in headscope.passages()[:16]]
    out = tmp_path_factory.mktemp("toy") / "run"
    return headscope.analyze(embedded, texts, out=out, window=24, shard_size=2, layers=[0, 5, 11], progress=False)


def test_a_declared_variable_is_in_the_file(toy_result: headscope.Result, embedded: headscope.Model) -> None:
    data = toy_result.dataset
    assert data.norm_spread.dims == ("layer", "head")
    assert data.norm_spread.attrs["description"] == "sum of how uneven |O_i|² are"
    assert toy_result.by_block.norm_spread.dims == ("block", "layer", "head")
    naive = np.zeros((3, 12))
    for passage in headscope.passages()[:16]:
        outputs = embedded.inspect(passage["text"], window=24).outputs.values[[0, 5, 11]].astype(float)
        norms = (outputs**2).sum(-1)  # (L, H, T)
        naive += norms.max(-1) / norms.mean(-1)
    np.testing.assert_allclose(data.norm_spread, naive, rtol=1e-4)
    with pytest.warns(UserWarning, match="share texts"):
        twice = toy_result + toy_result
    np.testing.assert_allclose(twice.dataset.norm_spread, 2 * data.norm_spread)


def test_a_declared_quantity_is_everywhere_it_says(toy_result: headscope.Result, tmp_path: Path) -> None:
    expected = toy_result.dataset.norm_spread.values / 16
    np.testing.assert_allclose(toy_result.summary()["unevenness"].to_numpy().reshape(3, 12), expected)
    np.testing.assert_allclose(toy_result.layer_summary()["unevenness"], np.median(expected, 1))
    np.testing.assert_allclose(toy_result.quantity("unevenness", by="head").value, expected)
    assert "unevenness" in set(toy_result.specialists()["score"])
    assert "unevenness" in set(toy_result.stability()["score"])
    assert "toy unevenness of lengths" in atlas(toy_result).caption
    drawn = draw_all(toy_result, only=["atlas", "trajectory"])
    page = write_report(toy_result, tmp_path / "report.html", figures=drawn).read_text(encoding="utf-8")
    assert page.count("toy unevenness of lengths") >= 2  # the atlas, and from layer to layer
    shown = {each["name"]: each for each in RunData(toy_result).about["quantities"]}
    assert shown["unevenness"]["label"] == "toy unevenness of lengths"
    assert shown["unevenness"]["heads"]
    assert shown["unevenness"]["layers"]


def test_declarations_that_make_no_sense_are_refused() -> None:
    with pytest.raises(HeadscopeError, match="cannot be called 'pairs'"):
        variables.declare(Variable("pairs", ("layer",), "taken", fill=spread))
    with pytest.raises(HeadscopeError, match="no dimension 'colour'"):
        variables.declare(Variable("new", ("colour",), "unknown", fill=spread))
    with pytest.raises(HeadscopeError, match="no dimension 'layer'"):
        variables.declare(Variable("new", ("head",), "of no layer", fill=spread))
    with pytest.raises(HeadscopeError, match="nothing fills"):
        variables.declare(Variable("new", ("layer",), "empty"))
    with pytest.raises(HeadscopeError, match="not a variable of yours"):
        variables.withdraw("pairs")
    with pytest.raises(HeadscopeError, match="cannot be called 'reach'"):
        quantities.declare(Quantity("reach", "", "", lambda view: (), ratio))
    with pytest.raises(HeadscopeError, match="smallest"):
        quantities.declare(Quantity("new", "", "", lambda view: (), ratio, shown=HEADS))
    with pytest.raises(HeadscopeError, match="not a quantity of yours"):
        quantities.withdraw("reach")


# ---------------------------------------------------------------------- the method's choices


def test_choices_are_typed_as_they_are_declared() -> None:
    declared, text, run = (get_type_hints(each) for each in (Choices, TextChoices, RunChoices))
    assert list(run) == [choice.name for choice in described()]
    assert list(text) == [choice.name for choice in described(of_text=True)]
    more = {"window": int | None, "readings": str | Sequence[str]}  # wider than what they become
    for name, kind in run.items():
        assert kind == more.get(name, declared[name])


# ---------------------------------------------------------------------- compiled code


def compiled_functions() -> Iterator[tuple[str, Any]]:
    for module in pkgutil.iter_modules(loops.__path__):
        loaded = importlib.import_module(f"{loops.__name__}.{module.name}")
        for name, thing in vars(loaded).items():
            if isinstance(thing, CPUDispatcher) and thing.py_func.__module__ == loaded.__name__:
                yield f"{module.name}.{name}", thing


STALE = """
import numba
from limits import FEW
@numba.njit(cache=True)
def few(number):
    return number < FEW
print(few(7))
"""


@pytest.mark.long
def test_compiled_code_on_disk_does_not_notice_another_file(tmp_path: Path) -> None:
    """Why the next test is there: this is what numba does."""
    answers = []
    (tmp_path / "loops.py").write_text(STALE)
    for few in (10, 5):
        (tmp_path / "limits.py").write_text(f"FEW = {few}\n")
        done = subprocess.run(
            [sys.executable, "-B", "-c", "import loops"], cwd=tmp_path, capture_output=True, text=True, check=True
        )
        answers.append(done.stdout.strip())
    assert answers == ["True", "True"]  # 7 < 5 is stale


CHANGED = """
import sys
from typing import NamedTuple
import numpy as np
from headscope.measures.numba_options import compiled
class {name}(NamedTuple):
    values: object
@compiled
def total(group):
    return group.values.sum() * {factor}
print(total({name}(np.ones(3))))
"""


@pytest.mark.long
def test_compiled_code_of_a_changed_file_is_dropped(tmp_path: Path) -> None:
    """Also where it names a group of arguments that is gone, on which numba itself fails."""
    for name, factor, answer in (("Old", 1, "3.0"), ("Old", 1, "3.0"), ("New", 2, "6.0")):
        (tmp_path / "loops.py").write_text(CHANGED.format(name=name, factor=factor))
        done = subprocess.run(
            [sys.executable, "-c", "import loops"], cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert done.stdout.strip() == answer, done.stderr
        assert list((tmp_path / "__pycache__").glob("loops.total-*.nbi"))


CALLS = """
import numpy as np
from beside import scaled
from headscope.measures.numba_options import compiled
@compiled
def total(values):
    return scaled(values.sum())
print(total(np.ones(3)))
"""
CALLED = """
from headscope.measures.numba_options import inner
@inner
def scaled(value):
    return value * {factor}
"""


def test_compiled_code_is_dropped_where_a_file_that_it_calls_has_changed(tmp_path: Path) -> None:
    (tmp_path / "loops.py").write_text(CALLS)
    for factor, answer in ((1, "3.0"), (1, "3.0"), (2, "6.0")):
        (tmp_path / "beside.py").write_text(CALLED.format(factor=factor))
        done = subprocess.run(
            [sys.executable, "-B", "-c", "import loops"], cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert done.stdout.strip() == answer, done.stderr


def test_compiled_functions_use_nothing_from_outside_their_folder() -> None:
    names = []
    for name, function in compiled_functions():
        names.append(name)
        source, module = inspect.getsource(function.py_func), inspect.getmodule(function.py_func)
        assert module is not None
        tree = ast.parse(Path(str(module.__file__)).read_text(encoding="utf-8"))
        own = {node.name for node in tree.body if isinstance(node, (ast.FunctionDef, ast.ClassDef))}
        own |= {  # from the same folder: a change there drops the compiled code of all
            alias.name
            for node in tree.body
            if isinstance(node, ast.ImportFrom) and str(node.module).startswith(f"{loops.__name__}.")
            for alias in node.names
        }
        own |= {
            target.id
            for node in tree.body
            if isinstance(node, ast.Assign)
            for target in node.targets
            if isinstance(target, ast.Name) and isinstance(node.value, ast.Constant)
        }
        used = {n.id for n in ast.walk(ast.parse(source)) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}
        annotations = {"Any", "tuple", "float", "int", "bool", "compiled", "inner"}
        bound = set(function.py_func.__code__.co_varnames) | set(dir(__builtins__)) | annotations | {"np"}
        foreign = {each for each in used if each not in own | bound and not hasattr(__import__("builtins"), each)}
        assert not foreign, f"{name} uses {foreign}, which a change elsewhere would leave stale"
        assert not re.search("fastmath|compiled_sums", source)
        assert not function.targetoptions.get("fastmath")  # added in another order when loaded from the disk
    assert len(names) > 15
