"""How far a run has come: a live bar on a terminal, lines elsewhere, JSON for programs, or nothing."""

from __future__ import annotations

import json
import sys
import threading
import time
from typing import Any, TextIO

import psutil

from headscope.errors import counted

EVERY = 10.0  # seconds between two lines
SETTLED = 60.0  # seconds until time left is told even where no shard is done


class Progress:
    """Keeps count; what is shown is up to the kinds below."""

    def __init__(self) -> None:
        self.texts: int | None = None  # all there are, where that is known
        self.shards: int | None = None
        self.done = 0.0  # texts; a part of one where its windows are not all done
        self.kept = self.shards_done = 0  # kept: texts of shards that were finished before
        self.workers: int | None = None  # at work, where there are several
        self.started = False
        self.began = time.monotonic()
        self._lock = threading.Lock()

    def start(self, texts: int | None, shards: int | None) -> None:
        """The work begins."""
        self.texts, self.shards, self.began, self.started = texts, shards, time.monotonic(), True
        self.show()

    def surveyed(self, texts: int) -> None:
        """So many texts have been looked at before the work begins."""

    def skip(self, texts: int) -> None:
        """A shard was finished before."""
        with self._lock:
            self.kept += texts
            self.shards_done += 1
            self.show()

    def advance(self, texts: float) -> None:
        """Some more texts are done."""
        with self._lock:
            self.done += texts
            self.show()

    def settle(self, texts: float) -> None:
        """So many are done: a shard is finished, or begins again."""
        with self._lock:
            self.done = texts

    def shard(self) -> None:
        """A shard is finished."""
        with self._lock:
            self.shards_done += 1
            self.show()

    def working(self, workers: int) -> None:
        """So many workers are at work."""
        self.workers = workers
        self.show()

    def say(self, message: str) -> None:
        """Something worth knowing happened."""

    def show(self, last: bool = False) -> None:
        """Show the state."""

    def finish(self) -> None:
        """The work is over, done or not."""

    def state(self) -> dict[str, Any]:
        """Numbers for whoever shows them."""
        passed = max(time.monotonic() - self.began, 1e-9)
        rate = self.done / passed
        left = None if self.texts is None else max(self.texts - self.kept - self.done, 0)
        settled = self.shards_done > 0 or passed > SETTLED  # at first loops may be compiled, or memory found
        settled = settled and self.workers != 0  # where nobody works, no time is left to be told
        return {
            "texts": self.kept + round(self.done),
            "of": self.texts,
            "shards": self.shards_done,
            "of_shards": self.shards,
            "texts_per_second": round(rate, 2),
            "seconds": round(passed, 1),
            "seconds_left": round(left / rate, 1) if left is not None and rate > 0 and settled else None,
            "memory": psutil.Process().memory_info().rss,
            **({} if self.workers is None else {"workers": self.workers}),
        }


class Lines(Progress):
    """A line now and then."""

    def __init__(self, stream: TextIO | None = None, as_json: bool = False) -> None:
        super().__init__()
        self.stream, self.as_json, self._last = stream or sys.stderr, as_json, float("-inf")

    def show(self, last: bool = False) -> None:
        """A line, unless there was one a moment ago."""
        now = time.monotonic()
        if not last and now - self._last < EVERY:
            return
        self._last = now
        state = self.state()
        self._print(json.dumps({"event": "progress"} | state) if self.as_json else in_words(state))

    def say(self, message: str) -> None:
        """A line of its own."""
        self._print(json.dumps({"event": "message", "message": message}) if self.as_json else message)

    def finish(self) -> None:
        """The last state, where there was work."""
        if self.started:
            self.show(last=True)

    def _print(self, line: str) -> None:
        print(line, file=self.stream, flush=True)


class Bar(Progress):
    """A live bar with rate, time left, memory and shards."""

    def __init__(self) -> None:
        super().__init__()
        from rich import progress
        from rich.console import Console

        self.console = Console(stderr=True, markup=False, highlight=False)
        self.bar = progress.Progress(
            progress.TextColumn("{task.description}"),
            progress.BarColumn(),
            progress.TextColumn("{task.fields[status]}"),
            console=self.console,
            transient=True,
        )
        self.task = self.bar.add_task("loading the model", total=None, status="")
        self.bar.start()

    def surveyed(self, texts: int) -> None:
        """How many texts have been read so far."""
        self.bar.update(self.task, description="reading texts", status=counted(texts, "text"))

    def show(self, last: bool = False) -> None:
        """Redraw."""
        state = self.state()
        self.bar.update(
            self.task, description="analysing", total=state["of"], completed=state["texts"], status=in_words(state)
        )

    def say(self, message: str) -> None:
        """A line above the bar."""
        self.bar.print(message)

    def finish(self) -> None:
        """Take the bar away."""
        self.bar.stop()


def in_words(state: dict[str, Any]) -> str:
    """One line for people.

    >>> in_words({"texts": 1250, "of": 5000, "shards": 2, "of_shards": 8, "texts_per_second": 25.0, "seconds": 50.0,
    ...           "seconds_left": 150.0, "memory": 1_300_000_000})
    '1,250 of 5,000 texts, 2 of 8 shards, 25.0 texts/s, 2:30 left, 1.3 GB'
    """
    workers = f", {counted(state['workers'], 'worker')}" if "workers" in state else ""
    texts = f"{state['texts']:,}" + (f" of {state['of']:,}" if state["of"] is not None else "")
    shards = f"{state['shards']}" + (f" of {state['of_shards']}" if state["of_shards"] is not None else "")
    left = "" if state["seconds_left"] is None else f", {clock(state['seconds_left'])} left"
    rate, memory = f"{state['texts_per_second']:.1f} texts/s", f"{state['memory'] / 1e9:.1f} GB"
    return f"{texts} texts, {shards} shards{workers}, {rate}{left}, {memory}"


def clock(seconds: float) -> str:
    """A span of time as people write it.

    >>> clock(59), clock(3725)
    ('0:59', '1:02:05')
    """
    whole = round(seconds)
    hours, minutes = whole // 3600, whole // 60 % 60
    return f"{hours}:{minutes:02d}:{whole % 60:02d}" if hours else f"{minutes}:{whole % 60:02d}"


def choose_progress(progress: bool | Progress) -> Progress:
    """The progress that the caller gives, none, or the kind that suits the place."""
    if isinstance(progress, Progress):
        return progress
    if not progress:
        return Progress()
    return Bar() if sys.stderr.isatty() else Lines()
