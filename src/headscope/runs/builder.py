"""A result of texts that are given as arrays, one after the other: for models that headscope does not run itself."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Unpack

import torch

from headscope.choices import COMPILED, RunChoices, make_choices
from headscope.errors import HeadscopeError
from headscope.inspection.given import GivenText, captured_of, read_given
from headscope.measures.accumulator import Accumulator
from headscope.measures.variables import Shape, Sums, variable
from headscope.models.fingerprint import versions
from headscope.result.merge import write_result
from headscope.result.parts import Array, ShardInfo, add_sums, as_block, largest_in_block
from headscope.result.result import Result
from headscope.result.schema import FILE
from headscope.result.shards import Largest, largest_counts, pack, unpack
from headscope.runs.memory import check_tables
from headscope.runs.paths import make_accumulator
from headscope.runs.settings import Settings
from headscope.texts import Record
from headscope.texts.corpus import check_groups
from headscope.texts.text_hash import hash_of
from headscope.version import __version__

MOST = 64  # shards of a group that are kept; then neighbours are added, and each has twice as many texts
GIVEN = "given as arrays"


class ResultBuilder:
    """Adds up what heads wrote for one text after the other; `result` gives what `analyze` would give.

    `model` names the model: results of different names do not add up. `window` is the longest text in tokens, special
    ones included (128 unless said otherwise); `layers` numbers layers that are not all from 0. The other choices are
    those of `analyze`. However many texts there are, memory and disk stay bounded: sums are kept, not arrays.

    >>> import headscope
    >>> model = headscope.load()
    >>> builder = ResultBuilder("mine", window=32)
    >>> for text in ["It rains. It pours.", "The cat saw the dog. The dog ran."]:
    ...     seen, encoded = model.inspect(text), model.tokenizer(text, return_offsets_mapping=True)
    ...     builder.add(
    ...         seen.outputs.values, seen.attention.values, ids=encoded["input_ids"], text=text,
    ...         offsets=encoded["offset_mapping"], tokens=encoded.tokens())
    >>> builder.result()
    Result: 2 windows with mine, encoder 12 layers × 12 heads, 2 blocks
    """

    def __init__(
        self, model: str, *, layers: Sequence[int] | None = None, causal: bool | None = None,
        **choices: Unpack[RunChoices],
    ) -> None:  # fmt: skip
        self.name, self.choices = str(model), make_choices(choices)
        self.causal = causal  # None: as the first text shows it
        self._layers = None if layers is None else [int(each) for each in layers]
        self._stack, self._width = "", 0
        self._shape: Shape | None = None
        self._folder = tempfile.TemporaryDirectory(prefix="headscope-")
        self._groups: dict[str, _Group] = {}
        self._tokens: dict[int, str] = {}
        self._texts = 0

    def add(
        self,
        outputs: Any,
        attention: Any,
        *,
        ids: Sequence[int],
        tokens: Sequence[str] | None = None,
        text: str,
        offsets: Any,
        special_tokens_mask: Any = None,
        values: Any = None,
        readable: Any = None,
        group: str = "",
    ) -> None:
        """Take in one text: arrays and tokens as `Inspection.from_arrays` takes them, without padding.

        A collection's numbers rest on attention, words and sentences, so that these are needed here. Texts of a
        `group` are kept apart from those of others.
        """
        for name, thing in (("attention", attention), ("text", text), ("offsets", offsets), ("ids", ids)):
            if thing is None:
                raise HeadscopeError(
                    f"text {self._texts} comes without {name}, which the numbers of a collection rest on",
                    "give it too; a single text can be looked at without: Inspection.from_arrays",
                )
        try:
            given = read_given(
                outputs, attention, tokens=tokens, ids=ids, text=text, offsets=offsets, values=values,
                special_tokens_mask=special_tokens_mask, readable=readable, causal=self.causal,
                language=self.choices.language,
            )  # fmt: skip
            shape = self._checked(given)
        except HeadscopeError as error:
            raise HeadscopeError(f"text {self._texts}: {error.problem}", error.remedy) from error
        if group not in self._groups:
            check_groups(len(self._groups) + 1)
            self._groups[group] = _Group(group, Path(self._folder.name), len(self._groups))
        self._groups[group].add(given, self._stack, shape, self)
        self._tokens |= dict(zip(given.window.ids.tolist(), given.window.tokens, strict=True))
        self._texts += 1

    def _checked(self, given: GivenText) -> Shape:
        """The shape of the sums, which the first text decides and the others must have."""
        size, (layers, heads, _, width) = len(given.window), given.outputs.shape
        if size > self.choices.window:
            raise HeadscopeError(
                f"the text has {size} tokens, and the window {self.choices.window}",
                f"make the builder with window={size} or more, or give the first {self.choices.window} tokens",
            )
        if "values" in self.choices.readings and given.values is None:
            raise HeadscopeError("the reading 'values' compares value vectors, and there are none", "give values=")
        numbers = captured_of(given, self._layers).layers
        if self._shape is None:
            shape = Shape(tuple(numbers), heads, self.choices.window, readings=self.choices.readings)
            check_tables([shape])
            self._stack, self._shape, self._width = given.stack, shape, width
            self.causal = given.causal if size > 1 else self.causal
        if (tuple(numbers), heads, width) != (self._shape.layers, self._shape.heads, self._width):
            raise HeadscopeError(
                f"{layers} layers × {heads} heads, {width} wide, and before there were {len(self._shape.layers)} × "
                f"{self._shape.heads}, {self._width} wide",
                "make a builder for each model",
            )
        if given.stack != self._stack:
            raise HeadscopeError(
                f"this text is read as by a{'n' * (given.stack == 'encoder')} {given.stack}, others before it as by a "
                f"{self._stack}",
                "say whether the model reads backwards only: ResultBuilder(…, causal=True) or causal=False",
            )
        return self._shape

    def result(self) -> Result:
        """The result of the texts so far; more may be added afterwards, for another one."""
        if self._shape is None:
            raise HeadscopeError("there are no texts", "add some first")
        shapes = {self._stack: self._shape}
        for group in self._groups.values():
            group.close()
        folder = tempfile.TemporaryDirectory(prefix="headscope-")
        file = Path(folder.name) / FILE
        shards = _Shards([shard for group in self._groups.values() for shard in group.shards], shapes)

        def words(ids: Iterable[int]) -> list[str]:
            return [self._tokens.get(int(each), "").replace("\x00", "␀") for each in ids]

        write_result(file, [shards], shapes, self._header(self._shape), words)
        return Result(file, keep=folder)

    def _header(self, shape: Shape) -> dict[str, Any]:
        about = {"layers": shape.layers[-1] + 1, "heads": shape.heads, "width": self._width,
                 "causal": self._stack == "decoder"}  # fmt: skip
        return {
            "title": "headscope analysis of a collection of texts",
            "source": "Halevi, Tzach, Gross, Rosner and Kanter, arXiv:2512.21956",
            "headscope": __version__,
            "settings": replace(Settings(self.choices), layers=self._numbered()).as_dict(),
            "model": {"name": self.name, "architecture": GIVEN, "weights": f"{GIVEN}: {self.name}", "config": GIVEN,
                      "tokenizer": GIVEN, "stacks": {self._stack: about}},
            "texts": {"name": GIVEN, "texts": self._texts, "bad": 0, "refused": 0},
            "versions": versions(),
        }  # fmt: skip

    def _numbered(self) -> tuple[int, ...] | None:
        return None if self._layers is None else tuple(self._layers)


@dataclass(slots=True)
class _Shard:
    """Sums of some texts of one group that follow each other, on disk."""

    file: Path
    info: ShardInfo


@dataclass(slots=True)
class _Group:
    """The texts of one group: finished shards of equal size, and the one that is being added to."""

    name: str
    folder: Path
    number: int
    shards: list[_Shard] = field(default_factory=list)
    size: int = 1  # texts of a shard
    _open: Accumulator | None = None
    _texts: int = 0
    _hash: Any = field(default_factory=hashlib.sha256)
    _files: int = 0

    def add(self, given: GivenText, stack: str, shape: Shape, builder: ResultBuilder) -> None:
        """Take in one text."""
        if self._open is None:
            self._open = make_accumulator(COMPILED, {stack: shape}, builder.choices, threads=torch.get_num_threads())
        captured = captured_of(given, list(shape.layers))
        sink = self._open.begin(captured.batch)
        for k in range(len(shape.layers)):
            sink.layer(replace(captured.layer(k), stack=stack))
        sink.finish()
        self._texts += 1
        self._hash.update(hash_of(Record("", given.window.texts[0], self.name)))
        if self._texts >= self.size:
            self.close()

    def close(self) -> None:
        """Put the open shard on disk; where there are many, add neighbours, so that there are half as many."""
        if self._open is None:
            return
        info = ShardInfo.of_shard(self.name, self._texts, self._hash.hexdigest())
        self.shards.append(self._kept(self._open.sums(), info))
        self._open.close()
        self._open, self._texts, self._hash = None, 0, hashlib.sha256()
        if len(self.shards) >= MOST:
            pairs = zip(self.shards[::2], self.shards[1::2], strict=True)
            self.shards = [self._added(one, other) for one, other in pairs]
            self.size *= 2

    def _added(self, one: _Shard, other: _Shard) -> _Shard:
        total = unpack(one.file)
        for stack, sums in unpack(other.file).items():
            add_sums(total[stack], sums)
        hashes = (*one.info.hashes, *other.info.hashes)
        made = self._kept(total, ShardInfo(self.name, one.info.texts + other.info.texts, hashes))
        for each in (one, other):
            each.file.unlink()
        return made

    def _kept(self, sums: Sums, info: ShardInfo) -> _Shard:
        file = self.folder / f"{self.number}-{self._files}.h5"
        self._files += 1
        file.write_bytes(pack(sums))
        return _Shard(file, info)


class _Shards:
    """Finished shards, for merging."""

    def __init__(self, shards: Sequence[_Shard], shapes: dict[str, Shape]) -> None:
        self._shards, self._shapes = shards, shapes
        self.infos = [shard.info for shard in shards]

    def sums(self, number: int) -> Sums:
        """One shard's sums as blocks keep them."""
        read = unpack(self._shards[number].file, lambda name: variable(name).kept == "block")
        return as_block(read, self._shapes)

    def largest(self, number: int) -> Largest:
        """Bounds for its counts."""
        return largest_in_block(largest_counts(self._shards[number].file), self._shapes)

    def group_sums(self, group: str, name: str) -> dict[str, Array]:
        """One variable's sums over a group's shards, in their order."""
        total: Sums = {}
        for shard in self._shards:
            if shard.info.group == group:
                for stack, sums in unpack(shard.file, lambda each: each == name).items():
                    add_sums(total.setdefault(stack, {}), sums)
        return {stack: sums[name] for stack, sums in total.items() if name in sums}
