"""Shards added up as they are computed, so that a run that was not interrupted need not read them again at its end.

Only what comes in order is added up for groups, so that the numbers are those of reading every shard in the end. What
there is no room for is read again.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from headscope.measures.variables import Shape, Sums
from headscope.result.parts import add_to, as_block, kept_for_groups, largest_in_block
from headscope.result.shards import Largest, largest_of

GROUPS_AT_ONCE = 8  # whose sums are held in memory together
MOST_BYTES = 512 << 20  # of blocks


class AddedShards:
    """What shards of a run came to as blocks keep it, and the sums of groups over the first ones."""

    def __init__(self, shapes: Mapping[str, Shape], room: int = MOST_BYTES) -> None:
        self.shapes, self.room = shapes, room
        self.blocks: dict[int, Sums] = {}  # by number of the shard
        self.largest: dict[int, Largest] = {}  # bounds for its counts
        self.groups: dict[str, tuple[list[int], Sums]] = {}  # the shards that are added, and their sums
        self.names = {each.name for shape in shapes.values() for each in kept_for_groups(shape)}
        self._next = 0  # the shard that is to be added to its group next

    def take(self, number: int, group: str, sums: Sums) -> None:
        """Take in a shard that was computed; nobody uses its sums afterwards."""
        if number != self._next or (group not in self.groups and len(self.groups) == GROUPS_AT_ONCE):
            self._next = -1  # what comes after a gap is read again
            return
        sums = {stack: dict(sorted(sums[stack].items())) for stack in sorted(sums)}  # in the order of a shard's file
        block = as_block(sums, self.shapes)
        size = sum(values.nbytes for of_stack in block.values() for values in of_stack.values())
        if size > self.room:
            self._next = -1
            return
        self._next, self.room = number + 1, self.room - size
        self.largest[number] = largest_in_block(largest_of(sums), self.shapes)
        # Copies: what a card sends are parts of far larger pieces of memory, which would be held with them.
        self.blocks[number] = {
            stack: {name: np.array(values) for name, values in of_stack.items()} for stack, of_stack in block.items()
        }
        members, total = self.groups.setdefault(group, ([], {}))
        members.append(number)
        for stack, values in sums.items():
            in_all = total.setdefault(stack, {})
            add_to(in_all, {name: each if name in in_all else np.array(each) for name, each in values.items()
                            if name in self.names})  # fmt: skip
