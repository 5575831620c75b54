"""Numbers derived from counts."""
