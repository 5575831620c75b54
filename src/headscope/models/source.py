"""Where a model comes from: every name is turned into a local folder or file that has been looked at first.

The hub is only a way to get a folder. What is in the folder is untrusted: no pickled weights, no code, and a clear
word on what is missing before any of it is parsed by the libraries below.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headscope.errors import HeadscopeError, brief

EMBEDDED = "headscope/bert12"
HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?")
FETCH_AGAIN = "the download is incomplete or damaged: fetch the model again"
NEEDED = frozenset(("hidden_size", "num_attention_heads", "num_hidden_layers", "vocab_size"))
SIZES = NEEDED | frozenset(
    "num_key_value_heads intermediate_size num_labels max_position_embeddings n_positions n_ctx n_layer n_head n_embd "
    "n_inner num_layers num_heads d_model d_ff d_kv dim n_layers n_heads hidden_dim encoder_layers decoder_layers "
    "encoder_ffn_dim decoder_ffn_dim ffn_dim type_vocab_size embedding_size head_dim num_experts".split()
)
LARGEST_SIZE, MOST_LAYERS = 10_000_000, 2_000
PICKLED = ("*.bin", "*.pt", "*.pth", "*.ckpt", "*.pkl")
TOKENIZER_FILES = ("tokenizer.json", "vocab.txt", "vocab.json", "*.model", "tokenizer.tiktoken", "tekken.json")
OFFLINE_REMEDY = (
    "without a network use the embedded model (leave the name out) or the path of a folder that holds config.json, "
    "*.safetensors and tokenizer.json"
)


@dataclass(frozen=True, slots=True)
class Source:
    """A model on this disk. `gguf` is the file's name within `folder` where the weights are in that format."""

    name: str
    folder: Path
    gguf: str | None = None


def find(name: str | Path | None, revision: str | None = None) -> Source:
    """Turn what the user calls a model into files on this disk, or say what is wrong.

    >>> find(None).name
    'headscope/bert12'
    >>> find("./no/such/folder")
    Traceback (most recent call last):
    headscope.errors.HeadscopeError: there is no file or folder './no/such/folder'. To fix it: check the path; ...
    """
    if name is None or str(name) == EMBEDDED:
        return Source(EMBEDDED, Path(__file__).parent.parent / "data" / "bert12")
    try:
        path = Path(name).expanduser()
        is_file, is_folder = path.is_file(), path.is_dir()
    except (OSError, RuntimeError, ValueError) as error:  # no such user, a name longer than names may be, a NUL in it
        raise HeadscopeError(f"{str(name)[:100]!r} is neither a path nor a hub id", OFFLINE_REMEDY) from error
    if is_file:
        if path.suffix.lower() != ".gguf":
            raise HeadscopeError(
                f"{str(path)!r} is a file but not a GGUF file", "give the model's folder, a .gguf file or a hub id"
            )
        _check_gguf(path)
        return Source(str(name), path.parent, path.name)
    if is_folder:
        return _from_folder(path, str(name))
    if isinstance(name, Path) or not HUB_ID.fullmatch(name):
        raise HeadscopeError(
            f"there is no file or folder {str(name)!r}",
            "check the path; a model of the hub is named like 'google-bert/bert-base-uncased'",
        )
    return _from_folder(_from_hub(name, revision), name)


def _from_folder(folder: Path, name: str) -> Source:
    gguf = sorted(folder.glob("*.gguf"))
    if not (folder / "config.json").exists() and gguf:
        if len(gguf) > 1:
            listed = ", ".join(file.name for file in gguf[:5])
            raise HeadscopeError(f"{name!r} holds several GGUF files ({listed})", "name one of the files")
        _check_gguf(gguf[0])
        return Source(name, folder, gguf[0].name)
    _check_config(folder, name)
    _check_weights(folder, name)
    if not any(next(folder.glob(pattern), None) for pattern in TOKENIZER_FILES):
        raise HeadscopeError(
            f"{name!r} holds no tokenizer ({', '.join(TOKENIZER_FILES[:3])} …)",
            "save the model's tokenizer into the folder: tokenizer.save_pretrained(FOLDER)",
        )
    return Source(name, folder)


def read_json(file: Path, name: str) -> Any:
    """A JSON file of a model folder, or an error that names it."""
    try:
        return json.loads(file.read_text(encoding="utf-8"))
    except (ValueError, OSError, RecursionError) as error:
        reason = brief(error, 200)
        raise HeadscopeError(f"the {file.name} of {name!r} cannot be read: {reason}", FETCH_AGAIN) from error


def _check_config(folder: Path, name: str) -> None:
    if not (folder / "config.json").exists():
        raise HeadscopeError(
            f"{name!r} is not a model folder: it has no config.json",
            "give a folder as written by model.save_pretrained(FOLDER), with config.json, weights and tokenizer",
        )
    config = read_json(folder / "config.json", name)
    if not isinstance(config, dict) or not isinstance(config.get("model_type"), str):
        raise HeadscopeError(
            f"the config.json of {name!r} names no model_type", "it must be a transformers configuration"
        )
    _check_sizes(config, name)


def _check_sizes(config: dict[str, Any], name: str) -> None:
    """Refuse sizes that no model has, before memory is set aside for them."""
    for key, value in config.items():
        if isinstance(value, dict) and key.endswith("_config"):
            _check_sizes(value, name)
        if key not in SIZES or value is None or isinstance(value, list):
            continue
        most = MOST_LAYERS if "layer" in key else LARGEST_SIZE
        if isinstance(value, bool) or not isinstance(value, int) or value > most or (key in NEEDED and value < 1):
            raise HeadscopeError(
                f"the config.json of {name!r} says {key} = {value!r}",
                "the configuration is damaged or belongs to another model: fetch it again",
            )


def _check_weights(folder: Path, name: str) -> None:
    weights = sorted(folder.glob("*.safetensors"))
    index = folder / "model.safetensors.index.json"
    if index.exists():
        weights = _indexed(folder, index, name)
    if not weights:
        if any(next(folder.glob(pattern), None) for pattern in PICKLED):
            raise HeadscopeError(
                f"the weights of {name!r} are pickled, and unpickling can run any code",
                f"convert them once, without running any: headscope convert {folder} OUT, then load OUT",
            )
        raise HeadscopeError(f"{name!r} holds no weights (*.safetensors)", FETCH_AGAIN)
    for file in weights:
        _check_safetensors(file)


def _indexed(folder: Path, index: Path, name: str) -> list[Path]:
    """The files that an index names: safetensors in this folder, and all of them there."""
    content = read_json(index, name)
    places = content.get("weight_map") if isinstance(content, dict) else None
    if not isinstance(places, dict) or not places or not all(isinstance(file, str) for file in places.values()):
        raise HeadscopeError(f"{index.name} of {name!r} lists no weights", FETCH_AGAIN)
    wanted = sorted(set(places.values()))
    strange = next((file for file in wanted if Path(file).name != file or not file.endswith(".safetensors")), None)
    if strange is not None:
        raise HeadscopeError(
            f"{index.name} of {name!r} names {strange!r}", "only safetensors files in the folder itself are read"
        )
    missing = [file for file in wanted if not (folder / file).exists()]
    if missing:
        raise HeadscopeError(f"{name!r} lacks {len(missing)} of {len(wanted)} weight files, {missing[0]}", FETCH_AGAIN)
    return [folder / file for file in wanted]


def _check_safetensors(file: Path) -> None:
    """Read the header, which lists every tensor and where it ends, against the size of the file."""
    from safetensors import SafetensorError, safe_open

    try:
        with file.open("rb") as opened_raw:
            start = opened_raw.read(20)
        if start.startswith(b"version https://git"):
            raise HeadscopeError(f"{file.name} is a Git LFS pointer, not the weights", "run: git lfs pull")
        with safe_open(file, framework="np") as opened:
            opened.keys()
    except (SafetensorError, OSError) as error:
        raise HeadscopeError(f"{file.name} is not a whole safetensors file: {error}", FETCH_AGAIN) from error


def _check_gguf(file: Path) -> None:
    with file.open("rb") as opened:
        if opened.read(4) != b"GGUF":
            raise HeadscopeError(
                f"{file.name} does not begin like a GGUF file", "the download is damaged: fetch the file again"
            )


def _from_hub(name: str, revision: str | None) -> Path:
    import huggingface_hub
    from huggingface_hub.errors import GatedRepoError, HFValidationError, RepositoryNotFoundError, RevisionNotFoundError

    wanted = ["*.json", "*.safetensors", *TOKENIZER_FILES, "*.txt"]
    try:
        downloaded = huggingface_hub.snapshot_download(
            name, revision=revision, allow_patterns=wanted, ignore_patterns=["*/*"]
        )
    except HFValidationError as error:
        raise HeadscopeError(f"{name!r} is neither a folder nor a hub id", OFFLINE_REMEDY) from error
    except GatedRepoError as error:
        raise HeadscopeError(
            f"{name!r} is gated on the hub", "accept its terms there, then run: hf auth login"
        ) from error
    except RevisionNotFoundError as error:
        raise HeadscopeError(f"{name!r} has no revision {revision!r}", "check the branch, tag or commit") from error
    except RepositoryNotFoundError as error:
        raise HeadscopeError(f"the hub knows no model {name!r}", f"check the spelling; {OFFLINE_REMEDY}") from error
    except Exception as error:  # no network, offline mode, nothing in the cache, an answer that makes no sense
        raise HeadscopeError(
            f"{name!r} is not a folder here and could not be fetched from the hub", OFFLINE_REMEDY
        ) from error
    folder = Path(downloaded)
    if not next(folder.glob("*.safetensors"), None):
        raise HeadscopeError(
            f"{name!r} has no safetensors weights on the hub, and pickled ones are not loaded",
            f"hf download {name} --local-dir FOLDER; headscope convert FOLDER OUT; then load OUT",
        )
    return folder
