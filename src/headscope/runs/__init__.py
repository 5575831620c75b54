"""Runs: a collection of texts through a model, shard by shard, in a folder that survives a crash."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headscope.runs.analysis import analyze
    from headscope.runs.estimate import RunCost, estimate

__all__ = ["RunCost", "analyze", "estimate"]


def __getattr__(name: str) -> Any:
    """Both need torch, and a finished run is opened without it."""
    if name == "analyze":
        from headscope.runs.analysis import analyze

        return analyze
    if name in ("RunCost", "estimate"):
        from headscope.runs import estimate as module

        return getattr(module, name)
    raise AttributeError(f"module 'headscope.runs' has no attribute {name!r}")
