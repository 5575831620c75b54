"""Workers in processes of this machine, each with a model of its own. They end with the process that began them."""

from __future__ import annotations

import os
import pickle
import socket
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import Any

import torch

from headscope.errors import HeadscopeError, brief
from headscope.models.spec import ModelSpec
from headscope.runs.crew import Answer

STARTED_BY = "import sys; from headscope.runs.process_worker import main; main(int(sys.argv[1]))"
LAST_WORDS = 2000  # characters of what a worker wrote before it ended


@dataclass(slots=True)
class _Process:
    popen: subprocess.Popen[str]
    pipe: Connection[Any, Any]
    card: str | None  # the graphics card that it sees


class ProcessCrew:
    """Processes of this machine."""

    def __init__(self, spec: ModelSpec, workers: int, cores: int) -> None:
        if sys.platform == "win32":
            raise HeadscopeError("several processes are not supported on Windows", "leave out --workers (workers=)")
        self.spec, self.wanted, self.cores = spec, workers, cores
        self._processes: dict[int, _Process] = {}
        self._hired = self._calls = 0

    def hire(self) -> int:
        """Begin a process, which loads the model."""
        ours, theirs = socket.socketpair()
        card = self._free_card()
        with theirs:
            popen = subprocess.Popen(
                [sys.executable, "-c", STARTED_BY, str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
                errors="replace",
                start_new_session=True,  # Ctrl-C is for the process that is asked to stop
                env=os.environ
                | {"OMP_NUM_THREADS": str(self.cores), "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
                | ({} if card is None else {"CUDA_VISIBLE_DEVICES": card}),
            )
        self._hired += 1
        self._processes[self._hired] = _Process(popen, Connection(ours.detach()), card)
        self._send(self._hired, (self.spec, self.cores))
        return self._hired

    def _free_card(self) -> str | None:
        """Of several graphics cards the one with the fewest workers; None where there is no choice."""
        number = torch.cuda.device_count() if self.spec.device in ("auto", "cuda") else 0
        if number < 2:
            return None
        visible = os.environ.get("CUDA_VISIBLE_DEVICES")
        cards = visible.split(",")[:number] if visible else [str(card) for card in range(number)]
        taken = Counter(process.card for process in self._processes.values())
        return min(cards, key=lambda card: taken[card])

    def call(self, worker: int, method: str, *arguments: Any) -> int:
        """Ask a process."""
        self._calls += 1
        self._send(worker, (self._calls, method, arguments))
        return self._calls

    def _send(self, worker: int, message: Any) -> None:
        try:
            packed = pickle.dumps(message)
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            raise HeadscopeError(
                f"this cannot be sent to other processes: {brief(error)}",
                "define functions of your own (relations) in a module that can be imported",
            ) from error
        try:
            self._processes[worker].pipe.send_bytes(packed)
        except OSError:  # it has ended, and its answer says so
            return

    def answers(self, seconds: float) -> list[Answer]:
        """What has come over the pipes."""
        if not self._processes:
            time.sleep(seconds)
            return []
        numbers = {process.pipe: number for number, process in self._processes.items()}
        found = []
        for pipe in wait(list(numbers), seconds):
            number = numbers[pipe]  # type: ignore[index]
            try:
                call, value, error = pickle.loads(self._processes[number].pipe.recv_bytes())
            except (EOFError, OSError):
                found.append(Answer(number, 0, died=self._end_of(number)))
            else:
                found.append(Answer(number, call, value, error))
        return found

    def _end_of(self, number: int) -> str:
        """How a process ended, in words."""
        process = self._processes.pop(number)
        process.pipe.close()
        process.popen.kill()
        _, said = process.popen.communicate()
        code = process.popen.returncode
        last = [line for line in said[-LAST_WORDS:].splitlines() if line.strip()][-1:]
        how = f"killed by signal {-code}" if code < 0 else f"it ended with {code}"
        return f"process {process.popen.pid}, {how}" + (f": {last[0]}" if last and code > 0 else "")

    def dismiss(self, worker: int) -> None:
        """End a process."""
        if worker in self._processes:
            self._end_of(worker)

    def trouble(self) -> str:
        """Processes of this machine always come."""
        return ""

    def close(self) -> None:
        """End all of them."""
        for number in list(self._processes):
            self.dismiss(number)
