"""A corpus result: every sum of the method, labelled, on disk as one netCDF file."""

from headscope.result.core import Result

__all__ = ["Result"]
