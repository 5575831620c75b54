"""Clusters: texts that are not independent of each other share a shard, and it is noticed where they could not."""

from __future__ import annotations

import hashlib
from array import array
from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from headscope.errors import HeadscopeError
from headscope.runs.plan import MOST_WINDOWS
from headscope.texts import Record, Survey


class ClusterCount:
    """Counts clusters, and those that come again in another shard: eight bytes are kept of each, however many.

    >>> count = ClusterCount()
    >>> count.add(["a", "b"])
    >>> count.add(["a"])
    >>> count.number, count.again
    (2, 1)
    """

    def __init__(self) -> None:
        self._seen = array("Q")  # a hash of each cluster for each shard that it is in

    def add(self, names: Iterable[str]) -> None:
        """Take in the clusters of one shard."""
        self._seen.extend(int.from_bytes(hashlib.sha256(name.encode()).digest()[:8]) for name in names)

    @property
    def number(self) -> int:
        """How many different clusters there are."""
        return len(self._shards)

    @property
    def again(self) -> int:
        """How many of them are in more than one shard."""
        return int((self._shards > 1).sum())

    @property
    def _shards(self) -> NDArray[np.int64]:
        """In how many shards each cluster is."""
        return np.asarray(np.unique(np.array(self._seen, dtype=np.uint64), return_counts=True)[1])


def too_many_windows(records: Sequence[Record]) -> HeadscopeError:
    """A shard is held and computed as a whole, so there is an end to its size; names the cluster that made it large.

    >>> print(too_many_windows([Record("1", "One.", cluster="a"), Record("2", "Two.", cluster="a")]).problem)
    a shard would have more than 65,536 windows, and 2 of its 2 texts are of the cluster 'a', which stays in one shard
    """
    problem, smaller = f"a shard would have more than {MOST_WINDOWS:,} windows", "make smaller shards (--shard-size)"
    clusters = Counter(record.cluster for record in records if record.cluster)
    largest, number = max(clusters.items(), key=lambda each: each[1], default=("", 0))
    if number < 2:
        return HeadscopeError(problem, smaller)
    return HeadscopeError(
        f"{problem}, and {number:,} of its {len(records):,} texts are of the cluster {largest!r}, which stays in one "
        "shard",
        f"name a field with smaller clusters (--cluster-field), or {smaller}",
    )


def check_clusters(survey: Survey) -> None:
    """Every text has a window at least, so that clusters too large are known before hours are spent."""
    cluster, number = survey.largest_cluster
    if number > MOST_WINDOWS:
        raise HeadscopeError(
            f"{number:,} texts that follow each other are of the cluster {cluster!r}, and a shard, in which they stay "
            f"together, has {MOST_WINDOWS:,} windows at most",
            "name a field with smaller clusters (--cluster-field), or leave the clusters out",
        )
