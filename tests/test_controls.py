"""Control runs: what is taken away is gone, all else is as it was, and nothing is compared that should not be."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import headscope
import naive
from folders import make_folder
from headscope.cli import main
from headscope.control import USUAL, read_control
from headscope.errors import HeadscopeError
from headscope.findings.controls import check_controls
from headscope.models.permuting import permute_weights
from headscope.windows import rotated_sentences, window
from long import first_of
from naive_corpus import Window as NaiveWindow
from runs import PASSAGES, TEXTS, Tiny, run, same_bytes, stop_after

WRONG = ["", "permuted", "permuted:", "permuted:-1", "permuted:01", "permuted:1.5", "untrained:x", "rotated:0",
         "Rotated", "shuffled:0", " rotated", "rotated\n", f"untrained:{2**63}", 3, ["rotated"]]  # fmt: skip


@pytest.mark.parametrize("written", USUAL)
def test_a_control_is_written_one_way(written: str) -> None:
    assert str(read_control(written)) == written


@pytest.mark.parametrize("written", WRONG, ids=repr)
def test_a_wrong_control_is_refused_before_anything_is_loaded(written: Any, tmp_path: Path) -> None:
    for refused in (
        lambda: headscope.load(tmp_path / "no such model", control=written),
        lambda: headscope.analyze(str(tmp_path / "no such model"), tmp_path / "no such texts", control=written),
        lambda: headscope.reproduce(tmp_path / "no such model", tmp_path / "none", tmp_path, controls=[written]),
    ):
        with pytest.raises(HeadscopeError, match=r"(?s)control=.*To fix it: use "):
            refused()


def test_a_wrong_control_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["analyze", str(tmp_path / "none.txt"), "--out", str(tmp_path / "run"), "--control", "turned"]) == 2
    assert (
        "control='turned' is not possible. To fix it: use untrained:SEED, permuted:SEED or rotated"
        in capsys.readouterr().err
    )
    asked = ["reproduce", "--texts", "passages:", "--out", str(tmp_path / "out"), "--controls"]
    assert main([*asked, "rotated", "x"]) == 2
    assert "control='x'" in capsys.readouterr().err
    assert main([*asked, "rotated", "rotated"]) == 2
    assert "named twice" in capsys.readouterr().err


# ---------------------------------------------------------------------- weights


@pytest.mark.parametrize("kind", first_of(["t5", "gpt2", "roberta"]))
def test_permuted_weights_are_those_of_the_method(kind: str, tmp_path: Path) -> None:
    folder = make_folder(kind, tmp_path / kind)
    trained, permuted = headscope.load(folder), headscope.load(folder, control="permuted:7")
    one, other = (list(model.network.named_parameters()) for model in (trained, permuted))
    assert [name for name, _ in one] == [name for name, _ in other]
    matrices = 0
    for number, ((name, before), (_, after)) in enumerate(zip(one, other, strict=True)):
        expected = before.detach().numpy()
        if expected.ndim == 2:
            matrices += 1
            order = np.random.default_rng([7, number]).permutation(expected.size)
            expected = expected.reshape(-1)[order].reshape(expected.shape)
        assert np.array_equal(after.detach().numpy(), expected), name
    assert matrices > 5
    assert any("embed" in name or "wte" in name or "shared" in name for name, p in one if p.ndim == 2)


@pytest.mark.long
def test_the_fingerprint_and_the_name_tell_controls_apart(tiny: Tiny) -> None:
    from headscope.models.fingerprint import model_fingerprint

    names = [None, "permuted:0", "permuted:1", "untrained:0", "untrained:1", "rotated"]
    models = [headscope.load(control=control) for control in names]
    prints = [model_fingerprint(model) for model in models]
    assert [each["name"] for each in prints] == [
        "headscope/bert12",
        "headscope/bert12 (permuted weights, seed 0)",
        "headscope/bert12 (permuted weights, seed 1)",
        "headscope/bert12 (untrained, seed 0)",
        "headscope/bert12 (untrained, seed 1)",
        "headscope/bert12 (rotated sentences)",
    ]
    weights = [each["weights"] for each in prints]
    assert len(set(weights[:-1])) == 5
    assert weights[-1] == weights[0]
    assert len({(each["config"], each["tokenizer"], each["architecture"]) for each in prints}) == 1
    assert model_fingerprint(headscope.load(control="permuted:1"))["weights"] == weights[2]
    assert model_fingerprint(headscope.load(control="untrained:1"))["weights"] == weights[4]
    assert [str(model.control) for model in models] == [str(name) for name in names]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32, torch.float64, torch.float8_e4m3fn])
def test_any_kind_of_number_is_shuffled_where_it_lies(dtype: torch.dtype) -> None:
    layer = nn.Linear(12, 10, bias=True).requires_grad_(False)
    values = torch.arange(120).float().view(10, 12) / 8
    layer.weight = nn.Parameter(values.to(dtype), requires_grad=False)
    bias, place = layer.bias.clone(), layer.weight.data_ptr()
    expected = layer.weight.float().flatten()[torch.from_numpy(np.random.default_rng([3, 0]).permutation(120))]
    permute_weights(layer, 3)
    assert layer.weight.dtype == dtype
    assert layer.weight.data_ptr() == place  # nothing was copied
    assert torch.equal(layer.weight.float().flatten(), expected)
    assert torch.equal(layer.bias, bias)


def test_tied_and_turned_parameters() -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding = nn.Embedding(6, 4)
            self.turned = nn.Parameter(torch.arange(24.0).view(4, 6).t())
            self.out = nn.Linear(4, 6, bias=False)
            self.out.weight = self.embedding.weight
            self.cube = nn.Parameter(torch.arange(8.0).view(2, 2, 2))

    network = Tied()
    before = {name: p.detach().clone() for name, p in network.named_parameters()}
    permute_weights(network, 0)
    names = [name for name, _ in network.named_parameters()]
    for name, after in network.named_parameters():
        order = torch.from_numpy(np.random.default_rng([0, names.index(name)]).permutation(before[name].numel()))
        expected = before[name].flatten()[order].view(before[name].shape) if after.ndim == 2 else before[name]
        assert torch.equal(after, expected), name
    assert network.out.weight is network.embedding.weight


def test_untrained_weights_are_the_same_for_the_same_seed() -> None:
    one, two, three = (headscope.load(control=f"untrained:{k}").network.state_dict() for k in (5, 5, 6))
    assert all(bool((one[k] == two[k]).all()) for k in one)
    assert not all(bool((one[k] == three[k]).all()) for k in one)


# ---------------------------------------------------------------------- sentences


def turned(numbers: list[Any], counting: list[bool]) -> list[Any]:
    """The rotation, written a second time."""
    places = [place for place, counts in enumerate(counting) if counts]
    size = len(places)
    step = int(np.floor(np.round(0.382 * size, 9)))
    new = list(numbers)
    for r, place in enumerate(places):
        new[place] = numbers[places[(r + step) % size]]
    return new


@pytest.mark.parametrize("special", [False, True])
def test_only_the_sentences_of_a_window_move(embedded: headscope.Model, special: bool) -> None:
    for passage in PASSAGES[:12]:
        read = window(passage["text"], None, embedded.tokenizer, embedded.template, length=128)
        rotated = rotated_sentences(read, special)
        counting = read.counting(special)
        assert rotated.sentence.tolist() == turned(read.sentence.tolist(), counting.tolist())
        assert sorted(rotated.sentence[counting]) == sorted(read.sentence[counting])
        for name in ("ids", "types", "category", "word", "span", "part", "unknown"):
            assert np.array_equal(getattr(rotated, name), getattr(read, name)), name
        assert (rotated.tokens, rotated.texts, rotated.sentences) == (read.tokens, read.texts, read.sentences)


def test_a_window_without_tokens_that_count_is_left_alone(embedded: headscope.Model) -> None:
    read = window("Hm", None, embedded.tokenizer, embedded.template)
    assert rotated_sentences(read, special=False).sentence.tolist() == read.sentence.tolist()


@pytest.mark.parametrize("kind", first_of(["llama-no-start", "roberta", "t5"]))
def test_a_rotated_run_counts_the_pairs_of_rotated_sentences(kind: str, tiny: Tiny) -> None:
    model = tiny(kind)
    texts = [passage["text"][:400] for passage in PASSAGES[:6]]
    plain, rotated = (run(model, texts, window=90, control=control) for control in (None, "rotated"))
    for stack in plain.stacks:
        one, other = (each.stack(stack).dataset for each in (plain, rotated))
        before, after = (each["pairs"].isel(layer=0, head=0).sum("level").values for each in (one, other))
        expected = np.zeros_like(before)  # (distance, relation)
        relations = one["relation"].values.tolist()
        for text in texts:
            read = NaiveWindow(model, text, 90, causal=kind == "llama-no-start")
            if stack in ("decoder", "cross") and model.paired:
                read = read.shifted(0)
            sentence = turned(read.sentence, read.counting)
            for i, j in naive.pairs(read.counting):
                name = naive.relation(i, j, read.again, read.category, read.word, sentence)
                expected[j - i - 1, relations.index(name)] += 1
        assert np.array_equal(after, expected)
        assert not np.array_equal(before, expected)
        # What has nothing to do with sentences stays as it was, to the last bit.
        for name in ("similarity_sum", "position_pairs", "attention", "tokens", "focal_tokens", "flat"):
            if name in one:
                assert one[name].values.tobytes() == other[name].values.tobytes(), name
        assert np.array_equal(one["pairs"].sum("relation"), other["pairs"].sum("relation"))


def test_the_callers_own_relations_see_rotated_sentences(embedded: headscope.Model) -> None:
    def sentence(window: Any) -> list[Any]:
        return [None if k < 0 else int(k) for k in window.sentence]

    relations = {"sentence": sentence}
    texts = [PASSAGES[0]["text"]]
    plain = run(embedded, texts, relations=relations, layers=[0])
    rotated = run(embedded, texts, relations=relations, layers=[0], control="rotated")
    assert not np.array_equal(plain.dataset["pairs_sentence"], rotated.dataset["pairs_sentence"])


# ---------------------------------------------------------------------- runs


@pytest.mark.long
def test_a_control_is_declared_once(tiny: Tiny, tmp_path: Path) -> None:
    folder = make_folder("gpt2", tmp_path / "gpt2")
    by_name = run(str(folder), TEXTS[:4], control="permuted:2")
    loaded = headscope.load(folder, control="permuted:2")
    same_bytes(by_name, run(loaded, TEXTS[:4]))
    assert by_name.settings["control"] == "permuted:2"
    assert run(loaded, TEXTS[:2], control="permuted:2").settings["control"] == "permuted:2"
    assert run(tiny("gpt2"), TEXTS[:2]).settings["control"] is None
    rotated = run(tiny("gpt2"), TEXTS[:2], control="rotated")
    assert rotated.settings["control"] == "rotated"
    assert rotated.model["name"].endswith("(rotated sentences)")
    assert "(rotated sentences)" in repr(rotated)
    assert tiny("gpt2").control is None  # the model itself is as it was


def test_a_loaded_model_cannot_become_another(tiny: Tiny) -> None:
    model = tiny("gpt2")
    with pytest.raises(HeadscopeError, match=r"loaded already.*control='permuted:0'"):
        run(model, TEXTS[:2], control="permuted:0")
    with pytest.raises(HeadscopeError, match="loaded already"):
        run(model.under("rotated"), TEXTS[:2], control="untrained:0")
    with pytest.raises(HeadscopeError, match="loaded already"):
        run(headscope.load(control="permuted:0"), TEXTS[:2], control="rotated")


@pytest.mark.long
def test_rotated_and_unrotated_results_do_not_add_up(tiny: Tiny) -> None:
    plain, rotated = run(tiny("gpt2"), TEXTS[:2]), run(tiny("gpt2"), TEXTS[2:4], control="rotated")
    with pytest.raises(HeadscopeError, match="control: None, and rotated"):
        plain + rotated
    more = run(tiny("gpt2"), TEXTS[4:6], control="rotated")
    assert (rotated + more).settings["control"] == "rotated"


@pytest.mark.long
def test_a_run_is_gone_on_with_under_its_own_control(tiny: Tiny, tmp_path: Path) -> None:
    model, options = tiny("gpt2"), {"shard_size": 2, "control": "rotated"}
    stop_after(model, TEXTS[:8], tmp_path / "run", shards=2, **options)
    with pytest.raises(HeadscopeError, match=r"settings\.control: rotated, and None"):
        run(model, TEXTS[:8], out=tmp_path / "run", shard_size=2)
    same_bytes(run(model, TEXTS[:8], out=tmp_path / "run", **options), run(model, TEXTS[:8], **options))


def test_a_control_on_the_command_line(tmp_path: Path, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    texts = tmp_path / "texts.txt"
    texts.write_text("\n".join(TEXTS[:6]))
    asked = ["analyze", str(texts), "--model", str(folder), "--batch-size", "4"]
    assert main([*asked, "--control", "permuted:1", "--out", str(tmp_path / "run")]) == 0
    printed = capsys.readouterr().out
    assert "(permuted weights, seed 1)" in printed
    assert headscope.Result.open(tmp_path / "run").settings["control"] == "permuted:1"
    assert main([*asked, "--control", "rotated", "--dry-run"]) == 0


# ---------------------------------------------------------------------- beside a result


@pytest.fixture(scope="module")
def beside(tmp_path_factory: pytest.TempPathFactory) -> dict[str, headscope.Result]:
    """A run of a model with two stacks and more, and its control runs."""
    folder = make_folder("t5", tmp_path_factory.mktemp("t5"))
    kinds = [None, "permuted:0", "permuted:1", "untrained:0", "untrained:1", "rotated"]
    return {str(kind): run(str(folder), TEXTS[:8], control=kind, window=48) for kind in kinds}


@pytest.mark.long
def test_controls_are_sorted_by_what_was_taken_away(beside: dict[str, headscope.Result]) -> None:
    result = beside["None"]
    order = ["rotated", "untrained:1", "permuted:1", "untrained:0", "permuted:0"]
    made = check_controls(result, [beside[kind] for kind in order])
    assert [each.settings["control"] for each in made.untrained] == ["untrained:1", "untrained:0"]
    assert [each.settings["control"] for each in made.permuted] == ["permuted:1", "permuted:0"]
    assert [each.settings["control"] for each in made.rotated] == ["rotated"]
    assert len(made.names) == 5
    cross = check_controls(result.stack("cross"), [beside["rotated"], beside["permuted:0"]])
    assert {each.name for each in (*cross.rotated, *cross.permuted)} == {"cross"}
    assert check_controls(result, []).names == []


@pytest.mark.long
def test_what_cannot_be_compared_is_refused(beside: dict[str, headscope.Result], tiny: Tiny, tmp_path: Path) -> None:
    result = beside["None"]
    other = make_folder("llama", tmp_path / "llama")
    for controls, said in (
        ([result], "is not a control"),
        ([beside["permuted:0"], beside["permuted:0"]], "given twice"),
        ([beside["rotated"], beside["rotated"]], "given twice"),
        (
            [run(str(other), TEXTS[:2], control="untrained:0", window=48)],
            "the models' architecture; the models' config",
        ),
        ([run(str(other), TEXTS[:2], control="rotated")], "window: 48, and 128"),
        ([run(tiny("t5"), TEXTS[:2], control="rotated", window=48, tau=0.6)], "tau: 0.5, and 0.6"),
    ):
        with pytest.raises(HeadscopeError, match=said):
            check_controls(result, controls)
    with pytest.raises(HeadscopeError, match="the models' weights"):
        check_controls(beside["untrained:0"], [beside["rotated"]])
    with pytest.raises(HeadscopeError, match="given twice"):
        check_controls(beside["permuted:0"], [beside["permuted:0"]])


@pytest.mark.long
def test_findings_take_controls_of_every_kind(beside: dict[str, headscope.Result]) -> None:
    controls = [result for kind, result in beside.items() if kind != "None"]
    found = beside["None"].findings(controls=controls, draws=20)
    assert len(found.about["controls"]) == 5
    assert {run.kind for finding in found for run in finding.runs} == {"permuted", "untrained", "rotated"}
    for finding in found:
        assert len([run for run in finding.runs if run.kind == "untrained"]) in (2, 4)  # claim 2 has two statistics
    assert found["4"].state("rotated") != "not run"
    alone = beside["None"].findings(controls=[beside["rotated"]], draws=20)
    assert {run.kind for finding in alone for run in finding.runs} == {"rotated"}
    assert alone["7b"].state("permuted") == "not run"
    assert beside["None"].stack("decoder").findings(controls=controls, draws=20).stack == "decoder"
