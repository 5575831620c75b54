"""The local server: a FastAPI application behind the guard, and uvicorn with patience that ends."""

from __future__ import annotations

import asyncio
import logging
import secrets
import socket
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path as File
from typing import Annotated, Any, Literal

import uvicorn
from fastapi import FastAPI, Path, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, HTMLResponse, JSONResponse, Response
from pydantic import BaseModel, ConfigDict, Field
from starlette.background import BackgroundTask
from starlette.exceptions import HTTPException
from uvicorn.protocols.http.h11_impl import H11Protocol

from headscope import __version__
from headscope.errors import HeadscopeError
from headscope.texts.one import LONGEST_TEXT
from headscope.view.desk import Desk, Gone
from headscope.view.guard import SECONDS, Guard
from headscope.view.lanes import Busy, Lane
from headscope.view.page import module, served_page

HOST = "127.0.0.1"
PATIENCE = 10.0  # seconds for a request's headers to arrive
CONNECTIONS = 256
BINARY = "application/octet-stream"

TextId = Annotated[str, Path(pattern="^t[0-9a-f]{20}$")]
Number = Annotated[int, Path(ge=0, le=9999)]
Step = Annotated[int, Path(ge=1, le=19, description="τ in twentieths")]


class Asked(BaseModel):
    """A text to read, and the choices of the method; what is left out is as the viewer was started."""

    model_config = ConfigDict(extra="forbid")

    text: str = Field(max_length=LONGEST_TEXT)
    pair: str | None = Field(None, max_length=LONGEST_TEXT)
    stack: Literal["encoder", "decoder", "cross"] | None = None
    start: int | None = Field(None, ge=0, le=10_000_000)
    window: int | None = Field(None, ge=1, le=4096)
    similarity: Literal["dot", "cosine"] | None = None
    scale: Literal["max", "rank"] | None = None
    repeated: Literal["token", "word"] | None = None
    special: bool | None = None
    language: str | None = Field(None, pattern="^[a-z]{2,3}$")


class Problem(BaseModel):
    """Why a request was not answered."""

    error: str


def application(desk: Desk, *, token: str, hosts: list[str], **limits: float) -> FastAPI:
    """Everything the page asks for, as HTTP. Only the guard's limits can be set."""
    # The model reads one text at a time; what was read already is looked up beside it.
    reading = Lane("reading", workers=1, waiting=16)
    looking = Lane("looking", workers=2, waiting=64)

    @asynccontextmanager
    async def living(_: FastAPI) -> AsyncIterator[None]:
        yield
        reading.close()
        looking.close()

    app = FastAPI(
        title="headscope", version=__version__, docs_url=None, redoc_url=None, openapi_url="/api/openapi.json",
        lifespan=living, redirect_slashes=False,
        responses={code: {"model": Problem} for code in (400, 401, 403, 404, 408, 413, 421, 422, 503)},
    )  # fmt: skip
    app.add_middleware(Guard, token=token, hosts=hosts, **limits)
    _problems(app)

    async def answer(path: str, lane: Lane = looking) -> Response:
        found = await lane.run(desk.answer, path)
        return Response(found, media_type=BINARY) if isinstance(found, bytes) else JSONResponse(found)

    @app.get("/", response_class=HTMLResponse, include_in_schema=False)
    async def page() -> HTMLResponse:
        return HTMLResponse(served_page(token))

    @app.get("/headscope.js", include_in_schema=False)
    async def script() -> Response:
        return Response(module(), media_type="text/javascript")

    @app.get("/api/about")
    async def about() -> Response:
        return await answer("about")

    @app.post("/api/texts")
    async def inspect(asked: Asked) -> Response:
        options = asked.model_dump(exclude={"text"})
        return JSONResponse(await reading.run(lambda: desk.inspect(asked.text, **options)))

    @app.get("/api/texts/{name}")
    async def text(name: TextId) -> Response:
        return await answer(f"texts/{name}")

    @app.get("/api/texts/{name}/pairs")
    async def pairs(name: TextId) -> Response:
        return await answer(f"texts/{name}/pairs")

    @app.get("/api/texts/{name}/layers/{layer}")
    async def layer_of_text(name: TextId, layer: Number) -> Response:
        return await answer(f"texts/{name}/layers/{layer}")

    @app.get("/api/texts/{name}/heads/{layer}/{head}")
    async def head_of_text(name: TextId, layer: Number, head: Number) -> Response:
        return await answer(f"texts/{name}/heads/{layer}/{head}")

    @app.get("/api/texts/{name}/heads/{layer}/{head}/attention")
    async def attention(name: TextId, layer: Number, head: Number) -> Response:
        # Where maps are not kept this runs the model, so it waits with those who do.
        return await answer(f"texts/{name}/heads/{layer}/{head}/attention", reading)

    @app.get("/api/texts/{name}/inspection.nc")
    async def dataset(name: TextId) -> Response:
        return _download(await looking.run(_saved, lambda file: desk.save_text(name, file)), "inspection.nc")

    @app.get("/api/run")
    async def run() -> Response:
        return await answer("run")

    @app.get("/api/run/result.nc")
    async def result() -> Response:
        return FileResponse(desk.run.result.file, media_type=BINARY, filename="result.nc")

    @app.get("/api/run/atlas/{step}")
    async def atlas(step: Step) -> Response:
        return await answer(f"run/atlas/{step}")

    @app.get("/api/run/heads/{layer}/{head}/examples/{score}")
    async def examples(layer: Number, head: Number, score: Annotated[str, Path(pattern="^[a-z_]{1,40}$")]) -> Response:
        return await answer(f"run/heads/{layer}/{head}/examples/{score}")

    @app.get("/api/run/heads/{layer}/{head}/{step}")
    async def curves(layer: Number, head: Number, step: Step) -> Response:
        return await answer(f"run/heads/{layer}/{head}/{step}")

    return app


def _problems(app: FastAPI) -> None:
    """Every way to fail becomes a status and a sentence."""

    def problem(status: int, why: str) -> JSONResponse:
        return JSONResponse({"error": why}, status, {"retry-after": "1"} if status == 503 else None)

    @app.exception_handler(HeadscopeError)
    async def wrong(_: Request, error: HeadscopeError) -> Response:
        return problem(404 if isinstance(error, Gone) else 422, str(error))

    @app.exception_handler(Busy)
    async def busy(_: Request, error: Busy) -> Response:
        return problem(503, str(error))

    @app.exception_handler(RequestValidationError)
    async def invalid(_: Request, error: RequestValidationError) -> Response:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"] if part != "body")
        return problem(422, f"{where}: {first['msg']}" if where else str(first["msg"]))

    @app.exception_handler(HTTPException)
    async def other(_: Request, error: HTTPException) -> Response:
        return problem(error.status_code, str(error.detail))


def _saved(write: Callable[[File], Any]) -> File:
    folder = File(tempfile.mkdtemp(prefix="headscope-"))
    write(folder / "inspection.nc")
    return folder / "inspection.nc"


def _download(file: File, name: str) -> Response:
    def clear() -> None:
        file.unlink(missing_ok=True)
        with suppress(OSError):
            file.parent.rmdir()

    return FileResponse(file, media_type=BINARY, filename=name, background=BackgroundTask(clear))


# ---------------------------------------------------------------------- uvicorn


class Impatient(H11Protocol):
    """A connection that is closed where headers trickle in, or where nobody reads the answer."""

    patience, limit = PATIENCE, SECONDS + 5
    _clock: asyncio.TimerHandle | None = None

    def _wait(self, seconds: float) -> None:
        if self._clock is not None:
            self._clock.cancel()
        self._clock = self.loop.call_later(seconds, self.transport.abort)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for the first request."""
        super().connection_made(transport)
        self._wait(self.patience)

    def data_received(self, data: bytes) -> None:
        """Take what came; once a request has begun, it has as long as any request."""
        before = self.cycle
        if self._clock is None:
            self._wait(self.patience)  # the next request on a connection that was kept
        super().data_received(data)
        if self.cycle is not before and not self.transport.is_closing():
            self._wait(self.limit)

    def on_response_complete(self) -> None:
        """Stop the clock until somebody speaks again."""
        if self._clock is not None:
            self._clock.cancel()
            self._clock = None
        super().on_response_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the clock."""
        if self._clock is not None:
            self._clock.cancel()
            self._clock = None
        super().connection_lost(exc)


@dataclass
class Server:
    """A server on loopback that is ready to run: its address is known before it starts.

    >>> server = Server(Desk())
    >>> server.address.startswith("http://127.0.0.1:")
    True
    >>> server.close()
    """

    desk: Desk
    port: int = 0  # 0: any free one
    token: str = field(default_factory=lambda: secrets.token_urlsafe(24))
    limits: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._socket = _bound(self.port)
        self.port = self._socket.getsockname()[1]
        hosts = [f"{name}:{self.port}" for name in (HOST, "localhost")]
        app = application(self.desk, token=self.token, hosts=hosts, **self.limits)
        config = uvicorn.Config(
            app, http=Impatient, ws="none", lifespan="on", access_log=False, log_level=logging.CRITICAL,
            limit_concurrency=CONNECTIONS, timeout_keep_alive=10, timeout_graceful_shutdown=5, server_header=False,
            h11_max_incomplete_event_size=65_536,
        )  # fmt: skip
        self._server = uvicorn.Server(config)

    @property
    def address(self) -> str:
        """What to open in a browser: it holds the token."""
        return f"http://{HOST}:{self.port}/?token={self.token}"

    def run(self) -> None:
        """Serve until interrupted, then end cleanly."""
        self._server.run(sockets=[self._socket])

    def stop(self) -> None:
        """Ask a running server to end; for another thread."""
        self._server.should_exit = True

    def close(self) -> None:
        """Give the port back."""
        self._socket.close()


def _bound(port: int) -> socket.socket:
    made = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        made.bind((HOST, port))
    except (OSError, OverflowError) as error:
        made.close()
        raise HeadscopeError(f"port {port} cannot be used: {error}", "leave out --port to take a free one") from error
    return made
