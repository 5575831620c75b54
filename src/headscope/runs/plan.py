"""How the work is cut up: batches from the settings and the texts, threads from the machine."""

from __future__ import annotations

from dataclasses import dataclass

from headscope.choices import COMPILED

SHARDS = 32  # of a small collection; large ones have more, of the largest size
LARGEST_SHARD = 1024  # texts
MOST_SHARDS = 4096  # of a large collection: beyond that shards become larger, and add up more before they are written
HUGE_SHARD = 16_384  # texts, however large the collection
MOST_WINDOWS = 65_536  # of a shard, which are held at once: more than a gigabyte
BATCH_TOKENS = {"cpu": 1024, "other": 65536}  # in a batch, at most: beyond that nothing gets faster
LEAST_BATCHES = 2  # to a shard, however small: two cores have something to do


@dataclass(frozen=True, slots=True)
class WorkOptions:
    """How the caller wants the work cut up; None leaves it to headscope."""

    shard_size: int | None = None
    batch_size: int | None = None
    threads: int | None = None
    per_text: bool = False
    path: str | None = None


@dataclass(slots=True)
class Plan:
    """How the work is cut up. `batches` tells the batch size from each shard on: running out of memory changes it.

    Everything here follows from the settings and the texts, so that another number of cores gives the same bytes.
    """

    shard_size: int
    device: str
    batches: list[list[int]]  # [first shard, windows in a batch]
    per_text: bool = False
    path: str = COMPILED  # who counts

    def batch(self, shard: int) -> int:
        """How many windows go through the model at once in this shard.

        >>> Plan(8, "cpu", [[0, 32], [5, 16]]).batch(5)
        16
        """
        return min(size for first, size in self.batches if first <= shard)


def batch_size_of(windows: int, largest: int) -> int:
    """The batch size in a shard of so many windows: as chosen, but a small shard still has two batches.

    >>> batch_size_of(625, 8), batch_size_of(4, 8), batch_size_of(1, 8)
    (8, 2, 1)
    """
    return min(largest, max(1, -(-windows // LEAST_BATCHES)))


def default_batch(device: str, window: int) -> int:
    """Windows in a batch where none is given: as many as make anything faster.

    >>> default_batch("cpu", 128), default_batch("cuda", 128), default_batch("cpu", 4096)
    (8, 512, 1)
    """
    return max(1, BATCH_TOKENS["cpu" if device == "cpu" else "other"] // window)


def default_shard_size(texts: int) -> int:
    """A thirty-second of the texts, 1,024 at most: few enough to lose, many enough for intervals.

    Of millions of texts there are 4,096 shards, larger ones, until they have 16,384 texts.

    >>> default_shard_size(20_000), default_shard_size(64), default_shard_size(5), default_shard_size(10**6)
    (625, 2, 1, 1024)
    >>> default_shard_size(10**7), default_shard_size(10**9)
    (2442, 16384)
    """
    largest = min(max(LARGEST_SHARD, -(-texts // MOST_SHARDS)), HUGE_SHARD)
    return max(1, min(-(-texts // SHARDS), largest))
