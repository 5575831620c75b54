"""The command line: parses, calls, prints."""

from __future__ import annotations

import gc
import io
import os
import sys
from argparse import Namespace
from collections.abc import Sequence

from headscope.cli.parser import build_parser
from headscope.errors import HeadscopeError


def command() -> int:
    """What `headscope` runs: `main`, without two things that cost seconds and change nothing.

    torch and transformers make a million objects while they are imported. By default the garbage collector looks
    through them dozens of times meanwhile, and Python once more when it ends. And threads of torch that have nothing to
    do keep their core busy, waiting: where other programs want it, a short text took half a minute.
    """
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    gc.set_threshold(200_000, 20, 100)
    code = main()
    gc.freeze()
    return code


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; the exit code is 2 for anything the user can fix."""
    args = build_parser().parse_args(argv)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a terminal that cannot show a character gets its number
            stream.reconfigure(errors="backslashreplace")
    try:
        _run(args)
        sys.stdout.flush()
    except HeadscopeError as error:
        if args.debug:
            raise
        from headscope.windows.text import in_a_line

        print(f"headscope: {in_a_line(str(error))}", file=sys.stderr)  # what a file holds may end up in it
        return 2
    except KeyboardInterrupt as stopped:
        if not getattr(stopped, "__notes__", ()):  # with a note, the command has printed its own message
            print("headscope: stopped", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader of our output, head for one, has had enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


def _run(args: Namespace) -> None:
    # Imported here, so that --help and a wrong option answer at once.
    if args.command in ("inspect", "demo"):
        from headscope.cli.inspect_text import run_demo, run_inspect

        (run_inspect if args.command == "inspect" else run_demo)(args)
    elif args.command == "view":
        from headscope.cli.view_texts import run_view

        run_view(args)
    elif args.command == "segment":
        from headscope.cli.segment_text import run_segment

        run_segment(args)
    elif args.command == "analyze":
        from headscope.cli.analyze_texts import run_analyze

        run_analyze(args)
    elif args.command == "merge":
        from headscope.cli.merge_runs import run_merge

        run_merge(args)
    elif args.command in ("findings", "figures", "report", "reproduce"):
        from headscope.cli import show_findings

        getattr(show_findings, f"run_{args.command}")(args)
    else:
        from headscope.cli.check_model import run_check, run_convert

        (run_check if args.command == "check" else run_convert)(args)
