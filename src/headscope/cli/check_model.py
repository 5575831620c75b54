"""headscope check and headscope convert."""

from __future__ import annotations

from argparse import Namespace

from headscope.cli import show
from headscope.errors import HeadscopeError


def run_check(args: Namespace) -> None:
    """Print the self-check's table; a failed equality is an error."""
    import headscope

    with show.working("loading and checking the model"):
        model = headscope.load(args.model, device=args.device, dtype=args.dtype, revision=args.revision, check=False)
    report = model.report
    show.paragraph(repr(model), style="bold")
    show.paragraph(
        f"read through {report.route}; differences are shares of the largest |O|, {report.tolerance:.0e} allowed\n"
    )
    words = {True: "holds", False: "FAILS", None: "not checked"}
    rows = [
        (check.stack, check.name, words[check.passed], "" if check.error is None else f"{check.error:.1e}", check.note)
        for check in report.checks
    ]
    show.table(["stack", "equality", "result", "difference", "note"], rows, text=(0, 1, 2, 4))
    if report.failed:
        raise HeadscopeError(
            f"{len(report.failed)} of {len(rows)} equalities fail", "do not trust numbers from this model"
        )


def run_convert(args: Namespace) -> None:
    """Convert and say what to do next."""
    import headscope

    with show.working("converting"):
        out = headscope.convert(args.folder, args.out, args.tokenizer)
    print(f"wrote {out}; check it with: headscope check {out}")
