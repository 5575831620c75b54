"""Loading a model and its tokenizer, with one sentence for everything that can be wrong about them."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
import transformers

from headscope.control import Control, read_control
from headscope.errors import HeadscopeError, brief
from headscope.extras import install_line, require
from headscope.models.check import Report, self_check
from headscope.models.forward import collate, pad_token
from headscope.models.given import check_options, given_network
from headscope.models.model import Model
from headscope.models.permuting import permute_weights
from headscope.models.source import Source, find
from headscope.models.spec import ModelSpec
from headscope.windows.template import Template, read_template

if TYPE_CHECKING:
    from torch import nn

NUMBERED = re.compile(r"(.*?)\.(\d+)\.")
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16, "float64": torch.float64}
# Parameters that no attention head depends on: a checkpoint may lack them without changing any number of ours.
AFTER_THE_HEADS = ("pooler.", "contact_head.", "lm_head.", "cls.")
FAST = "save a fast tokenizer (tokenizer.json) into the model's folder: tokenizer.save_pretrained(FOLDER)"
CHECK_TEXTS = ("The lamp in the old harbour was lit again, and the boats came home.", "Nobody saw the lamp.")


def load(
    model: str | Path | nn.Module | None = None,
    tokenizer: Any = None,
    *,
    device: str = "auto",
    dtype: str = "auto",
    revision: str | None = None,
    check: bool = True,
    control: str | None = None,
) -> Model:
    """Load a model: the embedded one, a hub id, a local folder, a GGUF file; or take a network that is already there.

    A network of transformers comes with its tokenizer: `load(network, tokenizer)`. It is used as it is, on its device
    and in its dtype, and its hooks run; of a model with a head on top the base is taken. Only its attention is set to
    "eager", which alone forms the attention weights.

    Weights come from safetensors or GGUF files only and remote code is never run. `device="auto"` takes a GPU where
    there is one. `dtype="auto"` is float32 whatever the file holds, because levels and counts are read off small
    differences. The self-check runs on every model; `check=False` keeps its report in `model.report` instead of
    raising. `control` takes something away, for runs to compare with: "untrained:SEED" gives the architecture fresh
    weights, "permuted:SEED" shuffles the trained ones within each matrix, and under "rotated" the trained model is
    analysed with sentences that mean nothing.

    >>> model = load()
    >>> model
    Model('headscope/bert12', BertModel, encoder 12 layers × 12 heads, cpu, float32)
    >>> load(control="permuted:0").name
    'headscope/bert12 (permuted weights, seed 0)'
    >>> load(model.network, model.tokenizer).network is model.network
    True
    """
    wanted = read_control(control)
    if model is None or isinstance(model, (str, Path)):
        if tokenizer is not None:
            raise HeadscopeError(
                "a tokenizer can be given only with a network that is loaded already",
                "leave it out, or load both yourself: headscope.load(network, tokenizer)",
            )
        name, network, tokenizer = _by_name(model, wanted, device, dtype, revision)
        spec = ModelSpec(_same_elsewhere(model), device, dtype, revision, check, control)
    else:
        check_options(tokenizer, device=device, dtype=dtype, revision=revision)
        (name, network), spec = given_network(model, wanted), None
    _check_tokenizer(name, tokenizer, network)
    template = _template(name, tokenizer)
    report = _check(network, tokenizer, template, name)
    if check:
        remedy = (
            "these numbers would be wrong, so the model is refused; headscope check shows the whole table, and "
            "load(..., check=False) loads it all the same"
        )
        report.raise_if_failed(_name_bad_weights(network) or remedy)
    return Model(name, network, tokenizer, template, report, wanted, spec)


def _by_name(
    name: str | Path | None, control: Control | None, device: str, dtype: str, revision: str | None
) -> tuple[str, Any, Any]:
    """The name, network and tokenizer of files on this disk."""
    source = find(name, revision)
    where, precision = _device(device), _dtype(dtype)
    if where.type == "cpu" and precision == torch.bfloat16 and not cpu_multiplies_bfloat16():
        raise HeadscopeError("this CPU cannot multiply bfloat16 matrices", 'use dtype="float32" or a GPU')
    with _quiet():
        network = _network_under(control, source, precision).to(where).eval()
        return source.name, network, _tokenizer(source)


def _same_elsewhere(name: str | Path | None) -> str | None:
    """A name that means the same wherever this process or another one stands: a path from the root."""
    if name is None:
        return None
    path = Path(name).expanduser()
    return str(path.absolute()) if path.exists() else str(name)


def _device(device: str) -> torch.device:
    if device == "auto":
        if torch.cuda.is_available():
            return torch.device("cuda")
        return torch.device("mps" if torch.backends.mps.is_available() else "cpu")
    try:
        where = torch.device(device)
        torch.zeros(1, device=where)
    except Exception as error:  # each backend fails in its own way where it is missing
        first = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise HeadscopeError(f"the device {device!r} cannot be used: {first}", 'use "cpu" or "auto"') from error
    return where


@cache
def cpu_multiplies_bfloat16() -> bool:
    """Some CPUs announce instructions that then kill the process, so it is tried in a process of its own."""
    code = "import torch; a = torch.ones(64, 64, dtype=torch.bfloat16); (a @ a).sum().item()"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, check=False).returncode == 0


def _dtype(dtype: str) -> torch.dtype:
    if dtype == "auto":
        return torch.float32
    if dtype not in DTYPES:
        raise HeadscopeError(f"no dtype is called {dtype!r}", f"use auto or one of {', '.join(DTYPES)}")
    return DTYPES[dtype]


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep transformers' load report to ourselves: what matters of it becomes an error below."""
    logging: Any = transformers.utils.logging
    before, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    if not sys.stderr.isatty():
        logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(before)
        if bars:
            logging.enable_progress_bar()


def _network(source: Source, dtype: torch.dtype) -> Any:
    options: dict[str, Any] = {"local_files_only": True, "trust_remote_code": False}
    if source.gguf:
        require("reading a GGUF file", "gguf", "accelerate")
        options["gguf_file"] = source.gguf
    try:
        config = transformers.AutoConfig.from_pretrained(source.folder, **options)
        # What the folder lacks, a pooler that nothing here uses, is filled at random: always with the same numbers.
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            network, info = transformers.AutoModel.from_pretrained(
                source.folder,
                config=config,
                dtype=dtype,
                use_safetensors=None if source.gguf else True,
                attn_implementation="eager",  # the only implementation that forms the attention weights
                output_loading_info=True,
                ignore_mismatched_sizes=True,  # they are reported below, with their names
                **options,
            )
    except Exception as error:  # the libraries below raise every kind of exception for a bad folder
        raise _explained(error, source) from error
    text = network.config.get_text_config()
    ahead = max(int(getattr(text, key, 0) or 0) for key in ("num_nextn_predict_layers", "mtp_num_hidden_layers"))
    extra = beyond_the_last_layer(info["unexpected_keys"], network.state_dict(), ahead)
    if extra:
        raise HeadscopeError(
            f"the weights of {source.name!r} have more layers than its config.json declares: {extra}",
            "the configuration is wrong or belongs to another model: fetch the model again",
        )
    lost = [key for key in info["missing_keys"] if not any(part in f"{key}." for part in AFTER_THE_HEADS)]
    if lost or info["mismatched_keys"]:
        shapes = [f"{key[0]} is {tuple(key[1])}, not {tuple(key[2])}" for key in info["mismatched_keys"]]
        wrong = sorted((*lost, *shapes))
        raise HeadscopeError(
            f"the weights of {source.name!r} do not fit its config.json: {len(wrong)} parameters are missing or of "
            f"another shape: {wrong[0]}",
            "the download is incomplete, or the configuration is wrong or belongs to another model: fetch the model "
            "again",
        )
    return network


def _network_under(control: Control | None, source: Source, dtype: torch.dtype) -> Any:
    """The network as trained, or with the weights that a control gives it."""
    network = _network(source, dtype)  # in any case: what is wrong with a folder is wrong with its untrained twin
    if control is None or control.seed is None:
        return network
    if control.kind == "permuted":
        permute_weights(network, control.seed)
        return network
    config = network.config
    del network  # two of them need not fit into memory
    return _untrained(config, source, dtype, control.seed)


def _untrained(config: Any, source: Source, dtype: torch.dtype, seed: int) -> Any:
    """The architecture with the weights that training would begin with, the same for the same seed."""
    try:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            make: Any = transformers.AutoModel.from_config
            return make(config, dtype=dtype, attn_implementation="eager")
    except Exception as error:  # as above: any kind
        raise _explained(error, source) from error


def beyond_the_last_layer(unexpected: Collection[str], expected: Collection[str], ahead: int = 0) -> str:
    """The first weight that belongs to a layer the model was not given, or nothing.

    `ahead` layers more are no surprise: some models keep those that predict further tokens behind the last one.

    >>> beyond_the_last_layer(["bert.layer.2.w", "lm_head.w"], ["layer.0.w", "layer.1.w"])
    'bert.layer.2.w'
    >>> beyond_the_last_layer(["bert.layer.1.old", "cls.w"], ["layer.0.w", "layer.1.w"])
    ''
    """
    last: dict[str, int] = {}
    for key in expected:
        if match := NUMBERED.match(key):
            last[match[1]] = max(last.get(match[1], 0), int(match[2]))
    for key in sorted(unexpected):
        if match := NUMBERED.match(key):
            allowed = (highest + ahead for prefix, highest in last.items() if f".{match[1]}".endswith(f".{prefix}"))
            if any(int(match[2]) > highest for highest in allowed):
                return key
    return ""


def _explained(error: Exception, source: Source) -> HeadscopeError:
    """A sentence of ours for what the libraries below raised for a model."""
    message = " ".join(str(error).split())
    short = message if len(message) < 300 else message[:300] + " …"
    if isinstance(error, ImportError) or "is required when loading a GGUF" in message:
        return HeadscopeError(
            f"{source.name!r} needs a package that is not installed, or a newer one: {short}",
            install_line("gguf") if source.gguf else "install it with pip",
        )
    if "custom code" in message or "trust_remote_code" in message:
        return HeadscopeError(
            f"{source.name!r} needs code of its own to run, and remote code is never run",
            f"use an architecture that transformers {transformers.__version__} has built in",
        )
    return HeadscopeError(
        f"{source.name!r} could not be loaded by transformers {transformers.__version__}: "
        f"{type(error).__name__}: {short}",
        "check that config.json and the weights belong together and that this version knows the architecture",
    )


def _tokenizer(source: Source) -> Any:
    options: dict[str, Any] = {"local_files_only": True, "trust_remote_code": False}
    if source.gguf:
        options["gguf_file"] = source.gguf
    try:
        return transformers.AutoTokenizer.from_pretrained(source.folder, **options)
    except Exception as error:  # as above: any kind
        reason = brief(error)
        raise HeadscopeError(f"the tokenizer of {source.name!r} cannot be loaded: {reason}", FAST) from error


def _check_tokenizer(name: str, tokenizer: Any, network: Any) -> None:
    """It must tell which characters a token stands for, and know about as many tokens as the model."""
    if not getattr(tokenizer, "is_fast", False):
        raise HeadscopeError(
            f"the tokenizer of {name!r} ({type(tokenizer).__name__}) is not a fast one: it does not tell which "
            "characters a token stands for",
            FAST,
        )
    known, rows = len(tokenizer), network.get_input_embeddings().weight.shape[0]
    if known < min(100, rows // 2):
        raise HeadscopeError(
            f"the tokenizer of {name!r} knows {known} tokens, its model {rows}: transformers could not use the "
            "tokenizer files in the folder",
            FAST,
        )


def _template(name: str, tokenizer: Any) -> Template:
    try:
        return read_template(tokenizer)
    except Exception as error:  # the tokenizers library raises bare exceptions
        reason = brief(error, 200)
        raise HeadscopeError(
            f"the tokenizer of {name!r} cannot split a plain word: {type(error).__name__}: {reason}",
            "the tokenizer files are damaged or belong to another model: fetch the model again",
        ) from error


def _check(network: nn.Module, tokenizer: Any, template: Template, name: str) -> Report:
    windows: list[list[int]] = [
        [*template.start, *tokenizer(text, add_special_tokens=False)["input_ids"], *template.end]
        for text in CHECK_TEXTS
    ]
    rows = network.get_input_embeddings().weight.shape[0]  # type: ignore[operator]
    if max(map(max, windows)) >= rows:
        raise HeadscopeError(
            f"the tokenizer of {name!r} makes ids that its model does not have ({rows} embeddings)",
            "the tokenizer belongs to another model: fetch the model again",
        )
    batch = collate([windows[0][:24], windows[1][:12]], pad_token(network.config), network.device)
    try:
        return self_check(network, batch)
    except HeadscopeError:
        raise
    except Exception as error:  # a model that transformers loads but cannot run on plain text
        reason = brief(error)
        raise HeadscopeError(
            f"{type(network).__name__} ({name!r}) cannot be run on a plain text: {type(error).__name__}: {reason}",
            "headscope reads models that take token ids; docs/architectures.md lists those it can",
        ) from error


def _name_bad_weights(network: nn.Module) -> str:
    """Where the first weight that is not a finite number lies, if there is one."""
    bad = (name for name, weight in network.named_parameters() if not bool(weight.isfinite().all()))
    first = next(bad, None)
    return f"{first} holds NaN or infinite values: the file is damaged or training diverged" if first else ""
