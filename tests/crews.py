"""A crew of threads: real workers, in this process, so that a store in memory is theirs too and a fault is one line."""

from __future__ import annotations

import os
import pickle
import queue
import threading
import time
from pathlib import Path
from typing import Any, ClassVar

from headscope.models.spec import ModelSpec
from headscope.runs.computer import ShardComputer
from headscope.runs.crew import Answer


class Gate:
    """A relation that holds up other processes until its file is there: they can be met at work, however fast they are.

    Plain Python and nothing of this module, so that it can be sent by value to where the tests are not.
    """

    def __init__(self, file: Path) -> None:
        self.file, self.here = str(file), os.getpid()

    def __call__(self, window: Any) -> list[int]:
        until = time.monotonic() + 180  # a test that never opens it fails instead of going on for ever
        while os.getpid() != self.here and not os.path.exists(self.file) and time.monotonic() < until:
            time.sleep(0.01)
        return [0] * len(window)

    def open(self) -> None:
        Path(self.file).touch()


class Killed(BaseException):
    """Raised in a worker, it ends it as a signal would: what it was at is not answered."""


class ThreadCrew:
    """Stands in for `ProcessCrew`. What is said to and by workers is pickled, as it is on its way elsewhere."""

    room: ClassVar[int] = 100  # workers at once; others are hired and do not come until one of them ends

    def __init__(self, spec: ModelSpec, workers: int, cores: int) -> None:
        self.spec, self.wanted, self.cores = spec, workers, cores
        self._places, self._closed = threading.Semaphore(self.room), threading.Event()
        self._calls: dict[int, queue.Queue[Any]] = {}
        self._answers: queue.Queue[Answer] = queue.Queue()
        self._threads: list[threading.Thread] = []
        self._hired = self._number = 0

    def hire(self) -> int:
        self._hired += 1
        self._calls[self._hired] = queue.Queue()
        thread = threading.Thread(target=self._work, args=(self._hired,), name=f"worker {self._hired}", daemon=True)
        self._threads.append(thread)
        thread.start()
        return self._hired

    def call(self, worker: int, method: str, *arguments: Any) -> int:
        self._number += 1
        self._calls[worker].put(pickle.dumps((self._number, method, arguments)))
        return self._number

    def _work(self, worker: int) -> None:
        while not self._places.acquire(timeout=0.05):
            if self._closed.is_set():
                return
        try:
            self._answer_calls(worker)
        finally:
            self._places.release()

    def _answer_calls(self, worker: int) -> None:
        calls = self._calls[worker]
        try:
            computer = ShardComputer(self.spec, self.cores)
        except Exception as error:  # it is told to whoever asks first
            number, _, _ = pickle.loads(calls.get())
            self._answers.put(Answer(worker, number, error=error))
            return
        while (packed := calls.get()) is not None:
            number, method, arguments = pickle.loads(packed)
            try:
                value = getattr(computer, method)(*arguments)
                self._answers.put(Answer(worker, number, pickle.loads(pickle.dumps(value))))
            except Killed:
                self._answers.put(Answer(worker, 0, died="killed by the test"))
                return
            except Exception as error:
                self._answers.put(Answer(worker, number, error=error))
        computer.close()

    def answers(self, seconds: float) -> list[Answer]:
        try:
            return [self._answers.get(timeout=seconds)]
        except queue.Empty:
            return []

    def dismiss(self, worker: int) -> None:
        with self._calls[worker].mutex:
            self._calls[worker].queue.clear()
        self._calls[worker].put(None)

    def trouble(self) -> str:
        return f"there is room for {self.room}"

    def close(self) -> None:
        self._closed.set()
        for worker in self._calls:
            self.dismiss(worker)
        for thread in self._threads:
            thread.join()
