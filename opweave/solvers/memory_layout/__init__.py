"""Solvers of memory layout, in the same files as those of every problem."""
