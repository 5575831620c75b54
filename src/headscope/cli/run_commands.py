"""Commands that make runs of many texts, and that read them: what can be asked of them."""

from __future__ import annotations

from headscope.choices import ENGINE_NAMES
from headscope.cli.options import (
    Commands,
    add_command,
    add_finished_run,
    add_look,
    add_method,
    add_model,
    add_reading,
    add_work,
    read_names,
)
from headscope.control import USUAL
from headscope.look import FIGURES


def analyze(commands: Commands) -> None:
    """headscope analyze."""
    parser = add_command(
        commands,
        "analyze",
        "run a collection of texts through a model and add up what its heads do",
        "Repeat the command to resume a run that was stopped.",
    )
    parser.add_argument(
        "texts",
        nargs="+",
        help="files, folders, patterns (plain text, JSONL, CSV, Parquet; .gz, .zst, .xz), -, hf:NAME or passages:",
    )
    parser.add_argument(
        "--out", metavar="RUN", help="folder for the run, on this disk or in an object store: s3://BUCKET/RUN (no "
        "default: it must be named, except with --dry-run)",
    )  # fmt: skip
    parser.add_argument("--model", help="hub id, folder or GGUF file (default: the embedded BERT-12)")
    add_model(parser)
    parser.add_argument(
        "--control",
        metavar="CONTROL",
        help="make a control run, to compare others with: untrained:SEED (fresh weights), permuted:SEED (trained "
        "weights, shuffled within each matrix) or rotated (the trained model; ends of sentences are moved and mean "
        "nothing) (default: none)",
    )
    add_reading(parser)
    add_method(parser)
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
    work.add_argument(
        "--dry-run",
        action="store_true",
        help="measure a few batches; print the time, memory and disk that the run would take",
    )
    work.add_argument("--per-text", action="store_true", help="also write a row per text, layer and head")
    work.add_argument("--batch-size", type=int, metavar="N", help="windows in a batch (default: measured)")
    work.add_argument(
        "--shard-size",
        type=int,
        metavar="N",
        help="texts in a shard (default: a 32nd of the texts, but at most 1,024; of more than four million, a 4,096th)",
    )
    add_work(work)
    work.add_argument("--heads", action="store_true", help="print a row for every head, not for every layer")
    many = parser.add_argument_group("several processes, or a cluster", "The result is the same, to the last byte.")
    many.add_argument(
        "--engine",
        choices=ENGINE_NAMES,
        help="where to compute: on this machine (local, the default) or on a Ray cluster (ray)",
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


def merge(commands: Commands) -> None:
    """headscope merge."""
    parser = add_command(
        commands,
        "merge",
        "add up the results of runs on different texts",
        "Runs add up where everything that decides their numbers is the same: model, window, readings and the like.",
    )
    parser.add_argument("runs", nargs="+", metavar="RUN", help="runs' folders, or their result.nc; two or more")
    parser.add_argument("--out", required=True, metavar="DIR", help="a new folder for the sum")
    parser.add_argument("--heads", action="store_true", help="print a row for every head, not for every layer")
    parser.add_argument("--quiet", action="store_true", help="print nothing but errors")
    parser.add_argument("--json", action="store_true", help="print the summary as JSON")


def findings(commands: Commands) -> None:
    """headscope findings."""
    parser = add_command(
        commands,
        "findings",
        "test every claim of the paper on a run: number, interval, controls, verdict",
    )
    add_finished_run(parser)
    parser.add_argument("--attention", action="store_true", help="also S against attention, layer by layer")
    parser.add_argument("--sensitivity", action="store_true", help="also the claims' numbers at other thresholds")
    parser.add_argument("--heads", action="store_true", help="also which heads are specialists, and which may be noise")
    parser.add_argument(
        "--draws", type=int, default=1000, metavar="N", help="number of draws of the bootstrap (default: 1000)"
    )
    parser.add_argument("--seed", type=int, default=0, help="seed of the bootstrap (default: 0)")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of tables")


def figures(commands: Commands) -> None:
    """headscope figures."""
    parser = add_command(commands, "figures", "draw the figures of the paper, and more, for a run")
    add_finished_run(parser)
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
        help=f"only this figure: {', '.join(FIGURES)} or one-head; may be given more than once (default: all)",
    )
    parser.add_argument(
        "--claims",
        metavar="LIST",
        type=read_names,
        help="only these claims in findings and sensitivity, for example 1a,2,9 (default: all)",
    )
    parser.add_argument(
        "--scores",
        metavar="LIST",
        type=read_names,
        help="only these scores in trajectory and atlas, for example reach,sentence_preference (default: all)",
    )
    parser.add_argument(
        "--model",
        help="the model that was analysed, for the figure of one head and to mark examples (default: the embedded "
        "one, where it was analysed)",
    )
    add_look(parser)


def report(commands: Commands) -> None:
    """headscope report."""
    parser = add_command(commands, "report", "write findings, figures and examples of a run as one web page")
    add_finished_run(parser)
    parser.add_argument("--out", required=True, metavar="FILE", help="the page, for example report.html")
    parser.add_argument(
        "--model",
        help="the model that was analysed, for the figure of one head and to mark examples (default: the embedded "
        "one, where it was analysed)",
    )


def reproduce(commands: Commands) -> None:
    """headscope reproduce."""
    parser = add_command(
        commands,
        "reproduce",
        "analyse texts, make control runs, and write findings, figures and a report",
        "Repeat the command to resume where it was stopped.",
    )
    parser.add_argument(
        "--texts", nargs="+", required=True, help="files, folders, patterns and the like, as for analyze"
    )
    parser.add_argument("--out", required=True, metavar="DIR", help="folder for everything")
    parser.add_argument("--model", help="hub id, folder or GGUF file (default: the embedded BERT-12)")
    add_model(parser)
    parser.add_argument(
        "--controls",
        nargs="*",
        default=list(USUAL),
        metavar="CONTROL",
        help="control runs to compare with, as for analyze --control; without a name, none (default: "
        f"{' '.join(USUAL)})",
    )
    parser.add_argument(
        "--control-texts",
        type=int,
        default=1000,
        metavar="N",
        help="how many texts each control run reads (default: 1000)",
    )
    add_reading(parser)
    add_method(parser)
    add_look(parser)
    work = parser.add_argument_group("the work")
    work.add_argument(
        "--figure-format",
        action="append",
        choices=("svg", "pdf", "png"),
        help="format of the figures; may be given more than once (default: svg)",
    )
    add_work(work)
