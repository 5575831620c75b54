"""What a result keeps of its shards: totals, blocks of neighbours, groups; added, chosen, read back as arrays."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import headscope
from headscope.errors import HeadscopeError
from headscope.measures.variables import FOCAL_TOKENS, MATRIX, Shape, Variable, declare, variables_of, withdraw
from headscope.result import neighbours
from headscope.result.blocks import total_sums
from headscope.result.neighbours import blocks_of, most_blocks
from headscope.result.parts import kept_for_groups
from headscope.result.shards import largest_counts, pack, unpack
from made_up import SMALL, MadeUp, in_bands, plain_total, result_of

MIXED = ["a", "b", "a", "a", "b", "c", "a", "b"]
TINY = {"encoder": Shape((0,), 2, 6, readings=("dot",))}


@pytest.fixture(scope="module")
def shards() -> MadeUp:
    return MadeUp(SMALL, MIXED)


@pytest.fixture(scope="module")
def result(shards: MadeUp, tmp_path_factory: pytest.TempPathFactory) -> headscope.Result:
    return result_of(tmp_path_factory.mktemp("made") / "result.nc", shards)


def assert_same(found: Any, wanted: np.ndarray, name: str) -> None:
    """Counts exactly, sums to 1e-12 of the largest of them."""
    found = np.asarray(found)
    if wanted.dtype.kind == "f":
        np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-12 * np.abs(wanted).max(), err_msg=name)
    else:
        np.testing.assert_array_equal(found.astype(np.int64), wanted, err_msg=name)


def of_tokens(data: Any, name: str, table: np.ndarray) -> np.ndarray:
    """A made-up total in the form that a result has it in: focal tokens only of the ids that occur."""
    return table[..., data["token"].values] if name == FOCAL_TOKENS else table


def assert_totals(result: headscope.Result, shards: MadeUp, groups: list[str] | None = None) -> None:
    for stack, shape in shards.shapes.items():
        data = result.stack(stack).dataset
        for each in variables_of(shape):
            wanted = of_tokens(data, each.name, plain_total(shards, stack, each.name, groups))
            assert data[each.name].dims == each.dims_of(shape)
            assert data[each.name].attrs["description"] == each.meaning
            assert_same(data[each.name].values, wanted, each.name)


# ---------------------------------------------------------------------- what is kept


def test_totals_are_the_sums_of_all_shards(result: headscope.Result, shards: MadeUp) -> None:
    assert_totals(result, shards)
    assert result.dataset["token_text"].values[0] == f"word{result.dataset['token'].values[0]}"


def test_a_block_keeps_its_shards_with_pairs_by_band(result: headscope.Result, shards: MadeUp) -> None:
    order = [0, 2, 3, 6, 1, 4, 7, 5]  # group by group
    assert result.by_block["group"].values.tolist() == [MIXED[k] for k in order]
    assert result.by_block["texts_read"].values.tolist() == [2] * 8
    for stack, shape in shards.shapes.items():
        data = result.stack(stack).by_block
        kept = {each.name: each for each in variables_of(shape) if each.kept == "block"}
        assert set(kept) == set(data.data_vars) - {"group", "texts_read", "shard_block", "shard_hash"}
        for place, number in enumerate(order):
            whole = shards.whole[number][stack]
            for name, each in kept.items():
                assert data[name].dims == ("block", *each.dims_of_block)
                wanted = in_bands(whole[name]) if name == "pairs" else whole[name]
                np.testing.assert_array_equal(data[name].values[place], wanted, err_msg=name)


def test_a_group_keeps_what_takes_too_much_room_for_blocks(result: headscope.Result, shards: MadeUp) -> None:
    for stack, shape in shards.shapes.items():
        one = result.stack(stack)
        assert set(one.by_group.data_vars) == {each.name for each in kept_for_groups(shape)}
        for group in ("a", "b", "c"):
            for each in kept_for_groups(shape):
                wanted = of_tokens(one.dataset, each.name, plain_total(shards, stack, each.name, [group]))
                assert_same(one.by_group[each.name].sel(group=group).values, wanted, each.name)


def test_one_shard_makes_a_result(tmp_path: Path) -> None:
    alone = MadeUp(SMALL, [""])
    result = result_of(tmp_path / "result.nc", alone)
    assert_totals(result, alone)
    assert result.by_block.sizes["block"] == 1
    assert result.by_group.sizes["group"] == 1
    assert_same(result.by_group[MATRIX].values[0], plain_total(alone, "encoder", MATRIX), MATRIX)


def test_long_windows_have_pairs_by_band_and_no_mean_matrix(tmp_path: Path) -> None:
    long = MadeUp({"encoder": Shape((0,), 1, 700, readings=("dot",))}, ["a", "b"])
    result = result_of(tmp_path / "result.nc", long)
    assert_totals(result, long)
    assert result.dataset["pairs"].dims == ("layer", "head", "level", "band", "relation")
    assert result.dataset["map"].values.tolist() == ["direct"]
    assert MATRIX not in result.dataset
    assert set(result.by_group.data_vars) == {"position_pairs", FOCAL_TOKENS}
    np.testing.assert_array_equal(total_sums(result).layer_pairs(0)[0], result.dataset["pairs"].values[0])
    with pytest.raises(HeadscopeError, match="mean matrix of windows this long"):
        result.mean_matrix()


def test_relations_and_variables_of_ones_own_are_kept(tmp_path: Path) -> None:
    declare(Variable("own", ("layer", "head"), "a sum of mine", "sum", fill=lambda batch, sums: None))
    try:
        own = MadeUp({"encoder": replace(SMALL["encoder"], relations=("initial",))}, ["a", "b", "a"])
        result = result_of(tmp_path / "result.nc", own)
        assert_totals(result, own)
        assert result.by_block["pairs_initial"].dims == result.by_block["pairs"].dims
        assert "pairs_initial" in result.by_group
        assert_totals(result.select("a"), own, ["a"])
        assert "own" in result.blocks.stored
        assert "pairs_initial" not in result.blocks.stored
    finally:
        withdraw("own")


def test_no_focal_token_anywhere(tmp_path: Path) -> None:
    none = {FOCAL_TOKENS: np.zeros((0, 4), dtype=np.int64)}
    result = result_of(tmp_path / "result.nc", MadeUp(TINY, ["a", "b"]).changed(lambda sums: sums.update(none)))
    assert result.dataset[FOCAL_TOKENS].shape == (1, 2, 0)
    assert int(result.select("a").dataset["texts"]) == 2


def test_counts_are_as_small_as_can_be_and_never_too_small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Counts that fit into two bytes in each shard and at each distance, but not in a block of two, or in a band."""

    def grow(sums: dict[str, np.ndarray]) -> None:
        sums["flat"][:], sums["pairs"][:] = 40_000, 30_000

    large = MadeUp({"encoder": Shape((0,), 2, 8, readings=("dot",))}, ["a"] * 2).changed(grow)
    monkeypatch.setattr(neighbours, "MOST_BLOCKS", 1)
    monkeypatch.setattr(neighbours, "FEWEST_BLOCKS", 1)
    blocks = result_of(tmp_path / "result.nc", large).by_block
    assert blocks["flat"].values.tolist() == [[[80_000] * 2]]
    assert int(blocks["pairs"].sel(band="5-6").max()) == 120_000
    assert (blocks["flat"].dtype, blocks["pairs"].dtype, blocks["texts"].dtype) == (np.uint32, np.uint32, np.uint8)


# ---------------------------------------------------------------------- which shards are a block


def test_blocks_hold_neighbours_of_one_group() -> None:
    assert blocks_of(["a"] * 3, 10) == [(0,), (1,), (2,)]
    for groups in (["a"] * 1000 + ["b"] * 10, ["a", "b"] * 505, ["a"] * 257, ["a"] * 600 + ["b"]):
        blocks = blocks_of(groups, 256)
        assert 128 < len(blocks) <= 256
        assert sorted(shard for block in blocks for shard in block) == list(range(len(groups)))
        for block in blocks:
            group = groups[block[0]]
            own = [shard for shard, each in enumerate(groups) if each == group]
            assert list(block) == own[own.index(block[0]) :][: len(block)]  # neighbours, in their order
        sizes = {len(block) for block in blocks if groups[block[0]] == "a"}
        assert max(sizes) - min(sizes) <= 1
    assert len(blocks_of([str(k) for k in range(300)], 256)) == 300  # a group is a block at least


def test_large_tables_have_fewer_blocks() -> None:
    assert most_blocks([Shape((0,), 2, 12)]) == 256
    assert most_blocks([Shape(tuple(range(12)), 12, 128)]) == 145
    assert most_blocks([Shape(tuple(range(32)), 32, 512)]) == 32
    assert most_blocks([Shape(tuple(range(12)), 12, 128)] * 3) == 48


def test_more_than_256_shards(tmp_path: Path) -> None:
    many = MadeUp(TINY, ["a"] * 500 + ["b"] * 13, texts=1)
    result = result_of(tmp_path / "result.nc", many)
    assert result.by_block.sizes["block"] == 167 + 5  # three at a time: by two there would be 250 and 7
    assert result.by_block["texts_read"].values.sum() == 513
    assert_totals(result, many)
    for name in ("pairs", "attention"):
        each = [many.whole[k]["encoder"][name] for k in range(2)]
        wanted = in_bands(each[0] + each[1]) if name == "pairs" else each[0] + each[1]
        np.testing.assert_array_equal(result.by_block[name].values[0], wanted)
    assert_totals(result.select("b"), many, ["b"])


# ---------------------------------------------------------------------- adding and choosing


@pytest.mark.long
def test_halves_add_up_to_the_whole(shards: MadeUp, result: headscope.Result, tmp_path: Path) -> None:
    one, other = (result_of(tmp_path / f"{k[0]}.nc", shards.taken(k)) for k in (range(5), range(5, 8)))
    added = one + other
    assert_totals(added, shards)
    assert added.groups == result.groups
    assert_totals(added.select("b"), shards, ["b"])
    assert added.by_block.sizes["block"] == 8
    assert set(added.by_block["shard_hash"].values) == set(result.by_block["shard_hash"].values)
    assert added.texts["texts"] == 16


@pytest.mark.long
def test_adding_past_256_blocks_adds_neighbours_again(tmp_path: Path) -> None:
    parts = [MadeUp(TINY, ["a"] * 120 + ["b"] * 30, seed=seed, texts=1) for seed in range(2)]
    one, other = (result_of(tmp_path / f"{seed}.nc", part) for seed, part in enumerate(parts))
    added = one + other
    assert (one.by_block.sizes["block"], added.by_block.sizes["block"]) == (150, 150)
    assert added.by_block["texts_read"].values.tolist() == [2] * 150
    assert added.by_block.sizes["shard"] == 300
    for name in ("attention", "flat", FOCAL_TOKENS, MATRIX, "pairs"):
        wanted = [of_tokens(added.dataset, name, plain_total(part, "encoder", name)) for part in parts]
        assert_same(added.dataset[name].values, wanted[0] + wanted[1], name)
    twice = added + result_of(tmp_path / "third.nc", MadeUp(TINY, ["b"] * 200, seed=7, texts=1))
    assert twice.by_block.sizes["block"] <= 256
    assert int(twice.dataset["texts"]) == 500
    with pytest.warns(UserWarning, match="share texts"):
        added + one


@pytest.mark.long
def test_a_group_is_what_its_shards_alone_give(result: headscope.Result, shards: MadeUp, tmp_path: Path) -> None:
    alone = shards.taken(k for k, group in enumerate(MIXED) if group == "a")
    one, other = result.select("a"), result_of(tmp_path / "a.nc", alone)
    for stack in result.stacks:
        for left, right in ((one.stack(stack).dataset, other.stack(stack).dataset),
                            (one.stack(stack).by_block, other.stack(stack).by_block)):  # fmt: skip
            assert set(left.variables) == set(right.variables)
            for name in left.variables:
                np.testing.assert_array_equal(left[name].values, right[name].values, err_msg=str(name))
    both = result.select(["a", "c"])
    assert both.groups == ["a", "c"]
    assert_totals(both, shards, ["a", "c"])


# ---------------------------------------------------------------------- as arrays


def test_sums_of_blocks_are_read_when_they_are_asked_for(result: headscope.Result, shards: MadeUp) -> None:
    for stack, shape in shards.shapes.items():
        one = result.stack(stack)
        sums, total = one.blocks, total_sums(one)
        assert (sums.layers, sums.depth, sums.heads) == (shape.layers, 4, shape.heads)
        assert (sums.readings, sums.tau, sums.theta) == (("dot", "cosine"), 0.5, 0.3)
        assert sums.groups == tuple("aaaabbbc")
        assert total.groups == ("",)
        kept = {each.name for each in variables_of(shape) if each.kept == "block"} - {"pairs"}
        assert set(sums.stored) == set(total.stored) == kept
        assert not any(values is not None for values in sums.stored._read.values())  # type: ignore[attr-defined]
        for name in kept:
            assert sums.stored[name].dtype == np.float64
            np.testing.assert_array_equal(sums.stored[name], one.by_block[name].values)
            assert total.stored[name].shape == (1, *sums.stored[name].shape[1:])
            np.testing.assert_allclose(sums.stored[name].sum(0), total.stored[name][0], rtol=1e-12, atol=1e-9)
        for k in range(len(shape.layers)):
            pairs = sums.layer_pairs(k)
            np.testing.assert_array_equal(pairs, one.by_block["pairs"].values[:, k])
            np.testing.assert_array_equal(pairs.sum(0), total.layer_pairs(k)[0])
    assert "mask_pairs" in result.blocks.stored
    assert "mask_pairs" not in result.stack("cross").blocks.stored
    with pytest.raises(KeyError):
        result.blocks.stored["pairs"]


# ---------------------------------------------------------------------- shards' files


def test_shards_of_the_first_edition_are_refused(tmp_path: Path) -> None:
    import h5py

    file = tmp_path / "000000.h5"
    file.write_bytes(pack({"encoder": {"texts": np.array(3)}}))
    assert int(unpack(file)["encoder"]["texts"]) == 3
    for version, said in ((2, r"000000\.h5' is of the method's first edition \(schema 2\)"), (None, "no known schema")):
        with h5py.File(file, "a") as opened:
            del opened.attrs["schema"]
            if version is not None:
                opened.attrs["schema"] = version
            else:
                opened.attrs["other"] = 1
        for read in (unpack, largest_counts):
            with pytest.raises(HeadscopeError, match=said + r".*analyse the texts again with this version"):
                read(file)
