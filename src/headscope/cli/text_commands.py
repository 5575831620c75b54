"""Commands that take one text, or a model alone: what can be asked of them."""

from __future__ import annotations

from headscope.choices import GRAINS
from headscope.cli.choices import add_choices
from headscope.cli.options import Commands, add_command, add_look, add_looking, add_method, add_model


def inspect(commands: Commands) -> None:
    """headscope inspect."""
    parser = add_command(
        commands,
        "inspect",
        "show what every head does with one text",
        "Without a text it is read from standard input. --layer shows the heads of one layer, --layer with --head one "
        "head in detail.",
    )
    parser.add_argument("text", nargs="?", help="the text; - for standard input")
    parser.add_argument("--file", help="read the text from this file (default: the text is an argument)")
    parser.add_argument("--encoding", metavar="NAME", help="encoding of the file, for example cp1252 (default: utf-8)")
    parser.add_argument("--pair", help="a second text, for models that read two at once (default: none)")
    parser.add_argument("--model", help="hub id, folder or GGUF file (default: the embedded BERT-12)")
    add_model(parser)
    look = parser.add_argument_group("where to look")
    look.add_argument("--layer", type=int, help="show the heads of this layer, from 0 (default: a row for every layer)")
    look.add_argument("--head", type=int, help="with --layer: show this head in detail, from 0 (default: all heads)")
    add_looking(look)
    look.add_argument("--heads", action="store_true", help="a row for every head of every layer")
    look.add_argument(
        "--pairs", type=int, default=15, help="how many of a head's strongest pairs to list (default: 15)"
    )
    add_method(parser)
    out = parser.add_argument_group("output")
    out.add_argument(
        "--save", metavar="DIR", help="write inspection.nc and figures into this folder (default: write nothing)"
    )
    out.add_argument(
        "--format",
        action="append",
        choices=("png", "svg", "pdf"),
        help="format of the saved figures; may be given more than once (default: png)",
    )
    add_look(parser)
    out.add_argument("--json", action="store_true", help="print one JSON object instead of tables")


def view(commands: Commands) -> None:
    """headscope view."""
    parser = add_command(
        commands,
        "view",
        "look at a text or a run in the browser, or write the view as one file",
        "Without a text a shipped passage is shown, and any text can be typed in the browser. The server listens on "
        "this machine only, unless --host says otherwise; Ctrl-C ends it.",
    )
    parser.add_argument(
        "what", nargs="?", metavar="TEXT|RUN|FILE",
        help="a text, a run's folder, or a .nc file: a result, or an inspection that was saved",
    )  # fmt: skip
    parser.add_argument("--file", help="read the text from this file (default: the text is an argument)")
    parser.add_argument("--encoding", metavar="NAME", help="encoding of the file, for example cp1252 (default: utf-8)")
    parser.add_argument("--model", help="hub id, folder or GGUF file (default: the embedded BERT-12)")
    add_model(parser)
    parser.add_argument(
        "--control",
        nargs="+",
        default=[],
        metavar="RUN",
        help="with a run: control runs of the same model (default: none)",
    )
    where = parser.add_argument_group("where")
    where.add_argument("--html", metavar="FILE", help="write one self-contained page (default: start a server)")
    where.add_argument("--port", type=int, default=0, help="port of the server (default: a free one)")
    where.add_argument(
        "--host", metavar="ADDRESS",
        help="listen on a network too, for a phone or another machine: an IPv4 address of this machine, or 0.0.0.0 for "
        "all it has (default: 127.0.0.1, this machine alone); whoever has the printed address can look and type, and "
        "nothing is encrypted",
    )  # fmt: skip
    where.add_argument("--no-open", action="store_true", help="only print the address, open no browser")
    look = parser.add_argument_group("where to look")
    look.add_argument("--layer", type=int, help="the layer to begin with, from 0 (default: the last)")
    look.add_argument("--head", type=int, help="the head to begin with, from 0 (default: one that stands out)")
    look.add_argument(
        "--layers", metavar="LIST", help="keep only these layers of the text, for example 0,5,10-11 (default: all)"
    )
    add_looking(look)
    add_method(parser)


def segment(commands: Commands) -> None:
    """headscope segment."""
    parser = add_command(
        commands,
        "segment",
        "cut a text where the heads of a model cut it: into topics, or into sentences",
        "For the embedded model it is known which heads cut texts; for another model, --fit learns it from any "
        "collection of texts.",
    )
    parser.add_argument("file", nargs="?", metavar="FILE", help="the text; - or nothing for standard input")
    parser.add_argument("--encoding", metavar="NAME", help="encoding of the file, for example cp1252 (default: utf-8)")
    parser.add_argument("--model", help="hub id, folder or GGUF file (default: the embedded BERT-12)")
    add_model(parser)
    parser.add_argument(
        "--heads",
        metavar="FILE",
        help="file of the weights of the model's heads, which --fit writes (default: the embedded model's)",
    )
    cut = parser.add_argument_group("where to cut")
    cut.add_argument(
        "--grain",
        choices=GRAINS,
        default=GRAINS[0],
        help="topics (default), or sentences in text without punctuation and case",
    )
    cut.add_argument("--segments", type=int, metavar="N", help="how many segments (default: as many as are found)")
    cut.add_argument(
        "--max-tokens",
        type=int,
        metavar="N",
        help="the most tokens that a segment may have, for retrieval (default: no limit)",
    )
    cut.add_argument("--longest", type=int, metavar="N", help="the most sentences that a topic may have (default: 128)")
    cut.add_argument(
        "--words",
        type=float,
        metavar="N",
        help="with --grain sentences: how many words a sentence has on average (default: 15)",
    )
    add_choices(cut, "language")
    out = parser.add_argument_group("output")
    out.add_argument("--out", metavar="FILE", help="write a .txt, .jsonl or .html file (default: print)")
    out.add_argument(
        "--format", choices=("text", "jsonl", "html"), help="format of the output (default: by the name of --out)"
    )
    fit = parser.add_argument_group("learning which heads cut texts")
    fit.add_argument(
        "--fit",
        nargs="+",
        metavar="TEXTS",
        help="learn which heads cut texts from these, named as for analyze (default: cut a text)",
    )
    fit.add_argument("--passages", type=int, metavar="N", help="how many passages of them to read (default: 4,000)")
    fit.add_argument("--text-field", default="text", metavar="NAME", help="field or column of the text (default: text)")
    fit.add_argument(
        "--cluster-field", metavar="NAME", help="field or column that texts about one thing share (default: none)"
    )
    fit.add_argument("--seed", type=int, default=0, help="seed of what is drawn at random (default: 0)")


def demo(commands: Commands) -> None:
    """headscope demo."""
    parser = add_command(
        commands, "demo", "inspect a shipped passage with the embedded model and explain what was found"
    )
    parser.add_argument("--out", default="demo", help="folder for the figures and the dataset (default: demo)")


def check(commands: Commands) -> None:
    """headscope check."""
    parser = add_command(
        commands, "check", "check that a model's heads are read correctly, and print what was compared"
    )
    parser.add_argument("model", nargs="?", help="hub id, folder or GGUF file (default: the embedded BERT-12)")
    add_model(parser)


def convert(commands: Commands) -> None:
    """headscope convert."""
    parser = add_command(
        commands,
        "convert",
        "write a copy of a model folder with safetensors weights instead of pickled ones",
        "Only tensors are unpickled, never code.",
    )
    parser.add_argument("folder", help="the model's folder, with config.json and pytorch_model.bin")
    parser.add_argument("out", help="the folder to write: a new or an empty one")
    parser.add_argument(
        "--tokenizer", metavar="FILE", help="a tokenizer.json to put beside the weights (default: the folder's own)"
    )
