"""A finished run that is asked again: what it came to is there, and no model has to be loaded to see that.

Whatever cannot be told for certain is left to `analyze`, which loads the model and says what differs.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from headscope.choices import Choices, make_choices
from headscope.errors import HeadscopeError
from headscope.files import is_url, sha256_of
from headscope.models.spec import ModelSpec
from headscope.models.unchanged import model_state
from headscope.result.result import Result
from headscope.runs.manifest import Manifest, read_manifest
from headscope.runs.plan import WorkOptions
from headscope.texts import Corpus

MANIFEST = "run.json"
WINDOW = "default_window"  # of the model, which is not asked for it


def known_model(spec: ModelSpec | None, default_window: int) -> dict[str, Any]:
    """What a run writes down of its model, so that it is known again; nothing where it cannot be."""
    state = model_state(spec)
    return state | {WINDOW: default_window} if state else {}


def finished_result(
    out: str | Path, spec: ModelSpec, corpus: Corpus, choices: dict[str, Any], *,
    layers: Sequence[int] | None = None, asked: WorkOptions, strict: bool = False,
) -> Result | None:  # fmt: skip
    """The result of a finished run where this is its command once more; None where it is not, or may not be."""
    if is_url(out) or not corpus.repeatable:
        return None
    try:
        manifest = read_manifest((Path(out) / MANIFEST).read_bytes(), str(out))
    except (OSError, ValueError, HeadscopeError):
        return None
    known = {name: value for name, value in manifest.known_model.items() if name != WINDOW}
    if not manifest.finished or not known or known != model_state(spec):
        return None
    wanted = make_choices(choices, manifest.known_model[WINDOW])
    if not (_same_settings(manifest, wanted, layers) and _same_plan(manifest, asked)):
        return None
    told = {"limit": corpus.limit, "sample": corpus.sample}
    if any(manifest.texts.get(name) != value for name, value in told.items()):
        return None
    survey = corpus.survey()
    if survey.fingerprint != manifest.texts.get("fingerprint") or (strict and survey.bad):
        return None
    try:
        whole = all(sha256_of(Path(out) / name) == hash_ for name, hash_ in manifest.files.items())
    except OSError:
        return None
    if not whole:
        return None
    result = Result.open(out)
    return result if wanted.tau == result.settings["tau"] else result.at(wanted.tau)


def _same_settings(manifest: Manifest, wanted: Choices, layers: Sequence[int] | None) -> bool:
    own = manifest.settings
    same = all(own.get(name) == value for name, value in wanted.as_dict().items() if name != "tau")
    kept = None if layers is None else sorted(set(layers))
    return same and own.get("layers") == kept and not own.get("relations")


def _same_plan(manifest: Manifest, asked: WorkOptions) -> bool:
    plan = manifest.plan
    named = ((asked.shard_size, plan.shard_size), (asked.batch_size, plan.batches[0][1]), (asked.path, plan.path))
    return asked.per_text == plan.per_text and all(one is None or one == other for one, other in named)
