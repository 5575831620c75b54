"""One text, every head: what `model.inspect` returns."""

from headscope.inspection.core import Inspection
from headscope.inspection.reading import inspect
from headscope.inspection.tables import FocalToken, Options

__all__ = ["FocalToken", "Inspection", "Options", "inspect"]
