"""The command line's words. Nothing here imports torch, so that help and wrong options are told at once."""

from __future__ import annotations

import argparse

from headscope.cli import run_commands, text_commands
from headscope.version import __version__

DESCRIPTION = "What every attention head of a transformer makes of a text, read from the heads' outputs."
COMMANDS = (
    text_commands.inspect, text_commands.view, text_commands.segment,
    run_commands.analyze, run_commands.merge, run_commands.findings, run_commands.figures, run_commands.report,
    run_commands.reproduce, text_commands.check, text_commands.convert, text_commands.demo,
)  # fmt: skip


def build_parser() -> argparse.ArgumentParser:
    """The whole command line."""
    parser = argparse.ArgumentParser(prog="headscope", description=DESCRIPTION)
    parser.add_argument("--version", action="version", version=f"headscope {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for add in COMMANDS:
        add(commands)
    return parser
