"""The viewer on a network: who gets in there, what is said about it, and the way onto a phone."""

from __future__ import annotations

import http.client
import io
from collections.abc import Iterator
from typing import Any
from urllib.parse import unquote
from xml.etree import ElementTree

import httpx
import pytest

import headscope
from browser import chromium
from headscope.cli.view_texts import _warn_of_network
from headscope.view.desk import Desk
from headscope.view.reach import EVERY, LOOPBACK, own_addresses, qr_in_terminal
from headscope.view.server import Server
from serving import SHORT
from viewing import Tab, served

OUTSIDE = own_addresses()[0]  # loopback on a machine without a network


@pytest.fixture(scope="module")
def everywhere(embedded: headscope.Model) -> Iterator[Server]:
    desk = Desk(lambda: embedded)
    desk.inspect(SHORT)
    with served(desk, host=EVERY) as server:
        yield server


def ask(server: Server, **headers: str) -> int:
    connection = http.client.HTTPConnection(OUTSIDE, server.port, timeout=20)
    connection.putrequest("GET", "/api/about", skip_host=True)
    for name, value in {"host": f"{OUTSIDE}:{server.port}", "x-headscope-token": server.token, **headers}.items():
        connection.putheader(name, value)
    connection.endheaders()
    return connection.getresponse().status


def test_on_a_network_the_guard_checks_what_it_checks_on_loopback(everywhere: Server) -> None:
    port = everywhere.port
    assert everywhere.address == f"http://{OUTSIDE}:{port}/?token={everywhere.token}"
    assert everywhere.address_here.startswith(f"http://{LOOPBACK}:{port}/")
    for name in (OUTSIDE, LOOPBACK, "localhost"):
        assert ask(everywhere, host=f"{name}:{port}") == 200
    for name in ("evil.example", "0.0.0.0", "192.0.2.77", f"{OUTSIDE}.evil.example"):
        assert ask(everywhere, host=f"{name}:{port}") == 421
    for token in ("", "wrong", everywhere.token[:-1]):
        assert ask(everywhere, **{"x-headscope-token": token}) == 401
    assert ask(everywhere, origin="http://evil.example") == 403
    assert ask(everywhere, origin=f"http://{OUTSIDE}:{port}") == 200
    assert ask(everywhere, **{"sec-fetch-site": "cross-site"}) == 403


def test_one_address_is_that_one_alone() -> None:
    server = Server(Desk(), host=OUTSIDE)
    assert server.address.startswith(f"http://{OUTSIDE}:")
    assert server.address_here == server.address
    assert server.is_open == (OUTSIDE != LOOPBACK)
    if server.is_open:
        with pytest.raises(httpx.ConnectError):
            httpx.get(f"http://{LOOPBACK}:{server.port}/", trust_env=False)
    server.close()


def test_what_a_network_means_is_said(capsys: Any) -> None:
    _warn_of_network("http://192.168.1.5:8000/?token=abc")
    said = " ".join(capsys.readouterr().out.split())
    for word in ("everybody who has this address", "Nothing is encrypted", "forward the port with ssh"):
        assert word in said


def test_the_address_is_printed_as_a_code_of_blocks(capsys: Any) -> None:
    qr_in_terminal("http://192.168.1.5:8000/?token=" + "x" * 32)
    lines = capsys.readouterr().out.splitlines()
    assert 15 < len(lines) < 30  # it fits on a screen


def test_a_phone_is_given_the_same_view(everywhere: Server) -> None:
    def phone(server: Server, address: str) -> dict[str, str]:
        home = f"http://{LOOPBACK}:{server.port}"
        headers = {"x-headscope-token": server.token}
        answer = httpx.post(f"{home}/api/phone", json={"address": address}, headers=headers, trust_env=False)
        answer.raise_for_status()
        return dict(answer.json())

    told = phone(everywhere, "layer=8&head=0")
    assert told["address"] == (f"{everywhere.address}#layer=8&head=0" if everywhere.is_open else "")
    if everywhere.is_open:
        picture = unquote(told["picture"].partition(",")[2])
        assert ElementTree.parse(io.StringIO(picture)).getroot().tag.endswith("svg")
    with served(Desk()) as alone:
        assert phone(alone, "layer=8") == {"address": "", "picture": ""}


@pytest.mark.long
@pytest.mark.skipif(OUTSIDE == LOOPBACK, reason="this machine is in no network")
def test_the_page_over_a_network_shows_its_code(everywhere: Server) -> None:
    with chromium() as browser:
        tab = Tab(browser, width=390, height=844, is_mobile=True, has_touch=True)
        page = tab.open(everywhere.address + "#layer=8&head=0")
        page.tap(".menu summary")
        page.tap("[data-save=phone]")
        page.wait_for_selector("dialog.phone[open] img")
        assert "layer=8" in page.inner_text("dialog.phone .address")
        assert page.locator("dialog.phone img").evaluate("e => e.naturalWidth") > 20
        page.tap("dialog.phone button")
        page.tap(".menu summary")
        page.tap("[data-save=link]")  # a page that came unencrypted may not write to the clipboard
        page.wait_for_selector(".telling:has-text('address bar')")
        # Chromium notes that a header means nothing on a page that is not encrypted.
        tab.troubles = [each for each in tab.troubles if "Cross-Origin-Opener-Policy" not in each]
        tab.close()
