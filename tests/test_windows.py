"""Tokens, categories, words and sentences are right for every kind of tokenizer and script."""

from __future__ import annotations

import sys
import unicodedata
from collections.abc import Callable, Iterator
from dataclasses import fields
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import headscope
import naive
from headscope import HeadscopeError
from headscope.windows import CATEGORIES, Window, corpus_windows, window
from headscope.windows.cutting import Cutters, CutTexts, Cutting
from headscope.windows.text import sentence_spans, visible

linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="processes are forked on Linux alone")
KINDS = ["embedded", "gpt2", "roberta", "llama", "t5"]
TEXTS = {
    "accents": "Ça va, naïve Zoë? Über alles: piñata! Größe zählt nicht.",
    "decomposed": "Cafe\u0301 is cafe\u0301. Re\u0301sume\u0301!",
    "emoji": "So happy 😀! 👩‍👩‍👧 came by. Thumbs 👍🏽.",
    "chinese": "你好，世界。我们走吧！他说：“好的。”",
    "japanese": "これはペンです。カタカナも？はい。",
    "marks": "Vie\u0323\u0302t Nam, na\u0303o, п\u02bcять. Tie\u0302\u0301ng!",
    "long vowels": "スーパーコンピューター。ｺｰﾋｰ",
    "thai": "สวัสดีชาวโลก ผมชื่อสมชาย",
    "hebrew": "שלום עולם. מה שלומך? טוב!",
    "arabic": "مرحبا بالعالم. كيف حالك؟ بخير.",
    "zero-width": "zero\u200bwidth joi\u200dner. \ufeffbom here.",
    "abbreviations": "Dr. Smith met Mr. Jones at 5 p.m. in Washington D.C. today. They left.",
    "quotes": 'She said, "Stop!" He said, "No." (They argued.) Then: «Fin.» “Done.”',
    "no punctuation": "words without any marks at all just going on and on",
    "giant": "a" * 3000,
    "giant mixed": "supercalifragilistic" * 40 + ". End.",
    "only marks": "... !!! ???",
    "spaces": "  two  spaces\tand tabs\n\nnew paragraph\nnew line.  ",
    "numbers": "3.14 is not 3,000.50; ½ of 2 is ①. Cost: $5.00!",
    "markup": '<script>alert("x")</script> &amp; <b>bold</b>.',
    "mask in text": "The [MASK] sat on the [SEP] mat. <mask> <s> too.",
    "mixed scripts": "iPhone手机 costs ¥100円 today. Привет мир!",
}

# Of languages of which the embedded model knows nothing.
UNKNOWN = (
    "Der Fährmann kannte den Fluss seit seiner Kindheit, und die Kinder fürchteten sich vor dem "
    "Wasser. Schon früh am Morgen hörte man das Rauschen der Mühle, während die Bäuerinnen über die "
    "schöne Brücke zum Markt gingen. Niemand wusste, weshalb der Müller in diesem Jahr kein Mehl mehr "
    "verkaufte.",
    "Le passeur connaissait la rivière depuis son enfance, et les enfants craignaient l'eau profonde. "
    "Tôt le matin on entendait le bruit du moulin, pendant que les paysannes traversaient le beau "
    "pont pour aller au marché. Personne ne savait pourquoi le meunier ne vendait plus de farine "
    "cette année.",
    "Lautturi tunsi joen lapsuudestaan asti, ja lapset pelkäsivät syvää vettä. Varhain aamulla kuului "
    "myllyn kohina, kun emännät kulkivat kaunista siltaa pitkin torille. Kukaan ei tiennyt, miksi "
    "mylläri ei sinä vuonna enää myynyt jauhoja, vaikka vilja oli kasvanut hyvin.",
    "Ο βαρκάρης ήξερε το ποτάμι από τα παιδικά του χρόνια, και τα παιδιά φοβόντουσαν το βαθύ νερό. "
    "Νωρίς το πρωί ακουγόταν ο θόρυβος του μύλου, ενώ οι γυναίκες περνούσαν την όμορφη γέφυρα για την "
    "αγορά.",
    "摆渡人从小就熟悉这条河，孩子们却害怕深水。清晨可以听到磨坊的声音，农妇们走过美丽的桥去赶集。没有人知道那一年磨坊主为什么不再卖面粉。",
    "Паромщик знал реку с детства, а дети боялись глубокой воды. Рано утром был слышен шум мельницы, "
    "когда крестьянки шли по красивому мосту на рынок. Никто не знал, почему мельник в том году "
    "больше не продавал муку.",
)
CODE = """def softmax(x, axis=-1):
    e = np.exp(x - x.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)

for i in range(len(xs)):
    if xs[i] > 0 and ys[i] != xs[i - 1]:
        result.append((i, xs[i] ** 2))
"""


def model_of(kind: str, embedded: Any, tiny: Callable[[str], Any]) -> headscope.Model:
    return embedded if kind == "embedded" else tiny(kind)


def cut(model: headscope.Model, text: str, **options: Any) -> Window:
    options = {"length": 100_000} | options
    return window(text, None, model.tokenizer, model.template, **options)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", TEXTS)
def test_every_token_is_described_as_the_method_says(
    kind: str, name: str, embedded: Any, tiny: Callable[[str], Any]
) -> None:
    text, model = TEXTS[name], model_of(kind, embedded, tiny)
    found = cut(model, text)
    own = [(int(a), int(b)) for (a, b), part in zip(found.span, found.part, strict=True) if part == 0]
    expected = model.tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
    assert own == expected["offset_mapping"]
    assert found.ids[found.part == 0].tolist() == expected["input_ids"]
    assert found.ids.tolist() == model.tokenizer(text)["input_ids"]

    sentences = sentence_spans(text)
    assert [CATEGORIES[c] for c in found.category[found.part == 0]] == naive.categories(text, own, sentences)
    assert found.sentence[found.part == 0].tolist() == [naive.sentence_of(text, span, sentences) for span in own]
    words = [naive.word_of(text, span) for span in own]
    numbers = found.word[found.part == 0].tolist()
    for i in range(len(own)):
        for j in range(max(0, i - 60), i):
            assert (numbers[i] == numbers[j]) == (words[i] is not None and words[i] == words[j])
    special = found.part < 0
    assert (found.special == special).all()
    assert set(found.sentence[special]) <= {-1}


def described(model: headscope.Model, text: str) -> list[tuple[str, str]]:
    found = cut(model, text)
    return [(label, CATEGORIES[c]) for label, c in zip(found.labels, found.category, strict=True)]


def test_stops_are_found_behind_quotes_and_brackets(embedded: Any) -> None:
    stops = [label for label, category in described(embedded, TEXTS["quotes"]) if category == "stop"]
    assert len(stops) == len(sentence_spans(TEXTS["quotes"]))
    assert set(stops) <= {"!", ".", "?"}


@pytest.mark.parametrize("kind", KINDS)
def test_the_first_window_is_described_as_if_the_text_went_on(
    kind: str, embedded: Any, tiny: Callable[[str], Any]
) -> None:
    model = model_of(kind, embedded, tiny)
    for text in [*TEXTS.values(), " ".join(TEXTS.values())]:
        for length in (4, 9, 24):
            options = {"length": length, "causal": model.stack().causal}
            first = corpus_windows(text, model.tokenizer, model.template, **options)[0]
            every = corpus_windows(text, model.tokenizer, model.template, choice="all", **options)[0]
            assert_same_window(first, every)


def assert_same_window(one: Window, other: Window) -> None:
    for name in (each.name for each in fields(Window)):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name), name)


# ---------------------------------------------------------------------- cut by others

DROPPED = "\u200b"  # the embedded tokenizer makes nothing of it


@pytest.fixture
def cutters(embedded: Any) -> Iterator[Cutters]:
    made = Cutters(Cutting(embedded.tokenizer, embedded.template, 16, "all", 0, False, "en"), processes=2)
    yield made
    made.close()


def assert_cut(cutters: Cutters, texts: list[str], wait: CutTexts) -> None:
    for cut, expected in zip(wait(), cutters.cutting.each(texts), strict=True):
        if isinstance(expected, str):
            assert cut == expected
        else:
            for one, other in zip(cut, expected, strict=True):
                assert_same_window(one, other)


@linux
def test_processes_cut_the_same_windows(cutters: Cutters) -> None:
    texts = [*TEXTS.values(), DROPPED, *TEXTS.values()]
    assert_cut(cutters, texts, cutters.begin(texts))
    assert isinstance(cutters.begin([DROPPED])()[0], str)


@linux
def test_a_process_that_is_killed_is_done_without(cutters: Cutters) -> None:
    texts = list(TEXTS.values())
    cutters.begin(texts)()
    assert cutters._pool is not None
    for process in list(cutters._pool._processes.values()):
        process.kill()
    for _ in range(2):
        assert_cut(cutters, texts, cutters.begin(texts))


def test_an_abbreviation_is_no_stop(embedded: Any) -> None:
    stops = [k for k, (_, category) in enumerate(described(embedded, TEXTS["abbreviations"])) if category == "stop"]
    assert len(stops) == 2


def test_a_sentence_cut_off_by_the_window_has_no_stop(embedded: Any) -> None:
    text = "One, two, three, four, five. Six."
    whole, part = cut(embedded, text), cut(embedded, text, length=6)  # [CLS] one , two , [SEP]
    assert [CATEGORIES[c] for c in part.category] == ["start", "word", "punctuation", "word", "punctuation", "end"]
    assert "stop" in [CATEGORIES[c] for c in whole.category]
    assert part.total == len(whole) - 2


def test_a_mask_written_in_the_text_is_an_ordinary_token(embedded: Any) -> None:
    found = cut(embedded, TEXTS["mask in text"])
    inner = [CATEGORIES[c] for token, c in zip(found.tokens, found.category, strict=True) if token == "[MASK]"]
    assert inner == ["word"]
    ends = [k for k, c in enumerate(found.category) if CATEGORIES[c] == "end"]
    assert ends == [len(found) - 1]  # the [SEP] in the text is not one of the template's


def test_a_causal_model_without_a_start_token_has_its_first_token_as_one(tiny: Callable[[str], Any]) -> None:
    gpt, llama = tiny("gpt2"), tiny("llama")
    assert gpt.inspect("The cat sat.").tokens.category.tolist()[:2] == ["start", "word"]
    shown = llama.inspect("The cat sat.").tokens
    assert shown.category.tolist()[0] == "start"
    assert shown.token.tolist()[0] == "<s>"
    moved = gpt.inspect("The cat sat on the mat and the dog lay down.", start=3, window=6)
    assert moved.tokens.category.tolist()[0] == "start"  # position 0 of the window, wherever it lies in the text


def test_longest_windows_leave_room_for_reserved_positions(tiny: Callable[[str], Any], embedded: Any) -> None:
    assert embedded.max_length == 128
    model = tiny("roberta")  # 257 position embeddings of which the padding index takes one
    assert model.max_length == 256
    text = " ".join(["word"] * 600)
    assert len(model.inspect(text, window=256).window) == 256
    with pytest.raises(HeadscopeError, match="256"):
        model.inspect(text, window=257)


# Characters that Python's own tables do not know yet are left out: the naive code could not tell what they are.
KNOWN = st.characters(exclude_categories=("Cn", "Cs"))


@pytest.mark.parametrize("form", ["NFC", "NFD"])
def test_words_keep_their_spelling(embedded: Any, form: Any) -> None:
    text = unicodedata.normalize(form, "Schön und schon, CAFÉ, naïve Äpfel: ## 3")
    cut = window(text, None, embedded.tokenizer, embedded.template)
    assert "##on" in cut.tokens  # the tokenizer's own pieces have lost the accent
    shown = "".join(label.removeprefix("##") for label in cut.labels[1:-1])
    assert shown == text.replace(" ", "")
    assert [label.startswith("##") for label in cut.labels] == [token.startswith("##") for token in cut.tokens]


def test_a_language_that_the_model_does_not_know_is_noticed(embedded: Any) -> None:
    texts = [p["text"] for p in headscope.passages()]
    for text in [*texts, *(text.upper() for text in texts), "Guten Morgen!", "Καλημέρα!", "qwrtz xkcd", CODE]:
        assert embedded.inspect(text, layers=[0]).unfamiliar == "", text
    for text in UNKNOWN:
        assert "may not know the language" in embedded.inspect(text, layers=[0]).unfamiliar, text


def test_a_short_text_is_noticed_where_it_is_plain(embedded: Any) -> None:
    german = "Die schöne Müllerin läuft heute über die alte Straße zum Fluss hinunter."
    assert "may not know the language" in embedded.inspect(german, layers=[0]).unfamiliar
    english = "The miller's beautiful daughter runs down the old road to the river today."
    assert embedded.inspect(english, layers=[0]).unfamiliar == ""


def test_unknown_tokens_say_so(embedded: Any, tiny: Callable[[str], Any]) -> None:
    found = cut(embedded, "The 你 sat.")
    assert [label for label, u in zip(found.labels, found.unknown, strict=True) if u] == ["[UNK]:你"]
    assert not cut(tiny("gpt2"), "The 你 sat.").unknown.any()  # bytes know everything


@pytest.mark.parametrize("kind", ["gpt2", "llama"])
@pytest.mark.parametrize("text", ["Hi there 🦖", "你好，世界。再见", "The 🦖 ran off. Then 龘 came.", "two 🦖🦖"])
def test_ids_of_spread_characters_are_described_as_their_text(kind: str, text: str, tiny: Callable[[str], Any]) -> None:
    model = tiny(kind)
    by_text = model.inspect(text).tokens
    by_ids = model.inspect(by_text.id.tolist()).tokens
    seen = (by_ids.start < by_ids.end).to_numpy()  # by its id alone, a token that only stands for a space has no text
    assert seen.sum() >= len(seen) - 3
    assert by_ids.category[seen].tolist() == by_text.category[seen].tolist()
    assert by_ids.sentence.tolist() == by_text.sentence.tolist()
    decoded = model.tokenizer.decode([i for i in by_text.id if i > 2])
    shown = [decoded[a:b] for a, b, part in zip(by_ids.start, by_ids.end, by_ids.part, strict=True) if part == 0]
    assert "\ufffd" not in "".join(shown)


def test_a_replacement_character_of_the_texts_own_keeps_to_itself(tiny: Callable[[str], Any]) -> None:
    by_text = tiny("gpt2").inspect("a \ufffd hello. b").tokens
    by_ids = tiny("gpt2").inspect(by_text.id.tolist()).tokens
    assert by_ids.label.tolist() == by_text.label.tolist()
    assert by_ids.category.tolist() == by_text.category.tolist()


@settings(max_examples=200, deadline=None, derandomize=True)
@given(text=st.text(KNOWN, min_size=1, max_size=80))
def test_any_text_is_described_or_refused_with_a_reason(text: str) -> None:
    model = any_text_model()
    try:
        found = cut(model, text)
    except HeadscopeError:
        with pytest.raises(HeadscopeError, match="To fix it"):
            cut(model, text)
        return
    own = [(int(a), int(b)) for (a, b), part in zip(found.span, found.part, strict=True) if part == 0]
    sentences = sentence_spans(text)
    assert [CATEGORIES[c] for c in found.category[found.part == 0]] == naive.categories(text, own, sentences)
    assert all(label == visible(label) for label in found.labels)


_loaded: list[headscope.Model] = []


def any_text_model() -> headscope.Model:
    if not _loaded:
        _loaded.append(headscope.load())
    return _loaded[0]
