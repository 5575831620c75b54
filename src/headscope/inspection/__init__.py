"""One text, every head: what `model.inspect` returns."""

from headscope.inspection.inspection import Inspection
from headscope.inspection.parts import FocalToken
from headscope.inspection.reading import inspect

__all__ = ["FocalToken", "Inspection", "inspect"]
