"""Clean Wikipedia articles and split them into training text and held-out text.

Input:  one or more JSON Lines files of articles: {"id": ..., "title": ..., "paras": [paragraph, ...]}
Output: OUT/train.txt and OUT/valid.txt, one sentence per line and an empty line after each article,
        and OUT/valid_ids.txt, the ids of the held-out articles.

Held out: the articles named by the first lines of --holdout (JSON Lines with "article_id" and "title").
Dropped:  the articles whose "id" is in a --drop file, repeated titles, and every paragraph that is not prose.
"""

import argparse
import itertools
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from conventions import InputError, existing_file, run_script

# A full stop after one of these does not end a sentence. The first two are single letters: initials, "e.g.".
ABBREVIATIONS = (
    *("[A-Z]", "[a-z]", "Mr", "Mrs", "Dr", "St", "No", "vs"),
    *("Jr", "Sr", "Lt", "Gen", "Col", "Rev", "etc", "ca"),
)
NOT_AFTER_ABBREVIATION = "".join(rf"(?<!\b{word}\.)" for word in ABBREVIATIONS)
AFTER_STOP = rf"(?<=[.!?]){NOT_AFTER_ABBREVIATION}"
AFTER_QUOTED_STOP = r"(?<=[.!?][\"')])"
SENTENCE_BREAK = re.compile(rf"(?:{AFTER_STOP}|{AFTER_QUOTED_STOP})\s+(?=[\"'(]?[A-Z0-9])")

# Extraction from wiki markup leaves traces: "formula_3", stray braces and tags, "( ; )" for lost sounds.
MARKUP = re.compile(r"formula_\d|[{}|<>]|&lt;|&gt;|\[\[|\]\]")
EMPTY_BRACKETS = re.compile(r"\s*\((?:[\s;,:]*)\)")
BRACKET_THEN_COMMA = re.compile(r"\(\s*[;,]\s*")

FEWEST_WORDS = 10
LARGEST_SHARE_OF_DIGITS = 0.12


def clean_paragraph(paragraph: str) -> str | None:
    """The paragraph without traces of markup, or None where it is not prose.

    Headings and list items are short or lack a closing stop; tables and results are mostly digits. A language
    model would spend its capacity on their layout.
    """
    text = BRACKET_THEN_COMMA.sub("(", EMPTY_BRACKETS.sub("", paragraph)).strip()
    words = text.split()
    if len(words) < FEWEST_WORDS or text[-1] not in ".!?\"')" or MARKUP.search(text):
        return None
    if sum(character.isdigit() for character in text) > LARGEST_SHARE_OF_DIGITS * len(text):
        return None
    return " ".join(words)


def split_sentences(paragraph: str) -> list[str]:
    """Cut at a stop that is followed by a capital or a digit, unless an abbreviation carries the stop."""
    return SENTENCE_BREAK.split(paragraph)


def read_records(path: Path, fields: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Yield the records of a JSON Lines file, each checked for the fields that are about to be used."""
    with path.open(encoding="utf-8") as file:
        for number, line in enumerate(file, start=1):
            try:
                record = json.loads(line)
            except json.JSONDecodeError as error:
                raise InputError(f"{path}, line {number}: not JSON ({error})") from error
            missing = [field for field in fields if not isinstance(record, dict) or field not in record]
            if missing:
                raise InputError(f"{path}, line {number}: no field {', '.join(missing)}")
            yield record


def split_articles(
    articles: Iterable[dict[str, Any]],
    held_out: Sequence[dict[str, Any]],
    dropped_ids: set[str],
    out: Path,
) -> Counter[str]:
    """Write the three output files and count what became of each article.

    Held-out articles are matched by id and by title, and a title counts once: the same article may appear in
    extracts of different years, and must not end up on both sides of the split.
    """
    held_ids = {record["article_id"] for record in held_out}
    held_titles = {record["title"] for record in held_out}
    seen_titles: set[str] = set()
    count: Counter[str] = Counter(train=0, valid=0, dropped=0, duplicate=0, empty=0)
    with (
        (out / "train.txt").open("w", encoding="utf-8") as train,
        (out / "valid.txt").open("w", encoding="utf-8") as valid,
        (out / "valid_ids.txt").open("w", encoding="utf-8") as valid_ids,
    ):
        for article in articles:
            if article["id"] in dropped_ids:
                count["dropped"] += 1
                continue
            if article["title"] in seen_titles:
                count["duplicate"] += 1
                continue
            seen_titles.add(article["title"])
            paragraphs = [text for text in map(clean_paragraph, article["paras"]) if text]
            if not paragraphs:
                count["empty"] += 1
                continue
            is_held_out = article["id"] in held_ids or article["title"] in held_titles
            count["valid" if is_held_out else "train"] += 1
            if is_held_out:
                valid_ids.write(f"{article['id']}\n")
            target = valid if is_held_out else train
            for paragraph in paragraphs:
                target.write("\n".join(split_sentences(paragraph)) + "\n")
            target.write("\n")
    return count


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("articles", nargs="+", type=Path, help="JSON Lines of articles")
    parser.add_argument("--holdout", type=Path, required=True, help="JSON Lines naming the held-out articles")
    parser.add_argument("--holdout-lines", type=int, default=2000, help="lines of --holdout that count")
    parser.add_argument("--drop", type=Path, nargs="*", default=[], help="JSON Lines naming articles to drop")
    parser.add_argument("--out", type=Path, required=True, help="the folder to write")
    arguments = parser.parse_args(argv)

    for path in (*arguments.articles, arguments.holdout, *arguments.drop):
        existing_file(path, "JSON Lines")
    held_records = read_records(arguments.holdout, ("article_id", "title"))
    held_out = list(itertools.islice(held_records, arguments.holdout_lines))
    dropped_ids = {record["id"] for path in arguments.drop for record in read_records(path, ("id",))}
    fields = ("id", "title", "paras")
    articles = (article for path in arguments.articles for article in read_records(path, fields))
    arguments.out.mkdir(parents=True, exist_ok=True)
    count = split_articles(articles, held_out, dropped_ids, arguments.out)
    print(", ".join(f"{name} {number}" for name, number in count.items()))


if __name__ == "__main__":
    raise SystemExit(run_script(main))
