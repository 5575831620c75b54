"""Whatever is wrong with a model is said in one clear sentence; nothing pickled or remote is ever run."""

from __future__ import annotations

import json
import pickle
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file

import headscope
from folders import make_folder
from headscope import HeadscopeError
from headscope.cli import main
from headscope.models.load import cpu_multiplies_bfloat16
from headscope.models.source import find


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A copy of the embedded model's folder that a test may damage."""
    target = tmp_path / "model"
    shutil.copytree(find(None).folder, target)
    return target


def edit_config(folder: Path, **changes: Any) -> None:
    file = folder / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | changes))


def refusal(name: Any, **options: Any) -> str:
    with pytest.raises(HeadscopeError) as caught:
        headscope.load(name, **options)
    assert caught.value.remedy, "an error must say what to do"
    return str(caught.value)


def test_a_local_folder_loads(folder: Path) -> None:
    model = headscope.load(folder)
    assert (model.stack().layers, model.stack().heads, model.stack().width) == (12, 12, 32)
    assert model.network.dtype == torch.float32
    assert not model.report.failed


def test_a_missing_path(tmp_path: Path) -> None:
    assert "there is no file or folder" in refusal(tmp_path / "nowhere")
    assert "there is no file or folder" in refusal("./nowhere")


def test_a_hub_id_without_network_names_both_ways_out() -> None:
    said = refusal("google-bert/bert-base-uncased")
    assert "embedded model" in said
    assert "folder" in said


def test_a_folder_that_is_no_model(tmp_path: Path) -> None:
    assert "no config.json" in refusal(tmp_path)


def test_a_file_that_is_no_gguf(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("hello")
    assert "not a GGUF file" in refusal(tmp_path / "notes.txt")
    (tmp_path / "bad.gguf").write_bytes(b"not a gguf")
    assert "does not begin like a GGUF" in refusal(tmp_path / "bad.gguf")
    (tmp_path / "cut.gguf").write_bytes(b"GGUF\x03\x00\x00\x00")
    assert "could not be loaded" in refusal(tmp_path / "cut.gguf")


@pytest.mark.parametrize("text", ["{", "[]", "{}", '{"model_type": 3}', "\udcff"])
def test_a_broken_config(folder: Path, text: str) -> None:
    (folder / "config.json").write_bytes(text.encode("utf-8", "surrogatepass"))
    assert "config.json" in refusal(folder)


def test_an_unknown_architecture(folder: Path) -> None:
    edit_config(folder, model_type="made_up")
    assert "made_up" in refusal(folder)


def test_a_half_downloaded_file(folder: Path) -> None:
    file = folder / "model.safetensors"
    file.write_bytes(file.read_bytes()[:10_000_000])
    assert "not a whole safetensors file" in refusal(folder)
    file.write_bytes(b"")
    assert "not a whole safetensors file" in refusal(folder)
    file.write_text("version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n")
    assert "Git LFS pointer" in refusal(folder)
    file.unlink()
    assert "holds no weights" in refusal(folder)


def test_a_missing_part_of_several(folder: Path) -> None:
    weights = load_file(folder / "model.safetensors")
    names = sorted(weights)
    save_file({name: weights[name] for name in names[::2]}, folder / "model-00001-of-00002.safetensors")
    index = {"weight_map": {n: f"model-0000{1 + k % 2}-of-00002.safetensors" for k, n in enumerate(names)}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    (folder / "model.safetensors").unlink()
    assert "lacks 1 of 2 weight files" in refusal(folder)


def test_missing_weights(folder: Path) -> None:
    weights = load_file(folder / "model.safetensors")
    del weights["bert.encoder.layer.3.attention.self.query.weight"]
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    assert "encoder.layer.3.attention.self.query.weight" in refusal(folder)


@pytest.mark.parametrize(
    "changes",
    [{"num_attention_heads": 7}, {"num_attention_heads": 0}, {"num_attention_heads": -12}, {"num_hidden_layers": 14},
     {"hidden_size": 768}, {"num_attention_heads": "twelve"}, {"vocab_size": 100}],
    ids=str,
)  # fmt: skip
def test_a_config_that_lies(folder: Path, changes: dict[str, Any]) -> None:
    edit_config(folder, **changes)
    refusal(folder)


def test_a_grouped_query_config_that_lies_about_its_heads(tmp_path: Path) -> None:
    made = make_folder("llama", tmp_path / "llama")
    edit_config(made, num_key_value_heads=4)
    assert "config.json" in refusal(made)


def test_nan_weights_are_named(folder: Path) -> None:
    weights = load_file(folder / "model.safetensors")
    weights["bert.encoder.layer.5.attention.self.value.weight"][3, 3] = float("nan")
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    said = refusal(folder)
    assert "layer 5" in said
    assert "encoder.layer.5.attention.self.value.weight" in said


def test_a_folder_without_a_tokenizer(folder: Path) -> None:
    for file in ("tokenizer.json", "vocab.txt", "tokenizer_config.json"):
        (folder / file).unlink()
    assert "no tokenizer" in refusal(folder)


def test_a_broken_or_foreign_tokenizer(folder: Path, tmp_path: Path) -> None:
    (folder / "tokenizer.json").write_text("{")
    (folder / "vocab.txt").write_text("")
    assert "tokenizer" in refusal(folder)
    other = make_folder("gpt2", tmp_path / "gpt2")
    edit_config(other, vocab_size=40)
    model = transformers.GPT2Model(transformers.AutoConfig.from_pretrained(other))
    model.save_pretrained(other)
    assert "makes ids that its model does not have" in refusal(other)


def test_a_slow_tokenizer_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Slow:
        is_fast = False

    monkeypatch.setattr(transformers.AutoTokenizer, "from_pretrained", lambda *a, **k: Slow())
    assert "not a fast one" in refusal(folder)


def test_remote_code_is_never_run(folder: Path) -> None:
    (folder / "evil.py").write_text("raise SystemExit('remote code ran')")
    auto = {"AutoConfig": "evil.Config", "AutoModel": "evil.Model"}
    edit_config(folder, auto_map=auto)
    assert headscope.load(folder).stack().layers == 12  # a known type: its own code is used
    edit_config(folder, auto_map=auto, model_type="evil")
    refusal(folder)


def test_unknown_device_and_dtype(folder: Path) -> None:
    assert "device" in refusal(folder, device="toaster")
    if not torch.cuda.is_available():
        assert "device" in refusal(folder, device="cuda")
    assert "dtype" in refusal(folder, dtype="int7")


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float64"])
def test_other_precisions_pass_the_self_check_or_are_refused(folder: Path, dtype: str) -> None:
    if dtype == "bfloat16" and not cpu_multiplies_bfloat16():
        assert "this CPU cannot multiply bfloat16" in refusal(folder, dtype=dtype)
        return
    model = headscope.load(folder, dtype=dtype)
    assert str(model.network.dtype) == f"torch.{dtype}"
    assert model.inspect("The cat saw the dog.").outputs.dtype == "float32"


def test_a_failed_self_check_names_the_equality_and_can_be_overruled(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from headscope.tap import places

    monkeypatch.setattr(places, "declared_layers", lambda config, stack: 13)
    said = refusal(folder)
    assert "layers captured = layers declared" in said
    assert "12 of 13" in said
    assert headscope.load(folder, check=False).report.failed


@pytest.mark.parametrize("target", ["weights.bin", "../outside.safetensors", "/etc/passwd", "", "sub/x.safetensors"])
def test_an_index_may_name_only_safetensors_in_the_folder(folder: Path, target: str) -> None:
    index = {"weight_map": {"bert.embeddings.word_embeddings.weight": target}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    torch.save(load_file(folder / "model.safetensors"), folder / "weights.bin")
    shutil.copy(folder / "model.safetensors", folder.parent / "outside.safetensors")
    assert "only safetensors files in the folder itself" in refusal(folder)


@pytest.mark.parametrize("text", ["[" * 100_000, "{}", '{"weight_map": []}', '{"weight_map": {"a": 1}}'])
def test_a_broken_index(folder: Path, text: str) -> None:
    (folder / "model.safetensors.index.json").write_text(text)
    assert "model.safetensors.index.json" in refusal(folder)


def test_strange_files(folder: Path) -> None:
    (folder / "config.json").write_text("[" * 100_000)
    assert "config.json" in refusal(folder)
    (folder / "config.json").unlink()
    (folder / "config.json").mkdir()
    assert "config.json" in refusal(folder)


def test_a_link_that_leads_nowhere(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    (folder / "model.safetensors").symlink_to("gone")
    assert "not a whole safetensors file" in refusal(folder)


@pytest.mark.parametrize("changes", [{"num_hidden_layers": 3000}, {"num_labels": 10**9}, {"n_positions": 10**11}])
def test_absurd_sizes_are_refused_at_once(folder: Path, changes: dict[str, int]) -> None:
    edit_config(folder, **changes)
    assert next(iter(changes)) in refusal(folder)
    edit_config(folder, text_config=changes)
    assert next(iter(changes)) in refusal(folder)


@pytest.mark.parametrize(
    "changes",
    [{"size": "7B"}, {"image_size": [224, 224]}, {"chunk_size_feed_forward": 0}, {"sliding_window_size": None},
     {"n_layer": -1}, {"num_labels": 1000}, {"hidden_dropout_dim": 0.5}, {"rope_theta": 10**9},
     {"model_size": 70_000_000_000}],
    ids=str,
)  # fmt: skip
def test_what_configurations_also_say_is_no_reason_to_refuse(folder: Path, changes: dict[str, Any]) -> None:
    edit_config(folder, **changes)
    assert find(folder).folder == folder


def test_fewer_layers_than_the_weights_have(folder: Path) -> None:
    edit_config(folder, num_hidden_layers=9)
    assert "more layers than its config.json declares" in refusal(folder)


def test_hostile_names_cannot_steer_the_terminal(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    edit_config(folder, model_type="\x1b[31mevil\x07")
    assert main(["check", str(folder)]) == 2
    err = capsys.readouterr().err
    assert "\x1b" not in err
    assert "<U+1B>" in err


# ---------------------------------------------------------------------- pickled weights


class Bomb:
    """Unpickling this writes a file: the proof that code ran."""

    def __init__(self, target: Path) -> None:
        self.target = target

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return (Path.touch, (self.target,))


def pickled(folder: Path) -> Path:
    weights = load_file(folder / "model.safetensors")
    torch.save(weights, folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()
    return folder


def test_pickled_weights_are_refused_with_the_command_that_converts_them(folder: Path, tmp_path: Path) -> None:
    said = refusal(pickled(folder))
    assert f"headscope convert {folder} OUT" in said
    out = headscope.convert(folder, tmp_path / "converted")
    before, after = headscope.load(), headscope.load(out)
    text = "The cat saw the dog. The dog saw the cat."
    assert (before.inspect(text).outputs.values == after.inspect(text).outputs.values).all()


def test_converting_sharded_weights(folder: Path, tmp_path: Path) -> None:
    weights = load_file(folder / "model.safetensors")
    names = sorted(weights)
    files = ["pytorch_model-00001-of-00002.bin", "pytorch_model-00002-of-00002.bin"]
    for k, file in enumerate(files):
        torch.save({name: weights[name] for name in names[k::2]}, folder / file)
    index = {"weight_map": {name: files[k % 2] for k, name in enumerate(names)}}
    (folder / "pytorch_model.bin.index.json").write_text(json.dumps(index))
    (folder / "model.safetensors").unlink()
    out = headscope.convert(folder, tmp_path / "converted")
    assert sorted(load_file(out / "model.safetensors")) == names
    (folder / files[1]).unlink()
    with pytest.raises(HeadscopeError, match=files[1]):
        headscope.convert(folder, tmp_path / "again")


@pytest.mark.parametrize("how", ["plain", "zip", "nested"])
def test_converting_never_runs_what_a_pickle_holds(folder: Path, tmp_path: Path, how: str) -> None:
    proof = tmp_path / "code-ran"
    target = pickled(folder) / "pytorch_model.bin"
    if how == "plain":
        target.write_bytes(pickle.dumps(Bomb(proof)))
    elif how == "zip":
        torch.save({"weight": torch.ones(2), "bomb": Bomb(proof)}, target)
    else:
        torch.save({"state_dict": {"a": Bomb(proof)}}, target, _use_new_zipfile_serialization=False)
    with pytest.raises(HeadscopeError, match="holds more than tensors"):
        headscope.convert(folder, tmp_path / "out")
    assert not proof.exists()
    assert not (tmp_path / "out").exists()


def test_converting_says_what_it_cannot_use(folder: Path, tmp_path: Path) -> None:
    for source, out, match in [
        (tmp_path / "nowhere", tmp_path / "o", "there is no folder"),
        (tmp_path, tmp_path / "o", "no config.json"),
        (folder, tmp_path / "o", "pytorch_model.bin"),
        (folder, folder, "not empty"),
    ]:
        with pytest.raises(HeadscopeError, match=match):
            headscope.convert(source, out)
    strange: list[tuple[Any, str]] = [
        ([1, 2], "not a table of tensors"), ({}, "not a table of tensors"),
        ({"a": torch.eye(2).to_sparse()}, "not a plain tensor"), ({"a": torch.ones(1) * 1j}, "not a plain tensor"),
        ({"a": torch.ones(1, device="meta")}, "not a plain tensor"),
    ]  # fmt: skip
    for held, match in strange:
        torch.save(held, folder / "pytorch_model.bin")
        with pytest.raises(HeadscopeError, match=match):
            headscope.convert(folder, tmp_path / "o")
    (folder / "pytorch_model.bin").write_bytes(b"")
    with pytest.raises(HeadscopeError, match="damaged"):
        headscope.convert(folder, tmp_path / "o")
    torch.save({"a": torch.ones(1).expand(3)}, folder / "pytorch_model.bin")
    with pytest.raises(HeadscopeError, match="cannot be written"):
        headscope.convert(folder, "/dev/null/x")
    (tmp_path / "o.partial").mkdir()
    assert (headscope.convert(folder, tmp_path / "o") / "model.safetensors").exists()
    assert (tmp_path / "o.partial").exists()  # somebody else's
    assert not list(tmp_path.glob(".converting-*"))
