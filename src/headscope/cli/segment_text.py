"""headscope segment: cut a text, or learn which heads of a model cut texts."""

from __future__ import annotations

import json
import sys
from argparse import Namespace
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from headscope.cli import show
from headscope.errors import HeadscopeError, counted
from headscope.extras import require
from headscope.files import disk_file, page_path, write_whole
from headscope.texts import decode, read_text
from headscope.windows.text import in_a_line

if TYPE_CHECKING:
    from headscope.segmentation import Cut, Segment

FORMATS = {".txt": "text", ".md": "text", ".jsonl": "jsonl", ".html": "html", ".htm": "html"}
RULE = "─" * 8


def run_segment(args: Namespace) -> None:
    """Learn weights where texts to learn from are named; cut the text otherwise."""
    if args.fit:
        _fit(args)
        return
    form = _format(args)
    options = {
        name: value
        for name in ("grain", "segments", "max_tokens", "longest", "words", "language")
        if (value := getattr(args, name)) is not None
    }
    text = _text(args)
    if not text.strip():
        print("headscope: there is no text to cut", file=sys.stderr)
    from headscope.segmentation.segmenter import check_options

    check_options(**options)
    import headscope
    from headscope.segmentation import Segmenter

    with show.working("loading the model"):
        model = headscope.load(args.model, device=args.device, dtype=args.dtype, revision=args.revision)
        segmenter = Segmenter(model, args.heads, **options)
    err = show.console(stderr=True)
    with err.status("reading") as status:

        def tell(done: int, total: int) -> None:
            status.update(f"read {done:,} of {total:,} sentences")

        cut = segmenter.cut(text, tell if err.is_terminal else None)
    _write(cut, form, args.out)


def _text(args: Namespace) -> str:
    if args.file is None and sys.stdin.isatty():
        raise HeadscopeError("there is no text", "name a file: headscope segment FILE")
    if args.file is None or args.file == "-":
        return decode(sys.stdin.buffer, "standard input", None, args.encoding)
    return read_text(args.file, None, args.encoding)


def _format(args: Namespace) -> str:
    if args.format is not None or args.out is None:
        form = str(args.format or "text")
    else:
        suffix = disk_file(args.out).suffix.lower()
        if suffix not in FORMATS:
            raise HeadscopeError(
                f"the name {args.out!r} does not tell what to write",
                "end it in .txt, .jsonl or .html, or give --format",
            )
        form = FORMATS[suffix]
    if form == "html":
        if args.out is None:
            raise HeadscopeError("HTML is written to a file, and none is named", "name one: --out FILE.html")
        page_path(args.out)
        require("writing a page", "jinja2", "matplotlib", "scipy")
    return form


def _write(cut: Cut, form: str, out: str | None) -> None:
    """Print or write the segments."""
    if form == "html":
        from headscope.report.segments import write_segments

        written = write_segments(cut, str(out))
    else:
        segments = cut.segments
        content = "".join(_json(each) for each in segments) if form == "jsonl" else in_text(segments)
        if out is None:
            print(content, end="")
            return
        written = write_whole(disk_file(out), content)
    number = len(cut.ends)
    print(f"wrote {counted(number, 'segment')} to {written}")


def _json(segment: Segment) -> str:
    return json.dumps(asdict(segment), ensure_ascii=False) + "\n"


def in_text(segments: list[Segment]) -> str:
    """The segments with a rule after each: how strong the boundary is, and the heads that decided it."""
    lines: list[str] = []
    for number, segment in enumerate(segments):
        lines.append("\n".join(in_a_line(line) for line in segment.text.splitlines()))
        if number < len(segments) - 1:
            heads = ", ".join(str(each) for each in segment.why)
            lines.append(f"\n{RULE} {segment.strength:.2f}{f' · layer.head {heads}' * bool(heads)} {RULE}\n")
    return "\n".join(lines) + "\n" * bool(lines)


def _fit(args: Namespace) -> None:
    if args.heads is None:
        raise HeadscopeError("--fit needs a file to write what it learns to", "name it: --heads FILE.json")
    if args.file is not None:
        raise HeadscopeError(
            "--fit does not cut a text: it learns which heads do", "leave out the file, or cut it with a second command"
        )
    import headscope
    from headscope.segmentation import fit
    from headscope.segmentation.fit import PASSAGES
    from headscope.texts.corpus import open_paths

    reading: dict[str, Any] = {"text_field": args.text_field, "cluster_field": args.cluster_field}
    corpus = open_paths(args.fit, **reading)
    corpus.check_any()
    err = show.console(stderr=True)
    with err.status("loading the model") as status:
        model = headscope.load(args.model, device=args.device, dtype=args.dtype, revision=args.revision)

        def tell(what: str, done: int, total: int) -> None:
            status.update(f"{what}: {done:,} of {total:,}" if total else f"{what}: {done:,}" if done else what)

        weights = fit(
            model, corpus, passages=args.passages or PASSAGES, seed=args.seed, language=args.language or "en", tell=tell
        )
    file = weights.save(args.heads)
    topics = weights.topics
    order = sorted(range(len(topics.heads)), key=lambda k: -topics.weights[k])
    total = float(topics.weights.sum())
    print(f"wrote {file}: {len(order)} of {_number_of_heads(weights)} heads tell topics apart")
    rows = [(*topics.heads[k], f"{topics.weights[k] / total:.1%}") for k in order[:12]]
    show.table(["layer", "head", "weight"], rows)


def _number_of_heads(weights: Any) -> int:
    shape = weights.model["stacks"][weights.stack]
    return int(shape["layers"] * shape["heads"])
