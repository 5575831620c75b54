"""headscope analyze."""

from __future__ import annotations

import importlib.util
import json
import os
import shlex
import sys
from argparse import Namespace
from collections.abc import Callable
from contextlib import nullcontext, redirect_stdout
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headscope.choices import RAY
from headscope.cli import show
from headscope.cli.choices import choices_of
from headscope.cli.print_result import show_result
from headscope.control import read_control
from headscope.errors import HeadscopeError, brief, counted
from headscope.texts.corpus import Corpus, open_paths

if TYPE_CHECKING:
    from headscope.runs.plan import WorkOptions
    from headscope.runs.progress import Progress

MOST_LAYERS = 10_000  # no model has as many


def run_analyze(args: Namespace) -> None:
    """Read the texts, run the model, print a summary; or only tell what it would take."""
    if args.out is None and not args.dry_run:
        raise HeadscopeError("there is no folder for the run", "name one: --out RUN (or ask for --dry-run)")
    layers = parse_layers(args.layers) if args.layers else None
    choices = choices_of(args, of_text=False)
    read_control(args.control)
    corpus = corpus_of(args)
    corpus.check_any()
    relations = dict(load_relation(place) for place in args.relation)
    if len(relations) < len(args.relation):
        raise HeadscopeError("two relations have the same name", "give the functions names of their own")
    from headscope.models.spec import ModelSpec
    from headscope.runs.plan import WorkOptions

    model: Any = ModelSpec(args.model, args.device, args.dtype, args.revision, control=args.control)
    asked = WorkOptions(args.shard_size, args.batch_size, args.threads, args.per_text, args.path)
    if args.out is not None and not args.dry_run and not relations:
        from headscope.runs.repeated import finished_result

        result = finished_result(args.out, model, corpus, choices, layers=layers, asked=asked, strict=args.strict)
        if result is not None:
            _say(args, "the run is finished already")
            show_result(result, args)
            return
    import headscope
    from headscope.runs.engines import EngineOptions

    engines = EngineOptions(args.workers, args.threads, args.ray_address, args.gpus_per_worker)
    engines.check(args.engine)
    elsewhere = args.engine == RAY or args.workers is not None
    if args.dry_run or not elsewhere:
        with show.working("loading the model"):
            model = model.load()
    if args.dry_run:
        _dry_run(model, corpus, relations, layers, choices, asked, args)
        return
    # Ray writes what it has to say of lost workers to standard output, where a program may wait for JSON.
    aside = redirect_stdout(sys.stderr) if args.engine == RAY else nullcontext()
    try:
        with aside:
            result = headscope.analyze(
                model, corpus, out=args.out, layers=layers, relations=relations, **asdict(asked), strict=args.strict,
                engine=args.engine, workers=args.workers, ray_address=args.ray_address,
                gpus_per_worker=args.gpus_per_worker, progress=_progress(args), **choices,
            )  # fmt: skip
    except KeyboardInterrupt as stopped:
        again = f"{show.called()} {shlex.join(sys.argv[1:])}"
        print(f"headscope: stopped; what is finished is kept in {args.out}. To go on: {again}", file=sys.stderr)
        stopped.add_note("the message is printed already")
        raise
    show_result(result, args)


def corpus_of(args: Namespace) -> Corpus:
    """The texts that the command names."""
    return open_paths(
        args.texts, text_field=args.text_field, group_field=args.group_field, cluster_field=args.cluster_field,
        id_field=args.id_field, split=args.split, format=args.format, encoding=args.encoding,
        delimiter=args.delimiter, header=args.header, limit=args.limit, sample=args.sample, seed=args.seed,
    )  # fmt: skip


def _say(args: Namespace, message: str) -> None:
    progress = _progress(args)
    if progress is not False:
        from headscope.runs.progress import choose_progress

        choose_progress(progress).say(message)


def _progress(args: Namespace) -> bool | Progress:
    if args.quiet and not args.json:
        return False
    if args.json:
        from headscope.runs.progress import Lines, Progress

        return Progress() if args.quiet else Lines(as_json=True)
    return True


def _dry_run(
    model: Any, corpus: Any, relations: Any, layers: Any, choices: Any, asked: WorkOptions, args: Namespace
) -> None:
    from headscope.models.spec import facts_of
    from headscope.runs.analysis import checked_sizes, checked_survey
    from headscope.runs.estimate import estimate
    from headscope.runs.progress import Progress, clock
    from headscope.runs.settings import make_settings

    settings = make_settings(facts_of(model), choices, layers=layers, relations=relations)
    with show.working("looking through the texts"):
        survey = checked_survey(corpus, args.strict, Progress())
    if not args.json:
        for note in filter(None, (corpus.note, *survey.notes)):
            show.paragraph(note)
    with show.working("measuring a few batches"):
        cost = estimate(model, settings, relations, corpus, survey, checked_sizes(asked))
    if args.json:
        print(json.dumps(asdict(cost)))
        return
    unknown = "unknown: the texts come from a stream"
    kept = ", or fewer and larger ones: clusters are kept together" if survey.clustered else ""
    rows = [
        ("texts", unknown if cost.texts is None else f"{cost.texts:,} ({counted(cost.bad, 'bad record')})"),
        ("shards", unknown if cost.shards is None else f"{cost.shards:,} of up to {cost.shard_size:,} texts{kept}"),
        ("batches", f"{counted(cost.batch, 'window')} each, {cost.side_by_side} side by side"),
        ("speed", f"{cost.texts_per_second:.1f} texts per second"),
        (
            "time",
            unknown if cost.seconds is None else f"about {clock(cost.seconds)}, and some seconds to begin and to end",
        ),
        ("memory", f"about {cost.memory / 1e9:.1f} GB ({cost.free_memory / 1e9:.1f} GB are free)"),
    ]
    if cost.disk is not None and cost.disk_working is not None:
        rows.append(("disk", f"about {cost.disk / 1e6:,.0f} MB, {cost.disk_working / 1e6:,.0f} MB while it runs"))
    show.table(["", "what the run would take"], rows, text=(0, 1))


def parse_layers(text: str) -> list[int]:
    """Layers from a list with ranges.

    >>> parse_layers("0,5,10-11")
    [0, 5, 10, 11]
    >>> parse_layers("11-10")
    Traceback (most recent call last):
    headscope.errors.HeadscopeError: --layers 11-10 is not possible. ...
    """
    layers: list[int] = []
    for part in text.split(","):
        first, _, last = (each.strip() for each in part.partition("-"))
        last = last or first
        possible = first.isdecimal() and last.isdecimal() and int(first) <= int(last) <= MOST_LAYERS
        if not possible:
            raise HeadscopeError(f"--layers {text} is not possible", "give numbers and ranges, for example 0,5,10-11")
        layers += range(int(first), int(last) + 1)
    return layers


@dataclass(frozen=True)
class FunctionOfFile:
    """A function of the user's own in a file of theirs. It travels to other processes by its place, not by its code."""

    path: str
    name: str

    def __call__(self, window: Any) -> Any:
        """What the function says of a window."""
        return self.__wrapped__(window)

    @cached_property
    def __wrapped__(self) -> Callable[..., Any]:
        spec = importlib.util.spec_from_file_location("headscope_relation", self.path)
        if spec is None or spec.loader is None:
            raise HeadscopeError(f"{self.path!r} is not a Python file", "name a file that ends in .py")
        module = importlib.util.module_from_spec(spec)
        try:
            spec.loader.exec_module(module)
        except Exception as error:  # the user's own code may raise anything
            problem = f"{self.path!r} cannot be run: {type(error).__name__}: {brief(error)}"
            raise HeadscopeError(problem, "correct the file") from error
        function = getattr(module, self.name, None)
        if not callable(function):
            raise HeadscopeError(f"{self.path!r} has no function {self.name!r}", "check the name")
        found: Callable[..., Any] = function
        return found

    def __reduce__(self) -> tuple[type, tuple[str, str]]:
        return FunctionOfFile, (self.path, self.name)


def load_relation(place: str) -> tuple[str, Callable[..., Any]]:
    """A function of the user's own from a file of theirs, named as FILE.py:FUNCTION."""
    path, _, name = place.rpartition(":")
    if not path or not name.isidentifier():
        raise HeadscopeError(
            f"--relation {place} is not possible", "name a file and a function in it: labels.py:part_of_speech"
        )
    if not Path(path).is_file():
        raise HeadscopeError(f"there is no file {path!r}", "check the path of --relation")
    function = FunctionOfFile(os.path.abspath(path), name)
    function.__wrapped__  # noqa: B018 - what is wrong with it is said before anything else is done
    return name, function
