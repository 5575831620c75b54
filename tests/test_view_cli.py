"""headscope view as a user types it: what is shown, what is written, what is refused and how."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import headscope
from browser import chromium
from headscope.cli import main
from headscope.errors import HeadscopeError
from viewing import Tab, highs

TEXT = "The ferryman knew the river. The river knew the ferryman."


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, embedded: headscope.Model) -> Path:
    out = tmp_path_factory.mktemp("cli") / "run"
    texts = [p["text"] for p in headscope.passages()[:16]]
    headscope.analyze(embedded, texts, out=out, per_text=True, shard_size=2, layers=[0, 5, 11], progress=False)
    return out


def test_a_text_as_one_file(tmp_path: Path, capsys: Any, embedded: headscope.Model) -> None:
    out = tmp_path / "deep" / "view.html"
    assert (
        main(["view", TEXT, "--html", str(out), "--layers", "7-8", "--layer", "8", "--head", "0", "--tau", "0.4"]) == 0
    )
    assert re.search(r"The view is .*view\.html \(\d+\.\d MB\)", capsys.readouterr().out.replace("\n", ""))
    seen = embedded.inspect(TEXT)
    with chromium() as browser:
        tab = Tab(browser, offline=True)
        page = tab.open(out.as_uri())
        assert page.get_attribute(".panel", "data-head") == "8.0"
        assert int(page.get_attribute(".high-count", "data-high")) == len(highs(seen, 8, 0, 0.4))
        assert page.locator(".atlas .tile").count() == 24
        assert TEXT[:40] in page.title()
        tab.close()


def test_a_saved_inspection_is_shown_without_a_model(tmp_path: Path, embedded: headscope.Model) -> None:
    seen = embedded.inspect(TEXT)
    file, out = seen.save(tmp_path / "a.nc"), tmp_path / "view.html"
    assert main(["view", str(file), "--html", str(out), "--layer", "8", "--head", "0", "--tau", "0.4"]) == 0
    arrays = {"outputs": seen.captured.outputs, "tokens": list(seen.window.tokens)}
    bare = headscope.Inspection.from_arrays(**arrays).view_html(tmp_path / "bare.html", 8, 0)
    with chromium() as browser:
        tab = Tab(browser, offline=True)
        page = tab.open(out.as_uri())
        assert page.get_attribute(".panel", "data-head") == "8.0"
        assert int(page.get_attribute(".high-count", "data-high")) == len(highs(seen, 8, 0, 0.4))
        assert page.locator(".atlas .tile").count() == 144
        page = tab.open(bare.as_uri())  # neither words nor attention: what there is is shown
        assert page.locator(".atlas .tile").count() == 144
        tab.close()


def test_a_folder_of_a_saved_inspection_is_opened(tmp_path: Path, embedded: headscope.Model) -> None:
    embedded.inspect(TEXT).save(tmp_path / "inspection.nc")
    out = tmp_path / "view.html"
    assert main(["view", str(tmp_path), "--html", str(out)]) == 0
    assert out.stat().st_size > 100_000


@pytest.mark.long
def test_a_run_as_one_file(run: Path, tmp_path: Path) -> None:
    out = tmp_path / "run.html"
    assert main(["view", str(run), "--html", str(out), "--layer", "11", "--head", "3"]) == 0
    result = headscope.Result.open(run)
    with chromium() as browser:
        tab = Tab(browser, offline=True)
        page = tab.open(out.as_uri(), ".run-page[data-findings]")
        told = dict(page.eval_on_selector_all(
            ".findings tr[data-claim]", "all => all.map(e => [e.dataset.claim, e.dataset.verdict])"))  # fmt: skip
        assert told == {finding.key: finding.verdict for finding in result.findings()}
        page.wait_for_selector(".head-detail h2:has-text('Layer 11, head 3')")
        page.wait_for_selector(".example")
        assert page.locator(".example button").count() == 0  # there is no model in the file
        tab.set_slider(0, 14)
        page.wait_for_selector(".run-page[data-ready$='/14'][data-swept]")
        tab.set_slider(0, 10)
        for name in page.eval_on_selector_all("input[type=radio]", "all => all.map(e => e.value)"):
            if page.locator(f"label:has(input[value={name}])").is_visible():
                page.click(f"label:has(input[value={name}])")
        page.wait_for_selector(".layers[data-ready='cosine/10/pooled']")
        page.click(".tile[data-layer='5'][data-head='2']")
        page.wait_for_selector(".head-detail h2:has-text('Layer 5, head 2')")
        assert tab.requests == [out.as_uri()]
        tab.close()


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["   "], "white space"),
        (["a", "--file", "b.txt"], "two texts"),
        (["--file", "none.txt"], "no file"),
        (["missing.nc"], "no run or file"),
        (["mistyped/run"], "no run or file"),
        ([""], "the text is empty"),
        (["nosuchrun"], "'nosuchrun' is no run: there is no folder or file of that name"),
        (["nosuchrun"], "headscope view nosuchrun."),
        (["a cat", "--host", "my-laptop"], "not an IPv4 address"),
        (["a cat", "--host", "192.0.2.77"], "not an address of this machine"),
        (["a cat", "--html", "v.html", "--host", "0.0.0.0"], "--host is for the server"),
        (["a cat", "--window", "100000"], "too long"),
        (["a cat", "--html", "view.txt"], "web page"),
        (["a cat", "--html", "v.html", "--port", "80"], "--port"),
        (["a cat", "--port", "70000"], "65535"),
        (["a cat", "--tau", "0.33"], "multiple of 0.05"),
        (["a cat", "--theta", "2"], "θ = 2"),
        (["a cat", "--layer", "40", "--html", "v.html"], "no layer 40"),
        (["a cat", "--layers", "x", "--html", "v.html"], "--layers"),
        (["a cat", "--control", "run"], "--control"),
        (["a cat", "--model", "no/such/folder"], "no/such/folder"),
    ],
    ids=lambda each: " ".join(each) if isinstance(each, list) else "",
)
def test_what_is_wrong_is_said(arguments: list[str], told: str, capsys: Any, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["view", *arguments]) == 2
    error = capsys.readouterr().err
    assert told in error
    assert "To fix it" in error
    assert not list(tmp_path.iterdir())


def test_a_mistyped_run_is_told_which_runs_there_are(tmp_path: Path, capsys: Any, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("first-run", "results/second run"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "result.nc").write_bytes(b"")
    assert main(["view", "frst-run"]) == 2
    assert "name a run's folder, here first-run or 'results/second run'" in capsys.readouterr().err.replace("\n", " ")


def test_a_file_that_is_no_run_is_not_taken_for_a_text(tmp_path: Path, capsys: Any) -> None:
    file = tmp_path / "text.txt"
    file.write_text("A cat.")
    assert main(["view", str(file)]) == 2
    assert "--file" in capsys.readouterr().err
    assert main(["view", str(tmp_path)]) == 2
    assert "holds no result" in capsys.readouterr().err


@pytest.mark.long
def test_too_much_for_one_file_is_refused(tiny: Any, tmp_path: Path) -> None:
    seen = tiny("long").inspect(" ".join(p["text"] for p in headscope.passages()), window=2048, maps=False)
    with pytest.raises(HeadscopeError, match=r"too much for one file.*--layers"):
        seen.view_html(tmp_path / "view.html")
    assert not list(tmp_path.iterdir())


def test_only_the_model_that_was_analysed_shows_a_run(run: Path, tiny: Any, folder: Path) -> None:
    from argparse import Namespace

    from headscope.cli.view_texts import _desk_of_run

    asked: dict[str, Any] = dict.fromkeys(["stack", "revision", "layer", "head", "layers", "window"])
    asked |= {"control": [], "device": "cpu", "dtype": "auto", "start": 0}
    desk = _desk_of_run(Namespace(model=str(folder), **asked), run)
    with pytest.raises(HeadscopeError, match="not the model that was analysed"):
        desk.inspect("A cat.")
    assert _desk_of_run(Namespace(model=None, **asked), run).inspect("A cat.")["layers"] == list(range(12))
