"""Sphinx directives for what headscope declares once: choices, variables, quantities, options of commands."""

from __future__ import annotations

import io
import math
from contextlib import redirect_stdout, suppress
from typing import Any

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.util.docutils import SphinxDirective

Rows = list[list[str]]


def choices() -> tuple[list[str], Rows]:
    """What the method leaves open."""
    from headscope.choices import described

    rows = [
        [f"`{c.name}`", f"`{c.default!r}`", ", ".join(f"`{value!r}`" for value in c.allowed), c.help,
         "text, run" if c.of_text else "run"]
        for c in described()
    ]  # fmt: skip
    return ["name", "default", "allowed", "what it is", "of"], rows


def variables() -> tuple[list[str], Rows]:
    """What a result holds."""
    from headscope.measures.variables import VARIABLES

    rows = [[f"`{v.name}`", ", ".join(v.dims) or "–", v.kind, v.kept, v.meaning] for v in VARIABLES.values()]
    return ["name", "dimensions", "kind", "kept for each", "what it is"], rows


def quantities() -> tuple[list[str], Rows]:
    """What is derived."""
    from headscope.measures.quantities import QUANTITIES

    rows = [
        [f"`{q.name}`", q.label, q.meaning, "–" if math.isnan(q.none) else f"{q.none:g}",
         ", ".join(sorted(q.shown)) or "–"]
        for q in QUANTITIES.values()
    ]  # fmt: skip
    return ["name", "label", "what it is", "no effect", "shown in"], rows


TABLES = {"choices": choices, "variables": variables, "quantities": quantities}


def as_markdown(heads: list[str], rows: Rows) -> str:
    """A table in Markdown; a bar within a cell is escaped."""
    cells = [[cell.replace("|", "\\|") for cell in row] for row in rows]
    return "\n".join(
        ["| " + " | ".join(heads) + " |", "|---" * len(heads) + "|", *(f"| {' | '.join(c)} |" for c in cells)]
    )


class Declared(SphinxDirective):
    """`{declared} choices`: a table of what is declared under that name."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        node = nodes.Element()
        lines = as_markdown(*TABLES[self.arguments[0]]()).splitlines()
        self.state.nested_parse(StringList(lines, source=__file__), self.content_offset, node)
        return node.children


class CommandHelp(SphinxDirective):
    """`{command-help} inspect`: what `headscope inspect --help` prints."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        return [nodes.literal_block(text := help_of(self.arguments[0]), text, language="text")]


def help_of(command: str) -> str:
    """What a command prints as its help."""
    from headscope.cli.parser import build_parser

    out = io.StringIO()
    with redirect_stdout(out), suppress(SystemExit):
        build_parser().parse_args([command, "--help"])
    return out.getvalue()


def setup(app: Any) -> dict[str, bool]:
    """Called by Sphinx."""
    app.add_directive("declared", Declared)
    app.add_directive("command-help", CommandHelp)
    return {"parallel_read_safe": True}
