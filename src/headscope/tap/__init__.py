"""The one place that reaches into a model: what each head read and wrote, layer by layer."""

from headscope.tap.core import tap
from headscope.tap.records import LayerHeads

__all__ = ["LayerHeads", "tap"]
