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

import xarray as xr

from headscope.choices import described, first_high_bin
from headscope.errors import HeadscopeError, counted
from headscope.files import disk_file, disk_path, is_url, writable, written_whole
from headscope.measures.block_sums import BlockSums
from headscope.measures.variables import Shape
from headscope.result.adding import ResultBlocks, check_same, shared_texts, texts_together
from headscope.result.merge import write_result
from headscope.result.netcdf import open_group
from headscope.result.parts import kept_for_groups
from headscope.result.rows import HEADS, TEXTS, RowSource, sources_of, write_rows
from headscope.result.schema import FILE, read_attributes
from headscope.result.stack_writer import BLOCKS, GROUPS
from headscope.shortcuts import ResultShortcuts
from headscope.stores import fetch

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
    Result: 6 windows with headscope/bert12, encoder 12 layers × 12 heads, 6 blocks, groups encyclopedia
    >>> result.dataset.pairs.dims
    ('layer', 'head', 'level', 'distance', 'relation')
    """

    def __init__(
        self,
        file: str | Path,
        stack: str | None = None,
        *,
        keep: Any = None,
        attrs: dict[str, Any] | None = None,
        row_sources: tuple[RowSource, ...] = (),
        tau: float | None = None,
    ) -> None:
        self.file, self._keep = Path(file), keep
        self.row_sources = row_sources  # where the rows of a part or a sum of runs are
        self._tau = tau  # where another τ than the run's is asked for
        self.attrs = read_attributes(self.file) if attrs is None else attrs
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
        """Open a run's folder or a result file; what is on an object store (s3://…) is fetched."""
        if is_url(path):
            return cls._fetched(str(path))
        path = Path(disk_path(path))
        file = path / FILE if path.is_dir() else path
        if path.is_dir() and not file.exists():
            raise HeadscopeError(
                f"{str(path)!r} holds no result",
                "finish the run with the command that started it, or name another folder",
            )
        return cls(file)

    @classmethod
    def _fetched(cls, url: str) -> Result:
        """A copy in a temporary folder, with the rows per text where there are some."""
        folder = tempfile.TemporaryDirectory(prefix="headscope-")
        base, _, last = url.rpartition("/")
        if not last.endswith(".nc"):
            base, last = url, FILE
        names = (last, HEADS, TEXTS)
        files = fetch(base, names, Path(folder.name))
        if not files or files[0].name != names[0]:
            raise HeadscopeError(
                f"{url!r} holds no result", "finish the run with the command that started it, or name another folder"
            )
        return cls(files[0], keep=folder)

    def __repr__(self) -> str:
        sizes = self.dataset.sizes
        groups = f", groups {', '.join(self.groups)}" if any(self.groups) else ""
        return (
            f"Result: {counted(int(self.dataset.texts), 'window')} with {self.model['name']}, {self.name} "
            f"{counted(sizes['layer'], 'layer')} × {counted(sizes['head'], 'head')}, "
            f"{counted(self.by_block.sizes['block'], 'block')}{groups}"
        )

    # ------------------------------------------------------------------ reading

    def stack(self, name: str) -> Result:
        """The same result for another attention stack of the model."""
        return self._like(name)

    def at(self, tau: float) -> Result:
        """The same result, asked at another τ wherever none is named: every threshold was counted in one pass.

        >>> import headscope
        >>> result = headscope.analyze(None, [p["text"] for p in headscope.passages()[:4]], progress=False)
        >>> int(result.at(0.7).summary().high_pairs.sum()) == int(result.summary(0.7).high_pairs.sum())
        True
        """
        first_high_bin(tau)
        return self._like(self.name, tau)

    def _like(self, stack: str, tau: float | None = None) -> Result:
        return Result(
            self.file, stack, keep=self._keep, attrs=self.attrs, row_sources=self.row_sources, tau=tau or self._tau
        )

    @cached_property
    def dataset(self) -> xr.Dataset:
        """The sums over all texts."""
        with self._opened("") as opened:
            return opened.load()

    @cached_property
    def by_block(self) -> xr.Dataset:
        """The same for each block of texts, pairs by band; read from the file only as far as it is used.

        Counts are the smallest whole numbers without a sign that hold them: convert them before you subtract.
        `group` and `texts_read` say what a block holds. The mean matrix and the like are in `by_group`.
        """
        opened = self._opened(BLOCKS)
        return opened.assign_coords({k: v for k, v in self.dataset.coords.items() if k in opened.dims})

    @cached_property
    def by_group(self) -> xr.Dataset:
        """What takes too much room for blocks, for each group of texts: mean matrices, focal tokens, pairs by distance.

        Read from the file only as far as it is used.
        """
        if len(self.groups) == 1:
            return self.dataset[[each.name for each in kept_for_groups(self.shape)]].expand_dims(group=self.groups)
        opened = self._opened(GROUPS)
        return opened.assign_coords({k: v for k, v in self.dataset.coords.items() if k in opened.dims})

    @property
    def groups(self) -> list[str]:
        """The groups of texts, in their order."""
        return list(dict.fromkeys(str(group) for group in self.by_block["group"].values))

    @property
    def readings(self) -> tuple[str, ...]:
        """How S was read; the first is the main reading."""
        return tuple(str(name) for name in self.dataset["reading"].values)

    @property
    def shape(self) -> Shape:
        """What decides how large the sums of this stack are."""
        layers, heads = (tuple(int(place) for place in self.dataset[name].values) for name in ("layer", "head"))
        length, relations = int(self.settings["window"]), tuple(self.settings["relations"])
        return Shape(layers, len(heads), length, relations, self.name == "cross", self.readings)

    def _opened(self, part: str) -> xr.Dataset:
        inside = [] if self.name == self.stacks[0] else [self.name]
        return open_group(self.file, "/" + "/".join([*inside, *([part] if part else [])]))

    def layer_summary(self, tau: float | None = None) -> pd.DataFrame:
        """A row per layer, what its typical head does: separator focus, reach, preferences; and its focal tokens."""
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
        """τ as asked for, here or with `at`, or the run's own."""
        asked = self._tau if tau is None else tau
        return float(self.settings["tau"] if asked is None else asked)

    @property
    def selected(self) -> bool:
        """Whether it is a part of a run, or a sum of runs."""
        return not self.texts.get("whole", True)

    def examples(self, layer: int, head: int, score: str, k: int = 5, *, lowest: bool = False) -> pd.DataFrame:
        """The texts in which one head shows a score most (or least): needs a run with per-text rows.

        `headscope.measures.columns.SCORES` names the scores.
        """
        from headscope.result.rows import examples

        return examples(self, layer, head, score, k, lowest)

    # ------------------------------------------------------------------ adding, choosing, saving

    def __add__(self, other: Result) -> Result:
        if not isinstance(other, Result):
            return NotImplemented
        return added([self, other])

    def select(self, group: str | Sequence[str]) -> Result:
        """The result of one group of texts, or of several."""
        wanted = [group] if isinstance(group, str) else list(group)
        for name in wanted:
            if name not in self.groups:
                raise HeadscopeError(f"there is no group {name!r}", f"the groups are {', '.join(self.groups)}")
        if not wanted:
            raise HeadscopeError("no group is named", f"the groups are {', '.join(self.groups)}")
        counts, groups = self.by_block["texts_read"].values, self.by_block["group"].values
        taken = sum(int(n) for n, name in zip(counts, groups, strict=True) if name in wanted)
        # Bad records are of no group, so a selection has none.
        name = f"{self.texts['name']}: {', '.join(wanted)}"
        texts = {"name": name, "texts": taken, "bad": 0, "refused": 0, "whole": False}
        return self._written([self], {"texts": texts}, groups=wanted)

    def _written(
        self, results: Sequence[Result], header: dict[str, Any], groups: Sequence[str] | None = None
    ) -> Result:
        """A new result of some results' blocks, in a temporary folder that is kept as long as the result."""
        sources = [ResultBlocks(each) for each in results]
        folder = tempfile.TemporaryDirectory(prefix="headscope-")
        file = Path(folder.name) / FILE
        words: dict[int, str] = {}
        for source in sources:
            words |= source.words()
        kept = {k: v for k, v in self.attrs.items() if k not in ("schema", "stacks", "stack")}

        def text(ids: Iterable[int]) -> list[str]:
            return [words.get(i, "") for i in ids]

        shapes = {name: result.shape for name, result in sources[0].stacks.items()}
        write_result(file, sources, shapes, kept | header, text, groups=groups)
        rows = [sources_of(each, groups) for each in results]
        return Result(
            file,
            self.name,
            keep=(folder, *(each._keep for each in results)),  # rows may lie in theirs
            row_sources=tuple(source for each in rows for source in each) if all(rows) else (),
            tau=self._tau,
        )

    def save(self, file: str | Path) -> Path:
        """Copy the result to a file of its own."""
        target = disk_file(file)
        if target.suffix != ".nc":
            raise HeadscopeError(f"{str(file)!r} is not named like a netCDF file", "end the name in .nc")
        with written_whole(target) as partial:
            shutil.copyfile(self.file, partial)
        return target

    def close(self) -> None:
        """Close the file."""
        for part in ("by_block", "by_group"):
            if part in self.__dict__:
                self.__dict__.pop(part).close()


def added(results: Sequence[Result]) -> Result:
    """The sum of results of different texts."""
    first = results[0]
    for place, other in enumerate(results[1:], 1):
        check_same(first, other)
        if any(shared_texts(each, other) for each in results[:place]):
            warnings.warn("the results share texts, which will count twice", stacklevel=3)
    return first._written(results, {"texts": texts_together([each.texts for each in results])})


def merge_runs(paths: Sequence[str | Path], out: str | Path) -> Result:
    """Add the results of runs of different texts, and write the sum to a folder, with rows where all of them have some.

    `a + b` does the same without a folder.
    """
    folder = Path(out)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise HeadscopeError(f"{str(out)!r} is not an empty folder", "name a new or an empty folder")
    if len(paths) < 2:
        raise HeadscopeError("there is one result, and nothing to add it to", "name two or more")
    results = [Result.open(path) for path in paths]
    without = [str(path) for path, each in zip(paths, results, strict=True) if not sources_of(each)]
    if 0 < len(without) < len(results):
        warnings.warn(
            f"{', '.join(without)} {'has' if len(without) == 1 else 'have'} no rows of single texts, so those of the "
            "others are left out of the sum",
            stacklevel=2,
        )
    total = added(results)
    with writable(folder):
        folder.mkdir(parents=True, exist_ok=True)
    if total.row_sources:
        write_rows(total.row_sources, folder)
    total.save(folder / FILE)
    return Result.open(folder)
