"""Solvers of memory ordering."""
