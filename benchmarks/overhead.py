"""What the whole analysis costs over the plain forward pass, beside the ways to get the same statistics today.

    python benchmarks/overhead.py [--texts 64] [--rounds 5] [--model base embedded] [--peers hooks ...]

Everything runs in one process, on the same windows in the same batches and the same dtype, interleaved round by round:
machines are noisy, ratios within a round less so. `headscope` is all of an analysis with both usual readings:
tokenizing, sentences, relations, forward pass, every variable of docs/method.md, the shard made ready for the disk;
`one_reading` the same with `dot` alone. Ratios are to the faster of two plain forward passes in the same round, under
sdpa: `forward`, where the cores share each batch, and `forward_each`, where each core has batches of its own, as an
analysis has. The peers compute what NumPy code gives in reasonable time, a good part of the statistics, from what they
collect:

- `hooks`: output_attentions and a hook before each output projection;
- `transformer_lens`: TransformerBridge.run_with_cache of pattern and z (pip install transformer-lens);
- `nnsight`: a trace that saves each attention module's output (pip install nnsight).

Peak memory is that of a process of its own for each contender.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

import numpy as np
import torch
import transformers

import headscope
from headscope.measures.batch_index import BatchIndex, index_batch
from headscope.measures.relations import RELATIONS
from headscope.models.forward import Batch, collate, forward, pad_token
from headscope.models.spec import facts_of
from headscope.result.shards import pack
from headscope.runs.capacity import peak_memory
from headscope.runs.settings import make_settings
from headscope.runs.worker import Threads, Worker
from headscope.texts import Record

PEERS = ("hooks", "transformer_lens", "nnsight")
EDGES = np.arange(20) / 20
LENGTH = 128


def load(kind: str, **how: Any) -> headscope.Model:
    """The embedded model, or a BERT-base with random weights and the embedded model's tokenizer."""
    if kind == "embedded":
        return headscope.load(**how)
    folder = Path(tempfile.mkdtemp(prefix="headscope-bench-"))
    small = headscope.load()
    torch.manual_seed(0)
    config = transformers.BertConfig(vocab_size=small.network.config.vocab_size)
    transformers.BertModel(config).save_pretrained(folder)
    small.tokenizer.save_pretrained(folder)
    return headscope.load(folder, **how)


class Bench:
    """One model, the texts, and a way to run each contender over them; `how` the model is loaded."""

    def __init__(self, kind: str, texts: int, batch: int, **how: Any) -> None:
        transformers.logging.set_verbosity_error()
        transformers.utils.logging.disable_progress_bar()
        self.kind, self.model, self.threads = kind, load(kind, **how), torch.get_num_threads()
        self.device = self.model.network.device
        passages = [p["text"] for p in headscope.passages()]
        whole = [f"{passages[k % 64]} {passages[(7 * k + 1) % 64]}" for k in range(texts)]  # all fill the window
        self.records = [Record(str(k), text) for k, text in enumerate(whole)]
        facts = facts_of(self.model)
        self.worker, self.one = (
            Worker(
                self.model, make_settings(facts, {"window": LENGTH, "readings": readings}, relations={}), {},
                threads=Threads(reading=self.threads),
            )
            for readings in (("dot", "cosine"), ("dot",))
        )  # fmt: skip
        self.size = min(batch, -(-texts // self.threads))
        windows = sorted((self.worker.windows(record)[0] for record in self.records), key=len)
        self.batches: list[tuple[Batch, BatchIndex]] = []
        for begin in range(0, texts, self.size):
            part = windows[begin : begin + self.size]
            ids = collate([w.ids.tolist() for w in part], pad_token(self.model.network.config), self.device)
            self.batches.append((ids, index_batch(part, LENGTH, repeated="token", special=False, relations={})))
        self._lens: Any = None
        self._nnsight: Any = None

    def forward(self) -> None:
        self.model.network.set_attn_implementation("sdpa")
        for batch, _ in self.batches:
            forward(self.model.network, batch)
        self.model.network.set_attn_implementation("eager")

    def forward_each(self) -> None:
        self.model.network.set_attn_implementation("sdpa")

        def one(batch: Batch) -> None:
            torch.set_num_threads(1)
            forward(self.model.network, batch)

        with ThreadPoolExecutor(self.threads) as pool:
            list(pool.map(one, [batch for batch, _ in self.batches]))
        self.model.network.set_attn_implementation("eager")

    def headscope(self) -> None:
        pack(self.worker.shard(self.records, self.size).sums())

    def one_reading(self) -> None:
        pack(self.one.shard(self.records, self.size).sums())

    def hooks(self) -> None:
        network, held = self.model.network, []
        handles = [
            layer.attention.output.dense.register_forward_pre_hook(lambda module, args: held.append(args[0]))
            for layer in network.encoder.layer
        ]
        for batch, index in self.batches:
            held.clear()
            with torch.no_grad():
                maps = network(batch.ids, batch.mask, output_attentions=True).attentions
            self._statistics(list(zip(held, maps, strict=True)), index)
        for handle in handles:
            handle.remove()

    def transformer_lens(self) -> None:
        from transformer_lens.model_bridge import TransformerBridge

        if self._lens is None:
            config = self.model.network.config
            whole = transformers.BertForMaskedLM(config).eval()
            whole.bert.load_state_dict(self.model.network.state_dict(), strict=False)
            whole.set_attn_implementation("eager")
            name = str(Path(headscope.__file__).parent / "data" / "bert12")  # for the tokenizer; the model is given
            whole.to(self.device, self.model.network.dtype)
            self._lens = TransformerBridge.boot_transformers(name, device=str(self.device), hf_model=whole)
        layers = self.model.stack().layers
        for batch, index in self.batches:
            _, cache = self._lens.run_with_cache(
                batch.ids, attention_mask=batch.mask, names_filter=lambda n: n.endswith(("hook_z", "hook_pattern"))
            )
            found = [(cache[f"blocks.{k}.attn.hook_z"].flatten(2), cache[f"blocks.{k}.attn.hook_pattern"])
                     for k in range(layers)]  # fmt: skip
            self._statistics(found, index)

    def nnsight(self) -> None:
        from nnsight import NNsight

        if self._nnsight is None:
            self._nnsight = NNsight(self.model.network)
        seen = self._nnsight
        for batch, index in self.batches:
            with torch.no_grad(), seen.trace(batch.ids, attention_mask=batch.mask):
                found = []
                for layer in seen.encoder.layer:
                    found.append(layer.attention.self.output)
                found.save()
            self._statistics(found, index)

    def _statistics(self, layers: list[tuple[torch.Tensor, torch.Tensor]], index: BatchIndex) -> None:
        """Most of the statistics as one writes them in NumPy, vectorised over heads."""
        heads = self.model.stack().heads
        table = (LENGTH - 1) * len(RELATIONS)
        for outputs, weights in layers:
            o = outputs.reshape(*outputs.shape[:2], heads, -1).transpose(1, 2)  # (B, H, T, d)
            pairs = np.zeros((heads, 21 * table), np.int64)
            numpy_layer(o.float().cpu().numpy(), weights.float().cpu().numpy(), index, pairs, table)


def numpy_layer(o: np.ndarray, a: np.ndarray, d: BatchIndex, pairs: np.ndarray, table: int) -> None:
    """Pairs by level, distance and relation; sums of S; attention; correlation; regions; focal tokens at every τ."""
    heads = o.shape[1]
    mean = np.zeros((heads, o.shape[2], o.shape[2]))
    for b in range(len(o)):
        n, begin, size = int(d.sizes[b]), int(d.begins[b]), int(d.lengths[b])
        inner = o[b, :, begin : begin + n]
        s = inner @ inner.transpose(0, 2, 1)
        mean[:, begin : begin + n, begin : begin + n] += np.triu(s, 1)
        i, j = np.triu_indices(n, 1)
        value = s[:, i, j]  # (H, P)
        level = value / value.max(1, keepdims=True)
        bins = np.digitize(level, EDGES)
        for h in range(heads):
            pairs[h] += np.bincount(bins[h] * table + d.cells[b, : len(i)], minlength=21 * table)
        maps = a[b, :, :size, :size]
        received = maps.sum(1) / size
        received = received / received.max(1, keepdims=True)
        for k in range(1, 20):
            for c in range(5):
                (received > k / 20)[:, d.category[b, :size] == c].sum(1)
        m = maps[:, begin : begin + n, begin : begin + n]
        both = m[:, i, j] + m[:, j, i]
        x, y = value - value.mean(1, keepdims=True), both - both.mean(1, keepdims=True)
        (x * y).sum(1) / np.sqrt((x * x).sum(1) * (y * y).sum(1))
        high = received[:, begin : begin + n] > 0.3
        number = high[:, i].astype(int) + high[:, j]
        for region in range(3):
            np.where(number == region, level, 0).sum(1)
        kind = d.id_number[b, :n]
        first, second = (
            np.eye(int(d.distinct[b]), dtype=np.float32)[kind[i]],
            np.eye(int(d.distinct[b]), dtype=np.float32)[kind[j]],
        )
        holds = first + second  # (P, K)
        for k in range(2, 21):
            above = (bins >= k).astype(np.float32)
            (above @ holds).argmax(1)


def installed(peer: str) -> bool:
    return peer == "hooks" or importlib.util.find_spec(peer) is not None


def peak_of(kind: str, contender: str, texts: int, batch: int) -> float:
    command = [
        sys.executable,
        __file__,
        "--only",
        contender,
        "--model",
        kind,
        "--texts",
        str(texts),
        "--batch",
        str(batch),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return float(done.stdout.split()[-1])


def compare(kind: str, args: argparse.Namespace) -> None:
    bench = Bench(kind, args.texts, args.batch)
    peers = [peer for peer in args.peers if installed(peer)]
    for peer in set(args.peers) - set(peers):
        print(f"{peer} is not installed and is left out")
    few = Bench(kind, args.peer_texts, args.batch) if peers else bench
    contenders: dict[str, tuple[Callable[[], None], int]] = {
        "forward": (bench.forward, args.texts),
        "forward_each": (bench.forward_each, args.texts),
        "headscope": (bench.headscope, args.texts),
        "one_reading": (bench.one_reading, args.texts),
    } | {peer: (getattr(few, peer), args.peer_texts) for peer in peers}
    for run, _ in contenders.values():
        run()  # compiled, loaded, warm
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for number in range(args.rounds):
        order = deque(contenders.items())
        order.rotate(number)  # each comes after each other as often
        for name, (run, texts) in order:
            torch.set_num_threads(bench.threads)
            began = time.perf_counter()
            run()
            times[name].append((time.perf_counter() - began) / texts)
    shape = bench.model.stack()
    print(
        f"\n{kind}: {shape.layers} layers × {shape.heads} heads × {shape.width}, {LENGTH} tokens, {args.texts} texts "
        f"({args.peer_texts} for peers), batches of {bench.size}, {bench.threads} threads, {args.rounds} rounds"
    )
    print(f"{'':18s}{'texts/s':>9s}{'ratio':>8s}{'min … max':>16s}{'peak MB':>10s}")
    plain = min(times["forward"], times["forward_each"], key=statistics.median)  # the faster of two ways
    for name, found in times.items():
        ratios = [t / f for t, f in zip(found, plain, strict=True)]
        texts = contenders[name][1]
        print(
            f"{name:18s}{1 / statistics.median(found):9.1f}{statistics.median(ratios):8.2f}"
            f"{min(ratios):8.2f} … {max(ratios):5.2f}{peak_of(kind, name, texts, args.batch):10.0f}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--texts", type=int, default=64)
    parser.add_argument("--peer-texts", type=int, default=16)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--model", nargs="+", default=["base", "embedded"], choices=["base", "embedded"])
    parser.add_argument("--peers", nargs="*", default=list(PEERS), choices=PEERS)
    parser.add_argument("--only", help=argparse.SUPPRESS)
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    if args.only:
        bench = Bench(args.model[0], args.texts, args.batch)
        getattr(bench, args.only)()
        getattr(bench, args.only)()
        print(peak_memory() / 1e6)
        return
    for kind in args.model:
        compare(kind, args)


if __name__ == "__main__":
    main()
