"""Solvers of placement; importing this package registers them all."""
