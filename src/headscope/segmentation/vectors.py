"""What each head makes of a sentence that is read alone: its mean output.

Alone, because neighbours share their context whatever they are about: read together, sentences of one passage are
alike and so are any two that happen to stand side by side.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray

from headscope.models.reading import Reader
from headscope.models.transfer import to_device
from headscope.tap import LayerHeads

if TYPE_CHECKING:
    from headscope.models.model import Model
    from headscope.segmentation.parts import Part

COMMON = 0.001  # share of all tokens at which one counts half
TOKENS = 8192  # in a batch, padding included
ROWS = 256  # parts in a batch
Vectors = NDArray[np.float32]
Counting = NDArray[np.float64]  # by token id: how much it counts, from 0 to 1
Heads = Sequence[tuple[int, int]]  # (layer, head)


def all_heads(model: Model, stack: str) -> Heads:
    """Every head of a stack, layer by layer."""
    shape = model.stack(stack)
    return [(layer, head) for layer in range(shape.layers) for head in range(shape.heads)]


def mean_outputs(model: Model, parts: Sequence[Part], stack: str, heads: Heads, counting: Counting) -> Vectors:
    """Each head's output for each part, averaged over the part's own tokens as they count: (N, H, d).

    An empty part has nothing.


    >>> import headscope
    >>> from headscope.segmentation.parts import parts_of
    >>> model = headscope.load()
    >>> parts = list(parts_of("It rains. The boats came home.", model))
    >>> mean_outputs(model, parts, "encoder", [(11, 1), (8, 8)], np.ones(8192)).shape
    (2, 2, 32)
    """
    shape = model.stack(stack)
    means = np.zeros((len(parts), len(heads), shape.width), dtype=np.float32)
    start, end = model.template.start, model.template.end
    where: dict[int, list[tuple[int, int]]] = {}  # by layer: head, and its place among those that are wanted
    for place, (layer, head) in enumerate(heads):
        where.setdefault(layer, []).append((head, place))
    sink = shape.causal and not start  # position 0 of a causal model is its attention sink
    with Reader(model, layers=tuple(where), weights=False, values=False) as reader:
        for rows in _batches(parts, len(start) + len(end)):
            windows = [np.array([*start, *parts[row].ids, *end], dtype=np.int64) for row in rows]
            shares = np.zeros((len(rows), max(map(len, windows))), dtype=np.float32)  # (B, T), each row adds up to 1
            for k, row in enumerate(rows):
                first, last = len(start), len(start) + len(parts[row].ids)
                counts = counting[parts[row].ids]
                if sink and last - first > 1:
                    counts[0] = 0
                shares[k, first:last] = counts / counts.sum()
            mean_over = to_device(shares, model.network.device)

            def keep(layer: LayerHeads, rows: list[int] = rows, mean_over: torch.Tensor = mean_over) -> None:
                if layer.stack != stack:
                    return
                wanted = where[layer.layer]
                chosen = layer.outputs[:, [head for head, _ in wanted]].float()  # (B, h, T, d)
                mean = torch.einsum("bt,bhtd->bhd", mean_over, chosen).cpu().numpy()
                means[np.ix_(rows, [place for _, place in wanted])] = mean

            reader.read_ids(windows, keep)
    return means


def counting_of(model: Model, common: Mapping[str, float]) -> Counting:
    """How much each token counts, by its id: the more common, the less. A common word says little of what it is about.

    >>> import headscope
    >>> model = headscope.load()
    >>> counting = counting_of(model, {"the": 0.06, "of": 0.03})
    >>> [round(float(counting[model.tokenizer.convert_tokens_to_ids(word)]), 3) for word in ("the", "of", "boat")]
    [0.016, 0.032, 1.0]
    """
    rows = max(len(model.tokenizer), int(getattr(model.network.config.get_text_config(), "vocab_size", 0) or 0))
    counting = np.ones(rows)
    for token, share in common.items():
        number = model.tokenizer.convert_tokens_to_ids(token)
        if isinstance(number, int) and 0 <= number < rows:
            counting[number] = COMMON / (COMMON + share)
    return counting


def _batches(parts: Sequence[Part], around: int) -> Iterator[list[int]]:
    """Rows that go through the model together: of about the same length, so that little is padding."""
    order = sorted((k for k in range(len(parts)) if len(parts[k].ids)), key=lambda k: len(parts[k].ids))
    batch: list[int] = []
    for row in order:
        if batch and (len(batch) == ROWS or (len(batch) + 1) * (len(parts[row].ids) + around) > TOKENS):
            yield batch
            batch = []
        batch.append(row)
    if batch:
        yield batch
