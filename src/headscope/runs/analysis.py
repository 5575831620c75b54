"""analyze: a whole collection of texts through a model, shard by shard, so that nothing finished is ever lost."""

from __future__ import annotations

import tempfile
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, Unpack

from headscope.choices import RunChoices
from headscope.errors import HeadscopeError
from headscope.measures.own_relations import Labels
from headscope.models.load import load
from headscope.models.model import Model
from headscope.result.result import Result
from headscope.result.schema import FILE
from headscope.runs.clusters import check_clusters
from headscope.runs.folder import RunFolder
from headscope.runs.plan import MOST_WINDOWS
from headscope.runs.progress import Progress, choose_progress
from headscope.runs.run import Run, WorkOptions, check_bad
from headscope.runs.settings import make_settings
from headscope.texts import Corpus, ReadingOptions, Survey, open_texts


class AnalyzeOptions(RunChoices, ReadingOptions, total=False):
    """What `analyze` takes by name beside its own arguments: choices of the method, and how texts are read."""


def analyze(
    model: Model | str | None,
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
    the kernels of a graphics card ("cuda"); by default the fastest that can be had. `control` is that of `load`: a run
    to compare others with; a model that was loaded under one needs none here. The other options are the method's
    choices (`headscope.choices`) and how texts are read (`headscope.texts.ReadingOptions`).

    >>> import headscope
    >>> result = headscope.analyze(None, ["It rains. It pours.", "The cat saw the dog. The dog ran."], progress=False)
    >>> int(result.dataset.texts), int(result.dataset.pairs.sel(layer=0, head=0).sum())
    (2, 73)
    """
    model = model_under(control, model)
    relations = dict(relations or {})
    reading, choices = split_options(options)
    settings = make_settings(model, choices, layers=layers, relations=relations)
    work = checked_sizes(WorkOptions(shard_size, batch_size, threads, per_text, path))
    corpus = open_texts(texts, **reading, seed=settings.choices.seed)
    progress = choose_progress(progress)
    try:
        survey = checked_survey(corpus, strict, progress)
        temporary = tempfile.TemporaryDirectory(prefix="headscope-") if out is None else None
        folder = RunFolder(temporary.name if temporary is not None else str(out))
        try:
            Run(model, settings, relations, corpus, survey, folder, progress, strict, work).run()
        finally:
            folder.close()
    finally:
        progress.finish()
    return Result(folder.path / FILE, keep=temporary)  # a temporary folder is removed with the last that keeps it


def model_under(control: str | None, model: Model | str | None) -> Model:
    """The model that is meant, loaded where it is only named; a control that makes no sense is refused before that."""
    if not isinstance(model, Model):
        return load(model, control=control)
    return model if control is None else model.under(control)


def split_options(options: Mapping[str, Any]) -> tuple[ReadingOptions, RunChoices]:
    """Options of how texts are read, and all the others.

    >>> split_options({"limit": 5, "tau": 0.6})
    ({'limit': 5}, {'tau': 0.6})
    """
    reading = {name: value for name, value in options.items() if name in ReadingOptions.__annotations__}
    choices = {name: value for name, value in options.items() if name not in reading}
    return reading, choices  # type: ignore[return-value]


def checked_survey(corpus: Corpus, strict: bool, progress: Progress) -> Survey:
    """Look through the texts; none at all is an error, and bad ones are where the caller is strict."""
    survey = corpus.survey(progress.surveyed)
    if survey.known:
        check_clusters(survey)
        check_bad(survey.texts, survey.bad, survey.first_bad, strict, corpus.name)
    return survey


def checked_sizes(options: WorkOptions) -> WorkOptions:
    """Sizes are whole numbers from 1, and shards have a limit."""
    for name in ("shard_size", "batch_size", "threads"):
        number = getattr(options, name)
        if number is not None and (not isinstance(number, int) or number < 1):
            raise HeadscopeError(f"{name}={number}", "give a whole number from 1")
    if (options.shard_size or 1) > MOST_WINDOWS:
        raise HeadscopeError(f"shard_size={options.shard_size}", f"a shard has {MOST_WINDOWS:,} texts at most")
    return options
