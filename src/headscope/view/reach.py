"""Where the server can be reached: on this machine alone, or from the network where that was asked for."""

from __future__ import annotations

import io
import socket
from contextlib import suppress
from ipaddress import AddressValueError, IPv4Address

import psutil
import segno

from headscope.errors import HeadscopeError

LOOPBACK = "127.0.0.1"
EVERY = "0.0.0.0"


def checked_host(host: str) -> str:
    """An address to listen at, as it was given; names are refused, for whoever owns a name decides where it leads.

    >>> checked_host("192.168.1.5")
    '192.168.1.5'
    >>> checked_host("my-laptop")
    Traceback (most recent call last):
    headscope.errors.HeadscopeError: --host my-laptop is not an IPv4 address. To fix it: give an address of this ...
    """
    try:
        IPv4Address(host)
    except AddressValueError as error:
        raise HeadscopeError(
            f"--host {host} is not an IPv4 address",
            f"give an address of this machine, such as {first_outside()}, or {EVERY} for all it has",
        ) from error
    return host


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach it."""
    return IPv4Address(host).is_loopback


def own_addresses() -> list[str]:
    """The IPv4 addresses of this machine, the one that leads to other networks first, loopback last."""
    known = [each.address for card in psutil.net_if_addrs().values() for each in card if each.family == socket.AF_INET]
    with suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(("192.0.2.1", 9))  # an address of documentation; nothing is sent
        known.insert(0, probe.getsockname()[0])
    return sorted(dict.fromkeys(known), key=is_loopback)


def first_outside() -> str:
    """The address that another machine would use, as far as this one knows."""
    return next(iter(own_addresses()), LOOPBACK)


def names_of(host: str) -> list[str]:
    """The names that a request may be addressed to, the best one to print first: addresses, and localhost of loopback.

    >>> names_of("127.0.0.1"), names_of("192.168.1.5")
    (['127.0.0.1', 'localhost'], ['192.168.1.5'])
    """
    if host == EVERY:
        return list(dict.fromkeys([*own_addresses(), LOOPBACK, "localhost"]))
    return [host, "localhost"] if host == LOOPBACK else [host]


def qr_in_terminal(address: str) -> None:
    """Print an address as a QR code: light on dark, whatever the terminal's own colours are."""
    drawn = io.StringIO()
    segno.make_qr(address, error="L").terminal(drawn, border=2, compact=True)
    for line in drawn.getvalue().splitlines():
        print(f"\x1b[97;40m{line}\x1b[0m")


def qr_picture(address: str) -> str:
    """An address as a QR code: an SVG in a data: address.

    >>> qr_picture("http://192.168.1.5:8000/?token=x")[:18]
    'data:image/svg+xml'
    """
    return str(segno.make_qr(address, error="L").svg_data_uri(border=4, dark="#000", light="#fff"))
