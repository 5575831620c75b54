"""analyze: a whole collection of texts through a model, shard by shard, so that nothing finished is ever lost."""

from __future__ import annotations

import tempfile
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headscope.errors import HeadscopeError
from headscope.measures.described import Labels
from headscope.result.core import FILE, Result
from headscope.runs.folder import RunFolder
from headscope.runs.progress import Progress, choose
from headscope.runs.run import Run, check_bad
from headscope.runs.settings import make_settings
from headscope.texts import Corpus, Survey, open_texts

if TYPE_CHECKING:
    from headscope.models.model import Model

MOST_ASKED = 65_536  # texts of a shard whose size the caller names


def analyze(
    model: Model | str | None,
    texts: Any,
    *,
    out: str | Path | None = None,
    window: int | None = None,
    windows: str = "first",
    similarity: str = "dot",
    scale: str = "max",
    repeated: str = "token",
    special: bool = False,
    language: str = "en",
    tau: float = 0.5,
    theta: float = 0.3,
    layers: Collection[int] | None = None,
    relations: Mapping[str, Labels] | None = None,
    text_field: str = "text",
    group_field: str | None = None,
    id_field: str = "id",
    split: str = "line",
    format: str | None = None,
    limit: int | None = None,
    sample: int | None = None,
    seed: int = 0,
    shard_size: int | None = None,
    batch_size: int | None = None,
    threads: int | None = None,
    per_text: bool = False,
    strict: bool = False,
    progress: bool | Progress = True,
) -> Result:
    """Run every text through the model and add up what its heads do, under the names of docs/method.md.

    `texts` is a path (a file, a folder, a pattern, "-" for standard input, "hf:NAME" for a data set) or any iterable
    of strings, (id, text, group) or mappings. With `out` the work goes into that folder: the same call again goes on
    where it was stopped. `windows` tells what to do with texts longer than `window` tokens: "first", "all", "random".
    `relations` maps names to functions from a window to a list of labels, one for each token: pairs with equal labels
    are counted in a variable of their own. `per_text` also keeps a row per text, layer and head.

    >>> import headscope
    >>> result = headscope.analyze(None, ["It rains. It pours.", "The cat saw the dog. The dog ran."], progress=False)
    >>> int(result.dataset.texts), int(result.dataset.pairs.sel(layer=0, head=0).sum())
    (2, 73)
    """
    from headscope.models.load import load
    from headscope.models.model import Model

    if not isinstance(model, Model):
        model = load(model)
    relations = dict(relations or {})
    settings = make_settings(
        model, window=window, windows=windows, similarity=similarity, scale=scale, repeated=repeated, special=special,
        language=language, tau=tau, theta=theta, layers=layers, seed=seed, relations=relations,
    )  # fmt: skip
    check_numbers(shard_size=shard_size, batch_size=batch_size, threads=threads)
    corpus = open_texts(
        texts, text_field=text_field, group_field=group_field, id_field=id_field, split=split, format=format,
        limit=limit, sample=sample, seed=seed,
    )  # fmt: skip
    shown = choose(progress)
    try:
        survey = checked_survey(corpus, strict, shown)
        temporary = tempfile.TemporaryDirectory(prefix="headscope-") if out is None else None
        folder = RunFolder(temporary.name if temporary is not None else str(out))
        try:
            run = Run(model, settings, relations, corpus, survey, folder, shown, strict)
            run.prepare(shard_size, batch_size, threads, per_text)
            run.go()
        finally:
            folder.close()
    finally:
        shown.finish()
    return Result(folder.path / FILE, keep=temporary)  # a temporary folder goes away with the last who keeps it


def checked_survey(corpus: Corpus, strict: bool, shown: Progress) -> Survey:
    """Look through the texts; none at all is an error, and bad ones are where the caller is strict."""
    survey = corpus.survey(shown.surveyed)
    if survey.known:
        check_bad(survey.texts, survey.bad, survey.first_bad, strict, corpus.name)
    return survey


def check_numbers(**numbers: int | None) -> None:
    """Sizes are whole numbers from 1, and shards have a limit."""
    for name, number in numbers.items():
        if number is not None and (not isinstance(number, int) or number < 1):
            raise HeadscopeError(f"{name}={number}", "give a whole number from 1")
    if (numbers["shard_size"] or 1) > MOST_ASKED:
        raise HeadscopeError(f"shard_size={numbers['shard_size']}", f"a shard has {MOST_ASKED:,} texts at most")
