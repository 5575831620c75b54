"""A corpus result: every sum of the method, labelled, on disk as one netCDF file."""

from headscope.result.result import Result

__all__ = ["Result"]
