"""From shards to one file: totals at the top, sums of blocks for intervals, large tables for each group of texts.

Shards are read one at a time and added in their order: those of a block make the block, blocks the total; of what is
kept for groups alone, shards make the group and groups the total. So the numbers do not depend on who computed what
when, and memory does not grow with the number of shards.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from headscope.files import OTHER_FOLDER, written_whole
from headscope.measures.variables import FOCAL_TOKENS, Shape, Sums
from headscope.result.checksum import seal
from headscope.result.neighbours import blocks_of, most_blocks
from headscope.result.netcdf import create
from headscope.result.parts import Array, Shards, add_sums, kept_for_groups
from headscope.result.schema import VERSION
from headscope.result.shards import Largest
from headscope.result.stack_writer import StackWriter, TokenText

Writers = Mapping[str, StackWriter]


def write_result(
    file: Path,
    sources: Sequence[Shards],
    shapes: Mapping[str, Shape],
    header: Mapping[str, Any],
    token_text: TokenText,
    *,
    groups: Sequence[str] | None = None,
    remedy: str = OTHER_FOLDER,
) -> None:
    """Merge shards into one netCDF file; with `groups`, only theirs. The first stack is the file's top level."""
    chosen = [
        (source, number)
        for source in sources
        for number, info in enumerate(source.infos)
        if groups is None or info.group in groups
    ]
    infos = [source.infos[number] for source, number in chosen]
    blocks = blocks_of([info.group for info in infos], most_blocks(list(shapes.values())))
    bounds = _bounds(chosen, blocks)
    with written_whole(file, remedy) as partial:
        with create(partial) as out:
            for key, value in header.items():
                out.attrs[key] = value if isinstance(value, (str, int, float)) else json.dumps(value)
            out.attrs["schema"] = VERSION
            out.attrs["stacks"] = ", ".join(shapes)
            writers = {
                stack: StackWriter(out if place == 0 else out.group(stack), stack, shape, bounds[stack])
                for place, (stack, shape) in enumerate(shapes.items())
            }
            for writer in writers.values():
                writer.about_blocks(infos, blocks)
            for place, block in enumerate(blocks):
                added: Sums = {stack: {} for stack in writers}
                for number in block:
                    source, own = chosen[number]
                    for stack, sums in source.sums(own).items():
                        add_sums(added[stack], sums)
                for stack, writer in writers.items():
                    writer.add_block(place, added[stack])
            for writer in writers.values():
                writer.finish_blocks()
            _write_groups(writers, sources, list(dict.fromkeys(info.group for info in infos)), token_text)
        seal(partial)


def _bounds(chosen: Sequence[tuple[Shards, int]], blocks: Sequence[tuple[int, ...]]) -> Largest:
    """What no count of a block exceeds: the largest of each of its shards, added up."""
    bounds: Largest = {}
    for block in blocks:
        added: Largest = {}
        for number in block:
            source, own = chosen[number]
            for stack, names in source.largest(own).items():
                of_stack = added.setdefault(stack, {})
                for name, largest in names.items():
                    of_stack[name] = of_stack.get(name, 0) + largest
        for stack, names in added.items():
            of_stack = bounds.setdefault(stack, {})
            for name, largest in names.items():
                of_stack[name] = max(of_stack.get(name, 0), largest)
    return bounds


def _write_groups(writers: Writers, sources: Sequence[Shards], groups: Sequence[str], token_text: TokenText) -> None:
    """Write what is kept for groups, one variable of one group at a time, and its totals."""
    for writer in writers.values():
        writer.about_groups(groups)
    for name in dict.fromkeys(each.name for writer in writers.values() for each in kept_for_groups(writer.shape)):
        if name == FOCAL_TOKENS:
            ids: dict[str, set[int]] = {stack: set() for stack in writers}
            for group in groups:
                for stack, entries in _of_group(sources, group, name).items():
                    ids[stack].update(np.unique(entries[:, 2]).tolist())
            for stack, writer in writers.items():
                writer.about_tokens(np.array(sorted(ids[stack]), dtype=np.int64), token_text)
        totals: dict[str, dict[str, Array]] = {stack: {} for stack in writers}
        for place, group in enumerate(groups):
            for stack, values in _of_group(sources, group, name).items():
                add_sums(totals[stack], {name: values})
                writers[stack].add_group(place, name, values)
        for stack, total in totals.items():
            for values in total.values():
                writers[stack].write_total(name, values)


def _of_group(sources: Sequence[Shards], group: str, name: str) -> dict[str, Array]:
    """One variable of a group, by stack, from all sources that have texts of it."""
    total: dict[str, dict[str, Array]] = {}
    for source in sources:
        if any(info.group == group for info in source.infos):
            for stack, values in source.group_sums(group, name).items():
                add_sums(total.setdefault(stack, {}), {name: values})
    return {stack: sums[name] for stack, sums in total.items()}
