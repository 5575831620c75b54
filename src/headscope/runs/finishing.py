"""Finishing: all shards become one result, and only then the run is called finished."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any

from headscope.errors import HeadscopeError, counted
from headscope.measures.variables import MATRIX, Shape, variable
from headscope.result.merge import write_result
from headscope.result.rows import HEADS, TEXTS, join_tables
from headscope.result.schema import FILE
from headscope.runs.engine import Engine
from headscope.runs.executing import Execution
from headscope.runs.folder import SUMS, FinishedShard, FolderShards
from headscope.runs.planning import check_bad
from headscope.stores.disk import KEPT_REMEDY
from headscope.texts.records import NAMED, BadRecords

BAD = "bad.jsonl"  # the records that were left out


def finish(done: Execution, engine: Engine, shapes: Mapping[str, Shape], strict: bool) -> None:
    """Put the shards together, write down that the run is finished, remove them."""
    shards, texts, folder, manifest = done.check_all(), done.texts, done.folder, done.manifest
    refused = [line for shard in shards for line in shard.refused]
    bad = texts.survey.bad_records if texts.survey.known else texts.bad
    first = [*bad.first, *refused][:NAMED]
    number = sum(shard.texts for shard in shards)
    check_bad(number, bad.number + len(refused), first, strict, texts.corpus.name)
    if not sum(shard.windows for shard in shards):
        raise HeadscopeError(f"no window could be made of any text: {'; '.join(refused[:3])}", "check the texts")
    about = manifest.texts | {
        "texts": number - len(refused),
        "bad": bad.number,
        "first_bad": bad.first,
        "refused": len(refused),
        "tokens": sum(shard.tokens for shard in shards),
        "tokens_read": sum(shard.tokens_read for shard in shards),
        "familiar_of": sum(shard.familiar_of for shard in shards),
        "unfamiliar": sum(shard.unfamiliar for shard in shards),
        "duplicates": texts.survey.duplicates if texts.survey.known else None,
        "clusters": done.clusters.number,
        "clusters_again": done.clusters.again,
    }

    def words(ids: Iterable[int]) -> list[str]:
        return engine.token_text(list(ids))

    with folder.making(FILE, result_bytes(shards, shapes)) as file:
        write_result(
            file,
            [FolderShards(folder, shards, shapes, done.added)],
            shapes,
            _header(done, about),
            words,
            remedy=KEPT_REMEDY,
        )
    files = [FILE]
    if manifest.plan.per_text:
        for name in (HEADS, TEXTS):
            with folder.making(name) as file:
                join_tables(folder.tables(name, shards), file, remedy=KEPT_REMEDY)
            files.append(name)
    manifest.finished = True
    manifest.files = {name: str(folder.hash_of(name)) for name in files}
    manifest.shards = [shard.hash for shard in shards]
    if bad.number or refused:
        with folder.making(BAD) as file:
            file.write_text(bad_lines(bad, refused), encoding="utf-8")
    folder.write_manifest(manifest)
    folder.remove_shards()
    if bad.number or refused:
        left_out = bad.number + len(refused)
        named = "; ".join([*bad.first, *refused][:NAMED])
        where = f"{folder.name.rstrip('/')}/{BAD}"
        done.progress.say(
            f"{counted(left_out, 'bad record')} {'was' if left_out == 1 else 'were'} left out: {named}; see {where}"
        )
    if about["clusters_again"]:
        done.progress.say(
            f"{about['clusters_again']:,} of {about['clusters']:,} clusters come again in another shard, so that "
            "intervals may be too narrow: put the texts of a cluster next to each other (and in one group)"
        )


def bad_lines(bad: BadRecords, refused: list[str]) -> str:
    """Every bad record as a line of JSON: file, line or row, and what is wrong with it."""
    told = [*bad.kept, *({"where": line.partition(": ")[0], "why": line.partition(": ")[2]} for line in refused)]
    if bad.number > len(bad.kept):
        told.append({"more": bad.number - len(bad.kept)})
    return "".join(json.dumps(each, ensure_ascii=False) + "\n" for each in told)


def _header(done: Execution, texts: Mapping[str, Any]) -> dict[str, Any]:
    """What a result says of itself. Nothing of it depends on who computed it."""
    manifest = done.manifest
    return {
        "title": "headscope analysis of a collection of texts",
        "source": "Halevi, Tzach, Gross, Rosner and Kanter, arXiv:2512.21956",
        "headscope": manifest.versions["headscope"],
        "settings": manifest.settings,
        "model": manifest.model,
        "texts": texts,
        "plan": asdict(manifest.plan),
        "versions": manifest.versions,
    }


def result_bytes(shards: list[FinishedShard], shapes: Mapping[str, Shape]) -> int:
    """At most so large is the result: what shards hold, once each in blocks, in all and in groups.

    Added, counts take no more room than apart; a mean matrix takes the same, of however many shards.
    """
    half = sum(  # of a mean matrix, the half that is filled
        len(s.layers) * s.heads * s.length * (s.length - 1) * 4 for s in shapes.values() if variable(MATRIX).is_of(s)
    )
    others = sum(max(shard.files[SUMS][1] - half, 0) for shard in shards)
    groups = len({shard.group for shard in shards})
    return 2 * (others + half) if groups == 1 else 3 * others + 2 * half * (1 + groups)


def is_finished(done: Execution) -> bool:
    """Whether the run is finished and its files are whole; what is not is computed again."""
    manifest, folder = done.manifest, done.folder
    if not manifest.finished:
        return False
    for name, hash_ in manifest.files.items():
        if folder.hash_of(name) != hash_:
            done.progress.say(f"{name} is missing or damaged: the run is computed again")
            manifest.finished = False
            return False
    return True
