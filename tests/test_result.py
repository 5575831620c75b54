"""Results: plain xarray files that add up, choose groups, refuse what does not belong together, and show examples."""

from __future__ import annotations

import gc
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5netcdf
import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
import xarray as xr

import headscope
import naive_order
from headscope.errors import HeadscopeError
from headscope.findings.single_texts import shares_of_texts
from headscope.measures.bands import by_band
from headscope.measures.variables import VARIABLES
from headscope.result.checksum import SIZE, seal
from headscope.result.rows import EARLIER
from headscope.result.schema import VERSION
from long import first_of

Tiny = Callable[[str], headscope.Model]
TEXTS = [(p["id"], p["text"][:160], p["group"]) for p in headscope.passages() if p["group"] in ("news", "law", "story")]


def run(model: Any, texts: Any, **options: Any) -> headscope.Result:
    return headscope.analyze(model, texts, **({"progress": False, "threads": 2, "batch_size": 1} | options))


@pytest.fixture(scope="module")
def result(tiny: Tiny, tmp_path_factory: pytest.TempPathFactory) -> headscope.Result:
    return run(tiny("t5"), TEXTS, out=tmp_path_factory.mktemp("result") / "run", shard_size=3, per_text=True)


@pytest.mark.long
def test_the_file_opens_where_headscope_is_not_installed(result: headscope.Result) -> None:
    script = (
        "import sys\nsys.modules['headscope'] = None\nimport xarray, json\n"
        "for group in (None, 'decoder', 'cross', 'blocks', 'cross/blocks', 'groups'):\n"
        "    with xarray.open_dataset(sys.argv[1], group=group) as d:\n"
        "        print(json.dumps({v: [list(d[v].dims), d[v].attrs.get('description', '')] for v in d.variables}))\n"
    )
    done = subprocess.run([sys.executable, "-c", script, result.file], capture_output=True, text=True, check=True)
    top, decoder, cross, blocks, cross_blocks, groups = (json.loads(line) for line in done.stdout.splitlines())
    for name, about in VARIABLES.items():
        assert top[name] == [list(about.dims), about.meaning]
        assert decoder[name] == top[name]
        if about.kept == "block":
            assert blocks[name] == [["block", *about.dims_of_block], about.meaning]
        else:
            assert name not in blocks
            assert groups[name] == [["group", *about.dims], about.meaning]
    assert blocks["pairs"][0] == ["block", "layer", "head", "level", "band", "relation"]
    assert groups["pairs"] == [["group", *top["pairs"][0]], top["pairs"][1]]
    lacking = {name for name, about in VARIABLES.items() if about.needs_map}
    assert set(top) - set(cross) == lacking | {"map", "region"}
    assert not lacking & set(cross_blocks)
    assert all(meaning for _, meaning in top.values())


def test_what_a_result_says_of_itself(result: headscope.Result) -> None:
    assert result.settings["window"] == 128
    assert result.model["stacks"]["cross"]["layers"] == 2
    assert result.texts["texts"] == len(TEXTS)
    assert json.loads(result.attrs["versions"])["torch"]
    assert repr(result).startswith(f"Result: {len(TEXTS)} windows with ")
    assert "encoder 3 layers × 4 heads, 9 blocks, groups news, story, law" in repr(result)
    with pytest.raises(HeadscopeError, match="no stack 'middle'"):
        result.stack("middle")


def test_blocks_and_groups_add_up_to_the_totals(result: headscope.Result) -> None:
    for stack in result.stacks:
        one = result.stack(stack)
        for data in (one.by_block.drop_vars(["group", "texts_read", "shard_block", "shard_hash"]), one.by_group):
            for name in data.data_vars:
                total = data[name].values.astype(one.dataset[name].dtype).sum(0)
                if data[name].dims[-2:] == ("band", "relation") and one.dataset[name].dims[-2] == "distance":
                    np.testing.assert_array_equal(total, by_band(one.dataset[name].values))
                else:
                    np.testing.assert_allclose(total, one.dataset[name].values, rtol=1e-12, atol=1e-12, err_msg=name)


@pytest.mark.long
def test_a_group_is_what_a_run_of_its_texts_alone_gives(result: headscope.Result, tiny: Tiny) -> None:
    chosen = result.select("law")
    alone = run(tiny("t5"), [t for t in TEXTS if t[2] == "law"], shard_size=3)
    for stack in result.stacks:
        one, other = chosen.stack(stack).dataset, alone.stack(stack).dataset
        for name in one.variables:
            np.testing.assert_array_equal(one[name].values, other[name].values, err_msg=name)
    assert chosen.groups == ["law"]
    assert chosen.texts["texts"] == 8
    with pytest.raises(HeadscopeError, match="no group is named"):
        result.select([])
    with pytest.raises(HeadscopeError, match="no group 'poem'"):
        result.select("poem")


@pytest.mark.parametrize("kind", first_of(["gpt2", "t5"]))
def test_results_add_and_keep_groups_apart(kind: str, tiny: Tiny) -> None:
    result = run(tiny(kind), TEXTS, shard_size=3)
    parts = [result.select(group) for group in result.groups]
    again = parts[0] + parts[1] + parts[2]
    assert again.groups == result.groups
    for stack in result.stacks:
        one, other = again.stack(stack).dataset, result.stack(stack).dataset
        for name in other.data_vars:
            if one[name].dtype.kind not in "iuf":
                assert one[name].values.tolist() == other[name].values.tolist()
            else:
                np.testing.assert_allclose(one[name].values, other[name].values, rtol=1e-12, atol=1e-12, err_msg=name)
    one, other = again.select("law"), parts[result.groups.index("law")]
    np.testing.assert_array_equal(one.dataset.similarity_sum.values, other.dataset.similarity_sum.values)
    few = run(tiny("gpt2"), TEXTS[:2])
    with pytest.warns(UserWarning, match="share texts"):
        twice = few + few
    assert int(twice.dataset.texts) == 2 * int(few.dataset.texts)


def test_results_that_differ_do_not_add(result: headscope.Result, tiny: Tiny) -> None:
    with pytest.raises(HeadscopeError, match=r"tau: 0.5, and 0.6"):
        result + run(tiny("t5"), TEXTS[:3], tau=0.6)
    with pytest.raises(HeadscopeError, match="model: "):
        result + run(tiny("gpt2"), TEXTS[:3])
    with pytest.raises(TypeError):
        result + 1  # type: ignore[operator]


def test_saving_and_opening(result: headscope.Result, tmp_path: Path) -> None:
    copy = result.select("news").save(tmp_path / "news.nc")
    opened = headscope.Result.open(copy)
    assert int(opened.dataset.texts) == 8
    for wrong, said in ((tmp_path, "holds no result"), (tmp_path / "no.nc", "there is no run or result")):
        with pytest.raises(HeadscopeError, match=said):
            headscope.Result.open(wrong)
    with pytest.raises(HeadscopeError, match=r"end the name in \.nc"):
        result.save(tmp_path / "a.txt")
    (tmp_path / "noise.nc").write_bytes(b"noise")
    with pytest.raises(HeadscopeError, match="is no result of headscope"):
        headscope.Result.open(tmp_path / "noise.nc")
    pd.DataFrame({"x": [1]}).to_xarray().to_netcdf(tmp_path / "other.nc", engine="h5netcdf")
    with pytest.raises(HeadscopeError, match="does not end as a result"):
        headscope.Result.open(tmp_path / "other.nc")
    seal(tmp_path / "other.nc")
    with pytest.raises(HeadscopeError, match="is not a result of headscope analyze"):
        headscope.Result.open(tmp_path / "other.nc")


def changed(file: Path, attrs: dict[str, Any]) -> None:
    """Change what a file says of itself, and seal it again."""
    content = file.read_bytes()
    file.write_bytes(content[:-SIZE])
    with h5netcdf.File(file, "a") as opened:
        opened.attrs.update(attrs)
    seal(file)


OTHER_VERSIONS = [
    (2, r"is of the method's first edition \(schema 2\).*To fix it: analyse the texts again with this version"),
    (99, "is of a newer schema, 99"),
]


@pytest.mark.parametrize(("version", "said"), OTHER_VERSIONS)
def test_files_of_another_schema_are_refused_by_name(
    result: headscope.Result, tmp_path: Path, version: int, said: str
) -> None:
    copy = result.save(tmp_path / "old.nc")
    changed(copy, {"schema": version})
    with pytest.raises(HeadscopeError, match=rf"old\.nc' {said}") as refused:
        headscope.Result.open(copy)
    assert f"this headscope reads schema {VERSION}" in str(refused.value)


def test_files_of_the_first_schema_had_no_seal_and_are_refused_by_name(tmp_path: Path) -> None:
    old = xr.Dataset({"texts": ((), 3)}, attrs={"schema": 1})
    old.to_netcdf(tmp_path / "old.nc", engine="h5netcdf")
    with pytest.raises(HeadscopeError, match=r"first edition \(schema 1\).*analyse the texts again"):
        headscope.Result.open(tmp_path / "old.nc")


BROKEN = [{"schema": "abc"}, {"stacks": 3}, {"settings": "{"}, {"model": "[]"}, {"texts": "1"}]


@pytest.mark.parametrize("broken", BROKEN, ids=lambda broken: next(iter(broken)))
def test_a_file_that_was_tampered_with_is_refused(
    broken: dict[str, Any], result: headscope.Result, tmp_path: Path
) -> None:
    copy = result.save(tmp_path / "copy.nc")
    changed(copy, broken)
    with pytest.raises(HeadscopeError, match=r"does not say what it holds|schema"):
        headscope.Result.open(copy)


def test_a_damaged_file_is_refused_before_anything_parses_it(result: headscope.Result, tmp_path: Path) -> None:
    """Zeroed bytes could make HDF5 hang while it opened a file."""
    content, copy = result.file.read_bytes(), tmp_path / "copy.nc"
    rng = np.random.default_rng(0)
    damaged = [
        content[:place] + bytes([content[place] ^ 255]) + content[place + 1 :] for place in range(500, 2000, 150)
    ]
    for begin in rng.integers(0, len(content) - SIZE - 64, size=40):
        if content[begin : begin + 64].strip(b"\0"):
            damaged.append(content[:begin] + bytes(64) + content[begin + 64 :])
    for bad in damaged:
        copy.write_bytes(bad)
        with pytest.raises(HeadscopeError, match="its checksum does not fit"):
            headscope.Result.open(copy)
    copy.write_bytes(content[:-100])
    with pytest.raises(HeadscopeError, match="does not end as a result"):
        headscope.Result.open(copy)


def test_a_result_without_a_folder_lives_as_long_as_it_is_looked_at(tiny: Tiny) -> None:
    cross = run(tiny("t5"), TEXTS[:2]).stack("cross")
    assert int(cross.dataset.texts) == 2
    file = cross.file
    cross.close()
    del cross
    gc.collect()
    assert not file.exists()


def test_layers_and_heads_in_tables(embedded: headscope.Model) -> None:
    texts = [p["text"] for p in headscope.passages()[:3]]
    result = run(embedded, texts)
    layers, heads = result.layer_summary(), result.summary()
    assert len(layers) == 12
    assert len(heads) == 144
    one = embedded.inspect(texts[0])
    alone = run(embedded, texts[:1])
    shared = alone.summary().columns.intersection(one.summary().columns).drop(["focal_token"])
    assert len(shared) > 10
    pd.testing.assert_frame_equal(
        alone.summary()[shared].astype(float), one.summary()[shared].astype(float), rtol=1e-4, check_names=False
    )
    own = one.layer_summary()
    for column in ("separator_focus_stop", "reach", "sentence_preference", "likeness", "focal_unique", "focal_null"):
        np.testing.assert_allclose(alone.layer_summary()[column], own[column], rtol=1e-4)


def test_rows_per_text_are_those_of_an_inspection(tiny: Tiny, tmp_path: Path) -> None:
    model = tiny("distilbert")
    run(model, TEXTS, out=tmp_path / "run", per_text=True, batch_size=3, shard_size=4)
    heads, texts = (pd.read_parquet(tmp_path / "run" / name) for name in ("heads.parquet", "texts.parquet"))
    assert len(heads) == len(TEXTS) * 12
    assert len(texts) == len(TEXTS)
    assert sorted(texts["id"]) == sorted(t[0] for t in TEXTS)
    for row in texts.itertuples():
        text = next(t[1] for t in TEXTS if t[0] == row.id)
        assert row.content == text
        seen = model.inspect(text).summary()
        mine = heads[heads["text"] == row.text].reset_index(drop=True)
        for column in ("separator_focus_stop", "separator_focus_end", "focal_share"):
            np.testing.assert_allclose(mine[column], seen[column], rtol=1e-4, err_msg=column)
        np.testing.assert_array_equal(mine["high_pairs"], seen["high_pairs"])
        for layer, head in ((0, 1), (2, 3)):
            pairs = model.inspect(text).high_pairs(layer, head)
            own = mine[(mine["layer"] == layer) & (mine["head"] == head)].iloc[0]
            assert own["mean_distance"] == pytest.approx(pairs.distance.mean(), rel=1e-5)
            assert own["sentence_share"] == pytest.approx(pairs.relation.isin(["sentence", "both"]).mean(), rel=1e-5)
            assert own["repetition_share"] == pytest.approx(pairs.relation.isin(["repeated", "both"]).mean(), rel=1e-5)


def test_examples_show_a_head_at_its_most(result: headscope.Result, tiny: Tiny) -> None:
    shown = result.stack("decoder").examples(1, 2, "mean_distance", k=4)
    assert len(shown) == 4
    assert shown["mean_distance"].is_monotonic_decreasing
    assert (shown["high_pairs"] >= 10).all()
    table = pd.read_parquet(result.file.parent / "heads.parquet")
    own = table[
        (table["stack"] == "decoder") & (table["layer"] == 1) & (table["head"] == 2) & (table["high_pairs"] >= 10)
    ]
    assert shown["mean_distance"].iloc[0] == own["mean_distance"].max()
    assert shown["text"].iloc[0] in {t[1] for t in TEXTS}
    low = result.examples(0, 0, "separator_focus_stop", k=2, lowest=True)
    assert low["separator_focus_stop"].is_monotonic_increasing
    for wrong, said in (
        ((9, 0, "mean_distance"), "no head 0 in layer 9.*layers are 0 to 2"),
        ((0, 0, "beauty"), "no score 'beauty'"),
    ):
        with pytest.raises(HeadscopeError, match=said):
            result.examples(*wrong)
    with pytest.raises(HeadscopeError, match="--per-text"):
        run(tiny("gpt2"), TEXTS[:2]).examples(0, 0, "mean_distance")


def test_rows_of_earlier_versions_are_read(tiny: Tiny, tmp_path: Path) -> None:
    """Their columns had other names, and did not say where a window ends."""
    made = run(tiny("gpt2"), TEXTS, out=tmp_path / "run", per_text=True)
    now, shares = made.examples(1, 2, "mean_distance", k=3), shares_of_texts(made, 0.5)
    assert {"starts_text", "ends_text"} < set(now.columns)
    for name, dropped in (("heads", []), ("texts", ["starts_text", "ends_text"])):
        file = tmp_path / "run" / f"{name}.parquet"
        table = pq.read_table(file).drop_columns(dropped)
        pq.write_table(table.rename_columns([EARLIER.get(each, each) for each in table.schema.names]), file)
    then = headscope.Result.open(tmp_path / "run")
    read = then.examples(1, 2, "mean_distance", k=3)
    assert read[["starts_text", "ends_text"]].isna().all(axis=None)
    pd.testing.assert_frame_equal(*(each.drop(columns=["starts_text", "ends_text"]) for each in (read, now)))
    assert shares_of_texts(then, 0.5) == pytest.approx(shares, nan_ok=True)
    more = [("new", "The river knew the ferryman. The ferryman feared the river, and the river rose. It rose again.")]
    other = run(tiny("gpt2"), more, out=tmp_path / "other", per_text=True)
    assert "new" in (then + other).examples(1, 2, "high_pairs", k=1000)["id"].tolist()


def test_parts_and_sums_of_runs_have_examples(tiny: Tiny, tmp_path: Path) -> None:
    """Their rows are those of the runs: the best of a group, and of two runs."""
    groups = [(f"{n}", text, "law" if n % 2 else "news") for n, (_, text, *_) in enumerate(TEXTS)]
    half = len(groups) // 2
    one = run(tiny("gpt2"), groups[:half], out=tmp_path / "one", per_text=True)
    other = run(tiny("gpt2"), groups[half:], out=tmp_path / "other", per_text=True)
    whole = run(tiny("gpt2"), groups, out=tmp_path / "whole", per_text=True)
    columns = ["id", "group", "mean_distance", "high_pairs", "focal_token", "text"]

    def shown(result: headscope.Result) -> pd.DataFrame:
        return result.examples(1, 2, "mean_distance", k=4)[columns]

    every = whole.examples(1, 2, "mean_distance", k=1000)[columns]
    pd.testing.assert_frame_equal(shown(one + other), shown(whole))
    law = every[every.group == "law"].head(4).reset_index(drop=True)
    for part in (whole.select("law"), (one + other).select("law"), one.select("law") + other.select("law")):
        pd.testing.assert_frame_equal(shown(part), law)
    headscope.result.result.merge_runs([tmp_path / "one", tmp_path / "other"], tmp_path / "merged")
    pd.testing.assert_frame_equal(shown(headscope.Result.open(tmp_path / "merged")), shown(whole))
    without = run(tiny("gpt2"), [("x", "It rains. It pours.", "law")], out=tmp_path / "without")
    with pytest.warns(UserWarning, match="without has no rows of single texts"):
        headscope.result.result.merge_runs([tmp_path / "one", tmp_path / "without"], tmp_path / "fewer")
    with pytest.raises(HeadscopeError, match="or one of those that were added, kept no rows"):
        shown(one + without)


def test_a_finished_run_answers_at_another_threshold(tiny: Tiny, tmp_path: Path) -> None:
    first = run(tiny("gpt2"), TEXTS, out=tmp_path / "run", tau=0.5)
    before = (tmp_path / "run" / "result.nc").read_bytes()
    other = run(tiny("gpt2"), TEXTS, out=tmp_path / "run", tau=0.7)
    assert (tmp_path / "run" / "result.nc").read_bytes() == before
    pd.testing.assert_frame_equal(other.layer_summary(), first.layer_summary(0.7))
    pd.testing.assert_frame_equal(other.stack("decoder").summary(), first.summary(0.7))
    assert other.settings["tau"] == 0.5
    with pytest.raises(HeadscopeError, match=r"theta: 0\.3, and 0\.5"):
        run(tiny("gpt2"), TEXTS, out=tmp_path / "run", tau=0.7, theta=0.5)
    (tmp_path / "run" / "result.nc").write_bytes(before[:-10])
    with pytest.raises(HeadscopeError, match="must be computed again first"):
        run(tiny("gpt2"), TEXTS, out=tmp_path / "run", tau=0.7)
    assert run(tiny("gpt2"), TEXTS, out=tmp_path / "run").file.read_bytes() == before


def matched_by_hand(own: np.ndarray, pairs: np.ndarray, first_high: int = 11) -> float:
    """The matched ratio of pairs with the label to the others, band by band, relation by relation: (level, distance,
    relation) each.
    """
    own, pairs = (naive_order.by_band(counts).tolist() for counts in (own, pairs))
    a = b = 0.0
    for band in range(len(own[0])):
        for relation in range(len(own[0][0])):
            mine, every = ([level[band][relation] for level in counts] for counts in (own, pairs))
            n1, k1 = sum(mine), sum(mine[first_high:])
            n0, k0 = sum(every) - n1, sum(every[first_high:]) - k1
            if n1 + n0:
                a += k1 * n0 / (n1 + n0)
                b += k0 * n1 / (n1 + n0)
    return (a + 0.5) / (b + 0.5) if a + b >= 5 else float("nan")


def test_a_relation_of_ones_own(tiny: Tiny) -> None:
    """Pairs of tokens that begin with the same letter, counted here once more by hand."""

    def initial(window: Any) -> list[str | None]:
        return [None if special else label.strip("␣Ġ ")[:1].lower() or None
                for label, special in zip(window.labels, window.special, strict=True)]  # fmt: skip

    model = tiny("gpt2")
    texts = [t[1] for t in TEXTS[:5]]
    result = run(model, texts, relations={"initial": initial}, batch_size=2)
    pairs, own = result.dataset.pairs, result.dataset.pairs_initial
    assert own.dims == pairs.dims
    assert (own <= pairs).all()
    expected = np.zeros(own.shape, dtype=int)
    relation = list(result.dataset.relation.values)
    for text in texts:
        seen = model.inspect(text)
        letters = initial(seen.window)
        for layer in range(3):
            for head in range(4):
                for row in seen.high_pairs(layer, head, 0.05).itertuples():
                    if letters[row.i] is not None and letters[row.i] == letters[row.j]:
                        level = min(int(np.floor(row.level * 20 + 1e-9)) + 1, 20)
                        expected[layer, head, level, row.distance - 1, relation.index(row.relation)] += 1
    high = slice(2, None)
    assert np.abs(own.values[:, :, high] - expected[:, :, high]).sum() <= 2
    table = result.summary()
    assert "initial_preference" in table
    for k in range(3):
        for h in range(4):
            by_hand = matched_by_hand(own.values[k, h], pairs.values[k, h])
            assert table["initial_preference"][4 * k + h] == pytest.approx(by_hand, rel=1e-12, nan_ok=True)
    everything = run(model, texts, relations={"every": lambda window: [1] * len(window)})
    assert (everything.dataset.pairs_every == everything.dataset.pairs).all()
    for wrong in (lambda window: [1], lambda window: "abc", lambda window: 3):
        with pytest.raises(HeadscopeError, match="one label for each token"):
            run(model, texts, relations={"wrong": wrong})
    with pytest.raises(HeadscopeError, match="ZeroDivisionError"):
        run(model, texts, relations={"wrong": lambda window: 1 / 0})
    with pytest.raises(HeadscopeError, match="unhashable"):
        run(model, texts, relations={"wrong": lambda window: [[]] * len(window)})
    with pytest.raises(HeadscopeError, match="cannot name a relation"):
        run(model, texts, relations={"Not A Name": initial})
