"""What is built is whole, runs with no more than it declares, and names the extra that brings what is missing."""

from __future__ import annotations

import ast
import json
import re
import sys
import tarfile
import tomllib
from importlib import metadata
from pathlib import Path
from zipfile import ZipFile

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import headscope
from clean import ROOT, Environment, build_both, build_wheel, declared, run
from headscope.extras import EXTRAS, install_line, installed

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
OPTIONAL = PROJECT["optional-dependencies"]
OF_DEVELOPERS = {"all", "dev", "docs", "lint", "models", "peers", "test"}
# Imported from a package that brings them and is declared itself.
BROUGHT = {"starlette": "fastapi", "h11": "uvicorn", "traitlets": "anywidget"}

# What a user does who lacks a package, and what is said. Run in one process, in an environment without any extra.
PROBES = """
import contextlib, io, json
from pathlib import Path
import torch
import headscope
from headscope.choices import Choices
from headscope.cli import main
from headscope.runs.paths import cuda_lacks
from headscope.segmentation import fit

def said(call, *given, **options):
    try:
        call(*given, **options)
    except headscope.HeadscopeError as error:
        return str(error)
    return "nothing"

def refused(*command):
    told = io.StringIO()
    with contextlib.redirect_stderr(told):
        code = main(command)
    return told.getvalue() if code == 2 else f"code {code}"

model = headscope.load()
seen = model.inspect("The cat sat.")
result = headscope.analyze(model, ["The cat sat. It ran."], layers=[0], path="torch", out="run", progress=False)
Path("m.gguf").write_bytes(b"GGUF" + bytes(100))
Path("datasets").mkdir()  # a folder of the user's own is not the package
print(json.dumps({
    "report": [
        said(seen.plot_grid), said(seen.view_html, "a.html"), said(result.findings), said(result.figure, "atlas"),
        said(fit, model, ["The cat sat."]), said(lambda: headscope.reproduce("passages:", out="reproduced")),
        refused("inspect", "The cat sat.", "--save", "saved"), refused("findings", "run"),
        refused("view", "run", "--html", "a.html"), refused("segment", "a.txt", "--out", "a.html"),
    ],
    "view": [refused("view", "The cat sat.", "--no-open")],
    "notebook": [said(seen.show), said(result.show)],
    "gguf": [said(headscope.load, "m.gguf")],
    "datasets": [said(headscope.analyze, model, "hf:a/b", progress=False)],
    "ray": [said(headscope.analyze, None, "passages:", out="ray", engine="ray", progress=False)],
    "s3": [said(headscope.Result.open, "s3://bucket/run")],
    "gcs": [said(headscope.Result.open, "gs://bucket/run")],
    "cuda": [cuda_lacks(torch.device("cuda"), Choices())],
}))
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_wheel(tmp_path_factory.mktemp("dist"))


@pytest.fixture(scope="module")
def clean(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """The wheel, installed with its core dependencies and no extra."""
    environment = Environment(tmp_path_factory.mktemp("clean"))
    environment.install(wheel, "--no-deps", "--no-index")
    environment.link(declared(wheel))
    return environment


def test_the_wheel_holds_the_package_and_nothing_else(wheel: Path) -> None:
    names = {name for name in ZipFile(wheel).namelist() if ".dist-info/" not in name}
    source = ROOT / "src"
    files = [path for path in (source / "headscope").rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    assert names == {path.relative_to(source).as_posix() for path in files}
    assert headscope.__version__ in wheel.name


def test_headscope_demo_runs_with_the_core_alone(clean: Environment, tmp_path: Path) -> None:
    printed = run([clean.script("headscope"), "demo", "--out", "demo"], tmp_path)
    assert "What was found in this text" in printed
    assert install_line("matplotlib") in printed  # and says what is left out, and how to get it
    assert [path.name for path in (tmp_path / "demo").iterdir()] == ["inspection.nc"]


def test_a_missing_extra_is_named_with_the_line_to_type(clean: Environment, tmp_path: Path) -> None:
    said = json.loads(run([clean.python, "-c", PROBES], tmp_path).splitlines()[-1])
    assert set(said) == set(OPTIONAL) - OF_DEVELOPERS
    for extra, messages in said.items():
        for message in messages:
            assert f"pip install 'headscope[{extra}]'" in message, (extra, message)


def test_extras_are_told_as_they_are_declared() -> None:
    for module, extra in EXTRAS.items():
        brought = {canonicalize_name(Requirement(each).name) for each in OPTIONAL[extra]}
        assert canonicalize_name(module.replace(".", "-")) in brought
    assert set(EXTRAS.values()) == set(OPTIONAL) - OF_DEVELOPERS
    (everything,) = map(Requirement, OPTIONAL["all"])
    assert everything.extras | {"report"} == set(EXTRAS.values())  # which comes with view and notebook


def test_a_folder_is_not_a_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "somebodys").mkdir()
    monkeypatch.syspath_prepend(str(tmp_path))
    assert not installed("somebodys")
    (tmp_path / "somebodys" / "__init__.py").touch()
    assert installed("somebodys")


def test_what_is_imported_is_declared() -> None:
    """By the core, or by an extra that users can have; and what is declared is used."""
    asked = [*PROJECT["dependencies"], *(each for name in set(OPTIONAL) - OF_DEVELOPERS for each in OPTIONAL[name])]
    names = {canonicalize_name(Requirement(each).name) for each in asked} - {"headscope"}
    owners = metadata.packages_distributions()
    imported = set()
    for file in (ROOT / "src").rglob("*.py"):
        for module in imports(ast.parse(file.read_text(encoding="utf-8"))):
            if module not in sys.stdlib_module_names and module != "headscope":
                module = BROUGHT.get(module, module)
                imported.add("cuda-core" if module == "cuda" else canonicalize_name(owners[module][0]))
    assert imported - names == set()
    # xarray imports h5netcdf, fsspec s3fs and gcsfs, transformers gguf and accelerate.
    assert names - imported == {"accelerate", "gcsfs", "gguf", "h5netcdf", "s3fs"}


def imports(tree: ast.Module) -> set[str]:
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {name.name.partition(".")[0] for name in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module.partition(".")[0])
    return found


@pytest.mark.long
def test_a_release_installs_from_the_index_and_shows_its_demo(tmp_path: Path) -> None:
    """The sdist, the wheel made of it, and pip: as a release and its user do it."""
    sdist, wheel = build_both(tmp_path)
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"LICENSE", "README.md", "Makefile", "constraints.txt", "docs/method.md", "tests/test_packages.py"} <= names
    assert not any(re.match(r"\.ci|\.git/|node_modules|\.venv", name) for name in names)
    environment = Environment(tmp_path / "environment")
    constraints = ["-c", str(ROOT / "constraints.txt"), "--no-compile"]
    environment.install(wheel, *constraints)
    assert install_line("matplotlib") in run([environment.script("headscope"), "demo", "--out", "demo"], tmp_path)
    extras = wheel.parent / f"{wheel.name}[report,view]"
    environment.install(extras, *constraints)
    run([environment.script("headscope"), "demo", "--out", "drawn"], tmp_path)
    assert sorted(path.suffix for path in (tmp_path / "drawn").iterdir()) == [".nc", ".png", ".png", ".png"]
