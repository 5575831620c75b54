"""Collections read in pieces hold the texts, the shards and the fingerprint that one reader finds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crews import ThreadCrew
from headscope.errors import HeadscopeError
from headscope.runs.deal import deal
from headscope.runs.places import deal_places
from headscope.texts import Bad, BadRecords, Record, open_texts
from headscope.texts.corpus import open_paths, survey_of
from headscope.texts.pieces import PieceReader, survey_piece, survey_records
from runs import TEXTS, Counting, run, same_bytes


def rows_of(number: int) -> list[dict[str, Any]]:
    return [{"id": str(k), "text": TEXTS[k % 24] + f" {k}.", "group": "ab"[k % 5 == 0], "article": str(k // 3)}
            for k in range(number)]  # fmt: skip


@pytest.fixture
def folder_of_texts(tmp_path: Path) -> Path:
    """Lines, a compressed file, a table of four row groups, and records that are none."""
    folder = tmp_path / "texts"
    folder.mkdir()
    rows = rows_of(40)
    lines = [json.dumps(row) for row in rows[:15]]
    (folder / "a.jsonl").write_text("\n".join([*lines[:4], "{", *lines[4:], '{"text": 7, "group": "a"}']) + "\n")
    pd.DataFrame(rows[15:25]).to_json(folder / "b.jsonl.gz", orient="records", lines=True)
    pd.DataFrame(rows[25:]).to_parquet(folder / "c.parquet", row_group_size=4)
    return folder


@pytest.mark.parametrize("fields", [{}, {"group_field": "group"}, {"group_field": "group", "cluster_field": "article"}])
@pytest.mark.parametrize("size", [1, 4, 7, 100])
def test_shards_by_place_are_those_of_the_stream(fields: dict[str, str], size: int, folder_of_texts: Path) -> None:
    corpus = open_texts(folder_of_texts, **fields)
    assert corpus.pieces is not None
    assert [piece.row_group for piece in corpus.pieces] == [None, None, 0, 1, 2, 3]
    survey, whole = corpus.survey(), open_texts(folder_of_texts, limit=1000, **fields).survey()
    assert (survey.texts, survey.groups, survey.fingerprint) == (whole.texts, whole.groups, whole.fingerprint)
    assert (survey.bad, survey.first_bad, survey.largest_cluster) == (2, whole.first_bad, whole.largest_cluster)
    stream = list(deal(corpus.records(), size, BadRecords()))
    placed = list(deal_places(corpus.pieces, survey.pieces, size))
    assert [(s.number, s.group, s.texts, s.clusters) for s in placed] == [
        (s.number, s.group, s.texts, s.clusters) for s in stream
    ]
    assert [shard.read() for shard in placed] == stream
    assert [shard.read() for shard in reversed(placed)] == stream[::-1]  # whatever order they are read in


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_any_runs_of_groups_and_clusters_are_dealt_alike(data: st.DataObject) -> None:
    made = st.tuples(st.sampled_from("xy"), st.sampled_from(["", "", "p", "q"]))
    drawn = data.draw(st.lists(made, max_size=40))
    records = [Record(str(k), f"Text {k}.", group, cluster) for k, (group, cluster) in enumerate(drawn)]
    cuts = sorted(data.draw(st.lists(st.integers(0, len(records)), max_size=4)))
    parts = [records[a:b] for a, b in zip([0, *cuts], [*cuts, len(records)], strict=True)]
    size = data.draw(st.integers(1, 6))

    class Held:
        def __init__(self, part: list[Record]) -> None:
            self.part, self.file = part, Path("held")

        def records(self) -> Any:
            return iter(self.part)

    surveys = [survey_records(part) for part in parts]
    placed = [shard.read() for shard in deal_places([Held(part) for part in parts], surveys, size)]  # type: ignore[misc]
    assert placed == list(deal(iter(records), size, BadRecords()))
    assert survey_of(surveys).fingerprint == survey_of([survey_records(records)]).fingerprint


def test_order_and_texts_make_the_fingerprint() -> None:
    one, two = Record("a", "One."), Record("b", "Two.")
    prints = {survey_of([survey_records(each)]).fingerprint for each in ([one, two], [two, one], [one], [one, one], [])}
    assert len(prints) == 5
    assert survey_records([Bad("x", "none"), one]).texts == 1


def test_a_reader_goes_on_where_it_is(folder_of_texts: Path) -> None:
    corpus = open_texts(folder_of_texts)
    pieces = corpus.pieces or []
    reader = PieceReader()
    first = [record.id for record in reader.read(pieces[:1], 0, 4)]
    held = reader._texts
    assert [record.id for record in reader.read(pieces[:2], 5, 2)][:3] == ["5", "6", "7"]
    assert first == ["0", "1", "2", "3", "4"]
    assert held is not reader._texts
    assert survey_piece(pieces[0]).bad.number == 2


def test_workers_read_the_texts_themselves(
    folder: Path, folder_of_texts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headscope.runs.engines.ProcessCrew", ThreadCrew)
    options: dict[str, Any] = {"shard_size": 6, "threads": 1, "group_field": "group", "cluster_field": "article"}
    local = run(str(folder), str(folder_of_texts), out=tmp_path / "a", **options)
    shown = Counting()
    same_bytes(local, run(str(folder), str(folder_of_texts), out=tmp_path / "b", workers=2, progress=shown, **options))
    assert (tmp_path / "a" / "result.nc").read_bytes() == (tmp_path / "b" / "result.nc").read_bytes()
    assert any(said.startswith("2 bad records were left out: a.jsonl:5") for said in shown.said)


def test_texts_that_change_meanwhile_are_noticed(folder_of_texts: Path) -> None:
    corpus = open_paths([str(folder_of_texts / "a.jsonl")])
    survey = corpus.survey()
    shards = list(deal_places(corpus.pieces or [], survey.pieces, 4))
    (folder_of_texts / "a.jsonl").write_text('{"text": "Other."}\n')
    with pytest.raises(HeadscopeError, match=r"has changed while it was read: shard 3 had 3 texts and has 0"):
        shards[3].read()
