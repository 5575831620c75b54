"""A result: what a collection of texts came to, one labelled dataset for each attention stack of the model."""

from __future__ import annotations

import json
import shutil
import tempfile
import warnings
from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import h5netcdf
import numpy as np
import xarray as xr

from headscope.choices import described, differences
from headscope.errors import HeadscopeError, brief
from headscope.files import written_whole
from headscope.measures.block_sums import BlockSums
from headscope.measures.variables import FOCAL_TOKENS, VARIABLES, Shape, Sums
from headscope.result.checksum import check_seal
from headscope.result.merge import ABOUT_SHARDS, FILE, VERSION, ShardInfo, write_result
from headscope.shortcuts import ResultShortcuts

if TYPE_CHECKING:
    import pandas as pd


class Result(ResultShortcuts):
    """The sums of docs/method.md over a collection of texts; `dataset` is plain xarray.

    A model with several stacks has a dataset for each: `result.stack("cross")` is the same result seen through another.
    Results of different texts add up (`a + b`) where everything that decides their numbers is the same.

    >>> import headscope
    >>> texts = [(p["id"], p["text"], p["group"]) for p in headscope.passages()[:6]]
    >>> result = headscope.analyze(headscope.load(), texts, progress=False)
    >>> result
    Result: 6 windows with headscope/bert12, encoder 12 layers × 12 heads, 6 shards, groups encyclopedia
    >>> result.dataset.pairs.dims
    ('layer', 'head', 'level', 'distance', 'relation')
    """

    def __init__(
        self, file: str | Path, stack: str | None = None, *, keep: Any = None, attrs: dict[str, Any] | None = None
    ) -> None:
        self.file, self._keep = Path(file), keep
        self.attrs = _attributes(self.file) if attrs is None else attrs
        self.stacks: tuple[str, ...] = tuple(self.attrs["stacks"].split(", "))
        self.name = stack or self.stacks[0]
        if self.name not in self.stacks:
            raise HeadscopeError(f"there is no stack {stack!r}", f"the result has {', '.join(self.stacks)}")
        self.settings: dict[str, Any] = json.loads(self.attrs["settings"])
        self.model: dict[str, Any] = json.loads(self.attrs["model"])
        self.texts: dict[str, Any] = json.loads(self.attrs["texts"])
        self.kept: dict[Any, Any] = {}  # results that take long and are used more than once

    @classmethod
    def open(cls, path: str | Path) -> Result:
        """Open a run's folder or a result file."""
        path = Path(path)
        file = path / FILE if path.is_dir() else path
        if path.is_dir() and not file.exists():
            raise HeadscopeError(
                f"{str(path)!r} holds no result",
                "finish the run with the command that started it, or name another folder",
            )
        return cls(file)

    def __repr__(self) -> str:
        sizes = self.dataset.sizes
        groups = f", groups {', '.join(self.groups)}" if any(self.groups) else ""
        return (
            f"Result: {int(self.dataset.texts):,} windows with {self.model['name']}, {self.name} "
            f"{sizes['layer']} layers × {sizes['head']} heads, {self.shards.sizes['shard']} shards{groups}"
        )

    # ------------------------------------------------------------------ reading

    def stack(self, name: str) -> Result:
        """The same result for another attention stack of the model."""
        return Result(self.file, name, keep=self._keep, attrs=self.attrs)

    @cached_property
    def dataset(self) -> xr.Dataset:
        """The sums over all texts."""
        with self._opened("") as opened:
            return opened.load()

    @cached_property
    def shards(self) -> xr.Dataset:
        """The same for each shard, without the mean matrix; read from the file only as far as it is used."""
        opened = self._opened("shards")
        return opened.assign_coords({k: v for k, v in self.dataset.coords.items() if k in opened.dims})

    @property
    def groups(self) -> list[str]:
        """The groups of texts, in their order."""
        return list(dict.fromkeys(str(group) for group in self.shards["group"].values))

    def _opened(self, part: str) -> xr.Dataset:
        inside = [] if self.name == self.stacks[0] else [self.name]
        group = "/".join([*inside, *([part] if part else [])]) or None
        return xr.open_dataset(self.file, engine="h5netcdf", group=group)

    def layer_summary(self, tau: float | None = None) -> pd.DataFrame:
        """A row per layer: separator focus, reach, preferences, focal tokens; counts pooled over its heads."""
        from headscope.result.summary import by_layer

        return by_layer(self, self.tau(tau))

    def summary(self, tau: float | None = None) -> pd.DataFrame:
        """The same with a row per head."""
        from headscope.result.summary import by_head

        return by_head(self, self.tau(tau))

    @cached_property
    def blocks(self) -> BlockSums:
        """The sums of each block of texts as arrays: read once, and all that numbers with intervals are made of."""
        from headscope.result.blocks import block_sums

        return block_sums(self)

    def mean_matrix(self) -> xr.DataArray:
        """Mean S of every head by place in the window; NaN where no text has a pair. Kept for windows up to 512 tokens.

        Matrices are kept as sums over all texts only, so there are no intervals.
        """
        if "similarity_sum" not in self.dataset:
            raise HeadscopeError("the mean matrix of windows this long is not kept", "analyse with a shorter window")
        total, number = self.dataset["similarity_sum"], self.dataset["position_pairs"]
        return (total / number.where(number > 0)).rename("mean_similarity")

    @property
    def inspect_options(self) -> dict[str, Any]:
        """The choices of the run, as `model.inspect` takes them: how one of its texts is looked at in the same way."""
        return {choice.name: self.settings[choice.name] for choice in described(of_text=True)}

    def tau(self, tau: float | None) -> float:
        """τ as asked for, or the run's own."""
        return float(self.settings["tau"] if tau is None else tau)

    @property
    def selected(self) -> bool:
        """Whether it is a part of a run, or a sum of runs: then it has no rows per text of its own."""
        return not self.texts.get("whole", True)

    def examples(self, layer: int, head: int, score: str, k: int = 5, *, lowest: bool = False) -> pd.DataFrame:
        """The texts in which one head shows a score most (or least): needs a run with per-text rows.

        Scores: stop_focus, end_focus, high_pairs, distance, sentence_share, repetition_share, focal_share.
        """
        from headscope.result.rows import examples

        return examples(self, layer, head, score, k, lowest)

    # ------------------------------------------------------------------ adding, choosing, saving

    def __add__(self, other: Result) -> Result:
        if not isinstance(other, Result):
            return NotImplemented
        _check_same(self, other)
        mine, theirs = (set(r.shards["texts_hash"].values.tolist()) for r in (self, other))
        if mine & theirs:
            warnings.warn("the two results share texts, which will count twice", stacklevel=2)
        texts = {
            "name": f"{self.texts['name']}; {other.texts['name']}",
            "texts": self.texts["texts"] + other.texts["texts"],
            "bad": self.texts["bad"] + other.texts["bad"],
            "refused": self.texts["refused"] + other.texts["refused"],
            "clusters": self.texts.get("clusters", 0) + other.texts.get("clusters", 0),
            "clusters_again": self.texts.get("clusters_again", 0) + other.texts.get("clusters_again", 0),
            "whole": False,
        }
        return self._written([_ResultShards(self), _ResultShards(other)], {"texts": texts})

    def select(self, group: str | Sequence[str]) -> Result:
        """The result of one group of texts, or of several."""
        wanted = [group] if isinstance(group, str) else list(group)
        for name in wanted:
            if name not in self.groups:
                raise HeadscopeError(f"there is no group {name!r}", f"the groups are {', '.join(self.groups)}")
        if not wanted:
            raise HeadscopeError("no group is named", f"the groups are {', '.join(self.groups)}")
        counts, groups = self.shards["texts_read"].values, self.shards["group"].values
        taken = sum(int(n) for n, name in zip(counts, groups, strict=True) if name in wanted)
        # Bad records are of no group, so a selection has none.
        name = f"{self.texts['name']}: {', '.join(wanted)}"
        texts = {"name": name, "texts": taken, "bad": 0, "refused": 0, "whole": False}
        return self._written([_ResultShards(self)], {"texts": texts}, groups=wanted)

    def _written(
        self, sources: list[_ResultShards], header: dict[str, Any], groups: Sequence[str] | None = None
    ) -> Result:
        folder = tempfile.TemporaryDirectory(prefix="headscope-")
        file = Path(folder.name) / FILE
        words: dict[int, str] = {}
        for source in sources:
            words |= source.words()
        kept = {k: v for k, v in self.attrs.items() if k not in ("schema", "stacks", "stack", "_NCProperties")}
        shapes = {name: _shape(stack) for name, stack in sources[0].stacks.items()}

        def text(ids: Iterable[int]) -> list[str]:
            return [words.get(i, "") for i in ids]

        write_result(file, sources, shapes, kept | header, text, groups=groups)
        return Result(file, self.name, keep=folder)

    def save(self, file: str | Path) -> Path:
        """Copy the result to a file of its own."""
        target = Path(file)
        if target.suffix != ".nc":
            raise HeadscopeError(f"{str(file)!r} is not named like a netCDF file", "end the name in .nc")
        with written_whole(target) as partial:
            shutil.copyfile(self.file, partial)
        return target

    def close(self) -> None:
        """Close the file."""
        if "shards" in self.__dict__:
            self.shards.close()


class _ResultShards:
    """The shards of a finished result, for merging again."""

    def __init__(self, result: Result) -> None:
        self.stacks = {name: result.stack(name) for name in result.stacks}
        first = self.stacks[result.stacks[0]].shards
        texts, groups, hashes = (first[name].values for name in ("texts_read", "group", "texts_hash"))
        self.infos = [ShardInfo(str(g), int(t), str(h)) for t, g, h in zip(texts, groups, hashes, strict=True)]

    def sums(self, number: int, only: str | None = None) -> Sums:
        sums: Sums = {}
        for name, result in self.stacks.items():
            shard = (result.shards[[only]] if only else result.shards).isel(shard=number).load()
            sums[name] = {
                str(key): values.values if values.dtype.kind == "f" else values.values.astype(np.int64)
                for key, values in shard.data_vars.items()
                if key not in ABOUT_SHARDS
            }
            dense = sums[name][FOCAL_TOKENS]
            places = np.argwhere(dense)
            tokens = result.dataset["token"].values[places[:, 2]] if len(places) else np.zeros(0, dtype=np.int64)
            sums[name][FOCAL_TOKENS] = np.column_stack([places[:, 0], places[:, 1], tokens, dense[tuple(places.T)]])
        return sums

    def group_sums(self, group: str) -> Sums:
        sums: Sums = {}
        for stack, result in self.stacks.items():
            names = [name for name, each in VARIABLES.items() if each.kept == "group" and name in result.dataset]
            if len(result.groups) < 2:
                sums[stack] = {name: result.dataset[name].values for name in names}
                continue
            with result._opened("groups") as opened:
                place = json.loads(opened.attrs["names"]).index(group)
                sums[stack] = {name: opened[f"{name}_{place}"].values for name in names}
        return sums

    def words(self) -> dict[int, str]:
        """How the tokens are written."""
        return {
            int(i): str(text)
            for result in self.stacks.values()
            for i, text in zip(result.dataset["token"].values, result.dataset["token_text"].values, strict=True)
        }


def _shape(result: Result) -> Shape:
    relations = tuple(result.settings["relations"])
    sizes = result.dataset.sizes
    layers = tuple(int(layer) for layer in result.dataset["layer"].values)
    cross, readings = result.name == "cross", (result.settings["similarity"],)
    return Shape(layers, sizes["head"], sizes["i"], relations, cross, readings)


def _check_same(first: Result, second: Result) -> None:
    different = differences(first.settings, second.settings)
    parts = [part for part in ("weights", "config", "tokenizer") if first.model[part] != second.model[part]]
    if parts:
        different.append(f"model: {first.model['name']}, and {second.model['name']} (their {', '.join(parts)} differ)")
    if first.stacks != second.stacks:
        different.append(f"stacks: {first.stacks}, and {second.stacks}")
    if different:
        raise HeadscopeError(f"results that differ do not add up: {'; '.join(different)}", "compare them instead")


def _attributes(file: Path) -> dict[str, Any]:
    """What the file says of itself, or an error that says why it cannot be read."""
    if not file.exists():
        raise HeadscopeError(f"there is no file {str(file)!r}", "check the path")
    try:
        check_seal(file)
        with h5netcdf.File(file, "r") as opened:  # much faster than a whole dataset
            attrs = dict(opened.attrs)
    except (OSError, ValueError, KeyError, RuntimeError, TypeError, AttributeError) as error:
        raise HeadscopeError(
            f"{str(file)!r} cannot be read: {brief(error)}", "it may be damaged or something else"
        ) from error
    version = attrs.get("schema")
    if version is None or "settings" not in attrs:
        raise HeadscopeError(
            f"{str(file)!r} is not a result of headscope analyze", "name a result.nc or a run's folder"
        )
    if version != VERSION:
        age = "an older" if isinstance(version, (int, np.integer)) and version < VERSION else "a newer"
        raise HeadscopeError(
            f"{str(file)!r} is of {age} schema, {version}; this headscope reads {VERSION}",
            f"use headscope {attrs.get('headscope', 'of that time')}, or run the analysis again",
        )
    try:
        parts = [json.loads(attrs[name]) for name in ("settings", "model", "texts")]
        sound = all(isinstance(part, dict) for part in parts) and isinstance(attrs["stacks"], str)
        sound = sound and "tau" in parts[0] and "name" in parts[1]
        sound = sound and {"name", "texts", "bad", "refused"} <= set(parts[2])
    except (KeyError, ValueError, TypeError):
        sound = False
    if not sound:
        raise HeadscopeError(f"{str(file)!r} does not say what it holds", "it may be damaged; run the analysis again")
    return attrs
