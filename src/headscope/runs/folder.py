"""The run's folder: its settings, the shards that are done, a lock while a process works in it.

A file that has its final name is whole: each is written beside its place, flushed to the disk and renamed. A shard is
done when its data and the small file that holds their hash are there and agree.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import platform
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import psutil
from filelock import FileLock, Timeout

from headscope.errors import HeadscopeError, brief
from headscope.files import file_error, partial_name, sha256_of, writable, write_whole
from headscope.measures.variables import Shape, Sums, variable
from headscope.result.parts import Array, ShardInfo, add_sums, as_block, largest_in_block
from headscope.result.schema import check_version
from headscope.result.shards import Largest, largest_counts, unpack
from headscope.runs.plan import Plan

SETTINGS, LOCK, SHARDS = "run.json", ".lock", "shards"
RESUME_REMEDY = (
    "make room or check the permissions; every finished shard is kept, and the same command goes on from there"
)


class RunFolder:
    """One run's folder, locked as long as this object is open."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.shards = self.path / SHARDS
        self.stale = ""  # who left a lock behind without finishing
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            self.lock = FileLock(str(self.path / LOCK))
            self._acquire()
        except (FileExistsError, NotADirectoryError) as error:
            raise HeadscopeError(f"{str(self.path)!r} is not a folder", "name a folder for the run") from error
        except OSError as error:
            raise file_error(self.path, "be used for a run", error, RESUME_REMEDY) from error

    def _acquire(self) -> None:
        owner = self.path / f"{LOCK}.json"
        try:
            self.lock.acquire(timeout=0)
        except Timeout as error:
            raise HeadscopeError(
                f"another process is working in {str(self.path)!r}: {_owner(owner)}", "wait for it, or stop it first"
            ) from error
        if owner.exists():
            self.stale = _owner(owner)  # the lock itself ends with its process, so this one is dead
        process = {"pid": os.getpid(), "host": platform.node(), "since": psutil.Process().create_time()}
        write_whole(owner, json.dumps(process), RESUME_REMEDY)

    def close(self) -> None:
        """Give the folder back."""
        if self.lock.is_locked:
            (self.path / f"{LOCK}.json").unlink(missing_ok=True)
            self.lock.release()  # the file stays: somebody may be about to lock it

    # ------------------------------------------------------------------ settings

    def read_manifest(self) -> dict[str, Any] | None:
        """The settings of the run; None in a new folder."""
        file = self.path / SETTINGS
        if not file.exists():
            others = [p.name for p in self.path.iterdir() if not p.name.startswith(".")]
            if others:
                raise HeadscopeError(
                    f"{str(self.path)!r} holds other things ({', '.join(sorted(others)[:3])}) and no run",
                    "name a new or an empty folder",
                )
            return None
        try:
            manifest: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
            _check_manifest(manifest, self.path)
        except (ValueError, OSError) as error:
            raise HeadscopeError(
                f"{str(file)!r} cannot be read: {brief(error)}", "remove the folder and start again"
            ) from error
        return manifest

    def write_manifest(self, manifest: Mapping[str, Any]) -> None:
        """Write down the settings of the run."""
        write_whole(self.path / SETTINGS, json.dumps(manifest, indent=1), RESUME_REMEDY)

    # ------------------------------------------------------------------ shards

    def put_shard(self, number: int, data: bytes, tables: Mapping[str, bytes], info: Mapping[str, Any]) -> None:
        """Keep a shard: its data and tables first, then the file that says they are whole."""
        self.shards.mkdir(exist_ok=True)
        hashes = {}
        for name, content in {"h5": data, **tables}.items():
            write_whole(self._file(number, name), content, RESUME_REMEDY)
            hashes[name] = hashlib.sha256(content).hexdigest()
        text = json.dumps({**info, "files": hashes})
        own_hash = hashlib.sha256(text.encode()).hexdigest()
        write_whole(self._file(number, "json"), json.dumps({"about": text, "hash": own_hash}), RESUME_REMEDY)

    def finished_shard(self, number: int) -> dict[str, Any] | None:
        """What is known of a finished shard; None where it is missing or damaged."""
        try:
            stored = json.loads(self._file(number, "json").read_text(encoding="utf-8"))
            if hashlib.sha256(stored["about"].encode()).hexdigest() != stored["hash"]:
                return None
            info: dict[str, Any] = json.loads(stored["about"])
            for name, hash_ in info["files"].items():
                if sha256_of(self._file(number, name)) != hash_:
                    return None
        except (OSError, ValueError, KeyError, AttributeError, TypeError):
            return None
        return info

    def numbers(self) -> list[int]:
        """The shards of which there are traces."""
        return sorted(int(file.stem) for file in self.shards.glob("[0-9]*.json") if file.stem.isdigit())

    def has_traces(self, number: int) -> bool:
        """Whether there are traces of a shard, whole or not."""
        return self._file(number, "json").exists()

    def size(self, number: int) -> int:
        """How many bytes a shard's sums take."""
        return self._file(number, "h5").stat().st_size

    def data(self, number: int) -> Path:
        """The file of a shard's sums."""
        return self._file(number, "h5")

    def tables(self, name: str, numbers: range) -> list[Path]:
        """The shards' tables of one kind, in order."""
        return [self._file(number, name) for number in numbers]

    def _file(self, number: int, name: str) -> Path:
        return self.shards / f"{number:06d}.{name}"

    def remove_shards(self) -> None:
        """Remove the shards, once the result holds them."""
        if self.shards.exists():
            shutil.rmtree(self.shards)


def _check_manifest(manifest: Any, path: Path) -> None:
    """Whether what run.json holds is what was once written to it, by a headscope that kept the same sums."""
    if not isinstance(manifest, dict) or not isinstance(manifest.get("schema"), int):
        raise ValueError("it holds no settings")
    check_version(manifest["schema"], f"the run in {str(path)!r}", _made_by(manifest))
    for name, kind in (("settings", dict), ("model", dict), ("texts", dict), ("plan", dict),
                       ("versions", dict), ("finished", bool)):  # fmt: skip
        if not isinstance(manifest.get(name), kind):
            raise ValueError(f"{name} is missing or of the wrong kind")
    try:
        plan = Plan(**manifest["plan"])
        plan.batch(0)
    except (TypeError, ValueError, IndexError) as error:
        raise ValueError("its plan makes no sense") from error


def _made_by(manifest: Mapping[str, Any]) -> object:
    known = manifest.get("versions")
    return known.get("headscope") if isinstance(known, dict) else None


class FolderShards:
    """The shards of a folder, for merging."""

    def __init__(self, folder: RunFolder, shard_infos: list[dict[str, Any]], shapes: Mapping[str, Shape]) -> None:
        self.folder, self.shapes = folder, shapes
        self.infos: list[ShardInfo] = [
            ShardInfo.of_shard(info["group"], info["texts"], info["hash"]) for info in shard_infos
        ]

    def sums(self, number: int) -> Sums:
        """One shard's sums as blocks keep them."""
        return as_block(unpack(self.folder.data(number), lambda name: variable(name).kept == "block"), self.shapes)

    def largest(self, number: int) -> Largest:
        """Bounds for its counts."""
        return largest_in_block(largest_counts(self.folder.data(number)), self.shapes)

    def group_sums(self, group: str, name: str) -> dict[str, Array]:
        """One variable's sums over a group's shards, in their order."""
        total: Sums = {}
        for number, info in enumerate(self.infos):
            if info.group == group:
                for stack, sums in unpack(self.folder.data(number), lambda each: each == name).items():
                    add_sums(total.setdefault(stack, {}), sums)
        return {stack: sums[name] for stack, sums in total.items() if name in sums}


def reserve(file: Path, size: int) -> None:
    """Find out that a file will fit before it is written: HDF5 does not survive a disk that fills up under it."""
    partial = partial_name(file)
    with writable(file, RESUME_REMEDY):
        try:
            handle = os.open(partial, os.O_CREAT | os.O_WRONLY)
            try:
                if hasattr(os, "posix_fallocate"):
                    os.posix_fallocate(handle, 0, size)
                elif shutil.disk_usage(file.parent).free < size:
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            finally:
                os.close(handle)
        finally:
            partial.unlink(missing_ok=True)


def _owner(file: Path) -> str:
    try:
        owner = json.loads(file.read_text(encoding="utf-8"))
        return f"process {int(owner['pid'])} on {owner['host']}"
    except (OSError, ValueError, KeyError, TypeError):
        return "unknown process"
