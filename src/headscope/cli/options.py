"""Options that several commands take: each is declared once."""

from __future__ import annotations

import argparse
from typing import TypeAlias

from headscope.choices import PATH_NAMES, SPLITS, STACKS
from headscope.cli.choices import add_choices
from headscope.look import read_width
from headscope.texts.options import FORMATS

Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"


def add_command(commands: Commands, name: str, help_: str, more: str = "") -> argparse.ArgumentParser:
    """A command, with what help says of it."""
    parser = commands.add_parser(name, help=help_, description=f"{help_[0].upper()}{help_[1:]}. {more}".strip())
    parser.add_argument("--debug", action="store_true", help="show the traceback of an error")
    return parser


def add_model(parser: argparse.ArgumentParser) -> None:
    """How a model is loaded."""
    parser.add_argument("--device", default="auto", help="cpu, cuda, mps or auto (default: a GPU where there is one)")
    parser.add_argument(
        "--dtype", default="auto", help="float32, bfloat16, float16, float64 or auto (default: auto, which is float32)"
    )
    parser.add_argument("--revision", help="branch, tag or commit of a hub model (default: its main branch)")


def add_looking(look: argparse._ArgumentGroup) -> None:
    """Which part of a text and of a model is looked at."""
    look.add_argument(
        "--stack",
        choices=STACKS,
        help="which attention stack, in a model with several (default: the first of these that it has)",
    )
    add_choices(look, "window")
    look.add_argument(
        "--start", type=int, default=0, help="number of the text's token that the window starts with (default: 0)"
    )


def add_method(parser: argparse.ArgumentParser) -> None:
    """The choices that the method leaves open."""
    group = parser.add_argument_group("choices of the method")
    add_choices(group, "tau", "theta", "readings", "scale", "repeated", "special", "language")


def add_look(parser: argparse.ArgumentParser) -> None:
    """How figures look: the fields of `headscope.look.Look`."""
    look = parser.add_argument_group("how saved figures look")
    look.add_argument(
        "--width", metavar="WIDTH", type=read_width,
        help="column (3.5 in), page (7.2 in), or a number of inches (default: each figure's own, for a screen)",
    )  # fmt: skip
    look.add_argument("--font", metavar="FAMILY", help="font family, for example Helvetica (default: DejaVu Sans)")
    look.add_argument(
        "--font-size", type=float, metavar="POINTS",
        help="size of axis labels; other text follows (default: 7.5 up to the width of a page, 9 beyond)",
    )  # fmt: skip
    look.add_argument("--no-title", dest="title", action="store_false", help="leave out the title above the figure")
    look.add_argument("--no-caption", dest="caption", action="store_false", help="leave out the caption below it")
    look.add_argument(
        "--letters", nargs="?", const=True, default=False, metavar="FIRST",
        help="label the panels with letters: a, b, c, or beginning with FIRST, for example A or '(d)'",
    )  # fmt: skip
    look.add_argument(
        "--dpi", type=int, metavar="N", help="dots per inch of PNG (default: 300 up to the width of a page, 160 beyond)"
    )


def read_names(text: str) -> list[str]:
    """Names as the command line gives them.

    >>> read_names("1a, 2")
    ['1a', '2']
    """
    return [name.strip() for name in text.split(",") if name.strip()]


def add_reading(parser: argparse.ArgumentParser) -> None:
    """How texts are read, and cut into windows."""
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
        help="field or column of the cluster: neighbouring texts of one cluster are kept together (default: no "
        "clusters)",
    )
    read.add_argument("--id-field", default="id", metavar="NAME", help="field or column of the id (default: id)")
    read.add_argument(
        "--split",
        choices=SPLITS,
        help="what one text is in a plain file (default: a line; in a folder, the whole file)",
    )
    read.add_argument(
        "--format",
        choices=tuple(FORMATS),
        help="format of the files (default: by their names)",
    )
    read.add_argument("--encoding", metavar="NAME", help="encoding of the files (default: UTF-8, or as detected)")
    read.add_argument(
        "--delimiter",
        metavar="C",
        help="character between the cells of CSV, for example ; or tab (default: as detected)",
    )
    read.add_argument(
        "--header", action=argparse.BooleanOptionalAction,
        help="whether the first row of CSV names the columns (default: as detected); columns without names are "
        "called 1, 2, …",
    )  # fmt: skip
    read.add_argument("--limit", type=int, metavar="N", help="only the first N texts (default: all)")
    read.add_argument("--sample", type=int, metavar="N", help="only N texts drawn at random (default: all)")
    add_choices(read, "seed")
    read.add_argument("--strict", action="store_true", help="fail if a record holds no text")
    cut = parser.add_argument_group("windows")
    add_choices(cut, "window", "windows")


def add_work(work: argparse._ArgumentGroup) -> None:
    """How the work of a run is done."""
    work.add_argument("--threads", type=int, metavar="N", help="cores to use (default: all)")
    work.add_argument(
        "--path",
        choices=PATH_NAMES,
        help="what does the counting: loops on the CPU, plain torch, a graphics card's kernels (default: the fastest "
        "there is)",
    )
    work.add_argument("--quiet", action="store_true", help="print nothing but errors")
    work.add_argument("--json", action="store_true", help="print JSON: progress on standard error, the summary last")


def add_finished_run(parser: argparse.ArgumentParser) -> None:
    """What every command on a finished run takes."""
    parser.add_argument("run", metavar="RUN", help="a run's folder or a result.nc")
    parser.add_argument(
        "--stack",
        choices=STACKS,
        help="which attention stack, in a model with several (default: the first of these that it has)",
    )
    parser.add_argument(
        "--tau", type=float, help="τ: the level from which a pair is high, in steps of 0.05 (default: the run's)"
    )
    parser.add_argument(
        "--control",
        nargs="+",
        default=[],
        metavar="RUN",
        help="control runs of the same model (analyze --control), to show what remains when something is taken away "
        "(default: none)",
    )
