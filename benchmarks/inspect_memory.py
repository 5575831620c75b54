"""Peak memory of inspecting 512 tokens with a model of BERT-base's size, above the model itself.

Prints one row per thing a user does after `inspect`, each on top of what came before. Memory is sampled every few
milliseconds from outside the working thread; the self-check's time on a model of this size is shown as well.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import psutil
import torch
import transformers

import headscope
from headscope.models.check import self_check
from headscope.models.forward import collate
from headscope.models.model import Model

LIMIT = 1.5e9  # bytes above the model


def base_sized() -> Model:
    """BERT-base with random weights and the embedded model's tokenizer."""
    small = headscope.load()
    torch.manual_seed(0)
    config = transformers.BertConfig(attn_implementation="eager")  # 12 layers × 12 heads × 64, 512 positions
    network = transformers.BertModel(config, add_pooling_layer=False).eval()
    report = self_check(network, collate([list(range(5, 25)), list(range(5, 15))], 0, "cpu"))
    tokenizer = small.tokenizer
    tokenizer.model_max_length = 512
    return Model("bert-base-sized", network, tokenizer, small.template, report)


def peak_of(work: Callable[[], Any]) -> tuple[int, float, Any]:
    """The largest resident size while `work` runs, its seconds and its result."""
    process, largest, done = psutil.Process(), 0, threading.Event()

    def watch() -> None:
        nonlocal largest
        while not done.is_set():
            largest = max(largest, process.memory_info().rss)
            time.sleep(0.002)

    watcher = threading.Thread(target=watch)
    watcher.start()
    begun = time.perf_counter()
    try:
        result = work()
    finally:
        seconds = time.perf_counter() - begun
        largest = max(largest, process.memory_info().rss)
        done.set()
        watcher.join()
    return largest, seconds, result


def measure() -> list[tuple[str, int, float]]:
    """Peak bytes above the model, and seconds, of each step."""
    model = base_sized()
    model.inspect("A first text, so that everything is imported and set up.").summary()
    before = psutil.Process().memory_info().rss
    text = " ".join(passage["text"] for passage in headscope.passages()[:6])
    rows = []
    peak, seconds, seen = peak_of(lambda: model.inspect(text, window=512))
    assert len(seen.window) == 512
    rows.append(("inspect", peak - before, seconds))
    with TemporaryDirectory() as folder:
        steps: list[tuple[str, Callable[[], Any]]] = [
            ("summary", seen.summary),
            ("similarity", lambda: seen.similarity),
            ("levels", lambda: seen.levels),
            ("plot_grid", seen.plot_grid),
            ("save", lambda: seen.save(Path(folder) / "inspection.nc")),
        ]
        for name, work in steps:
            peak, seconds, _ = peak_of(work)
            rows.append((name, peak - before, seconds))
    return rows


def main() -> None:
    small = headscope.load()
    for model in (small, base_sized()):
        batch = collate([list(range(5, 25)), list(range(5, 15))], 0, "cpu")
        begun = time.perf_counter()
        self_check(model.network, batch)
        print(f"self-check of {model.name}: {time.perf_counter() - begun:.2f} s")
    print("\n| step | peak above the model | seconds |\n|---|---|---|")
    for name, peak, seconds in measure():
        print(f"| {name} | {peak / 1e6:,.0f} MB | {seconds:.2f} |")
    print(f"\nlimit for inspect: {LIMIT / 1e6:,.0f} MB")


if __name__ == "__main__":
    main()
