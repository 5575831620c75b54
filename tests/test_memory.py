"""Inspecting 512 tokens with a model of BERT-base's size fits the memory that is promised."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


@pytest.mark.long
def test_peak_memory_of_inspect_at_512_tokens() -> None:
    """In a process of its own, so that nothing else is counted."""
    code = f"import sys, json; sys.path.insert(0, {str(BENCHMARKS)!r}); import inspect_memory as m; " + (
        "print(json.dumps([m.LIMIT, m.measure()]))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    limit, rows = json.loads(done.stdout)
    peaks = {name: peak for name, peak, _ in rows}
    assert 150e6 < peaks["inspect"] < limit  # at least the attention weights, or nothing was measured
    assert max(peaks.values()) < limit  # and still with similarity, levels, the grid and the saved file
