"""The graphics card's accumulator: what does it cost over the plain forward pass? (Is it right? gpu_check.py.)

    python benchmarks/gpu.py [--texts 4096] [--batch 512] [--dtype bfloat16] [--only cuda] [--peers] [--profile]
    python benchmarks/gpu.py --run texts.jsonl.gz | --long 64

A model of BERT-base size with random weights reads windows of 128 tokens, and everything is timed in one process,
interleaved: the plain forward pass (sdpa), the model with its taps (eager, as the accumulators need it), and the whole
with the sums. --peers times beside them, on fewer texts, plain torch on the card, the loops of the CPU, hooks with
output_attentions and NumPy, and TransformerLens and nnsight where they are installed. --run takes texts from a file to
result.nc and says where the time goes. --long reads windows of 1,024 to 8,192 tokens. All begin with what the card can
do at most: bytes copied and numbers multiplied in a second.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import numpy as np
import torch
import transformers

import headscope
from headscope.choices import COMPILED, CUDA, CUDA_EAGER, TORCH, Choices
from headscope.models.plain import SDPA, attention_by
from headscope.models.reading import Reader
from headscope.runs import analysis
from headscope.runs.capacity import AT_ONCE
from headscope.runs.paths import attention_lacks, choose_path
from headscope.runs.plan import LARGEST_SHARD
from headscope.runs.settings import Settings
from headscope.runs.worker import ShardAhead, ShardResult, Threads, Worker
from headscope.texts import Record
from headscope.windows import corpus_windows

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")  # --run and --long also go without a card


def bert(config: transformers.BertConfig, device: str, dtype: str) -> headscope.Model:
    """A BERT with random weights and the embedded model's tokenizer."""
    folder = Path(tempfile.mkdtemp(prefix="headscope-gpu-"))
    tokenizer = transformers.AutoTokenizer.from_pretrained(Path(headscope.__file__).parent / "data" / "bert12")
    torch.manual_seed(0)
    config.vocab_size = len(tokenizer)
    transformers.BertModel(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return headscope.load(folder, device=device, dtype=dtype)


def time_of(work: Callable[[], object]) -> float:
    wait = torch.cuda.synchronize if DEVICE.type == "cuda" else (lambda: None)
    wait()
    began = time.perf_counter()
    work()
    wait()
    return time.perf_counter() - began


def speed(args: argparse.Namespace) -> None:
    model = bert(transformers.BertConfig(), "cuda", args.dtype)
    passages = [p["text"] for p in headscope.passages()]
    began = time.perf_counter()
    texts = [f"{passages[k % 64]} {passages[(7 * k + 1) % 64]}" for k in range(args.batch)]
    cut = [corpus_windows(text, model.tokenizer, model.template, length=128)[0] for text in texts]
    print(f"cutting {args.batch} windows: {time.perf_counter() - began:.2f} s")
    rounds = args.texts // args.batch
    together = max(1, LARGEST_SHARD // args.batch)
    records = [Record(str(k), text) for k, text in enumerate(texts)]
    ids = torch.tensor(np.stack([window.ids for window in cut]), device=DEVICE)

    def plain() -> None:
        with attention_by(model.network, SDPA), torch.no_grad():
            for _ in range(rounds):
                model.network(ids)

    readings = {"both": ("dot", "cosine"), "one": ("dot",)}

    def tapped() -> None:
        with Reader(model) as reader:
            for _ in range(rounds):
                reader.read(reader.batch(cut), lambda heads: None)

    @contextmanager
    def whole(which: str, path: str) -> Iterator[Callable[[], None]]:
        settings = Settings(Choices(window=128, readings=readings[which]), dtype=args.dtype)
        threads = Threads(reading=args.at_once, cutting=1)
        with Worker(model, settings, {}, threads=threads, path=path) as worker, ThreadPoolExecutor(1) as background:
            counted(worker, background, 1)  # threads of their own make plans of their own
            yield partial(counted, worker, background, rounds)

    def counted(worker: Worker, background: ThreadPoolExecutor, batches: int) -> None:
        """As a run does it: the next shards begun, the sums of the last one fetched."""
        sizes = [min(together, batches - k) for k in range(0, batches, together)]  # batches of each shard

        def fetch(done: ShardResult) -> None:
            done.sums()  # and lets them go, so that pinned memory is used again

        def begin(many: int) -> ShardAhead:
            return ShardAhead(worker, records * many, args.batch, lambda: [[window] for window in cut] * many)

        fetched, shards = [], [begin(sizes[0])]
        for k, many in enumerate(sizes):
            shards += [begin(each) for each in sizes[len(shards) : k + 1 + worker.ahead]]
            done = worker.shard(records * many, args.batch, ahead=shards[k])
            fetched.append(background.submit(fetch, done))
        for sums in fetched:
            sums.result()

    contenders = {"forward": ready(plain, args.texts), "tapped, eager": ready(tapped, args.texts)}
    for path in (CUDA, CUDA_EAGER):
        if path == CUDA and (why := attention_lacks(model, Choices(window=128))):
            print(f"no {CUDA}: {why}")
            continue
        contenders[f"both, {path}"] = Contender(partial(whole, "both", path), args.texts)
        contenders[f"one, {path}"] = Contender(partial(whole, "one", path), args.texts)
    if args.peers:
        contenders |= peers_of(args, model)
    if args.only:
        contenders = {name: each for name, each in contenders.items() if name.endswith(("forward", f" {args.only}"))}
    compare(contenders, args.rounds)
    if args.profile:
        with contenders[f"both, {CUDA}"].opened() as work:
            show_profile(work)


class Contender(NamedTuple):
    """Something that reads so many texts, when it is open; opening it is not timed."""

    opened: Callable[[], AbstractContextManager[Callable[[], None]]]
    texts: int


def ready(work: Callable[[], None], texts: int) -> Contender:
    """What is ready as it is."""
    return Contender(lambda: nullcontext(work), texts)


def compare(contenders: dict[str, Contender], rounds: int) -> None:
    """Time everything, round by round, beside the first, which is the plain forward pass."""
    times: dict[str, list[float]] = {name: [] for name in contenders}  # of one text
    memory = {}
    for name, (opened, _) in contenders.items():
        with opened() as work:
            work()  # warm
            if DEVICE.type == "cuda":
                torch.cuda.reset_peak_memory_stats()
                work()
        memory[name] = torch.cuda.max_memory_allocated() if DEVICE.type == "cuda" else 0
    for _ in range(rounds):
        for name, (opened, texts) in contenders.items():
            with opened() as work:
                times[name].append(time_of(work) / texts)
    forward = next(iter(contenders))
    for name, found in times.items():
        ratios = [t / f for t, f in zip(found, times[forward], strict=True)]
        texts = contenders[name].texts
        print(f"{name:22s} {texts:6d} texts  {1 / statistics.median(found):9.1f} texts/s  "
              f"ratio {statistics.median(ratios):7.2f}  ({min(ratios):.2f} … {max(ratios):.2f})  "
              f"memory {memory[name] / 1e9:.2f} GB, {memory[name] / max(memory[forward], 1):.2f}")  # fmt: skip


def peers_of(args: argparse.Namespace, model: headscope.Model) -> dict[str, Contender]:
    """Other ways to the numbers, on a few of the texts: most of them take hundreds of times as long."""
    from overhead import PEERS, Bench, installed

    bench = Bench("base", args.peer_texts, args.peer_texts, device=str(DEVICE), dtype=args.dtype)

    def counted(path: str) -> None:
        settings = Settings(Choices(window=128), dtype=args.dtype)
        with Worker(model, settings, {}, threads=Threads(reading=os.cpu_count() or 1), path=path) as worker:
            worker.shard(bench.records, 8).sums()

    found = {f"both, {path}": ready(partial(counted, path), args.peer_texts) for path in (TORCH, COMPILED)}
    for peer in PEERS:
        if installed(peer):
            found[peer] = ready(getattr(bench, peer), args.peer_texts)
        else:
            print(f"{peer} is not installed and is left out")
    return found


# ---------------------------------------------------------------------- at most, whole runs, long windows


def ceilings() -> None:
    """What the card can do: what a copy moves and what products multiply, the median of ten."""
    large = torch.empty(2**31 if DEVICE.type == "cuda" else 2**26, dtype=torch.uint8, device=DEVICE)
    other = torch.empty_like(large)
    copies = [time_of(lambda: other.copy_(large)) for _ in range(11)][1:]
    print(f"copying: {2 * large.numel() / statistics.median(copies) / 1e12:.2f} TB/s read and written")
    side = 8192 if DEVICE.type == "cuda" else 1024
    for dtype in (torch.bfloat16, torch.float32):
        one, two = (torch.randn(side, side, device=DEVICE, dtype=dtype) for _ in range(2))
        products = [time_of(lambda one=one, two=two: one @ two) for _ in range(11)][1:]
        print(f"products, {dtype}: {2 * side**3 / statistics.median(products) / 1e12:.1f} TFLOP/s")


def whole_run(args: argparse.Namespace) -> None:
    """From a file of texts to result.nc, with the parts that the time goes into."""
    parts: dict[str, float] = {}

    def timed(module: Any, name: str, words: str) -> None:
        own = getattr(module, name)

        def around(*given: Any, **more: Any) -> Any:
            began = time.perf_counter()
            try:
                return own(*given, **more)
            finally:
                parts[words] = parts.get(words, 0.0) + time.perf_counter() - began

        setattr(module, name, around)

    timed(analysis, "checked_survey", "looking through the texts")
    timed(analysis, "prepare", "getting ready")
    timed(analysis, "finish", "adding up and writing result.nc")
    model = headscope.load(device=str(DEVICE), dtype=args.dtype)
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(2):  # the second without compiling kernels and loops
            parts.clear()
            out = Path(folder) / f"run{len(list(Path(folder).iterdir()))}"
            began = time.perf_counter()
            result = headscope.analyze(model, args.run, out=out, progress=False)
            took = time.perf_counter() - began
    parts["shards"] = took - sum(parts.values())
    print(f"{result.texts['texts']:,} texts of {args.run} in {took:.1f} s: "
          + ", ".join(f"{words} {seconds:.1f}" for words, seconds in parts.items()))  # fmt: skip


def long_windows(args: argparse.Namespace) -> None:
    """Windows of up to 8,192 tokens, 12 heads to a layer: time beside the plain forward pass, and memory."""
    for tokens in (1024, 2048, 4096, 8192):
        if tokens > args.longest:
            break
        config = transformers.BertConfig(num_hidden_layers=args.layers, max_position_embeddings=tokens)
        model = bert(config, str(DEVICE), args.dtype)
        passages = [p["text"] for p in headscope.passages()]
        texts = [" ".join(passages[(k + n) % 64] for n in range(1 + tokens // 100)) for k in range(args.long)]
        cut = [corpus_windows(text, model.tokenizer, model.template, length=tokens)[0] for text in texts]
        ids = torch.tensor(np.stack([window.ids for window in cut]), device=DEVICE)
        records = [Record(str(k), text) for k, text in enumerate(texts)]

        def plain(model: headscope.Model = model, ids: torch.Tensor = ids) -> None:
            with attention_by(model.network, SDPA), torch.no_grad():
                for row in ids:
                    model.network(row[None])

        def counted(model: headscope.Model = model, records: list[Record] = records, tokens: int = tokens) -> None:
            settings = Settings(Choices(window=tokens), dtype=args.dtype)
            path = choose_path(None, DEVICE, settings.choices, lambda: attention_lacks(model, settings.choices))[0]
            with Worker(model, settings, {}, path=path) as worker:
                worker.shard(records, 1).sums()

        print(f"windows of {tokens:,} tokens:")
        compare({"forward": ready(plain, args.long), "both": ready(counted, args.long)}, 1)
    if args.profile:
        show_profile(counted)


def show_profile(work: Callable[[], None]) -> None:
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CUDA, ProfilerActivity.CPU]) as seen:
        work()
        torch.cuda.synchronize()
    print(seen.key_averages().table(sort_by="cuda_time_total", row_limit=25, max_name_column_width=50))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--texts", type=int, default=4096)
    parser.add_argument("--batch", type=int, default=512)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--at-once", type=int, default=AT_ONCE, help="batches that are read side by side")
    parser.add_argument("--profile", action="store_true", help="show where the time of the card goes")
    parser.add_argument("--dtype", default="bfloat16")
    parser.add_argument("--only", metavar="PATH", help="beside the forward pass only this one")
    parser.add_argument("--peers", action="store_true", help="also the other ways to the numbers")
    parser.add_argument("--peer-texts", type=int, default=32)
    parser.add_argument("--run", metavar="FILE", help="a whole run of these texts, with the embedded model")
    parser.add_argument("--long", type=int, metavar="N", help="so many windows of 1,024 to 8,192 tokens")
    parser.add_argument("--longest", type=int, default=8192, help="with --long: tokens")
    parser.add_argument("--layers", type=int, default=12, help="with --long: of the model")
    args = parser.parse_args()
    print(torch.cuda.get_device_name() if DEVICE.type == "cuda" else "no card: a dry run", torch.__version__)
    transformers.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    ceilings()
    if args.run:
        whole_run(args)
    elif args.long:
        long_windows(args)
    else:
        speed(args)


if __name__ == "__main__":
    main()
