"""Documents as people have them: folders with stray files, encodings, long texts, tables from a spreadsheet."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import headscope
from headscope import HeadscopeError
from headscope.cli import main
from headscope.texts import Bad, Corpus, Record, open_texts, read_text
from headscope.texts.encodings import encoding_of
from headscope.windows import corpus_windows, window
from headscope.windows.tokens import PIECE, pieces_of

Tiny = Callable[[str], headscope.Model]
FRENCH = "Le café était fermé, hélas; nous sommes rentrés à pied, déçus. Numéro {}."
PLAIN = "The lamp in the old harbour was lit again, number {}. The boats came home."


def good(corpus: Corpus) -> list[Record]:
    return [record for record in corpus.records() if isinstance(record, Record)]


def bad(corpus: Corpus) -> list[Bad]:
    return [record for record in corpus.records() if isinstance(record, Bad)]


# ---------------------------------------------------------------------- folders


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """5,000 files of texts in three encodings, stray files among them."""
    folder = tmp_path_factory.mktemp("archive")
    for number in range(5000):
        file = folder / f"{number // 100:02}" / f"{number}.txt"
        file.parent.mkdir(exist_ok=True)
        if number % 10 == 3:
            file.write_bytes(FRENCH.format(number).encode("cp1252"))
        elif number % 10 == 7:
            file.write_bytes(PLAIN.format(number).encode("utf-16"))
        else:
            file.write_text(PLAIN.format(number).replace(". ", ".\n\n") + " Ça va?", encoding="utf-8")
    for stray in (
        ".DS_Store",
        "00/scan.pdf",
        "00/thesis.docx",
        "01/notes.md",
        "02/page.html",
        "03/photo.jpg",
        "README",
    ):
        (folder / stray).write_bytes(b"%PDF-1.7 \x00\x01")
    (folder / "04" / "noise.txt").write_bytes(bytes(range(256)) * 4)
    (folder / "05" / "empty.txt").write_text("\n")
    (folder / ".git").mkdir()
    (folder / ".git" / "config.txt").write_text("not looked at")
    return folder


def test_a_folder_of_five_thousand_files(archive: Path, tiny: Tiny, tmp_path: Path) -> None:
    corpus = open_texts(archive)
    survey = corpus.survey()
    assert (survey.texts, survey.bad, survey.duplicates) == (5000, 2, 0)
    assert survey.encodings == {"cp1252": 500, "utf-16": 500}
    texts = {record.id: record.text for record in good(corpus)}
    assert texts["00/3.txt"] == FRENCH.format(3)
    assert texts["49/4997.txt"] == PLAIN.format(4997)
    assert "again, number 1000.\n\nThe boats" in texts["10/1000.txt"]
    assert corpus.note == (
        "7 files that are not texts were skipped (2 without a suffix, 1 .pdf, 1 .docx, 1 .md, 1 .html, 1 .jpg): "
        ".DS_Store, 00/scan.pdf, 00/thesis.docx …; to have the text of such files: pdftotext FILE.pdf FILE.txt; "
        "pandoc FILE.docx -t plain --wrap=none -o FILE.txt; pandoc FILE.md -t plain --wrap=none -o FILE.txt; "
        "pandoc FILE.html -t plain --wrap=none -o FILE.txt"
    )
    said = survey.notes
    assert said == ["1,000 files are not UTF-8 and are read as what they seem to be: cp1252 (500), utf-16 (500); "
                    "--encoding names another"]  # fmt: skip


def test_a_run_of_a_folder_tells_what_it_left_out(
    archive: Path, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    told = [str(archive / name) for name in ("03", "04", "05")]
    assert main(["analyze", *told, "--model", str(folder), "--out", str(out), "--window", "16", "--layers", "0"]) == 0
    printed, said = capsys.readouterr()
    assert "300 windows of 300 texts, 2 bad records left out" in printed
    assert "1 file that is not a text was skipped (1 .jpg): photo.jpg" in said
    assert "2 bad records were left out: noise.txt:2: the file is not UTF-8" in said
    assert f"; see {out}/bad.jsonl" in said
    lines = [json.loads(line) for line in (out / "bad.jsonl").read_text().splitlines()]
    assert [line["file"] for line in lines] == [str(archive / "04" / "noise.txt"), str(archive / "05" / "empty.txt")]
    assert lines[0]["line"] == 2  # the first byte that is none of UTF-8
    assert "is not UTF-8" in lines[0]["why"]
    assert lines[1] == {"file": str(archive / "05" / "empty.txt"), "why": "the text is empty"}


def test_lines_of_a_folder_where_they_are_asked_for(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("One.\nTwo.\n")
    assert [record.text for record in good(open_texts(tmp_path))] == ["One.\nTwo."]
    assert [record.text for record in good(open_texts(tmp_path, split="line"))] == ["One.", "Two."]
    assert [record.text for record in good(open_texts(tmp_path / "a.txt"))] == ["One.", "Two."]
    (tmp_path / "b.jsonl").write_text('{"text": "Three."}\n{"text": "Four."}\n')
    assert [record.id for record in good(open_texts(tmp_path))] == ["a.txt", "b.jsonl:1", "b.jsonl:2"]


def test_what_is_no_plain_text_is_refused_with_its_converter(tmp_path: Path) -> None:
    for name, command in [
        ("a.md", "pandoc {0}/a.md -t plain --wrap=none -o {0}/a.txt"),
        ("b.html", "pandoc {0}/b.html -t plain --wrap=none -o {0}/b.txt"),
        ("c.PDF", "pdftotext {0}/c.PDF {0}/c.txt"),
        ("d.docx", "pandoc {0}/d.docx -t plain --wrap=none -o {0}/d.txt"),
        ("e.doc", "soffice --convert-to txt {0}/e.doc"),
    ]:
        (tmp_path / name).write_text("# A heading\n\nA text.")
        with pytest.raises(HeadscopeError) as caught:
            good(open_texts(tmp_path / name))
        assert command.format(tmp_path) in str(caught.value)
    assert [record.text for record in good(open_texts(tmp_path / "a.md", format="text"))] == ["# A heading", "A text."]
    with pytest.raises(HeadscopeError, match=r"holds no texts; \.md files.*are not read.*pandoc a\.md"):
        open_texts(tmp_path)


# ---------------------------------------------------------------------- encodings

WRITTEN = {
    "cp1252": "Über die Brücke führt kein Weg zurück, sagte der müde Schäfer. Größer als je stand er da.",
    "cp1250": "Zażółć gęślą jaźń. Wczoraj wieczorem poszliśmy do kina, było bardzo późno i ciemno.",
    "cp1251": "Привет, мир. Сегодня хорошая погода, и мы идём гулять в парк.",
    "cp1253": "Καλημέρα κόσμε. Σήμερα ο καιρός είναι καλός.",
    "shift_jis": "吾輩は猫である。名前はまだ無い。どこで生れたかとんと見当がつかぬ。",
    "gb18030": "今天天气很好，我们去公园散步。",
    "utf-16": "The naïve café owner left.",
    "utf-16-le": "The owner of the bakery left early, and nobody knew why.",
}


@pytest.mark.parametrize("encoding", WRITTEN)
@pytest.mark.parametrize("split", ["line", "paragraph", "file"])
def test_encodings_are_found(encoding: str, split: str, tmp_path: Path) -> None:
    text = WRITTEN[encoding]
    (tmp_path / "a.txt").write_bytes(text.encode(encoding))
    assert [record.text for record in good(open_texts(tmp_path / "a.txt", split=split))] == [text]
    (tmp_path / "b.csv").write_bytes(f"id;text\n1;{text}\n".encode(encoding))
    if encoding != "utf-16-le":  # too many zeros are no letters of a header
        assert [record.text for record in good(open_texts(tmp_path / "b.csv"))] == [text]


def test_an_encoding_may_be_named(tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    file.write_bytes("caf\u00e9".encode("mac_roman"))
    assert good(open_texts(file, encoding="mac_roman"))[0].text == "café"
    (tmp_path / "b.jsonl").write_bytes('{"text": "caf\u00e9"}'.encode("latin-1"))
    assert "is not UTF-8" in bad(open_texts(tmp_path / "b.jsonl"))[0].why  # JSON is UTF-8, unless told otherwise
    assert good(open_texts(tmp_path / "b.jsonl", encoding="latin-1"))[0].text == "café"
    with pytest.raises(HeadscopeError, match="no encoding 'klingon'"):
        open_texts(file, encoding="klingon")
    file.write_bytes(b"fine\nbad \x81 byte\n")
    corpus = open_texts(file, encoding="cp1252")
    assert [record.text for record in good(corpus)] == ["fine"]
    assert str(bad(corpus)[0]) == "a.txt:2: the line holds bytes that are no characters of cp1252"


def test_one_text_in_another_encoding(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "a.txt"
    file.write_bytes(WRITTEN["cp1252"].encode("cp1252"))
    assert main(["inspect", "--file", str(file)]) == 2
    assert "name its encoding, it may be cp1252: --encoding cp1252" in capsys.readouterr().err
    assert main(["inspect", "--file", str(file), "--encoding", "cp1252", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert sum(token["category"] == "stop" for token in told["tokens"]) == 2
    assert main(["inspect", "--file", str(file), "--encoding", "klingon"]) == 2
    assert "there is no encoding 'klingon'" in capsys.readouterr().err


def test_utf_8_with_a_damaged_byte_stays_utf_8(tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    file.write_bytes("Ça va? Très bien.\n".encode() * 3 + b"dam\xffaged\n")
    corpus = open_texts(file)
    assert [record.text for record in good(corpus)] == ["Ça va? Très bien."] * 3
    assert str(bad(corpus)[0]).startswith("a.txt:4: the line is not UTF-8: byte 0xff does not belong there")
    assert encoding_of(file.read_bytes()) == "utf-8"


# ---------------------------------------------------------------------- long texts

BOOK = "\n\n".join(f"Chapter {n}. {PLAIN.format(n)} " + "The sea was calm that night. " * 40 for n in range(1, 260))[
    :300_000
]


def test_a_document_of_300_000_characters(tiny: Tiny, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model, file = tiny("gpt2"), tmp_path / "book.txt"
    assert len(BOOK) == 300_000
    file.write_text(BOOK)
    options: dict[str, Any] = {"split": "file", "window": 64, "layers": [0], "progress": False}
    first = headscope.analyze(model, file, **options)
    every = headscope.analyze(model, file, windows="all", **options)
    tokens = len(model.tokenizer(BOOK)["input_ids"])
    for result in (first, every):
        assert (result.texts["texts"], result.texts["bad"]) == (1, 0)
        assert abs(result.texts["tokens"] - tokens) <= 4  # where the pieces meet
    assert first.texts["tokens_read"] == 64
    assert every.texts["tokens_read"] == every.texts["tokens"]
    assert int(every.dataset.texts) == -(-every.texts["tokens"] // 64)
    moved = model.inspect(BOOK, start=tokens - 200)
    assert moved.window.texts == (BOOK,)
    assert BOOK[moved.window.span[0, 0] : moved.window.span[-1, 1]] in BOOK[-2000:]


def test_pieces_are_cut_between_paragraphs_and_sentences_go_on(tiny: Tiny) -> None:
    spans = list(pieces_of(BOOK))
    assert "".join(BOOK[a:b] for a, b in spans) == BOOK
    assert all(b - a <= PIECE for a, b in spans)
    assert [BOOK[a : a + 10] for a, _ in spans[1:]] == [
        BOOK[a : a + 10] for a, _ in spans[1:] if BOOK[a:].startswith("\n\nChapter")
    ]
    model = tiny("gpt2")
    windows = corpus_windows(BOOK, model.tokenizer, model.template, length=128, choice="all")
    sentences = np.concatenate([each.sentence for each in windows])
    assert (np.diff(sentences[sentences >= 0]) >= 0).all()
    assert int(sentences.max()) + 1 == windows[0].sentences
    short = BOOK[:5000]
    begin = window(short, None, model.tokenizer, model.template, length=128)
    same = windows[0]
    assert np.array_equal(begin.ids, same.ids)
    assert np.array_equal(begin.sentence, same.sentence)
    for text in ("x" * 250_000, "word " * 50_000, "One. " * 50_000, "line\n" * 50_000):
        assert "".join(text[a:b] for a, b in pieces_of(text)) == text
        assert max(b - a for a, b in pieces_of(text)) <= PIECE


def test_the_share_that_was_read_is_told(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "books").mkdir()
    (tmp_path / "books" / "a.txt").write_text(BOOK[:20_000])
    told = ["analyze", str(tmp_path / "books"), "--model", str(folder), "--layers", "0", "--window", "32", "--out"]
    assert main([*told, str(tmp_path / "first")]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    result = headscope.Result.open(tmp_path / "first")
    share = 100 * 32 / result.texts["tokens"]
    assert f"1 window of 1 text, {share:.1f} % of their tokens; --windows all reads the rest" in printed
    assert main([*told, str(tmp_path / "all"), "--windows", "all"]) == 0
    assert "of their tokens" not in capsys.readouterr().out


# ---------------------------------------------------------------------- tables


def test_a_semicolon_csv_from_a_spreadsheet(tmp_path: Path) -> None:
    file = tmp_path / "export.csv"
    rows = [("Nr", "Titel", "text"), ("1", "a; b", "Der Preis, 3,50 €, stieg.\nUnd fiel."), ("2", "c", "Ende gut.")]
    with file.open("w", encoding="cp1252", newline="") as out:
        csv.writer(out, delimiter=";").writerows(rows)
    found = good(open_texts(file, id_field="Nr"))
    assert [(record.id, record.text) for record in found] == [("1", rows[1][2]), ("2", "Ende gut.")]
    assert [record.text for record in good(open_texts(file, delimiter=";", header=True, text_field="Titel"))] == [
        "a; b",
        "c",
    ]
    with pytest.raises(HeadscopeError, match="has no column 'text'"):
        good(open_texts(file, delimiter=","))


@pytest.mark.parametrize("mark", [",", ";", "\t", "|"])
def test_delimiter_and_header_are_found(mark: str, tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_text(f"id{mark}text\n1{mark}It rains, it pours; again.\n2{mark}It stops.\n".replace(", ", " "))
    if mark == ";":
        file.write_text(file.read_text().replace("pours;", "pours"))
    assert [record.id for record in good(open_texts(file))] == ["1", "2"]


def test_tables_without_a_header(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_text("It rains. It pours.\nThe cat sat. It ran.\n")
    assert [record.text for record in good(open_texts(file))] == ["It rains. It pours.", "The cat sat. It ran."]
    file.write_text("1;It rains. It pours.\n2;The cat sat. It ran.\n")
    with pytest.raises(HeadscopeError, match=r"has no header.*--text-field 1 to 2"):
        good(open_texts(file))
    assert [record.text for record in good(open_texts(file, text_field="2"))] == [
        "It rains. It pours.",
        "The cat sat. It ran.",
    ]
    assert len(good(open_texts(file, text_field="1", header=False, delimiter=";"))) == 2
    file.write_text("body\nIt rains.\n")
    with pytest.raises(HeadscopeError, match=r"has no column 'text'.*--text-field: body, or --no-header"):
        good(open_texts(file))


def test_a_cell_may_be_a_whole_document(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    with file.open("w", newline="") as out:
        csv.writer(out).writerows([("id", "text"), ("long", BOOK), ("", "Short."), ("none", "")])
    corpus = open_texts(file)
    assert [len(record.text) for record in good(corpus)] == [300_000, 6]
    assert bad(corpus)[0].as_dict() == {
        "file": str(file), "line": 3 + BOOK.count("\n") + 1, "row": 3, "why": "the text is empty",
    }  # fmt: skip


def test_duplicates_are_counted(tiny: Tiny) -> None:
    texts = ["It rains.", "It pours.", "It rains.", ("x", "It rains.", "other")]
    assert open_texts(texts).survey().duplicates == 2
    result = headscope.analyze(tiny("gpt2"), texts, layers=[0], progress=False)
    assert result.texts["duplicates"] == 2
    assert open_texts(texts).survey().notes == ["2 of 4 texts came before, word for word, and count again"]


def test_utf16_without_a_mark_of_its_byte_order_is_a_bad_record(tmp_path: Path) -> None:
    (tmp_path / "plain.txt").write_text("Plain words.\n", "utf-8")
    (tmp_path / "marked.txt").write_text("Marked words.\n", "utf-16")
    records = list(open_texts(str(tmp_path), encoding="utf-16").records())
    assert [getattr(each, "text", None) for each in records] == ["Marked words.", None]


def test_a_document_is_no_text_in_another_encoding(tmp_path: Path) -> None:
    (tmp_path / "a.pdf").write_bytes(b"%PDF-1.4\n\xe2\xe3\xcf\xd3\x9d")
    for encoding in (None, "cp1252"):
        with pytest.raises(HeadscopeError, match=r"take its text out first: pdftotext"):
            read_text(tmp_path / "a.pdf", encoding=encoding)
    (tmp_path / "a.bin").write_bytes(b"words \x9d")
    with pytest.raises(HeadscopeError, match="name another encoding"):
        read_text(tmp_path / "a.bin", encoding="cp1252")
