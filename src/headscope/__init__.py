"""headscope: what every attention head of a transformer makes of a text.

>>> import headscope
>>> headscope.load()
Model('headscope/bert12', BertModel, encoder 12 layers × 12 heads, cpu, float32)
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from headscope.errors import HeadscopeError
from headscope.version import __version__

if TYPE_CHECKING:
    from headscope.inspection import Inspection
    from headscope.models.convert import convert
    from headscope.models.load import load
    from headscope.models.model import Model
    from headscope.report import reproduce
    from headscope.result import Result
    from headscope.runs.analysis import analyze
    from headscope.runs.builder import ResultBuilder
    from headscope.segmentation import Segment, Segmenter, Splitter, segment
    from headscope.texts import passages

__all__ = [
    "HeadscopeError",
    "Inspection",
    "Model",
    "Result",
    "ResultBuilder",
    "Segment",
    "Segmenter",
    "Splitter",
    "__version__",
    "analyze",
    "convert",
    "load",
    "passages",
    "reproduce",
    "segment",
]

# Everything below needs torch or transformers, which take seconds to import: each name is fetched when first used.
_HOMES = {
    "Inspection": "headscope.inspection",
    "Model": "headscope.models.model",
    "Result": "headscope.result",
    "ResultBuilder": "headscope.runs.builder",
    "Segment": "headscope.segmentation",
    "Segmenter": "headscope.segmentation",
    "Splitter": "headscope.segmentation",
    "analyze": "headscope.runs.analysis",
    "convert": "headscope.models.convert",
    "load": "headscope.models.load",
    "passages": "headscope.texts",
    "reproduce": "headscope.report",
    "segment": "headscope.segmentation",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'headscope' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
