"""A hash of many texts in their order that can be made in pieces: the pieces' hashes give the hash of the whole."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from headscope.texts.records import Record

PRIME = 2**521 - 1
STEP = int.from_bytes(hashlib.sha512(b"headscope: the order of texts").digest())


def hash_of(record: Record) -> bytes:
    """What tells one text from another; not its id, which changes with the name of the file.

    >>> hash_of(Record("a", "It rains.")) == hash_of(Record("b", "It rains."))
    True
    """
    cluster = f"\x00{record.cluster}" if record.cluster else ""  # neither texts nor names hold that character
    return hashlib.sha256(f"{record.group}\x00{record.text}{cluster}".encode()).digest()


def short_hash(text: str) -> int:
    """Eight bytes that tell a text from others, whatever its group and cluster.

    >>> short_hash("It rains.") == short_hash("It rains."), short_hash("It rains.") == short_hash("It pours.")
    (True, False)
    """
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest())


@dataclass(slots=True)
class TextHash:
    """A polynomial in a fixed number, whose coefficients are the texts' hashes.

    >>> one, other, both = TextHash(), TextHash(), TextHash()
    >>> for number, text in enumerate(["It rains.", "It pours.", "It stops."]):
    ...     for each in (both, one if number < 2 else other):
    ...         each.add(hash_of(Record("", text)))
    >>> one.then(other)
    >>> one == both, one.hexdigest() == TextHash().hexdigest()
    (True, False)
    """

    value: int = 0
    number: int = 0

    def add(self, hash_: bytes) -> None:
        """Take in one more text."""
        self.value = (self.value * STEP + int.from_bytes(hash_)) % PRIME
        self.number += 1

    def then(self, other: TextHash) -> None:
        """Take in the texts of another hash, after these."""
        self.value = (self.value * pow(STEP, other.number, PRIME) + other.value) % PRIME
        self.number += other.number

    def hexdigest(self) -> str:
        """64 digits that tell these texts, in this order, from others."""
        return hashlib.sha256(f"{self.number} {self.value:x}".encode()).hexdigest()
