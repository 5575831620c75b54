"""The answer in three plain sentences, for somebody who has five minutes.

They say what holds, what holds with a reservation, and what does not hold or stays open; every statement is in one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from headscope.errors import numbered
from headscope.findings.checks import FAILS
from headscope.findings.claims import claim
from headscope.findings.finding import DOES_NOT_HOLD, HOLDS, NONE, OPEN, QUALIFIED, VERDICTS
from headscope.findings.sentences import with_rotated_too

if TYPE_CHECKING:
    from headscope.findings.finding import Finding, Findings


def in_short(findings: Findings) -> tuple[str, str, str]:
    """Three sentences that need neither the table nor the paper."""
    own = {verdict: [f for f in findings if f.verdict == verdict] for verdict in VERDICTS}
    if len(own[NONE]) == len(findings):
        reasons = " and ".join(dict.fromkeys(f.reason for f in findings))
        return (
            f"None of the {len(findings)} statements has a verdict: {reasons}.",
            "The numbers are what these texts give.",
            "They may be due to chance, or to how S was read.",
        )
    apart = [f for f in own[HOLDS] if with_rotated_too(f)]
    plain = [f for f in own[HOLDS] if f not in apart]
    return (_holds(plain, apart, len(findings)), _qualified(own[QUALIFIED]), _others(own))


def _holds(findings: Sequence[Finding], apart: Sequence[Finding], number: int) -> str:
    """Those that hold; apart from them those that hold where sentences mean nothing, too."""
    said = f"None of the {number} statements holds without a reservation."
    if findings:
        said = f"{len(findings)} of {number} statements {_verb(findings, 'hold')}: {_named(findings)}."
    if apart:
        more = " more" if findings else ""
        said += f" {len(apart)}{more} {_verb(apart, 'hold')} by the method's rule: {_named(apart)}."
    return said


def _qualified(findings: Sequence[Finding]) -> str:
    if not findings:
        return "None holds with a reservation."
    return f"{len(findings)} {_verb(findings, 'hold')} with a reservation: {_named(findings)}."


def _others(own: dict[str, list[Finding]]) -> str:
    parts = []
    if fails := own[DOES_NOT_HOLD]:
        verb = "does" if len(fails) == 1 else "do"
        parts.append(f"{len(fails)} {verb} not hold: it is not the case that {_named(fails, 'that ', 'or ')}")
    if still := own[OPEN]:
        parts.append(f"{len(still)} {_verb(still, 'stay')} open: whether {_named(still, 'whether ')}")
    if without := own[NONE]:
        verb = "has" if len(without) == 1 else "have"
        parts.append(f"{len(without)} {verb} no verdict: whether {_named(without, 'whether ')}")
    return f"{'. '.join(parts)}." if parts else "None is refuted or open."


def _verb(findings: Sequence[Finding], verb: str) -> str:
    return verb if len(findings) > 1 else f"{verb}es" if verb.endswith("s") else f"{verb}s"


def _named(findings: Sequence[Finding], each: str = "", joint: str = "and ") -> str:
    """Their claims in plain words, with the keys of the table; `each` stands before all but the first."""
    clauses = [f"{claim(f.key).plain} ({f.key}{_but(f)})" for f in findings]
    first, *others = clauses
    if not others:
        return first
    *middle, last = [f"{each}{clause}" for clause in others]
    return "; ".join([first, *middle, f"{joint}{last}"])


def _but(finding: Finding) -> str:
    """What whoever reads no further should know: failing controls, and single layers that do otherwise."""
    found = []
    if finding.verdict == QUALIFIED:
        found = list(dict.fromkeys(each.without.partition(": ")[2] for each in finding.controls if each.state == FAILS))
    if with_rotated_too(finding):
        found.append("it is also there where sentence boundaries mean nothing")
    if finding.verdict == HOLDS and finding.layers_short:
        found.append(f"not in {numbered('layer', finding.layers_short)}")
    if finding.verdict == HOLDS and finding.middle:
        found.append("less than the middle ones")
    if finding.verdict == DOES_NOT_HOLD and finding.layers_beyond:
        by = "by dot " if any(each.reading == "cosine" for each in finding.controls) else ""
        found.append(f"{by}it is so in {numbered('layer', finding.layers_beyond)}")
    return f", but {' and '.join(found)}" if found else ""
