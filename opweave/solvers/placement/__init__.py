"""Solvers of placement."""
