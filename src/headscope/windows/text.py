"""What a text tells before any tokenizer sees it: sentences, words, kinds of characters."""

from __future__ import annotations

import unicodedata
from functools import lru_cache

import regex
import sentencex

WORD = regex.compile(r"[\p{L}\p{M}\p{N}]+")
# Scripts written without spaces: there a run of letters is not a word, so every token stands for itself.
UNSPACED = regex.compile(
    r"[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Thai}\p{Script=Lao}\p{Script=Khmer}"
    # Marks that the two kana share, the prolonged sound mark first of all, are of neither script to Unicode.
    r"\p{Script=Myanmar}\u3006\u3031-\u3035\u303C\u30FC\uFF70]"
)
WORD_CHARACTER = regex.compile(r"[\p{L}\p{M}\p{N}]")
# Quotes and brackets that may follow a full stop. Initial quotes are among them: German closes with one.
CLOSERS_ONLY = regex.compile(r"[\p{Pe}\p{Pf}\p{Pi}\"'`\u2032\u2033\uff02\uff07]+")
PICTURES = {" ": "␣", "\n": "⏎", "\r": "␍", "\t": "⇥", "\u00a0": "⍽"}


def sentence_spans(text: str, language: str = "en") -> list[tuple[int, int]]:
    """Where the sentences lie, as half-open character ranges that leave out only white space between paragraphs.

    >>> text = 'Dr. Low came at 5 p.m. today. "Sit down!" she said. He sat.'
    >>> [text[a:b].strip() for a, b in sentence_spans(text)]
    ['Dr. Low came at 5 p.m. today.', '"Sit down!" she said.', 'He sat.']
    """
    sentences = sentencex.get_sentence_boundaries(language, text)
    return [(s["start_index"], s["end_index"]) for s in sentences if s["text"].strip()]


def word_spans(text: str) -> list[tuple[int, int]]:
    """Maximal runs of letters, marks and digits.

    >>> [a for a in word_spans("Don't stop!")]
    [(0, 3), (4, 5), (6, 10)]
    """
    return [match.span() for match in WORD.finditer(text)]


def words_between(text: str, begin: int, end: int) -> list[tuple[int, int]]:
    """The words that lie in a part of a text, those that it cuts in whole.

    >>> words_between("One two three four.", 5, 11)
    [(4, 7), (8, 13)]
    """
    while begin > 0 and WORD_CHARACTER.match(text[begin - 1]):
        begin -= 1
    while end < len(text) and WORD_CHARACTER.match(text[end]):
        end += 1
    return [match.span() for match in WORD.finditer(text, begin, end)]


def first_visible(text: str, start: int, end: int) -> int:
    """The place of the first character that is not white space in text[start:end], or -1.

    >>> first_visible("a  b", 1, 4), first_visible("a  b", 1, 3)
    (3, -1)
    """
    for place in range(start, end):
        if not text[place].isspace():
            return place
    return -1


@lru_cache(maxsize=65536)
def stands_alone(character: str) -> bool:
    """Whether a token that begins with this character is a word of its own whatever surrounds it."""
    return UNSPACED.match(character) is not None


@lru_cache(maxsize=65536)
def holds_word(piece: str) -> bool:
    """Whether a piece holds a letter, a mark or a digit."""
    return WORD_CHARACTER.search(piece) is not None


@lru_cache(maxsize=65536)
def only_closers(piece: str) -> bool:
    """Whether a piece is made of closing quotes and brackets alone.

    >>> only_closers('"'), only_closers(" ')"), only_closers('."')
    (True, True, False)
    """
    return CLOSERS_ONLY.fullmatch(piece.strip()) is not None


@lru_cache(maxsize=65536)
def visible(piece: str) -> str:
    r"""A piece of text as something that can be seen, and that cannot steer a terminal or turn a line round.

    >>> visible(" a\tb"), visible("\x1b[31m"), visible("\u202eabc\u200b")
    ('␣a⇥b', '<U+1B>[31m', '<U+202E>abc<U+200B>')
    """
    characters = []
    for character in piece:
        if character in PICTURES:
            characters.append(PICTURES[character])
        elif unicodedata.category(character) in ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"):
            characters.append(f"<U+{ord(character):X}>")
        else:
            characters.append(character)
    return "".join(characters)


def in_a_line(text: str) -> str:
    """The same for a name or a sentence: spaces stay what they are.

    >>> in_a_line("two words\\nand a line")
    'two words⏎and a line'
    """
    return "".join(c if c == " " else visible(c) for c in text)
