"""Clusters: texts that are not independent share a shard, and it is said where they do not."""

from __future__ import annotations

import json
import tracemalloc
from itertools import groupby
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import headscope
from headscope.cli import main
from headscope.errors import HeadscopeError
from headscope.runs import analysis, clusters, deal, worker
from headscope.runs.clusters import ClusterCount
from headscope.runs.deal import Shard
from headscope.texts import BadRecords, Record, open_texts
from runs import TEXTS, Counting, Tiny, run, same_bytes, stop_after


def rows(names: str, group: str = "") -> list[dict[str, str]]:
    """A text for each letter, which is its cluster; a dot is none."""
    return [
        {"text": f"{TEXTS[k % len(TEXTS)]} {k}", "cluster": "" if name == "." else name, "group": group or "x"}
        for k, name in enumerate(names)
    ]


def dealt(names: str, size: int) -> list[str]:
    records = [Record(str(k), "Text.", cluster="" if name == "." else name) for k, name in enumerate(names)]
    return ["".join(r.cluster or "." for r in shard.records) for shard in deal.deal(records, size, BadRecords())]


@pytest.mark.parametrize(
    ("names", "size", "shards"),
    [
        ("......", 2, ["..", "..", ".."]),
        ("aaabbb", 2, ["aaa", "bbb"]),
        ("abcdef", 2, ["ab", "cd", "ef"]),
        ("aabbcc", 3, ["aabb", "cc"]),
        ("a.a.a.", 2, ["a.", "a.", "a."]),
        ("aa..bb", 3, ["aa.", ".bb"]),
        ("aaaaaa", 1, ["aaaaaa"]),
        ("ab", 5, ["ab"]),
    ],
)
def test_texts_of_a_cluster_that_follow_each_other_share_a_shard(names: str, size: int, shards: list[str]) -> None:
    assert dealt(names, size) == shards


@settings(max_examples=200, deadline=None)
@given(st.text("abc.", max_size=40), st.text("xy", min_size=40, max_size=40), st.integers(1, 6))
def test_dealing(names: str, groups: str, size: int) -> None:
    records = [Record(str(k), "Text.", g, "" if n == "." else n) for k, (n, g) in enumerate(zip(names, groups))]  # noqa: B905
    shards: list[Shard] = list(deal.deal(records, size, BadRecords()))
    assert [shard.number for shard in shards] == list(range(len(shards)))
    assert sorted((r for shard in shards for r in shard.records), key=lambda r: int(r.id)) == records
    home = {record.id: shard.number for shard in shards for record in shard.records}
    for group in "xy":
        own = [record for record in records if record.group == group]
        for name, run_ in groupby(own, key=lambda record: record.cluster):
            if name:
                assert len({home[record.id] for record in run_}) == 1
    for shard in shards:
        assert {record.group for record in shard.records} == {shard.group}
        # None is larger than its last cluster makes it.
        last = [len(list(same)) for name, same in groupby(shard.records, key=lambda r: r.cluster or r.id)][-1]
        assert len(shard.records) <= size - 1 + last
    plain = [Record(r.id, r.text, r.group) for r in records]
    assert all(len(shard.records) <= size for shard in deal.deal(plain, size, BadRecords()))


def test_a_run_says_once_which_clusters_come_again(tiny: Tiny, tmp_path: Path) -> None:
    texts = rows("aabbccaadd..b")
    options: dict[str, Any] = {"cluster_field": "cluster", "shard_size": 3, "out": tmp_path / "run", "per_text": True}
    told = Counting()
    result = run(tiny("gpt2"), texts, progress=told, **options)
    assert result.by_block["texts_read"].values.tolist() == [4, 4, 3, 2]
    assert (result.texts["clusters"], result.texts["clusters_again"]) == (4, 2)
    said = [line for line in told.said if "cluster" in line]
    assert len(said) == 1
    assert said[0].startswith("2 of 4 clusters come again in another shard")
    table = pd.read_parquet(tmp_path / "run" / "texts.parquet")
    assert table["cluster"].value_counts().to_dict() == {"a": 4, "b": 3, "c": 2, "d": 2, "": 2}
    again = Counting()
    run(tiny("gpt2"), texts, progress=again, **options)
    assert again.said == ["the run is finished already"]


def test_clusters_in_order_are_not_worth_a_word(tiny: Tiny) -> None:
    told = Counting()
    result = run(tiny("gpt2"), rows("aabbcc"), cluster_field="cluster", shard_size=1, progress=told)
    assert (result.texts["clusters"], result.texts["clusters_again"]) == (3, 0)
    assert not any("cluster" in line for line in told.said)
    plain = run(tiny("gpt2"), rows("aabbcc"), shard_size=1)
    assert (plain.texts["clusters"], plain.texts["clusters_again"]) == (0, 0)
    assert (plain.by_block.sizes["block"], result.by_block.sizes["block"]) == (6, 3)


def test_a_cluster_over_two_groups_comes_again(tiny: Tiny) -> None:
    texts = rows("aaaa", "one")[:2] + rows("aaaa", "two")[2:]
    result = run(tiny("gpt2"), texts, cluster_field="cluster", group_field="group", shard_size=1)
    assert result.by_block["texts_read"].values.tolist() == [2, 2]
    assert result.texts["clusters_again"] == 1
    more = run(tiny("gpt2"), rows("bbccdd")[4:], cluster_field="cluster", group_field="group", shard_size=1)
    assert ((result + more).texts["clusters"], (result + more).texts["clusters_again"]) == (2, 1)


@pytest.mark.long
def test_a_clustered_run_is_gone_on_with(tiny: Tiny, tmp_path: Path) -> None:
    texts, options = rows("aabbccaadd..b"), {"cluster_field": "cluster", "shard_size": 3}
    stop_after(tiny("gpt2"), texts, tmp_path / "run", shards=2, **options)
    with pytest.raises(HeadscopeError, match="fingerprint"):
        run(tiny("gpt2"), texts, out=tmp_path / "run", shard_size=3)
    told = Counting()
    resumed = run(tiny("gpt2"), texts, out=tmp_path / "run", progress=told, **options)
    same_bytes(resumed, run(tiny("gpt2"), texts, **options))
    assert resumed.texts["clusters_again"] == 2  # those of the shards from before included
    stream = run(tiny("gpt2"), iter(texts), **options)
    assert (stream.texts["clusters"], stream.texts["clusters_again"]) == (4, 2)


def test_a_cluster_too_large_for_a_shard_is_named(tiny: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (clusters, deal, worker):
        monkeypatch.setattr(module, "MOST_WINDOWS", 4)
    texts, options = rows("a" + "b" * 5), {"cluster_field": "cluster", "shard_size": 1}
    with pytest.raises(
        HeadscopeError, match=r"5 texts that follow each other are of the cluster 'b'.*smaller clusters"
    ):
        run(tiny("gpt2"), texts, **options)
    with pytest.raises(HeadscopeError, match=r"more than 4 windows, and 5 of its 5 texts are of the cluster 'b'"):
        run(tiny("gpt2"), iter(texts), **options)  # a stream is not looked through before
    with pytest.raises(HeadscopeError, match=r"more than 4 windows, and 2 of its 2 texts are of the cluster 'c'"):
        run(tiny("gpt2"), rows("cc"), window=12, windows="all", **options)
    with pytest.raises(HeadscopeError, match=r"more than 4 windows\. To fix it: make smaller shards"):
        run(tiny("gpt2"), rows(".."), window=12, windows="all", shard_size=2)
    assert analysis.MOST_WINDOWS == 65_536


def test_counting_clusters_keeps_eight_bytes_of_each() -> None:
    tracemalloc.start()
    before, count = tracemalloc.get_traced_memory()[0], ClusterCount()
    for k in range(20_000):
        count.add([f"{'long name ' * 10}{k}"])
    taken = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert (count.number, count.again) == (20_000, 0)
    assert taken < 20_000 * 16
    assert (ClusterCount().number, ClusterCount().again) == (0, 0)


def test_clusters_on_the_command_line(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "texts.jsonl"
    file.write_text("".join(json.dumps(row | {"article": row["cluster"]}) + "\n" for row in rows("aabba")))
    asked = ["analyze", str(file), "--model", str(folder), "--cluster-field", "article", "--shard-size", "1"]
    assert main([*asked, "--batch-size", "4", "--out", str(tmp_path / "run")]) == 0
    assert "1 of 2 clusters come again" in capsys.readouterr().err
    assert headscope.Result.open(tmp_path / "run").by_block.sizes["block"] == 3
    assert main([*asked, "--dry-run"]) == 0
    assert "clusters are kept together" in " ".join(capsys.readouterr().out.split())


def test_a_survey_finds_the_largest_cluster() -> None:
    survey = open_texts(rows("aab.bbb..aa"), cluster_field="cluster").survey()
    assert survey.largest_cluster == ("b", 3)
    assert survey.clustered
    assert not open_texts(rows("aab")).survey().clustered
    assert survey.shards(2) == 6  # at most
