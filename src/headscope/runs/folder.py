"""The run's folder: its settings and the shards that are done, in a store that is claimed while a process works in it.

A shard is done when its record, the small object that names its data with their hashes, is there and they agree with
it. Data are named by their own hash, so that whoever writes them writes the same under the same name: the process that
claimed the folder, one of its workers, or both.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Protocol

from headscope.errors import HeadscopeError, brief
from headscope.files import sha256_of
from headscope.measures.variables import Shape, Sums, variable
from headscope.result.parts import Array, ShardInfo, add_sums, add_to, as_block, largest_in_block
from headscope.result.shards import Largest, largest_counts, unpack
from headscope.runs.added import GROUPS_AT_ONCE, AddedShards
from headscope.runs.manifest import Manifest, read_manifest
from headscope.stores import Store, open_store

MANIFEST, SHARDS, SUMS = "run.json", "shards", "h5"
AT_ONCE = 32  # shards that are looked at, or removed, at the same time: a store far away answers slowly, but to many
OWN = (MANIFEST, SHARDS, "claims")  # what a run's folder may hold before there is a manifest


@dataclass(frozen=True, slots=True)
class FinishedShard:
    """What is known of a shard that is done."""

    number: int
    group: str
    texts: int
    windows: int
    hash: str  # of its texts
    plan: str  # `Manifest.key` of the run that it is of
    refused: list[str]  # texts that no window could be made of
    files: dict[str, tuple[str, int]] = field(default_factory=dict)  # hash and size of its data, by kind
    tokens: int = 0  # that its texts have
    tokens_read: int = 0  # of these, in windows
    familiar_of: int = 0  # windows of which it was asked whether the tokenizer knows their words
    unfamiliar: int = 0  # of these, windows whose words it does not know


class _Checked(Protocol):
    """A claim, held by this process or by the one that it works for."""

    def check(self) -> None: ...


class ShardWriter:
    """Keeps shards in a run's folder, under a claim on it."""

    def __init__(self, store: Store, claim: _Checked) -> None:
        self.store, self.claim = store, claim

    def put(self, shard: FinishedShard, data: bytes, tables: Mapping[str, bytes]) -> FinishedShard:
        """Keep a shard: its data and tables first, then the record that says that they are whole."""
        contents = {SUMS: data, **tables}
        files = {name: (hashlib.sha256(content).hexdigest(), len(content)) for name, content in contents.items()}
        shard = replace(shard, files=files)
        self.claim.check()  # whoever was away for long leaves nothing lying about in a folder that is another's
        for name, content in contents.items():
            self.store.write(_data(shard, name), content)
        text = json.dumps(asdict(shard))
        own_hash = hashlib.sha256(text.encode()).hexdigest()
        self.claim.check()
        self.store.write(_record(shard.number), json.dumps({"about": text, "hash": own_hash}).encode())
        return shard


class RunFolder:
    """One run's folder, claimed as long as this object is open."""

    def __init__(self, path: str | Path) -> None:
        self.store: Store = open_store(path)
        self.claim = self.store.claim()
        self.writer = ShardWriter(self.store, self.claim)

    @property
    def name(self) -> str:
        """As the user wrote it."""
        return self.store.name

    def close(self) -> None:
        """Give the folder back."""
        self.claim.release()

    # ------------------------------------------------------------------ settings

    def read_manifest(self) -> Manifest | None:
        """The settings of the run; None in a new folder."""
        try:
            return read_manifest(self.store.read(MANIFEST), self.name)
        except FileNotFoundError:
            others = {name.partition("/")[0] for name in self.store.names()} - set(OWN)
            if others:
                raise HeadscopeError(
                    f"{self.name!r} holds other things ({', '.join(sorted(others)[:3])}) and no run",
                    "name a new or an empty folder",
                ) from None
            return None
        except (ValueError, OSError) as error:
            raise HeadscopeError(
                f"'{self.name.rstrip('/')}/{MANIFEST}' cannot be read: {brief(error)}",
                "remove the folder and start again",
            ) from error

    def write_manifest(self, manifest: Manifest) -> None:
        """Write down the settings of the run."""
        self.claim.check()
        self.store.write(MANIFEST, manifest.as_json().encode())

    # ------------------------------------------------------------------ shards

    def found_shards(self, plan: str) -> dict[int, FinishedShard | None]:
        """The shards of which a listing shows traces; None for what is damaged, or of another plan.

        A listing that lags costs time alone: what it does not show is computed again, to the same bytes.
        """
        with ThreadPoolExecutor(AT_ONCE) as threads:
            numbers = self.numbers()
            return dict(zip(numbers, threads.map(lambda number: self._found(number, plan), numbers), strict=True))

    def _found(self, number: int, plan: str) -> FinishedShard | None:
        try:
            stored = json.loads(self.store.read(_record(number)))
            if hashlib.sha256(stored["about"].encode()).hexdigest() != stored["hash"]:
                return None
            told = json.loads(stored["about"])
            shard = FinishedShard(**{each.name: told[each.name] for each in fields(FinishedShard)})
            whole = (
                self.store.is_whole(_data(shard, name), size, hash_) for name, (hash_, size) in shard.files.items()
            )
            sound = (shard.number, shard.plan) == (number, plan) and all(whole)
        except (OSError, ValueError, KeyError, AttributeError, TypeError):
            return None
        return shard if sound else None

    def numbers(self) -> list[int]:
        """The shards of which there are traces, as far as a listing shows them."""
        stems = [name.removeprefix(f"{SHARDS}/").removesuffix(".json") for name in self.store.names(SHARDS)]
        return sorted(int(stem) for stem in stems if stem.isdigit())

    def data(self, shard: FinishedShard) -> bytes | Path:
        """A shard's sums, packed."""
        return self._checked(shard, SUMS)

    def tables(self, name: str, shards: list[FinishedShard]) -> Iterator[bytes | Path]:
        """The shards' tables of one kind, in order."""
        return (self._checked(shard, name) for shard in shards)

    def _checked(self, shard: FinishedShard, name: str) -> bytes | Path:
        """A shard's data; what comes over a network is looked at again."""
        content = self.store.at_hand(_data(shard, name))
        if isinstance(content, bytes) and _hash_of(content) != shard.files[name][0]:
            self.store.remove(_record(shard.number))
            raise HeadscopeError(
                f"shard {shard.number} of the run in {self.name!r} is damaged", "the same command computes it again"
            )
        return content

    def remove_shards(self) -> None:
        """Remove the shards, once the result holds them."""
        with ThreadPoolExecutor(AT_ONCE) as threads:
            list(threads.map(self.store.remove, self.store.names(SHARDS)))

    # ------------------------------------------------------------------ what comes of it

    def making(self, name: str, size: int = 0) -> AbstractContextManager[Path]:
        """A path on this disk for a large file, which is in the folder when the block ends."""
        self.claim.check()
        return self.store.making(name, size)

    def hash_of(self, name: str) -> str | None:
        """The hash of a file of the finished run; None where there is no such file."""
        try:
            return _hash_of(self.store.at_hand(name))
        except FileNotFoundError:
            return None


def _record(number: int) -> str:
    return f"{SHARDS}/{number:06d}.json"


def _data(shard: FinishedShard, name: str) -> str:
    return f"{SHARDS}/{shard.number:06d}-{shard.files[name][0][:16]}.{name}"


def _hash_of(content: bytes | Path) -> str:
    return sha256_of(content) if isinstance(content, Path) else hashlib.sha256(content).hexdigest()


class FolderShards:
    """The shards of a folder, for merging. Each is read once: what is kept for groups is added up as blocks are made.

    Where there are many groups that would take too much memory, and shards are read again for it.
    """

    def __init__(
        self,
        folder: RunFolder,
        shards: list[FinishedShard],
        shapes: Mapping[str, Shape],
        added: AddedShards | None = None,
    ) -> None:
        self.folder, self.shards, self.shapes = folder, shards, shapes
        self.infos = [ShardInfo.of_shard(shard.group, shard.texts, shard.hash) for shard in shards]
        groups: dict[str, list[int]] = {}
        for place, shard in enumerate(shards):
            groups.setdefault(shard.group, []).append(place)
        self._members, self._once = groups, len(groups) <= GROUPS_AT_ONCE
        added = added or AddedShards(shapes)
        self._known, self._largest = added.blocks, added.largest
        # By group: the shards that are in its sums, and these.
        self._added = {group: list(members) for group, (members, _) in added.groups.items()}
        self._group_sums = {group: sums for group, (_, sums) in added.groups.items()}
        self._for_groups = added.names

    def sums(self, number: int) -> Sums:
        """One shard's sums as blocks keep them."""
        if number in self._known:
            return self._known.pop(number)
        shard = self.shards[number]
        read = unpack(self.folder.data(shard), lambda name: self._once or variable(name).kept == "block")
        if self._once:
            self._added.setdefault(shard.group, []).append(number)
            total = self._group_sums.setdefault(shard.group, {})
            for stack, sums in read.items():
                add_to(total.setdefault(stack, {}), {name: sums[name] for name in sums if name in self._for_groups})
        return as_block(read, self.shapes)

    def largest(self, number: int) -> Largest:
        """Bounds for its counts."""
        if number in self._largest:
            return self._largest[number]
        return largest_in_block(largest_counts(self.folder.data(self.shards[number])), self.shapes)

    def group_sums(self, group: str, name: str) -> dict[str, Array]:
        """One variable's sums over a group's shards, in their order."""
        total: Sums = {}
        if self._added.get(group) == self._members[group]:  # all of them, and in their order
            return {stack: sums[name] for stack, sums in self._group_sums[group].items() if name in sums}
        for shard in self.shards:
            if shard.group == group:
                for stack, sums in unpack(self.folder.data(shard), lambda each: each == name).items():
                    add_sums(total.setdefault(stack, {}), sums)
        return {stack: sums[name] for stack, sums in total.items() if name in sums}
