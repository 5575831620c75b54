"""analyze: a whole collection of texts through a model, shard by shard, so that nothing finished is ever lost."""

from __future__ import annotations

import tempfile
from collections.abc import Collection, Mapping
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path
from typing import Any, Unpack

from headscope.choices import RunChoices
from headscope.errors import HeadscopeError
from headscope.measures.own_relations import Labels
from headscope.models.model import Model
from headscope.models.spec import ModelSpec, spec_of
from headscope.result.result import Result
from headscope.result.schema import FILE
from headscope.runs.added import AddedShards
from headscope.runs.clusters import check_clusters
from headscope.runs.engine import Engine, EngineFacts
from headscope.runs.engines import EngineOptions, make_engine
from headscope.runs.executing import Execution, stoppable
from headscope.runs.finishing import finish, is_finished
from headscope.runs.folder import RunFolder
from headscope.runs.plan import MOST_WINDOWS, WorkOptions
from headscope.runs.planning import Texts, check_bad, plan_run, prepare
from headscope.runs.progress import Progress, choose_progress
from headscope.runs.repeated import known_model
from headscope.runs.settings import Settings, make_settings
from headscope.runs.worker import stack_shapes
from headscope.texts import Corpus, ReadingOptions, Survey, open_texts
from headscope.texts.corpus import survey_of


class AnalyzeOptions(RunChoices, ReadingOptions, total=False):
    """What `analyze` takes by name beside its own arguments: choices of the method, and how texts are read."""


def analyze(
    model: Model | ModelSpec | str | None,
    texts: Any,
    *,
    out: str | Path | None = None,
    control: str | None = None,
    layers: Collection[int] | None = None,
    relations: Mapping[str, Labels] | None = None,
    shard_size: int | None = None,
    batch_size: int | None = None,
    threads: int | None = None,
    per_text: bool = False,
    path: str | None = None,
    engine: str | None = None,
    workers: int | None = None,
    ray_address: str | None = None,
    gpus_per_worker: float = 0,
    strict: bool = False,
    progress: bool | Progress = True,
    **options: Unpack[AnalyzeOptions],
) -> Result:
    """Run every text through the model and add up what its heads do, under the names of docs/method.md.

    `texts` is a path (a file, a folder, a pattern, "-" for standard input, "hf:NAME" for a data set) or any iterable
    of strings, (id, text, group) or mappings. With `out` the work goes into that folder: the same call again goes on
    where it was stopped. `relations` maps names to functions from a window to a list of labels, one for each token:
    pairs with equal labels are counted in a variable of their own. `per_text` also keeps a row per text, layer and
    head. The number of `threads` changes no number. `path` says who counts: "compiled" loops on the CPU, "torch", or
    the kernels of a graphics card ("cuda", or "cuda-eager" with the model's own attention); by default the fastest that
    can be had. `control` is that of `load`: a run
    to compare others with; a model that was loaded under one needs none here.

    With `workers` several processes compute shards, each with a model of its own and `threads` cores; with
    `engine="ray"` they are actors of the Ray cluster at `ray_address` (docs/scaling.md), each with `gpus_per_worker`.
    `out` may be on an object store ("s3://bucket/run"). Who computed it changes no byte of the result. The other
    options are the method's choices (`headscope.choices`) and how texts are read (`headscope.texts.ReadingOptions`).

    >>> import headscope
    >>> result = headscope.analyze(None, ["It rains. It pours.", "The cat saw the dog. The dog ran."], progress=False)
    >>> int(result.dataset.texts), int(result.dataset.pairs.sel(layer=0, head=0).sum())
    (2, 73)
    """
    relations = dict(relations or {})
    reading, choices = split_options(options)
    work = checked_sizes(WorkOptions(shard_size, batch_size, threads, per_text, path))
    progress = choose_progress(progress)
    with ExitStack() as held:
        held.callback(progress.finish)
        wanted = EngineOptions(workers, threads, ray_address, gpus_per_worker)
        chosen = held.enter_context(closing(make_engine(model, control, engine, wanted, progress.say)))
        facts = chosen.facts()
        settings = make_settings(facts.model, choices, layers=layers, relations=relations)
        corpus = open_texts(texts, **reading, seed=settings.choices.seed)
        survey = checked_survey(corpus, strict, progress, chosen)
        temporary = tempfile.TemporaryDirectory(prefix="headscope-") if out is None else None
        folder = RunFolder(temporary.name if temporary is not None else out)  # type: ignore[arg-type]
        held.callback(folder.close)
        known = known_model(spec_or_none(model, control), facts.model.default_window)
        run(chosen, facts, settings, relations, Texts.of(corpus, survey), folder, progress, strict, work, known)
    if temporary is None:
        result = Result.open(out)  # type: ignore[arg-type]
        asked = settings.choices.tau
        return result if asked == result.settings["tau"] else result.at(asked)
    return Result(Path(temporary.name) / FILE, keep=temporary)  # the folder is removed with the last that keeps it


def run(
    engine: Engine, facts: EngineFacts, settings: Settings, relations: Mapping[str, Labels], texts: Texts,
    folder: RunFolder, progress: Progress, strict: bool, options: WorkOptions, known: dict[str, Any],
) -> None:  # fmt: skip
    """One run: planned, executed, finished. By what is `known` of its model the command is recognised next time."""
    manifest = plan_run(folder, facts, settings, texts, options, engine, progress)
    work = Execution(manifest, texts, folder, progress)
    if is_finished(work):
        work.check_stream()
        folder.remove_shards()
        if manifest.known_model != known:
            manifest.known_model = known
            folder.write_manifest(manifest)
        progress.say("the run is finished already")
        return
    manifest.known_model = known
    if manifest.settings["tau"] != settings.choices.tau:  # it was called finished, and its files are not whole
        raise HeadscopeError(
            f"the run in {folder.name!r} is of τ = {manifest.settings['tau']:g} and must be computed again first",
            "repeat the first command, then ask for another τ",
        )
    survey = texts.survey
    shards = None if survey.clustered else survey.shards(manifest.plan.shard_size)  # clusters make them fewer
    progress.start(survey.texts if survey.known else None, shards)
    prepare(engine, manifest, settings, relations, texts, options, folder, progress)
    shapes = stack_shapes(facts.model.stacks, settings)
    work.added = AddedShards(shapes)
    with stoppable(progress) as work.stopping:
        engine.run(work)
    finish(work, engine, shapes, strict)


def spec_or_none(model: Model | ModelSpec | str | None, control: str | None) -> ModelSpec | None:
    """How the model of a run is loaded, where it was by a name."""
    spec = model.spec if isinstance(model, Model) else spec_of(model)
    return spec if spec is None or control is None else replace(spec, control=control)


def split_options(options: Mapping[str, Any]) -> tuple[ReadingOptions, RunChoices]:
    """Options of how texts are read, and all the others.

    >>> split_options({"limit": 5, "tau": 0.6})
    ({'limit': 5}, {'tau': 0.6})
    """
    reading = {name: value for name, value in options.items() if name in ReadingOptions.__annotations__}
    choices = {name: value for name, value in options.items() if name not in reading}
    return reading, choices  # type: ignore[return-value]


def checked_survey(corpus: Corpus, strict: bool, progress: Progress, engine: Engine | None = None) -> Survey:
    """Look through the texts; none at all is an error, and bad ones are where the caller is strict."""
    if engine is not None and corpus.pieces is not None:
        survey = survey_of(engine.survey(corpus.pieces, progress.surveyed))
    else:
        survey = corpus.survey(progress.surveyed)
    for note in (corpus.note, *survey.notes):
        if note:
            progress.say(note)
    if survey.known:
        check_clusters(survey)
        check_bad(survey.texts, survey.bad, survey.first_bad, strict, corpus.name)
    return survey


def checked_sizes(options: WorkOptions) -> WorkOptions:
    """Sizes are whole numbers from 1, and shards have a limit."""
    for name in ("shard_size", "batch_size", "threads"):
        number = getattr(options, name)
        if number is not None and (not isinstance(number, int) or number < 1):
            raise HeadscopeError(f"{name}={number} is not possible", "give a whole number from 1")
    if (options.shard_size or 1) > MOST_WINDOWS:
        raise HeadscopeError(
            f"shard_size={options.shard_size} is not possible", f"a shard has {MOST_WINDOWS:,} texts at most"
        )
    return options
