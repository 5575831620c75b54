"""Heads first: from the numbers of single heads to those of layers, thirds and the model.

A number of a layer, a third or the model is the median over its heads of the head's own number: what a typical head
does. Everything here takes numbers of heads as (…, layer, head) and keeps the leading dimensions. Ratios are taken as
logarithms. NaN marks heads without a number, which are left out.
"""

from __future__ import annotations

import numpy as np

from headscope.measures.derived import Array, logarithm, ratio


def median(values: Array, *, logarithmic: bool = False) -> Array:
    """The median over the last dimension of what is there; of an even number the mean of the middle two.

    >>> median(np.array([[1.0, 4.0, np.nan], [3.0, 9.0, 1.0]]), logarithmic=True)
    array([2., 3.])
    """
    return quantile(values, 0.5, logarithmic=logarithmic)


def quantile(values: Array, share: float, *, logarithmic: bool = False) -> Array:
    """The quantile over the last dimension of what is there, between two values by a line; NaN where nothing is.

    >>> quantile(np.array([4.0, 1.0, 2.0, np.nan, 3.0]), 0.25)
    array(1.75)
    """
    if not values.shape[-1]:
        return np.full(values.shape[:-1], np.nan)
    ordered = np.sort(logarithm(values) if logarithmic else values, axis=-1)  # NaN last
    number = np.isfinite(values).sum(-1)
    place = share * np.maximum(number - 1, 0)
    before = np.floor(place).astype(np.int64)
    after = np.minimum(before + 1, np.maximum(number - 1, 0))
    low, high = (np.take_along_axis(ordered, each[..., None], -1)[..., 0] for each in (before, after))
    part = place - before
    with np.errstate(invalid="ignore"):  # an infinite logarithm times nothing
        between = np.where(part > 0, low * (1 - part) + high * part, low)
    return np.asarray(np.exp(between) if logarithmic else between)


def share_beyond(values: Array, bound: float) -> Array:
    """The share of what is there, over the last dimension, that lies beyond a bound; NaN without a bound.

    >>> share_beyond(np.array([1.0, 2.0, np.nan]), 1.5)
    array(0.5)
    """
    known = np.isfinite(values)
    if np.isnan(bound):
        return np.full(values.shape[:-1], np.nan)
    return ratio(((values > bound) & known).sum(-1).astype(np.float64), known.sum(-1).astype(np.float64))


def mean(values: Array) -> Array:
    """The mean over the last dimension of what is there: of layers.

    >>> mean(np.array([1.0, 2.0, np.nan]))
    array(1.5)
    """
    known = np.isfinite(values)
    return ratio(np.where(known, values, 0).sum(-1), known.sum(-1).astype(np.float64))


def together(values: Array) -> Array:
    """Heads of several layers as one list: (…, layer, head) to (…, layer · head)."""
    return values.reshape(*values.shape[:-2], values.shape[-2] * values.shape[-1])
