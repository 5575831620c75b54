"""Train a small BERT by masked language modelling on one device, in a fixed number of seconds or of steps.

DATA holds train-*.xz (or .npy) and valid.npy as encode.py writes them. Progress, and with it the learning
rate, is the share of --total-seconds spent in training steps, so that the schedule always ends in time; or,
with --total-steps, the share of the steps, so that it does not depend on the machine. One call trains for
--run-seconds or --run-steps at most and leaves RUN/state.pt; the next call with the same arguments goes on
from there.

RUN/log.csv          the loss curve
RUN/checkpoint-XXX/  Hugging Face folders (fp16) after the shares of training named in --keep; the last is 100
"""

import argparse
import math
import time
from collections.abc import Sequence
from pathlib import Path

import torch

from conventions import InputError, existing_file, existing_folder, run_script
from model import HEADS, TOKENIZER_FILES, Bert
from trainer import Trainer
from windows import Windows, read_stream, read_validation


def parse_arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--data", type=Path, required=True, help="folder written by encode.py")
    parser.add_argument("--tokenizer", type=Path, required=True, help="folder written by train_tokenizer.py")
    parser.add_argument("--run", type=Path, required=True, help="the folder to write")
    parser.add_argument("--hidden", type=int, default=384, help=f"hidden size, a multiple of {HEADS}")
    total = parser.add_mutually_exclusive_group(required=True)
    total.add_argument("--total-seconds", type=float, help="length of the schedule, in seconds of training")
    total.add_argument("--total-steps", type=int, help="length of the schedule, in steps")
    parser.add_argument(
        "--run-seconds", type=float, default=math.inf, help="seconds this call may take, its start included"
    )
    parser.add_argument("--run-steps", type=int, default=math.inf, help="steps this call may take")
    parser.add_argument("--tokens-per-step", type=int, default=131072)
    parser.add_argument("--lr", type=float, default=1e-3, help="peak of the learning rate")
    parser.add_argument("--warmup", type=float, default=0.04, help="share of training before the peak")
    parser.add_argument("--clip", type=float, default=1.0, help="largest norm of the gradient")
    parser.add_argument("--short", type=float, default=0.1, help="share of steps with shorter sequences")
    parser.add_argument(
        "--keep",
        type=float,
        nargs="*",
        default=[0, 1, 3, 10, 30],
        help="checkpoints, in per cent of training",
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--eager", action="store_true", help="do not compile (on a CPU nothing is compiled)")
    arguments = parser.parse_args(argv)

    if arguments.hidden < HEADS or arguments.hidden % HEADS:
        raise InputError(f"--hidden {arguments.hidden}: must be a multiple of {HEADS}, the number of heads")
    if arguments.total_seconds is not None and arguments.total_seconds <= 0:
        raise InputError(f"--total-seconds {arguments.total_seconds}: must be more than 0")
    if arguments.total_steps is not None and arguments.total_steps < 2:
        raise InputError(f"--total-steps {arguments.total_steps}: must be 2 or more")
    if not 0 < arguments.warmup < 1:
        raise InputError(f"--warmup {arguments.warmup}: must lie between 0 and 1")
    return arguments


def vocabulary_size(tokenizer: Path) -> int:
    """The number of pieces; every file that a checkpoint needs is checked now rather than after an hour."""
    existing_folder(tokenizer, "the tokenizer, written by train_tokenizer.py")
    for name in TOKENIZER_FILES:
        existing_file(tokenizer / name, "a tokenizer folder is written by train_tokenizer.py")
    with (tokenizer / "vocab.txt").open(encoding="utf-8") as file:
        return sum(1 for _ in file)


def main(argv: Sequence[str] | None = None) -> None:
    begun = time.monotonic()
    arguments = parse_arguments(argv)
    vocabulary = vocabulary_size(arguments.tokenizer)
    stream = read_stream(arguments.data, vocabulary)
    held_out = read_validation(arguments.data, vocabulary)

    device = "cuda" if torch.cuda.is_available() else "cpu"
    compute_dtype = torch.bfloat16 if device == "cuda" else torch.float32
    compiled = device == "cuda" and not arguments.eager
    if device == "cuda":
        torch.set_float32_matmul_precision("high")
    if compiled:
        torch._dynamo.config.recompile_limit = 64  # four lengths, with and without gradients, and validation
    torch.manual_seed(arguments.seed)
    data = Windows(stream, arguments.tokens_per_step, device)
    valid = torch.from_numpy(held_out).to(device)
    available = ", ".join(f"{len(starts)} of {length}" for length, starts in data.starts.items())
    print(f"{data.tokens} tokens; windows: {available}; {len(valid)} held out", flush=True)

    model = Bert(vocabulary, arguments.hidden, compute_dtype=compute_dtype, compiled=compiled).to(device)
    print(f"{sum(weight.numel() for weight in model.parameters()) / 1e6:.2f} M parameters", flush=True)
    arguments.run.mkdir(parents=True, exist_ok=True)
    trainer = Trainer(arguments, model, data, valid, vocabulary)
    if trainer.is_finished:
        print("this run is finished", flush=True)
    else:
        trainer.train(begun)


if __name__ == "__main__":
    raise SystemExit(run_script(main))
