"""The viewer in a real JupyterLab, used with mouse and keys; its numbers are held against Python's."""

from __future__ import annotations

import base64
import io
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from playwright.sync_api import BrowserContext, ConsoleMessage, Error, Locator, Page, Route, expect

import headscope
from browser import chromium
from headscope.view.page import module
from jupyter import Lab, jupyter_lab

SOON, LATE = 20_000, 90_000  # milliseconds: for an answer, and for a kernel that has to import and compute
FEW = 16  # passages

WORDS = "# A heading\n\nWords, and <button>a button</button>."
INSPECT = """\
import headscope
seen = headscope.load().inspect(headscope.passages("news")[3]["text"])
viewer = seen.show(layer=7, head=3)
viewer"""
AGAIN = "viewer"
STATE = "print(viewer.state)"
ANALYZE = f"""\
texts = [each["text"] for each in headscope.passages()[:{FEW}]]
result = headscope.analyze(headscope.load(), texts, window=48, shard_size=2, progress=False)
result.show()"""
CELLS = [("markdown", WORDS), ("code", INSPECT), ("code", AGAIN), ("code", STATE), ("code", ANALYZE)]

STYLES = ("font", "color", "background-color", "margin", "padding", "border", "text-decoration", "letter-spacing")
STYLED = (".jp-MarkdownOutput h1", ".jp-MarkdownOutput p", ".jp-MarkdownOutput button", ".jp-Toolbar", "body")
# A widget that nobody answers.
RENDER = """(picture) => cell.render({
    model: { get: (name) => ({ picture, state: "" })[name], on() {}, off() {}, send() {} },
    el: document.querySelector("#cell"),
})"""
# A widget's module comes from a blob, and what it throws passes through those who show it. The rest is JupyterLab's.
OURS = ("blob:", "/lab/extensions/anywidget/", "/lab/extensions/@jupyter-widgets/", "headscope")
# Keys that insert, cut, delete, merge, convert or leave a cell in JupyterLab's command mode.
COMMANDS = ("a", "b", "c", "d", "d", "m", "r", "x", "y", "j", "k", "Shift+M", "ArrowDown", "ArrowUp")


@dataclass
class Notebook:
    """A notebook that is open in a browser, and what the browser said and asked for meanwhile."""

    page: Page
    lab: Lab
    said: list[str] = field(default_factory=list)
    outside: list[str] = field(default_factory=list)
    styles_before: dict[str, list[str]] = field(default_factory=dict)
    heads_at_first: list[str | None] = field(default_factory=list)

    @property
    def cells(self) -> Locator:
        return self.page.locator(".jp-Notebook .jp-Cell")

    def cell(self, source: str) -> Locator:
        return self.cells.nth([each for _, each in CELLS].index(source))

    def view(self, source: str) -> Locator:
        """The viewer under a cell."""
        return self.cell(source).locator(".headscope")

    def choose(self, source: str, layer: int, head: int, step: int = 10) -> Locator:
        """Click on a head of the atlas and set τ to so many twentieths; returns the panel."""
        view = self.view(source)
        view.locator(f'.tile[data-layer="{layer}"][data-head="{head}"]').click()
        view.locator("input[type=range]").first.fill(str(step))
        panel = view.locator(f'article.panel[data-head="{layer}.{head}"]')
        panel.wait_for(timeout=SOON)
        return panel

    def run_all(self) -> None:
        self.page.locator("#jp-main-statusbar").get_by_text("| Idle").wait_for(timeout=LATE)
        self.page.locator(".lm-MenuBar-itemLabel").get_by_text("Run", exact=True).click()
        self.page.locator(".lm-Menu-itemLabel").get_by_text("Run All Cells", exact=True).click()
        self.wait_for_all()

    def run(self, source: str) -> None:
        """Run one cell as people do, and wait until it has run."""
        prompt = self.cell(source).locator(".jp-InputPrompt")
        before = prompt.inner_text()
        prompt.click()
        self.page.keyboard.press("Control+Enter")
        expect(prompt).not_to_have_text(before, timeout=SOON)
        expect(prompt).to_have_text(re.compile(r"\[\d+\]:"), timeout=LATE)

    def wait_for_all(self) -> None:
        for source in (INSPECT, AGAIN, ANALYZE):
            self.view(source).locator(".text-page[data-ready], .run-page[data-findings]").wait_for(timeout=LATE)

    def styles(self) -> dict[str, list[str]]:
        """How the notebook's own elements look."""
        read = "(element, names) => names.map(name => getComputedStyle(element).getPropertyValue(name))"
        return {place: self.page.locator(place).first.evaluate(read, STYLES) for place in STYLED}

    def shape(self) -> list[str]:
        """The kind of each cell and which one is active, once everything is drawn: what command keys change."""
        self.page.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
        names = "jp-CodeCell", "jp-MarkdownCell", "jp-RawCell", "jp-mod-active", "jp-mod-selected"
        read = "(cells, names) => cells.map(cell => names.filter(name => cell.classList.contains(name)).join(' '))"
        mode = "editing" if self.page.locator(".jp-Notebook.jp-mod-editMode").count() else "commands"
        return [mode, *self.cells.evaluate_all(read, names)]

    def watch(self, context: BrowserContext) -> None:
        """Write down what is ours of that which goes wrong, and let nobody ask outside."""

        def gate(route: Route) -> None:
            if route.request.url.startswith((f"{self.lab.home}/", "data:", "blob:")):
                route.continue_()
            else:
                self.outside.append(route.request.url)
                route.abort()

        def hear(message: ConsoleMessage) -> None:
            told = f"{message.type}: {message.text} ({message.location['url']})"
            if message.type in ("error", "warning") and any(each in told for each in OURS):
                self.said.append(told)

        def fall(error: Error) -> None:
            told = f"{error.message} {error.stack}"
            if not error.stack or any(each in told for each in OURS):
                self.said.append(told)

        context.route("**/*", gate)
        self.page.on("console", hear)
        self.page.on("pageerror", fall)
        self.page.on(
            "websocket",
            lambda socket: None if socket.url.startswith("ws://127.0.0.1:") else self.outside.append(socket.url),
        )


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Notebook]:
    """A notebook whose cells have all run."""
    with jupyter_lab(tmp_path_factory.mktemp("jupyter")) as lab, chromium() as browser:
        lab.write("viewer.ipynb", CELLS)
        context = browser.new_context(viewport={"width": 1500, "height": 1000})
        notebook = Notebook(context.new_page(), lab)
        notebook.watch(context)
        notebook.page.goto(lab.address("viewer.ipynb"))
        notebook.page.locator(STYLED[0]).wait_for(timeout=LATE)
        notebook.styles_before = notebook.styles()
        notebook.run_all()
        panels = [notebook.view(source).locator("article.panel") for source in (INSPECT, AGAIN)]
        notebook.heads_at_first = [panel.get_attribute("data-head") for panel in panels]
        yield notebook
        context.close()


@pytest.fixture
def notebook(opened: Notebook) -> Iterator[Notebook]:
    """The same for every test; none may leave an error behind, or have asked anybody outside."""
    yield opened
    assert opened.said == []
    assert opened.outside == []


@pytest.fixture(scope="module")
def seen(embedded: headscope.Model) -> headscope.Inspection:
    return embedded.inspect(headscope.passages("news")[3]["text"])


def high(panel: Locator, number: int) -> None:
    """Hold the number of similar pairs that a panel shows against Python's."""
    expect(panel.locator(".high-count")).to_have_attribute("data-high", str(number), timeout=SOON)
    assert panel.locator(".high-count").inner_text().startswith(f"{number:,} of ")


@pytest.mark.long
def test_a_cell_shows_the_head_that_was_asked_for_and_every_token(
    notebook: Notebook, seen: headscope.Inspection
) -> None:
    assert notebook.heads_at_first == ["7.3", "7.3"]
    panel = notebook.choose(INSPECT, 7, 3)
    tokens = panel.locator(".token")
    assert tokens.evaluate_all("all => all.map(each => each.title)") == list(seen.labels)
    pieces = [each for each in seen.labels if each.startswith("##") and len(each) > 2]
    assert pieces
    shown = [each.removeprefix("##") if each in pieces else each for each in seen.labels]
    assert tokens.all_inner_texts() == shown
    assert notebook.view(INSPECT).locator(".telling").inner_text().endswith(seen.shown)


@pytest.mark.long
def test_similar_pairs_are_those_of_python_wherever_the_slider_stands(
    notebook: Notebook, seen: headscope.Inspection
) -> None:
    panel = notebook.choose(INSPECT, 7, 3)
    counts = [len(seen.high_pairs(7, 3, step / 20)) for step in range(1, 20)]
    assert len(set(counts)) > 8
    high(panel, counts[10 - 1])
    slider = notebook.view(INSPECT).locator("input[type=range]").first
    slider.focus()
    for step in (11, 12, 13):
        notebook.page.keyboard.press("ArrowRight")
        high(panel, counts[step - 1])
    for step in (1, 4, 19):
        slider.fill(str(step))
        high(panel, counts[step - 1])


@pytest.mark.long
def test_a_tile_of_the_atlas_shows_its_head(notebook: Notebook, seen: headscope.Inspection) -> None:
    view = notebook.view(INSPECT)
    assert view.locator(".tile:not(.waiting)").count() == 144
    for layer, head in ((0, 11), (11, 0), (2, 5)):
        panel = notebook.choose(INSPECT, layer, head)
        high(panel, len(seen.high_pairs(layer, head, 0.5)))
        assert panel.locator("h2").inner_text() == f"Layer {layer}, head {head}, by dot"
        expect(view.locator(".tile.chosen")).to_have_attribute(
            "aria-label", re.compile(f"^layer {layer}, head {head},")
        )


@pytest.mark.long
def test_a_result_shows_the_findings_of_python(notebook: Notebook, embedded: headscope.Model) -> None:
    texts = [each["text"] for each in headscope.passages()[:FEW]]
    findings = headscope.analyze(embedded, texts, window=48, shard_size=2, progress=False).findings()
    rows = notebook.view(ANALYZE).locator(".findings tr[data-claim]")
    told = rows.evaluate_all("rows => rows.map(row => [row.dataset.claim, row.dataset.verdict])")
    assert told == [[each.key, each.verdict] for each in findings]
    assert len({verdict for _, verdict in told}) > 1
    values = rows.evaluate_all("rows => rows.map(row => Number(row.dataset.value ?? NaN))")
    assert values == pytest.approx([each.value for each in findings], rel=1e-9, nan_ok=True)
    assert notebook.view(ANALYZE).locator(".tile:not(.waiting)").count() == 144


@pytest.mark.long
def test_two_views_of_one_widget_do_not_get_each_others_answers(notebook: Notebook, seen: headscope.Inspection) -> None:
    for source in (INSPECT, AGAIN):  # anew, so that neither has asked for a head yet
        notebook.run(source)
        notebook.view(source).locator("[data-ready]").wait_for(timeout=SOON)
    both = [notebook.view(source).element_handle() for source in (INSPECT, AGAIN)]
    heads = range(3)
    notebook.page.evaluate(
        """([[first, second], heads]) => {
            const pick = (view, layer, head) =>
                view.querySelector(`.tile[data-layer="${layer}"][data-head="${head}"]`).click();
            for (const head of heads) {
                pick(first, 1, head);
                pick(second, 10, head);
            }
        }""",
        [both, list(heads)],
    )
    for source, layer in ((INSPECT, 1), (AGAIN, 10)):
        for head in heads:
            high(notebook.choose(source, layer, head), len(seen.high_pairs(layer, head, 0.5)))


def left_at(notebook: Notebook, layer: int, head: int, step: int) -> None:
    """Leave the first view at a head and wait until the kernel knows."""
    notebook.choose(INSPECT, layer, head, step)
    output = notebook.cell(STATE).locator(".jp-OutputArea-output")
    for _ in range(20):
        notebook.run(STATE)
        if f"layer={layer}&head={head}&tau={step / 20}" in output.inner_text():
            return
    pytest.fail(f"the kernel was not told: {output.inner_text()}")


@pytest.mark.long
def test_a_widget_shown_again_is_as_it_was_left(notebook: Notebook, seen: headscope.Inspection) -> None:
    left_at(notebook, 5, 8, 14)
    notebook.run(AGAIN)
    panel = notebook.view(AGAIN).locator('article.panel[data-head="5.8"]')
    panel.wait_for(timeout=SOON)
    high(panel, len(seen.high_pairs(5, 8, 0.7)))
    assert notebook.view(AGAIN).locator("output").first.inner_text() == "0.70"


@pytest.mark.long
def test_a_page_loaded_again_shows_the_widget_as_it_was_left(notebook: Notebook, seen: headscope.Inspection) -> None:
    left_at(notebook, 9, 2, 6)
    notebook.cell(STATE).locator(".jp-InputPrompt").click()
    notebook.page.keyboard.press("Control+s")
    expect(notebook.page.locator(".lm-DockPanel-tabBar .jp-mod-dirty")).to_have_count(0, timeout=SOON)
    notebook.page.reload()
    notebook.wait_for_all()
    panel = notebook.view(INSPECT).locator('article.panel[data-head="9.2"]')
    panel.wait_for(timeout=SOON)
    high(panel, len(seen.high_pairs(9, 2, 0.3)))


@pytest.mark.long
def test_the_notebook_looks_as_it_did_without_the_widget(notebook: Notebook) -> None:
    notebook.cell(WORDS).scroll_into_view_if_needed()
    assert notebook.styles() == notebook.styles_before
    own = notebook.view(INSPECT).evaluate("element => getComputedStyle(element).fontFamily")
    assert own != notebook.page.locator(".jp-MarkdownOutput p").evaluate("p => getComputedStyle(p).fontFamily")


@pytest.mark.long
def test_keys_work_in_the_widget_and_do_not_reach_the_notebook(notebook: Notebook) -> None:
    panel = notebook.choose(INSPECT, 7, 3)
    view, press = notebook.view(INSPECT), notebook.page.keyboard.press
    view.locator('.tile[data-layer="7"][data-head="3"]').focus()
    for name, key in (("mask", "m"), ("arcs", "a")):
        box = view.locator(f"[data-key={name}]")
        was = box.is_checked()
        press(key)
        expect(box).to_be_checked(checked=not was, timeout=SOON)
        press(key)
        expect(box).to_be_checked(checked=was, timeout=SOON)
    panel.get_by_label("next head").focus()
    before = notebook.shape()
    press("Enter")  # a button is pressed, and no cell is edited
    view.locator('article.panel[data-head="7.4"]').wait_for(timeout=SOON)
    for place in (".tile.chosen", ".token", "input[type=range]", "aside select", "[data-key=mask]", ".pin", ".picture"):
        view.locator(place).first.focus()
        for key in COMMANDS:
            press(key)
            assert notebook.shape() == before, f"{key} on {place} reached the notebook"
    # The same keys do reach it from outside.
    notebook.cell(STATE).locator(".jp-InputPrompt").click()
    press("b")
    expect(notebook.cells).to_have_count(len(CELLS) + 1, timeout=SOON)
    press("d")
    press("d")
    expect(notebook.cells).to_have_count(len(CELLS), timeout=SOON)


@pytest.mark.long
def test_errors_and_requests_would_have_been_seen(opened: Notebook) -> None:
    assert (opened.said, opened.outside) == ([], [])
    try:
        opened.page.evaluate(
            """async () => {
                await fetch("https://example.org/").catch(() => {});
                const source = "console.error('from a blob'); setTimeout(() => { throw Error('later') })";
                await import(URL.createObjectURL(new Blob([source], { type: "text/javascript" })));
                await new Promise(done => setTimeout(done));
            }"""
        )
        assert opened.outside == ["https://example.org/"]
        assert ["from a blob" in opened.said[0], "later" in opened.said[1]] == [True, True]
    finally:
        opened.said.clear()
        opened.outside.clear()


def test_the_widget_answers_every_question_even_those_that_go_wrong(
    seen: headscope.Inspection, monkeypatch: pytest.MonkeyPatch
) -> None:
    viewer = seen.show(layer=7, head=3)
    answers: list[tuple[dict[str, Any], list[bytes]]] = []
    monkeypatch.setattr(viewer, "send", lambda told, buffers=(): answers.append((told, list(buffers))))

    def ask(question: Any) -> tuple[dict[str, Any], list[bytes]] | None:
        answers.clear()
        viewer._handle_custom_msg(question, [])
        return answers[0] if answers else None

    for junk in ("about", None, {}, {"path": "about"}, {"number": "1", "path": "about"}):
        assert ask(junk) is None
    told, buffers = ask({"number": 1, "path": "about"}) or ({}, [])
    assert (told["number"], told["binary"], buffers) == (1, False, [])
    (name,) = told["value"]["texts"]
    told, buffers = ask({"number": 2, "path": f"texts/{name}/dot/heads/7/3"}) or ({}, [])
    assert told == {"number": 2, "binary": True}
    assert len(buffers) == 1
    wrong: list[tuple[dict[str, Any], int]] = [
        ({"path": "nothing/here"}, 404),
        ({"path": f"texts/{'t' + '0' * 20}"}, 404),
        ({"path": f"texts/{name}/dot/heads/99/0"}, 422),
        ({"inspect": {"text": "A cat."}}, 422),
        ({"inspect": {"nonsense": 1}}, 422),
        ({"inspect": 7}, 422),
        ({"inspect": {"text": 7}}, 422),
        ({"inspect": {"text": "A cat.", "window": "64"}}, 422),
        ({"inspect": {"text": "A cat.", "readings": "dot"}}, 422),
        ({"inspect": {"text": "A cat.", "start": -1}}, 422),
        ({"inspect": {"text": "A cat.", "stack": "middle"}}, 422),
    ]
    for number, (question, status) in enumerate(wrong):
        told, _ = ask({"number": number, **question}) or ({}, [])
        assert (told["number"], told["status"]) == (number, status), question
        assert told["error"]
    # A defect is no mistake of the user's: it is told as such, and goes into the log.
    monkeypatch.setattr(viewer._desk, "inspect", lambda text, **options: len(7))  # type: ignore[arg-type]
    told, _ = ask({"number": 8, "inspect": {"text": "A cat.", "window": 64}}) or ({}, [])
    assert (told["status"], "TypeError" in told["error"]) == (500, True)
    monkeypatch.setattr(viewer._desk, "answer", lambda path: 1 // 0)
    told, _ = ask({"number": 9, "path": "about"}) or ({}, [])
    assert (told["status"], told["error"]) == (500, "ZeroDivisionError: integer division or modulo by zero")


# ---------------------------------------------------------------------- where no kernel answers


def test_a_cell_keeps_a_picture_of_what_it_shows(embedded: headscope.Model) -> None:
    seen = embedded.inspect("The ferryman knew the river. <b>The river</b> knew the ferryman.")
    data, _ = seen.show(8, 0)._repr_mimebundle_()
    assert {"application/vnd.jupyter.widget-view+json", "text/html", "text/plain"} <= {*data}
    kept = data["text/html"]
    assert "Layer 8, head 0, by dot" in kept
    assert "&lt;b&gt;The river&lt;/b&gt;" in kept
    assert f"{len(seen.high_pairs(8, 0, 0.5))} pairs are similar at τ = 0.50" in kept
    png = base64.b64decode(re.search(r'src="data:image/png;base64,([^"]+)"', kept).group(1))
    assert min(Image.open(io.BytesIO(png)).size) > 300


@pytest.mark.long
def test_without_a_kernel_the_widget_shows_its_picture(embedded: headscope.Model) -> None:
    widget = embedded.inspect("The ferryman knew the river.").show(8, 0)
    widget._repr_mimebundle_()
    script = module().replace("export default", "const cell =") + f"\nwindow.render = {RENDER};"
    with chromium() as browser:
        page = browser.new_page()
        page.set_content("<div id='cell'></div>")
        page.add_script_tag(content=script, type="module")
        page.wait_for_function("() => window.render")
        page.evaluate("picture => { window.render(picture) }", widget.picture)
        picture = page.locator("#cell figure img")
        picture.wait_for()
        assert picture.evaluate("e => e.naturalWidth") > 300
        assert "run the cell" in page.inner_text("#cell figcaption")


@pytest.mark.long
def test_a_notebook_converted_to_html_keeps_its_pictures(tmp_path: Path) -> None:
    import nbclient  # these come with JupyterLab
    import nbconvert
    import nbformat

    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in (INSPECT, ANALYZE)])
    nbclient.NotebookClient(notebook, timeout=600, store_widget_state=False).execute()
    page, _ = nbconvert.HTMLExporter().from_notebook_node(notebook)
    file = tmp_path / "notebook.html"
    file.write_text(page, encoding="utf-8")
    with chromium() as browser:
        shown = browser.new_page(offline=True)
        shown.goto(file.as_uri())
        pictures = shown.locator(".headscope-picture img")
        assert pictures.count() == 2
        assert min(pictures.evaluate_all("all => all.map(e => e.naturalWidth)")) > 300
