"""How well texts are cut, by headscope and by others, on Choi's documents and Wiki-50: docs/results/segmentation.md.

    python benchmarks/segmentation.py [--limit 3] [--data FOLDER] [--cache FOLDER] [--out FILE]

Pk and WindowDiff by nltk over sentences, in per cent, less is better; 95 % intervals by drawing documents again. Then
sentences without punctuation, speed and memory. What is done is kept as JSON in build/: the same command again
goes on where it was stopped, and cuts again only what another version of the code would cut.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from importlib.metadata import version
from itertools import accumulate
from pathlib import Path
from statistics import median
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

import numpy as np
import torch
from nltk.metrics.segmentation import pk, windowdiff
from segmentation_peers import SEED, Contender, Document, Ends, code_version, contenders, progress

import headscope
from headscope.files import write_whole

DRAWS = 10_000
RANGES = ("3-11", "3-5", "6-8", "9-11", "12-15", "3-15")
WIKI = "Wiki-50"
PUBLISHED: dict[
    str, dict[str, tuple[int, int | None]]
] = {  # Pk, Choi 2000, Table 8: ranges, number unknown, number known
    "C99, published": {"3-11": (13, 12), "3-5": (18, 12), "6-8": (10, 9), "9-11": (10, 9)},
    "TextTiling, published": {"3-11": (46, None), "3-5": (44, None), "6-8": (43, None), "9-11": (48, None)},
}
CONTROLS = (  # set, contender, Pk that ../shared/data/README.md gives
    ("Choi", "no boundary, number unknown", 47.0),
    (WIKI, "no boundary, number unknown", 36.2),
    ("9-11", "evenly spaced, number known", 18.7),
)
WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)*")
EVERY = 13  # words: a control for sentences
SPEED_TEXT, MEMORY_TEXT, ROUNDS = 100_000, 1_000_000, 3
# VmHWM and not ru_maxrss: on Linux a process inherits that of the one that started it.
MEMORY = """
import sys, time
import headscope
from headscope.segmentation import Segmenter
text = open(sys.argv[1], encoding="utf-8").read()
status = lambda name: next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith(name)) / 1000
cutter = Segmenter(headscope.load())
cutter.split("It rains. The boats came home.")
before, begun = status("VmRSS"), time.perf_counter()
segments = cutter.split(text)
print(before, status("VmHWM"), time.perf_counter() - begun, len(segments))
"""

Score = tuple[float, float]  # Pk and WindowDiff
Counts = tuple[int, int, int]  # boundaries found that are right, found, to be found


def rows_of(file: Path) -> list[dict[str, Any]]:
    if not file.exists():
        sys.exit(f"there is no {file}: give the folder that has it with --data")
    with gzip.open(file, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def documents_of(folder: Path, limit: int | None) -> list[Document]:
    """Choi's and Wiki-50, so many of each range."""
    found: list[Document] = []
    taken: dict[str, int] = {}
    for name in ("choi", "wiki50"):
        for row in rows_of(folder / f"segmentation_{name}.jsonl.gz"):
            group = row["id"].split("/")[1] if name == "choi" else WIKI
            taken[group] = taken.get(group, 0) + 1
            if limit is None or taken[group] <= limit:
                sentences = tuple(sentence for segment in row["segments"] for sentence in segment)
                ends = tuple(end - 1 for end in accumulate(map(len, row["segments"])))
                found.append(Document(f"{name}/{row['id']}", group, sentences, ends))
    return found


def score(document: Document, ends: Ends, scoring: str) -> Score:
    """k is half the mean segment length. By "sentences" a mark stands for each sentence, the last one's included, as
    nltk's own k needs it; by "gaps" for each gap between two, and k is at least 2."""
    length = len(document.sentences)
    k = round(length / (2 * document.number))
    if scoring == "gaps":
        length, k = length - 1, max(k, 2)
    true, own = (
        "".join("1" if place in set(each) else "0" for place in range(length)) for each in (document.ends, ends)
    )
    return 100 * pk(true, own, k), 100 * windowdiff(true, own, k)


def interval(draw: Callable[[Any], Any], number: int) -> tuple[float, float]:
    drawn = np.random.default_rng(SEED).integers(number, size=(DRAWS, number))
    low, high = np.percentile(draw(drawn), (2.5, 97.5))
    return float(low), float(high)


def mean_of(values: Sequence[float]) -> str:
    array = np.array(values)
    low, high = interval(lambda drawn: array[drawn].mean(1), len(array))
    return f"{array.mean():.1f} [{low:.1f}, {high:.1f}]"


# Cutting


class Kept:
    """What was measured, as JSON: whole after every contender, and once a minute."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.content: dict[str, Any] = json.loads(file.read_text()) if file.exists() else {}
        self._saved = time.perf_counter()

    def part(self, name: str, of_version: str) -> dict[str, Any]:
        """An entry, emptied if another version made it."""
        entry: dict[str, Any] = self.content.setdefault(name, {})
        if entry.get("version") != of_version:
            entry.clear()
            entry.update(version=of_version)
        return entry

    def save(self, every: float = 0) -> None:
        if time.perf_counter() - self._saved >= every:
            write_whole(self.file, json.dumps(self.content, separators=(",", ":")))
            self._saved = time.perf_counter()


def cut_all(contender: Contender, documents: Sequence[Document], kept: Kept) -> None:
    entry = kept.part(contender.key, contender.version)
    ends = entry.setdefault("ends", {})
    todo = [document for document in documents if document.id not in ends]
    if not todo:
        return
    cut, begun = contender.make(todo), time.perf_counter()
    entry["note"] = contender.note()
    for done, document in enumerate(todo, 1):
        found = cut(document)
        if found[-1] != len(document.sentences) - 1 or list(found) != sorted(set(found)):
            raise AssertionError(f"{contender.key} cuts {document.id} at {found}")
        ends[document.id] = found
        if done % 20 == 0 or done == len(todo):
            progress(contender.key, done, len(todo), begun)
        kept.save(every=60)
    kept.save()


# Sentences without punctuation


def spoken(row: dict[str, Any]) -> tuple[list[str], set[int]]:
    """The words of a document in lower case, and those after which a sentence ends, the last one left out."""
    sentences = [[word.lower() for word in WORD.findall(each)] for each in row["sentences"]]
    words = [word for each in sentences for word in each]
    return words, {end - 1 for end in accumulate(len(each) for each in sentences if each)} - {len(words) - 1}


def after_words(words: Sequence[str], stops: Iterable[int]) -> set[int]:
    """The words of " ".join(words) that pieces end with, by the characters where these end."""
    places = list(accumulate(len(word) + 1 for word in words))
    return {int(np.searchsorted(places, stop)) for stop in stops} - {len(words) - 1}


def sentence_cutters() -> dict[str, tuple[str, Callable[[list[str]], set[int]]]]:
    import sentencex

    from headscope.segmentation import Segmenter

    cutter: list[Segmenter] = []

    def heads(words: list[str]) -> set[int]:
        if not cutter:
            cutter.append(Segmenter(headscope.load(), grain="sentences"))
        return after_words(words, [piece.span[1] for piece in cutter[0].split(" ".join(words))])

    def by_punctuation(words: list[str]) -> set[int]:
        text = " ".join(words)
        found = sentencex.get_sentence_boundaries("en", text)
        return after_words(words, [each["start_index"] + len(each["text"].rstrip()) for each in found])

    return {
        "every gap": ("", lambda words: set(range(len(words) - 1))),
        f"every {EVERY} words": ("", lambda words: set(range(EVERY - 1, len(words) - 1, EVERY))),
        "sentencex, which needs punctuation": (version("sentencex"), by_punctuation),
        "headscope's heads, embedded": (code_version(), heads),
    }


def f1(sums: Any) -> Any:
    return 200 * sums[..., 0] / (sums[..., 1] + sums[..., 2])


def drawn_f1(counts: Any, drawn: Any) -> Any:
    return f1(counts[drawn].sum(1))


def sentences(folder: Path, limit: int | None, kept: Kept) -> list[list[str]]:
    texts = [(row["id"], *spoken(row)) for row in rows_of(folder / "ewt_sentences.jsonl.gz")[: limit and 10 * limit]]
    texts = [each for each in texts if len(each[1]) > 1]
    table = []
    for name, (of_version, cut) in sentence_cutters().items():
        entry = kept.part(f"sentences: {name}", of_version)
        begun = time.perf_counter()
        for done, (key, words, gold) in enumerate(texts, 1):
            if key not in entry:
                found = cut(words)
                entry[key] = (len(found & gold), len(found), len(gold))
                progress(f"sentences, {name}", done, len(texts), begun)
        kept.save()
        counts = np.array([entry[key] for key, _, _ in texts])  # (documents, 3)
        low, high = interval(partial(drawn_f1, counts), len(counts))
        right, made, true = counts.sum(0)
        table.append([name, f"{f1(counts.sum(0)):.1f} [{low:.1f}, {high:.1f}]", f"{right / max(made, 1):.0%}",
                      f"{right / true:.0%}"])  # fmt: skip
    return table


# Speed and memory


def wiki_text(folder: Path, characters: int) -> str:
    rows = rows_of(folder / "segmentation_wiki50.jsonl.gz")
    text = " ".join(sentence for row in rows for segment in row["segments"] for sentence in segment)
    return (text * (characters // len(text) + 1))[:characters]


def speed(folder: Path, kept: Kept) -> str:
    entry = kept.part("speed", code_version())
    if "seconds" not in entry:
        from headscope.segmentation import Segmenter

        cutter, text = Segmenter(headscope.load()), wiki_text(folder, SPEED_TEXT)
        cutter.split(text[:5000])
        seconds = []
        for done in range(ROUNDS):
            begun = time.perf_counter()
            cutter.split(text)
            seconds.append(time.perf_counter() - begun)
            progress("speed", done + 1, ROUNDS, begun)
        tokens = len(cutter.model.tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"])
        entry.update(tokens=tokens, seconds=seconds, threads=torch.get_num_threads())
        kept.save()
    each = [entry["tokens"] / seconds for seconds in entry["seconds"]]
    return (f"{median(each):,.0f} tokens/s ({min(each):,.0f} to {max(each):,.0f}, {len(each)} rounds), {SPEED_TEXT:,} "
            f"characters of Wiki-50, {entry['tokens']:,} tokens, {entry['threads']} threads.")  # fmt: skip


def memory(folder: Path, kept: Kept) -> str:
    entry = kept.part("memory", code_version())
    if "peak" not in entry:
        print("memory: a document of 1 MB in a process of its own", file=sys.stderr)
        with tempfile.NamedTemporaryFile("w", suffix=".txt", encoding="utf-8") as file:
            file.write(wiki_text(folder, MEMORY_TEXT))
            file.flush()
            command = [sys.executable, "-c", MEMORY, file.name]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(f"the process that measures memory failed:\n{done.stderr}")
        before, peak, seconds, segments = map(float, done.stdout.split())
        entry.update(before=before, peak=peak, seconds=seconds, segments=segments)
        kept.save()
    sizes = f"{entry['peak']:,.0f} MB at most, {entry['before']:,.0f} MB before it is read (Python, torch, model)"
    cut = f"{entry['segments']:,.0f} segments in {entry['seconds']:.0f} s"
    return f"{sizes}, for a document of {MEMORY_TEXT:,} characters: {cut}."


# The page


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    return "\n".join([f"| {' | '.join(heads)} |", "|---" * len(heads) + "|", *(f"| {' | '.join(r)} |" for r in rows)])


def cuts_table(documents: Sequence[Document], group: str, made: Sequence[Contender], kept: Kept, scoring: str) -> str:
    rows: dict[str, list[str]] = {}
    for contender in made:
        ends = kept.content[contender.key]["ends"]
        scores = [score(each, ends[each.id], scoring) for each in documents]
        row = rows.setdefault(contender.name, [contender.name, "–", "–", "–", "–"])
        place = 3 if contender.known else 1
        row[place : place + 2] = [mean_of([each[k] for each in scores]) for k in range(2)]
    for name, by_range in PUBLISHED.items():
        if group in by_range:
            unknown, known = (str(each or "–") for each in by_range[group])
            rows[name] = [name, unknown, "–", known, "–"]
    return table(["", "Pk", "WindowDiff", "Pk, number known", "WindowDiff, number known"], rows.values())


def controls_table(by_set: dict[str, list[Document]], kept: Kept) -> str:
    rows = []
    for name, key, published in CONTROLS:
        ends = kept.content[key]["ends"]
        both = [np.mean([score(each, ends[each.id], way)[0] for each in by_set[name]]) for way in ("sentences", "gaps")]
        rows.append([f"{name}: {key}", f"{published}", *(f"{value:.2f}" for value in both)])
    return table(["control, Pk", "published", "by sentences", "by gaps"], rows)


def page(args: argparse.Namespace, documents: list[Document], made: list[Contender], kept: Kept) -> str:
    by_set = {"Choi": [each for each in documents if each.group != WIKI]}
    by_set |= {group: [each for each in documents if each.group == group] for group in (*RANGES, WIKI)}
    packages = ["headscope", "torch", "transformers", "nltk", "langchain-experimental", "scikit-learn", "sentencex"]
    versions = ", ".join(f"{name} {version(name)}" for name in packages)
    learned = {f"- {each.name}: {note}" for each in made if (note := kept.content[each.key].get("note"))}
    parts = [
        "# Cutting texts",
        f"`python benchmarks/segmentation.py --passages {args.passages}"
        f"{f' --limit {args.limit}' if args.limit else ''}` makes this page. Pk and "
        "WindowDiff by nltk, in per cent, less is better, means over documents with 95 % intervals by drawing them "
        f"again ({DRAWS:,} draws, seed {SEED}). Scored by {args.scoring}. C99's and TextTiling's published numbers are "
        "of Choi 2000, Table 8, whose Pk may count otherwise.",
        f"Python {sys.version.split()[0]}, {versions}; {os.cpu_count()} cores.",
        "\n".join(["Weights were learned from:", "", *sorted(learned)]),
        "## Controls, published and here",
        controls_table(by_set, kept),
    ]
    for name, own in by_set.items():
        title = name if name in ("Choi", WIKI) else f"Choi {name}"
        parts += [f"## {title}: {len(own)} documents", cuts_table(own, name, made, kept, args.scoring)]
    if not args.only_topics:
        found = sentences(args.data, args.limit, kept)
        parts += ["## Sentences without punctuation or case", table(["", "F1", "precision", "recall"], found)]
        parts += ["## Speed", speed(args.data, kept), "## Memory", memory(args.data, kept)]
    return "\n\n".join(parts) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"), help="the folder that has the documents")
    parser.add_argument(
        "--texts", type=Path, help="what weights are learned from; wikipedia_heldout.jsonl.gz of --data"
    )
    parser.add_argument("--passages", type=int, default=4000, help="how many passages of these")
    parser.add_argument("--device", default="cpu", help="where sentences are read; speed and memory are the cores' own")
    parser.add_argument("--cache", type=Path, help="a folder for what models made of sentences; a temporary one")
    parser.add_argument("--out", type=Path, default=Path("docs/results/segmentation.md"))
    parser.add_argument("--json", type=Path, default=Path("build/segmentation.json"), help="where cuts are kept")
    parser.add_argument("--limit", type=int, help="so many documents of each range, for a quick look")
    parser.add_argument("--scoring", choices=("sentences", "gaps"), default="gaps")
    parser.add_argument("--only", default="", help="contenders whose name has this in it, besides the controls")
    parser.add_argument("--without", default=None, help="leave out contenders whose name has this in it")
    parser.add_argument("--only-topics", action="store_true", help="neither sentences nor speed nor memory")
    args = parser.parse_args()
    documents = documents_of(args.data, args.limit)
    texts = args.texts or args.data / "wikipedia_heldout.jsonl.gz"
    kept = Kept(args.json)
    with tempfile.TemporaryDirectory() as temporary:
        folder = args.cache or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        controls = {key for _, key, _ in CONTROLS}
        made = [
            each
            for each in contenders(folder, texts, args.passages, args.device)
            if (args.only in each.name and not (args.without and args.without in each.name)) or each.key in controls
        ]
        for contender in made:
            cut_all(contender, documents, kept)
        text = page(args, documents, made, kept)
    print(text)
    write_whole(args.out, text)


if __name__ == "__main__":
    main()
