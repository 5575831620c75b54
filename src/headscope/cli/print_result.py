"""What a result came to, printed: of a run that has just ended, of one that was finished before, of a sum of runs."""

from __future__ import annotations

import json
from argparse import Namespace
from typing import TYPE_CHECKING, Any

from headscope.cli import show
from headscope.cli.inspect_text import LEGEND, OF_LAYERS
from headscope.errors import counted
from headscope.result.unfamiliar import unfamiliar_texts
from headscope.windows.text import in_a_line

if TYPE_CHECKING:
    from headscope.result import Result


def show_result(result: Result, args: Namespace) -> None:
    """Print every stack of a result as the options say."""
    if args.json:
        print(json.dumps(as_json(result, args.out, args.heads), ensure_ascii=False))
    elif not args.quiet:
        for stack in result.stacks:
            print_result(result.stack(stack), args.out, args.heads)


def print_result(result: Result, folder: str, heads: bool = False) -> None:
    """A summary per layer, or per head."""
    data, texts = result.dataset, result.texts
    shape = f"{counted(data.sizes['layer'], 'layer')} × {counted(data.sizes['head'], 'head')}"
    show.paragraph(f"{in_a_line(result.model['name'])}: {result.name}, {shape}", style="bold")
    groups = f", {counted(len(result.groups), 'group')}" if len(result.groups) > 1 else ""
    left_out = texts["bad"] + texts["refused"]
    bad = f", {counted(left_out, 'bad record')} left out" if left_out else ""
    again = f", {texts['duplicates']:,} of them duplicates" if texts.get("duplicates") else ""
    read = f"{counted(int(data['texts']), 'window')} of {counted(texts['texts'], 'text')}"
    show.paragraph(f"{read}{again}{groups}{bad}{_share(texts)}\n")
    unfamiliar = unfamiliar_texts(texts)
    if unfamiliar:
        show.paragraph(f"{unfamiliar[0].upper()}{unfamiliar[1:]}.\n", style="yellow")
    asked, own = result.tau(None), result.settings["tau"]
    if asked != own:
        show.paragraph(
            f"at τ = {asked:g}; the run was made at {own:g}, and focal tokens of heads are those at {own:g}\n"
        )
    show.quantities(result.summary() if heads else result.layer_summary())
    show.paragraph("\n" + LEGEND + ("" if heads else OF_LAYERS), style="dim")
    show.paragraph(f"\nThe result is {folder.rstrip('/')}/result.nc; in Python: headscope.Result.open({folder!r})\n")


def _share(texts: dict[str, Any]) -> str:
    """How much of the texts was read, where windows cut them."""
    tokens, read = texts.get("tokens") or 0, texts.get("tokens_read") or 0
    if not tokens or read >= tokens:
        return ""
    share = 100 * read / tokens
    return f", {share:.1f} % of their tokens; --windows all reads the rest"


def as_json(result: Result, folder: str, heads: bool = False) -> dict[str, Any]:
    """The summary as one object."""
    summary: dict[str, Any] = {
        "result": f"{folder.rstrip('/')}/result.nc",
        "model": result.model["name"],
        "texts": result.texts,
    }
    summary |= {"settings": result.settings, "stacks": {}}
    for name in result.stacks:
        stack = result.stack(name)
        summary["stacks"][name] = {
            "windows": int(stack.dataset["texts"]),
            "layers": json.loads(stack.layer_summary().to_json(orient="records")),
        }
        if heads:
            summary["stacks"][name]["heads"] = json.loads(stack.summary().to_json(orient="records"))
    return summary
