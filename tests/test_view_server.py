"""The viewer's server over real connections: who gets in, what numbers come out, what happens when many ask."""

from __future__ import annotations

import json
import signal
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import hypothesis
import numpy as np
import psutil
import pytest
import schemathesis
import xarray as xr
from hypothesis import strategies as st
from safetensors.numpy import load as unpacked
from schemathesis.checks import (
    content_type_conformance,
    not_a_server_error,
    response_schema_conformance,
    status_code_conformance,
)

import headscope
import naive
from headscope.cli import main
from headscope.inspection import Inspection
from headscope.measures.relations import RELATIONS
from headscope.result.rows import SCORES
from headscope.view import arrays, desk, server
from headscope.view.corpus import Corpus
from headscope.view.desk import Desk
from headscope.view.guard import BODY
from headscope.view.server import Impatient
from serving import Load, Place, bytes_until_closed, errands, heard, load, serving, view_process

TEXT = headscope.passages("news")[3]["text"]
LONG = " ".join(p["text"] for p in headscope.passages()[:12])
SHORT = "The cat saw the dog. The dog saw the cat."
Tiny = Callable[[str], headscope.Model]


@pytest.fixture(scope="module")
def served(embedded: headscope.Model) -> Iterator[Place]:
    with serving(Desk(lambda: embedded)) as place:
        yield place


@pytest.fixture
def place(served: Place) -> Iterator[Place]:
    """The server; whatever a test did to it, it must go on answering."""
    yield served
    assert served.answers()


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, embedded: headscope.Model) -> Path:
    out = tmp_path_factory.mktemp("run") / "run"
    texts = headscope.passages()[:16]
    headscope.analyze(
        embedded, texts, out=out, group_field="group", per_text=True, shard_size=2, window=32, progress=False
    )
    return out


@pytest.fixture(scope="module")
def corpus(run: Path) -> Corpus:
    return Corpus(headscope.Result.open(run))


@pytest.fixture(scope="module")
def with_run(embedded: headscope.Model, corpus: Corpus) -> Iterator[Place]:
    with serving(Desk(lambda: embedded, corpus)) as place:
        yield place


def said(answer: httpx.Response) -> str:
    """The sentence of an answer that refuses."""
    told = answer.json()["error"]
    assert isinstance(told, str)
    assert len(told) > 5
    return told


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


@pytest.mark.parametrize("kind", ["one long answer", "one long answer, then goodbye", "a file", "many answers"])
def test_a_client_that_never_reads_is_cut_off_and_blocks_nobody(
    served: Place, far: tuple[Place, str], monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    place, path = far
    if kind == "a file":
        with served.client() as client:
            name = client.post("/api/texts", json={"text": TEXT}).json()["id"]
        place, path = served, f"/api/texts/{name}/inspection.nc"
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
        yield place, f"/api/texts/{name}/heads/0/0"


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
    made.sendall(place.head(f"/api/texts/{name}/inspection.nc"))
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
    monkeypatch.setattr(server, "CONNECTIONS", 12)
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
        200: ["/", "/headscope.js", "/api/about", "/api/openapi.json", "/api/run", "/api/run/atlas/3",
              "/api/run/result.nc", f"/api/texts/{name}", f"/api/texts/{name}/heads/0/0",
              f"/api/texts/{name}/inspection.nc"],
        404: ["/nothing", f"/api/texts/t{'0' * 20}"],
        422: ["/api/texts/wrong", f"/api/texts/{name}/heads/99/0", "/api/run/atlas/0"],
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
        path = f"/api/texts/{name}/inspection.nc"
        assert client.get(path).status_code == 200
        assert client.get(path, headers={"range": "bytes=nonsense"}).status_code == 200
        assert client.get(path, headers={"range": "bytes=99999999-"}).status_code == 200
        assert client.get(f"/api/texts/t{'0' * 20}/inspection.nc").status_code == 404
    assert list(tmp_path.iterdir()) == []


# ---------------------------------------------------------------------- the numbers

CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "embedded": ("embedded", {}),
    "rank": ("embedded", {"scale": "rank", "window": 60}),
    "cosine": ("embedded", {"similarity": "cosine", "window": 80, "start": 30}),
    "special": ("embedded", {"special": True, "repeated": "word", "window": 80}),
    "pair": ("embedded", {"pair": SHORT, "window": 90}),
    "causal": ("gpt2", {}),
    "causal rank cosine": ("gpt2", {"scale": "rank", "similarity": "cosine", "window": 60}),
    "cross": ("t5", {"stack": "cross"}),
    "decoder": ("t5", {"stack": "decoder", "special": True, "window": 80}),
    "long": ("long", {"window": 300}),
    "long rank": ("long", {"window": 270, "scale": "rank", "special": True}),
    "long cross": ("t5", {"window": 256, "stack": "cross"}),
}
FULL = {"long": LONG, "long rank": LONG, "long cross": LONG}


@pytest.fixture(scope="module", params=CASES)
def case(request: pytest.FixtureRequest, embedded: headscope.Model, tiny: Tiny) -> Iterator[Seen]:
    """A text behind the server, and the same text inspected directly with every map kept."""
    kind, options = CASES[request.param]
    model = embedded if kind == "embedded" else tiny(kind)
    text = FULL.get(request.param, TEXT)
    with serving(Desk(lambda: model)) as place, place.client() as client:
        answer = client.post("/api/texts", json={"text": text, **options})
        assert answer.status_code == 200, answer.text
        yield Seen(client, answer.json(), model.inspect(text, **options))


@dataclass(frozen=True)
class Seen:
    """What the server says of a text, and what the library says of it."""

    client: httpx.Client
    told: dict[str, Any]
    own: Inspection

    def arrays(self, path: str) -> dict[str, np.ndarray]:
        """A binary answer."""
        answer = self.client.get(f"/api/texts/{self.told['id']}/{path}")
        assert answer.status_code == 200, answer.text
        assert answer.headers["content-type"] == "application/octet-stream"
        return unpacked(answer.content)

    @property
    def places(self) -> list[tuple[int, int]]:
        return naive.pairs(self.own.counting.tolist())

    @property
    def heads(self) -> list[tuple[int, int, int]]:
        """Some heads: the place of the layer, its number, and the head's."""
        layers = self.own.captured.layers
        last = self.own.captured.heads - 1
        return [(0, layers[0], 0), (len(layers) // 2, layers[len(layers) // 2], 1), (len(layers) - 1, layers[-1], last)]


def test_the_tokens_are_those_of_the_inspection(case: Seen) -> None:
    told, own = case.told, case.own
    for names, table in (("tokens", own.tokens), ("keys", own.key_tokens)):
        if told[names] is None:
            assert own.stack != "cross"
            continue
        for column in ("label", "category", "sentence", "word", "part", "start", "end", "unknown"):
            assert told[names][column] == table[column].tolist(), column
    assert told["tokens"]["counting"] == own.counting.tolist()
    assert told["tokens"]["same"] == own.same.tolist()
    assert told["layers"] == list(own.captured.layers)
    assert (told["model"], told["stack"], told["shown"]) == (own.model, own.stack, own.shown)
    assert told["options"] == own.settings()
    assert told["maps_kept"] == (len(own.window) <= arrays.ALL_AT_ONCE)
    relation = case.arrays("pairs")["relation"]
    assert np.array_equal(relation, own.relations.numpy())
    same, table = own.window.repeats(own.options.repeated).tolist(), own.tokens
    ids = [number if number >= 0 else ("none", place) for place, number in enumerate(same)]
    word, sentence = ([x if x >= 0 else None for x in table[name]] for name in ("word", "sentence"))
    category = table.category.tolist()
    again = [naive.relation(i, j, ids, category, word, sentence) for i, j in case.places]
    assert [RELATIONS[r] for r in relation] == again


def levels(matrix: np.ndarray, places: list[tuple[int, int]], rank: bool) -> list[float]:
    """naive.levels, but the largest is looked for once: there are tens of thousands of pairs here."""
    if rank:
        return naive.levels(matrix, places, rank=True) or []
    values = [matrix[i, j] for i, j in places]
    largest = max(values)
    return [value / largest for value in values]


def test_a_head_is_bit_for_bit_that_of_the_inspection_and_its_bins_are_the_naive_ones(case: Seen) -> None:
    own = case.own
    rank, places = own.options.scale == "rank", case.places
    for k, layer, head in case.heads[: 1 if rank and len(places) > 10_000 else None]:  # naive ranks take seconds
        found = case.arrays(f"heads/{layer}/{head}")
        matrix = own.similarity.values[k, head]
        assert np.array_equal(found["similarity"], matrix[np.triu_indices(len(matrix), 1)])
        assert found["similarity"].dtype == np.float32
        assert np.array_equal(found["norms"], own.norms.values[k, head])
        assert np.array_equal(found["received"], own.received(layer, head).values, equal_nan=True)
        text_only = own.received(layer, head, text_only=True).values
        assert np.array_equal(found["received_text"], text_only, equal_nan=True)
        level = levels(matrix.astype(float), places, rank=rank)
        assert found["flat"].tolist() == [0]
        assert found["bin"].tolist() == [naive.bin_of(each) for each in level]
        assert ("level" in found) == rank
        if rank:
            assert found["level"].tolist() == level


def test_an_attention_map_is_bit_for_bit_that_of_the_inspection(case: Seen) -> None:
    for k, layer, head in case.heads:
        found = case.arrays(f"heads/{layer}/{head}/attention")["attention"]
        assert np.array_equal(found, case.own.attention.values[k, head])
        assert found.shape == (len(case.own.window), len(case.own.captured.keys))


def test_scores_at_every_threshold_are_those_of_the_summary(case: Seen) -> None:
    names = [score["name"] for score in case.told["scores"]]
    layers = {layer: case.arrays(f"layers/{layer}") for _, layer, _ in case.heads}
    for step in (1, 10, 19):
        summary = case.own.summary(step / 20).set_index("layer")
        for layer, found in layers.items():
            rows = summary.loc[layer]
            for name, scores in zip(names, found["scores"][:, step - 1], strict=True):
                # Likeness is taken head by head where maps are not kept, so its sums may round differently.
                close = 1e-5 if name == "likeness" and not case.told["maps_kept"] else 1e-12
                np.testing.assert_allclose(scores, rows[name].to_numpy(float), rtol=close, atol=close, err_msg=name)
            labels = [case.told["same_labels"][n] if n >= 0 else None for n in found["focal"][step - 1]]
            assert labels == [token if isinstance(token, str) else None for token in rows.focal_token]


def test_thumbnails_show_the_strongest_pair_of_every_square(case: Seen) -> None:
    k, layer, head = case.heads[1]
    thumb = case.arrays(f"layers/{layer}")["thumbs"][head]
    counting = np.flatnonzero(case.own.counting.numpy())
    level = case.own.levels.values[k, head]
    level = level[counting[0] : counting[-1] + 1, counting[0] : counting[-1] + 1].astype(float)
    side, size = len(thumb), len(level)
    assert side == min(size, arrays.THUMB)
    for row in range(side):
        for column in range(side):
            square = level[
                row * size // side : (row + 1) * size // side, column * size // side : (column + 1) * size // side
            ]
            there = square[~np.isnan(square)]
            assert thumb[row, column] == (1 + round(254 * max(there.max(), 0.0)) if len(there) else 0)


@pytest.mark.parametrize("case", ["rank", "cross", "long"], indirect=True)
def test_the_file_for_download_is_the_saved_inspection(case: Seen, tmp_path: Path) -> None:
    answer = case.client.get(f"/api/texts/{case.told['id']}/inspection.nc")
    assert answer.status_code == 200
    assert 'filename="inspection.nc"' in answer.headers["content-disposition"]
    (tmp_path / "got.nc").write_bytes(answer.content)
    got = xr.open_dataset(tmp_path / "got.nc", engine="h5netcdf")
    own = xr.open_dataset(case.own.save(tmp_path / "own.nc"), engine="h5netcdf")
    if not case.told["maps_kept"]:
        own = own.drop_vars(["attention", "similarity", "levels"])
        own = own.drop_vars(set(own.coords) - set(got.coords))
    xr.testing.assert_identical(got, own)


def test_a_download_does_not_stay_in_memory(embedded: headscope.Model) -> None:
    """All matrices of all heads at once are for the file; the desk counts only what it keeps."""
    behind = Desk(lambda: embedded)
    with serving(behind) as place, place.client() as client:
        name = client.post("/api/texts", json={"text": TEXT}).json()["id"]
        assert client.get(f"/api/texts/{name}/inspection.nc").status_code == 200
    kept = behind.texts()[-1]
    assert not {"similarity", "levels"} & set(vars(kept))


def test_a_run_is_answered_as_it_is_in_the_file(with_run: Place, run: Path, corpus: Corpus) -> None:
    with with_run.client() as client:
        assert client.get("/api/run").json() == json.loads(json.dumps(corpus.about))
        assert client.get("/api/run/result.nc").content == (run / "result.nc").read_bytes()
        for step in (1, 10, 19):
            found = unpacked(client.get(f"/api/run/atlas/{step}").content)
            own = unpacked(corpus.atlas(step))
            assert found.keys() == own.keys()
            assert all(np.array_equal(found[name], own[name], equal_nan=True) for name in own)
            told = client.get(f"/api/run/heads/3/4/{step}").json()
            assert told == json.loads(json.dumps(corpus.curves(3, 4, step)))
        examples = client.get("/api/run/heads/3/4/examples/stop_focus").json()
        assert examples == json.loads(json.dumps(corpus.examples(3, 4, "stop_focus")))
        assert all(any(p["text"].startswith(row["text"]) for p in headscope.passages()[:16]) for row in examples)


def test_without_a_run_or_a_model_that_is_said() -> None:
    with serving(Desk()) as place, place.client() as client:
        assert client.get("/api/about").json()["can_inspect"] is False
        answer = client.post("/api/texts", json={"text": SHORT})
        assert (answer.status_code, "no model" in said(answer)) == (422, True)
        for path in ("", "/atlas/3", "/result.nc", "/heads/0/0/3", "/heads/0/0/examples/distance"):
            answer = client.get(f"/api/run{path}")
            assert (answer.status_code, "no result" in said(answer)) == (404, True)


# ---------------------------------------------------------------------- the line before the model


def test_when_the_line_is_full_the_rest_is_told_to_come_back(embedded: headscope.Model) -> None:
    may_load, texts = threading.Event(), [f"{SHORT} That was number {k}." for k in range(22)]

    def load_when_told() -> headscope.Model:
        assert may_load.wait(60)
        return embedded

    def post(text: str) -> httpx.Response:
        with place.client() as client:
            return client.post("/api/texts", json={"text": text})

    with serving(Desk(load_when_told)) as place, ThreadPoolExecutor(len(texts)) as pool:
        try:
            asked = {pool.submit(post, text): text for text in texts}
            told: set[Any] = set()
            while len(told) < len(texts) - 17:  # one at work, 16 in line
                done, _ = wait(set(asked) - told, 30, FIRST_COMPLETED)
                assert done
                told |= done
            for each in told:
                answer = each.result()
                assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
                assert "try again" in said(answer)
            assert place.answers()  # who only looks need not wait for the model
        finally:
            may_load.set()
        for each in set(asked) - told:
            answer = each.result()
            assert answer.status_code == 200
            assert answer.json()["texts"] == [asked[each]]
        for each in told:
            assert post(asked[each]).status_code == 200


def test_a_text_that_was_let_go_is_missing_and_can_be_sent_again(
    embedded: headscope.Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(desk, "MOST_TEXTS", 2)
    with serving(Desk(lambda: embedded)) as place, place.client() as client:
        names = [client.post("/api/texts", json={"text": f"{SHORT} {k}."}).json()["id"] for k in range(2)]
        first = client.get(f"/api/texts/{names[0]}/heads/3/3").content  # looked at last, so the other one goes
        client.post("/api/texts", json={"text": TEXT})
        assert client.get(f"/api/texts/{names[0]}").status_code == 200
        for path in ("", "/pairs", "/layers/0", "/heads/0/0", "/heads/0/0/attention", "/inspection.nc"):
            answer = client.get(f"/api/texts/{names[1]}{path}")
            assert (answer.status_code, "send it again" in said(answer)) == (404, True)
        again = client.post("/api/texts", json={"text": f"{SHORT} 1."})
        assert (again.status_code, again.json()["id"]) == (200, names[1])
        assert client.get(f"/api/texts/{names[1]}").status_code == 200
        assert client.get(f"/api/texts/{names[0]}/heads/3/3").content == first


def test_no_more_texts_are_kept_than_fit(embedded: headscope.Model, monkeypatch: pytest.MonkeyPatch) -> None:
    size = desk.Seen(embedded.inspect(TEXT)).size
    monkeypatch.setattr(desk, "KEPT", int(2.5 * size))
    with serving(Desk(lambda: embedded)) as place, place.client() as client:
        for passage in headscope.passages()[:5]:
            client.post("/api/texts", json={"text": passage["text"]})
        assert len(client.get("/api/about").json()["texts"]) == 2


# ---------------------------------------------------------------------- as a process


def test_the_viewer_starts_answers_and_ends_when_told_to() -> None:
    with view_process("A cat.") as viewer:
        place, process = viewer.place, viewer.process
        with place.client() as client:
            told = client.get("/api/about").json()
            assert told["model"]["name"] == "headscope/bert12"
            shown = client.get(f"/api/texts/{told['texts'][0]}").json()
            assert shown["texts"] == ["A cat."]
            # It ends in time whoever still holds a connection: idle, half asked, or not reading.
            half, deaf = place.connect(), place.connect(buffer=4096)
            half.sendall(place.head("/api/texts", "Content-Length: 100", method="POST"))
            deaf.sendall(place.head(f"/api/texts/{told['texts'][0]}/inspection.nc"))
            began = time.monotonic()
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=30)
        took = time.monotonic() - began
        print(f"said its address after {viewer.began_after:.1f} s, ended {took:.1f} s after SIGINT")
        assert process.returncode == 0
        assert took < 10
        assert "closed" in out
        assert err == ""
        for each in (half, deaf):
            each.close()
        with pytest.raises(ConnectionRefusedError):
            place.connect()
        with socket.socket() as again:
            again.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            again.bind(("127.0.0.1", place.port))


def test_a_port_that_is_taken_is_said_in_a_sentence(served: Place, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["view", SHORT, "--no-open", "--port", str(served.port)]) == 2
    out, err = capsys.readouterr()
    told = " ".join(err.split())
    assert f"port {served.port} cannot be used" in told
    assert "leave out --port" in told
    assert out == ""


def test_an_address_that_was_said_takes_connections_at_once(embedded: headscope.Model) -> None:
    """Before the server runs they wait in line, so that a browser may be opened on it."""
    made = server.Server(Desk(lambda: embedded))
    with Place(made.port, made.token).connect() as early:
        early.sendall(Place(made.port, made.token).head())
        thread = threading.Thread(target=made.run)
        thread.start()
        assert heard(early).status == 200
    made.stop()
    thread.join(15)
    assert not thread.is_alive()


# ---------------------------------------------------------------------- many at once


def under_load(model: headscope.Model, *, seconds: float) -> Load:
    with ThreadPoolExecutor(1) as beside:
        work = beside.submit(errands, model, 72)
        with view_process(SHORT) as viewer:
            found = load(viewer, work.result(), clients=50, seconds=seconds)
            assert viewer.place.answers()
    print(f"\n50 clients for {seconds:.0f} s: {found}")
    assert found.wrong == []
    assert set(found.statuses) <= {200, 503}
    assert found.statuses[200] > 50
    assert np.percentile(found.seconds, 95) < 10
    assert max(found.seconds) < 15
    return found


def test_fifty_clients_at_once_get_right_answers_or_are_told_to_come_back(embedded: headscope.Model) -> None:
    found = under_load(embedded, seconds=20)
    assert found.full is not None  # until then memory grows with every text
    early, late = found.at(max(5, found.full)), found.memory[-1][1]
    assert late - early < max(150, 0.15 * early)


@pytest.mark.long
def test_fifty_clients_for_minutes_do_not_make_memory_grow(embedded: headscope.Model) -> None:
    found = under_load(embedded, seconds=180)
    slope = found.slope(after=40)
    print(f"memory grows by {slope:.1f} MB a minute after the first 40 s")
    assert slope < 25


# ---------------------------------------------------------------------- whatever else may be asked

CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]


def fuzzed(place: Place, examples: int, *, anew: bool = False) -> dict[str, dict[int, int]]:
    """Ask every operation of the OpenAPI document for things it allows and for things it does not."""
    token = {"X-Headscope-Token": place.token}
    schema = schemathesis.openapi.from_url(f"http://127.0.0.1:{place.port}/api/openapi.json", headers=token)
    with place.client() as client:
        known = [client.post("/api/texts", json={"text": text}).json()["id"] for text in (SHORT, "A cat.")]
    real = {"name": st.sampled_from(known), "layer": st.integers(0, 12), "head": st.integers(0, 12),
            "score": st.sampled_from([*SCORES, "nothing"])}  # fmt: skip
    settings = hypothesis.settings(
        max_examples=examples, derandomize=not anew, deadline=None, database=None,
        phases=[hypothesis.Phase.generate], suppress_health_check=list(hypothesis.HealthCheck),
    )  # fmt: skip
    return {each.ok().label: fuzz(each.ok(), token, real, settings) for each in schema.get_all_operations()}


def fuzz(
    operation: schemathesis.APIOperation, token: dict[str, str], real: dict[str, Any], settings: hypothesis.settings
) -> dict[int, int]:
    """One operation, sometimes with places that exist; how often each status was the answer."""
    counts: dict[int, int] = {}
    modes = [operation.as_strategy(generation_mode=mode) for mode in schemathesis.GenerationMode]

    @settings
    @hypothesis.given(data=st.data(), asked=st.one_of(modes))
    def ask(data: st.DataObject, asked: schemathesis.Case) -> None:
        for name in sorted(set(asked.path_parameters or {}) & set(real)):
            if data.draw(st.integers(0, 3)):
                asked.path_parameters[name] = data.draw(real[name])
        if isinstance(asked.body, dict) and data.draw(st.booleans()):
            asked.body |= {"text": SHORT, "start": data.draw(st.integers(0, 3)), "stack": None}
        answer = asked.call(headers=token, timeout=60)
        counts[answer.status_code] = counts.get(answer.status_code, 0) + 1
        asked.validate_response(answer, checks=CHECKS)
        if answer.status_code >= 400:
            assert isinstance(answer.json()["error"], str)

    ask()
    return counts


def test_whatever_is_asked_there_is_no_server_error(with_run: Place) -> None:
    found = fuzzed(with_run, 20)
    print(f"\n{sum(sum(counts.values()) for counts in found.values())} requests:", found)
    assert len(found) == 13
    assert all(200 in counts for counts in found.values())
    assert with_run.answers()


@pytest.mark.long
def test_whatever_is_asked_for_minutes_there_is_no_server_error(with_run: Place) -> None:
    found = fuzzed(with_run, 400, anew=True)
    print(f"\n{sum(sum(counts.values()) for counts in found.values())} requests:", found)
    assert with_run.answers()
