"""headscope inspect and headscope demo."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from argparse import Namespace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headscope.choices import READINGS
from headscope.cli import show
from headscope.cli.choices import choices_of
from headscope.errors import HeadscopeError, counted
from headscope.extras import install_line, installed, require
from headscope.files import INSPECTION_FILE, disk_file
from headscope.look import SCREEN, Look, LookOptions, look_of
from headscope.texts import check_text, decode, example_passage, read_text
from headscope.windows.text import visible

if TYPE_CHECKING:
    import pandas as pd

    from headscope.inspection import Inspection

LEGEND = (
    "separator focus: attention to sentence ends (stop), to closing special tokens (end), over an even spread. reach: "
    "mean distance of similar pairs over that of all pairs. preferences: how much likelier a pair of one sentence, or "
    "a repetition, is to be similar than other pairs at the same distance. separator similarity: the same for a "
    "sentence end and a word. In all of them 1 means no difference. –: too little to compare."
)
WIDEST = 10  # columns of a table, beside the first
TOP = "top: from the highest sixteenth of all pairs, the same number of pairs in every reading"
OF_LAYERS = " A layer's number is the median of its heads' numbers (high pairs: their sum)."
CAUTION = "One text is an illustration, not a finding: another text may single out other heads."


def run_inspect(args: Namespace) -> None:
    """Read the text, inspect it, print what was asked for, save what was asked for."""
    if args.head is not None and args.layer is None:
        raise HeadscopeError("--head needs --layer", "name the layer too, for example: --layer 11 --head 3")
    if args.heads and args.layer is not None:
        raise HeadscopeError("--heads shows all layers, --layer only one", "leave out one of them")
    if args.pairs < 1:
        raise HeadscopeError(f"--pairs {args.pairs} is not possible", "ask for at least one pair")
    if args.format and not args.save:
        raise HeadscopeError("--format applies to saved figures only", "add --save DIR")
    if not args.save and Look(**look_of(args)) != SCREEN:
        raise HeadscopeError(
            "--width and the other options for the look of figures apply to saved figures only", "add --save DIR"
        )
    if args.save == "":
        raise HeadscopeError("--save names no folder", "name one")
    if args.save and os.path.exists(args.save) and not os.path.isdir(args.save):
        raise HeadscopeError(f"{args.save!r} is a file and cannot be written to as a folder", "name a folder")
    if args.save:
        require("saving figures", "matplotlib")
    text = _text(args)
    check_text(text)  # before the seconds it takes to import torch and load a model
    import headscope

    choices = choices_of(args, of_text=True)  # refused before the model is loaded
    with show.working("loading the model"):
        model = headscope.load(args.model, device=args.device, dtype=args.dtype, revision=args.revision)
    inspection = model.inspect(text, args.pair, stack=args.stack, start=args.start, **choices)
    if args.layer is not None:
        inspection.check_head(args.layer, args.head or 0)
    if args.json:
        print(json.dumps(_as_json(inspection, args), ensure_ascii=False))
    else:
        _print(inspection, args)
    if args.save:
        files = save(
            inspection,
            disk_file(args.save),
            args.layer,
            args.head,
            args.theta,
            tuple(args.format or ["png"]),
            look_of(args),
        )
        where = sys.stderr if args.json else sys.stdout
        print("\nsaved:", *files, sep="\n  ", file=where)


def _is_a_file(text: str) -> bool:
    """Whether what was given as a text names a file that is there, as for `headscope view`."""
    try:
        return Path(text).is_file()
    except (OSError, ValueError):  # a text may not be a possible name of a file
        return False


def _text(args: Namespace) -> str:
    if args.file is not None:
        return str(given_text(args.text, args.file, args.encoding))
    if args.text is not None and args.text != "-":
        if _is_a_file(args.text):
            raise HeadscopeError(f"{args.text!r} is a file", f"read the text in it with --file {args.text}")
        if re.fullmatch(r"\S+\.(txt|md|json|jsonl|csv|html)", args.text):
            print(f"headscope: taking {args.text!r} as the text; --file {args.text} reads a file", file=sys.stderr)
        return str(args.text)
    if args.text is None and sys.stdin.isatty():
        raise HeadscopeError("there is no text", 'give one: headscope inspect "The cat saw the dog."')
    return decode(sys.stdin.buffer, "standard input", encoding=args.encoding)


def given_text(words: str | None, file: str | None, encoding: str | None = None) -> str | None:
    """The words themselves or those of a file, never both; None where there are neither."""
    if file is None:
        return words
    if words is not None:
        raise HeadscopeError("there are two texts, one given and one in --file", "give one of them")
    return read_text(file, encoding=encoding)


def _print(inspection: Inspection, args: Namespace) -> None:
    header(inspection)
    if args.heads:
        show.quantities(inspection.summary(args.tau))
        show.paragraph("\n" + LEGEND, style="dim")
    elif args.layer is None:
        layer_table(inspection, args.tau)
        side_by_side([one.layer_summary(args.tau, top=True) for one in _readings(inspection)], inspection)
        show.paragraph("\n" + LEGEND + OF_LAYERS, style="dim")
        show.paragraph()
        show.bullets(inspection.in_words(args.tau))
        show.paragraph("\n" + CAUTION, style="dim")
    elif args.head is None:
        show.quantities(inspection.heads(args.layer, args.tau).drop(columns="layer"))
        side_by_side([one.heads(args.layer, args.tau, top=True) for one in _readings(inspection)], inspection)
        show.paragraph("\n" + LEGEND, style="dim")
    else:
        _print_head(inspection, args)


def _readings(inspection: Inspection) -> list[Inspection]:
    """The same text in every reading that was asked for."""
    return [inspection.read_as(name) for name in inspection.choices.readings]


def side_by_side(tables: list[pd.DataFrame], inspection: Inspection) -> None:
    """What depends on the reading, from the top pairs of each: a column for each reading under every quantity."""
    from headscope.measures.quantities import shown_in

    names = inspection.choices.readings
    if len(names) < 2:
        return
    show.paragraph("\nfrom the top pairs of each reading, a sixteenth of all", style="bold")
    first = "head" if "head" in tables[0] else "layer"
    depends = [each for each in shown_in("text") if each.read not in ("attention", "main") and not each.adds_up]
    each_time = max(1, WIDEST // len(names))  # quantities in one table
    for begin in range(0, len(depends), each_time):
        some = depends[begin : begin + each_time]
        headings = [
            f"{each.short_label.split()[0] * (k == 0)}\n{name}" for each in some for k, name in enumerate(names)
        ]
        columns = [tables[0][first], *(table[each.name] for each in some for table in tables)]
        show.table([f"\n{first}", *headings], zip(*columns, strict=True), text=())


def header(inspection: Inspection) -> None:
    """What was looked at: model, window, sentences."""
    window, captured = inspection.window, inspection.captured
    own = window.span[window.part == 0]
    whole = len(window.texts[0]) if window.texts else 0
    sentences = len(set(window.sentence[window.sentence >= 0].tolist()))
    show.paragraph(
        f"{visible(inspection.model)}: {inspection.stack}, {counted(len(captured.layers), 'layer')} × "
        f"{counted(captured.heads, 'head')}",
        style="bold",
    )
    cut = "" if own.size == 0 else f", characters {own[:, 0].min()} to {own[:, 1].max()} of {whole}"
    size = f"{counted(len(window), 'token')} in the window ({inspection.shown}{cut})"
    show.paragraph(f"{size}, {counted(sentences, 'sentence')}")
    show.paragraph(f"similarity by {inspection.reading}: {READINGS[inspection.choices.readings[0]]}")
    unknown = int(window.unknown.sum())
    if unknown:
        show.paragraph(
            f"{counted(unknown, 'token')} of the window {'is' if unknown == 1 else 'are'} unknown to this model "
            f"({window.tokens[int(window.unknown.argmax())]}): it cannot tell one such token from another, and counts "
            "them as repetitions",
            style="yellow",
        )
    if inspection.unfamiliar:
        show.paragraph(f"{inspection.unfamiliar}", style="yellow")
    show.paragraph()


def layer_table(inspection: Inspection, tau: float) -> None:
    """The summary per layer."""
    show.quantities(inspection.layer_summary(tau))


def _print_head(inspection: Inspection, args: Namespace) -> None:
    layer, head = args.layer, args.head
    pairs = inspection.high_pairs(layer, head, args.tau)
    show.paragraph(f"layer {layer}, head {head}", style="bold")
    rows = {f"{inspection.reading}, τ {args.tau:g}": inspection.heads(layer, args.tau).iloc[head]}
    rows |= {f"{one.reading}, top": one.heads(layer, args.tau, top=True).iloc[head] for one in _readings(inspection)}
    shown = [name for name in next(iter(rows.values())).index if name not in ("layer", "head", "flat")]
    show.table(["", *rows], [(name.replace("_", " "), *(row[name] for row in rows.values())) for name in shown])
    show.paragraph(TOP, style="dim")
    show.paragraph(f"\ntokens that receive more than {args.theta:g} of the largest attention", style="bold")
    columns = ["label", "category", "sentence", "received"]
    show.table(
        ["token", *columns[1:]],
        inspection.attended(layer, head, args.theta)[columns].itertuples(index=False),
        text=(0, 1),
    )
    show.paragraph(f"\nstrongest of {counted(len(pairs), 'pair')} with level ≥ {args.tau:g}", style="bold")
    columns = ["token_i", "token_j", "relation", "i", "j", "distance", "similarity", "level"]
    show.table(columns, pairs.head(args.pairs)[columns].itertuples(index=False), text=(0, 1, 2))


def _as_json(inspection: Inspection, args: Namespace) -> dict[str, Any]:
    answer: dict[str, Any] = {"model": inspection.model, "stack": inspection.stack, "shown": inspection.shown}
    answer |= {"tau": args.tau, "theta": args.theta, "in_words": inspection.in_words(args.tau)}
    answer |= {"unfamiliar": inspection.unfamiliar}
    answer |= {
        "options": inspection.settings(),
        "tokens": _records(inspection.tokens),
        "reading": inspection.reading,
    }
    answer |= _tables(inspection, args)
    if args.head is not None:
        answer["attended"] = _records(inspection.attended(args.layer, args.head, args.theta))
    return answer | {"top": {one.reading: _tables(one, args, top=True) for one in _readings(inspection)}}


def _tables(inspection: Inspection, args: Namespace, *, top: bool = False) -> dict[str, Any]:
    """What there is to say in one reading, of all layers, one layer, or one head."""
    if args.layer is None:
        heads, layers = inspection.summary(args.tau, top=top), inspection.layer_summary(args.tau, top=top)
        return {"layers": _records(layers), "heads": _records(heads)}
    heads = inspection.heads(args.layer, args.tau, top=top)
    if args.head is None:
        return {"heads": _records(heads)}
    own = {"heads": _records(heads[heads["head"] == args.head])}
    return own if top else own | {"high_pairs": _records(inspection.high_pairs(args.layer, args.head, args.tau))}


def _records(table: pd.DataFrame) -> Any:
    return json.loads(table.to_json(orient="records"))


def save(
    inspection: Inspection,
    folder: Path,
    layer: int | None,
    head: int | None,
    theta: float,
    formats: tuple[str, ...],
    look: LookOptions | None = None,
) -> list[Path]:
    """Write the dataset, the grid and the two matrices of one head: the one chosen, or a telling one."""
    from headscope.inspection.highlights import telling_head

    if layer is None or head is None:
        layer, head = telling_head(inspection, layer)
    own: LookOptions = look or {}
    with show.working("writing the figures"):
        files = [inspection.save(folder / INSPECTION_FILE)]
        figures = {
            "grid": inspection.plot_grid(**own),
            f"similarity-{layer}-{head}": inspection.plot_similarity(layer, head, theta=theta, **own),
            f"attention-{layer}-{head}": inspection.plot_attention(layer, head, theta=theta, **own),
        }
        for name, figure in figures.items():
            files += [figure.save(folder / f"{name}.{kind}") for kind in formats]
    return files


def run_demo(args: Namespace) -> None:
    """Inspect a shipped passage and explain what was found to somebody who has never seen this."""
    import headscope
    from headscope.inspection.highlights import telling_head

    with show.working("loading the embedded model"):
        model = headscope.load()
    passage = example_passage()
    show.paragraph("The text", style="bold")
    show.paragraph(passage["text"] + "\n")
    inspection = model.inspect(passage["text"])
    header(inspection)
    show.paragraph(
        "A transformer reads a text through attention heads, here 144 of them. Each head writes a vector for every "
        "token. Two tokens whose vectors have a large product are similar to that head: they point the same way "
        "and are long. This table sums up, layer by layer, which tokens the heads find similar:\n"
    )
    layer_table(inspection, 0.5)
    show.paragraph("\n" + LEGEND + OF_LAYERS, style="dim")
    show.paragraph("\nWhat was found in this text", style="bold")
    show.bullets(inspection.in_words())
    show.paragraph("\n" + CAUTION, style="dim")
    layer, head = telling_head(inspection)
    if installed("matplotlib"):
        files = save(inspection, disk_file(args.out), layer, head, 0.3, ("png",))
        show.paragraph("\nLook at the figures", style="bold")
    else:
        files = [inspection.save(disk_file(args.out) / INSPECTION_FILE)]
        show.paragraph(f"\nNo figures are drawn, because matplotlib is not installed: {install_line('matplotlib')}")
    meaning = (
        "every number behind this, as a labelled dataset",
        "all 144 heads at a glance: dark is similar",
        f"layer {layer}, head {head}: which tokens it finds alike",
        f"layer {layer}, head {head}: which tokens it reads",
    )
    show.table(["file", "what it shows"], [(str(f), m) for f, m in zip(files, meaning, strict=False)], text=(0, 1))
    command = "headscope" if shutil.which("headscope") else show.called()
    show.paragraph("\nNow try your own", style="bold")
    texts = (f'{command} view "Your text."', f'{command} inspect "Your text."', f"{command} --help")
    for_what = ("all heads in the browser", "the same tables as here", "whole collections of texts, and the rest")
    show.table(["command", "what it does"], list(zip(texts, for_what, strict=True)), text=(0, 1))
