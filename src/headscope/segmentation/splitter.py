"""Segments as other tools want them: an object that drops in where a text splitter is expected.

LangChain and LlamaIndex are not needed for it, and not imported: both ask an object only for what it can do.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from headscope.errors import HeadscopeError
from headscope.segmentation.segmenter import CutOptions, Segmenter

if TYPE_CHECKING:
    from headscope.models.model import Model
    from headscope.segmentation.head_weights import HeadWeights

USUAL_TOKENS = 256  # of a chunk, at most


class Splitter:
    """Cuts texts and documents into chunks for retrieval; the options are those of `Segmenter`.

    A chunk has 256 tokens at most, unless `max_tokens` is given. `model` may also be what `load` takes. A document
    without any text has no chunk.

    >>> splitter = Splitter(max_tokens=16)
    >>> splitter.split_text("It rained all night. The streets were wet. Nobody went out before noon that day.")
    ['It rained all night. The streets were wet.', 'Nobody went out before noon that day.']
    """

    def __init__(
        self,
        model: Model | str | Path | None = None,
        weights: HeadWeights | str | Path | None = None,
        **options: Unpack[CutOptions],
    ) -> None:
        if model is None or isinstance(model, (str, Path)):
            from headscope.models.load import load

            model = load(model)
        options.setdefault("max_tokens", USUAL_TOKENS)
        self.segmenter = Segmenter(model, weights, **options)

    def split_text(self, text: str) -> list[str]:
        """The chunks of a text."""
        return [each.text for each in self.segmenter.split(text)]

    def split_documents(self, documents: Iterable[Any]) -> list[Any]:
        """The chunks of documents, as documents of the same kind.

        Each has its document's metadata, and with them where the chunk stands in it: `start_index`, in characters.
        """
        if not isinstance(documents, Iterable) or isinstance(documents, str):
            raise HeadscopeError(f"{type(documents).__name__} is not a list of documents", "give a list")
        return [chunk for document in documents for chunk in self._chunks(document)]

    def _chunks(self, document: Any) -> list[Any]:
        field = next((name for name in ("page_content", "text") if isinstance(getattr(document, name, None), str)), "")
        if not field:
            raise HeadscopeError(
                f"{type(document).__name__} has neither page_content nor text",
                "give documents of LangChain or LlamaIndex",
            )
        metadata = dict(getattr(document, "metadata", None) or {})
        return [
            type(document)(**{field: each.text, "metadata": metadata | {"start_index": each.span[0]}})
            for each in self.segmenter.split(getattr(document, field))
        ]
