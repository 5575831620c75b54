"""Derived numbers, intervals, controls and verdicts: from a result to an answer."""

from headscope.extras import require
from headscope.findings.checks import CANNOT_TELL, FAILS, NOT_RUN, PASSES, Check, RunNumber
from headscope.findings.claims import CLAIMS, Claim
from headscope.findings.estimates import quantity
from headscope.findings.finding import MARKS, VERDICTS, Finding, Findings
from headscope.findings.numbers import Number, Numbers
from headscope.findings.verdicts import findings
from headscope.measures.quantities import QUANTITIES

require("working out findings", "scipy")

__all__ = [
    "CANNOT_TELL",
    "CLAIMS",
    "FAILS",
    "MARKS",
    "NOT_RUN",
    "PASSES",
    "QUANTITIES",
    "VERDICTS",
    "Check",
    "Claim",
    "Finding",
    "Findings",
    "Number",
    "Numbers",
    "RunNumber",
    "findings",
    "quantity",
]
