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
from headscope.errors import HeadscopeError
from headscope.texts import check_text, decode, example_passage, read_text
from headscope.windows.text import visible

if TYPE_CHECKING:
    import pandas as pd

    from headscope.inspection import Inspection

LEGEND = (
    "stop / end focus: attention to sentence ends / closing special tokens over an even spread. distance: of similar "
    "pairs over that of all pairs. preferences: how much likelier a pair of one sentence / a repetition is to be "
    "similar than others at the same distance, separator similarity: a sentence end and a word; 1 is none. – : too "
    "little to compare."
)
OF_LAYERS = " A layer's number is the median of its heads' (high pairs: their sum)."
CAUTION = "One text is an illustration, not a finding: another text may single out other heads."


def run_inspect(args: Namespace) -> None:
    """Read the text, inspect it, print what was asked for, save what was asked for."""
    if args.head is not None and args.layer is None:
        raise HeadscopeError("--head needs --layer", "name the layer too, for example: --layer 11 --head 3")
    if args.pairs < 1:
        raise HeadscopeError(f"--pairs {args.pairs}", "ask for at least one pair")
    if args.format and not args.save:
        raise HeadscopeError("--format is for saved figures", "say where to with --save DIR")
    if args.save == "":
        raise HeadscopeError("--save names no folder", "name one")
    if args.save and os.path.exists(args.save) and not os.path.isdir(args.save):
        raise HeadscopeError(f"{args.save!r} is a file and cannot be written to as a folder", "name a folder")
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
        files = save(inspection, Path(args.save), args.layer, args.head, args.theta, tuple(args.format or ["png"]))
        where = sys.stderr if args.json else sys.stdout
        print("\nsaved:", *files, sep="\n  ", file=where)


def _text(args: Namespace) -> str:
    if args.file is not None:
        return str(given_text(args.text, args.file))
    if args.text is not None and args.text != "-":
        if re.fullmatch(r"\S+\.(txt|md|json|jsonl|csv|html)", args.text):
            print(f"headscope: taking {args.text!r} as the text; --file {args.text} reads a file", file=sys.stderr)
        return str(args.text)
    if args.text is None and sys.stdin.isatty():
        raise HeadscopeError("there is no text", 'give one: headscope inspect "The cat saw the dog."')
    return decode(sys.stdin.buffer, "standard input")


def given_text(words: str | None, file: str | None) -> str | None:
    """The words themselves or those of a file, never both; None where there are neither."""
    if file is None:
        return words
    if words is not None:
        raise HeadscopeError("there are two texts, one given and one in --file", "give one of them")
    return read_text(file)


def _print(inspection: Inspection, args: Namespace) -> None:
    header(inspection)
    if args.layer is None:
        layer_table(inspection, args.tau)
        for other in _others(inspection):
            by_another(other, other.layer_summary(args.tau))
        show.paragraph("\n" + LEGEND + OF_LAYERS, style="dim")
        show.paragraph()
        show.bullets(inspection.in_words(args.tau))
        show.paragraph("\n" + CAUTION, style="dim")
    elif args.head is None:
        heads = inspection.heads(args.layer, args.tau)
        show.quantities(heads.drop(columns="layer"))
        for other in _others(inspection):
            by_another(other, other.heads(args.layer, args.tau).drop(columns="layer"))
        show.paragraph("\n" + LEGEND, style="dim")
    else:
        _print_head(inspection, args)


def _others(inspection: Inspection) -> list[Inspection]:
    """The same text in the other readings that were asked for."""
    return [inspection.read_as(name) for name in inspection.choices.readings[1:]]


def by_another(inspection: Inspection, rows: pd.DataFrame) -> None:
    """The table of another reading, without what does not depend on it."""
    from headscope.measures.quantities import QUANTITIES

    show.paragraph(f"\nby {inspection.reading}: {READINGS[inspection.choices.readings[0]]}", style="bold")
    same = [name for name in rows.columns if name in QUANTITIES and QUANTITIES[name].read == "attention"]
    show.quantities(rows.drop(columns=same))


def header(inspection: Inspection) -> None:
    """What was looked at: model, window, sentences."""
    window, captured = inspection.window, inspection.captured
    own = window.span[window.part == 0]
    whole = len(window.texts[0]) if window.texts else 0
    sentences = len(set(window.sentence[window.sentence >= 0].tolist()))
    show.paragraph(
        f"{visible(inspection.model)}: {inspection.stack}, {len(captured.layers)} layers × {captured.heads} heads",
        style="bold",
    )
    cut = "" if own.size == 0 else f", characters {own[:, 0].min()} to {own[:, 1].max()} of {whole}"
    count = "1 sentence" if sentences == 1 else f"{sentences} sentences"
    show.paragraph(f"{len(window)} tokens in the window ({inspection.shown}{cut}), {count}")
    show.paragraph(f"similarity by {inspection.reading}: {READINGS[inspection.choices.readings[0]]}")
    unknown = int(window.unknown.sum())
    if unknown:
        show.paragraph(
            f"{unknown} of the tokens are unknown to this model ({window.tokens[int(window.unknown.argmax())]}): it "
            "cannot tell one of them from another, and counts them as repetitions",
            style="yellow",
        )
    show.paragraph()


def layer_table(inspection: Inspection, tau: float) -> None:
    """The summary per layer."""
    show.quantities(inspection.layer_summary(tau))


def _print_head(inspection: Inspection, args: Namespace) -> None:
    layer, head = args.layer, args.head
    pairs = inspection.high_pairs(layer, head, args.tau)
    show.paragraph(f"layer {layer}, head {head}", style="bold")
    each = [inspection, *_others(inspection)]
    rows = [one.heads(layer, args.tau).iloc[head] for one in each]
    shown = [name for name in rows[0].index if name not in ("layer", "head", "flat")]
    show.table(
        ["", *(one.reading for one in each)],
        [(name.replace("_", " "), *(row[name] for row in rows)) for name in shown],
    )
    show.paragraph(f"\ntokens that receive more than {args.theta:g} of the largest attention", style="bold")
    columns = ["label", "category", "sentence", "received"]
    show.table(
        ["token", *columns[1:]],
        inspection.attended(layer, head, args.theta)[columns].itertuples(index=False),
        text=(0, 1),
    )
    show.paragraph(f"\nstrongest of {len(pairs)} pairs with level ≥ {args.tau:g}", style="bold")
    columns = ["token_i", "token_j", "relation", "i", "j", "distance", "similarity", "level"]
    show.table(columns, pairs.head(args.pairs)[columns].itertuples(index=False), text=(0, 1, 2))


def _as_json(inspection: Inspection, args: Namespace) -> dict[str, Any]:
    answer: dict[str, Any] = {"model": inspection.model, "stack": inspection.stack, "shown": inspection.shown}
    answer |= {"tau": args.tau, "theta": args.theta, "in_words": inspection.in_words(args.tau)}
    answer |= {"options": inspection.settings(), "tokens": _records(inspection.tokens), "reading": inspection.reading}
    answer |= _tables(inspection, args)
    if args.head is not None:
        answer["attended"] = _records(inspection.attended(args.layer, args.head, args.theta))
    return answer | {"other_readings": {other.reading: _tables(other, args) for other in _others(inspection)}}


def _tables(inspection: Inspection, args: Namespace) -> dict[str, Any]:
    """What there is to say in one reading, of all layers, one layer, or one head."""
    if args.layer is None:
        heads, layers = inspection.summary(args.tau), inspection.layer_summary(args.tau)
        return {"layers": _records(layers), "heads": _records(heads)}
    heads = inspection.heads(args.layer, args.tau)
    if args.head is None:
        return {"heads": _records(heads)}
    high = inspection.high_pairs(args.layer, args.head, args.tau)
    return {"heads": _records(heads[heads["head"] == args.head]), "high_pairs": _records(high)}


def _records(table: pd.DataFrame) -> Any:
    return json.loads(table.to_json(orient="records"))


def save(
    inspection: Inspection, folder: Path, layer: int | None, head: int | None, theta: float, formats: tuple[str, ...]
) -> list[Path]:
    """Write the dataset, the grid and the two matrices of one head: the one chosen, or a telling one."""
    from headscope.inspection.highlights import telling_head

    if layer is None or head is None:
        layer, head = telling_head(inspection, layer)
    with show.working("writing the figures"):
        files = [inspection.save(folder / "inspection.nc")]
        figures = {
            "grid": inspection.plot_grid(),
            f"similarity-{layer}-{head}": inspection.plot_similarity(layer, head, theta=theta),
            f"attention-{layer}-{head}": inspection.plot_attention(layer, head, theta=theta),
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
        "and are long. This table sums up, layer by layer, which tokens its heads find similar:\n"
    )
    layer_table(inspection, 0.5)
    show.paragraph("\n" + LEGEND + OF_LAYERS, style="dim")
    show.paragraph("\nWhat was found in this text", style="bold")
    show.bullets(inspection.in_words())
    show.paragraph("\n" + CAUTION, style="dim")
    layer, head = telling_head(inspection)
    files = save(inspection, Path(args.out), layer, head, 0.3, ("png",))
    show.paragraph("\nLook at the figures", style="bold")
    meaning = (
        "every number behind this, as a labelled dataset",
        "all 144 heads at a glance: dark is similar",
        f"layer {layer}, head {head}: which tokens it finds alike",
        f"layer {layer}, head {head}: which tokens it reads",
    )
    show.table(["file", "what it shows"], [(str(f), m) for f, m in zip(files, meaning, strict=True)], text=(0, 1))
    command = "headscope" if shutil.which("headscope") else sys.argv[0]
    show.paragraph(f'\nNow try your own:  {command} inspect "Your text."  or  {command} inspect --help')
