"""Findings, figures and report as a user types them; the report in a real browser."""

from __future__ import annotations

import io
import json
import re
import shutil
from html import escape as escaped
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

import headscope
from browser import chromium
from headscope.cli import main
from headscope.errors import HeadscopeError
from headscope.figures.catalog import FIGURES
from headscope.figures.colours import VERDICT_INKS
from headscope.figures.style import Picture
from headscope.findings.claims import CLAIMS
from headscope.findings.sentences import with_rotated_too
from headscope.findings.showing import KINDS, mark_of, shown
from headscope.report import examples, write_report, writing
from headscope.windows.excerpts import excerpt
from long import first_of

LIMIT = 8_000_000  # bytes
SMALL: dict[str, Any] = {"window": 64, "layers": [0, 4, 8, 11], "progress": False}  # a page is drawn in seconds
HOSTILE = '<script>document.title = "taken"</script>'
NAMES = ['"><img src=x onerror=alert(1)>', "\u202e\x01evil", "a" * 300, "</title><script>alert(2)</script>"]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, embedded: headscope.Model) -> Path:
    """A run whose texts, ids, groups and bad records try to break out."""
    out = tmp_path_factory.mktemp("report")
    headscope.analyze(embedded, hostile(16), out=out / "run", group_field="group", per_text=True, batch_size=8, **SMALL)
    return out / "run"


def escape(text: str) -> str:
    """As jinja writes it."""
    return escaped(text).replace("&quot;", "&#34;").replace("&#x27;", "&#39;")


def hostile(number: int) -> list[Any]:
    rows: list[Any] = []
    for k, p in enumerate(headscope.passages()[:number]):
        text = f"{HOSTILE} {p['text']} {HOSTILE}" if k % 4 == 0 else p["text"]
        rows.append({"id": NAMES[k % len(NAMES)] + str(k), "text": text, "group": NAMES[k % 2]})
    return [*rows, {"id": HOSTILE, "text": 3, "group": "x"}]


@pytest.fixture(scope="module")
def controls(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    out = tmp_path_factory.mktemp("controls")
    texts = [p["text"] for p in headscope.passages()[:8]]
    for control in ("untrained:0", "rotated"):
        headscope.analyze(None, texts, control=control, out=out / control[:5], **SMALL)
    return [str(path) for path in sorted(out.iterdir())]


@pytest.fixture(scope="module")
def page_and_figures(
    run: Path, controls: list[str], tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, dict[str, Picture | None]]:
    """The report of a run, and its figures by name."""
    out, figures, draw_all = tmp_path_factory.mktemp("page") / "report.html", {}, writing.draw_all

    def remembered(*args: Any, **options: Any) -> list[writing.Drawn]:
        drawn = draw_all(*args, **options)
        figures.update({each.entry.name: each.picture for each in drawn})
        return drawn

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(writing, "draw_all", remembered)
        assert main(["report", str(run), "--control", *controls, "--out", str(out)]) == 0
    return out, figures


@pytest.fixture(scope="module")
def page(page_and_figures: tuple[Path, dict[str, Picture | None]]) -> Path:
    return page_and_figures[0]


def test_the_report_in_a_browser(page: Path) -> None:
    assert page.stat().st_size < LIMIT
    with chromium() as browser:
        for width, height in ((1280, 900), (390, 844)):
            context = browser.new_context(viewport={"width": width, "height": height})
            tab = context.new_page()
            said: list[str] = []
            asked: list[str] = []
            tab.on("console", lambda message, said=said: said.append(message.text))
            tab.on("pageerror", lambda error, said=said: said.append(str(error)))
            tab.on("request", lambda request, asked=asked: asked.append(request.url))
            tab.goto(page.as_uri())
            assert said == []
            assert [url for url in asked if not url.startswith(("file:", "data:"))] == []
            assert tab.title().startswith("headscope report: headscope/bert12")  # nobody took it
            assert tab.locator("script").count() == 0
            images = tab.locator("figure img")
            assert images.count() == len(FIGURES) + 1
            for k in range(images.count()):
                assert images.nth(k).evaluate("image => image.complete && image.naturalWidth > 300")
                assert len(images.nth(k).get_attribute("alt")) > 40
            # Nothing sticks out at the side; wide tables scroll by themselves.
            assert tab.evaluate("document.documentElement.scrollWidth") <= width
            shown = tab.locator("body").inner_text()
            assert HOSTILE in shown
            assert "<U+202E><U+1>evil" in shown
            assert tab.locator("table.claims tbody tr").count() == 13  # claim 2 has two numbers
            assert tab.locator("table.claims td.mark:not(:empty)").count() > 30
            # The answer stands before the table, and every verdict is in view without scrolling sideways.
            assert tab.locator("#short ul.answer li").count() == 3
            verdicts = tab.locator("table.claims td.verdict:not(:empty)").all()
            assert len(verdicts) == len(CLAIMS)
            for each in [*verdicts, *tab.locator("table.claims td.whole").all()]:
                place = each.bounding_box()
                assert 0 <= place["x"] < place["x"] + place["width"] <= width
            context.close()


@pytest.mark.long
def test_the_report_of_every_layer_is_no_larger(embedded: headscope.Model, tmp_path: Path) -> None:
    options = {"group_field": "group", "per_text": True, "batch_size": 8, "progress": False}
    whole = headscope.analyze(embedded, hostile(32), out=tmp_path / "run", **options)
    assert write_report(whole, tmp_path / "report.html").stat().st_size < LIMIT


@pytest.mark.long
def test_the_report_works_without_javascript_and_prints(page: Path, tmp_path: Path) -> None:
    with chromium() as browser:
        tab = browser.new_context(java_script_enabled=False).new_page()
        tab.goto(page.as_uri())
        assert tab.locator("h1").inner_text() == "Does the paper hold for headscope/bert12?"
        assert tab.locator("section").count() >= 6
        tab.pdf(path=tmp_path / "report.pdf", format="A4")
        paper = browser.new_context(viewport={"width": 718, "height": 1000}).new_page()  # A4 less its margins
        paper.emulate_media(media="print")
        paper.goto(page.as_uri())
        assert paper.evaluate("document.documentElement.scrollWidth") <= 718
        heights = paper.evaluate("[...document.querySelectorAll('.plate')].map(e => e.getBoundingClientRect().height)")
        assert len(heights) == len(FIGURES) + 1
        assert max(heights) < 990  # with its heading and explanation it fits onto a page of A4, and is not cut
    assert (tmp_path / "report.pdf").stat().st_size > 100_000


def test_the_report_says_everything(page: Path, result: headscope.Result, controls: list[str]) -> None:
    html = page.read_text(encoding="utf-8")
    opened = [headscope.Result.open(path) for path in controls]
    for finding in result.findings(controls=opened):
        row = html[html.index(f'<th scope="row">{finding.key} ') :].partition("</tr>")[0]
        own = shown(finding.statistics[0], finding.digits)
        value, _, interval = own.number.partition(" ")
        assert f">{value} <small>{interval}</small></td>" in row
        assert f">{own.heads}</td>" in row
        assert f">{own.pooled}</td>" in row
        assert f"{finding.verdict}</td>" in row
        marks = re.findall(r'<td class="mark[^>]*>([^<]*)</td>', row)
        assert marks == [mark_of(finding, kind) for kind in KINDS]
        assert escape(finding.sentence) in html
        assert ("also where sentence boundaries mean nothing" in row) == bool(with_rotated_too(finding))
    paragraphs = re.findall(r"<p[ >].*?</p>", html, re.DOTALL)
    assert not [each for each in paragraphs if re.search(r"[a-z]\.[A-Z]", re.sub(r"<[^>]*>", "", each))]
    assert all(escape(kind.meaning) in html for kind in KINDS)
    for look in VERDICT_INKS.values():  # the same colours as in the figure and on the command line
        assert f"color: {look.ink};" in html
    assert result.model["weights"] in html
    assert "arXiv:2512.21956" in html
    assert "1 left out" in html
    assert "Control runs: headscope/bert12 (untrained, seed 0); headscope/bert12 (rotated sentences)." in html
    assert html.index('id="findings"') < html.index('id="figures"') < html.index('id="examples"')
    assert "<script" not in html
    assert not re.search(r"""(src|href)=["'](?!data:|#)""", html)


def test_examples_mark_what_they_show_and_end_at_a_word(page: Path, result: headscope.Result) -> None:
    html = page.read_text(encoding="utf-8")
    shown = re.findall(r"<blockquote><span dir=\"auto\">(.*?)</span>", html.partition('id="examples"')[2], re.DOTALL)
    assert len(shown) >= 3
    assert all("<mark>" in each for each in shown)
    texts = [escape(" ".join(p["text"].split())) for p in headscope.passages()[:16]]
    for each in (re.sub("</?mark>", "", one).replace(escape(HOSTILE), "").strip() for one in shown):
        words, ellipsis, _ = each.partition(" …")
        words = words.strip()
        whole = next(text for text in texts if words in text)
        assert whole.partition(words)[2][:1] in ("", " ")  # not within a word
        assert bool(ellipsis) == (not whole.endswith(words))


def test_examples_are_of_the_heads_that_the_table_names(result: headscope.Result) -> None:
    table = result.specialists()
    for kind, best in examples.leading_heads(result):
        own = table[(table["score"] == kind.score) & (table["what"] == "specialist") & (table["out_of_model"] > 0)]
        if kind is examples.ROUND_ONE_TOKEN:  # those that find repetitions come last
            repeats = table[(table["score"] == "repetition_preference") & (table["what"] == "specialist")]
            repeats = repeats[(repeats["out"] > 0) & (repeats["out_of_model"] > 0)]
            others = own[~own["layer"].mul(1000).add(own["head"]).isin(repeats["layer"] * 1000 + repeats["head"])]
            own = others if (others["out"] > 0).any() else own
        assert best["out"] == own["out"].max()
    alike = table.assign(permuted=np.inf)  # heads of permuted weights stand out farther than any
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(result), "specialists", lambda *_, **__: alike)
        assert [each.learned for each in examples.roles(result)] == [False] * len(examples.roles(result))


def test_a_head_that_finds_repetitions_is_no_first_example_of_one_that_gathers_round_a_token(
    result: headscope.Result, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = result.specialists()
    focal, repeating = (table[table["score"] == name].index for name in ("focal_share", "repetition_preference"))
    first, second = focal[:2]
    table.loc[[*focal, *repeating], ["what", "out", "out_of_model"]] = "specialist", -1.0, -1.0
    table.loc[first, ["out", "out_of_model"]] = 9.0
    table.loc[second, ["out", "out_of_model"]] = 5.0
    both = repeating[0]

    def leading() -> tuple[int, int]:
        best = next(best for kind, best in examples.leading_heads(result) if kind is examples.ROUND_ONE_TOKEN)
        return int(best["layer"]), int(best["head"])

    monkeypatch.setattr(type(result), "specialists", lambda *_, **__: table)
    place = ["layer", "head"]
    assert leading() == tuple(table.loc[first, place])
    table.loc[both, [*place, "out", "out_of_model"]] = *table.loc[first, place], 3.0, 3.0
    assert leading() == tuple(table.loc[second, place])
    table.loc[second, "out"] = -1.0  # no other stands out
    assert leading() == tuple(table.loc[first, place])


def test_where_a_window_ends_nothing_is_marked_as_the_end_of_a_sentence(embedded: headscope.Model) -> None:
    """Read alone, a text that was cut after the first dot of "i.e." seems to end there."""
    kind = next(each for each in examples.KINDS if each.score == "separator_focus_stop")
    row = {"text": "It rains. Yeasts multiply by budding, i.", "id": "1", "focal_token": None, "high_pairs": 0,
           "separator_focus_stop": 2.0, "starts_text": True}  # fmt: skip

    class Of:  # what a result tells of how its texts were read
        name, inspect_options = "encoder", {"layers": [0]}

        def tau(self, asked: float | None) -> float:
            return 0.5

    marked = [
        [piece for piece, is_marked in made.excerpt.pieces if is_marked]
        for ends in (False, True)
        for made in [examples._example(row | {"ends_text": ends}, kind, (0, 0), Of(), None, embedded)]  # type: ignore[arg-type]
    ]
    assert marked == [["."], [".", "."]]


def test_excerpts() -> None:
    text = "One two three. " * 20 + "Here is the marked word in a long text. " + "One two three. " * 20
    at = text.index("marked")
    found = excerpt(text, [(at - 1, at + 6)], longest=120)  # a token that begins with the space before it
    assert ("marked", True) in found.pieces
    assert str(found).startswith("… ")
    assert str(found).endswith(" …")
    assert str(excerpt("cut within a wo", [], ends=False)) == "cut within a …"
    assert str(excerpt("cut after a stop.", [], ends=False)) == "cut after a stop. …"
    assert str(excerpt("\u202eevil", [])) == "<U+202E>evil"
    assert str(excerpt("一" * 50, [(0, 1)], longest=20)) == "一" * 20 + " …"


def test_findings_on_the_command_line(run: Path, controls: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["findings", str(run), "--control", *controls, "--sensitivity", "--heads", "--draws", "50"]) == 0
    printed = capsys.readouterr().out
    for word in ("1a Final layers focus", "holds", "untrained", "at other thresholds", "median of", "cosine"):
        assert word in printed
    assert len(re.findall(r"^[0-9][a-c]? .*(?:holds|qualified|not hold|open|no verdict)", printed, re.MULTILINE)) >= 12
    assert "S by cosine" not in printed
    assert main(["findings", str(run), "--control", *controls, "--attention", "--draws", "50"]) == 0
    assert "S by" in capsys.readouterr().out
    assert main(["findings", str(run), "--json", "--draws", "50", "--sensitivity", "--heads", "--attention"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert [f["key"] for f in told["findings"]][-1] == "9"
    assert len(told["sensitivity"]) == 13 * 17
    assert {row["way"] for row in told["against_attention"]} == {"dot", "cosine", "direct", "rows"}
    assert {row["what"] for row in told["heads"]} <= {"specialist", "ordinary", "noise", None}


def test_control_runs_that_lie_beside_are_named(
    run: Path, controls: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for folder in (run, *map(Path, controls)):
        name = "run" if folder == run else f"control-{folder.name}"
        shutil.copytree(folder, tmp_path / name)
    assert main(["findings", str(tmp_path / "run"), "--draws", "10"]) == 0
    pattern = f"{tmp_path}/control-*"
    assert f"2 control runs lie beside it; to compare with: --control {pattern}" in capsys.readouterr().err
    assert main(["findings", str(tmp_path / "run"), "--draws", "10", "--control", *controls]) == 0
    assert "lie beside it" not in capsys.readouterr().err


def test_what_is_wrong_is_said(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for told, expected in (
        (["findings", str(tmp_path / "nothing")], "there is no run or result"),
        (["findings", str(tmp_path)], "holds no result"),
        (["findings", str(run), "--control", str(run)], "is not a control"),
        (["findings", str(run), "--draws", "-3"], "draws=-3"),
        (["findings", str(run), "--stack", "cross"], "there is no stack"),
        (["findings", str(run), "--tau", "0.33"], "0.05"),
        (["figures", str(run), "--out", str(tmp_path), "--only", "mona-lisa"], "there is no figure"),
        (["figures", str(run), "--out", str(tmp_path), "--only", "findings", "--claims", "1a,10"], "no claim '10'"),
        (
            ["figures", str(run), "--out", str(tmp_path), "--only", "atlas", "--scores", "beauty"],
            "no quantity 'beauty'",
        ),
        (["report", str(run), "--out", str(tmp_path / "report.pdf")], "like a web page"),
        (["report", str(run), "--out", "/proc/nowhere/report.html"], "cannot be written"),
        (["reproduce", "--texts", str(tmp_path / "none.txt"), "--out", str(tmp_path / "x")], "none.txt"),
    ):
        assert main(told) == 2, told
        assert expected in capsys.readouterr().err, told


def test_parts_of_a_figure_are_drawn_where_the_whole_is_higher_than_a_page(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    told = ["figures", str(run), "--out", str(tmp_path), "--only", "findings", "--width", "column"]
    assert main(told) == 0
    assert re.search(r"Higher than a journal's page: findings \(\d\d in\)", capsys.readouterr().out)
    assert main([*told, "--claims", "1a, 9"]) == 0
    assert "Higher than" not in capsys.readouterr().out
    svg = (tmp_path / "findings.svg").read_text()
    assert "9 Within the sentence" in svg
    assert "4 Final layers" not in svg


@pytest.mark.long
def test_figures_on_the_command_line(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told = ["figures", str(run), "--out", str(tmp_path), "--format", "svg", "--format", "pdf", "--format", "png"]
    assert main([*told, "--only", "focal-tokens", "--only", "one-head", "--only", "threshold-choice"]) == 0
    printed = capsys.readouterr().out
    assert "the paper's Fig. 11" in printed
    assert {p.suffix for p in tmp_path.glob("focal-tokens.*")} == {".svg", ".pdf", ".png"}
    svg = (tmp_path / "focal-tokens.svg").read_text()
    assert "16 texts" in svg
    assert "headscope/bert12" in svg
    assert (tmp_path / "one-head.png").stat().st_size > 20_000


@pytest.fixture(scope="module")
def result(run: Path) -> headscope.Result:
    return headscope.Result.open(run)


@pytest.mark.parametrize("width", ["column", "page"])
def test_the_scale_of_mean_matrices_belongs_to_all_of_them(result: headscope.Result, width: str) -> None:
    """In a column it stands below: beside one of three it would seem to belong to that one."""
    figure = result.figure("mean-matrices", width=width)
    figure.draw_without_rendering()
    (scale,) = [axes.get_position() for axes in figure.axes if axes.get_label() == "<colorbar>"]
    own = [axes.get_position() for axes in figure.axes if axes.get_visible() and axes.get_label() != "<colorbar>"]
    if width == "column":
        assert scale.y1 < min(box.y0 for box in own)
        assert scale.width > 0.8 * max(box.width for box in own)
    else:
        assert scale.height > 0.6 * max(box.height for box in own)
        assert scale.x0 > max(box.x1 for box in own)


@pytest.mark.parametrize("name", list(FIGURES))
def test_every_figure_is_labelled(page_and_figures: tuple[Path, dict[str, Picture | None]], name: str) -> None:
    figure = page_and_figures[1][name]
    assert figure is not None
    assert "16 texts" in figure.caption
    assert "headscope/bert12" in figure.caption
    assert "\u202e" not in figure.caption
    labels = [axes.get_xlabel() for axes in figure.axes if axes.get_visible()]
    assert any(labels) or name == "findings"


@pytest.mark.parametrize("name", first_of(["stability", *(name for name in FIGURES if name != "stability")]))
def test_every_figure_is_well_formed_whatever_the_groups_are_called(result: headscope.Result, name: str) -> None:
    held = io.BytesIO()
    result.figure(name).write(held, "svg")
    ElementTree.fromstring(held.getvalue())


@pytest.mark.long
@pytest.mark.parametrize(("kind", "stack"), [pytest.param("gpt2", "decoder", marks=pytest.mark.long), ("t5", "cross")])
def test_figures_of_models_of_every_kind(tiny: Any, tmp_path: Path, kind: str, stack: str) -> None:
    texts = [p["text"] for p in headscope.passages()[:10]]
    result = headscope.analyze(tiny(kind), texts, window=32, progress=False).stack(stack)
    for name in FIGURES:
        if (name, stack) == ("against-attention", "cross"):
            with pytest.raises(HeadscopeError, match="cross-attention"):
                result.figure(name)
            continue
        result.figure(name).save(tmp_path / f"{kind}-{name}.png")
    assert write_report(result, tmp_path / f"{stack}.html", figures=[]).stat().st_size < LIMIT


@pytest.mark.long
def test_a_report_of_one_text(tiny: Any, tmp_path: Path) -> None:
    one = headscope.analyze(tiny("gpt2"), ["One text only."], progress=False)
    html = write_report(one, tmp_path / "one.html").read_text(encoding="utf-8")
    assert "no verdict" in html
    assert "Not drawn" in html


@pytest.mark.long
def test_the_same_result_makes_the_same_report(result: headscope.Result, tmp_path: Path) -> None:
    found = result.findings(draws=50)
    one, two = (write_report(result, tmp_path / f"{k}.html", findings=found, figures=[]).read_bytes() for k in "ab")
    assert one == two
    a, b = (result.figure("atlas").save(tmp_path / f"{k}.svg").read_bytes() for k in "ab")
    assert a == b
