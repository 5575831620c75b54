"""headscope findings, figures, report and reproduce."""

from __future__ import annotations

import json
import shlex
import sys
from argparse import Namespace
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headscope.cli import show
from headscope.cli.analyze_texts import corpus_of
from headscope.cli.choices import choices_of
from headscope.control import FOLDER as CONTROL
from headscope.errors import HeadscopeError, counted
from headscope.files import disk_file
from headscope.look import Look, look_of

if TYPE_CHECKING:
    import xarray as xr

    from headscope.models.model import Model
    from headscope.result import Result

EMBEDDED = "headscope/bert12"
PAGE_HIGH = 9.5  # inches: what a page of a journal has room for


def run_findings(args: Namespace) -> None:
    """Print every claim with its verdict, and a sentence on each."""
    from headscope.cli import findings_tables

    result, controls = open_run(args)
    with show.working("comparing the claims with the numbers"):
        findings = result.findings(tau=args.tau, controls=controls, draws=args.draws, seed=args.seed)
        swept = result.sensitivity(draws=args.draws, seed=args.seed) if args.sensitivity else None
        heads = result.specialists(tau=args.tau, controls=controls) if args.heads else None
        against = (
            result.against_attention(controls=controls, draws=args.draws, seed=args.seed) if args.attention else None
        )
    if args.json:
        answer = findings.as_dict()
        if swept is not None:
            answer["sensitivity"] = _records(swept)
        if heads is not None:
            answer["heads"] = json.loads(heads.to_json(orient="records"))
        if against is not None:
            answer["against_attention"] = _records(against)
        print(json.dumps(answer, ensure_ascii=False))
        return
    findings_tables.print_findings(findings)
    if against is not None:
        findings_tables.print_against_attention(against)
    if swept is not None:
        findings_tables.print_sensitivity(swept)
    if heads is not None:
        findings_tables.print_heads(heads)


def _records(table: xr.Dataset) -> Any:
    """A labelled table as rows."""
    return json.loads(table.to_dataframe().reset_index().to_json(orient="records"))


def run_figures(args: Namespace) -> None:
    """Draw the figures into a folder."""
    from headscope.report.writing import draw_all

    look = Look(**look_of(args))
    folder = disk_file(args.out)
    if folder.exists() and not folder.is_dir():
        raise HeadscopeError(f"{args.out!r} is a file and cannot be written to as a folder", "name a folder")
    result, controls = open_run(args)
    with stages() as tell:
        wanted = args.only or None
        findings = result.findings(tau=args.tau, controls=controls) if wanted is None or "findings" in wanted else None
        model = model_for(result, args.model) if wanted is None or "one-head" in wanted else None
        drawn = draw_all(
            result, findings=findings, controls=controls, model=model, tau=args.tau, only=wanted, scores=args.scores,
            claims=args.claims, look=look, tell=tell,
        )  # fmt: skip
        rows = []
        for each in drawn:
            if each.picture is None:
                rows.append((each.entry.name, f"not drawn: {each.problem}"))
                continue
            files = [each.picture.save(folder / f"{each.entry.name}.{kind}") for kind in args.format or ["svg"]]
            number = f" (the paper's {each.entry.paper})" if each.entry.paper else ""
            rows.append((", ".join(str(file) for file in files), f"{each.entry.title}{number}"))
    show.table(["file", "what it shows"], rows, text=(0, 1))
    if too_high := [
        f"{each.entry.name} ({each.picture.get_figheight():.0f} in)"
        for each in drawn
        if look.printed and each.picture is not None and each.picture.get_figheight() > PAGE_HIGH
    ]:
        show.paragraph(
            f"\nHigher than a journal's page: {', '.join(too_high)}. Of findings and sensitivity --claims draws some "
            "claims, of trajectory and atlas --scores some scores; --no-caption leaves the words to your text."
        )


def run_report(args: Namespace) -> None:
    """Write the report."""
    from headscope.report.writing import write_report

    result, controls = open_run(args)
    with stages() as tell:
        findings = result.findings(tau=args.tau, controls=controls)
        file = write_report(
            result, args.out, findings=findings, controls=controls, model=model_for(result, args.model), tell=tell
        )
    size = file.stat().st_size / 1e6
    show.paragraph(f"The report is {file} ({size:.1f} MB): open it in a browser.")


def run_reproduce(args: Namespace) -> None:
    """Analyse, control runs, findings, figures and report in one go."""
    from headscope.report.reproduction import reproduce

    options = choices_of(args, of_text=False) | {"strict": args.strict, "threads": args.threads, "path": args.path}
    options |= look_of(args)
    done = reproduce(
        args.model, corpus_of(args), args.out, controls=args.controls, control_texts=args.control_texts,
        formats=tuple(args.figure_format or ["svg"]), device=args.device, dtype=args.dtype, revision=args.revision,
        tell=None if args.quiet else lambda message: print(f"headscope: {message}", file=sys.stderr),
        progress=not args.quiet, **options,
    )  # fmt: skip
    if args.json:
        print(json.dumps(done.findings.as_dict() | {"report": str(done.report)}, ensure_ascii=False))
        return
    if args.quiet:
        return
    from headscope.cli.findings_tables import print_findings

    show.paragraph("\nWhat the paper says", style="bold")
    show.table(["", "the paper"], [(f.key, f.says) for f in done.findings], text=(0, 1))
    show.paragraph()
    print_findings(done.findings)
    size = done.report.stat().st_size / 1e6
    show.paragraph(f"\nThe report is {done.report} ({size:.1f} MB): open it in a browser.", style="bold")
    show.paragraph(f"Beside it: findings.json, {counted(len(done.figures), 'figure')}, and the runs themselves.")


def open_run(args: Namespace) -> tuple[Result, list[Result]]:
    """The run that is asked about, and the control runs beside it."""
    from headscope.result import Result

    result = Result.open(args.run)
    if args.stack is not None:
        result = result.stack(args.stack)
    beside = [] if args.control else controls_beside(args.run)
    if beside:  # without them other verdicts stay open than in the report that lies there, too
        are = "lies" if len(beside) == 1 else "lie"
        named = f"{shlex.quote(str(beside[0].parent))}/{CONTROL}*"
        print(
            f"{counted(len(beside), 'control run')} {are} beside it; to compare with: --control {named}",
            file=sys.stderr,
        )
    return result, [Result.open(path) for path in args.control]


def controls_beside(run: str) -> list[Path]:
    """The control runs that `reproduce` left beside a run."""
    from headscope.result.schema import FILE

    folder = Path(run)
    if not (folder / FILE).is_file():
        return []
    return sorted(file.parent for file in folder.parent.glob(f"{CONTROL}*/{FILE}"))


def model_for(result: Result, name: str | None) -> Model | None:
    """The model for the figure of one head: as named, or the embedded one where that was analysed."""
    from headscope.models.load import load

    return load(name) if has_model(result, name) else None


def has_model(result: Result, name: str | None) -> bool:
    """Whether there is a model to read the run's texts with: one that is named, or the embedded one."""
    return name is not None or result.model["name"] == EMBEDDED


@contextmanager
def stages() -> Iterator[Callable[[str], None]]:
    """Say what is being drawn while it takes its time, on a terminal only."""
    err = show.console(stderr=True)
    if not err.is_terminal:
        yield lambda title: None
        return
    with err.status("reading the result") as status:
        yield lambda title: status.update(f"drawing: {title}")
