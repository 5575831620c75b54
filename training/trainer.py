"""The training loop: batches, optimizer, validation, and what is written on the way."""

import argparse
import math
import time
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from conventions import WINDOW
from model import Bert, export
from run_folder import Log, Progress, load_state, save_state
from schedule import Schedule
from windows import MASKED, SHORT_LENGTHS, Windows, mask

VALIDATION_BATCH = 1000
STEPS_BETWEEN_WAITS = 8


class Trainer:
    """The training loop, and what it reports and keeps on the way."""

    def __init__(
        self, arguments: argparse.Namespace, model: Bert, data: Windows, valid: Tensor, vocabulary: int
    ) -> None:
        self.arguments = arguments
        self.model = model
        self.data = data
        self.valid = valid
        self.vocabulary = vocabulary
        self.schedule = Schedule(
            total=arguments.total_steps or arguments.total_seconds,
            in_steps=arguments.total_steps is not None,
            peak=arguments.lr,
            warmup=arguments.warmup,
        )
        self.optimizer = make_optimizer(model, arguments.lr)
        self.state_path: Path = arguments.run / "state.pt"
        self.progress = Progress()
        if self.state_path.exists():
            self.progress = load_state(self.state_path, model, self.optimizer, data.device)
            torch.manual_seed(arguments.seed + self.progress.step)
            print(f"goes on from step {self.progress.step}, {self.progress.spent:.0f} s", flush=True)
        self.log = Log(arguments.run / "log.csv", self.progress.step)

    @property
    def is_finished(self) -> bool:
        """Whether an earlier call has trained to the end."""
        return 100 in self.progress.kept

    def train(self, begun: float) -> None:
        """Train until the schedule or this call's share of it ends. `begun` is when the call began."""
        arguments, progress, schedule = self.arguments, self.progress, self.schedule
        self.warm_up()
        if progress.step == 0:
            self.keep(0)
            self.report(math.nan, math.nan, 0.0, 0.0)
        print(f"starts after {time.monotonic() - begun:.0f} s", flush=True)

        first_step = progress.step
        chooser = np.random.default_rng(arguments.seed + first_step)
        next_report = schedule.next_report(progress, first=True)
        losses: list[Tensor] = []
        norms: list[Tensor] = []
        counted_step, counted_spent, clock = progress.step, progress.spent, time.monotonic()
        while True:
            progress.spent = counted_spent + time.monotonic() - clock
            share = schedule.share(progress)
            rate = schedule.learning_rate(share)
            is_short = chooser.random() < arguments.short
            length = int(chooser.choice(SHORT_LENGTHS)) if is_short else WINDOW
            loss, norm = self.step(length, rate)
            progress.step += 1
            norms.append(norm)
            if length == WINDOW:
                losses.append(loss)
            if progress.step % STEPS_BETWEEN_WAITS == 0:
                loss.item()  # waits for the device, so that the clock here is never far from its work

            is_done = share >= 1
            is_late = time.monotonic() - begun > arguments.run_seconds
            is_over = is_late or progress.step - first_step >= arguments.run_steps
            reached = [percent for percent in arguments.keep if share * 100 >= percent]
            due = [percent for percent in reached if percent not in progress.kept]
            if not (due or is_done or is_over or schedule.amount(progress) >= next_report):
                continue
            loss.item()
            progress.spent = counted_spent + time.monotonic() - clock
            steps_per_second = (progress.step - counted_step) / (progress.spent - counted_spent)
            train_loss = torch.stack(losses).mean().item() if losses else math.nan
            self.report(train_loss, torch.stack(norms).mean().item(), rate, steps_per_second)
            for percent in (*due, 100) if is_done else due:
                self.keep(percent)
            if is_done or is_over:
                save_state(self.state_path, self.model, self.optimizer, progress)
                print("done" if is_done else "to be continued", flush=True)
                return
            losses, norms = [], []
            next_report = schedule.next_report(progress)
            # The clock starts again here: reports and checkpoints are not training.
            counted_step, counted_spent, clock = progress.step, progress.spent, time.monotonic()

    def warm_up(self) -> None:
        """Run every shape once before the clock starts, so that compilation does not count as training.

        The gradients are thrown away. Done without compilation too, to draw the same random numbers.
        """
        for length in MASKED:
            self.model(*mask(self.data.batch(length), self.vocabulary))[0].backward()
        self.optimizer.zero_grad()
        if self.data.device == "cuda":
            torch.cuda.synchronize()

    def step(self, length: int, rate: float) -> tuple[Tensor, Tensor]:
        """One optimizer step on one batch; the loss and the norm of the gradient, still on the device."""
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        loss, _ = self.model(*mask(self.data.batch(length), self.vocabulary))
        loss.backward()
        norm = nn.utils.clip_grad_norm_(self.model.parameters(), self.arguments.clip)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return loss.detach(), norm.detach()

    def report(self, train_loss: float, norm: float, rate: float, steps_per_second: float) -> None:
        """Validate, and write the result to the log and to the terminal."""
        valid_loss, accuracy = validate(self.model, self.valid, self.vocabulary)
        step, spent = self.progress.step, self.progress.spent
        tokens = step * self.data.tokens_per_step
        tokens_per_second = steps_per_second * self.data.tokens_per_step
        self.log.write(
            step=step,
            tokens=tokens,
            epochs=f"{tokens / self.data.tokens:.3f}",
            train_seconds=f"{spent:.1f}",
            lr=f"{rate:.2e}",
            train_loss=f"{train_loss:.4f}",
            grad_norm=f"{norm:.3f}",
            valid_loss=f"{valid_loss:.4f}",
            valid_accuracy=f"{accuracy:.4f}",
            tokens_per_second=f"{tokens_per_second:.0f}",
        )
        print(
            f"step {step} {spent:.0f} s lr {rate:.1e} train {train_loss:.4f} norm {norm:.2f} "
            f"valid {valid_loss:.4f} accuracy {accuracy:.4f} {tokens_per_second / 1e6:.2f} Mtok/s",
            flush=True,
        )

    def keep(self, percent: float) -> None:
        """Export the model as it is now, once for each share of training."""
        if percent not in self.progress.kept:
            export(self.model, self.arguments.run / f"checkpoint-{percent:03g}", self.arguments.tokenizer)
            self.progress.kept.append(percent)


def make_optimizer(model: Bert, peak: float) -> torch.optim.AdamW:
    """AdamW; weight decay pulls on matrices only, not on biases and norms."""
    parameters = list(model.parameters())
    groups = [
        {"params": [weight for weight in parameters if weight.ndim > 1], "weight_decay": 0.01},
        {"params": [weight for weight in parameters if weight.ndim == 1], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=peak, betas=(0.9, 0.98), eps=1e-6, fused=parameters[0].is_cuda)


@torch.no_grad()
def validate(model: Bert, valid: Tensor, vocabulary: int) -> tuple[float, float]:
    """Loss and accuracy on the held-out windows, masked the same way every time.

    All batches are of one size, for one compiled shape: windows after the last full one go unused.
    """
    generator = torch.Generator(device=valid.device).manual_seed(0)
    size = min(VALIDATION_BATCH, len(valid))
    rows = len(valid) // size * size
    total = torch.zeros(2)
    for begin in range(0, rows, size):
        loss, accuracy = model(*mask(valid[begin : begin + size].long(), vocabulary, generator))
        total += torch.tensor([loss.item(), accuracy.item()]) * size / rows
    return total[0].item(), total[1].item()
