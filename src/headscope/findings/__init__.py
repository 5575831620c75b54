"""Derived numbers, intervals, controls and verdicts: from a result to an answer."""
