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


def main(model: str, texts: str, out: str, kills: int, seed: int) -> None:
    draw, killed, shards = random.Random(seed), 0, []
    whole = None
    while killed < kills:
        child = os.fork()
        if not child:
            code = 1
            try:
                attempt(model, texts, out)
                code = 0
            finally:
                os._exit(code)
        began = time.monotonic()
        wait = draw.uniform(0.0, 1.0) * (whole or 4.0)
        status = None
        while time.monotonic() - began < wait and status is None:
            done, code = os.waitpid(child, os.WNOHANG)
            status = code if done else None
            time.sleep(0.002)
        if status is None:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            killed += 1
            shards.append(len(list(Path(out).glob("shards/*.json"))))
        else:
            assert status == 0, f"an attempt failed with {status}"
            whole = time.monotonic() - began  # finished: begin anew, and wait less long
            (Path(out) / "run.json").unlink()
            for file in Path(out).glob("*.*"):
                file.unlink()
    child = os.fork()
    if not child:
        attempt(model, texts, out)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    assert status == 0, f"the last attempt failed with {status}"
    print(json.dumps({"killed": killed, "shards": shards}))


if __name__ == "__main__":
    main(*sys.argv[1:4], int(sys.argv[4]), int(sys.argv[5]))
