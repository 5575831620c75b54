"""The answer in three plain sentences, for somebody who has five minutes: how much holds, what holds, what does not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from headscope.findings.claims import claim
from headscope.findings.finding import DOES_NOT_HOLD, HOLDS, NONE, OPEN, QUALIFIED

if TYPE_CHECKING:
    from headscope.findings.finding import Finding, Findings

# What is said of so many statements of one verdict: of one, and of several.
COUNTED = {
    HOLDS: ("holds", "hold"),
    QUALIFIED: ("holds with a reservation", "hold with a reservation"),
    DOES_NOT_HOLD: ("does not hold", "do not hold"),
    OPEN: ("stays open", "stay open"),
    NONE: ("has no verdict", "have no verdict"),
}


def in_short(findings: Findings) -> tuple[str, str, str]:
    """Three sentences that need neither the table nor the paper."""
    by_verdict = {verdict: [f for f in findings if f.verdict == verdict] for verdict in COUNTED}
    without, holds, fails = (by_verdict[verdict] for verdict in (NONE, HOLDS, DOES_NOT_HOLD))
    if len(without) == len(findings):
        reasons = " and ".join(dict.fromkeys(f.reason for f in without))
        return (
            f"None of the {len(findings)} statements has a verdict: {reasons}.",
            "The numbers are what these texts give.",
            "They may be due to chance, or to how S was read.",
        )
    counts = [f"{len(own)} {COUNTED[verdict][len(own) > 1]}" for verdict, own in by_verdict.items() if own]
    listed = f"{', '.join(counts[:-1])} and {counts[-1]}" if len(counts) > 1 else counts[0]
    return (
        f"Of {len(findings)} statements, {listed}.",
        f"What holds: {plainly(holds)}." if holds else "None holds without a reservation.",
        f"What does not hold: {plainly(fails)}." if fails else "None is refuted.",
    )


def plainly(findings: Sequence[Finding]) -> str:
    """Their claims in plain words, each with the key that it has in the table."""
    return "; ".join(f"{claim(f.key).plain} ({f.key})" for f in findings)
