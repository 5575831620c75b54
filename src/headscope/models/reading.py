"""The one way through a model: windows go in, and a listener is handed layer after layer of what its heads did."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch

from headscope.errors import HeadscopeError, brief, counted
from headscope.models.forward import Ids, collate, forward, pad_token, start_token
from headscope.tap import LayerHeads, tap
from headscope.windows import Window, WindowBatch, batch_windows

if TYPE_CHECKING:
    from headscope.models.model import Model

Listener = Callable[[LayerHeads], None]


class OutOfMemory(HeadscopeError):  # noqa: N818 - it says what happened
    """A batch did not fit into memory; a smaller one may."""


class Reader:
    """Takes windows through a model while it is open; several may be open at once, each in a thread of its own.

    >>> import headscope
    >>> from headscope.windows import window
    >>> model = headscope.load()
    >>> read = window("It rains.", None, model.tokenizer, model.template)
    >>> with Reader(model, layers=[11]) as reader:
    ...     reader.read(reader.batch([read]), lambda heads: print(heads.stack, heads.layer, tuple(heads.outputs.shape)))
    encoder 11 (1, 12, 6, 32)
    """

    def __init__(
        self,
        model: Model,
        *,
        layers: Collection[int] | None = None,
        weights: bool = True,
        values: bool = True,
        scores: bool = False,
    ) -> None:
        self.model = model
        self._listener: Listener = _no_listener
        self._failure: BaseException | None = None  # what the listener itself raised
        config = model.network.config
        self._pad = pad_token(config)
        self._tap = tap(
            model.network,
            self._hand_over,
            weights=weights,
            values=values,
            scores=scores,
            route=model.report.route,
            causal=model.stack().causal,
            layers=layers,
        )

    def __enter__(self) -> Reader:
        self._tap.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._tap.__exit__(*error)

    def batch(self, windows: Sequence[Window]) -> WindowBatch:
        """Windows as this model reads them, a decoder's beside them."""
        return make_batch(self.model, windows)

    def read(self, batch: WindowBatch, listener: Listener) -> None:
        """Run a batch once; `listener` is called with every layer as soon as it has run."""
        windows = batch.windows
        types = [each.types for each in windows] if any(len(each.texts) > 1 for each in windows) else None
        self.read_ids([each.ids for each in windows], listener, types)

    def read_ids(self, rows: Sequence[Ids], listener: Listener, types: Sequence[Ids] | None = None) -> None:
        """The same for token ids alone, special ones included."""
        network = self.model.network
        if network.training:
            raise HeadscopeError(
                f"{self.model.name!r} is in training mode: dropout would make every pass different",
                "call model.network.eval()",
            )
        self._listener, self._failure = listener, None
        try:
            forward(network, collate(rows, self._pad, network.device, types))
        except Exception as error:
            if isinstance(error, HeadscopeError) or (error is self._failure and not _lacks_memory(error)):
                raise
            raise self._failed([len(row) for row in rows], error) from error
        finally:
            self._listener = _no_listener

    def _hand_over(self, heads: LayerHeads) -> None:
        if not self.model.stacks[heads.stack].values:  # the self-check does not vouch for them
            heads = replace(heads, values=None)
        try:
            self._listener(heads)
        except BaseException as error:
            self._failure = error
            raise

    def _failed(self, lengths: Sequence[int], error: Exception) -> HeadscopeError:
        """Running out of memory is an error of its own, apart from whatever else a model may raise."""
        longest = max(lengths)
        what = f"{counted(len(lengths), 'window')} of {counted(longest, 'token')}"
        problem = f"{self.model.name!r} failed on {what}: {type(error).__name__}: {brief(error)}"
        if _lacks_memory(error):
            return OutOfMemory(problem, "take a shorter window, a smaller batch or a device with more memory")
        return HeadscopeError(
            problem,
            "try a shorter window; headscope check tells whether the model works at all; where hooks of your own are "
            "on the network, look at those first",
        )


def make_batch(model: Model, windows: Sequence[Window]) -> WindowBatch:
    """Windows as a model reads them, a decoder's beside them."""
    return batch_windows(windows, start_token(model.network.config) if model.paired else None, model.tokenizer)


def _lacks_memory(error: BaseException) -> bool:
    if isinstance(error, (torch.OutOfMemoryError, MemoryError)):
        return True
    known = ("not enough memory", "out of memory", "allocate memory")
    return isinstance(error, RuntimeError) and any(words in str(error) for words in known)


def _no_listener(heads: LayerHeads) -> None:
    raise AssertionError("a layer ran while no listener was set")
