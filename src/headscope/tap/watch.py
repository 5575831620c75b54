"""The second route: models that compute attention in their own code, off transformers' interface.

All of them do the same thing in the end: a softmax over scores, perhaps a dropout, a cast or a view, and a matrix
product of the result with the values. This mode watches the torch functions that a forward pass calls, follows a
softmax's result to the product that consumes it, and so finds A, V and O = A·V without knowing the model's code.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

# What may happen to the weights between the softmax and the product without making them something else.
KEEPS_WEIGHTS = frozenset(
    "dropout to type type_as float half bfloat16 view reshape contiguous clone expand masked_fill "
    "nan_to_num mul __mul__ flatten unflatten squeeze unsqueeze __getitem__".split()
)
PRODUCTS = frozenset(("matmul", "__matmul__", "bmm"))
SOFTMAX = frozenset(("softmax", "_softmax"))
MASKED = -9e3  # a score below this is a masked one: models use the dtype's minimum, -inf, or at least -10,000


class Watch(TorchFunctionMode):
    """Calls `record(module, outputs, weights, values, readable)` for each attention product it sees.

    `modules` is the stack of modules being executed, kept by the tap; `batch` tells how many texts are in the batch,
    for models that fold batch and heads into one dimension.
    """

    def __init__(
        self, record: Callable[..., Any], modules: list[nn.Module], batch: Callable[[], int], wants_readable: bool
    ) -> None:
        super().__init__()
        self._record, self._modules, self._batch, self._wants_readable = record, modules, batch, wants_readable
        self._scores: Tensor | None = None
        self._from_softmax: dict[int, Tensor] = {}  # the latest softmax's result and what was made of it, by id()

    def __torch_function__(
        self, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        result = function(*args, **(kwargs or {}))
        name = getattr(function, "__name__", "")
        if name in SOFTMAX:
            self._from_softmax = {id(result): result}
            self._scores = args[0] if args else (kwargs or {}).get("input")
        elif self._from_softmax and args and id(args[0]) in self._from_softmax:
            if name in PRODUCTS and len(args) > 1 and self._is_attention(args[0], args[1]):
                self._hand_over(weights=args[0], values=args[1], outputs=result)
            elif name in KEEPS_WEIGHTS and isinstance(result, Tensor):
                self._from_softmax[id(result)] = result
        return result

    def _is_attention(self, weights: Tensor, values: Tensor) -> bool:
        return bool(self._modules) and weights.ndim >= 3 and values.ndim >= 3

    def _hand_over(self, weights: Tensor, values: Tensor, outputs: Tensor) -> None:
        scores, self._from_softmax, self._scores = self._scores, {}, None
        module = self._modules[-1]
        readable = None
        if self._wants_readable and scores is not None:
            readable = self._by_head(scores[..., : weights.shape[-1]] > MASKED)  # less the column of a sink
        self._record(
            module,
            outputs=self._by_head(outputs),  # (B, H, Tq, d)
            weights=self._by_head(weights),  # (B, H, Tq, Tk)
            values=self._by_head(values),  # (B, H, Tk, d)
            readable=readable,
        )

    def _by_head(self, tensor: Tensor) -> Tensor:
        """(B, H, T, x) from itself or from (B·H, T, x)."""
        return tensor if tensor.ndim == 4 else tensor.reshape(self._batch(), -1, *tensor.shape[-2:])
