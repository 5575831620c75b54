"""The one place that reaches into a model: what each head read and wrote, layer by layer."""

from headscope.tap.records import LayerHeads, Scores
from headscope.tap.tapping import tap

__all__ = ["LayerHeads", "Scores", "tap"]
