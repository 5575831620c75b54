"""The training recipe, from invented articles to an exported model: small, on a CPU, without a network."""

import csv
import importlib
import json
import lzma
import math
import pickle
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

TRAINING = Path(__file__).resolve().parents[1] / "training"
SCRIPTS = "conventions encode model prepare_text run_folder schedule train train_tokenizer trainer windows"
WORDS = "the of in and to was on by old river bridge north town winter house market built found grew kept"
ARTICLES, HELD_OUT = 48, 6
VOCABULARY, HIDDEN = 80, 24
STEPS, FIRST_CALL = 12, 5


def load_scripts() -> SimpleNamespace:
    """The scripts as modules. They are siblings, not a package: their folder joins the path meanwhile."""
    sys.path.insert(0, str(TRAINING))
    before = {name: sys.modules.pop(name) for name in SCRIPTS.split() if name in sys.modules}
    scripts = {name: importlib.import_module(name) for name in SCRIPTS.split()}
    sys.path.remove(str(TRAINING))
    for name in scripts:
        del sys.modules[name]
    sys.modules.update(before)
    return SimpleNamespace(**scripts)


scripts = load_scripts()


@pytest.fixture(autouse=True, scope="module")
def _one_thread() -> Iterator[None]:
    """Matrices this small gain nothing from more, and lose much where the cores are busy."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(autouse=True)
def _offline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")


def run(script: ModuleType, *argv: object) -> int:
    """The exit code of a script called with these arguments."""
    return int(scripts.conventions.run_script(script.main, [str(argument) for argument in argv]))


def read_lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines()


def write_records(path: Path, records: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    return path


def read_log(run_folder: Path) -> list[dict[str, str]]:
    with (run_folder / "log.csv").open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def invent_article(number: int, generator: random.Random) -> dict[str, Any]:
    """A heading and thirty sentences; common words are common, so that there is something to learn."""
    words = WORDS.split()
    weights = [1 / (rank + 1) for rank in range(len(words))]
    drawn = [generator.choices(words, weights, k=generator.randint(4, 11)) for _ in range(30)]
    sentences = [" ".join(sentence).capitalize() + "." for sentence in drawn]
    paragraphs = [" ".join(sentences[begin : begin + 10]) for begin in (0, 10, 20)]
    return {"id": f"article-{number}", "title": f"Title {number}", "paras": ["Early life.", *paragraphs]}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Text, tokenizer and streams, made from invented articles by the three scripts."""
    folder = tmp_path_factory.mktemp("training")
    generator = random.Random(0)
    articles = [invent_article(number, generator) for number in range(ARTICLES)]
    named = [{"article_id": article["id"], "title": article["title"]} for article in articles[:10]]
    source = write_records(folder / "articles.jsonl", [*articles, {**articles[-1], "id": "again"}])
    holdout = write_records(folder / "holdout.jsonl", named)
    drop = write_records(folder / "drop.jsonl", [{"id": "article-20"}])
    options = ("--holdout-lines", HELD_OUT, "--drop", drop, "--out", folder / "text")
    assert run(scripts.prepare_text, source, "--holdout", holdout, *options) == 0
    texts = (folder / "text" / "train.txt", folder / "text" / "valid.txt")
    assert run(scripts.train_tokenizer, texts[0], folder / "tokenizer", "--size", VOCABULARY) == 0
    assert run(scripts.encode, folder / "tokenizer", *texts, folder / "data", "--chunks", 2) == 0
    return folder


def train_arguments(folder: Path, run_folder: Path) -> list[object]:
    """A tiny model for a dozen steps. Progress is counted in steps: the machine's speed does not matter."""
    paths = ("--data", folder / "data", "--tokenizer", folder / "tokenizer", "--run", run_folder)
    size = ("--hidden", HIDDEN, "--tokens-per-step", 1024, "--total-steps", STEPS)
    return [*paths, *size, "--lr", 0.02, "--warmup", 0.3, "--keep", 50, "--eager"]


@pytest.fixture(scope="module")
def trained(folder: Path) -> SimpleNamespace:
    """A run trained in two calls: its folder, and its state and log after each."""
    path = folder / "run"
    result = SimpleNamespace(path=path)
    assert run(scripts.train, *train_arguments(folder, path), "--run-steps", FIRST_CALL) == 0
    result.first_state, result.first_log = torch.load(path / "state.pt", weights_only=True), read_log(path)
    assert run(scripts.train, *train_arguments(folder, path)) == 0
    result.state, result.log = torch.load(path / "state.pt", weights_only=True), read_log(path)
    return result


def test_held_out_dropped_and_repeated_articles_stay_out_of_the_training_text(folder: Path) -> None:
    train, valid = read_lines(folder / "text" / "train.txt"), read_lines(folder / "text" / "valid.txt")
    held_out = [f"article-{number}" for number in range(HELD_OUT)]
    assert read_lines(folder / "text" / "valid_ids.txt") == held_out
    assert (train.count(""), valid.count("")) == (ARTICLES - HELD_OUT - 1, HELD_OUT)
    for number in (0, 20):
        paragraph = json.loads(read_lines(folder / "articles.jsonl")[number])["paras"][1]
        assert paragraph not in " ".join(train)


def test_only_prose_is_kept_and_it_is_cut_into_sentences(folder: Path) -> None:
    train = read_lines(folder / "text" / "train.txt")
    assert len(train) == 31 * train.count("")
    sentences = ["Dr. Smith met J. Doe at St. Paul.", "They spoke.", '"It is late!"', "3 left, e.g. Mr. Low."]
    assert scripts.prepare_text.split_sentences(" ".join(sentences)) == sentences


def test_the_streams_hold_every_sentence_in_its_order(folder: Path) -> None:
    pieces = read_lines(folder / "tokenizer" / "vocab.txt")
    articles = "\n".join(read_lines(folder / "text" / "train.txt")).strip().split("\n\n")
    for number in range(2):
        packed = (folder / "data" / f"train-{number}.xz").read_bytes()
        decoded = ""
        for token in np.frombuffer(lzma.decompress(packed), dtype=np.uint16).tolist():
            piece = pieces[token & 0x1FFF]
            decoded += "\n" if piece == "[SEP]" else ("\n" if token & 0x2000 else " ") + piece
        expected = "\n\n".join(articles[number::2]).lower().replace(".", " .")
        assert decoded.replace(" ##", "").strip() == expected


def test_windows_start_at_a_sentence_and_short_ones_end_with_one(folder: Path) -> None:
    stream = scripts.windows.read_stream(folder / "data", VOCABULARY)
    is_first, is_end = stream & 0x2000 > 0, stream == 3
    starts = scripts.windows.find_starts(torch.from_numpy(stream))
    assert set(starts) == {16, 32, 64, 128}
    for length, found in starts.items():
        for start in found.tolist():
            stop = start + length - 2
            assert not is_end[start:stop].any(), "a window goes beyond its article"
            assert is_first[start] or (length == 128 and is_end[stop])
            assert length == 128 or is_first[stop] or is_end[stop]


def test_masking_hides_a_fixed_number_of_inner_tokens_and_nothing_else() -> None:
    generator = torch.Generator().manual_seed(0)
    ids = torch.randint(5, VOCABULARY, (64, 128), generator=generator)
    corrupted, places, labels = scripts.windows.mask(ids, VOCABULARY, generator)
    assert torch.equal(ids.flatten()[places], labels)
    assert torch.equal(corrupted.flatten().index_put((places,), labels).view_as(ids), ids)
    assert (places.unique() // 128).bincount().tolist() == [20] * 64
    assert not set((places % 128).tolist()) & {0, 127}
    assert (corrupted.flatten()[places] == 4).float().mean().item() == pytest.approx(0.8, abs=0.04)


@pytest.mark.long
def test_training_lowers_the_held_out_loss(trained: SimpleNamespace) -> None:
    losses = [float(row["valid_loss"]) for row in trained.log]
    assert all(math.isfinite(loss) for loss in losses)
    assert losses[0] == pytest.approx(math.log(VOCABULARY), abs=0.3)
    assert losses[-1] < losses[0] - 0.5


@pytest.mark.long
def test_the_learning_rate_rises_to_its_peak_and_ends_at_zero(trained: SimpleNamespace) -> None:
    rates = [float(row["lr"]) for row in trained.log[1:]]
    peak = rates.index(max(rates))
    assert rates[0] == rates[-1] == 0
    assert 0.015 < rates[peak] <= 0.02
    assert rates == sorted(rates[:peak]) + sorted(rates[peak:], reverse=True)


@pytest.mark.long
def test_resuming_goes_on_from_the_saved_step(trained: SimpleNamespace) -> None:
    assert (trained.first_state["step"], trained.state["step"]) == (FIRST_CALL, STEPS)
    assert trained.log[: len(trained.first_log)] == trained.first_log
    assert [int(row["step"]) for row in trained.log] == list(range(STEPS + 1))
    assert trained.state["optimizer"]["state"][0]["step"].item() == STEPS
    assert trained.state["spent"] > trained.first_state["spent"]
    names = sorted(path.name for path in trained.path.glob("checkpoint-*"))
    assert names == ["checkpoint-000", "checkpoint-050", "checkpoint-100"]


@pytest.mark.long
def test_a_finished_run_is_left_as_it_is(folder: Path, trained: SimpleNamespace) -> None:
    before = (trained.path / "state.pt").read_bytes()
    assert run(scripts.train, *train_arguments(folder, trained.path)) == 0
    assert (trained.path / "state.pt").read_bytes() == before
    assert read_log(trained.path) == trained.log


def test_rows_of_a_killed_call_are_dropped_from_the_log(tmp_path: Path) -> None:
    log = scripts.run_folder.Log(tmp_path / "log.csv", step=0)
    for step in (0, 4, 8):
        log.write(**dict.fromkeys(scripts.run_folder.COLUMNS, step))
    scripts.run_folder.Log(tmp_path / "log.csv", step=4)
    assert [row["step"] for row in read_log(tmp_path)] == ["0", "4"]


def test_a_failed_save_leaves_the_last_state_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = scripts.model.Bert(VOCABULARY, HIDDEN)
    optimizer = scripts.trainer.make_optimizer(model, 0.01)
    path = tmp_path / "state.pt"
    scripts.run_folder.save_state(path, model, optimizer, scripts.run_folder.Progress(step=7))

    def fail(state: object, target: Path) -> None:
        target.write_bytes(b"half a file")
        raise OSError("disk full")

    monkeypatch.setattr(torch, "save", fail)
    with pytest.raises(OSError, match="disk full"):
        scripts.run_folder.save_state(path, model, optimizer, scripts.run_folder.Progress(step=8))
    assert scripts.run_folder.load_state(path, model, optimizer, "cpu").step == 7


def check_export(checkpoint: Path, model: Any, folder: Path) -> None:
    """transformers loads every weight and gives the model's own logits at the masked places, in float32."""
    from transformers import BertForMaskedLM

    options = {"local_files_only": True, "output_loading_info": True}
    loaded, info = BertForMaskedLM.from_pretrained(checkpoint, **options)
    assert set(info["missing_keys"]) <= {"cls.predictions.decoder.weight", "cls.predictions.decoder.bias"}
    assert not info["unexpected_keys"]
    for weight in model.parameters():
        weight.data = weight.data.half().float()  # as in the file
    valid = torch.from_numpy(scripts.windows.read_validation(folder / "data", VOCABULARY)).long()
    for length in (128, 16):
        ids, places, _ = scripts.windows.mask(valid[:, :length], VOCABULARY)
        with torch.no_grad():
            expected = loaded.eval()(input_ids=ids).logits.flatten(0, 1)[places]
            found = model.logits(ids, places)
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.long
def test_the_exported_model_predicts_as_the_trained_one_does(folder: Path, trained: SimpleNamespace) -> None:
    model = scripts.model.Bert(VOCABULARY, HIDDEN, compute_dtype=torch.float32)
    model.load_state_dict(trained.state["model"])
    check_export(trained.path / "checkpoint-100", model, folder)


def test_every_weight_is_exported_to_its_own_place(folder: Path, tmp_path: Path) -> None:
    """A dozen steps leave biases near 0 and attention near even: only with noise do swapped weights show."""
    model = scripts.model.Bert(VOCABULARY, HIDDEN, compute_dtype=torch.float32)
    generator = torch.Generator().manual_seed(0)
    for weight in model.parameters():
        weight.data += 0.3 * torch.randn(weight.shape, generator=generator)
    scripts.model.export(model, tmp_path, folder / "tokenizer")
    check_export(tmp_path, model, folder)


@pytest.mark.long
def test_the_exported_tokenizer_encodes_as_in_training(folder: Path, trained: SimpleNamespace) -> None:
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(trained.path / "checkpoint-100", local_files_only=True)
    article = " ".join(read_lines(folder / "text" / "train.txt")[:30])
    stream = scripts.windows.read_stream(folder / "data", VOCABULARY) & 0x1FFF
    assert tokenizer(article, truncation=True)["input_ids"] == [2, *stream[:126].tolist(), 3]


@pytest.mark.parametrize(
    ("script", "arguments", "expected"),
    [
        ("prepare_text", "none.jsonl --holdout holdout.jsonl --out new", "none.jsonl: no such file"),
        ("prepare_text", "drop.jsonl --holdout text/valid.txt --out new", "text/valid.txt, line 1: not JSON"),
        ("train_tokenizer", "none.txt new", "none.txt: no such file"),
        ("train_tokenizer", "text/valid_ids.txt new --size 500", "text/valid_ids.txt: yields"),
        ("encode", "none text/train.txt text/valid.txt new", "none: no such folder"),
        ("train", "--data none --tokenizer tokenizer", "none: no such folder"),
        ("train", "--data text --tokenizer tokenizer", "text: no train-*.xz"),
        ("train", "--data data --tokenizer text", "text/vocab.txt: no such file"),
        ("train", "--data data --tokenizer tokenizer --hidden 25", "--hidden 25: must be a multiple of 12"),
    ],
)
def test_bad_input_gives_one_message_and_exit_code_2(
    script: str,
    arguments: str,
    expected: str,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(folder)
    further = ["--run", "new", "--total-steps", "2"] if script == "train" else []
    assert run(getattr(scripts, script), *arguments.split(), *further) == 2
    message = capsys.readouterr().err
    assert message.startswith(f"{script}.py: {expected}")
    assert message.count("\n") == 1
    assert not Path("new").exists()


def test_the_script_itself_exits_with_code_2_and_no_traceback(tmp_path: Path) -> None:
    options = ["--data", "none", "--tokenizer", "none", "--run", "run", "--total-steps", "2"]
    command = [sys.executable, str(TRAINING / "train.py"), *options]
    result = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert result.returncode == 2
    assert result.stderr.startswith("train.py: none: no such folder")
    assert "Traceback" not in result.stderr


def test_data_of_another_tokenizer_are_refused(folder: Path) -> None:
    with pytest.raises(scripts.conventions.InputError, match="the tokenizer has 6"):
        scripts.windows.read_stream(folder / "data", 6)


class Intruder:
    """A pickled object that would leave a file behind if it were ever loaded."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        return Path.touch, (self.path,)


def test_a_state_file_cannot_run_code(folder: Path, tmp_path: Path) -> None:
    intruder = Intruder(tmp_path / "touched")
    torch.save({"model": intruder}, tmp_path / "state.pt")
    assert run(scripts.train, *train_arguments(folder, tmp_path)) == 2
    assert not intruder.path.exists()
    pickle.loads(pickle.dumps(intruder))
    assert intruder.path.exists(), "the intruder does no harm, so the test proves nothing"
