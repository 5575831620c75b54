"""The version, in a file of its own: every room may name it without importing the package's front door."""

__version__ = "0.1.0"
