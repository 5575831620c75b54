"""The viewer's server for tests: in a thread or a process of its own, spoken to politely or byte by byte."""

from __future__ import annotations

import http.client
import os
import queue
import random
import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import httpx
import numpy as np
import psutil

import headscope
from headscope.view import arrays
from headscope.view.desk import MOST_TEXTS, Desk
from headscope.view.guard import SAFE
from viewing import served

ADDRESS = re.compile(r"http://127\.0\.0\.1:(\d+)/\?token=(\S+)")
BEGINS_WITHIN, ENDS_WITHIN = 60, 15  # seconds


@dataclass(frozen=True)
class Heard:
    """One answer as it came over the wire."""

    status: int
    headers: list[tuple[str, str]]  # names in lower case
    body: bytes

    def has_safe_headers(self) -> bool:
        """Whether each of the headers that keep other pages out is there, once."""
        return all([v for k, v in self.headers if k == name] == [value] for name, value in SAFE.items())


@dataclass(frozen=True)
class Place:
    """Where a server listens, and how to speak to it."""

    port: int
    token: str

    def client(self, *, token: str | None = None, **options: Any) -> httpx.Client:
        """A client that knows the token, or that has another one, or with "" none at all."""
        given = self.token if token is None else token
        headers = {"x-headscope-token": given} if given else {}
        home = f"http://127.0.0.1:{self.port}"
        return httpx.Client(base_url=home, headers=headers, trust_env=False, **({"timeout": 60} | options))

    def connect(self, *, buffer: int | None = None) -> socket.socket:
        """A bare connection; `buffer` is how many bytes of an answer it takes in before somebody reads."""
        made = socket.socket()
        if buffer is not None:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
        made.settimeout(30)
        made.connect(("127.0.0.1", self.port))
        return made

    def head(self, path: str = "/api/about", *lines: str, method: str = "GET") -> bytes:
        """A request's headers, with the right Host and token, and more lines."""
        own = (f"{method} {path} HTTP/1.1", f"Host: 127.0.0.1:{self.port}", f"X-Headscope-Token: {self.token}")
        return ("\r\n".join([*own, *lines]) + "\r\n\r\n").encode("latin-1")

    def say(self, *parts: bytes) -> Heard:
        """Send bytes and hear the answer to them."""
        with self.connect() as made:
            for part in parts:
                made.sendall(part)
            return heard(made)

    def answers(self) -> bool:
        """Whether it still does what it is for."""
        with self.client() as client:
            return client.get("/api/about").status_code == 200


def heard(connection: socket.socket) -> Heard:
    """One answer out of a connection."""
    answer = http.client.HTTPResponse(connection)
    answer.begin()
    return Heard(answer.status, [(name.lower(), value) for name, value in answer.getheaders()], answer.read())


def bytes_until_closed(connection: socket.socket) -> bytes:
    """All that still comes; a connection that was reset is closed too."""
    found = bytearray()
    try:
        while part := connection.recv(1 << 20):
            found += part
    except ConnectionError:
        pass
    return bytes(found)


@contextmanager
def serving(desk: Desk, **limits: float) -> Iterator[Place]:
    """The server in a thread, until the block ends."""
    with served(desk, **limits) as server:
        yield Place(server.port, server.token)


# ---------------------------------------------------------------------- a process of its own


@dataclass
class Process:
    """`headscope view` as a user starts it."""

    process: subprocess.Popen[str]
    place: Place
    began_after: float  # seconds until it said its address

    def memory(self) -> float:
        """What it holds, in MB."""
        return float(psutil.Process(self.process.pid).memory_info().rss) / 1e6


@contextmanager
def view_process(*arguments: str) -> Iterator[Process]:
    """Start it, wait for the address, and see to it that it is gone afterwards."""
    command = [sys.executable, "-m", "headscope", "view", *arguments, "--no-open"]
    began = time.monotonic()
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, "HF_HUB_OFFLINE": "1"}
    )
    try:
        found = ADDRESS.search(_first_line(process))
        assert found, process.communicate(timeout=ENDS_WITHIN)
        yield Process(process, Place(int(found[1]), found[2]), time.monotonic() - began)
    finally:
        process.kill()
        process.wait()
        for stream in (process.stdout, process.stderr):
            assert stream is not None
            stream.close()


def _first_line(process: subprocess.Popen[str]) -> str:
    lines: queue.Queue[str] = queue.Queue()
    assert process.stdout is not None
    threading.Thread(target=lambda out=process.stdout: lines.put(out.readline()), daemon=True).start()
    return lines.get(timeout=BEGINS_WITHIN)


# ---------------------------------------------------------------------- many clients at once


@dataclass(frozen=True)
class Errand:
    """A text to send, a head of it to fetch, and the bytes that this must give."""

    text: str
    layer: int
    head: int
    expected: bytes


def errands(model: headscope.Model, number: int, seed: int = 0) -> list[Errand]:
    """Texts of 60 to 128 tokens, no two alike, each with a head drawn at random."""
    draw, passages, found = random.Random(seed), headscope.passages(), []
    for k in range(number):
        words = passages[k % len(passages)]["text"].split()
        text = " ".join(words[k // len(passages) :][: draw.randint(48, 88)])
        seen = model.inspect(text)
        assert 60 <= len(seen.window) <= 128
        layer, head = draw.randrange(12), draw.randrange(12)
        found.append(Errand(text, layer, head, arrays.head(seen, layer, head)))
    assert len({errand.text for errand in found}) == number
    return found


@dataclass
class Load:
    """What happened under load: statuses, seconds of each answer, whatever was wrong, memory by second."""

    statuses: dict[int, int] = field(default_factory=dict)
    seconds: list[float] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    memory: list[tuple[float, float]] = field(default_factory=list)  # seconds since the beginning, MB
    texts: set[str] = field(default_factory=set)  # those that were read
    full: float | None = None  # when more of them had been read than are kept
    lock: threading.Lock = field(default_factory=threading.Lock)

    def at(self, second: float) -> float:
        """The memory held at a time, in MB."""
        return next((held for when, held in self.memory if when >= second), self.memory[-1][1])

    def slope(self, after: float) -> float:
        """How memory grows in MB a minute, from some second on."""
        times, held = zip(*[row for row in self.memory if row[0] >= after], strict=True)
        return float(np.polyfit(times, held, 1)[0]) * 60

    def __str__(self) -> str:
        tops = " ".join(f"p{q} {np.percentile(self.seconds, q):.2f} s" for q in (50, 95, 99))
        when = sorted({0.0, 5.0, self.full or 0.0, self.memory[-1][0]})
        memory = ", ".join(f"{self.at(second):.0f} MB at {second:.0f} s" for second in when)
        return f"{len(self.seconds)} answers {self.statuses}, {tops}, longest {max(self.seconds):.2f} s; {memory}"


def load(process: Process, work: list[Errand], *, clients: int, seconds: float) -> Load:
    """So many clients, each on errands one after the other until the time is over and the server's memory is full."""
    found, began = Load(), time.monotonic()

    def over() -> bool:
        passed = time.monotonic() - began
        return passed > 4 * seconds or (passed > seconds and found.full is not None)

    def asked(client: httpx.Client, method: str, path: str, **options: Any) -> httpx.Response:
        start = time.monotonic()
        answer = client.request(method, path, **options)
        with found.lock:
            found.seconds.append(time.monotonic() - start)
            found.statuses[answer.status_code] = found.statuses.get(answer.status_code, 0) + 1
            if answer.status_code == 503 and "retry-after" not in answer.headers:
                found.wrong.append("503 without Retry-After")
        return answer

    def run(number: int) -> None:
        draw = random.Random(number)
        with process.place.client() as client:
            for turn in count():
                if over():
                    return
                errand = work[(number + 13 * turn) % len(work)]
                answer = asked(client, "POST", "/api/texts", json={"text": errand.text})
                if answer.status_code == 503:
                    time.sleep(draw.uniform(0.2, 1.0) * int(answer.headers.get("retry-after", "1")))
                    continue
                with found.lock:
                    found.texts.add(errand.text)
                    if found.full is None and len(found.texts) > MOST_TEXTS:
                        found.full = time.monotonic() - began
                path = f"/api/texts/{answer.json()['id']}/dot/heads/{errand.layer}/{errand.head}"
                answer = asked(client, "GET", path)
                if answer.status_code == 200 and answer.content != errand.expected:
                    with found.lock:
                        found.wrong.append(f"other bytes at {path}")

    with ThreadPoolExecutor(clients) as pool:
        running = [pool.submit(run, number) for number in range(clients)]
        while not over():
            found.memory.append((time.monotonic() - began, process.memory()))
            time.sleep(0.5)
        for each in running:
            each.result()
    found.memory.append((time.monotonic() - began, process.memory()))
    return found


# ---------------------------------------------------------------------- what the tests of the server share

TEXT = headscope.passages("news")[3]["text"]
LONG = " ".join(p["text"] for p in headscope.passages()[:12])
SHORT = "The cat saw the dog. The dog saw the cat."
Tiny = Callable[[str], headscope.Model]


def said(answer: httpx.Response) -> str:
    """The sentence of an answer that refuses."""
    told = answer.json()["error"]
    assert isinstance(told, str)
    assert len(told) > 5
    return told
