"""How long small things take, from the command to the answer: a sentence inspected, a finished run asked again, the
page of a run with its heads on it. Each is done several times; the fastest, the middle and the slowest are printed.

    python benchmarks/small_things.py [--rounds 5]

What Python needs to import torch and the parts of transformers that a BERT needs is measured beside them.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

IMPORTS = (
    "import torch; from transformers import AutoModel, AutoTokenizer, BertTokenizerFast; "
    "from transformers.models.bert.modeling_bert import BertModel"
)
TEXT = "The ferryman knew the river. The river knew the ferryman, and the children feared the river."
HEADSCOPE = [sys.executable, "-m", "headscope"]


def run(*command: str) -> float:
    begin = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return time.perf_counter() - begin


def page_with_heads(folder: str) -> float:
    """From the command to the moment when the browser shows the atlas of heads; the browser is open already."""
    from browser import chromium

    with chromium() as browser:
        page = browser.new_page()
        begin = time.perf_counter()
        command = [*HEADSCOPE, "view", folder, "--no-open"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
            assert server.stdout is not None
            address = server.stdout.readline().split()[-1]
            page.goto(address)
            page.wait_for_selector(".run-page[data-ready] .atlas .tile", timeout=120_000)
            taken = time.perf_counter() - begin
            server.terminate()
        return taken


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    with tempfile.TemporaryDirectory() as folder:
        out = f"{folder}/run"
        analyze = [*HEADSCOPE, "analyze", "passages:", "--per-text", "--out", out]
        run(*analyze)
        things: dict[str, Callable[[], float]] = {
            "importing torch and transformers": lambda: run(sys.executable, "-c", IMPORTS),
            "inspecting a sentence": lambda: run(*HEADSCOPE, "inspect", TEXT),
            "a finished run, asked again": lambda: run(*analyze),
            "a finished run at another τ": lambda: run(*analyze, "--tau", "0.7"),
            "the page of a run, with its heads": lambda: page_with_heads(out),
        }
        print(f"{'seconds':40} fastest  middle  slowest")
        for name, thing in things.items():
            taken = sorted(thing() for _ in range(rounds))
            print(f"{name:40} {taken[0]:7.1f} {median(taken):7.1f} {taken[-1]:8.1f}", flush=True)


if __name__ == "__main__":
    main()
