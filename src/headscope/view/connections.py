"""One connection of the server: how long it may take, and what is said when there are too many."""

from __future__ import annotations

import asyncio

import h11
from starlette.types import Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from headscope.view.guard import SECONDS, Refused, refusal, safe_headers

PATIENCE = 10.0  # seconds for a request's headers to arrive
CONNECTIONS = 256


async def crowded(scope: Scope, receive: Receive, send: Send) -> None:
    """The answer to whoever connects when too many are there already."""
    headers, body = refusal(Refused(503, "too many connections at once; try again in a moment"))
    await send({"type": "http.response.start", "status": 503, "headers": [*headers, *safe_headers()]})
    await send({"type": "http.response.body", "body": body})


class Impatient(H11Protocol):
    """A connection that is closed where headers trickle in, or where nobody reads the answer."""

    patience, limit = PATIENCE, SECONDS + 5
    _clock: asyncio.TimerHandle | None = None

    def _wait(self, seconds: float | None) -> None:
        """Begin to count anew; None: do not count."""
        if self._clock is not None:
            self._clock.cancel()
        self._clock = None if seconds is None else self.loop.call_later(seconds, self.transport.abort)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for the first request."""
        super().connection_made(transport)
        if len(self.connections) > CONNECTIONS:
            self.app = crowded
        self._wait(self.patience)

    def data_received(self, data: bytes) -> None:
        """Take what came, by the clock."""
        if self._clock is None:
            self._wait(self.patience)  # the next request on a connection that was kept
        super().data_received(data)

    def handle_events(self) -> None:
        """Once a request has begun, it has as long as any request; those sent ahead begin here too."""
        before = self.cycle
        super().handle_events()
        if self.cycle is not before:
            self._wait(self.limit)

    def on_response_complete(self) -> None:
        """Stop the clock until somebody speaks again; an answer that is not all gone yet must go in time."""
        self._wait(self.limit if self.transport.get_write_buffer_size() else None)
        super().on_response_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the clock."""
        self._wait(None)
        super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:
        """Refuse what is not HTTP as everything else is refused."""
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            headers, body = refusal(Refused(400, msg))
            start = h11.Response(status_code=400, headers=[*headers, *safe_headers()], reason=b"Bad Request")
            for event in (start, h11.Data(data=body), h11.EndOfMessage()):
                self.transport.write(self.conn.send(event) or b"")
        self.transport.close()
