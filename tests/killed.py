"""Run an analysis again and again, kill it with SIGKILL at random moments, then let it finish.

    python tests/killed.py MODEL TEXTS OUT KILLS SEED

Everything is imported once; each attempt is a fork of that process, so that an attempt costs no seconds to begin.
Prints one line of JSON: how many attempts were killed, and how many shards each had left behind.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"

import headscope
from headscope.runs import analyze  # noqa: F401 - imported before the forks


def attempt(model: str, texts: str, out: str) -> None:
    headscope.analyze(model, texts, out=out, shard_size=2, batch_size=2, threads=2, per_text=True, progress=False)


def seconds_of_a_run(model: str, texts: str, out: str) -> float:
    """Let an attempt finish."""
    began = time.monotonic()
    child = os.fork()
    if not child:
        attempt(model, texts, out)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    assert status == 0, f"an attempt failed with {status}"
    return time.monotonic() - began


def finished(out: str) -> int:
    """How many shards are done."""
    return len(list(Path(out).glob("shards/*.json")))


def main(model: str, texts: str, out: str, kills: int, seed: int) -> None:
    draw, killed, shards = random.Random(seed), 0, []
    whole = seconds_of_a_run(model, texts, f"{out}-first")  # on a busy machine it takes long
    while killed < kills:
        before = finished(out)
        child = os.fork()
        if not child:
            code = 1
            try:
                attempt(model, texts, out)
                code = 0
            finally:
                os._exit(code)
        began = time.monotonic()
        wait = draw.uniform(0.0, 1.0) * whole
        status = None
        # Every other attempt ends as soon as it has finished a shard: in the middle of a run, however slow.
        by_progress = killed % 2 == 0
        while status is None and (finished(out) <= before if by_progress else time.monotonic() - began < wait):
            done, code = os.waitpid(child, os.WNOHANG)
            status = code if done else None
            time.sleep(0.002)
        if status is None:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            killed += 1
            shards.append(finished(out))
        else:
            assert status == 0, f"an attempt failed with {status}"
            whole = time.monotonic() - began  # finished: begin anew, and wait less long
            (Path(out) / "run.json").unlink()
            for file in Path(out).glob("*.*"):
                file.unlink()
    seconds_of_a_run(model, texts, out)
    print(json.dumps({"killed": killed, "shards": shards}))


if __name__ == "__main__":
    main(*sys.argv[1:4], int(sys.argv[4]), int(sys.argv[5]))
