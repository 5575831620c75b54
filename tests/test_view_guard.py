"""Who gets in at the viewer's server, how much may be asked and for how long, over real connections."""

from __future__ import annotations

import json
import socket
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

import headscope
from headscope.view import connections
from headscope.view.connections import Impatient
from headscope.view.desk import Desk
from headscope.view.guard import BODY
from long import first_of
from serving import (
    LONG,
    SHORT,
    TEXT,
    Place,
    Tiny,
    bytes_until_closed,
    heard,
    said,
    serving,
)

# ---------------------------------------------------------------------- who gets in


@pytest.mark.parametrize("path", ["/", "/headscope.js", "/api/about", "/api/openapi.json", "/api/run", "/nothing"])
@pytest.mark.parametrize("token", ["", "wrong", "ünïcode"], ids=["none", "wrong", "not-ascii"])
def test_without_the_token_nothing_is_answered(place: Place, path: str, token: str) -> None:
    with place.client(token="") as client:
        answer = client.get(path, headers={"x-headscope-token": token.encode()} if token else {})
        assert answer.status_code == 401
        assert "token" in said(answer)
        assert client.get(path, params={"token": token}).status_code == 401
        assert client.get(path, params={"token": place.token[:-1]}).status_code == 401


def test_the_token_may_be_in_a_header_or_in_the_address(place: Place) -> None:
    with place.client() as client:
        assert client.get("/api/about").status_code == 200
    with place.client(token="") as client:
        assert client.get("/api/about", params={"token": place.token}).status_code == 200
        page = client.get("/", params={"token": place.token})
        assert page.status_code == 200
        assert place.token in page.text
        script = client.get("/headscope.js", params={"token": place.token})
        assert script.headers["content-type"].startswith("text/javascript")


@pytest.mark.parametrize("name", ["evil.example", "localhost.evil.example", "127.0.0.2", "[::1]", "0.0.0.0", ""])
def test_a_foreign_host_is_misdirected(place: Place, name: str) -> None:
    with place.client() as client:
        answer = client.get("/api/about", headers={"host": f"{name}:{place.port}"})
        assert answer.status_code == 421
        assert "own address" in said(answer)


def test_another_port_is_another_host(place: Place) -> None:
    with place.client() as client:
        for host in (f"127.0.0.1:{place.port + 1}", "127.0.0.1"):
            assert client.get("/api/about", headers={"host": host}).status_code == 421
        assert client.get("/api/about", headers={"host": f"LOCALHOST:{place.port}"}).status_code == 200


def test_a_request_without_a_host_or_with_two_is_refused(place: Place) -> None:
    token = f"X-Headscope-Token: {place.token}"
    old = place.say(f"GET /api/about HTTP/1.0\r\n{token}\r\n\r\n".encode())
    assert old.status == 421
    none = place.say(f"GET /api/about HTTP/1.1\r\n{token}\r\n\r\n".encode())
    assert none.status == 400
    for second in ("evil.example", f"127.0.0.1:{place.port}"):
        two = place.say(place.head("/api/about", f"Host: {second}"))
        assert two.status == 400
        assert b"version" not in two.body


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"origin": "http://127.0.0.1"},
        {"origin": "https://127.0.0.1:{port}"},
        {"origin": "http://127.0.0.1:{port}.evil.example"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},  # another port of this machine
        {"origin": "http://127.0.0.1:{port}", "sec-fetch-site": "cross-site"},
    ],
    ids=str,
)
def test_other_pages_are_refused_even_with_the_token(place: Place, headers: dict[str, str]) -> None:
    sent = {name: value.replace("{port}", str(place.port)) for name, value in headers.items()}
    with place.client() as client:
        for answer in (client.get("/api/about", headers=sent), client.post("/api/texts", headers=sent, json={})):
            assert answer.status_code == 403
            assert "other pages" in said(answer)


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost"])
def test_the_own_page_may_ask(place: Place, name: str) -> None:
    home = f"{name}:{place.port}"
    with place.client() as client:
        for site in ("same-origin", "none"):
            headers = {"host": home, "origin": f"http://{home}", "sec-fetch-site": site}
            assert client.get("/api/about", headers=headers).status_code == 200
            assert client.post("/api/texts", headers=headers, json={"text": SHORT}).status_code == 200


def test_no_other_page_is_allowed_to_read_answers(place: Place) -> None:
    with place.client() as client:
        asked = {"origin": f"http://127.0.0.1:{place.port}", "access-control-request-method": "POST"}
        for answer in (client.get("/api/about"), client.options("/api/texts", headers=asked)):
            assert not [name for name in answer.headers if name.startswith("access-control-")]


def test_it_listens_on_loopback_only(place: Place) -> None:
    own = {a.address for each in psutil.net_if_addrs().values() for a in each if a.family == socket.AF_INET}
    for address in {*own, "127.0.0.2"} - {"127.0.0.1"}:
        with pytest.raises(OSError):  # noqa: PT011 - refused, or no way there; every system says it differently
            socket.create_connection((address, place.port), timeout=2)
    listening = [c.laddr for c in psutil.Process().net_connections("tcp") if c.status == psutil.CONN_LISTEN]
    assert [ip for ip, port in listening if port == place.port] == ["127.0.0.1"]


# ---------------------------------------------------------------------- how much, and for how long


def test_a_body_that_says_it_is_too_large_is_refused_before_it_comes(place: Place) -> None:
    answer = place.say(place.head("/api/texts", f"Content-Length: {BODY + 1}", method="POST"))
    assert answer.status == 413
    assert f"{BODY:,} bytes" in json.loads(answer.body)["error"]


def test_a_body_that_does_not_say_how_large_it_is_is_refused_when_it_is_too_large(place: Place) -> None:
    def endless() -> Iterator[bytes]:
        for _ in range(2 * BODY // 50_000):
            yield b" " * 50_000

    with place.client() as client:
        answer = client.post("/api/texts", content=endless(), headers={"content-type": "application/json"})
        assert answer.status_code == 413
        fits = json.dumps({"text": SHORT}).encode()
        padded = iter([fits, b" " * (BODY - len(fits))])
        assert client.post("/api/texts", content=padded, headers={"content-type": "application/json"}).is_success


def test_headers_without_end_are_refused(place: Place) -> None:
    answer = place.say(place.head("/api/about", "X-Long: " + "x" * 100_000)[:-4])
    assert answer.status == 400


def test_a_slow_body_is_given_up(embedded: headscope.Model) -> None:
    with serving(Desk(lambda: embedded), body_seconds=0.5) as place:
        with place.connect() as slow:
            began = time.monotonic()
            slow.sendall(place.head("/api/texts", "Content-Length: 1000", method="POST") + b"x")
            time.sleep(0.1)
            slow.sendall(b"x")
            assert place.answers()  # others do not wait for it
            answer = heard(slow)
            assert answer.status == 408
            assert "slowly" in json.loads(answer.body)["error"]
            assert 0.4 < time.monotonic() - began < 8
            assert bytes_until_closed(slow) == b""
        assert place.answers()


def test_an_answer_that_takes_too_long_is_given_up(embedded: headscope.Model) -> None:
    may_load = threading.Event()

    def load_when_told() -> headscope.Model:
        assert may_load.wait(30)
        return embedded

    with serving(Desk(load_when_told), seconds=1.5) as place:
        with place.client() as client:
            answer = client.post("/api/texts", json={"text": SHORT})
            assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
            assert "too long" in said(answer)
        may_load.set()
        assert place.answers()


@pytest.mark.parametrize("before", ["nothing", "a request", "a request and the beginning of the next"])
def test_headers_that_trickle_are_cut_off(place: Place, monkeypatch: pytest.MonkeyPatch, before: str) -> None:
    monkeypatch.setattr(Impatient, "patience", 0.6)
    with place.connect() as slow:
        if before != "nothing":
            slow.sendall(place.head() + (b"GET /api" if before.endswith("next") else b""))
            assert heard(slow).status == 200
        slow.settimeout(0.05)
        began, closed = time.monotonic(), False
        while not closed and time.monotonic() - began < 10:
            try:
                slow.sendall(b"G")
                closed = slow.recv(1) == b""
            except TimeoutError:
                continue
            except ConnectionError:
                closed = True
        assert closed
        assert 0.4 < time.monotonic() - began < 8


@pytest.mark.parametrize("ahead", [False, True], ids=["at once", "behind another"])
def test_an_answer_may_take_longer_than_headers_may(
    embedded: headscope.Model, monkeypatch: pytest.MonkeyPatch, ahead: bool
) -> None:
    def load_slowly() -> headscope.Model:
        time.sleep(0.8)
        return embedded

    monkeypatch.setattr(Impatient, "patience", 0.3)
    body = json.dumps({"text": SHORT}).encode()
    with serving(Desk(load_slowly)) as place, place.connect() as one:
        lines = ("Content-Type: application/json", f"Content-Length: {len(body)}")
        one.sendall(place.head() * ahead + place.head("/api/texts", *lines, method="POST") + body)
        if ahead:
            assert heard(one).status == 200
        assert json.loads(heard(one).body)["texts"] == [SHORT]


def test_a_connection_that_says_nothing_is_closed(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Impatient, "patience", 0.3)
    with place.connect() as silent:
        assert bytes_until_closed(silent) == b""


@pytest.mark.parametrize(
    "kind", first_of(["one long answer, then goodbye", "one long answer", "a file", "many answers"])
)
def test_a_client_that_never_reads_is_cut_off_and_blocks_nobody(
    served: Place, far: tuple[Place, str], monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    place, path = far
    if kind == "a file":
        with served.client() as client:
            name = client.post("/api/texts", json={"text": TEXT}).json()["id"]
        place, path = served, f"/api/texts/{name}/dot/inspection.nc"
    times = 20 if kind == "many answers" else 1
    close = ["Connection: close"] if kind.endswith("goodbye") else []
    with place.client() as client, place.connect(buffer=4096) as deaf:
        assert len(client.get(path).content) > 5_000_000  # more than the system takes in by itself
        monkeypatch.setattr(Impatient, "limit", 1.0)
        deaf.sendall(place.head(path, *close) * times)
        began = time.monotonic()
        while held_by_server(deaf) and time.monotonic() - began < 20:
            assert client.get("/api/about").status_code == 200
            time.sleep(0.1)
        assert 0.7 < time.monotonic() - began < 10
        assert 0 < len(bytes_until_closed(deaf)) < 5_000_000  # the rest was thrown away


@pytest.fixture(scope="module")
def far(tiny: Tiny) -> Iterator[tuple[Place, str]]:
    """A server with a text of many tokens, and the path to a long answer."""
    model = tiny("long")
    with serving(Desk(lambda: model)) as place, place.client() as client:
        name = client.post("/api/texts", json={"text": LONG, "window": 1600}).json()["id"]
        yield place, f"/api/texts/{name}/dot/heads/0/0"


def held_by_server(connection: socket.socket) -> bool:
    """Whether the other end of a connection, which is in this process too, is still open."""
    ends = [(c.laddr, c.raddr) for c in psutil.Process().net_connections("tcp") if c.raddr]
    return (connection.getpeername(), connection.getsockname()) in ends


def test_clients_that_go_away_are_forgotten(place: Place) -> None:
    body = json.dumps({"text": TEXT}).encode()
    head = place.head("/api/texts", "Content-Type: application/json", f"Content-Length: {len(body)}", method="POST")
    for part in (b"", b"GET", head[:50], head, head + body[:10], head + body):
        for abrupt in (False, True):
            made = place.connect()
            if abrupt:  # a reset instead of a goodbye
                made.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00")
            made.sendall(part)
            made.close()
            assert place.answers()


def test_a_client_that_goes_away_in_the_middle_of_a_download(
    place: Place, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with place.client() as client:
        name = client.post("/api/texts", json={"text": TEXT}).json()["id"]
    made = place.connect(buffer=4096)
    made.sendall(place.head(f"/api/texts/{name}/dot/inspection.nc"))
    assert made.recv(100)
    made.close()
    until = time.monotonic() + 10
    while (left := list(tmp_path.iterdir())) and time.monotonic() < until:
        time.sleep(0.05)
    assert left == []


def test_no_upgrade_to_a_websocket(place: Place) -> None:
    upgrade = ("Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13",
               "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==")  # fmt: skip
    for path, status in (("/api/about", 200), ("/ws", 404)):
        assert place.say(place.head(path, *upgrade)).status == status
    assert place.say(place.head("/ws", *upgrade).replace(place.token.encode(), b"wrong")).status == 401


@pytest.mark.parametrize(
    "path",
    ["/../../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "/..%2f..%2fetc%2fpasswd", "//etc/passwd", "/headscope.js/../x",
     "/api/texts/../../etc/passwd", "/api/texts/..%2f..%2fetc%2fpasswd", "/api/run/result.nc/../../run.json", "/.git",
     "/api/texts/t%00", "/api/run/heads/0/0/examples/..%2f..%2fetc%2fpasswd", "/web/main.js", "/api/about/"],
)  # fmt: skip
def test_there_is_no_way_to_other_files(place: Place, path: str) -> None:
    answer = place.say(place.head(path))
    assert answer.status in (404, 422)
    assert json.loads(answer.body)["error"]


@pytest.mark.parametrize(
    "garbage",
    [b"\x00" * 100, b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
     b"\r\n\r\nx\r\n\r\n",
     b"GET / HTTP/9.9\r\n\r\n", b"GET  HTTP/1.1\r\n\r\n", "GET /ü HTTP/1.1\r\n\r\n".encode(),
     b"GET / HTTP/1.1\r\nbad\r\n\r\n",
     b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: " + b"9" * 5000 + b"\r\n\r\n",
     b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
     b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: zip\r\n\r\n"],
    ids=range(11),
)  # fmt: skip
def test_garbage_is_refused_like_everything_else(place: Place, garbage: bytes) -> None:
    answer = place.say(garbage)
    assert 400 <= answer.status < 600
    assert answer.has_safe_headers()
    assert json.loads(answer.body)["error"]


def test_garbage_in_the_middle_of_a_body_ends_the_request(place: Place) -> None:
    head = place.head("/api/texts", "Content-Type: application/json", "Transfer-Encoding: chunked", method="POST")
    answer = place.say(head, b'5\r\n{"tex\r\n', b"zzz\r\nnonsense\r\n")
    assert answer.status == 400
    assert answer.has_safe_headers()
    assert b"error" in answer.body


def test_more_connections_than_allowed_are_told_so(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "CONNECTIONS", 12)
    held = [place.connect() for _ in range(12)]
    try:
        answer = place.say(place.head())
        assert answer.status == 503
        assert answer.has_safe_headers()
        assert ("retry-after", "1") in answer.headers
        assert json.loads(answer.body)["error"]
    finally:
        for each in held:
            each.close()
    until = time.monotonic() + 10
    while not place.answers() and time.monotonic() < until:
        time.sleep(0.05)


def test_every_answer_carries_the_headers_that_keep_other_pages_out(with_run: Place) -> None:
    place = with_run
    with place.client() as client:
        name = client.post("/api/texts", json={"text": SHORT}).json()["id"]
    answers = {
        200: ["/", "/headscope.js", "/api/about", "/api/openapi.json", "/api/run", "/api/run/scores/reach/cosine",
              "/api/run/result.nc", f"/api/texts/{name}", f"/api/texts/{name}/dot/heads/0/0",
              f"/api/texts/{name}/dot/inspection.nc"],
        404: ["/nothing", f"/api/texts/t{'0' * 20}"],
        422: ["/api/texts/wrong", f"/api/texts/{name}/dot/heads/99/0", "/api/run/scores/reach/0"],
    }  # fmt: skip
    for status, paths in answers.items():
        for path in paths:
            answer = place.say(place.head(path))
            assert (answer.status, answer.has_safe_headers()) == (status, True), path
    for status, answer in {
        401: place.say(place.head().replace(place.token.encode(), b"wrong")),
        403: place.say(place.head("/", "Origin: null")),
        405: place.say(place.head(method="DELETE")),
        413: place.say(place.head("/api/texts", "Content-Length: 9999999", method="POST")),
        421: place.say(place.head().replace(b"127.0.0.1", b"127.0.0.9")),
    }.items():
        assert (answer.status, answer.has_safe_headers()) == (status, True)


def test_a_defect_of_headscope_is_an_answer_too() -> None:
    def broken() -> headscope.Model:
        raise ZeroDivisionError("something nobody thought of \ud800")

    with serving(Desk(broken)) as place:
        body = json.dumps({"text": SHORT}).encode()
        head = place.head("/api/texts", "Content-Type: application/json", f"Content-Length: {len(body)}", method="POST")
        answer = place.say(head, body)
        assert answer.status == 500
        assert answer.has_safe_headers()
        assert "ZeroDivisionError" in json.loads(answer.body)["error"]
        assert place.answers()


def test_another_method_is_told_which_are_allowed(place: Place) -> None:
    with place.client() as client:
        answer = client.delete("/api/texts")
        assert (answer.status_code, answer.headers["allow"]) == (405, "POST")
        assert said(answer)


@pytest.mark.parametrize(
    ("body", "about"),
    [(b"", ""), (b"{", ""), (b"[]", ""), (b"\xff\xfe", ""), (b"[" * 100_000, ""), (b"{}", "text"),
     (b'{"text": 3}', "text"), (b'{"text": ""}', "empty"), (b'{"text": " \\n"}', "white space"),
     (b'{"text": "a\\u0000b"}', "control"), (b'{"text": "a \\ud800 b"}', ""), (b'{"text": "a b", "\\ud800": 1}', ""),
     (b'{"text": "a", "pair": "\\udfff"}', ""), (b'{"text": "a b", "colour": "red"}', "colour"),
     (b'{"text": "a b", "' + b"x" * 500_000 + b'": 1}', "x"),
     (b'{"text": "a b", "window": 0}', "window"), (b'{"text": "a b", "window": 1e99}', "window"),
     (b'{"text": "a b", "start": ' + b"9" * 5000 + b"}", ""), (b'{"text": "a b", "start": 9}', "start"),
     (b'{"text": "a b", "stack": "cross"}', "cross"), (b'{"text": "a b", "language": "german"}', "language"),
     (b'{"text": "' + b"a " * 50_001 + b'"}', "text"), (b'{"text": NaN}', ""),
     (b'{"text": "a b", "special": 7}', "special")],
    ids=range(24),
)  # fmt: skip
def test_what_is_wrong_with_a_request_is_said_in_a_sentence(place: Place, body: bytes, about: str) -> None:
    with place.client() as client:
        answer = client.post("/api/texts", content=body, headers={"content-type": "application/json"})
    assert answer.status_code in (400, 422)
    assert about in said(answer)
    assert len(said(answer)) < 500


def test_downloads_leave_nothing_behind(place: Place, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with place.client() as client:
        name = client.post("/api/texts", json={"text": SHORT}).json()["id"]
        path = f"/api/texts/{name}/dot/inspection.nc"
        assert client.get(path).status_code == 200
        assert client.get(path, headers={"range": "bytes=nonsense"}).status_code == 200
        assert client.get(path, headers={"range": "bytes=99999999-"}).status_code == 200
        assert client.get(f"/api/texts/t{'0' * 20}/dot/inspection.nc").status_code == 404
    assert list(tmp_path.iterdir()) == []
