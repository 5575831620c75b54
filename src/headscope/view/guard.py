"""Who may ask, how much, and for how long: everything that is checked before a request is answered.

The server listens on loopback unless it was told to listen on a network, and every page that a browser has open can
reach both. So a request must carry the token that was printed at the start, be addressed to this very server (a foreign
name that resolves to one of its addresses is DNS rebinding), and come from its own page where the browser says where it
comes from. On a network all of that holds as well. What is added there: whoever can listen to the network can read the
token, for nothing is encrypted.
"""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import Iterable
from urllib.parse import parse_qs

from starlette.types import ASGIApp, Message, Receive, Scope, Send

BODY = 1_000_000  # bytes of a request
BODY_SECONDS = 10.0  # for a request's body to arrive
SECONDS = 120.0  # for a request from its first byte to the last byte of its answer
HEADER = "x-headscope-token"
SAFE = {
    "cache-control": "no-store",
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}


class Refused(Exception):  # noqa: N818 - an answer
    """A request that is not answered: the status, and why."""

    def __init__(self, status: int, why: str) -> None:
        self.status, self.why = status, why
        super().__init__(why)


class Guard:
    """Around an ASGI application: token, Host, Origin, size and time of every request; headers of every answer."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        token: str,
        hosts: Iterable[str],
        seconds: float = SECONDS,
        body_seconds: float = BODY_SECONDS,
    ) -> None:
        self.app, self.token, self.hosts = app, token, frozenset(hosts)
        self.origins = frozenset(f"http://{name}" for name in self.hosts)
        self.seconds, self.body_seconds = seconds, body_seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let through what may pass, answer the rest."""
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":  # no WebSockets here
            return
        started = False

        async def answer(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                own = dict(safe_headers())
                kept = [(k, v) for k, v in message.get("headers", []) if k.lower() not in own]
                message = {**message, "headers": [*kept, *own.items()]}
            await send(message)

        try:
            self._check(scope)
            async with asyncio.timeout(self.seconds):
                body = await self._body(receive)
                await self.app(scope, _Replay(body, receive), answer)
        except Refused as refused:
            await _refuse(answer, refused)
        except TimeoutError:
            if not started:  # else the connection is closed, and the client sees an answer cut short
                await _refuse(answer, Refused(503, "the answer took too long; ask for less, or later"))

    def _check(self, scope: Scope) -> None:
        headers: dict[bytes, list[bytes]] = {}
        for name, value in scope["headers"]:
            headers.setdefault(name.lower(), []).append(value)
        host = headers.get(b"host", [])
        if len(host) != 1 or host[0].decode("latin-1").lower() not in self.hosts:
            raise Refused(421, "this server answers to its own address only")
        for origin in headers.get(b"origin", []):
            if origin.decode("latin-1").lower() not in self.origins:
                raise Refused(403, "requests from other pages are not answered")
        if headers.get(b"sec-fetch-site", [b"none"])[-1] not in (b"none", b"same-origin"):
            raise Refused(403, "requests from other pages are not answered")
        given = [value.decode("latin-1") for value in headers.get(HEADER.encode(), [])]
        given += parse_qs(scope.get("query_string", b"").decode("latin-1")).get("token", [])
        if not any(secrets.compare_digest(each.encode(), self.token.encode()) for each in given):
            raise Refused(401, "the token is missing or wrong; open the address that headscope view printed")
        length = headers.get(b"content-length", [b"0"])[-1]
        if not length.isdigit() or int(length) > BODY:
            raise Refused(413, f"the request is larger than {BODY:,} bytes")

    async def _body(self, receive: Receive) -> bytes:
        """The whole body, before anybody works on it: no more of it than allowed, and in time."""
        body = bytearray()
        try:
            async with asyncio.timeout(self.body_seconds):
                while True:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise Refused(400, "the request broke off")
                    body += message.get("body", b"")
                    if len(body) > BODY:
                        raise Refused(413, f"the request is larger than {BODY:,} bytes")
                    if not message.get("more_body", False):
                        return bytes(body)
        except TimeoutError as error:
            raise Refused(408, "the request came too slowly") from error


class _Replay:
    """Gives the body once more to whoever reads the request, then whatever else the client says."""

    def __init__(self, body: bytes, receive: Receive) -> None:
        self.body: bytes | None = body
        self.receive = receive

    async def __call__(self) -> Message:
        if self.body is not None:
            body, self.body = self.body, None
            return {"type": "http.request", "body": body, "more_body": False}
        return await self.receive()


def safe_headers() -> list[tuple[bytes, bytes]]:
    """What every answer carries."""
    return [(name.encode(), value.encode()) for name, value in SAFE.items()]


def refusal(refused: Refused) -> tuple[list[tuple[bytes, bytes]], bytes]:
    """Headers and body of an answer that refuses, after which the connection ends."""
    body = json.dumps({"error": refused.why}).encode()
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
        (b"connection", b"close"),
    ]
    return [*headers, (b"retry-after", b"1")] if refused.status == 503 else headers, body


async def _refuse(send: Send, refused: Refused) -> None:
    headers, body = refusal(refused)
    await send({"type": "http.response.start", "status": refused.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
