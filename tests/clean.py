"""A Python environment that holds a built wheel and what the wheel declares, and nothing else.

The packages are those that the tests run with, linked one by one, so that it takes a second and no network. A package
that is imported but not declared is missing there, as it would be for somebody who types `pip install headscope`.
"""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]


def build_wheel(out: Path) -> Path:
    """The wheel, made of the working tree."""
    run([sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(out)], ROOT)
    return next(out.glob("*.whl"))


def build_both(out: Path) -> tuple[Path, Path]:
    """The sdist, and the wheel made of the sdist alone, as a release makes them."""
    run([sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", str(out)], ROOT)
    sdist = next(out.glob("*.tar.gz"))
    options = ["--no-deps", "--no-build-isolation", "--no-index", "-q", "-w", str(out)]
    run([sys.executable, "-m", "pip", "wheel", *options, str(sdist)], out)
    return sdist, next(out.glob("*.whl"))


def run(command: list[str], folder: Path, **environment: str) -> str:
    """What a command prints; it must end well."""
    done = subprocess.run(
        command, cwd=folder, env=os.environ | environment, capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, f"{command}: {done.stdout[-2000:]}{done.stderr[-4000:]}"
    return done.stdout


class Environment:
    """A virtual environment; `python` and `script` are paths of what is in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        venv.create(folder, with_pip=False, symlinks=os.name != "nt")
        self.bin = folder / ("Scripts" if os.name == "nt" else "bin")
        self.python = str(self.bin / "python")
        self.packages = Path(
            run([self.python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"], folder).strip()
        )

    def script(self, name: str) -> str:
        return str(self.bin / name)

    def install(self, wheel: Path, *options: str) -> None:
        run([sys.executable, "-m", "pip", "--python", self.python, "install", "-q", *options, str(wheel)], self.folder)

    def link(self, names: Iterable[str]) -> None:
        """Link installed packages, each file and folder that belongs to it alone as a whole."""
        owners = metadata.packages_distributions()
        for name in names:
            for file in metadata.files(name) or []:
                top = file.parts[0]
                if top == ".." or (self.packages / top).is_symlink():
                    continue
                shared = {canonicalize_name(each) for each in owners.get(top, [])} - {canonicalize_name(name)}
                part = Path(*file.parts[: 2 if shared else 1])
                target = self.packages / part
                if not target.is_symlink():
                    target.parent.mkdir(parents=True, exist_ok=True)
                    target.symlink_to(Path(str(metadata.distribution(name).locate_file(part))))


def declared(wheel: Path, extra: str = "") -> set[str]:
    """The packages that a wheel's metadata asks for, and those that these ask for, and so on."""
    (found,) = metadata.MetadataPathFinder.find_distributions(
        metadata.DistributionFinder.Context(name="headscope", path=[str(wheel)])
    )
    return _closure(found.requires or [], extra, set())


def _closure(requirements: Iterable[str], extra: str, seen: set[tuple[str, str]]) -> set[str]:
    names = set()
    for requirement in map(Requirement, requirements):
        if requirement.marker is not None and not requirement.marker.evaluate({"extra": extra}):
            continue
        for wanted in ("", *requirement.extras):
            if (requirement.name, wanted) not in seen:
                seen.add((requirement.name, wanted))
                names.add(canonicalize_name(requirement.name))
                names |= _closure(metadata.requires(requirement.name) or [], wanted, seen)
    return names
