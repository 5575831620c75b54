"""reproduce: from a model and texts to the answer, in one go."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headscope.control import FOLDER, USUAL, Control, read_control
from headscope.errors import HeadscopeError
from headscope.files import disk_file, write_whole
from headscope.look import split_look
from headscope.models.load import load
from headscope.report.writing import IN_REPORT, draw_all, write_report
from headscope.runs.analysis import analyze, split_options
from headscope.texts import open_texts

if TYPE_CHECKING:
    from headscope.findings import Findings
    from headscope.result.result import Result

CONTROL_TEXTS = 1000


@dataclass(frozen=True, slots=True)
class Reproduction:
    """What `reproduce` leaves behind."""

    result: Result
    controls: tuple[Result, ...]
    findings: Findings
    figures: tuple[Path, ...]
    report: Path


def reproduce(
    model: str | Path | None,
    texts: Any,
    out: str | Path,
    *,
    controls: Sequence[str] = USUAL,
    control_texts: int = CONTROL_TEXTS,
    formats: tuple[str, ...] = ("svg",),
    device: str = "auto",
    dtype: str = "auto",
    revision: str | None = None,
    tell: Callable[[str], None] | None = None,
    **options: Any,
) -> Reproduction:
    """Analyse the texts, then the first of them under each control, and write findings, figures and a report.

    Everything goes into the folder `out`; the same call again goes on where it was stopped. `controls` are written as
    for `analyze`, and read the first `control_texts` texts. Other options are those of `analyze`, and those of how the
    saved figures look (`headscope.look.Look`); the report's own are made for a screen.
    """
    look, options = split_look(options)
    wanted = _checked(controls)
    if not isinstance(control_texts, int) or control_texts < 1:
        raise HeadscopeError(f"control_texts={control_texts} is not possible", "ask for at least one text")
    reading, others = split_options(options)
    corpus = open_texts(texts, **reading, seed=others.get("seed", 0))
    if wanted and not corpus.repeatable:
        raise HeadscopeError(
            "the texts come from a stream, which can be read only once, and control runs read them again",
            "give files or a list, or ask for no controls (--controls without names, controls=[])",
        )
    say = tell or (lambda message: None)
    folder = disk_file(out)
    how: dict[str, Any] = {"device": device, "dtype": dtype, "revision": revision}
    say("loading the model")
    trained = load(model, **how)
    say("reading the texts")
    result = analyze(trained, corpus, out=folder / "run", per_text=True, **others)
    beside = []
    for number, control in enumerate(wanted, 1):
        say(f"control {number} of {len(wanted)}: {control.words} (the first {control_texts:,} texts)")
        name = str(control)
        under = load(model, **how, control=name) if control.changes_model else trained.under(name)
        place = folder / f"{FOLDER}{name.replace(':', '-')}"
        beside.append(analyze(under, corpus.first(control_texts), out=place, **others))
        del under  # before the next is loaded
    say("comparing the claims with the numbers")
    findings = result.findings(controls=beside)
    write_json(folder / "findings.json", findings)
    draw = partial(draw_all, result, findings=findings, controls=beside, model=trained)
    drawn = draw(look=IN_REPORT, tell=lambda title: say(f"drawing for the report: {title}"))
    files = drawn if look == IN_REPORT else draw(look=look, tell=lambda title: say(f"drawing a file: {title}"))
    saved = [
        each.picture.save(folder / "figures" / f"{each.entry.name}.{kind}")
        for each in files
        if each.picture is not None
        for kind in formats
    ]
    say("writing the report")
    file = folder / "report.html"
    report = write_report(result, file, findings=findings, controls=beside, model=trained, figures=drawn)
    return Reproduction(result, tuple(beside), findings, tuple(saved), report)


def _checked(controls: Sequence[str]) -> list[Control]:
    """The controls that are asked for, each once; a wrong one is refused before hours are spent."""
    wanted = [read for each in controls if (read := read_control(each)) is not None]
    twice = next((each for k, each in enumerate(wanted) if each in wanted[:k]), None)
    if twice is not None:
        raise HeadscopeError(f"the control {twice} is named twice", "name each once")
    return wanted


def write_json(file: Path, findings: Findings) -> None:
    """The findings for programs."""
    write_whole(file, json.dumps(findings.as_dict(), ensure_ascii=False, indent=1) + "\n")
