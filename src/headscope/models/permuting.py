"""Permuted weights: a model whose weights have the sizes that training gave them, in places that mean nothing.

Fresh weights are small, and a model of small weights hardly attends at all. Shuffling keeps every matrix as large as
it was, so that what is left of an effect is what sizes alone can do.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

# Entries are moved as whole numbers of their size: numpy knows neither bfloat16 nor the eight-bit floats.
WHOLE_NUMBERS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def permute_weights(network: nn.Module, seed: int) -> None:
    """Shuffle the entries of every two-dimensional parameter within it, embeddings included, in place.

    Each has its own generator, `default_rng([seed, its place among all parameters])`, so that a parameter's order
    depends on nothing but that. Parameters that are tied have one place and are shuffled once.

    >>> layer = nn.Linear(3, 2)
    >>> _ = layer.weight.data.copy_(torch.arange(6).view(2, 3))
    >>> permute_weights(layer, seed=1)
    >>> layer.weight.flatten().tolist() == np.random.default_rng([1, 0]).permutation(6).tolist()
    True
    """
    for number, parameter in enumerate(network.parameters()):
        if parameter.ndim == 2:
            _shuffle(parameter.detach(), np.random.default_rng([seed, number]))


def _shuffle(matrix: Tensor, draw: np.random.Generator) -> None:
    """Shuffle one matrix where it lies; only one that does not lie row by row is copied for it."""
    flat = matrix.contiguous().view(-1)
    draw.shuffle(flat.view(WHOLE_NUMBERS[flat.element_size()]).numpy())  # draws as `permutation` does
    if flat.data_ptr() != matrix.data_ptr():
        matrix.copy_(flat.view(matrix.shape))
