"""Derived numbers, intervals and verdicts: from a result to an answer."""

from headscope.findings.claims import CLAIMS, Claim
from headscope.findings.controls import Controls
from headscope.findings.estimates import quantity
from headscope.findings.floor import Untrained
from headscope.findings.verdicts import Finding, Findings, findings
from headscope.measures.quantities import QUANTITIES

__all__ = ["CLAIMS", "QUANTITIES", "Claim", "Controls", "Finding", "Findings", "Untrained", "findings", "quantity"]
