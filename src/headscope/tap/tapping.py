"""The tap: a context manager through which a forward pass shows what every head read and wrote."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator
from types import TracebackType
from typing import Any

import torch
from torch import Tensor, nn

from headscope.errors import HeadscopeError
from headscope.tap import interface, places
from headscope.tap.records import LayerHeads, Scores
from headscope.tap.watch import Watch

Sink = Callable[[LayerHeads], None]


class tap:  # noqa: N801 - reads as a verb: `with tap(model) as tapped`
    """Show, layer by layer, what the heads of a transformers model write while it runs.

    Without a `sink` the layers are collected and iterating over the tap gives them. With one, `sink(heads)` is called
    for each layer as soon as it has run, and nothing is kept: memory does not grow with depth. `layers` names the
    layers to hand over. `causal` tells whether the one stack of a model reads backwards only, where that is known
    beforehand; otherwise it is seen from the first text.

    The model's outputs are bit for bit those of an untapped run, and everything is put back on leaving, also after an
    exception. Only forward passes of the thread that opened the tap are seen, so several threads may tap one model, or
    several models, at once.

    >>> import torch, transformers
    >>> config = transformers.BertConfig(
    ...     vocab_size=50, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64,
    ...     attn_implementation="eager")
    >>> bert = transformers.BertModel(config).eval()
    >>> with tap(bert, weights=True) as tapped:
    ...     _ = bert(torch.arange(6)[None])
    >>> [(heads.stack, heads.layer, tuple(heads.outputs.shape), tuple(heads.weights.shape)) for heads in tapped]
    [('encoder', 0, (1, 4, 6, 8), (1, 4, 6, 6)), ('encoder', 1, (1, 4, 6, 8), (1, 4, 6, 6))]
    """

    def __init__(
        self,
        model: nn.Module,
        sink: Sink | None = None,
        *,
        weights: bool = False,
        values: bool = False,
        scores: bool = False,
        layers: Collection[int] | None = None,
        route: str = "auto",
        causal: bool | None = None,
    ) -> None:
        if route not in ("auto", "interface", "fallback"):
            raise HeadscopeError(f"no route is called {route!r}", "use 'auto', 'interface' or 'fallback'")
        self.model, self.weights, self.values, self.scores, self.layers = model, weights, values, scores, layers
        self.collected: list[LayerHeads] = []
        self._sink: Sink = sink or self.collected.append
        self.route = route if route != "auto" else "interface" if places.uses_interface(model) else "fallback"
        self._names = {id(module): name for name, module in model.named_modules()}
        self._two_stacks = bool(getattr(getattr(model, "config", None), "is_encoder_decoder", False))
        self._causal = causal  # of a model with one stack; seen from the first text where it is None
        self._calls: dict[str, int] = {}  # attention calls in this forward pass, by stack
        self._attention_calls = self._forward_passes = 0  # since the tap was made
        self._layers_seen: set[int] = set()
        self._batch = 0
        self._running: list[nn.Module] = []
        self._handles: list[Any] = []
        self._watch: Watch | None = None
        self.thread = 0
        self.masks: interface.KnownMasks = {}

    def __iter__(self) -> Iterator[LayerHeads]:
        return iter(self.collected)

    # ------------------------------------------------------------------ opening and closing

    def __enter__(self) -> tap:
        if self._handles:
            raise HeadscopeError("this tap is open already", "make a second tap for a second block")
        implementation = getattr(getattr(self.model, "config", None), "_attn_implementation", None)
        if implementation not in (None, "eager") and (self.weights or self.route == "fallback"):
            raise HeadscopeError(
                f"attention weights cannot be read under {implementation!r}, which never forms them",
                'call set_attn_implementation("eager") on the network, or load it with attn_implementation="eager"',
            )
        self.thread = threading.get_ident()
        root = self.model
        self._handles = [root.register_forward_pre_hook(self._begin, with_kwargs=True)]
        if self.route == "interface":
            interface.start(self)
        else:
            for module in root.modules():
                if next(module.children(), None) is not None:
                    self._handles.append(module.register_forward_pre_hook(self._enter_module))
                    self._handles.append(module.register_forward_hook(self._leave_module, always_call=True))
            self._watch = Watch(self.record, self._running, lambda: self._batch, self.wants_readable())
            self._watch.__enter__()  # type: ignore[no-untyped-call]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.route == "interface":
            interface.stop(self)
        elif self._watch is not None:
            self._watch.__exit__(kind, error, trace)  # type: ignore[no-untyped-call]
            self._watch = None
        for handle in self._handles:
            handle.remove()
        self._handles, self._running = [], []
        self.masks.clear()
        if kind is not None or not self._forward_passes:
            return
        if self.layers is not None and not set(self.layers) <= self._layers_seen:
            never = sorted(set(self.layers) - self._layers_seen)
            raise HeadscopeError(
                f"{type(self.model).__name__} has no layer {never[0]}",
                f"its layers are 0 to {max(self._layers_seen, default=0)}",
            )
        if not self._attention_calls:
            raise HeadscopeError(
                f"no attention was seen in {type(self.model).__name__}: it neither uses transformers' attention "
                "interface nor multiplies softmax weights with values",
                "headscope cannot read this architecture; docs/architectures.md lists those it can",
            )

    # ------------------------------------------------------------------ during a forward pass

    def _begin(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any] | None = None) -> None:
        # Another thread may meet this hook while it is being registered, before torch knows that it takes kwargs.
        if threading.get_ident() != self.thread or kwargs is None:
            return
        self._calls.clear()
        self._running.clear()
        self.masks.clear()
        self._forward_passes += 1
        inputs = [value for value in (*args, *kwargs.values()) if isinstance(value, Tensor)]
        self._batch = len(inputs[0]) if inputs else 0

    def _enter_module(self, module: nn.Module, args: Any) -> None:
        if threading.get_ident() == self.thread:
            self._running.append(module)

    def _leave_module(self, module: nn.Module, args: Any, output: Any) -> None:
        if threading.get_ident() == self.thread and self._running:
            self._running.pop()

    def owns(self, module: nn.Module) -> bool:
        """Whether a module is part of the tapped model."""
        return id(module) in self._names

    def wants_readable(self) -> bool:
        """Whether it must still be found out which tokens may be read."""
        return self.weights or self.scores or (self._causal is None and not self._two_stacks)

    def wants_scores(self) -> bool:
        """Whether queries and keys are to be handed over."""
        return self.scores

    def record(
        self,
        module: nn.Module,
        outputs: Tensor,
        weights: Tensor | None,
        values: Tensor | None,
        readable: Tensor | None,
        scores: Scores | None = None,
    ) -> None:
        """Number one attention call and hand it on; the routes call this."""
        self._attention_calls += 1
        name = self._names[id(module)]
        causal = self._causal
        if causal is None and not self._two_stacks:
            causal = reads_backwards(module, readable, outputs.shape[2])
            self._causal = causal if outputs.shape[2] > 1 else None  # a single token shows no direction
        stack = places.stack_of(name, self._two_stacks, bool(causal))
        layer = self._calls.get(stack, 0)
        self._calls[stack] = layer + 1
        self._layers_seen.add(layer)
        if self.layers is not None and layer not in self.layers:
            return
        if self.weights and weights is None:
            raise HeadscopeError(
                f"{type(self.model).__name__} did not return the attention weights of {name}",
                'load the model with attn_implementation="eager"',
            )
        if self.scores and scores is None:
            raise HeadscopeError(
                f"the queries and keys of {name} cannot be seen", "ask for the attention weights instead"
            )
        self._sink(
            LayerHeads(
                stack,
                layer,
                name,
                outputs,
                weights if self.weights else None,
                # What a model pads values with, to reach a width its kernels like, is no part of them.
                values[..., : outputs.shape[-1]] if self.values and values is not None else None,
                readable if self.weights or self.scores else None,
                scores,
            )
        )


def reads_backwards(module: nn.Module, readable: Tensor | None, length: int) -> bool:
    """Whether attention is causal: from what a token may read, and for a single token from the module's own word."""
    if length == 1:
        return bool(getattr(module, "is_causal", False))
    if readable is None:
        return False
    ahead = torch.ones(readable.shape[-2:], dtype=torch.bool, device=readable.device).triu(1)
    return not bool((readable & ahead).any())
