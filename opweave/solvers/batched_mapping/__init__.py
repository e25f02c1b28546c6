"""Solvers of batched mapping."""
