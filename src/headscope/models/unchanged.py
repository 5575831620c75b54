"""Whether a model is still the one that it was, told without loading it: by its files, their sizes and times."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from headscope.errors import HeadscopeError
from headscope.models.source import EMBEDDED, find
from headscope.models.spec import ModelSpec
from headscope.version import __version__


def model_state(spec: ModelSpec | None) -> dict[str, Any]:
    """Everything that decides which model a spec loads; empty where that is not known without loading it.

    >>> model_state(ModelSpec(None))["files"].keys() >= {"config.json", "model.safetensors", "tokenizer.json"}
    True
    >>> model_state(ModelSpec("somebody/a-model-of-the-hub"))
    {}
    """
    if spec is None:
        return {}
    try:
        if spec.name not in (None, EMBEDDED) and not Path(str(spec.name)).expanduser().exists():
            return {}  # the hub's, where it may have changed
        source = find(spec.name, spec.revision)
        kept = [source.folder / source.gguf] if source.gguf else list(source.folder.iterdir())
        files = {file.name: [file.stat().st_size, file.stat().st_mtime_ns] for file in kept if file.is_file()}
    except (HeadscopeError, OSError, ValueError, RuntimeError):
        return {}
    return {
        "folder": str(source.folder.absolute()),
        "files": dict(sorted(files.items())),
        "device": spec.device,
        "dtype": spec.dtype,
        "check": spec.check,
        "control": spec.control,
        "headscope": __version__,
    }
