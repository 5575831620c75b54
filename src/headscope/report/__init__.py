"""The report: findings, figures, examples and settings of a result in one file that anybody can open."""

from headscope.report.reproduction import Reproduction, reproduce
from headscope.report.writing import write_report

__all__ = ["Reproduction", "reproduce", "write_report"]
