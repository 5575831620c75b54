"""In which encoding a plain file is: UTF-8 where it can be, else what its bytes look like most."""

from __future__ import annotations

import codecs
import io
import re
from typing import BinaryIO, cast

from headscope.errors import HeadscopeError

SAMPLE = 1 << 18  # bytes that are looked at
UTF8 = "utf-8"
MARKS = {codecs.BOM_UTF32_LE: "utf-32", codecs.BOM_UTF32_BE: "utf-32", codecs.BOM_UTF16_LE: "utf-16",
         codecs.BOM_UTF16_BE: "utf-16"}  # fmt: skip
# What people's files are in. A guess among all encodings that there are is seldom right for a short text.
COMMON = """cp1252 iso8859_15 cp1250 iso8859_2 cp1251 koi8_r cp1253 cp1254 cp1255 cp1256 cp1257 shift_jis euc_jp gb18030
    big5 euc_kr mac_roman cp437""".split()
TIE = 0.005  # of charset-normalizer's scores: then the commoner encoding is taken
BROKEN = re.compile("[\udc80-\udcff]")
BEYOND_ASCII = re.compile("[^\x00-\x7f\udc80-\udcff]")


def known_encoding(name: str | None) -> str | None:
    """The usual name of an encoding that somebody named.

    >>> known_encoding("Latin1"), known_encoding(None)
    ('iso8859-1', None)
    """
    if name is None:
        return None
    try:
        return codecs.lookup(name).name
    except (LookupError, ValueError) as error:
        raise HeadscopeError(f"there is no encoding {name!r}", "name one like utf-8, cp1252 or utf-16") from error


def encoding_of(head: bytes) -> str | None:
    r"""The encoding of a file that begins like this; None where none fits.

    A file that is UTF-8 but for some damaged bytes stays UTF-8: read as anything else, all of it would be wrong.

    >>> encoding_of("It is café time.".encode()), encoding_of("Привет".encode("utf-16"))
    ('utf-8', 'utf-16')
    >>> encoding_of("Le café était fermé, hélas; nous sommes rentrés à pied, déçus.".encode("cp1252"))
    'cp1252'
    """
    for mark, name in MARKS.items():
        if head.startswith(mark):
            return name
    zeros = head[:4096].count(0)
    if zeros * 4 > len(head[:4096]):  # every second byte of plain letters in UTF-16
        return "utf-16-le" if head[1:4096:2].count(0) > head[:4096:2].count(0) else "utf-16-be"
    text = codecs.getincrementaldecoder(UTF8)("surrogateescape").decode(head)
    broken = len(BROKEN.findall(text))
    if not broken or len(BEYOND_ASCII.findall(text)) > broken:
        return UTF8
    import charset_normalizer

    matches = charset_normalizer.from_bytes(head, cp_isolation=COMMON)
    best = matches.best()
    if best is None:
        return None
    as_good = [each for each in matches if each.chaos <= best.chaos + TIE and each.coherence >= best.coherence - TIE]
    names = {name for each in as_good for name in (each.encoding, *each.could_be_from_charset)}
    return next((name for name in COMMON if name in names), best.encoding)


def as_utf8(stream: BinaryIO, encoding: str) -> BinaryIO:
    """The same text in UTF-8; bytes that do not belong there stay ones that are not UTF-8."""
    return (
        stream
        if codecs.lookup(encoding).name == UTF8
        else io.BufferedReader(cast(io.RawIOBase, _Recoded(stream, encoding)), 1 << 16)
    )


class _Recoded(io.RawIOBase):
    def __init__(self, stream: BinaryIO, encoding: str) -> None:
        self._stream, self._rest = stream, b""
        self._decoder = codecs.getincrementaldecoder(encoding)("replace")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray) -> int:  # type: ignore[override]
        while not self._rest:
            data = self._stream.read(1 << 15)
            try:
                text = self._decoder.decode(data, final=not data)
            except UnicodeError:  # UTF-16 and UTF-32 that begin with no mark of their byte order: nothing can be read
                while data:
                    data = self._stream.read(1 << 15)
                text = "\ufffd"
            self._rest = text.replace("\ufffd", "\udcff").encode(UTF8, "surrogateescape")
            if not data:
                break
        size = min(len(buffer), len(self._rest))
        buffer[:size], self._rest = self._rest[:size], self._rest[size:]
        return size
