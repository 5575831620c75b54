"""Runs give the numbers that were asked for, the same however they came about."""

from __future__ import annotations

import random
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from threading import get_ident
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import headscope
from headscope.choices import Choices
from headscope.measures.compiled_accumulator import CompiledAccumulator
from headscope.measures.variables import Sums
from headscope.runs import analysis, local_engine, paths
from headscope.runs.added import AddedShards
from headscope.runs.deal import Shard
from headscope.runs.settings import Settings
from headscope.runs.worker import Threads, Worker
from headscope.texts import Record
from long import first_of
from runs import PASSAGES, TEXTS, Counting, Tiny, pairs_moved, run, same_bytes, stop_after


@pytest.mark.parametrize("kind", first_of(["gpt2", "t5"]))
def test_two_runs_are_the_same_to_the_last_bit(kind: str, tiny: Tiny, tmp_path: Path) -> None:
    model = tiny(kind)
    first = run(model, TEXTS, out=tmp_path / "a", shard_size=5, per_text=True)
    same_bytes(first, run(model, TEXTS, out=tmp_path / "b", shard_size=5, per_text=True))
    same_bytes(first, run(model, iter(TEXTS), shard_size=5, per_text=True))  # a stream


def test_the_order_in_which_shards_are_computed_does_not_matter(tiny: Tiny, tmp_path: Path) -> None:
    model = tiny("gpt2")
    whole = run(model, TEXTS, out=tmp_path / "a", shard_size=3)
    stop_after(model, TEXTS, tmp_path / "b", shard_size=3, shards=8)
    shards = sorted((tmp_path / "b" / "shards").glob("*.json"))
    assert len(shards) == 8
    for file in random.Random(5).sample(shards, 5):  # these are computed last
        for part in (tmp_path / "b" / "shards").glob(f"{file.stem}*"):
            part.unlink()
    same_bytes(whole, run(model, TEXTS, out=tmp_path / "b", shard_size=3))


@pytest.mark.long
def test_batch_sizes_move_next_to_no_pair(embedded: headscope.Model) -> None:
    texts = [p["text"] for p in PASSAGES[:6]]
    base = run(embedded, texts, batch_size=1, threads=1)
    for batch in (2, 64):
        other = run(embedded, texts, batch_size=batch)
        moved, of = pairs_moved(base, other)
        assert moved <= 2e-5 * of, f"{moved} of {of} pairs changed their bin"
        np.testing.assert_array_equal(base.dataset.position_pairs, other.dataset.position_pairs)
        np.testing.assert_allclose(base.dataset.similarity_sum, other.dataset.similarity_sum, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("room", [0, 1_000_000, None])
def test_shards_that_are_added_as_they_come_give_the_bytes_of_shards_that_are_read(
    room: int | None, tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing, the first shards or all of them were added when the run ends; their files are the same in any case."""
    model, taken = tiny("t5"), []
    texts = [(str(k), text, "one" if k % 3 else "two") for k, text in enumerate(TEXTS)]

    class Watched(AddedShards):
        def take(self, number: int, group: str, sums: Sums) -> None:
            super().take(number, group, sums)
            taken.append(number in self.blocks)

    whole = run(model, texts, out=tmp_path / "a", shard_size=3)
    monkeypatch.setattr(analysis, "AddedShards", Watched if room is None else partial(Watched, room=room))
    same_bytes(whole, run(model, texts, out=tmp_path / "b", shard_size=3))
    assert (any(taken), all(taken)) == (room != 0, room is None)
    assert (tmp_path / "a" / "result.nc").read_bytes() == (tmp_path / "b" / "result.nc").read_bytes()


def test_texts_that_processes_cut_ahead_change_no_byte(
    tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = tiny("gpt2")
    whole = run(model, TEXTS, out=tmp_path / "a", shard_size=3, per_text=True)
    monkeypatch.setattr(local_engine, "threads_for", lambda *given: Threads(2, 1, cutting=2))
    same_bytes(whole, run(model, TEXTS, out=tmp_path / "b", shard_size=3, per_text=True))
    stop_after(model, TEXTS, tmp_path / "c", shard_size=3, shards=4)
    same_bytes(whole, run(model, TEXTS, out=tmp_path / "c", shard_size=3))


def test_texts_of_files_are_read_by_another_thread_and_an_iterable_by_its_own(
    tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the caller gives may be bound to a thread, as the rows of a database are."""
    model, threads = tiny("gpt2"), set()

    def texts() -> Iterator[str]:
        for text in TEXTS:
            threads.add(get_ident())
            yield text

    folder = tmp_path / "texts"
    folder.mkdir()
    for k, text in enumerate(TEXTS):
        (folder / f"{k:03}.txt").write_text(text, "utf-8")
    whole = run(model, folder, shard_size=3)
    monkeypatch.setattr(local_engine, "threads_for", lambda *given: Threads(1, 1, cutting=1))
    run(model, texts(), shard_size=3)
    assert threads == {get_ident()}
    read_by, read = set(), Shard.read
    monkeypatch.setattr(Shard, "read", lambda shard: read_by.add(get_ident()) or read(shard))
    same_bytes(whole, run(model, folder, shard_size=3))
    assert len(read_by) == 1
    assert get_ident() not in read_by


def test_a_first_shard_without_windows_keeps_nobody_waiting(tiny: Tiny) -> None:
    """Batches are indexed ahead when the first one is under way; here there is none in the first shard."""
    shards = [[Record("0", "")], [Record("1", TEXTS[0]), Record("2", TEXTS[1])], [Record("3", TEXTS[2])]]
    with Worker(tiny("gpt2"), Settings(Choices(window=32)), {}, threads=Threads(1, 1, cutting=1)) as worker:
        begun = [worker.begin(records, 1) for records in shards]
        done = [worker.shard(records, 1, ahead=each) for records, each in zip(shards, begun, strict=True)]
    assert [len(each.windows) for each in done] == [0, 2, 1]


@pytest.mark.parametrize("kind", first_of(["embedded", "t5"]))
def test_the_number_of_threads_changes_no_byte(
    kind: str, embedded: headscope.Model, tiny: Tiny, tmp_path: Path
) -> None:
    model = embedded if kind == "embedded" else tiny(kind)
    files = ("result.nc", "heads.parquet", "texts.parquet")
    contents = []
    for threads in (1, 2, 5):
        out = tmp_path / str(threads)
        run(model, TEXTS, out=out, threads=threads, shard_size=8, batch_size=3, per_text=True, window=40)
        contents.append([(out / name).read_bytes() for name in files])
    assert contents[0] == contents[1] == contents[2]


def test_a_run_goes_on_with_another_number_of_threads(tiny: Tiny, tmp_path: Path) -> None:
    model = tiny("gpt2")
    whole = run(model, TEXTS, shard_size=3, threads=1)
    stop_after(model, TEXTS, tmp_path / "run", shard_size=3, shards=3, threads=1)
    same_bytes(whole, run(model, TEXTS, out=tmp_path / "run", shard_size=3, threads=3))


def test_batches_are_finished_after_their_layers_and_in_their_order(
    tiny: Tiny, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[tuple[str, int]] = []

    class Sink:
        def __init__(self, inner: Any, first: int) -> None:
            self.inner, self.first = inner, first

        def layer(self, heads: Any) -> None:
            self.inner.layer(heads)
            told.append(("layer", self.first))

        def finish(self) -> None:
            self.inner.finish()
            told.append(("finish", self.first))

    class Recording(CompiledAccumulator):
        def begin(self, batch: Any, first: int = 0) -> Any:
            return Sink(super().begin(batch, first), first)

    monkeypatch.setitem(paths.PATHS, paths.COMPILED, Recording)
    run(tiny("gpt2"), TEXTS[:12], shard_size=12, batch_size=2, threads=3)
    firsts = list(range(0, 12, 2))
    assert [first for what, first in told if what == "finish"] == firsts
    for first in firsts:
        assert [what for what, own in told if own == first] == ["layer"] * 3 + ["finish"]


@settings(max_examples=2, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_corpus_cut_anywhere_adds_up(data: st.DataObject, tiny: Tiny) -> None:
    cut_and_added(data, tiny)


@pytest.mark.long
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_corpus_cut_at_many_places_adds_up(data: st.DataObject, tiny: Tiny) -> None:
    cut_and_added(data, tiny)


def cut_and_added(data: st.DataObject, tiny: Tiny) -> None:
    model = tiny("gpt2")
    texts = data.draw(st.lists(st.sampled_from(TEXTS), min_size=2, max_size=9, unique=True))
    cut = data.draw(st.integers(1, len(texts) - 1))
    size = data.draw(st.integers(1, 5))
    whole = run(model, texts, batch_size=1, shard_size=data.draw(st.integers(1, 9)))
    parts = [run(model, part, batch_size=1, shard_size=size) for part in (texts[:cut], texts[cut:])]
    added = parts[0] + parts[1]
    assert added.texts["texts"] == len(texts)
    for name, values in whole.dataset.data_vars.items():
        other = added.dataset[name]
        assert values.dims == other.dims
        if values.dtype.kind == "f":
            np.testing.assert_allclose(values.values, other.values, rtol=1e-12, atol=1e-12, err_msg=name)
        else:
            np.testing.assert_array_equal(values.values, other.values, err_msg=name)


def test_layers_that_only_one_stack_has(tiny: Tiny) -> None:
    result = run(tiny("t5"), TEXTS[:3], layers=[2])  # the decoder has two
    assert result.stacks == ("encoder",)
    assert result.dataset.layer.values.tolist() == [2]


@pytest.mark.parametrize("choice", ["first", "all", "random"])
def test_long_texts_give_the_windows_that_were_asked_for(choice: str, tiny: Tiny) -> None:
    model = tiny("gpt2")
    text = PASSAGES[0]["text"]
    tokens = len(model.tokenizer(text)["input_ids"])
    result = run(model, [text], window=20, windows=choice)
    assert int(result.dataset.texts) == (-(-tokens // 20) if choice == "all" else 1)
    assert int(result.dataset.tokens.sum()) == (tokens if choice == "all" else 20)
    if choice == "random":
        seeds = {run(model, [text], window=20, windows=choice, seed=s).dataset.similarity_sum.values.tobytes()
                 for s in (1, 2, 3)}  # fmt: skip
        assert len(seeds) > 1
        again = run(model, [text], window=20, windows=choice)
        assert again.dataset.similarity_sum.values.tobytes() == result.dataset.similarity_sum.values.tobytes()


def test_progress_counts_texts_whatever_the_windows(tiny: Tiny) -> None:
    shown = Counting()
    run(tiny("gpt2"), TEXTS, window=12, windows="all", shard_size=5, progress=shown)
    assert shown.state()["texts"] == len(TEXTS)
    assert shown.state()["seconds_left"] == 0
