"""Cutting text where the heads of a model cut it: into topics, or into sentences where there is no punctuation."""

from headscope.segmentation.cut import Cut, DecidingHead, Segment
from headscope.segmentation.fit import fit
from headscope.segmentation.head_weights import HeadWeights, read_head_weights
from headscope.segmentation.segmenter import Segmenter, segment
from headscope.segmentation.splitter import Splitter

__all__ = [
    "Cut",
    "DecidingHead",
    "HeadWeights",
    "Segment",
    "Segmenter",
    "Splitter",
    "fit",
    "read_head_weights",
    "segment",
]
