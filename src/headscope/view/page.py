"""The page: one module joined from small files, and the HTML around it."""

from __future__ import annotations

import base64
import gzip
import hashlib
import html
import json
import re
from collections.abc import Iterable
from functools import lru_cache
from importlib import resources

from headscope.figures.colours import style_variables
from headscope.view.desk import Answer

ENTRY = "main.js"
# Style sheets in the order in which they count: what is on every page, a text and its heads, one head and its numbers
# with their charts, a run; at last what changes where there is little room.
SHEETS = ("page.css", "text.css", "head.css", "run.css", "narrow.css")
# Colours that figures and report have as well, before the style sheet that uses them.
COLOURS = ".headscope {{{}}} .headscope[data-theme=dark] {{{}}} "
IMPORT = re.compile(r'^import (\{[^}]*\}) from "\./([a-z]+)\.js";\n', re.MULTILINE)
EXPORT = re.compile(r"^export (?!default)(?:async )?(?:function|class|const) (\w+)", re.MULTILINE)
# Types for the checker, wherever they stand, and comments that have a line of their own.
COMMENT = re.compile(
    r"^[ \t]*//[^\n]*\n|^[ \t]*/\*\*(?:(?!\*/).)*\*/\n|/\*\*(?:(?!\*/).)*\*/ ?", re.MULTILINE | re.DOTALL
)
INDENT = re.compile(r"^[ \t\n]+", re.MULTILINE)  # no string of these files goes on over a line's end


@lru_cache(maxsize=1)
def module() -> str:
    """The viewer as one ES module: its files one after the other, each after those that it imports.

    Every file becomes a function with a scope of its own that returns what it exports; only the last, which begins
    everything, stands free. Comments and indentation are left out.

    >>> "import {" in module(), len(module().encode()) < 220_000
    (False, True)
    """
    folder = resources.files("headscope.view") / "web"
    sheet = " ".join((folder / name).read_text(encoding="utf-8") for name in SHEETS)
    style = COLOURS.format(style_variables(), style_variables(dark=True)) + " ".join(sheet.split())
    joined: dict[str, str] = {}

    def join(name: str, above: tuple[str, ...]) -> None:
        if name in joined:
            return
        if name in above:
            raise ValueError(f"files import each other in a circle: {' → '.join([*above, name])}")
        source = (folder / name).read_text(encoding="utf-8").replace('"{sheets}"', json.dumps(style))
        for _, needed in IMPORT.findall(source):
            join(f"{needed}.js", (*above, name))
        plain = INDENT.sub("", COMMENT.sub("", IMPORT.sub(r"const \1 = in_\2;\n", source)))
        exported = ", ".join(EXPORT.findall(plain))
        plain = re.sub(r"^export (?!default)", "", plain, flags=re.MULTILINE)
        if name != ENTRY:
            plain = f"const in_{name.removesuffix('.js')} = (() => {{\n{plain}return {{ {exported} }};\n}})();\n"
        joined[name] = plain

    join(ENTRY, ())
    return "\n".join(joined.values())


SHELL = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="referrer" content="no-referrer">{policy}
<title>{title}</title>
<link rel="icon" href="data:,">
<style>html, body {{ margin: 0; height: 100% }}</style>
</head>
<body>
<noscript>headscope needs JavaScript.</noscript>
<div id="headscope"{data}></div>
{script}
</body>
</html>
"""


def served_page(token: str) -> str:
    """The page that the server shows."""
    address = html.escape(f"headscope.js?token={token}", quote=True)
    data = f' data-token="{html.escape(token, quote=True)}"'
    script = f'<script type="module" src="{address}"></script>'
    return SHELL.format(policy="", title="headscope", data=data, script=script)


def single_page(answers: Iterable[tuple[str, Answer]], title: str) -> str:
    """The page with every answer in it, which asks nobody for anything.

    Answers are compressed and kept by path, so that each is unpacked only when it is looked at.
    """
    scripts = []
    for path, answer in answers:
        raw = answer if isinstance(answer, bytes) else json.dumps(answer, ensure_ascii=False).encode()
        kind = "b" if isinstance(answer, bytes) else "j"
        packed = base64.b64encode(gzip.compress(raw, 6, mtime=0)).decode()
        scripts.append(
            f'<script type="application/octet-stream" data-path="{path}" data-kind="{kind}">{packed}</script>'
        )
    script = module()
    if "</script" in script.lower():
        raise ValueError("the module holds the end of a script, which would cut it short")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = (
        f"default-src 'none'; script-src 'sha256-{digest}'; style-src 'unsafe-inline'; img-src data: blob:; "
        "base-uri 'none'; form-action 'none'"
    )
    return SHELL.format(
        policy=f'\n<meta http-equiv="Content-Security-Policy" content="{policy}">',
        title=html.escape(title),
        data=' data-single="1"',
        script="\n".join([*scripts, f'<script type="module">{script}</script>']),
    )
