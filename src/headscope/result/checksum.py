"""A checksum at the end of a result's file, looked at before anything parses it.

HDF5 trusts what it reads, and damaged bytes can make it fail in any way, or never come back. Bytes after the end of
its own data mean nothing to it, so the file stays an ordinary netCDF file.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from headscope.errors import HeadscopeError

MARK = b"headscope sha256 "
BEGIN = b"\x89HDF"  # of every netCDF-4 file
SIZE = len(MARK) + hashlib.sha256().digest_size
AT_ONCE = 1 << 20  # bytes read at a time


def seal(file: Path) -> None:
    """Append the checksum of all that a file holds."""
    digest = _digest(file, file.stat().st_size)
    with file.open("ab") as out:
        out.write(MARK + digest)


def check_seal(file: Path) -> None:
    """Refuse a file whose content is not what was written."""
    size = file.stat().st_size - SIZE
    with file.open("rb") as opened:
        begin = opened.read(len(BEGIN))
        opened.seek(max(size, 0))
        end = opened.read()
    if begin and not BEGIN.startswith(begin):
        raise HeadscopeError(
            f"{str(file)!r} is no result of headscope",
            "name a result.nc or a run's folder; texts are analysed first: headscope analyze TEXTS --out RUN",
        )
    if size < 0 or not end.startswith(MARK):
        raise HeadscopeError(
            f"{str(file)!r} does not end as a result of headscope does",
            "it was cut off or changed, is something else, or is of the method's first edition (schema 1), whose files "
            "end otherwise: name a result.nc or a run's folder, or analyse the texts again with this version",
        )
    if end[len(MARK) :] != _digest(file, size):
        raise HeadscopeError(f"{str(file)!r} is damaged: its checksum does not fit", "run the analysis again")


def checksum_of(file: Path) -> str:
    """The checksum that a sealed file ends in, in hexadecimal digits: it tells results apart."""
    with file.open("rb") as opened:
        opened.seek(-hashlib.sha256().digest_size, 2)
        return opened.read().hex()


def _digest(file: Path, size: int) -> bytes:
    """The SHA-256 of the first so many bytes."""
    digest = hashlib.sha256()
    with file.open("rb") as opened:
        while size > 0 and (part := opened.read(min(size, AT_ONCE))):
            digest.update(part)
            size -= len(part)
    return digest.digest()
