"""The command line as a person meets it: what it prints, what it refuses, how it exits."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import xarray as xr

from folders import make_folder
from headscope.cli import main, show

TEXT = "The cat saw the dog. The dog saw the cat, and the cat ran."


def run(capsys: pytest.CaptureFixture[str], *argv: str) -> tuple[int, str, str]:
    code = main(list(argv))
    out, err = capsys.readouterr()
    return code, out, err


def test_import_and_help_do_not_load_torch() -> None:
    """What keeps them under half a second; a deterministic stand-in for a timing."""
    code = (
        "import sys, headscope, headscope.cli\n"
        "try: headscope.cli.main(['inspect', '--help'])\n"
        "except SystemExit: pass\n"
        "heavy = {'torch', 'transformers', 'numpy', 'pandas', 'xarray', 'matplotlib', 'rich'} & set(sys.modules)\n"
        "sys.exit(f'imported {heavy}' if heavy else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert "--layer" in done.stdout


def test_inspect_prints_a_row_per_layer_and_what_stands_out(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, "inspect", TEXT)
    assert (code, err) == (0, "")
    rows = [line.split() for line in out.splitlines() if line.strip()[:2].strip().isdigit()]
    for width in (12, 11):  # at τ; from the top pairs, by dot and by cosine
        assert [int(row[0]) for row in rows if len(row) == width] == list(range(12))
    assert "similarity by dot: the product of the two outputs" in out
    assert "• " in out
    code, out, err = run(capsys, "inspect", TEXT, "--reading", "centred")
    assert (code, err) == (0, "")
    assert "similarity by centred" in out
    assert "top pairs of each reading" not in out  # there is one


def test_inspect_one_layer_and_one_head(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "inspect", TEXT, "--layer", "3")
    assert code == 0
    assert len([line for line in out.splitlines() if line.split()[:1] and line.split()[0].isdigit()]) >= 12
    code, out, _ = run(capsys, "inspect", TEXT, "--layer", "3", "--head", "4", "--pairs", "3")
    assert code == 0
    assert "strongest of" in out
    assert "layer 3, head 4" in out
    assert ["dot,", "τ", "0.5", "dot,", "top", "cosine,", "top"] in [line.split() for line in out.splitlines()]


def test_json_holds_the_same_numbers_as_the_library(capsys: pytest.CaptureFixture[str], embedded: Any) -> None:
    code, out, _ = run(capsys, "inspect", TEXT, "--json")
    found = json.loads(out)
    assert code == 0
    expected = embedded.inspect(TEXT).summary()
    assert [h["separator_focus_stop"] for h in found["heads"]] == pytest.approx(
        expected.separator_focus_stop.tolist(), rel=1e-6
    )
    assert [h["focal_token"] for h in found["heads"]] == expected.focal_token.tolist()
    assert (found["reading"], list(found["top"]), found["options"]["readings"]) == (
        "dot", ["dot", "cosine"], ["dot", "cosine"])  # fmt: skip
    other = embedded.inspect(TEXT, readings="cosine").summary(top=True)
    assert [h["high_pairs"] for h in found["top"]["cosine"]["heads"]] == other.high_pairs.tolist()
    code, out, _ = run(capsys, "inspect", TEXT, "--json", "--layer", "2", "--head", "1", "--reading", "values")
    values = embedded.inspect(TEXT, readings="values").high_pairs(2, 1)
    assert [pair["similarity"] for pair in json.loads(out)["high_pairs"]] == pytest.approx(values.similarity.tolist())
    code, out, _ = run(capsys, "inspect", TEXT, "--json", "--layer", "2", "--head", "1")
    assert len(json.loads(out)["high_pairs"]) == len(embedded.inspect(TEXT).high_pairs(2, 1))


@pytest.mark.long
def test_text_from_file_and_from_standard_input(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "text.txt"
    file.write_bytes(b"\xef\xbb\xbf" + TEXT.encode())  # a byte order mark is no part of the text
    _, direct, _ = run(capsys, "inspect", TEXT)
    _, from_file, _ = run(capsys, "inspect", "--file", str(file))
    assert from_file == direct
    for argv in (["inspect"], ["inspect", "-"]):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(TEXT.encode())))
        _, piped, _ = run(capsys, *argv)
        assert piped == direct


@pytest.mark.long
def test_save_writes_the_dataset_and_the_figures(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, embedded: Any
) -> None:
    formats = ["--format", "png", "--format", "svg", "--format", "pdf"]
    code, out, _ = run(capsys, "inspect", TEXT, "--layer", "11", "--head", "3", "--save", str(tmp_path), *formats)
    assert code == 0
    names = {
        f"{name}.{kind}" for name in ("grid", "similarity-11-3", "attention-11-3") for kind in ("png", "svg", "pdf")
    }
    assert {file.name for file in tmp_path.iterdir()} == names | {"inspection.nc"}
    assert all(str(tmp_path / name) in out for name in names)
    dataset = xr.open_dataset(tmp_path / "inspection.nc")
    seen = embedded.inspect(TEXT)
    assert (dataset.similarity.values == seen.similarity.values).all()
    assert dataset.token_token.values.tolist() == seen.tokens.token.tolist()
    assert str(dataset.text_0.values) == TEXT
    assert all(v.attrs["description"] for v in dataset.data_vars.values())
    assert dataset.attrs["model"] == "headscope/bert12"
    starts = {"png": b"\x89PNG", "pdf": b"%PDF", "svg": b"<?xml"}
    for name in names:
        assert (tmp_path / name).read_bytes().startswith(starts[name.split(".")[1]])


def test_check_prints_the_whole_table(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "check")
    assert code == 0
    assert out.count("holds") == 11


@pytest.mark.long
def test_a_file_is_not_taken_for_a_text(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "essay"
    file.write_text(TEXT)
    for command in ("inspect", "view"):
        code, _, err = run(capsys, command, str(file))
        assert code == 2
        assert f"is a file. To fix it: read the text in it with --file {file}" in err
    assert run(capsys, "inspect", "A text. " * 100)[0] == 0  # too long for a name


@pytest.mark.parametrize(
    ("program", "said"),
    [
        ("/somewhere/headscope/__main__.py", "python -m headscope"),
        ("/no such place/bin/headscope-of-nowhere", "'/no such place/bin/headscope-of-nowhere'"),
        (f"/anywhere/{Path(sys.executable).name}", Path(sys.executable).name),
    ],
)
def test_a_line_to_type_is_one_that_can_be_typed(monkeypatch: pytest.MonkeyPatch, program: str, said: str) -> None:
    monkeypatch.setattr(sys, "argv", [program])
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent))
    assert show.called() == said


def test_demo_explains_and_says_where_the_figures_are(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    code, out, _ = run(capsys, "demo", "--out", str(tmp_path / "demo"))
    assert code == 0
    for file in (tmp_path / "demo").iterdir():
        assert file.name in out.replace("\n", "")
    assert len(list((tmp_path / "demo").iterdir())) == 4


BAD = {
    "empty": (["inspect", ""], "the text is empty"),
    "white space": (["inspect", " \n\t "], "nothing but white space"),
    "control characters": (["inspect", "a\x1b[31mb"], "control character U+001B"),
    "nul": (["inspect", "a\x00b"], "control character U+0000"),
    "half a character": (["inspect", "a\udcffb"], "half a character, U+DCFF"),
    "missing file": (["inspect", "--file", "/no/such/file"], "there is no file"),
    "folder as file": (["inspect", "--file", "/"], "is a folder"),
    "two texts": (["inspect", "x", "--file", "y"], "two texts"),
    "no such model": (["inspect", "x", "--model", "./nowhere"], "there is no file or folder"),
    "hub": (["inspect", "x", "--model", "some/model"], "could not be fetched"),
    "head without layer": (["inspect", "x", "--head", "1"], "--head needs --layer"),
    "no such layer": (["inspect", "x y", "--layer", "12"], "no layer 12"),
    "no such head": (["inspect", "x y", "--layer", "1", "--head", "12"], "no head 12"),
    "tau": (["inspect", "x y", "--tau", "0.33"], "τ = 0.33"),
    "tau nan": (["inspect", "x y", "--tau", "nan"], "τ = nan"),
    "tau inf": (["inspect", "x y", "--tau", "inf"], "τ = inf"),
    "home of nobody": (["inspect", "x", "--model", "~nobody-at-all/m"], "neither a path nor a hub id"),
    "endless name": (["inspect", "x", "--model", "m" * 300], "neither a path nor a hub id"),
    "device without backend": (["inspect", "x y", "--device", "privateuseone"], "the device"),
    "save under an endless name": (["inspect", "x y", "--save", "m" * 300], "cannot be written"),
    "convert an endless name": (["convert", "m" * 300, "/tmp/never"], "cannot be used"),
    "save nowhere": (["inspect", "x y", "--save", ""], "names no folder"),
    "tau zero": (["inspect", "x y", "--tau", "0"], "τ = 0"),
    "theta": (["inspect", "x y", "--theta", "1.5"], "θ = 1.5"),
    "window": (["inspect", "x y", "--window", "129"], "too long"),
    "tiny window": (["inspect", "x y", "--window", "2"], "no room"),
    "start": (["inspect", "x y", "--start", "99"], "cannot start"),
    "start of a pair": (["inspect", "x y", "--pair", "z", "--start", "1"], "not of a pair"),
    "empty pair": (["inspect", "x y", "--pair", ""], "the text is empty"),
    "stack": (["inspect", "x y", "--stack", "cross"], "no stack 'cross'"),
    "device": (["inspect", "x y", "--device", "toaster"], "the device 'toaster'"),
    "dtype": (["inspect", "x y", "--dtype", "int3"], "no dtype"),
    "save over a file": (["inspect", "x y", "--save", "/dev/null/x"], "cannot be written"),
    "language": (["inspect", "x y", "--language", "german"], "not a language code"),
    "pairs": (["inspect", "x y", "--pairs", "-3"], "--pairs -3"),
    "format without save": (["inspect", "x y", "--format", "svg"], "--format applies to saved figures only"),
    "save onto a file": (["inspect", "x y", "--save", "/dev/null"], "is a file"),
    "convert": (["convert", "/no/such", "/tmp/never"], "there is no folder"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_gives_one_clear_message_and_exit_code_two(capsys: pytest.CaptureFixture[str], name: str) -> None:
    argv, expected = BAD[name]
    code, _, err = run(capsys, *argv)
    assert code == 2
    assert expected in err
    assert err.count("\n") == 1
    assert "Traceback" not in err
    assert "To fix it:" in err


def test_invalid_utf8_says_where(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "latin1.txt"
    file.write_bytes("un café noir".encode("latin-1"))
    code, _, err = run(capsys, "inspect", "--file", str(file))
    assert code == 2
    assert "byte 0xe9 at position 6" in err


def test_a_fifty_megabyte_file_is_refused_without_being_read(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "big.txt"
    with file.open("wb") as opened:
        opened.truncate(50_000_000)
    code, _, err = run(capsys, "inspect", "--file", str(file))
    assert code == 2
    assert "larger than 16 MB" in err


@pytest.mark.long
def test_a_long_text_below_the_limit_is_shown_through_its_window(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "long.txt"
    file.write_text(TEXT * 1500)
    code, out, _ = run(capsys, "inspect", "--file", str(file), "--start", "1000")
    assert code == 0
    assert "tokens 1001 to 1126 of" in out


def test_a_file_that_cannot_be_read(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = run(capsys, "inspect", "--file", "/proc/self/mem")  # there, but not to be read from its start
    assert code == 2
    assert "cannot be read" in err


def test_debug_shows_the_traceback() -> None:
    command = [sys.executable, "-m", "headscope", "inspect", "", "--debug"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode != 0
    assert "Traceback" in done.stderr


def test_hostile_tokens_cannot_steer_the_terminal(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """With a tokenizer that keeps every byte: BERT's throws most of these away by itself."""
    model = make_folder("gpt2", tmp_path / "gpt2")
    text = "[bold]x[/bold] \u202eevil\u202c [red]y. \u200bhidden <script>."
    options = ["--model", str(model), "--layer", "0", "--head", "0", "--theta", "0.01", "--pairs", "500"]
    code, out, _ = run(capsys, "inspect", text, *options)
    assert code == 0
    assert "<U+202E>" in out
    assert "\u202e" not in out
    assert "\u200b" not in out
    assert "\x1b" not in out


@pytest.mark.long
def test_a_reader_that_stops_early_is_no_error() -> None:
    command = f"{sys.executable} -m headscope inspect '{TEXT}' | head -n 1"
    done = subprocess.run(["bash", "-o", "pipefail", "-c", command], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout.startswith("headscope/bert12")
