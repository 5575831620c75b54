"""How a model is loaded, so that another process loads the same, and what is to be known of it without loading it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headscope.control import Control
from headscope.errors import HeadscopeError

if TYPE_CHECKING:
    from headscope.models.check import Stack
    from headscope.models.model import Model


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """The arguments of `headscope.load`. A folder has to be there wherever the model is loaded.

    >>> ModelSpec(None, device="cpu").load()
    Model('headscope/bert12', BertModel, encoder 12 layers × 12 heads, cpu, float32)
    """

    name: str | None = None
    device: str = "auto"
    dtype: str = "auto"
    revision: str | None = None
    check: bool = True
    control: str | None = None

    def load(self) -> Model:
        """Load the model."""
        from headscope.models.load import load

        return load(
            self.name, device=self.device, dtype=self.dtype, revision=self.revision, check=self.check,
            control=self.control,
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """What a run has to know of a model before its texts are read, whoever has loaded it."""

    name: str
    stacks: dict[str, Stack]
    max_length: int
    default_window: int
    around: int  # special tokens of a window
    dtype: str
    device: str  # its kind: "cpu", "cuda", "mps"
    control: Control | None


def facts_of(model: Model) -> ModelFacts:
    """The facts of a loaded model."""
    return ModelFacts(
        model.name,
        model.stacks,
        model.max_length,
        model.default_window,
        len(model.template.start) + len(model.template.end),
        str(model.network.dtype).removeprefix("torch."),
        model.network.device.type,
        model.control,
    )


def spec_of(model: Any) -> ModelSpec:
    """How a model, a name or None (the embedded model) is loaded elsewhere."""
    if isinstance(model, ModelSpec):
        return model
    if model is None or isinstance(model, str):
        return ModelSpec(model)
    spec: ModelSpec | None = model.spec
    if spec is None:
        raise HeadscopeError(
            f"{model.name!r} was not loaded by headscope.load, by a name, so that other processes cannot load it",
            "save it to a folder (network.save_pretrained, tokenizer.save_pretrained) and name that, or run it in this "
            "process",
        )
    return spec
