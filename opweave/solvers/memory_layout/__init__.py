"""Solvers of memory layout."""
