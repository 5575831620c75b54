"""From pickled weights to safetensors, without ever running what a pickle may hold."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

from headscope.errors import HeadscopeError

CARRIED = ("*.json", "*.txt", "*.model", "*.tiktoken", "LICENSE*", "README.md")
SKIPPED = ("pytorch_model.bin.index.json", "model.safetensors.index.json")


def convert(folder: str | Path, out: str | Path, tokenizer: str | Path | None = None) -> Path:
    """Write a copy of a model folder whose weights are safetensors; return the new folder.

    Unpickling is restricted to tensors: a file that holds anything else is refused. `tokenizer`, a tokenizer.json, is
    put beside the weights where the folder has none that transformers can use.
    """
    folder, out = Path(folder), Path(out)
    if not folder.is_dir():
        raise HeadscopeError(f"there is no folder {str(folder)!r}", "give the folder that holds pytorch_model.bin")
    if not (folder / "config.json").exists():
        raise HeadscopeError(f"{str(folder)!r} is no model folder: it has no config.json", "give a model's folder")
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise HeadscopeError(f"{str(out)!r} exists already and is not empty", "name a new folder")
    if tokenizer is not None and not Path(tokenizer).is_file():
        raise HeadscopeError(f"there is no file {str(tokenizer)!r}", "give a tokenizer.json")
    weights: dict[str, Tensor] = {}
    for file in _weight_files(folder):
        weights |= _tensors(file)
    partial = out.with_name(out.name + ".partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    for pattern in CARRIED:
        for file in folder.glob(pattern):
            if file.name not in SKIPPED and file.is_file():
                shutil.copyfile(file, partial / file.name)
    if tokenizer is not None:
        shutil.copyfile(tokenizer, partial / "tokenizer.json")
        _name_fast_tokenizer(partial)
    save_file(weights, str(partial / "model.safetensors"), metadata={"format": "pt"})
    if out.exists():
        out.rmdir()
    os.replace(partial, out)
    return out


def _weight_files(folder: Path) -> list[Path]:
    index = folder / "pytorch_model.bin.index.json"
    if index.exists():
        try:
            names = sorted(set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values()))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise HeadscopeError(f"{index.name} cannot be read: {error}", "download the model again") from error
        files = [folder / Path(str(name)).name for name in names]
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
    except Exception as error:  # the restricted unpickler and the archive reader raise of several kinds
        raise HeadscopeError(
            f"{file.name} is damaged or holds more than tensors, and nothing else is unpickled "
            f"({type(error).__name__}: {str(error).strip().splitlines()[0][:200]})",
            "ask whoever published the model for safetensors weights",
        ) from error
    if isinstance(loaded, dict) and isinstance(loaded.get("state_dict"), dict):
        loaded = loaded["state_dict"]
    if not isinstance(loaded, dict) or not all(isinstance(value, Tensor) for value in loaded.values()):
        raise HeadscopeError(f"{file.name} is no table of tensors by name", "give a transformers checkpoint")
    # Tied weights share memory in a pickle and may not in safetensors.
    return {str(name): value.detach().clone().contiguous() for name, value in loaded.items()}


def _name_fast_tokenizer(folder: Path) -> None:
    """Say in tokenizer_config.json that tokenizer.json is to be used as it is."""
    file = folder / "tokenizer_config.json"
    settings = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    special = folder / "special_tokens_map.json"
    if special.exists():
        settings |= json.loads(special.read_text(encoding="utf-8"))
    settings["tokenizer_class"] = "PreTrainedTokenizerFast"
    file.write_text(json.dumps(settings, indent=2) + "\n", encoding="utf-8")
