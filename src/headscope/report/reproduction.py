"""reproduce: from a model and texts to the answer, in one go."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headscope.errors import HeadscopeError
from headscope.files import write_whole
from headscope.models.load import load
from headscope.report.writing import draw_all, write_report
from headscope.runs.analysis import analyze, split_options
from headscope.texts import open_texts

if TYPE_CHECKING:
    from headscope.findings import Findings
    from headscope.result.result import Result

FLOORS = 3
FLOOR_TEXTS = 1000


@dataclass(frozen=True, slots=True)
class Reproduction:
    """What `reproduce` leaves behind."""

    result: Result
    floors: tuple[Result, ...]
    findings: Findings
    figures: tuple[Path, ...]
    report: Path


def reproduce(
    model: str | Path | None,
    texts: Any,
    out: str | Path,
    *,
    floors: int = FLOORS,
    floor_texts: int = FLOOR_TEXTS,
    formats: tuple[str, ...] = ("svg",),
    device: str = "auto",
    dtype: str = "auto",
    revision: str | None = None,
    tell: Callable[[str], None] | None = None,
    **options: Any,
) -> Reproduction:
    """Analyse the texts, then the same architecture untrained, and write findings, figures and a report.

    Everything goes into the folder `out`; the same call again goes on where it was stopped. `floors` untrained models
    read the first `floor_texts` texts. Other options are those of `analyze`.
    """
    if floors < 0 or floor_texts < 1:
        raise HeadscopeError(f"floors={floors}, floor_texts={floor_texts}", "give whole numbers from 0 and from 1")
    reading, others = split_options(options)
    corpus = open_texts(texts, **reading, seed=others.get("seed", 0))
    if floors and not corpus.repeatable:
        raise HeadscopeError(
            "the texts come from a stream that passes by once, and untrained models read them too",
            "give files or a list, or ask for no floors (--floors 0)",
        )
    say = tell or (lambda message: None)
    folder = Path(out)
    how: dict[str, Any] = {"device": device, "dtype": dtype, "revision": revision}
    say("loading the model")
    trained = load(model, **how)
    say("reading the texts")
    result = analyze(trained, corpus, out=folder / "run", per_text=True, **others)
    untrained = []
    for seed in range(floors):
        say(f"reading texts with an untrained model ({seed + 1} of {floors})")
        network = load(model, **how, random_weights=seed)
        untrained.append(analyze(network, corpus.first(floor_texts), out=folder / f"floor-{seed}", **others))
    say("comparing the claims with the numbers")
    findings = result.findings(floors=untrained)
    write_json(folder / "findings.json", findings)
    drawn = draw_all(result, findings=findings, model=trained, tell=lambda title: say(f"drawing: {title}"))
    saved = [
        each.picture.save(folder / "figures" / f"{each.entry.name}.{kind}")
        for each in drawn
        if each.picture is not None
        for kind in formats
    ]
    say("writing the report")
    report = write_report(result, folder / "report.html", findings=findings, floors=untrained, figures=drawn)
    return Reproduction(result, tuple(untrained), findings, tuple(saved), report)


def write_json(file: Path, findings: Findings) -> None:
    """The findings for programs."""
    write_whole(file, json.dumps(findings.as_dict(), ensure_ascii=False, indent=1) + "\n")
