"""Sums as shards have them, made up: for tests of what is done with sums, whoever computed them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import headscope
from headscope.choices import Choices
from headscope.measures.bands import by_band
from headscope.measures.variables import FOCAL_TOKENS, Shape, Sums, variables_of
from headscope.result.merge import write_result
from headscope.result.parts import Array, ShardInfo, add_sums, as_block, largest_in_block
from headscope.result.shards import Largest

SMALL = {"encoder": Shape((0, 2), 3, 12), "cross": Shape((0, 1), 2, 12, cross=True)}


def sums_of(shape: Shape, rng: np.random.Generator, texts: int = 2) -> dict[str, Array]:
    """One stack's sums of a shard. Only how parts of them depend on each other is made up too: `distance_sum`."""
    sums: dict[str, Array] = {}
    for each in variables_of(shape):
        size = each.zeros(shape).shape
        if each.name == FOCAL_TOKENS:
            rows = {tuple(rng.integers((len(shape.layers), shape.heads, 50)).tolist()) for _ in range(9)}
            sums[each.name] = np.array([(*row, rng.integers(1, texts + 1)) for row in sorted(rows)], dtype=np.int64)
        elif each.kind == "count":
            sums[each.name] = rng.poisson(texts * 0.3, size).astype(np.int64)
        else:
            sums[each.name] = rng.normal(size=size) * 10.0 ** rng.integers(-3, 4, size=size)
    if "similarity_sum" in sums:
        sums["similarity_sum"] = np.triu(sums["similarity_sum"], 1)
    sums["texts"] = np.array(texts)
    if sums["pairs"].shape[-2] == shape.length - 1:
        distances = np.arange(1, shape.length)[:, None]
        sums["distance_sum"] = (sums["pairs"] * distances).sum(-2)
    return sums


class MadeUp:
    """Shards in memory."""

    def __init__(self, shapes: dict[str, Shape], groups: Sequence[str], seed: int = 0, texts: int = 2) -> None:
        rng = np.random.default_rng(seed)
        self.shapes = shapes
        self.infos = [ShardInfo.of_shard(group, texts, rng.bytes(32).hex()) for group in groups]
        self.whole: list[Sums] = []
        self.bounds: list[Largest] = []
        for _ in groups:
            self.append({name: sums_of(shape, rng, texts) for name, shape in shapes.items()})

    def append(self, sums: Sums) -> None:
        counts: Largest = {
            stack: {name: int(each.max(initial=0)) for name, each in of_stack.items() if each.dtype.kind != "f"}
            for stack, of_stack in sums.items()
        }
        self.whole.append(sums)
        self.bounds.append(largest_in_block(counts, self.shapes))

    def changed(self, change: Callable[[dict[str, Array]], None]) -> MadeUp:
        """Every stack's sums of every shard changed."""
        before, self.whole, self.bounds = self.whole, [], []
        for sums in before:
            for of_stack in sums.values():
                change(of_stack)
            self.append(sums)
        return self

    def taken(self, numbers: Iterable[int]) -> MadeUp:
        """Some of the shards alone."""
        some = MadeUp(self.shapes, [])
        for number in numbers:
            some.infos.append(self.infos[number])
            some.whole.append(self.whole[number])
            some.bounds.append(self.bounds[number])
        return some

    def sums(self, number: int) -> Sums:
        return as_block(self.whole[number], self.shapes)

    def largest(self, number: int) -> Largest:
        return self.bounds[number]

    def group_sums(self, group: str, name: str) -> dict[str, Array]:
        total: Sums = {}
        for sums, info in zip(self.whole, self.infos, strict=True):
            if info.group == group:
                for stack, of_stack in sums.items():
                    if name in of_stack:
                        add_sums(total.setdefault(stack, {}), {name: of_stack[name]})
        return {stack: sums[name] for stack, sums in total.items()}


def header(shapes: dict[str, Shape], **texts: Any) -> dict[str, Any]:
    """What a run would say of itself."""
    first = next(iter(shapes.values()))
    choices = Choices(window=first.length, readings=first.readings).as_dict()
    relations = dict.fromkeys(first.relations, "0" * 16)
    stacks = {name: {"layers": 4, "heads": shape.heads} for name, shape in shapes.items()}
    return {
        "headscope": "0",
        "settings": choices | {"layers": None, "dtype": "float32", "relations": relations},
        "model": {"name": "made up", "weights": "1", "config": "2", "tokenizer": "3", "stacks": stacks},
        "texts": {"name": "texts", "texts": 0, "bad": 0, "refused": 0} | texts,
    }


def words(ids: Iterable[int]) -> list[str]:
    return [f"word{i}" for i in ids]


def result_of(file: Path, shards: MadeUp, **options: Any) -> headscope.Result:
    """The result of made-up shards."""
    texts = sum(info.texts for info in shards.infos)
    write_result(file, [shards], shards.shapes, header(shards.shapes, texts=texts), words, **options)
    return headscope.Result.open(file)


def plain_total(shards: MadeUp, stack: str, name: str, groups: Sequence[str] | None = None) -> Array:
    """A variable added up over shards in the plainest way; focal tokens as a table of ids below 50."""
    shape, total = shards.shapes[stack], None
    for sums, info in zip(shards.whole, shards.infos, strict=True):
        if groups is not None and info.group not in groups:
            continue
        values = sums[stack][name]
        if name == FOCAL_TOKENS:
            table = np.zeros((len(shape.layers), shape.heads, 50), dtype=np.int64)
            for layer, head, token, windows in values:
                table[layer, head, token] += windows
            values = table
        total = values if total is None else total + values
    assert total is not None
    return total


def in_bands(values: Array) -> Array:
    """(…, distance, relation) to (…, band, relation)."""
    return by_band(values)
