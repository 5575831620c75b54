"""A real JupyterLab for tests, with nothing of the user's own in it and nobody asked outside this machine."""

from __future__ import annotations

import json
import os
import secrets
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PATIENCE = 60  # seconds for the server to answer
UNWANTED = ("@jupyterlab/apputils-extension:announcements", "@jupyterlab/extensionmanager-extension")
DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))


@dataclass(frozen=True)
class Lab:
    """A server that runs, and the folder whose notebooks it shows."""

    home: str
    token: str
    root: Path

    def address(self, notebook: str) -> str:
        """Where a browser finds a notebook."""
        return f"{self.home}/lab/tree/{notebook}?token={self.token}"

    def write(self, name: str, cells: Sequence[tuple[str, str]]) -> None:
        """A notebook of cells, each with its kind ("code" or "markdown") and source."""
        blank: dict[str, dict[str, Any]] = {"code": {"outputs": [], "execution_count": None}, "markdown": {}}
        told: list[dict[str, Any]] = [
            {"cell_type": kind, "id": f"cell-{k}", "metadata": {}, "source": source, **blank[kind]}
            for k, (kind, source) in enumerate(cells)
        ]
        kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
        notebook = {"cells": told, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}
        (self.root / name).write_text(json.dumps(notebook), encoding="utf-8")


@contextmanager
def jupyter_lab(folder: Path) -> Iterator[Lab]:
    """JupyterLab on a free port, with its configuration, its data and its notebooks in an empty folder."""
    for name in ("config/labconfig", "data", "runtime", "ipython", "root"):
        (folder / name).mkdir(parents=True)
    disabled = {"disabledExtensions": dict.fromkeys(UNWANTED, True)}
    (folder / "config" / "labconfig" / "page_config.json").write_text(json.dumps(disabled), encoding="utf-8")
    lab = Lab(f"http://127.0.0.1:{_free_port()}", secrets.token_hex(16), folder / "root")
    own = {f"JUPYTER_{name.upper()}_DIR": str(folder / name) for name in ("config", "data", "runtime")}
    settings = {
        "ServerApp.ip": "127.0.0.1",
        "ServerApp.port": lab.home.rpartition(":")[2],
        "ServerApp.port_retries": "0",
        "ServerApp.root_dir": str(lab.root),
        "IdentityProvider.token": lab.token,
        "LabApp.extension_manager": "readonly",
        "LabApp.news_url": "None",
    }
    command = [sys.executable, "-m", "jupyter", "lab", "--no-browser", "--allow-root"]
    command += [f"--{name}={value}" for name, value in settings.items()]
    environment = {**os.environ, **own, "IPYTHONDIR": str(folder / "ipython"), "HF_HUB_OFFLINE": "1"}
    log = folder / "log.txt"
    with log.open("wb") as told:
        server = subprocess.Popen(command, env=environment, cwd=lab.root, stdout=told, stderr=subprocess.STDOUT)
        try:
            _wait(lab, server, log)
            yield lab
        finally:
            server.terminate()  # it ends its kernels first
            try:
                server.wait(20)
            except subprocess.TimeoutExpired:
                server.kill()
                server.wait()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _wait(lab: Lab, server: subprocess.Popen[bytes], log: Path) -> None:
    until = time.monotonic() + PATIENCE
    while server.poll() is None and time.monotonic() < until:
        try:
            with DIRECT.open(f"{lab.home}/api/status?token={lab.token}", timeout=5):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.1)
    raise RuntimeError(f"JupyterLab did not start:\n{log.read_text(encoding='utf-8', errors='replace')[-4000:]}")
