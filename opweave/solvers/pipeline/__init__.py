"""Solvers of pipelines."""
