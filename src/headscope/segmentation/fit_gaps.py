"""Learning where sentences end without punctuation, from texts that have it: it is taken away, and must be found."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from headscope.errors import HeadscopeError
from headscope.segmentation.gaps import SIGNALS, GapWindow, gap_windows, read_gaps, words_of
from headscope.segmentation.head_weights import SentenceWeights
from headscope.segmentation.parts import sentences_of
from headscope.segmentation.vectors import Heads

if TYPE_CHECKING:
    from headscope.models.model import Model

MEMORY = 1_500_000_000  # bytes of what heads do at gaps
TEXTS = 3_000
TOGETHER = 64  # texts that are read before it is told how far it is
FEWEST = 100  # sentence ends from which anything can be learned
STEPS, BATCH = 1500, 1024
SAMPLE = 10_000  # gaps that tell how much a head moves the odds
PULL = 3e-4  # towards no weight at all


def fit_sentences(
    model: Model,
    texts: Sequence[str],
    stack: str,
    heads: Heads,
    seed: int,
    language: str,
    tell: Callable[[str, int, int], None],
) -> SentenceWeights:
    """A weight for each signal of each head."""
    size = 2 * len(heads) * len(SIGNALS) * 100  # bytes of a text of a hundred words
    drawn = np.random.default_rng(seed)
    number = min(len(texts), TEXTS, max(1, MEMORY // size))
    chosen = [texts[k] for k in sorted(drawn.choice(len(texts), number, replace=False))]
    read, ends = [], []
    for start in range(0, len(chosen), TOGETHER):
        signals, is_end = _signals(model, chosen[start : start + TOGETHER], stack, heads, language)
        read.append(signals)
        ends.append(is_end)
        tell("reading gaps between words", min(start + TOGETHER, len(chosen)), len(chosen))
    signals, is_end = torch.cat(read), torch.cat(ends)
    if int(is_end.sum()) < FEWEST or bool(is_end.all()):
        raise HeadscopeError(
            f"the texts have {int(is_end.sum())} sentence ends within them, too few to learn from",
            f"give texts with punctuation, {FEWEST} sentence ends or more",
        )
    return _learned(signals, is_end, heads, seed, tell)


def _signals(model: Model, texts: Sequence[str], stack: str, heads: Heads, language: str) -> tuple[Tensor, Tensor]:
    """What every head does at the gaps of some texts, (n, H × signals), and whether a sentence ends there, (n,)."""
    windows: list[GapWindow] = []
    ends, is_gap = [], []
    so_far = 0  # words of the texts before
    for text in texts:
        words = words_of(text)
        for each in gap_windows(text, words, model):
            windows.append(GapWindow(each.ids, each.gaps + np.array([0, so_far])))
        last = np.searchsorted([a for a, _ in words], [b for _, b in sentences_of(text, language)]) - 1
        ends.append(np.isin(np.arange(len(words)), last))
        is_gap.append(np.arange(len(words)) < len(words) - 1)  # nothing follows the last word
        so_far += len(words)
    table = torch.zeros(so_far, len(heads), len(SIGNALS), dtype=torch.float16)

    def take(places: list[int], after: NDArray[np.int64], read: Tensor) -> None:
        table[torch.from_numpy(after)[:, None], torch.tensor(places)] = read.transpose(1, 2).half().cpu()

    read_gaps(model, windows, stack, heads, take)
    kept = torch.from_numpy(np.concatenate(is_gap))
    return table.flatten(1)[kept], torch.from_numpy(np.concatenate(ends))[kept].float()


def _learned(
    signals: Tensor, is_end: Tensor, heads: Heads, seed: int, tell: Callable[[str, int, int], None]
) -> SentenceWeights:
    """A logistic regression on signals of mean 0 and spread 1, told in the signals themselves."""
    pieces = [signals[k : k + 20_000] for k in range(0, len(signals), 20_000)]
    mean = torch.stack([piece.double().sum(0) for piece in pieces]).sum(0) / len(signals)
    square = torch.stack([piece.double().square().sum(0) for piece in pieces]).sum(0) / len(signals)
    spread = (square - mean**2).clamp(min=0).sqrt() + 1e-3
    centre, unit = mean.float(), spread.float()
    rate = float(is_end.mean())
    weights = torch.zeros(signals.shape[1], requires_grad=True)
    bias = torch.tensor(float(np.log(rate / (1 - rate))), requires_grad=True)
    improve = torch.optim.Adam([weights, bias], lr=3e-3)
    slower = torch.optim.lr_scheduler.CosineAnnealingLR(improve, STEPS)
    drawn = torch.Generator().manual_seed(seed)
    for step in range(STEPS):
        rows = torch.randint(len(signals), (BATCH,), generator=drawn)
        odds = ((signals[rows].float() - centre) / unit) @ weights + bias
        loss = torch.nn.functional.binary_cross_entropy_with_logits(odds, is_end[rows]) + PULL * weights.square().sum()
        improve.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        improve.step()
        slower.step()
        if step % 50 == 49:
            tell("weighing gaps", step + 1, STEPS)
    table = (weights.detach().double() / spread).reshape(len(heads), -1)  # (H, signals)
    offsets = -(table * mean.reshape(table.shape)).sum(1)
    some = signals[torch.randint(len(signals), (SAMPLE,), generator=drawn)].reshape(SAMPLE, *table.shape)
    moves = torch.stack([(some[:, head].double() * table[head]).sum(1).std() for head in range(len(table))])
    return SentenceWeights(
        tuple(heads), table.numpy(), offsets.numpy(), moves.numpy(), SIGNALS, float(bias.detach()), rate
    )
