"""One run: prepared with its folder, shard by shard through the model, put together at the end."""

from __future__ import annotations

import gc
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from itertools import chain
from types import FrameType
from typing import TYPE_CHECKING, Any

import torch

from headscope.choices import differences
from headscope.errors import HeadscopeError
from headscope.files import sha256_of
from headscope.measures.own_relations import Labels
from headscope.measures.variables import MATRIX, Shape, Sums, variable
from headscope.models.fingerprint import model_fingerprint, versions
from headscope.models.reading import OutOfMemory
from headscope.result.merge import write_result
from headscope.result.rows import HEADS, TEXTS, join_tables
from headscope.result.schema import FILE, VERSION
from headscope.result.shards import pack
from headscope.runs.capacity import TRIAL_TEXTS, measured_capacity, threads_for
from headscope.runs.clusters import ClusterCount
from headscope.runs.deal import Shard, deal, peek, take_first
from headscope.runs.folder import RESUME_REMEDY, FolderShards, RunFolder, reserve
from headscope.runs.paths import choose_path
from headscope.runs.plan import Plan, default_batch, default_shard_size
from headscope.runs.progress import Progress
from headscope.runs.row_files import row_files
from headscope.runs.settings import Settings
from headscope.runs.worker import ShardAhead, ShardResult, Threads, Worker
from headscope.texts import BadRecords, Corpus, Survey
from headscope.texts.corpus import no_texts
from headscope.texts.records import NAMED

if TYPE_CHECKING:
    from headscope.models.model import Model


@dataclass(frozen=True, slots=True)
class WorkOptions:
    """How the caller wants the work cut up; None leaves it to headscope."""

    shard_size: int | None = None
    batch_size: int | None = None
    threads: int | None = None
    per_text: bool = False
    path: str | None = None


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
        progress: Progress,
        strict: bool,
        options: WorkOptions,
    ) -> None:
        self.model, self.settings, self.relations, self.options = model, settings, relations, options
        self.corpus, self.survey, self.folder, self.progress, self.strict = corpus, survey, folder, progress, strict
        self.records = corpus.records()
        self.bad, self.clusters = BadRecords(), ClusterCount()
        self.plan, self.manifest = self._prepared()
        self._writer = ThreadPoolExecutor(1)
        self._writing: Future[None] | None = None

    # ------------------------------------------------------------------ before

    def _prepared(self) -> tuple[Plan, dict[str, Any]]:
        """Decide everything that is to stay the same, or take it over from the run that is resumed."""
        suited, options = default_shard_size(self.survey.texts), self.options
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
        before = self.folder.read_manifest()
        device = self.model.network.device.type
        if before is None:
            batch = options.batch_size or default_batch(device, self.settings.choices.window)
            path, why = choose_path(options.path, self.model.network.device, self.settings.choices)
            if why:
                self.progress.say(why)
            plan = Plan(options.shard_size or suited, device, [[0, batch]], options.per_text, path)
            manifest = wanted | {"plan": asdict(plan), "versions": versions(), "finished": False}
            self.folder.write_manifest(manifest)
            return plan, manifest
        self._check_same(before, wanted, device)
        now = versions()
        if before["versions"] != now:
            changed = "; ".join(differences(before["versions"], now))
            self.progress.say(f"note: the run was started with other versions ({changed}); last digits may differ")
        if self.folder.stale and not before["finished"]:
            self.progress.say(f"the last attempt ({self.folder.stale}) ended before the run was finished; going on")
        return Plan(**before["plan"]), before

    def _check_same(self, before: Mapping[str, Any], wanted: Mapping[str, Any], device: str) -> None:
        """A run is resumed only where everything that decides its numbers is as it was."""
        was, now = ({key: dict(each[key]) for key in ("settings", "model", "texts")} for each in (before, wanted))
        for each in (was, now):
            each["model"].pop("name", None)  # a folder may have been moved
            each["texts"].pop("name", None)
        plan, options = Plan(**before["plan"]), self.options
        was["plan"] = {"per_text": plan.per_text, "device": plan.device}
        now["plan"] = {"per_text": options.per_text, "device": device}
        named: dict[str, tuple[Any, Any]] = {
            "shard_size": (options.shard_size, plan.shard_size),
            "batch_size": (options.batch_size, plan.batches[0][1]),
            "path": (options.path, plan.path),
        }
        for name, (asked, kept) in named.items():
            if asked is not None:
                was["plan"][name], now["plan"][name] = kept, asked
        changed = differences(was, now)
        if changed:
            raise HeadscopeError(
                f"the run in {str(self.folder.path)!r} was started with other settings (then, and now): "
                f"{'; '.join(changed)}",
                "repeat the first command to go on with it, or name another folder",
            )

    def _threads(self) -> Threads:
        """How to use the cores. Where the batch size is headscope's own choice, memory is looked at first."""
        device, cores = self.model.network.device.type, self.options.threads or torch.get_num_threads()
        if self.options.batch_size is not None:
            return threads_for(device, cores, cores)
        first = take_first(self.records, self.bad, TRIAL_TEXTS)
        self.records = chain(first, self.records)
        if not first:
            return Threads()
        capacity = measured_capacity(self.model, self.settings, self.relations, first, None, self.plan.path)
        if capacity.batch < self.plan.batches[0][1] and not self.folder.numbers():
            self._use_batches([[0, capacity.batch]], f"memory is short: {capacity.batch} windows in a batch")
        return threads_for(device, cores, capacity.side_by_side)

    def _use_batches(self, batches: list[list[int]], why: str) -> None:
        """Other batch sizes than planned, noted down before they are used."""
        self.plan.batches = batches
        self.manifest["plan"] = asdict(self.plan)
        self.folder.write_manifest(self.manifest)
        self.progress.say(why)

    # ------------------------------------------------------------------ the work

    def run(self) -> None:
        """Compute the shards that are missing, then put all of them together."""
        if self.manifest["finished"] and self._result_is_whole():
            self._check_stream()
            self.folder.remove_shards()
            self.progress.say("the run is finished already")
            return
        plan, before = self.plan, torch.get_num_threads()
        shards = None if self.survey.clustered else self.survey.shards(plan.shard_size)  # clusters make them fewer
        self.progress.start(self.survey.texts if self.survey.known else None, shards)
        try:
            threads = self._threads()
            worker = Worker(
                self.model, self.settings, self.relations, threads=threads, per_text=plan.per_text, path=plan.path
            )
            with worker, self._writer, stopping(self.progress) as stop:
                shard_infos = [self._shard(worker, *shard, stop) for shard in self._shards(worker)]
                self._wait_for_writing()
        finally:
            torch.set_num_threads(before)
        if any(number >= len(shard_infos) for number in self.folder.numbers()):
            raise self._other_texts(f"the texts end after {len(shard_infos)} shards and so")
        refused = [line for info in shard_infos for line in info["refused"]]
        bad, first = self.bad.number + len(refused), [*self.bad.first, *refused]
        check_bad(sum(info["texts"] for info in shard_infos), bad, first[:NAMED], self.strict, self.corpus.name)
        self._finish(shard_infos, worker.shapes, refused)

    def _shards(self, worker: Worker) -> Iterator[tuple[Shard, dict[str, Any] | None, ShardAhead]]:
        """The shards, what is known of those that are finished, and those that are not, some of them begun ahead."""
        waiting: deque[tuple[Shard, dict[str, Any] | None, ShardAhead]] = deque()
        for shard in deal(self.records, self.plan.shard_size, self.bad):
            finished = self.folder.finished_shard(shard.number)
            begun = worker.begin(() if finished else shard.records, self.plan.batch(shard.number))
            waiting.append((shard, finished, begun))
            if len(waiting) > worker.ahead:
                yield waiting.popleft()
        yield from waiting

    def _shard(
        self,
        worker: Worker,
        shard: Shard,
        shard_info: dict[str, Any] | None,
        ahead: ShardAhead,
        stop: Callable[[], bool],
    ) -> dict[str, Any]:
        self.clusters.add(shard.records)
        if shard_info is not None:
            if shard_info["hash"] != shard.hash:
                raise self._other_texts(f"the texts of shard {shard.number}")
            self.progress.skip(shard_info["texts"])
            return shard_info
        if self.folder.has_traces(shard.number):
            self.progress.say(f"shard {shard.number} is damaged and is computed again")
        computed = self._compute(worker, shard, ahead)
        shard_info = {
            "group": shard.group,
            "texts": len(shard.records),
            "windows": len(computed.windows),
            "hash": shard.hash,
            "refused": computed.refused,
        }
        rows = row_files(computed, self.model.tokenizer) if self.plan.per_text else {}
        self._wait_for_writing()
        self._writing = self._writer.submit(self._write, shard.number, computed.sums, rows, shard_info)
        if stop():
            self._wait_for_writing()
            raise KeyboardInterrupt
        return shard_info

    def _write(
        self, number: int, sums: Callable[[], Sums], rows: Mapping[str, bytes], shard_info: dict[str, Any]
    ) -> None:
        self.folder.put_shard(number, pack(sums()), rows, shard_info)

    def _wait_for_writing(self) -> None:
        """Wait until the last shard is on the disk: it is written while the next one is computed."""
        if self._writing is not None:
            self._writing.result()
            self._writing = None
            self.progress.shard()

    def _compute(self, worker: Worker, shard: Shard, ahead: ShardAhead) -> ShardResult:
        """Run a shard, with smaller batches where memory runs out."""
        while True:
            batch, before = self.plan.batch(shard.number), self.progress.done
            try:
                computed = worker.shard(shard.records, batch, self.progress.advance, ahead)
            except OutOfMemory as error:
                if batch == 1:
                    raise HeadscopeError(
                        "a single window does not fit into memory", "take a smaller window, or fewer layers"
                    ) from error
            else:
                self.progress.settle(before + len(shard.records))
                return computed
            self.progress.settle(before)
            half = [*self.plan.batches, [shard.number, batch // 2]]
            self._use_batches(half, f"out of memory with {batch} windows in a batch: going on with {batch // 2}")
            gc.collect()  # the error held what the batch had taken

    # ------------------------------------------------------------------ after

    def _finish(self, shard_infos: list[dict[str, Any]], shapes: Mapping[str, Shape], refused: list[str]) -> None:
        folder, path = self.folder, self.folder.path
        if not sum(info["windows"] for info in shard_infos):
            raise HeadscopeError(f"no window could be made of any text: {'; '.join(refused[:3])}", "check the texts")
        bad = self.survey.bad_records if self.survey.known else self.bad
        texts = self.manifest["texts"] | {
            "texts": sum(info["texts"] for info in shard_infos) - len(refused),
            "bad": bad.number,
            "first_bad": bad.first,
            "refused": len(refused),
            "clusters": self.clusters.number,
            "clusters_again": self.clusters.again,
        }
        header = {
            "title": "headscope analysis of a collection of texts",
            "source": "Halevi, Tzach, Gross, Rosner and Kanter, arXiv:2512.21956",
            "headscope": self.manifest["versions"]["headscope"],
            "settings": self.manifest["settings"],
            "model": self.manifest["model"],
            "texts": texts,
            "plan": self.manifest["plan"],
            "versions": self.manifest["versions"],
        }
        tokenizer = self.model.tokenizer

        def words(ids: Any) -> list[str]:
            return [str(tokenizer.convert_ids_to_tokens(int(i))).replace("\x00", "␀") for i in ids]

        reserve(path / FILE, self._result_bytes(shard_infos, shapes))
        shards = FolderShards(folder, shard_infos, shapes)
        write_result(path / FILE, [shards], shapes, header, words, remedy=RESUME_REMEDY)
        files = [FILE]
        if self.plan.per_text:
            for name in (HEADS, TEXTS):
                join_tables(folder.tables(name, range(len(shard_infos))), path / name, remedy=RESUME_REMEDY)
                files.append(name)
        hashes = {name: sha256_of(path / name) for name in files}
        folder.write_manifest(
            self.manifest | {"finished": True, "files": hashes, "shards": [info["hash"] for info in shard_infos]}
        )
        folder.remove_shards()
        if bad.number or refused:
            named = "; ".join([*bad.first, *refused][:NAMED])
            self.progress.say(f"{bad.number + len(refused):,} bad records were left out: {named}")
        if texts["clusters_again"]:
            self.progress.say(
                f"{texts['clusters_again']:,} of {texts['clusters']:,} clusters come again in another shard, so that "
                "intervals may be too narrow: put the texts of a cluster next to each other (and in one group)"
            )

    def _result_bytes(self, shard_infos: list[dict[str, Any]], shapes: Mapping[str, Shape]) -> int:
        """At most so large is the result: what shards hold, once each in blocks, in all and in groups.

        Added, counts take no more room than apart; a mean matrix takes the same, of however many shards.
        """
        half = sum(  # of a mean matrix, the half that is filled
            len(s.layers) * s.heads * s.length * (s.length - 1) * 4
            for s in shapes.values()
            if variable(MATRIX).is_of(s)
        )
        others = sum(max(self.folder.size(number) - half, 0) for number in range(len(shard_infos)))
        groups = len({info["group"] for info in shard_infos})
        return 2 * (others + half) if groups == 1 else 3 * others + 2 * half * (1 + groups)

    def _result_is_whole(self) -> bool:
        for name, hash_ in self.manifest.get("files", {}).items():
            file = self.folder.path / name
            if not file.exists() or sha256_of(file) != hash_:
                self.progress.say(f"{name} is missing or damaged: the run is computed again")
                self.manifest["finished"] = False
                return False
        return True

    def _check_stream(self) -> None:
        """A stream has no fingerprint: its texts are compared with those of the finished run, shard by shard."""
        if self.survey.known:
            return
        now = [shard.hash for shard in deal(self.records, self.plan.shard_size, self.bad)]
        if now != self.manifest.get("shards"):
            raise self._other_texts("the texts")

    def _other_texts(self, which: str) -> HeadscopeError:
        return HeadscopeError(
            f"{which} are not those that the run in {str(self.folder.path)!r} was started with",
            "give the same texts in the same order, or name another folder",
        )


def check_bad(texts: int, bad: int, first: list[str], strict: bool, name: str) -> None:
    """No texts at all is an error, and bad records are where the caller is strict; the first of them are named."""
    if not texts:
        raise no_texts(name, bad, first)
    named = "; ".join(first)
    if bad and strict:
        raise HeadscopeError(
            f"{bad:,} bad records among {texts:,} texts: {named}", "fix them, or leave out --strict (strict=True)"
        )


@contextmanager
def stopping(progress: Progress) -> Iterator[Callable[[], bool]]:
    """Ctrl-C once: finish the shard. Twice: stop at once."""
    requested = False

    def handle(number: int, frame: FrameType | None) -> None:
        nonlocal requested
        if requested:
            raise KeyboardInterrupt
        requested = True
        progress.say("stopping after this shard; Ctrl-C again stops at once")

    if threading.current_thread() is not threading.main_thread():
        yield lambda: False
        return
    before = signal.signal(signal.SIGINT, handle)
    try:
        yield lambda: requested
    finally:
        signal.signal(signal.SIGINT, before)
