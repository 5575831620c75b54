"""The server: a FastAPI application behind the guard, run by uvicorn with patience that ends (`connections`)."""

from __future__ import annotations

import errno
import logging
import secrets
import socket
import traceback
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path as File
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import uvicorn
from fastapi import APIRouter, Depends, FastAPI, Path, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, HTMLResponse, JSONResponse, Response
from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.types import Receive, Scope, Send

from headscope.choices import Reading, Stack
from headscope.errors import HeadscopeError, brief
from headscope.version import __version__
from headscope.view.bodies import InspectRequest, PhoneRequest, SaveRequest
from headscope.view.connections import Impatient
from headscope.view.desk import Desk, Gone
from headscope.view.guard import Guard
from headscope.view.page import module, served_page
from headscope.view.queues import Busy, WorkQueue
from headscope.view.reach import LOOPBACK, checked_host, is_loopback, names_of, own_addresses, qr_picture
from headscope.view.saving import Savings
from headscope.windows.text import in_a_line

BINARY = "application/octet-stream"
SAVED = "inspection.nc"

TextId = Annotated[str, Path(pattern="^t[0-9a-f]{20}$")]
FileName = Annotated[str, Path(pattern="^[0-9a-f]{16}$")]
Number = Annotated[int, Path(ge=0, le=9999)]
Name = Annotated[str, Path(pattern=r"^\w{1,60}$")]
Way = Annotated[
    str, Path(pattern="^([a-z]{1,16}|[0-9]{1,2})$", description="a reading, an attention map, or τ in twentieths")
]


def _of_stack(stack: Stack) -> str:
    """One of the attention stacks that a model may have, as a part of a path."""
    return stack


def _run_path(request: Request) -> str:
    """Where the desk has the run: as the viewer was started, or another stack of it."""
    stack = request.path_params.get("stack")
    return f"stacks/{stack}/run" if stack else "run"


RunPath = Annotated[str, Depends(_run_path)]


class Problem(BaseModel):
    """Why a request was not answered."""

    error: str


class Numbers(Response):
    """An answer in binary."""

    media_type = BINARY


class Download(FileResponse):
    """A whole file, never a part of it; where it was made for this answer, it is gone afterwards."""

    def __init__(self, file: File, made_in: TemporaryDirectory[str] | None = None) -> None:
        super().__init__(file, media_type=BINARY, filename=file.name)
        self.made_in = made_in

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it."""
        headers = [(name, value) for name, value in scope["headers"] if name != b"range"]
        try:
            await super().__call__({**scope, "headers": headers}, receive, send)
        finally:
            if self.made_in is not None:
                self.made_in.cleanup()


def application(desk: Desk, *, token: str, hosts: list[str], home: str = "", **limits: float) -> Guard:
    """Everything the page asks for, as HTTP behind the guard, whose limits can be set.

    `home` is the page's address for other machines, empty where they cannot reach it.
    """
    # The model reads one text at a time; what was read already is looked up beside it.
    running = WorkQueue("running", workers=1, waiting=16)
    looking = WorkQueue("looking", workers=2, waiting=64)
    counting = WorkQueue("counting", workers=1, waiting=64)  # scores of a run, which at a new τ take seconds
    savings = Savings()

    @asynccontextmanager
    async def living(_: FastAPI) -> AsyncIterator[None]:
        yield
        for queue in (running, looking, counting):
            queue.close()
        savings.close()

    app = FastAPI(
        title="headscope", version=__version__, docs_url=None, redoc_url=None, openapi_url="/api/openapi.json",
        lifespan=living, redirect_slashes=False,
        responses={code: _documented(code) for code in (400, 401, 403, 404, 408, 413, 421, 422, 503)},
    )  # fmt: skip
    _problems(app)

    async def answer(path: str, queue: WorkQueue = looking) -> Response:
        reply = await queue.run(desk.answer, path)
        return Numbers(reply) if isinstance(reply, bytes) else JSONResponse(reply)

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
    async def inspect(request: InspectRequest) -> Response:
        options = request.model_dump(exclude={"text", "again"})
        return JSONResponse(await running.run(lambda: desk.inspect(request.text, again=request.again, **options)))

    @app.get("/api/texts/{name}")
    async def text(name: TextId) -> Response:
        return await answer(f"texts/{name}")

    @app.get("/api/texts/{name}/pairs", response_class=Numbers)
    async def pairs(name: TextId) -> Response:
        return await answer(f"texts/{name}/pairs")

    @app.get("/api/texts/{name}/boundaries")
    async def boundaries(name: TextId) -> Response:
        # The model reads the sentences one by one, so it waits with those who run it.
        return await answer(f"texts/{name}/boundaries", running)

    @app.get("/api/texts/{name}/{reading}/layers/{layer}", response_class=Numbers)
    async def layer_of_text(name: TextId, reading: Reading, layer: Number) -> Response:
        # Where maps are not kept this may run the model.
        queue = looking if desk.at_hand(name, reading) else running
        return await answer(f"texts/{name}/{reading}/layers/{layer}", queue)

    @app.get("/api/texts/{name}/{reading}/heads/{layer}/{head}", response_class=Numbers)
    async def head_of_text(name: TextId, reading: Reading, layer: Number, head: Number) -> Response:
        return await answer(f"texts/{name}/{reading}/heads/{layer}/{head}")

    @app.get("/api/texts/{name}/heads/{layer}/{head}/attention", response_class=Numbers)
    async def attention(name: TextId, layer: Number, head: Number) -> Response:
        # Where maps are not kept this runs the model, so it waits with those who do.
        return await answer(f"texts/{name}/heads/{layer}/{head}/attention", running)

    @app.get("/api/texts/{name}/{reading}/inspection.nc", response_class=Numbers)
    async def dataset(name: TextId, reading: Reading) -> Response:
        folder = await looking.run(_saved, desk, name, reading)
        return Download(File(folder.name) / SAVED, folder)

    @app.post("/api/files")
    async def save(request: SaveRequest) -> Response:
        if not request.texts and not request.run:
            raise HeadscopeError("there is nothing to save", "name a text that was read, or the run")
        wanted = desk.part(
            request.texts, run=request.run, stack=request.stack, readings=request.readings, address=request.address
        )
        return JSONResponse(savings.state(savings.begin(wanted)))

    @app.get("/api/files/{file}")
    async def saving(file: FileName) -> Response:
        return JSONResponse(savings.state(file))

    @app.get("/api/files/{file}/view.html", response_class=Numbers)
    async def saved(file: FileName) -> Response:
        taken = savings.take(file)
        return Download(taken.file, taken.folder)

    @app.post("/api/phone")
    async def phone(request: PhoneRequest) -> Response:
        address = f"{home}#{request.address}" if home and request.address else home
        return JSONResponse({"address": address, "picture": qr_picture(address) if address else ""})

    @app.get("/api/run/result.nc", response_class=Numbers)
    async def result() -> Response:
        return Download(desk.run.result.file)

    run = APIRouter()

    @run.get("")
    async def about_run(path: RunPath) -> Response:
        return await answer(path)

    @run.get("/findings")
    async def findings(path: RunPath) -> Response:
        return await answer(f"{path}/findings")

    @run.get("/sensitivity")
    async def sensitivity(path: RunPath) -> Response:
        return await answer(f"{path}/sensitivity")

    @run.get("/scores/{score}/{way}", response_class=Numbers)
    async def scores(path: RunPath, score: Name, way: Way) -> Response:
        return await answer(f"{path}/scores/{score}/{way}", counting)

    @run.get("/heads/{layer}/{head}", response_class=Numbers)
    async def curves(path: RunPath, layer: Number, head: Number) -> Response:
        return await answer(f"{path}/heads/{layer}/{head}")

    @run.get("/heads/{layer}/{head}/examples/{score}")
    async def examples(path: RunPath, layer: Number, head: Number, score: Name) -> Response:
        return await answer(f"{path}/heads/{layer}/{head}/examples/{score}")

    @run.get("/heads/{layer}/{head}/examples/{score}/marked/{number}")
    async def marked(path: RunPath, layer: Number, head: Number, score: Name, number: Number) -> Response:
        return await answer(f"{path}/heads/{layer}/{head}/examples/{score}/marked/{number}", running)

    app.include_router(run, prefix="/api/run")
    app.include_router(run, prefix="/api/stacks/{stack}/run", dependencies=[Depends(_of_stack)])

    return Guard(app, token=token, hosts=hosts, **limits)


def _documented(code: int) -> dict[str, Any]:
    """A refusal for the OpenAPI document: JSON, also where the answer would be binary."""
    content = {"application/json": {"schema": Problem.model_json_schema()}}
    return {"description": HTTPStatus(code).phrase, "content": content}


def _problems(app: FastAPI) -> None:
    """Every way to fail becomes a status and a sentence."""

    def problem(status: int, why: str, headers: Mapping[str, str] | None = None) -> JSONResponse:
        wait = {"retry-after": "1"} if status == 503 else {}
        return JSONResponse({"error": in_a_line(why)}, status, {**(headers or {}), **wait})

    @app.exception_handler(HeadscopeError)
    async def wrong(_: Request, error: HeadscopeError) -> Response:
        return problem(404 if isinstance(error, Gone) else 422, str(error))

    @app.exception_handler(Busy)
    async def busy(_: Request, error: Busy) -> Response:
        return problem(503, str(error))

    @app.exception_handler(RequestValidationError)
    async def invalid(_: Request, error: RequestValidationError) -> Response:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"] if part != "body")[:80]
        return problem(422, f"{where}: {first['msg']}" if where else str(first["msg"]))

    @app.exception_handler(HTTPException)
    async def other(_: Request, error: HTTPException) -> Response:
        return problem(error.status_code, str(error.detail), error.headers)

    @app.exception_handler(Exception)
    async def defect(_: Request, error: Exception) -> Response:
        traceback.print_exception(error)  # where the server was started: whoever reports it needs it
        return problem(500, f"a defect of headscope, please report it: {type(error).__name__}: {brief(error)}")


def _saved(desk: Desk, name: str, reading: str) -> TemporaryDirectory[str]:
    """A text's inspection as a file in a folder, which goes away with the object even if nobody waited for it."""
    folder = TemporaryDirectory(prefix="headscope-", ignore_cleanup_errors=True)
    try:
        desk.save_text(name, reading, File(folder.name) / SAVED)
    except BaseException:
        folder.cleanup()
        raise
    return folder


@dataclass
class Server:
    """A server that is ready to run: its address is known before it starts.

    It listens on loopback, unless it is told another address.

    >>> server = Server(Desk())
    >>> server.address.startswith("http://127.0.0.1:")
    True
    >>> server.close()
    """

    desk: Desk
    port: int = 0  # 0: any free one
    token: str = field(default_factory=lambda: secrets.token_urlsafe(24))
    limits: dict[str, float] = field(default_factory=dict)
    host: str = LOOPBACK  # an address of this machine, or 0.0.0.0 for all of them

    def __post_init__(self) -> None:
        self._socket = _bound(checked_host(self.host), self.port)
        self.port = self._socket.getsockname()[1]
        names = names_of(self.host)
        hosts = [f"{name}:{self.port}" for name in names]
        self.is_open = not is_loopback(names[0])  # to other machines
        self.address = self._at(names[0])
        self.address_here = self._at(LOOPBACK) if LOOPBACK in names else self.address
        home = self.address if self.is_open else ""
        app = application(self.desk, token=self.token, hosts=hosts, home=home, **self.limits)
        config = uvicorn.Config(
            app, http=Impatient, ws="none", lifespan="on", access_log=False, log_level=logging.CRITICAL,
            timeout_keep_alive=10, timeout_graceful_shutdown=3, server_header=False, proxy_headers=False,
            h11_max_incomplete_event_size=65_536,
        )  # fmt: skip
        self._server = uvicorn.Server(config)

    def _at(self, name: str) -> str:
        """What to open in a browser: it holds the token."""
        return f"http://{name}:{self.port}/?token={self.token}"

    def run(self) -> None:
        """Serve until interrupted, then end cleanly."""
        self._server.run(sockets=[self._socket])

    def stop(self) -> None:
        """Ask a running server to end; for another thread."""
        self._server.should_exit = True

    def close(self) -> None:
        """Give the port back."""
        self._socket.close()


def _bound(host: str, port: int) -> socket.socket:
    made = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    # On Windows SO_REUSEADDR would let another program take the port as well, and with it what is asked here.
    alone = getattr(socket, "SO_EXCLUSIVEADDRUSE", None)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR if alone is None else alone, 1)
    try:
        made.bind((host, port))
        made.listen()  # so that whoever is told the address may connect at once
    except (OSError, OverflowError) as error:
        made.close()
        if isinstance(error, OSError) and error.errno == errno.EADDRNOTAVAIL:
            raise HeadscopeError(
                f"--host {host} is not an address of this machine", f"use one of {', '.join(own_addresses())}"
            ) from error
        raise HeadscopeError(f"port {port} cannot be used: {error}", "leave out --port to take a free one") from error
    return made
