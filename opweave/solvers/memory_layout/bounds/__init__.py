"""Lower bounds of memory layout."""
