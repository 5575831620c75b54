"""Texts: one at a time, and whole collections as a stream of records."""

from headscope.texts.corpus import Corpus, ReadingOptions, Survey, open_texts
from headscope.texts.one import LONGEST_TEXT, check_text, decode, example_passage, passages, read_text
from headscope.texts.records import Bad, BadRecords, Record

__all__ = [
    "LONGEST_TEXT",
    "Bad",
    "BadRecords",
    "Corpus",
    "ReadingOptions",
    "Record",
    "Survey",
    "check_text",
    "decode",
    "example_passage",
    "open_texts",
    "passages",
    "read_text",
]
