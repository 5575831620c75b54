"""One run: settled with its folder, shard by shard through the model, put together at the end."""

from __future__ import annotations

import gc
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from itertools import chain
from types import FrameType
from typing import TYPE_CHECKING, Any

import torch

from headscope.errors import HeadscopeError
from headscope.measures.described import Labels
from headscope.measures.tally import LONGEST_SUMMED, Shape
from headscope.result.core import FILE
from headscope.result.merge import write_result
from headscope.result.rows import HEADS, TEXTS, join_tables
from headscope.result.schema import VERSION
from headscope.result.shards import pack
from headscope.runs.deal import Shard, deal, hold, peek
from headscope.runs.fingerprint import model_fingerprint, versions
from headscope.runs.folder import FolderShards, RunFolder, guarded, hash_of_file, reserve
from headscope.runs.plan import LOOKED_AT, lanes_and_threads, measured_batch
from headscope.runs.progress import Progress
from headscope.runs.settings import Plan, Settings, default_shard_size, differences
from headscope.runs.tables import tables
from headscope.runs.worker import OutOfMemoryError, Worker, stack_shapes
from headscope.texts import BadRecords, Corpus, Survey
from headscope.texts.records import NAMED

if TYPE_CHECKING:
    from headscope.models.model import Model


class Run:
    """One run from its settings to its result."""

    def __init__(
        self,
        model: Model,
        settings: Settings,
        relations: Mapping[str, Labels],
        corpus: Corpus,
        survey: Survey,
        folder: RunFolder,
        shown: Progress,
        strict: bool,
    ) -> None:
        self.model, self.settings, self.relations = model, settings, relations
        self.corpus, self.survey, self.folder, self.shown, self.strict = corpus, survey, folder, shown, strict
        self.records = corpus.records()
        self.bad = BadRecords()
        self.plan = Plan(1, 1, 1, "cpu", [])
        self.told: dict[str, Any] = {}

    # ------------------------------------------------------------------ before

    def prepare(self, shard_size: int | None, batch_size: int | None, threads: int | None, per_text: bool) -> None:
        """Settle everything that is to stay the same, or find it settled by the run that is gone on with."""
        suited = default_shard_size(self.survey.texts)
        if not self.survey.known:
            self.records, suited = peek(self.records, self.bad)
        wanted = {
            "schema": VERSION,
            "settings": self.settings.as_dict(),
            "model": model_fingerprint(self.model),
            "texts": {
                "name": self.corpus.name,
                "texts": self.survey.texts if self.survey.known else None,
                "bad": self.survey.bad if self.survey.known else None,
                "fingerprint": self.survey.fingerprint or None,
                "limit": self.corpus.limit,
                "sample": self.corpus.sample,
            },
        }
        before = self.folder.read()
        device = self.model.network.device.type
        if before is None:
            shapes = stack_shapes(self.model, self.settings)
            cores = threads or torch.get_num_threads()
            lanes, each = lanes_and_threads(shapes, device, cores)
            self.plan = Plan(shard_size or suited, lanes, each, device, [], per_text, cores)
            self.plan.batches = [[0, batch_size or self._measure(lanes)]]
            self.told = wanted | {"plan": asdict(self.plan), "versions": versions(), "finished": False}
            self.folder.write(self.told)
            return
        self._check_same(before, wanted, shard_size, batch_size, threads, per_text, device)
        self.plan = Plan(**before["plan"])
        self.told = before
        now = versions()
        if before["versions"] != now:
            changed = "; ".join(differences(before["versions"], now))
            self.shown.say(f"note: the run was begun with other versions ({changed}); last digits may differ")
        if self.folder.stale and not before["finished"]:
            self.shown.say(f"the last attempt ({self.folder.stale}) ended before the run was finished; going on")

    def _check_same(
        self,
        before: Mapping[str, Any],
        wanted: Mapping[str, Any],
        shard_size: int | None,
        batch_size: int | None,
        threads: int | None,
        per_text: bool,
        device: str,
    ) -> None:
        if before.get("schema") != VERSION:
            raise HeadscopeError(
                f"the run in {str(self.folder.path)!r} is of schema {before.get('schema')}, ours is {VERSION}",
                "begin again in another folder",
            )
        was, now = ({key: dict(told[key]) for key in ("settings", "model", "texts")} for told in (before, wanted))
        for told in (was, now):
            told["model"].pop("name", None)  # a folder may have been moved
            told["texts"].pop("name", None)
        plan = Plan(**before["plan"])
        was["plan"] = {"per_text": plan.per_text, "device": plan.device}
        now["plan"] = {"per_text": per_text, "device": device}
        asked = {
            "shard_size": (shard_size, plan.shard_size),
            "batch_size": (batch_size, plan.batches[0][1]),
            "threads": (threads, plan.cores),
        }
        for name, (number, kept) in asked.items():
            if number is not None:
                was["plan"][name], now["plan"][name] = kept, number
        found = differences(was, now)
        if found:
            raise HeadscopeError(
                f"the run in {str(self.folder.path)!r} was begun otherwise (before, and now): {'; '.join(found)}",
                "repeat the first command to go on with it, or name another folder",
            )

    def _measure(self, lanes: int) -> int:
        """The batch size, from the first texts."""
        kept = hold(self.records, self.bad, LOOKED_AT)
        self.records = chain(kept, self.records)
        return measured_batch(self.model, self.settings, self.relations, lanes, kept) if kept else 1

    # ------------------------------------------------------------------ the work

    def go(self) -> None:
        """Compute the shards that are missing, then put all of them together."""
        if self.told["finished"] and self._result_is_whole():
            self._check_stream()
            self.folder.clear()
            self.shown.say("the run is finished already")
            return
        plan = self.plan
        self.shown.start(self.survey.texts if self.survey.known else None, self.survey.shards(plan.shard_size))
        before = torch.get_num_threads()
        try:
            with self._worker() as worker, stopping(self.shown) as stop:
                abouts = [self._shard(worker, shard, stop) for shard in deal(self.records, plan.shard_size, self.bad)]
        finally:
            torch.set_num_threads(before)
        if any(number >= len(abouts) for number in self.folder.numbers()):
            raise self._other_texts(f"the texts end after {len(abouts)} shards and so")
        refused = [line for about in abouts for line in about["refused"]]
        bad, first = self.bad.number + len(refused), [*self.bad.first, *refused]
        check_bad(sum(about["texts"] for about in abouts), bad, first[:NAMED], self.strict, self.corpus.name)
        self._finish(abouts, worker.shapes, refused)

    def _worker(self) -> Worker:
        plan, settings = self.plan, self.settings
        return Worker(
            self.model, settings, self.relations, lanes=plan.lanes, threads=plan.threads, per_text=plan.per_text
        )

    def _shard(self, worker: Worker, shard: Shard, stop: Callable[[], bool]) -> dict[str, Any]:
        about = self.folder.done(shard.number)
        if about is not None:
            if about["hash"] != shard.hash:
                raise self._other_texts(f"the texts of shard {shard.number}")
            self.shown.skip(about["texts"])
            return about
        if self.folder.begun(shard.number):
            self.shown.say(f"shard {shard.number} is damaged and is computed again")
        outcome = None
        while outcome is None:
            batch, before = self.plan.batch(shard.number), self.shown.done
            try:
                outcome = worker.shard(shard.records, batch, self.shown.advance)
                self.shown.settle(before + len(shard.records))
            except OutOfMemoryError as error:
                if batch == 1:
                    raise HeadscopeError(
                        "a single window does not fit into memory", "take a smaller window, or fewer layers"
                    ) from error
                self.plan.batches.append([shard.number, batch // 2])
                self.folder.write(self.told | {"plan": asdict(self.plan)})
                self.told["plan"] = asdict(self.plan)
                self.shown.settle(before)
                self.shown.say(f"out of memory with {batch} windows in a batch: going on with {batch // 2}")
            if outcome is None:
                gc.collect()  # the error held what the batch had taken
        about = {
            "group": shard.group,
            "texts": len(shard.records),
            "windows": len(outcome.shown),
            "hash": shard.hash,
            "refused": outcome.refused,
        }
        sums = {name: tally.variables() for name, tally in outcome.tallies.items()}
        rows = tables(outcome, self.model.tokenizer) if self.plan.per_text else {}
        self.folder.put(shard.number, pack(sums), rows, about)
        self.shown.shard()
        if stop():
            raise KeyboardInterrupt
        return about

    # ------------------------------------------------------------------ after

    def _finish(self, abouts: list[dict[str, Any]], shapes: Mapping[str, Shape], refused: list[str]) -> None:
        folder, path = self.folder, self.folder.path
        if not sum(about["windows"] for about in abouts):
            raise HeadscopeError(f"no window could be made of any text: {'; '.join(refused[:3])}", "check the texts")
        bad = self.survey.bad_records if self.survey.known else self.bad
        texts = self.told["texts"] | {
            "texts": sum(about["texts"] for about in abouts) - len(refused),
            "bad": bad.number,
            "first_bad": bad.first,
            "refused": len(refused),
        }
        header = {
            "title": "headscope analysis of a collection of texts",
            "source": "Halevi, Tzach, Gross, Rosner and Kanter, arXiv:2512.21956",
            "headscope": self.told["versions"]["headscope"],
            "settings": self.told["settings"],
            "model": self.told["model"],
            "texts": texts,
            "plan": self.told["plan"],
            "versions": self.told["versions"],
        }
        tokenizer = self.model.tokenizer

        def words(ids: Any) -> list[str]:
            return [str(tokenizer.convert_ids_to_tokens(int(i))).replace("\x00", "␀") for i in ids]

        with guarded(path / FILE, "be written"):
            reserve(path / FILE, self._result_bytes(abouts, shapes))
            write_result(path / FILE, [FolderShards(folder, abouts)], shapes, header, words)
            files = [FILE]
            if self.plan.per_text:
                numbers = range(len(abouts))
                for name in (HEADS, TEXTS):
                    join_tables(folder.tables(name, numbers), path / name)
                    files.append(name)
        hashes = {name: hash_of_file(path / name) for name in files}
        folder.write(self.told | {"finished": True, "files": hashes, "shards": [about["hash"] for about in abouts]})
        folder.clear()
        if bad.number or refused:
            named = "; ".join([*bad.first, *refused][:NAMED])
            self.shown.say(f"{bad.number + len(refused):,} bad records were left out: {named}")

    def _result_bytes(self, abouts: list[dict[str, Any]], shapes: Mapping[str, Shape]) -> int:
        """At most so large is the result: the shards' counts, and the mean matrices of the groups and of all."""
        half = sum(
            len(s.layers) * s.heads * s.length * (s.length - 1) * 4
            for s in shapes.values()
            if s.length <= LONGEST_SUMMED
        )
        counts = sum(max(self.folder.size(number) - half, 0) for number in range(len(abouts)))
        return counts + 2 * half * (1 + len({about["group"] for about in abouts}))

    def _result_is_whole(self) -> bool:
        for name, hash_ in self.told.get("files", {}).items():
            file = self.folder.path / name
            if not file.exists() or hash_of_file(file) != hash_:
                self.shown.say(f"{name} is missing or damaged: the run is computed again")
                self.told["finished"] = False
                return False
        return True

    def _check_stream(self) -> None:
        """Of a stream there is no fingerprint: its texts are held against those of the finished run, shard by shard."""
        if self.survey.known:
            return
        now = [shard.hash for shard in deal(self.records, self.plan.shard_size, self.bad)]
        if now != self.told.get("shards"):
            raise self._other_texts("the texts")

    def _other_texts(self, which: str) -> HeadscopeError:
        return HeadscopeError(
            f"{which} are not those that the run in {str(self.folder.path)!r} was begun with",
            "give the same texts in the same order, or name another folder",
        )


def check_bad(texts: int, bad: int, first: list[str], strict: bool, name: str) -> None:
    """No texts at all is an error, and bad records are where the caller is strict; the first of them are named."""
    named = "; ".join(first)
    if not texts:
        raise HeadscopeError(
            f"there are no texts in {name}" + (f": {bad:,} bad records, {named}" if bad else ""),
            "name the fields that are there with --text-field and --group-field" if bad else "check the input",
        )
    if bad and strict:
        raise HeadscopeError(
            f"{bad:,} bad records among {texts:,} texts: {named}", "mend them, or leave out --strict (strict=True)"
        )


@contextmanager
def stopping(shown: Progress) -> Iterator[Callable[[], bool]]:
    """Ctrl-C once: finish the shard. Twice: stop at once."""
    asked = False

    def handle(number: int, frame: FrameType | None) -> None:
        nonlocal asked
        if asked:
            raise KeyboardInterrupt
        asked = True
        shown.say("stopping after this shard; Ctrl-C again stops at once")

    if threading.current_thread() is not threading.main_thread():
        yield lambda: False
        return
    before = signal.signal(signal.SIGINT, handle)
    try:
        yield lambda: asked
    finally:
        signal.signal(signal.SIGINT, before)
