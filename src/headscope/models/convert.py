"""From pickled weights to safetensors, without ever running what a pickle may hold."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

from headscope.errors import HeadscopeError, brief
from headscope.files import disk_file
from headscope.models.source import FETCH_AGAIN, read_json

COPIED = ("*.json", "*.txt", "*.model", "*.tiktoken", "LICENSE*", "README.md")
SKIPPED = ("pytorch_model.bin.index.json", "model.safetensors.index.json")


def convert(folder: str | Path, out: str | Path, tokenizer: str | Path | None = None) -> Path:
    """Write a copy of a model folder whose weights are safetensors; return the new folder.

    Unpickling is restricted to tensors: a file that holds anything else is refused. `tokenizer`, a tokenizer.json, is
    put beside the weights where the folder has none that transformers can use.
    """
    folder, out = Path(folder), disk_file(out)
    try:
        _check_places(folder, out, tokenizer)
    except OSError as error:
        raise HeadscopeError(f"a path cannot be used: {error.strerror or error}", "give other paths") from error
    weights: dict[str, Tensor] = {}
    for file in _weight_files(folder):
        weights |= _tensors(file)
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(dir=out.parent, prefix=".converting-") as temporary:
            partial = Path(temporary) / "model"
            _write(folder, partial, weights, tokenizer)
            if out.exists():
                out.rmdir()
            os.replace(partial, out)
    except OSError as error:
        raise HeadscopeError(
            f"{str(out)!r} cannot be written: {error.strerror or error}", "name a new folder where there is room"
        ) from error
    return out


def _check_places(folder: Path, out: Path, tokenizer: str | Path | None) -> None:
    if not folder.is_dir():
        raise HeadscopeError(f"there is no folder {str(folder)!r}", "give the folder that holds pytorch_model.bin")
    if not (folder / "config.json").is_file():
        raise HeadscopeError(f"{str(folder)!r} is not a model folder: it has no config.json", "give a model's folder")
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise HeadscopeError(f"{str(out)!r} exists already and is not empty", "name a new folder")
    if tokenizer is not None and not Path(tokenizer).is_file():
        raise HeadscopeError(f"there is no file {str(tokenizer)!r}", "give a tokenizer.json")


def _write(folder: Path, out: Path, weights: dict[str, Tensor], tokenizer: str | Path | None) -> None:
    out.mkdir()
    for pattern in COPIED:
        for file in folder.glob(pattern):
            if file.name not in SKIPPED and file.is_file():
                shutil.copyfile(file, out / file.name)
    if tokenizer is not None:
        shutil.copyfile(tokenizer, out / "tokenizer.json")
        _name_fast_tokenizer(out)
    save_file(weights, str(out / "model.safetensors"), metadata={"format": "pt"})


def _weight_files(folder: Path) -> list[Path]:
    index = folder / "pytorch_model.bin.index.json"
    if index.exists():
        content = read_json(index, str(folder))
        places = content.get("weight_map") if isinstance(content, dict) else None
        if not isinstance(places, dict) or not places:
            raise HeadscopeError(f"{index.name} lists no weights", FETCH_AGAIN)
        files = [folder / Path(str(name)).name for name in sorted({str(file) for file in places.values()})]
    else:
        files = [folder / "pytorch_model.bin"]
    missing = [file.name for file in files if not file.is_file()]
    if missing:
        raise HeadscopeError(
            f"{str(folder)!r} holds no {missing[0]}",
            "convert reads pytorch_model.bin or its numbered parts; a folder with safetensors needs no converting",
        )
    return files


def _tensors(file: Path) -> dict[str, Tensor]:
    try:
        loaded: Any = torch.load(file, map_location="cpu", weights_only=True)
    except Exception as error:  # the restricted unpickler and the archive reader raise many kinds of exceptions
        reason = brief(error, 200)
        raise HeadscopeError(
            f"{file.name} is damaged or holds more than tensors, and nothing else is unpickled "
            f"({type(error).__name__}: {reason})",
            "ask whoever published the model for safetensors weights",
        ) from error
    if isinstance(loaded, dict) and isinstance(loaded.get("state_dict"), dict):
        loaded = loaded["state_dict"]
    if not isinstance(loaded, dict) or not loaded or not all(isinstance(value, Tensor) for value in loaded.values()):
        raise HeadscopeError(f"{file.name} is not a table of tensors by name", "give a transformers checkpoint")
    strange = next((name for name, tensor in loaded.items() if not _plain(tensor)), None)
    if strange is not None:
        raise HeadscopeError(f"{strange} in {file.name} is not a plain tensor", "give a checkpoint of dense weights")
    # Tied weights share memory in a pickle and may not in safetensors.
    return {str(name): value.detach().contiguous().clone() for name, value in loaded.items()}


def _plain(tensor: Tensor) -> bool:
    """Whether a tensor is of a kind that safetensors holds."""
    return tensor.layout == torch.strided and not tensor.is_quantized and not tensor.is_meta and not tensor.is_complex()


def _name_fast_tokenizer(folder: Path) -> None:
    """Say in tokenizer_config.json that tokenizer.json is to be used as it is."""
    file = folder / "tokenizer_config.json"
    settings: dict[str, Any] = {}
    for source in (file, folder / "special_tokens_map.json"):
        content = read_json(source, str(folder)) if source.exists() else {}
        if not isinstance(content, dict):
            raise HeadscopeError(f"{source.name} is not a table of settings", FETCH_AGAIN)
        settings |= content
    settings["tokenizer_class"] = "PreTrainedTokenizerFast"
    file.write_text(json.dumps(settings, indent=2) + "\n", encoding="utf-8")
