"""Results as sources of other results: added to each other, or a group of one chosen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from headscope.choices import differences
from headscope.errors import HeadscopeError
from headscope.measures.variables import FOCAL_TOKENS, Sums
from headscope.result.parts import Array, ShardInfo
from headscope.result.shards import Largest
from headscope.result.stack_writer import WRITTEN_AT_ONCE

if TYPE_CHECKING:
    from headscope.result.result import Result

ABOUT_BLOCKS = ("group", "texts_read", "shard_block", "shard_hash")  # what a block is, beside its sums


class ResultBlocks:
    """The blocks of a finished result, for merging again."""

    def __init__(self, result: Result) -> None:
        self.stacks = {name: result if name == result.name else result.stack(name) for name in result.stacks}
        first = self.stacks[result.stacks[0]].by_block
        self.variables: dict[str, dict[str, xr.Variable]] = {
            name: {str(key): each.variable for key, each in one.by_block.drop_vars(ABOUT_BLOCKS).data_vars.items()}
            for name, one in self.stacks.items()
        }
        self.small: Sums = {  # each block's part of these is not worth a reading of its own
            stack: {name: each.values for name, each in variables.items() if prod(each.shape[1:]) < WRITTEN_AT_ONCE}
            for stack, variables in self.variables.items()
        }
        block, hashes = first["shard_block"].values, first["shard_hash"].values
        self.infos = [
            ShardInfo(str(group), int(texts), tuple(int(each) for each in hashes[block == place]))
            for place, (group, texts) in enumerate(zip(first["group"].values, first["texts_read"].values, strict=True))
        ]

    def sums(self, number: int) -> Sums:
        """One block's sums."""
        return {
            stack: {
                name: _as_summed(self.small[stack][name][number] if name in self.small[stack] else each[number].values)
                for name, each in variables.items()
            }
            for stack, variables in self.variables.items()
        }

    def largest(self, number: int) -> Largest:
        """The largest of each of its counts."""
        return {
            stack: {name: int(values.max(initial=0)) for name, values in sums.items() if values.dtype.kind != "f"}
            for stack, sums in self.sums(number).items()
        }

    def group_sums(self, group: str, name: str) -> dict[str, Array]:
        """One variable of a group, by stack."""
        sums: dict[str, Array] = {}
        for stack, result in self.stacks.items():
            if name not in result.by_group:
                continue
            values = result.by_group[name].sel(group=group).values
            if name == FOCAL_TOKENS:
                places = np.argwhere(values)
                tokens = result.dataset["token"].values[places[:, 2]] if len(places) else np.zeros(0, dtype=np.int64)
                values = np.column_stack([places[:, 0], places[:, 1], tokens, values[tuple(places.T)]])
            sums[stack] = values
        return sums

    def words(self) -> dict[int, str]:
        """How the tokens are written."""
        return {
            int(i): str(text)
            for result in self.stacks.values()
            for i, text in zip(result.dataset["token"].values, result.dataset["token_text"].values, strict=True)
        }


def _as_summed(values: Array) -> Array:
    return np.asarray(values if values.dtype.kind == "f" else values.astype(np.int64))


def check_same(first: Result, second: Result) -> None:
    """Results add up only where everything that decides their numbers is the same."""
    different = differences(first.settings, second.settings)
    parts = [part for part in ("weights", "config", "tokenizer") if first.model[part] != second.model[part]]
    if parts:
        different.append(f"model: {first.model['name']}, and {second.model['name']} (their {', '.join(parts)} differ)")
    if first.stacks != second.stacks:
        different.append(f"stacks: {first.stacks}, and {second.stacks}")
    if different:
        raise HeadscopeError(f"results that differ do not add up: {'; '.join(different)}", "compare them instead")


def shared_texts(first: Result, second: Result) -> bool:
    """Whether two results have a shard in common."""
    mine, theirs = (each.by_block["shard_hash"].values for each in (first, second))
    return bool(np.isin(mine, theirs).any())


def texts_together(told: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What is known of the texts of several results, added up."""
    together: dict[str, Any] = {"name": "; ".join(str(each["name"]) for each in told), "whole": False}
    counts = (
        "texts", "bad", "refused", "clusters", "clusters_again", "tokens", "tokens_read", "familiar_of", "unfamiliar",
        "duplicates",
    )  # fmt: skip
    for count in counts:
        if all(count in each for each in told) or count in ("clusters", "clusters_again"):
            together[count] = sum(each.get(count) or 0 for each in told)
    return together
