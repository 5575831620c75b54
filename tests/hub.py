"""A hub on the loopback: as much of the Hugging Face hub's protocol as downloading a model takes."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@contextmanager
def local_hub(models: dict[str, Path]) -> Iterator[tuple[str, list[str]]]:
    """Serve folders as models; yields the address and the list of the paths that were asked for."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_HEAD(self) -> None:
            self.answer(body=False)

        def do_GET(self) -> None:
            self.answer(body=True)

        def answer(self, body: bool) -> None:
            path = self.path.split("?")[0]
            asked.append(path)
            for name, folder in models.items():
                files = {str(f.relative_to(folder)): f.stat().st_size for f in folder.rglob("*") if f.is_file()}
                if path.startswith(f"/api/models/{name}/tree/"):
                    tree = [{"type": "file", "path": f, "size": n, "oid": COMMIT} for f, n in files.items()]
                    return self.send(json.dumps(tree).encode(), body, {})
                if path.startswith(f"/api/models/{name}"):
                    told = {"id": name, "sha": COMMIT, "siblings": [{"rfilename": f} for f in files]}
                    return self.send(json.dumps(told).encode(), body, {})
                prefix = f"/{name}/resolve/{COMMIT}/"
                if path.startswith(prefix) and (folder / path[len(prefix) :]).is_file():
                    data = (folder / path[len(prefix) :]).read_bytes()
                    tag = hashlib.sha1(data).hexdigest()
                    return self.send(data, body, {"ETag": f'"{tag}"', "X-Repo-Commit": COMMIT})
            return self.send(b"{}", body, {"X-Error-Code": "RepoNotFound"}, 404)

        def send(self, data: bytes, body: bool, headers: dict[str, str], status: int = 200) -> None:
            self.send_response(status)
            for name, value in {"Content-Length": str(len(data)), **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            if body:
                self.wfile.write(data)

        def log_message(self, *args: object) -> None:
            """Keep the test's output clean."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", asked
    finally:
        server.shutdown()
        server.server_close()


if __name__ == "__main__":
    with local_hub({sys.argv[1]: Path(sys.argv[2])}) as (address, _):
        input(f"{address} serves {sys.argv[2]} as {sys.argv[1]}; Enter ends it\n")
