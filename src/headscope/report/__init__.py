"""The report: findings, figures, examples and settings of a result in one file that anybody can open."""

from headscope.report.core import write_report
from headscope.report.reproduction import Reproduction, reproduce

__all__ = ["Reproduction", "reproduce", "write_report"]
