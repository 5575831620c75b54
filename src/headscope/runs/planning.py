"""Planning: what is to stay the same is decided and written down, or taken over from the run that is resumed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import chain

from headscope.choices import differences
from headscope.errors import HeadscopeError, counted
from headscope.measures.own_relations import Labels
from headscope.result.schema import VERSION
from headscope.runs.capacity import TRIAL_TEXTS
from headscope.runs.deal import peek, take_first
from headscope.runs.engine import Engine, EngineFacts, WorkOrder
from headscope.runs.folder import RunFolder
from headscope.runs.manifest import Manifest
from headscope.runs.plan import Plan, WorkOptions, default_batch, default_shard_size
from headscope.runs.progress import Progress
from headscope.runs.settings import Settings
from headscope.texts import Bad, BadRecords, Corpus, Record, Survey
from headscope.texts.corpus import no_texts


@dataclass(slots=True)
class Texts:
    """The texts of a run: what a first look has shown, and the stream itself, from which bad records are counted."""

    corpus: Corpus
    survey: Survey
    records: Iterator[Record | Bad]
    bad: BadRecords

    @classmethod
    def of(cls, corpus: Corpus, survey: Survey) -> Texts:
        """A collection that has been looked through."""
        return cls(corpus, survey, corpus.records(), BadRecords())

    def first(self, number: int) -> list[Record]:
        """Some of the first texts, which stay in the stream."""
        taken = take_first(self.records, self.bad, number)
        self.records = chain(taken, self.records)
        return taken


def plan_run(
    folder: RunFolder, facts: EngineFacts, settings: Settings, texts: Texts, options: WorkOptions, engine: Engine,
    progress: Progress,
) -> Manifest:  # fmt: skip
    """The manifest of a new run, written down, or of the one that goes on, held against what is asked for now."""
    survey, corpus = texts.survey, texts.corpus
    suited = default_shard_size(survey.texts)
    if not survey.known:
        texts.records, suited = peek(texts.records, texts.bad)
    before = folder.read_manifest()
    device = facts.model.device
    if before is None:
        path, why = engine.choose_path(options.path, settings.choices)
        if why:
            progress.say(why)
        batch = options.batch_size or default_batch(device, settings.choices.window)
        plan = Plan(options.shard_size or suited, device, [[0, batch]], options.per_text, path)
    else:
        plan = before.plan
    told = {
        "name": corpus.name,
        "texts": survey.texts if survey.known else None,
        "bad": survey.bad if survey.known else None,
        "fingerprint": survey.fingerprint or None,
        "limit": corpus.limit,
        "sample": corpus.sample,
    }
    now = Manifest(VERSION, settings.as_dict(), facts.fingerprint, told, plan, facts.versions, machines=[facts.machine])
    if before is None:
        folder.write_manifest(now)
        return now
    if before.finished and before.settings["tau"] != now.settings["tau"]:
        # Every threshold was counted: the result answers at another τ, and stays the run's own.
        now.settings = now.settings | {"tau": before.settings["tau"]}
    _check_same(before, now, options, device, folder.name)
    if before.versions != now.versions:
        changed = "; ".join(differences(before.versions, now.versions))
        progress.say(f"note: the run was started with other versions ({changed}); last digits may differ")
    if not before.finished:
        other = [machine for machine in now.machines if machine not in before.machines]
        if other and before.machines:
            progress.say(
                f"note: the run was started on another kind of machine ({'; '.join(before.machines)}, and now "
                f"{'; '.join(other)}); last digits may differ"
            )
        if other:
            before.machines += other
            folder.write_manifest(before)
        if folder.claim.stale:
            progress.say(f"the last attempt ({folder.claim.stale}) ended before the run was finished; going on")
    return before


def _check_same(before: Manifest, now: Manifest, options: WorkOptions, device: str, name: str) -> None:
    """A run is resumed only where everything that decides its numbers is as it was."""
    plan = before.plan
    was = {"per_text": plan.per_text, "device": plan.device}
    asked = {"per_text": options.per_text, "device": device}
    named = {
        "shard_size": (plan.shard_size, options.shard_size),
        "batch_size": (plan.batches[0][1], options.batch_size),
        "path": (plan.path, options.path),
    }
    for key, (kept, wanted) in named.items():
        if wanted is not None:
            was[key], asked[key] = kept, wanted
    changed = [*before.differences(now), *differences({"plan": was}, {"plan": asked})]
    if changed:
        raise HeadscopeError(
            f"the run in {name!r} was started with other settings (then, and now): {'; '.join(changed)}",
            "repeat the first command to go on with it, or name another folder",
        )


def prepare(
    engine: Engine, manifest: Manifest, settings: Settings, relations: Mapping[str, Labels], texts: Texts,
    options: WorkOptions, folder: RunFolder, progress: Progress,
) -> None:  # fmt: skip
    """Get the engine ready; where memory is too short for the planned batches, plan smaller ones."""
    plan = manifest.plan
    order = WorkOrder(settings, relations, plan.per_text, plan.path, manifest.key, folder.claim.permit)
    first = texts.first(TRIAL_TEXTS) if options.batch_size is None else []
    fits = engine.prepare(order, first, options.batch_size)
    if fits is not None and fits < plan.batches[0][1] and not folder.numbers():
        plan.batches = [[0, fits]]
        folder.write_manifest(manifest)
        progress.say(f"memory is short: {fits} windows in a batch")


def check_bad(texts: int, bad: int, first: list[str], strict: bool, name: str) -> None:
    """No texts at all is an error, and bad records are where the caller is strict; the first of them are named."""
    if not texts:
        raise no_texts(name, bad, first)
    named = "; ".join(first)
    if bad and strict:
        raise HeadscopeError(
            f"{counted(bad, 'bad record')} among {counted(texts, 'text')}: {named}",
            "correct them, or leave out --strict (strict=True)",
        )
