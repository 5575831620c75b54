"""Runs: a collection of texts through a model, shard by shard, in a folder that survives a crash."""

from headscope.runs.analysis import analyze
from headscope.runs.estimate import RunCost, estimate

__all__ = ["RunCost", "analyze", "estimate"]
