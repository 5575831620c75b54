"""The command line's words: what can be asked, with which options. Nothing here imports torch."""

from __future__ import annotations

import argparse

from headscope.choices import ENGINE_NAMES, GRAINS, PATH_NAMES, SPLITS, STACKS
from headscope.cli.choices import add_choices
from headscope.control import USUAL
from headscope.look import read_width
from headscope.version import __version__

DESCRIPTION = "What every attention head of a transformer makes of a text, read from the heads' outputs."


def build_parser() -> argparse.ArgumentParser:
    """The whole command line."""
    parser = argparse.ArgumentParser(prog="headscope", description=DESCRIPTION)
    parser.add_argument("--version", action="version", version=f"headscope {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    _inspect(commands)
    _view(commands)
    _segment(commands)
    _analyze(commands)
    _merge(commands)
    _findings(commands)
    _figures(commands)
    _report(commands)
    _reproduce(commands)
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
    parser.add_argument(
        "--dtype", default="auto", help="float32, bfloat16, float16, float64 or auto (default: auto, which is float32)"
    )
    parser.add_argument("--revision", help="branch, tag or commit of a hub model (default: its main branch)")


def _inspect(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = _command(
        commands,
        "inspect",
        "show what every head does with one text",
        "Without a text it is read from standard input. --layer shows the heads of one layer, --layer with --head one "
        "head in detail.",
    )
    parser.add_argument("text", nargs="?", help="the text; - for standard input")
    parser.add_argument("--file", help="read the text from this file (default: the text is given as words)")
    parser.add_argument("--encoding", metavar="NAME", help="encoding of the file, for example cp1252 (default: utf-8)")
    parser.add_argument("--pair", help="a second text, for models that read two at once (default: none)")
    parser.add_argument("--model", help="hub id, folder or GGUF file (default: the embedded BERT-12)")
    _model(parser)
    look = parser.add_argument_group("where to look")
    look.add_argument("--layer", type=int, help="show the heads of this layer, from 0 (default: a row for every layer)")
    look.add_argument("--head", type=int, help="with --layer: show this head in detail, from 0 (default: all heads)")
    _looking(look)
    look.add_argument("--heads", action="store_true", help="a row for every head of every layer")
    look.add_argument(
        "--pairs", type=int, default=15, help="how many of a head's strongest pairs to list (default: 15)"
    )
    _choices(parser)
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
    _look(parser)
    out.add_argument("--json", action="store_true", help="print one JSON object instead of tables")


def _view(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = _command(
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
    parser.add_argument("--file", help="read the text from this file (default: the text is given as words)")
    parser.add_argument("--encoding", metavar="NAME", help="encoding of the file, for example cp1252 (default: utf-8)")
    parser.add_argument("--model", help="hub id, folder or GGUF file (default: the embedded BERT-12)")
    _model(parser)
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
    where.add_argument("--no-open", action="store_true", help="print the address, open no browser")
    look = parser.add_argument_group("where to look")
    look.add_argument("--layer", type=int, help="the layer to begin with, from 0 (default: the last)")
    look.add_argument("--head", type=int, help="the head to begin with, from 0 (default: one that stands out)")
    look.add_argument(
        "--layers", metavar="LIST", help="keep only these layers of the text, for example 0,5,10-11 (default: all)"
    )
    _looking(look)
    _choices(parser)


def _looking(look: argparse._ArgumentGroup) -> None:
    """Which part of a text and of a model is looked at."""
    look.add_argument(
        "--stack",
        choices=STACKS,
        help="which attention, in a model with several (default: the first of these that it has)",
    )
    add_choices(look, "window")
    look.add_argument("--start", type=int, default=0, help="the text's token that the window starts with (default: 0)")


def _choices(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("choices of the method")
    add_choices(group, "tau", "theta", "readings", "scale", "repeated", "special", "language")


def _segment(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = _command(
        commands,
        "segment",
        "cut a text where the heads of a model cut it: into topics, or into sentences",
        "The embedded model knows which of its heads do; for another, --fit learns it from any collection of texts.",
    )
    parser.add_argument("file", nargs="?", metavar="FILE", help="the text; - or nothing for standard input")
    parser.add_argument("--encoding", metavar="NAME", help="encoding of the file, for example cp1252 (default: utf-8)")
    parser.add_argument("--model", help="hub id, folder or GGUF file (default: the embedded BERT-12)")
    _model(parser)
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
        "--words", type=float, metavar="N", help="with --grain sentences: words of a sentence on average (default: 15)"
    )
    add_choices(cut, "language")
    out = parser.add_argument_group("output")
    out.add_argument("--out", metavar="FILE", help="write a .txt, .jsonl or .html file (default: print)")
    out.add_argument(
        "--format", choices=("text", "jsonl", "html"), help="format of the output (default: as the name of --out tells)"
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


def _analyze(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = _command(
        commands,
        "analyze",
        "run a collection of texts through a model and add up what its heads do",
        "The same command again resumes a run that was stopped.",
    )
    parser.add_argument(
        "texts",
        nargs="+",
        help="files, folders, patterns (plain text, JSONL, CSV, Parquet; .gz, .zst, .xz), -, hf:NAME or passages:",
    )
    parser.add_argument(
        "--out", metavar="RUN", help="folder for the run, of this disk or of a store: s3://BUCKET/RUN (no default: it "
        "must be named, except with --dry-run)",
    )  # fmt: skip
    parser.add_argument("--model", help="hub id, folder or GGUF file (default: the embedded BERT-12)")
    _model(parser)
    parser.add_argument(
        "--control",
        metavar="CONTROL",
        help="a run to compare others with: untrained:SEED (fresh weights), permuted:SEED (trained weights, shuffled "
        "within each matrix) or rotated (the trained model; sentences moved round, so that they mean nothing) "
        "(default: none)",
    )
    _reading(parser)
    _choices(parser)
    parser.add_argument("--layers", metavar="LIST", help="only these layers, for example 0,5,10-11 (default: all)")
    parser.add_argument(
        "--relation",
        action="append",
        default=[],
        metavar="FILE.py:FUNCTION",
        help="a relation of your own: a function from a window to a list of labels; may be given more than once "
        "(default: none)",
    )
    work = parser.add_argument_group("the work")
    work.add_argument("--dry-run", action="store_true", help="measure a few batches; tell time, memory and disk")
    work.add_argument("--per-text", action="store_true", help="also write a row per text, layer and head")
    work.add_argument("--batch-size", type=int, metavar="N", help="windows in a batch (default: measured)")
    work.add_argument(
        "--shard-size", type=int, metavar="N", help="texts in a shard (default: a 32nd, 1,024 at most, or a 4,096th)"
    )
    _working(work)
    work.add_argument("--heads", action="store_true", help="print a row for every head, not for every layer")
    many = parser.add_argument_group("several processes, or a cluster", "The result is the same, to the last byte.")
    many.add_argument(
        "--engine", choices=ENGINE_NAMES, help="who computes: this machine (default), or a cluster of Ray's (ray)"
    )
    many.add_argument(
        "--workers", type=int, metavar="N",
        help="processes that compute, each with a model of its own and --threads cores (default: this process; with "
        "--engine ray one for each GPU or node)",
    )  # fmt: skip
    many.add_argument(
        "--ray-address", metavar="A", help="the cluster's head, HOST:PORT or auto (default: as Ray finds it)"
    )
    many.add_argument(
        "--gpus-per-worker", type=float, default=0, metavar="G", help="graphics cards of each worker (default: 0)"
    )


def _merge(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = _command(
        commands,
        "merge",
        "add the results of runs of different texts to one",
        "Runs add up where everything that decides their numbers is the same: model, window, readings and the like.",
    )
    parser.add_argument("runs", nargs="+", metavar="RUN", help="runs' folders, or their result.nc; two or more")
    parser.add_argument("--out", required=True, metavar="DIR", help="a new folder for the sum")
    parser.add_argument("--heads", action="store_true", help="print a row for every head, not for every layer")
    parser.add_argument("--quiet", action="store_true", help="print nothing but errors")
    parser.add_argument("--json", action="store_true", help="print the summary as JSON")


def _working(work: argparse._ArgumentGroup) -> None:
    work.add_argument("--threads", type=int, metavar="N", help="cores to use (default: all)")
    work.add_argument(
        "--path",
        choices=PATH_NAMES,
        help="who counts: loops on the CPU, plain torch, a graphics card's kernels (default: the fastest there is)",
    )
    work.add_argument("--quiet", action="store_true", help="print nothing but errors")
    work.add_argument("--json", action="store_true", help="print JSON: progress on standard error, the summary last")


def _reading(parser: argparse.ArgumentParser) -> None:
    read = parser.add_argument_group("reading texts")
    read.add_argument(
        "--text-field", default="text", metavar="NAME", help="field or column of the text (default: text)"
    )
    read.add_argument(
        "--group-field", metavar="NAME", help="field or column of the group; groups are kept apart (default: no groups)"
    )
    read.add_argument(
        "--cluster-field",
        metavar="NAME",
        help="field or column of the cluster: neighbours of one are kept together (default: no clusters)",
    )
    read.add_argument("--id-field", default="id", metavar="NAME", help="field or column of the id (default: id)")
    read.add_argument(
        "--split", choices=SPLITS, help="what one text of a plain file is (default: a line, or in a folder the file)"
    )
    read.add_argument(
        "--format",
        choices=("text", "jsonl", "csv", "parquet"),
        help="format of the files (default: as their names tell)",
    )
    read.add_argument("--encoding", metavar="NAME", help="encoding of the files (default: UTF-8, or as found)")
    read.add_argument(
        "--delimiter", metavar="C", help="character between the cells of CSV, for example ; or tab (default: as found)"
    )
    read.add_argument(
        "--header", action=argparse.BooleanOptionalAction,
        help="whether the first row of CSV names the columns (default: as found); without it they are called 1, 2, …",
    )  # fmt: skip
    read.add_argument("--limit", type=int, metavar="N", help="only the first N texts (default: all)")
    read.add_argument("--sample", type=int, metavar="N", help="only N texts drawn at random (default: all)")
    add_choices(read, "seed")
    read.add_argument("--strict", action="store_true", help="fail where a record holds no text")
    cut = parser.add_argument_group("windows")
    add_choices(cut, "window", "windows")


def _finished(parser: argparse.ArgumentParser) -> None:
    """What every command on a finished run takes."""
    parser.add_argument("run", metavar="RUN", help="a run's folder or a result.nc")
    parser.add_argument(
        "--stack",
        choices=STACKS,
        help="which attention, in a model with several (default: the first of these that it has)",
    )
    parser.add_argument(
        "--tau", type=float, help="τ: the level from which a pair is high, in steps of 0.05 (default: the run's)"
    )
    parser.add_argument(
        "--control",
        nargs="+",
        default=[],
        metavar="RUN",
        help="control runs of the same model (analyze --control): shows what remains without what was taken away "
        "(default: none)",
    )


def _findings(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = _command(
        commands,
        "findings",
        "compare every claim of the paper with a run: number, interval, controls, verdict",
    )
    _finished(parser)
    parser.add_argument("--attention", action="store_true", help="also S against attention, layer by layer")
    parser.add_argument("--sensitivity", action="store_true", help="also the claims' numbers at other thresholds")
    parser.add_argument("--heads", action="store_true", help="also which heads are stable specialists, which noise")
    parser.add_argument(
        "--draws", type=int, default=1000, metavar="N", help="number of draws of the bootstrap (default: 1000)"
    )
    parser.add_argument("--seed", type=int, default=0, help="seed of the bootstrap (default: 0)")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of tables")


def _figures(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = _command(commands, "figures", "draw the figures of the paper, and more, for a run")
    _finished(parser)
    parser.add_argument("--out", required=True, metavar="DIR", help="folder for the figures")
    parser.add_argument(
        "--format",
        action="append",
        choices=("svg", "pdf", "png"),
        help="format of the figures; may be given more than once (default: svg)",
    )
    parser.add_argument(
        "--only",
        action="append",
        metavar="NAME",
        help="only this figure; may be given more than once (default: all figures)",
    )
    parser.add_argument(
        "--model",
        help="the model that was analysed, for the figure of one head and to mark examples (default: the embedded "
        "one, where it was analysed)",
    )
    _look(parser)


def _look(parser: argparse.ArgumentParser) -> None:
    """How figures look: the fields of `headscope.look.Look`."""
    look = parser.add_argument_group("how saved figures look")
    look.add_argument(
        "--width", metavar="WIDTH", type=read_width,
        help="column (3.5 in), page (7.2 in), or a number of inches (default: each figure's own, for a screen)",
    )  # fmt: skip
    look.add_argument("--font", metavar="FAMILY", help="font family, for example Helvetica (default: DejaVu Sans)")
    look.add_argument(
        "--font-size", type=float, metavar="POINTS",
        help="size of axis labels; other text follows (default 7.5 up to the width of a page, 9 beyond)",
    )  # fmt: skip
    look.add_argument("--no-title", dest="title", action="store_false", help="leave out the title above the figure")
    look.add_argument("--no-caption", dest="caption", action="store_false", help="leave out the caption below it")
    look.add_argument(
        "--letters", nargs="?", const=True, default=False, metavar="FIRST",
        help="letters on the panels: a, b, c, or as the first is given, for example A or '(d)'",
    )  # fmt: skip
    look.add_argument(
        "--dpi", type=int, metavar="N", help="dots per inch of PNG (default 300 up to the width of a page, 160 beyond)"
    )


def _report(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = _command(commands, "report", "write findings, figures and examples of a run as one web page")
    _finished(parser)
    parser.add_argument("--out", required=True, metavar="FILE", help="the page, for example report.html")
    parser.add_argument(
        "--model",
        help="the model that was analysed, for the figure of one head and to mark examples (default: the embedded "
        "one, where it was analysed)",
    )


def _reproduce(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = _command(
        commands,
        "reproduce",
        "analyse texts, then controls, and write findings, figures and a report",
        "The same command again resumes where it was stopped.",
    )
    parser.add_argument(
        "--texts", nargs="+", required=True, help="files, folders, patterns and the like, as for analyze"
    )
    parser.add_argument("--out", required=True, metavar="DIR", help="folder for everything")
    parser.add_argument("--model", help="hub id, folder or GGUF file (default: the embedded BERT-12)")
    _model(parser)
    parser.add_argument(
        "--controls",
        nargs="*",
        default=list(USUAL),
        metavar="CONTROL",
        help=f"control runs to compare with, as for analyze --control (default: {' '.join(USUAL)}); none: no names",
    )
    parser.add_argument(
        "--control-texts", type=int, default=1000, metavar="N", help="how many texts they read (default: 1000)"
    )
    _reading(parser)
    _choices(parser)
    work = parser.add_argument_group("the work")
    work.add_argument(
        "--figure-format",
        action="append",
        choices=("svg", "pdf", "png"),
        help="format of the figures; may be given more than once (default: svg)",
    )
    _working(work)


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
    parser.add_argument(
        "--tokenizer", metavar="FILE", help="a tokenizer.json to put beside the weights (default: the folder's own)"
    )


def _demo(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = _command(commands, "demo", "inspect a shipped passage with the embedded model and explain what was found")
    parser.add_argument("--out", default="demo", help="folder for the figures and the dataset (default: demo)")
