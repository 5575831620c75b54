"""Writing the report: one HTML file with everything in it, that asks nothing of any network and runs no script."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headscope.errors import HeadscopeError, brief, counted
from headscope.figures.catalog import CLAIMS, CONTROLS, FIGURES, SCORES, TAU, Entry
from headscope.figures.colours import STATE_VERDICTS, VERDICT_INKS
from headscope.files import make_folder_for, write_whole
from headscope.findings import showing
from headscope.findings.claims import claim
from headscope.findings.in_short import in_short
from headscope.findings.sentences import with_rotated_too
from headscope.findings.showing import TAKEN_AWAY
from headscope.look import SCREEN, Look
from headscope.measures.quantities import named, shown_in
from headscope.report.examples import one_head, roles, tells_heads_apart
from headscope.report.page import filled
from headscope.windows.text import in_a_line

if TYPE_CHECKING:
    from headscope.figures.style import Picture
    from headscope.findings import Findings
    from headscope.models.model import Model
    from headscope.result.result import Result

FEW_TEXTS = 1000  # fewer tell about themselves more than about a kind of text
TEMPLATE = "report.html"
ONE_HEAD = Entry(
    "one-head",
    "One head and one text",
    "",
    "First the head's attention map: each row shows what one token reads. Green tokens receive more than θ of the "
    "largest attention. Then the context similarity matrix of the same head, token beside token: which tokens it "
    "finds alike, whatever it read. Blue tokens receive as much of the largest among tokens that are not special. "
    "Lines separate sentences.",
    one_head,
)
IN_REPORT = Look(title=False)  # a heading stands above each
NAMED = 2  # heads above their layer that are named for each score, and as many below


@dataclass(frozen=True, slots=True)
class Drawn:
    """A figure of the report, or why it could not be drawn."""

    entry: Entry
    picture: Picture | None
    problem: str = ""


def write_report(
    result: Result,
    out: str | Path,
    *,
    findings: Findings | None = None,
    controls: Sequence[Result] = (),
    model: Model | None = None,
    figures: Iterable[Drawn] | None = None,
    tell: Callable[[str], None] | None = None,
) -> Path:
    """Write a result as one self-contained HTML file: findings, figures, examples, texts, settings.

    `controls` are control runs of the same model; `findings`, where they are given, were made with them. `model`, which
    must be the one that was analysed, is needed for the figure of a single head and text, and to mark in the examples
    what they are examples of.
    """
    target = make_folder_for(out)
    findings = findings or result.findings(controls=controls)
    kept = [str(name) for name in result.dataset]
    drawn = (
        figures
        if figures is not None
        else draw_all(
            result, findings=findings, controls=controls, model=model, tau=findings.tau, look=IN_REPORT, tell=tell
        )
    )
    page = filled(
        TEMPLATE,
        counted=counted,
        label_of=lambda name: named(name).label,
        result=result,
        model=in_a_line(result.model["name"]),
        findings=findings,
        showing=showing,
        run_names=[in_a_line(name) for name in showing.run_names(findings)],
        verdict_inks=VERDICT_INKS,
        state_verdicts=STATE_VERDICTS,
        figures=[_shown(each) for each in drawn],
        heads=_heads(result, findings.tau, controls),
        roles=roles(result, findings.tau, _if_same(model, result), controls),
        answer=in_short(findings),
        few_texts=FEW_TEXTS,
        with_rotated_too=with_rotated_too,
        taken=[(kind, TAKEN_AWAY[kind]) for kind in dict.fromkeys(run.kind for f in findings for run in f.runs)],
        scores=[each for each in dict.fromkeys([*shown_in("heads"), *shown_in("layers")]) if each.is_in(kept)],
        texts=about_texts(result),
        settings=result.settings,
        versions=json.loads(result.attrs["versions"]),
        controls=[in_a_line(name) for name in findings.about.get("controls", ())],
    )
    return write_whole(target, page)


def _heads(result: Result, tau: float, controls: Sequence[Result]) -> dict[str, list[showing.StandsOut]]:
    """By score, the heads that stand out farthest; none where the texts are too few to tell heads from noise."""
    found: dict[str, list[showing.StandsOut]] = {}
    if tells_heads_apart(result):
        for each in showing.standing_out(result.specialists(tau=tau, controls=controls), NAMED):
            found.setdefault(each.score, []).append(each)
    return found


def _if_same(model: Model | None, result: Result) -> Model | None:
    """The model where it is the one that was analysed; where it is not, the figure of one head says so."""
    try:
        return checked(model, result)
    except HeadscopeError:
        return None


def draw_all(
    result: Result,
    *,
    findings: Findings | None = None,
    controls: Sequence[Result] = (),
    model: Model | None = None,
    tau: float | None = None,
    only: Sequence[str] | None = None,
    scores: Collection[str] | None = None,
    claims: Collection[str] | None = None,
    look: Look = SCREEN,
    tell: Callable[[str], None] | None = None,
) -> list[Drawn]:
    """Every figure of the catalogue, and that of one head where the model is at hand; or those that `only` names.

    Of `scores` and `claims` are drawn those that are named, in the figures that have a panel for each.
    """
    from headscope.figures.verdicts import findings_figure

    for score in scores or ():
        named(score)  # refused where there is none, as is a claim
    for key in claims or ():
        claim(key)
    names = list(FIGURES) if only is None else list(only)
    for name in names:
        if name not in FIGURES and name != ONE_HEAD.name:
            raise HeadscopeError(f"there is no figure {name!r}", f"use one of {', '.join([*FIGURES, ONE_HEAD.name])}")
    drawn = []
    if only is None and model is not None:
        names.insert(1, ONE_HEAD.name)  # after the findings
    for name in names:
        if name == ONE_HEAD.name:
            drawn.append(_try(ONE_HEAD, lambda: one_head(result, tau, checked(model, result), look, controls), tell))
            continue
        entry = FIGURES[name]
        given = {TAU: tau, CONTROLS: controls, SCORES: scores, CLAIMS: claims}
        options: dict[str, Any] = {option: given[option] for option in entry.takes}
        if name == "findings" and findings is not None:
            drawn.append(_try(entry, partial(findings_figure, result, findings, claims, look=look), tell))
        else:
            drawn.append(_try(entry, partial(entry.draw, result, look=look, **options), tell))
    return drawn


def _try(entry: Entry, make: Callable[[], Picture], tell: Callable[[str], None] | None) -> Drawn:
    """A figure that these texts cannot fill is left out, and the report says why."""
    if tell:
        tell(entry.title)
    try:
        return Drawn(entry, make())
    except HeadscopeError as error:
        return Drawn(entry, None, str(error))


def checked(model: Model | None, result: Result) -> Model:
    """The model, if it is the one that was analysed."""
    from headscope.models.fingerprint import model_fingerprint

    if model is None:
        raise HeadscopeError("the figure of one head and one text needs the model", "name it with --model (model=)")
    if model_fingerprint(model)["weights"] != result.model["weights"]:
        raise HeadscopeError("this is not the model that was analysed", "name the one that was, with --model (model=)")
    return model


def _shown(drawn: Drawn) -> dict[str, Any]:
    """A figure as the page wants it: the picture itself within its address."""
    shown = {"entry": drawn.entry, "problem": drawn.problem, "source": "", "caption": "", "about": ""}
    if drawn.picture is None:
        return shown
    buffer = io.BytesIO()
    drawn.picture.write(buffer, "svg", outlines=True)
    data = base64.b64encode(buffer.getvalue()).decode()
    caption = f"{drawn.entry.title}. {drawn.picture.caption}"
    about = drawn.picture.about
    return shown | {"source": f"data:image/svg+xml;base64,{data}", "caption": caption, "about": about}


def about_texts(result: Result) -> dict[str, Any]:
    """How many texts, how long, in which groups, and what was left out."""
    data, texts = result.dataset, result.texts
    windows = int(data["texts"])
    blocks = result.by_block
    counted = {
        name: int(blocks["texts_read"].values[[str(group) == name for group in blocks["group"].values]].sum())
        for name in result.groups
    }
    flat = data["flat"].values
    return {
        "name": in_a_line(str(texts["name"])),
        "texts": int(texts["texts"]),
        "windows": windows,
        "tokens": float(data["tokens"].sum()) / max(windows, 1),
        "categories": {str(c): int(n) for c, n in zip(data["category"].values, data["tokens"].values, strict=True)},
        "groups": {in_a_line(name): number for name, number in counted.items()} if any(counted) else {},
        "blocks": blocks.sizes["block"],
        "clusters": int(texts.get("clusters", 0)),
        "clusters_again": int(texts.get("clusters_again", 0)),
        "bad": int(texts["bad"]),
        "first_bad": [in_a_line(brief(ValueError(str(each)))) for each in texts.get("first_bad", [])],
        "refused": int(texts["refused"]),
        "unsplit": int(data["unsplit"]),
        "pairless": int(data["pairless"]),
        "flat": int(flat.sum()),
        "flat_heads": int((flat > 0).sum()),
    }
