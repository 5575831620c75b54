"""What a worker process does: it reads calls from a pipe and answers them, one after the other."""

from __future__ import annotations

import os
import pickle
import queue
import threading
from multiprocessing.connection import Connection
from typing import Any


def main(handle: int) -> None:
    """Answer calls until the process that began this one hangs up."""
    pipe: Connection[Any, Any] = Connection(handle)
    calls: queue.Queue[Any] = queue.Queue()
    # Calls are read while one is answered: whoever asks never waits, and the end of that process is noticed at once.
    threading.Thread(target=_listen, args=(pipe, calls), daemon=True).start()
    from headscope.runs.computer import ShardComputer

    spec, cores = calls.get()
    try:
        computer = ShardComputer(spec, cores)
    except Exception as error:  # it is told to whoever asks first
        number, _, _ = calls.get()
        _answer(pipe, number, None, error)
        return
    while True:
        number, method, arguments = calls.get()
        try:
            value = getattr(computer, method)(*arguments)
        except Exception as error:  # the process that asked decides what it means
            _answer(pipe, number, None, error)
        else:
            _answer(pipe, number, value, None)


def _listen(pipe: Connection[Any, Any], calls: queue.Queue[Any]) -> None:
    while True:
        try:
            message = pickle.loads(pipe.recv_bytes())
        except (EOFError, OSError):
            os._exit(0)
        calls.put(message)


def _answer(pipe: Connection[Any, Any], number: int, value: Any, error: Exception | None) -> None:
    try:
        packed = pickle.dumps((number, value, error))
        if error is not None:
            pickle.loads(packed)  # some exceptions are written and then cannot be read
    except Exception:  # an exception that cannot travel: its words can
        packed = pickle.dumps((number, None, RuntimeError(f"{type(error).__name__}: {error}")))
    pipe.send_bytes(packed)
