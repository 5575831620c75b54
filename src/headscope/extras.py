"""Packages that not everyone needs: which extra brings each, and the one error that says it is missing.

`pip install headscope` brings what `inspect` and `analyze` need. pyproject.toml declares the extras.
"""

from __future__ import annotations

from importlib.util import find_spec

from headscope.errors import HeadscopeError

# The module that is imported, and the extra that brings it.
EXTRAS = {
    "jinja2": "report",
    "matplotlib": "report",
    "scipy": "report",
    "fastapi": "view",
    "pydantic": "view",
    "segno": "view",
    "uvicorn": "view",
    "anywidget": "notebook",
    "accelerate": "gguf",
    "gguf": "gguf",
    "datasets": "datasets",
    "cuda.core": "cuda",
    "ray": "ray",
    "s3fs": "s3",
    "gcsfs": "gcs",
}


def installed(module: str) -> bool:
    """Whether a module can be imported, without importing it.

    A folder without `__init__.py` does not count: somebody's own folder `datasets` is not the package.

    >>> installed("torch"), installed("torch.nowhere"), installed("nowhere.at_all")
    (True, False, False)
    """
    try:
        spec = find_spec(module)
    except ModuleNotFoundError:  # the package that it would be a part of is missing
        return False
    return spec is not None and spec.origin is not None


def install_line(module: str) -> str:
    """What to type where a module is missing.

    >>> install_line("cuda.core")
    "pip install 'headscope[cuda]'"
    """
    return f"pip install 'headscope[{EXTRAS[module]}]'"


def missing(module: str, what: str) -> HeadscopeError:
    """The error to raise: what cannot be done, without which package, and the line that installs it.

    >>> print(missing("ray", "running on a Ray cluster"))
    running on a Ray cluster needs the package ray, which is not installed. To fix it: pip install 'headscope[ray]'.
    """
    package = module.replace(".", "-")
    return HeadscopeError(f"{what} needs the package {package}, which is not installed", install_line(module))


def require(what: str, *modules: str) -> None:
    """Raise what `missing` says of the first module that is not there."""
    for module in modules:
        if not installed(module):
            raise missing(module, what)
