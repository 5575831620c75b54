"""From token streams to training batches: where windows may start, how they are drawn, how they are masked.

Most batches hold windows of 128 tokens. Some hold shorter ones made of whole sentences that fit exactly, so
that [SEP] is not tied to one position. No sequence is ever padded.

Shapes: N tokens in the stream, B windows of T tokens, P masked places.
"""

import lzma
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from conventions import (
    CLS_ID,
    MASK_ID,
    SENTENCE_START,
    SEP_ID,
    SPECIAL_TOKENS,
    WINDOW,
    InputError,
    existing_file,
    existing_folder,
)

SHORT_LENGTHS = (16, 32, 64)
# Masked tokens per sequence of each length: about 16% of them. A fixed number keeps every batch of one shape.
MASKED = {16: 2, 32: 5, 64: 10, WINDOW: 20}


def read_stream(folder: Path, vocabulary: int) -> NDArray[np.int16]:
    """The training tokens of a data folder, its chunks joined: (N,). A .npy is taken before an .xz."""
    existing_folder(folder, "the data, written by encode.py")
    paths = [path for path in folder.glob("train-*") if path.suffix in (".npy", ".xz")]
    if not paths:
        raise InputError(f"{folder}: no train-*.xz or train-*.npy; encode.py writes them")
    parts = [read_chunk(folder, name) for name in sorted({path.stem for path in paths})]
    stream = np.concatenate(parts).astype(np.int16)  # id and flag take 14 bits, so the sign is safe
    if len(stream) == 0 or stream[-1] != SEP_ID:
        raise InputError(f"{folder}: the training stream does not end with an article's [SEP]")
    check_vocabulary(folder, int((stream & (SENTENCE_START - 1)).max()), vocabulary)
    return stream


def read_chunk(folder: Path, name: str) -> NDArray[np.uint16]:
    """One chunk of the stream, unpacked."""
    unpacked = folder / f"{name}.npy"
    if unpacked.exists():
        chunk: NDArray[np.uint16] = np.load(unpacked)
        return chunk
    packed = folder / f"{name}.xz"
    try:
        return np.frombuffer(lzma.decompress(packed.read_bytes()), dtype=np.uint16)
    except (lzma.LZMAError, ValueError) as error:
        raise InputError(f"{packed}: cannot be unpacked ({error})") from error


def read_validation(folder: Path, vocabulary: int) -> NDArray[np.int32]:
    """The held-out windows: (articles, 128)."""
    path = existing_file(folder / "valid.npy", "the held-out windows, written by encode.py")
    windows: NDArray[np.int32] = np.load(path).astype(np.int32)
    if windows.ndim != 2 or len(windows) == 0 or windows.shape[1] != WINDOW:
        raise InputError(f"{path}: shape {windows.shape}, expected (articles, {WINDOW})")
    check_vocabulary(path, int(windows.max()), vocabulary)
    return windows


def check_vocabulary(source: Path, largest: int, vocabulary: int) -> None:
    """Raise early where data and tokenizer do not belong together: on a GPU the failure would be obscure."""
    if largest >= vocabulary:
        raise InputError(f"{source}: token {largest}, but the tokenizer has {vocabulary}; encode it again")


def find_starts(stream: Tensor) -> dict[int, Tensor]:
    """For each window length, the places in the stream from which a window's content may be read.

    Length 128: every sentence start with 126 tokens left in its article, and each article's last 126 tokens.
    Shorter:    every sentence start whose window would end exactly where a sentence ends.
    """
    is_first = stream & SENTENCE_START > 0  # (N,)
    is_end = stream & (SENTENCE_START - 1) == SEP_ID  # (N,)
    place = torch.arange(len(stream), device=stream.device)
    ends = place[is_end]  # (articles,)
    article_end = ends[torch.searchsorted(ends, place)]  # (N,)
    sentences = place[is_first]  # (sentences,)

    content = WINDOW - 2
    whole = sentences[sentences + content <= article_end[sentences]]
    last = ends - content
    previous_end = torch.cat([ends.new_tensor([-1]), ends[:-1]])
    starts = {WINDOW: torch.unique(torch.cat([whole, last[last > previous_end]]))}
    for length in SHORT_LENGTHS:
        content = length - 2
        inside = sentences[sentences + content <= article_end[sentences]]
        stop = inside + content
        starts[length] = inside[is_first[stop] | is_end[stop]]
    return starts


class Windows:
    """The training stream on the device, and windows drawn from it without repetition until all were seen."""

    def __init__(self, stream: NDArray[np.int16], tokens_per_step: int, device: str) -> None:
        if tokens_per_step < WINDOW:
            raise InputError(f"--tokens-per-step {tokens_per_step}: must be {WINDOW} or more")
        flagged = torch.from_numpy(stream).to(device)
        self.ids = flagged & (SENTENCE_START - 1)  # (N,)
        self.tokens = len(stream)
        self.tokens_per_step = tokens_per_step
        self.device = device
        self.starts = find_starts(flagged)
        for length, starts in self.starts.items():
            if len(starts) == 0:
                raise InputError(f"the training text has no window of {length} tokens; use more text")
        self._order: dict[int, Tensor] = {}  # a permutation of the starts of each length
        self._drawn: dict[int, int] = {}  # how much of it is used up

    def batch(self, length: int) -> Tensor:
        """Windows of the given length, as many as make up a step: (B, T)."""
        count = self.tokens_per_step // length
        starts = self.starts[length]
        content = starts[self._draw(length, count)][:, None] + torch.arange(length - 2, device=self.device)
        ids = torch.full((count, length), CLS_ID, dtype=torch.long, device=self.device)  # (B, T)
        ids[:, 1:-1] = self.ids[content].long()  # (B, T - 2)
        ids[:, -1] = SEP_ID
        return ids

    def _draw(self, length: int, count: int) -> Tensor:
        available = len(self.starts[length])
        if available <= count:  # tiny texts: with repetition
            return torch.randint(available, (count,), device=self.device)
        if length not in self._order or self._drawn[length] + count > available:
            self._order[length] = torch.randperm(available, device=self.device)
            self._drawn[length] = 0
        begin = self._drawn[length]
        self._drawn[length] += count
        return self._order[length][begin : begin + count]


def mask(
    ids: Tensor,
    vocabulary: int,
    generator: torch.Generator | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """BERT's corruption of a batch: of the chosen tokens 80% become [MASK], 10% another token, 10% stay.

    Returns the corrupted ids (B, T), the chosen places as indices into the flattened batch (P,), and what
    stood there (P,). [CLS] and [SEP] at the ends are never chosen.
    """
    count, length = ids.shape
    noise = torch.rand((count, length - 2), device=ids.device, generator=generator)
    columns = noise.topk(MASKED[length], dim=1).indices + 1  # (B, P / B)
    places = (columns + torch.arange(count, device=ids.device)[:, None] * length).flatten()  # (P,)
    labels = ids.flatten()[places]
    kind = torch.rand(places.shape, device=ids.device, generator=generator)
    first_ordinary = len(SPECIAL_TOKENS)
    other = torch.randint(first_ordinary, vocabulary, places.shape, device=ids.device, generator=generator)
    replacement = torch.where(kind < 0.8, MASK_ID, torch.where(kind < 0.9, other, labels))
    return ids.flatten().index_put((places,), replacement).view_as(ids), places, labels
