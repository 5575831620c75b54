"""What the tests of object stores share: a store with faults, and S3 as a server of this machine."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

import fsspec
from fsspec.implementations.memory import MemoryFileSystem


class Faulty(MemoryFileSystem):
    """An object store in memory, `faulty://`, that fails as real ones do. What fails is drawn from a seed."""

    protocol = "faulty"
    store: ClassVar[dict[str, Any]] = {}
    pseudo_dirs: ClassVar[list[str]] = [""]
    rate: ClassVar[float] = 0.0  # of calls that fail
    half: ClassVar[bool] = False  # puts that fail leave half of the object, but for conditional ones
    lost: ClassVar[bool] = False  # puts that fail are carried out all the same: the answer is lost
    lag: ClassVar[int] = 0  # listings do not show the newest so many objects
    draw: ClassVar[random.Random] = random.Random(0)
    failed: ClassVar[int] = 0
    written: ClassVar[list[str]] = []
    writers: ClassVar[dict[str, str]] = {}  # by path: the thread that put it last
    after_put: ClassVar[Callable[[str], None] | None] = None  # called once an object is there
    lock: ClassVar[threading.Lock] = threading.Lock()

    @classmethod
    def clear(cls, **faults: Any) -> None:
        cls.store.clear()
        cls.written.clear()
        cls.writers.clear()
        cls.after_put = None
        cls.failed, cls.draw = 0, random.Random(7)
        for name, value in ({"rate": 0.0, "half": False, "lost": False, "lag": 0} | faults).items():
            setattr(cls, name, value)

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
        if isinstance(path, list):
            return [cls._strip_protocol(each) for each in path]
        return super()._strip_protocol(str(path).replace("faulty://", "memory://"))

    def _fails(self) -> bool:
        fails = self.draw.random() < self.rate
        type(self).failed += fails
        return fails

    def pipe_file(self, path: str, value: bytes, mode: str = "overwrite", **options: Any) -> None:
        with self.lock:
            fails = self._fails()
            if fails and (not (self.half or self.lost) or (self.half and mode == "create")):
                raise OSError("503 Slow Down")
            super().pipe_file(path, value[: len(value) // 2] if fails and self.half else value, mode=mode)
            self.written.append(self._strip_protocol(path))
            self.writers[self._strip_protocol(path)] = threading.current_thread().name
            if fails:
                raise OSError("the connection was lost")
        if type(self).after_put is not None:
            type(self).after_put(self._strip_protocol(path))

    def cat_file(self, path: str, start: Any = None, end: Any = None, **options: Any) -> bytes:
        with self.lock:
            if self._fails():
                raise OSError("503 Slow Down")
            return bytes(super().cat_file(path, start, end))

    def find(self, path: str, *args: Any, **options: Any) -> list[str]:
        with self.lock:
            if self._fails():
                raise OSError("503 Slow Down")
            hidden = set(self.written[len(self.written) - self.lag :])
            return [each for each in super().find(path, *args, **options) if each not in hidden]


class Overwriting(MemoryFileSystem):
    """A store that knows no conditional create, `overwriting://`."""

    protocol = "overwriting"
    store: ClassVar[dict[str, Any]] = {}
    pseudo_dirs: ClassVar[list[str]] = [""]

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
        return super()._strip_protocol(str(path).replace("overwriting://", "memory://"))

    def pipe_file(self, path: str, value: bytes, mode: str = "overwrite", **options: Any) -> None:
        super().pipe_file(path, value)


class LooksFirst(MemoryFileSystem):
    """A store whose package leaves a conditional create to fsspec, `looksfirst://`: it looks, and then puts."""

    protocol = "looksfirst"
    store: ClassVar[dict[str, Any]] = {}
    pseudo_dirs: ClassVar[list[str]] = [""]
    pipe_file = fsspec.AbstractFileSystem.pipe_file

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
        return super()._strip_protocol(str(path).replace("looksfirst://", "memory://"))


for kind in (Faulty, Overwriting, LooksFirst):
    fsspec.register_implementation(kind.protocol, kind, clobber=True)


@contextmanager
def s3_server() -> Iterator[str]:
    """moto's S3 on a port of this machine; gives its address."""
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        yield f"http://{host}:{port}"
    finally:
        server.stop()


@contextmanager
def s3_bucket() -> Iterator[str]:
    """A bucket of such a server, with credentials for it."""
    import pytest

    with s3_server() as address, pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ENDPOINT_URL", address)
        patch.setenv("AWS_ACCESS_KEY_ID", "testing")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "testing")
        patch.setenv("AWS_DEFAULT_REGION", "us-east-1")
        fsspec.filesystem("s3", skip_instance_cache=True).mkdir("bucket")
        yield "s3://bucket"


@contextmanager
def gcs_server(*, conditional: bool) -> Iterator[str]:
    """Google's storage, emulated on a port of this machine; gives its address.

    The emulator takes no notice of preconditions. With `conditional` it is given the one that matters here: an upload
    that asks for generation 0 is refused with 412 where there is an object, as the service documents it.
    """
    from http import HTTPStatus

    from gcp_storage_emulator import server as emulator
    from gcp_storage_emulator.exceptions import NotFound

    lock = threading.Lock()

    def checked(upload: Callable[..., Any]) -> Callable[..., Any]:
        def insert(request: Any, response: Any, storage: Any, *rest: Any, **named: Any) -> Any:
            with lock:
                if request.query.get("ifGenerationMatch") == ["0"]:
                    name = request.query["name"][0] if "name" in request.query else request.data["meta"]["name"]
                    try:
                        storage.get_file_obj(request.params["bucket_name"], name)
                    except NotFound:
                        return upload(request, response, storage, *rest, **named)
                    response.status = HTTPStatus.PRECONDITION_FAILED
                    return None
                return upload(request, response, storage, *rest, **named)

        return insert

    before = [dict(handlers) for _, handlers in emulator.HANDLERS]
    if conditional:
        for _, handlers in emulator.HANDLERS:
            for method, handler in handlers.items():
                if handler is emulator.objects.insert:
                    handlers[method] = checked(handler)
    server = emulator.create_server("127.0.0.1", 0, in_memory=True, default_bucket="bucket")
    server.start()
    try:
        yield f"http://127.0.0.1:{server._api._httpd.server_address[1]}"
    finally:
        server.stop()
        for (_, handlers), were in zip(emulator.HANDLERS, before, strict=True):
            handlers.update(were)
