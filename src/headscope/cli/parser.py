"""The command line's words: what can be asked, with which options. Nothing here imports torch."""

from __future__ import annotations

import argparse

from headscope import __version__

DESCRIPTION = "What every attention head of a transformer makes of a text, read from the heads' outputs."


def build_parser() -> argparse.ArgumentParser:
    """The whole command line."""
    parser = argparse.ArgumentParser(prog="headscope", description=DESCRIPTION)
    parser.add_argument("--version", action="version", version=f"headscope {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    _inspect(commands)
    _check(commands)
    _convert(commands)
    _demo(commands)
    return parser


def _command(
    commands: argparse._SubParsersAction[argparse.ArgumentParser], name: str, help_: str, more: str = ""
) -> argparse.ArgumentParser:
    parser = commands.add_parser(name, help=help_, description=f"{help_[0].upper()}{help_[1:]}. {more}".strip())
    parser.add_argument("--debug", action="store_true", help="show the traceback of an error")
    return parser


def _model(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--device", default="auto", help="cpu, cuda, mps or auto (default: a GPU where there is one)")
    parser.add_argument("--dtype", default="auto", help="float32 (default), bfloat16, float16 or float64")
    parser.add_argument("--revision", help="branch, tag or commit of a hub model")


def _inspect(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = _command(
        commands,
        "inspect",
        "show what every head does with one text",
        "Without a text it is read from standard input. --layer shows the heads of one layer, --layer with --head one "
        "head in detail.",
    )
    parser.add_argument("text", nargs="?", help="the text; - for standard input")
    parser.add_argument("--file", help="read the text from this UTF-8 file")
    parser.add_argument("--pair", help="a second text, for models that read two at once")
    parser.add_argument("--model", help="hub id, folder or GGUF file (default: the embedded BERT-12)")
    _model(parser)
    look = parser.add_argument_group("where to look")
    look.add_argument("--layer", type=int, help="one layer, from 0")
    look.add_argument("--head", type=int, help="one head of that layer, from 0")
    look.add_argument("--stack", choices=("encoder", "decoder", "cross"), help="which attention, in a model of several")
    look.add_argument("--window", type=int, help="tokens in the window (default 128, or what the model takes)")
    look.add_argument("--start", type=int, default=0, help="the text's token that the window starts with (default 0)")
    look.add_argument("--pairs", type=int, default=15, help="how many of a head's strongest pairs to list (default 15)")
    choices = parser.add_argument_group("choices of the method")
    choices.add_argument("--tau", type=float, default=0.5, help="level of a high pair, in steps of 0.05 (default 0.5)")
    choices.add_argument("--theta", type=float, default=0.3, help="threshold of high attention (default 0.3)")
    choices.add_argument("--similarity", choices=("dot", "cosine"), default="dot", help="default: dot")
    choices.add_argument("--scale", choices=("max", "rank"), default="max", help="how levels are scaled (default: max)")
    choices.add_argument(
        "--repeated",
        choices=("token", "word"),
        default="token",
        help="what makes a repetition: the same token (default) or the same word",
    )
    choices.add_argument("--special", action="store_true", help="let special tokens take part in the pairs")
    choices.add_argument("--language", default="en", help="language for splitting sentences (default en)")
    out = parser.add_argument_group("output")
    out.add_argument("--save", metavar="DIR", help="write inspection.nc and figures into this folder")
    out.add_argument(
        "--format",
        action="append",
        choices=("png", "svg", "pdf"),
        help="format of the saved figures; may be given more than once (default: png)",
    )
    out.add_argument("--json", action="store_true", help="print one JSON object instead of tables")


def _check(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = _command(commands, "check", "check that a model's heads are read right, and print every equality")
    parser.add_argument("model", nargs="?", help="hub id, folder or GGUF file (default: the embedded BERT-12)")
    _model(parser)


def _convert(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = _command(
        commands,
        "convert",
        "write a copy of a model folder with safetensors weights instead of pickled ones",
        "Only tensors are unpickled, never code.",
    )
    parser.add_argument("folder", help="the model's folder, with config.json and pytorch_model.bin")
    parser.add_argument("out", help="the folder to write; it must not exist or be empty")
    parser.add_argument("--tokenizer", metavar="FILE", help="a tokenizer.json to put beside the weights")


def _demo(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = _command(commands, "demo", "inspect a shipped passage with the embedded model and explain what was found")
    parser.add_argument("--out", default="demo", help="folder for the figures and the dataset (default: demo)")
