"""Solvers of placement with blocking calls (``transfers="blocking"``)."""
