"""Derived numbers, intervals and verdicts: from a result to an answer."""

from headscope.findings.claims import CLAIMS, Claim
from headscope.findings.floor import Floor
from headscope.findings.quantities import QUANTITIES, quantity
from headscope.findings.verdicts import Finding, Findings, findings

__all__ = ["CLAIMS", "QUANTITIES", "Claim", "Finding", "Findings", "Floor", "findings", "quantity"]
