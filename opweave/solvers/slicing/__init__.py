"""Solvers of slicing."""
