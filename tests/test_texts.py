"""Collections of texts: every kind of file, compressed or not, streams, samples, and what is not a text."""

from __future__ import annotations

import csv
import gzip
import io
import json
import lzma
import os
import subprocess
import sys
import threading
from collections import Counter
from itertools import count, islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headscope.errors import HeadscopeError
from headscope.texts import Bad, Corpus, Record, check_text, open_texts
from headscope.texts.corpus import MOST_GROUPS, open_paths
from headscope.texts.readers import LONGEST_LINE

ROWS = [
    {"id": "a", "text": "It rains.\nIt pours.", "group": "wet"},
    {"id": "b", "text": "Die Straße, „naß“; a \"quoted\" word.", "group": "wet"},
    {"id": "c", "text": "日本語の文。", "group": "dry"},
]  # fmt: skip


def zstd(data: bytes) -> bytes:
    return pa.Codec("zstd").compress(data).to_pybytes()


PACK = {"": bytes, ".gz": gzip.compress, ".xz": lzma.compress, ".zst": zstd}


def jsonl() -> bytes:
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in ROWS).encode()


def comma(delimiter: str) -> bytes:
    held = io.StringIO()
    writer = csv.DictWriter(held, ["id", "text", "group"], delimiter=delimiter)
    writer.writeheader()
    writer.writerows(ROWS)
    return held.getvalue().encode()


def good(corpus: Corpus) -> list[Record]:
    return [record for record in corpus.records() if isinstance(record, Record)]


def bad(corpus: Corpus) -> list[Bad]:
    return [record for record in corpus.records() if isinstance(record, Bad)]


@pytest.mark.parametrize("packed", PACK)
@pytest.mark.parametrize("kind", ["jsonl", "ndjson", "csv", "tsv"])
def test_tables_of_texts(kind: str, packed: str, tmp_path: Path) -> None:
    content = jsonl() if kind.endswith("json") or kind == "jsonl" else comma("\t" if kind == "tsv" else ",")
    file = tmp_path / f"texts.{kind}{packed}"
    file.write_bytes(PACK[packed](content))
    found = good(open_texts(file, group_field="group"))
    assert [(r.id, r.text, r.group) for r in found] == [(r["id"], r["text"], r["group"]) for r in ROWS]
    assert {r.group for r in good(open_texts(str(file)))} == {""}


def test_parquet(tmp_path: Path) -> None:
    file = tmp_path / "texts.parquet"
    pq.write_table(pa.Table.from_pylist([*ROWS, {"id": "d", "text": None, "group": "dry"}]), file)
    corpus = open_texts(file, group_field="group")
    assert [(r.id, r.text, r.group) for r in good(corpus)] == [(r["id"], r["text"], r["group"]) for r in ROWS]
    assert str(bad(corpus)[0]) == "texts.parquet:row 4: the text is not a string but missing"
    with pytest.raises(HeadscopeError, match=r"no column 'body'.*--text-field: id, text, group"):
        good(open_texts(file, text_field="body"))
    raw = pa.array([b"Fine.", b"not \xff UTF-8"]).view(pa.string())
    pq.write_table(pa.table({"text": raw}), file)
    assert [r.text for r in good(open_texts(file))] == ["Fine."]
    assert bad(open_texts(file))[0].why == "the text is not UTF-8"


@pytest.mark.parametrize("kind", ["jsonl", "csv", "parquet", "mappings"])
def test_clusters_are_read_from_a_field(kind: str, tmp_path: Path) -> None:
    file: Any = tmp_path / f"texts.{kind}"
    if kind == "jsonl":
        file.write_bytes(jsonl())
    elif kind == "csv":
        file.write_bytes(comma(","))
    elif kind == "parquet":
        pq.write_table(pa.Table.from_pylist(ROWS), file)
    else:
        file = ROWS
    corpus = open_texts(file, cluster_field="group")
    assert [(r.group, r.cluster) for r in good(corpus)] == [("", row["group"]) for row in ROWS]
    assert {r.cluster for r in good(open_texts(file))} == {""}
    wrong = open_texts(file, cluster_field="article")
    if kind in ("csv", "parquet"):
        with pytest.raises(HeadscopeError, match=r"no column 'article'.*--cluster-field"):
            good(wrong)
    else:
        assert [b.why for b in bad(wrong)] == ["there is no field 'article' (it has: id, text, group)"] * 3


def test_what_names_a_cluster() -> None:
    items = [{"text": "One.", "c": 7}, {"text": "Two.", "c": ""}, {"text": "Three.", "c": None},
             {"text": "Four.", "c": ["x"]}, {"text": "Five.", "c": "x" * 300}, {"text": "Six.", "c": "x" * 299 + "y"},
             Record("r", "Seven.", cluster="own")]  # fmt: skip
    corpus = open_texts(items, cluster_field="c")
    found = [record.cluster for record in good(corpus)]
    assert found[:2] == ["7", ""]
    assert found[2] != found[3]  # long names are not cut where they differ
    assert all(len(name) <= 200 for name in found)
    assert found[4] == "own"
    assert [b.why for b in bad(corpus)] == [
        "the cluster is not a string but missing",
        "the cluster is not a string but list",
    ]


PLAIN = "\ufeffOne. Two.\nThree.\n\n\nFour\r\nfive.\n"


@pytest.mark.parametrize(
    ("split", "expected"),
    [
        ("line", ["One. Two.", "Three.", "Four", "five."]),
        ("paragraph", ["One. Two.\nThree.", "Four\r\nfive."]),
        ("file", ["One. Two.\nThree.\n\n\nFour\r\nfive."]),
    ],
)
@pytest.mark.parametrize("packed", PACK)
def test_plain_text(split: str, expected: list[str], packed: str, tmp_path: Path) -> None:
    file = tmp_path / f"a.txt{packed}"
    file.write_bytes(PACK[packed](PLAIN.encode()))
    assert [r.text for r in good(open_texts(file, split=split))] == expected


def test_a_paragraph_that_is_too_long_is_bad_and_the_next_is_read(tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    for long in ("x" * 16_000_001, "short head.\n" + ("y " * 1000 + "\n") * 9_000 + "more"):
        file.write_text(f"Before.\n\n{long}\n\nGood one.\n\nGood two.\n")
        corpus = open_texts(file, split="paragraph")
        assert [r.text for r in good(corpus)] == ["Before.", "Good one.", "Good two."]
        assert "more than 16,000,000 characters" in bad(corpus)[0].why


def test_a_pipe_is_read_once(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe.txt"
    os.mkfifo(pipe)
    writer = threading.Thread(target=lambda: pipe.write_text("One.\nTwo.\n"))
    writer.start()
    corpus = open_texts(pipe)
    assert not corpus.repeatable
    assert not corpus.survey().known
    assert [r.text for r in good(corpus)] == ["One.", "Two."]
    writer.join()


def test_a_text_given_as_a_path_is_told(tmp_path: Path) -> None:
    for text in ("word " * 100, "word " * 2000):
        with pytest.raises(HeadscopeError, match=r"no file or folder|is not a path"):
            open_texts(text)


def test_folders_and_patterns_are_read_in_order(tmp_path: Path) -> None:
    for name in ("b.txt", "a.txt", "sub/c.jsonl", "sub/.hidden/d.txt", "picture.png"):
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text('{"text": "From c."}' if name.endswith("jsonl") else f"From {name}.")
    assert [r.text for r in good(open_texts(tmp_path))] == ["From a.txt.", "From b.txt.", "From c."]
    assert [r.text for r in good(open_texts(str(tmp_path / "*.txt")))] == ["From a.txt.", "From b.txt."]
    both = open_paths([str(tmp_path / "b.txt"), str(tmp_path / "sub")])
    assert [r.text for r in good(both)] == ["From b.txt.", "From c."]
    for wrong in (str(tmp_path / "*.nothing"), str(tmp_path / "nowhere")):
        with pytest.raises(HeadscopeError, match=r"no file"):
            open_texts(wrong)
    with pytest.raises(HeadscopeError, match="not of a known format"):
        good(open_texts(tmp_path / "picture.png"))
    (tmp_path / "empty").mkdir()
    with pytest.raises(HeadscopeError, match="holds no texts"):
        open_texts(tmp_path / "empty")


@pytest.mark.parametrize("packed", PACK)
def test_standard_input(packed: str) -> None:
    script = (
        "from headscope.texts import open_texts\n"
        "for r in open_texts('-', format='jsonl', group_field='group').records(): print(r.id, r.group)"
    )
    done = subprocess.run([sys.executable, "-c", script], input=PACK[packed](jsonl()), capture_output=True, check=True)
    assert done.stdout.decode().split() == ["a", "wet", "b", "wet", "c", "dry"]


def test_a_stream_is_read_no_further_than_needed() -> None:
    read = []

    def endless() -> Any:
        for number in count():
            read.append(number)
            yield f"Text number {number}."

    assert len(good(open_texts(endless(), limit=5))) == 5
    assert len(read) == 5


def test_a_huge_line_is_bad_and_not_held(tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl.gz"
    with gzip.open(file, "wb", compresslevel=1) as out:
        out.write(b'{"text": "Before."}\n')
        for _ in range(4 * (LONGEST_LINE >> 20)):
            out.write(b"x" * (1 << 20))
        out.write(b'\n{"text": "After."}\n')
    corpus = open_texts(file)
    assert [r.text for r in good(corpus)] == ["Before.", "After."]
    assert "more than 16 MB" in bad(corpus)[0].why


def test_bad_records_are_told_by_place_and_reason(tmp_path: Path) -> None:
    lines = [
        b'{"text": "Fine."}',
        b"not json",
        b'{"body": "x"}',
        b'{"text": 7}',
        b'{"text": ""}',
        b'{"text": "a\\u0000b"}',
        b"[1, 2]",
        b'{"text": "\xff"}',
        b"[" * 100_000,
        b'{"text": "' + b"word " * 900_000 + b'"}',
        b'"A string is a text too."',
        b'{"text": "half \\ud800"}',
    ]
    file = tmp_path / "a.jsonl"
    file.write_bytes(b"\n".join(lines))
    corpus = open_texts(file)
    assert [r.text for r in good(corpus)] == ["Fine.", "A string is a text too."]
    reasons = [str(b) for b in bad(corpus)]
    assert [reason.split(": ")[0] for reason in reasons] == [f"a.jsonl:{n}" for n in (2, 3, 4, 5, 6, 7, 8, 9, 10, 12)]
    for reason, word in zip(
        reasons,
        ["not JSON", "no field 'text' (it has: body)", "not a string but int", "empty", "control character",
         "holds list", "not UTF-8", "not JSON", "4,500,000 characters", "half a character"], strict=True,
    ):  # fmt: skip
        assert word in reason
    survey = corpus.survey()
    assert (survey.texts, survey.bad, len(survey.first_bad)) == (2, 10, 5)


def test_damaged_archives_say_so(tmp_path: Path) -> None:
    whole = "".join(f'{{"text": "Text number {n} of many."}}\n' for n in range(5000)).encode()
    for suffix, pack in PACK.items():
        if not suffix:
            continue
        file = tmp_path / f"a.jsonl{suffix}"
        file.write_bytes(pack(whole)[:-20])
        with pytest.raises(HeadscopeError, match=r"damaged|cannot be read"):
            good(open_texts(file))
    broken = tmp_path / "a.parquet"
    broken.write_bytes(b"PAR1 nothing of the kind")
    with pytest.raises(HeadscopeError, match="damaged or not a Parquet file"):
        good(open_texts(broken))


def test_what_python_may_hand_over() -> None:
    items = ["One.", ("b", "Two."), ("c", "Three.", "x"), {"id": 4, "text": "Four."}, Record("e", "Five."), b"no", 3,
             None, ("too", "many", "things", "here"), {"text": None}]  # fmt: skip
    corpus = open_texts(items)
    assert [(r.id, r.text, r.group) for r in good(corpus)] == [
        ("item 0", "One.", ""), ("b", "Two.", ""), ("c", "Three.", "x"), ("4", "Four.", ""), ("e", "Five.", ""),
    ]  # fmt: skip
    assert len(bad(corpus)) == 5
    with pytest.raises(HeadscopeError, match="not a collection"):
        open_texts(7)


def test_samples_are_seeded_fair_and_in_order() -> None:
    texts = [f"Text {n}." for n in range(40)]
    first = [r.text for r in good(open_texts(texts, sample=10, seed=3))]
    assert first == [r.text for r in good(open_texts(texts, sample=10, seed=3))]
    assert first == [r.text for r in good(open_texts(iter(texts), sample=10, seed=3))]  # a stream gives the same
    assert first == sorted(first, key=texts.index)
    assert len(first) == len(set(first)) == 10
    assert len(good(open_texts(texts, sample=100))) == 40
    drawn = Counter(r.text for seed in range(400) for r in good(open_texts(texts, sample=10, seed=seed)))
    assert all(60 <= drawn[text] <= 140 for text in texts)  # 100 expected, standard deviation 8.7
    assert len(good(open_texts(texts, limit=20, sample=15))) == 15
    assert all(texts.index(r.text) < 20 for r in good(open_texts(texts, limit=20, sample=15)))


def test_the_fingerprint_is_of_texts_and_groups() -> None:
    one = open_texts([("a", "One.", "x"), ("b", "Two.", "x")]).survey().fingerprint
    assert one == open_texts([("c", "One.", "x"), ("d", "Two.", "x")]).survey().fingerprint
    assert one != open_texts([("a", "Two.", "x"), ("b", "One.", "x")]).survey().fingerprint
    assert one != open_texts([("a", "One.", "x"), ("b", "Two.", "y")]).survey().fingerprint
    clustered = [{"text": "One.", "g": "x", "c": "p"}, {"text": "Two.", "g": "x", "c": "p"}]
    assert one == open_texts(clustered, group_field="g").survey().fingerprint
    assert one != open_texts(clustered, group_field="g", cluster_field="c").survey().fingerprint


def test_a_field_with_a_value_for_every_text_is_no_group() -> None:
    with pytest.raises(HeadscopeError, match=f"more than {MOST_GROUPS} groups"):
        open_texts([(str(n), "Text.", str(n)) for n in range(200)]).survey()


def test_a_hugging_face_data_set_in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("datasets", reason="the package datasets is not installed")
    monkeypatch.setenv("HF_HOME", str(tmp_path / "home"))
    folder = tmp_path / "set"
    folder.mkdir()
    (folder / "train.jsonl").write_bytes(jsonl())
    found = good(open_texts(f"hf:{folder}", group_field="group"))
    assert [(r.id, r.group) for r in found] == [(r["id"], r["group"]) for r in ROWS]
    with pytest.raises(HeadscopeError, match="cannot be read"):
        good(open_texts("hf:nobody/no-such-set-anywhere"))


@settings(max_examples=200, deadline=None)
@given(st.text())
def test_check_text_knows_what_it_refuses(text: str) -> None:
    foreign = [c for c in text if (ord(c) < 32 and c not in "\t\n\v\f\r\x1c\x1d\x1e\x1f") or 0x7F <= ord(c) <= 0x84
               or 0x86 <= ord(c) <= 0x9F or 0xD800 <= ord(c) <= 0xDFFF]  # fmt: skip
    if foreign or not text.strip():
        with pytest.raises(HeadscopeError):
            check_text(text)
    else:
        check_text(text)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.binary(max_size=60), max_size=8), st.sampled_from(["jsonl", "csv", "txt"]))
def test_random_bytes_never_crash_a_reader(lines: list[bytes], kind: str) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / f"a.{kind}"
        file.write_bytes((b"id,text,group\n" if kind == "csv" else b"") + b"\n".join(lines))
        try:
            for record in islice(open_texts(file).records(), 1000):
                assert isinstance(record, (Record, Bad))
        except HeadscopeError as error:
            assert "damaged" in str(error) or "not CSV" in str(error) or "no column" in str(error)  # noqa: PT017
    assert os.path.exists(os.curdir)


def test_texts_that_are_open_already_are_limited_and_sampled_again() -> None:
    corpus = open_texts([f"Text {k}." for k in range(10)], limit=8)
    assert [record.text for record in open_texts(corpus, limit=3).records()] == ["Text 0.", "Text 1.", "Text 2."]
    assert open_texts(corpus, limit=20).survey().texts == 8
    drawn = [record.text for record in open_texts(corpus, sample=4, seed=1).records()]
    assert len(drawn) == 4
    assert open_texts(corpus) is corpus
    for options in (
        {"text_field": "body"},
        {"group_field": "kind"},
        {"cluster_field": "a"},
        {"split": "file"},
        {"format": "csv"},
    ):
        with pytest.raises(HeadscopeError, match="is open already"):
            open_texts(corpus, **options)


@pytest.mark.parametrize(
    ("texts", "name"), [(["A text."], "a list of texts"), ((t for t in ["A text."]), "a generator of texts")]
)
def test_what_a_program_gives_has_a_name_that_reads_well(texts: Any, name: str) -> None:
    """It stands in sentences: “64 texts of a list of texts”."""
    assert open_texts(texts).name == name
